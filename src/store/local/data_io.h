// Moves bytes between volumes and memory without blocking an event loop, on the blocking pool.
#pragma once

#include <atomic>
#include <memory>

#include "base/blocking.h"
#include "base/task.h"
#include "store/local/volume.h"

namespace verbena::store::local {

class DataIo {
 public:
  explicit DataIo(BlockingPool& pool) : pool_(pool) {}

  // All of `into`, or an error. io_error with sys 0: the volume ends early. Offset, size and address are multiples of
  // 4096. The buffer must stay until the task ends.
  Task<Result<void>> read(std::shared_ptr<Volume> volume, uint64_t offset, MutableBytes into);
  Task<Result<void>> write(std::shared_ptr<Volume> volume, uint64_t offset, Bytes from);

  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }  // so far

 private:
  BlockingPool& pool_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace verbena::store::local
