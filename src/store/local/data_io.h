// Moves bytes between volumes and memory without blocking an event loop. Reads past the page cache, and such writes in
// place, go through the loop's io_uring, if it has one; bytes in the page cache are copied at once; all else goes over
// the blocking pool.
#pragma once

#include <atomic>
#include <memory>

#include "base/blocking.h"
#include "base/io_ring.h"
#include "base/task.h"
#include "store/local/volume.h"

namespace verbena::store::local {

class DataIo {
 public:
  explicit DataIo(BlockingPool& pool) : pool_(pool) {}

  // All of `into`, or an error. io_error with sys 0: the volume ends early. Offset, size and address are multiples of
  // 4096. The buffer must stay until the task ends.
  Task<Result<void>> read(std::shared_ptr<Volume> volume, uint64_t offset, MutableBytes into);
  // `in_place`: the range has been written before. Only such a write starts in the kernel without a thread that waits;
  // one that grows the file or converts an extent would take a thread of the kernel's instead of one of the pool's.
  Task<Result<void>> write(std::shared_ptr<Volume> volume, uint64_t offset, Bytes from, bool in_place = false);

  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }  // so far

 private:
  // The bytes read from the start of `into`, aligned unless they are all. Fewer: a thread reads the rest.
  static Task<Result<size_t>> read_by_ring(IoRing& ring, File& file, int fd, uint64_t offset, MutableBytes into);

  // Likewise the bytes written.
  static Task<Result<size_t>> write_by_ring(IoRing& ring, File& file, int fd, uint64_t offset, Bytes from);

  BlockingPool& pool_;
  std::atomic<uint64_t> operations_{0};
};

}  // namespace verbena::store::local
