// Memory of a device for other devices of this host, which read and write it themselves (peer DMA): an RDMA device is
// given it as a dma-buf, or, where the driver exports none, finds it by its address with the kernel's peer memory.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "memory/cuda_physical.h"

namespace verbena::memory::cuda {

// Whether RDMA devices find a GPU's memory by its address: the kernel has NVIDIA's module for that, or AMD's driver has
// registered with the peer memory of an RDMA driver that has it (MLNX_OFED). TEST_VERBENA_PEER_MODULE, if it is set,
// says so for tests.
bool has_peer_module(Platform platform);
const char* peer_module(Platform platform);  // its name

// How the device's later work sees what other devices have written.
enum class PeerWrites : uint8_t {
  ordered,  // it does
  flushed,  // after a call of the driver
  unsure,
};
PeerWrites peer_writes(const Driver& driver, int device);

// A dma-buf that the memory's user has exported.
struct GivenDmaBuf {
  // `refused`: the descriptor is not open, or [offset, offset + size) is not inside. Whether it is a dma-buf the kernel
  // says when an RDMA device is given it.
  static Outcome<GivenDmaBuf> of(int descriptor, uint64_t offset, uint64_t size);

  Fd descriptor = {};   // this object's own
  uint64_t offset = 0;  // of the window's first byte
  uint64_t number = 0;  // the kernel's for this dma-buf; 0: there is none
};

// A range of addresses of a device. A dma-buf keeps the physical memory that was there, also if that is freed
// meanwhile: is_there() says whether it is still the same.
class PeerMemory {
 public:
  // [address, address + size), which these allocations cover. `failed`: no other device can reach it, or what one has
  // written would not be sure to be seen. `given` takes the place of an export of the driver's.
  static Outcome<std::shared_ptr<const PeerMemory>> of(const Driver& driver, const std::vector<Allocation>& allocations,
                                                       uint64_t address, uint64_t size, GivenDmaBuf given = {});
  PeerMemory(const PeerMemory&) = delete;

  Platform platform() const { return driver_.platform(); }
  int device() const { return device_; }
  int descriptor() const { return dma_buf_.get(); }  // of the dma-buf, this object's; -1: none
  uint64_t begin() const { return begin_; }          // the device's address of the dma-buf's first byte
  // The kernel finds the memory also without it: not where a dma-buf was given, whose memory alone is meant.
  bool by_address() const { return by_address_; }
  // What other devices reach at these addresses is what the device has there. Only memory of the virtual memory API can
  // be replaced: allocations are told from each other by their ids.
  bool is_there(uint64_t address, uint64_t size) const;
  // Called after other devices' writes have completed: work that the device begins later sees them.
  Outcome<> settle_writes() const;

 private:
  PeerMemory(const Driver& driver, void* context, int device) : driver_(driver), context_(context), device_(device) {}
  Outcome<> export_window(const std::vector<Allocation>& allocations, uint64_t address, uint64_t size);
  Outcome<> export_range(uint64_t begin, uint64_t end);

  const Driver& driver_;
  void* const context_;
  const int device_;
  bool by_address_ = has_peer_module(platform());
  bool flushes_ = false;  // the device does not order other devices' writes itself
  Fd dma_buf_;
  uint64_t begin_ = 0;
  std::vector<std::shared_ptr<const Physical>> pieces_;
};

}  // namespace verbena::memory::cuda
