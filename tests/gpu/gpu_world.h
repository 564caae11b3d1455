// What tests over the driver double share.
#pragma once

#include <dlfcn.h>

#include "double.h"
#include "world.h"

namespace verbena::matrix {

// The driver of this process, and of those that it starts.
inline void use_the_double() {
  Dl_info info{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&double_allocate), &info), 0);
  ::setenv("TEST_VERBENA_CUDA_DRIVER", info.dli_fname, 1);
}

// Memory of a device of the double, for one test.
class OnDevice {
 public:
  explicit OnDevice(size_t size, int device = 0) : size_(size), address_(double_allocate(device, size)) {}
  ~OnDevice() { free(); }
  OnDevice(const OnDevice&) = delete;
  void free() {
    if (address_ != 0) double_free(address_);
    address_ = 0;
  }
  uint64_t address() const { return address_; }
  DeviceBuffer all() const { return {.address = address_, .size = size_}; }
  std::vector<std::byte> bytes(size_t offset, size_t size) const {
    std::vector<std::byte> out(size);
    double_peek(out.data(), address_ + offset, size);
    return out;
  }
  void set(const std::vector<std::byte>& bytes) { double_poke(address_, bytes.data(), bytes.size()); }

 private:
  size_t size_;
  uint64_t address_;
};

}  // namespace verbena::matrix
