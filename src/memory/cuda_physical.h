// Memory of the virtual memory API of CUDA and HIP (cuMemCreate, cuMemMap): physical memory, mapped at an address where
// other physical memory may be mapped later. Another process gets it as a file descriptor.
#pragma once

#include <memory>

#include "base/fd.h"
#include "memory/cuda.h"

namespace verbena::memory::cuda {

// The physical memory of one mapping. It exists as long as this object, also where it is unmapped meanwhile.
class Physical {
 public:
  // What is mapped there now. `failed`: memory of another kind, or a driver without such memory.
  static Outcome<std::shared_ptr<const Physical>> behind(const Driver& driver, const Allocation& mapping);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  uint64_t begin() const { return begin_; }
  uint64_t size() const { return size_; }
  // It is still what is mapped there.
  bool is_there() const;
  // For another process. `failed`: it was made without the right to be shared so.
  Outcome<Fd> descriptor() const;

 private:
  Physical(const Driver& driver, void* context, uint64_t handle, const Allocation& mapping)
      : driver_(driver), context_(context), handle_(handle), begin_(mapping.begin), size_(mapping.size) {}

  const Driver& driver_;
  void* const context_;
  const uint64_t handle_;
  const uint64_t begin_, size_;
};

}  // namespace verbena::memory::cuda
