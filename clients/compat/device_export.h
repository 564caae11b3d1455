// Memory of a GPU as a dma-buf, by which RDMA devices reach it themselves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::compat {

// Holds the memory that was there, also if it is freed meanwhile.
class DeviceExport {
 public:
  // Throws FabricFault: it is not one device's memory, the driver exports none, or the device's later work is not sure
  // to see what others have written: no call says here when a transfer has ended.
  DeviceExport(void* memory, size_t size);
  ~DeviceExport();
  DeviceExport(const DeviceExport&) = delete;
  DeviceExport& operator=(const DeviceExport&) = delete;

  int descriptor() const { return descriptor_; }
  uint64_t begin() const { return begin_; }  // the device's address of its first byte
  int device() const { return device_; }

 private:
  int descriptor_ = -1;
  uint64_t begin_ = 0;
  int device_ = -1;
};

}  // namespace verbena::compat
