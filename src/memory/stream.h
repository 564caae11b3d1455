// Source and Sink: where a PUT's bytes come from and where a GET's bytes go. One handler in s3/ serves a verb for all
// doors; the doors differ in these two alone.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "base/task.h"
#include "memory/arena.h"

namespace verbena::memory {

class Source {
 public:
  virtual ~Source() = default;
  // Length in bytes when known before reading (decoded length for aws-chunked).
  virtual std::optional<uint64_t> size() const = 0;
  // Returns when read() would find a byte (or the end, or an error) without waiting for the peer: memory is leased
  // after this, so that a peer which sends nothing holds none. Sources that fetch the bytes themselves are always
  // ready.
  virtual Task<Result<void>> ready() { co_return Result<void>{}; }
  // Fills `into` from its start, completely unless the end comes first. Returns the bytes filled; fewer than
  // into.size() (also 0) only at the end. At the end, the source has verified what it can (declared length, payload
  // signature, chunk signatures, trailers); a violation is the error of the call that meets it, and the caller must
  // then store nothing.
  virtual Task<Result<size_t>> read(MutableBytes into) = 0;
};

// A body that lies in memory, in the pieces in which it lies there.
class Pieces {
 public:
  // The next one, in order. Empty when all were given, or when what follows is not in memory.
  virtual Chunk next() = 0;

 protected:
  ~Pieces() = default;
};

class Sink {
 public:
  virtual ~Sink() = default;
  // Called once, before any byte. An error means that nothing was sent and another sink may be tried.
  virtual Task<Result<void>> begin(uint64_t length) = 0;
  // begin(), each push() and, where nothing has to be waited for, finish(), in one call that does not suspend.
  // nullopt: this sink cannot; begin() is then the next call, and what has landed already is sent again. False:
  // finish() is still to be called.
  virtual std::optional<Result<bool>> send_at_once(uint64_t /*length*/, Pieces& /*pieces*/) { return std::nullopt; }
  // The next bytes, in order. Takes the chunk and may return before they are out (the sink keeps the lease until
  // then), so that reading the next chunk overlaps with sending this one. A sink bounds how many it holds.
  virtual Task<Result<void>> push(Chunk chunk) = 0;
  // Returns when nothing that was pushed still holds its lease for want of the peer. Asked where memory is scarce,
  // before the next chunk is read.
  virtual Task<Result<void>> drained() { co_return Result<void>{}; }
  // All bytes were pushed. Returns when they are out (HTTP: given to the kernel; RDMA: completed).
  // Not called after an error: the sink's destructor, or the error's own path, has drained what was posted.
  virtual Task<Result<void>> finish() = 0;
};

}  // namespace verbena::memory
