// Source and Sink: the origin of a PUT's bytes and the destination of a GET's. One handler in s3/ serves a verb for all
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
  // Length in bytes if known before reading (decoded length for aws-chunked).
  virtual std::optional<uint64_t> size() const = 0;
  // Returns when read() would return a byte (or the end, or an error) without waiting for the peer: memory is leased
  // after this, so that a peer which sends nothing holds none. Sources that fetch the bytes themselves are always
  // ready.
  virtual Task<Result<void>> ready() { co_return Result<void>{}; }
  // Fills `into` from its start, completely unless the end comes first. Returns the bytes filled; fewer than
  // into.size() (also 0) only at the end. At the end, the source has verified what it can (declared length, payload
  // signature, chunk signatures, trailers); a violation is the error of the call that detects it, and the caller must
  // then store nothing.
  virtual Task<Result<size_t>> read(MutableBytes into) = 0;
  // Whether a device brings the bytes that read() asks for, while the core is free for other work: then the next piece
  // is asked for before the last one is digested and stored.
  virtual bool by_device() const { return false; }
  // Bytes that the peer has sent, those of a read() that failed among them. 0: not known.
  virtual uint64_t arrived() const { return 0; }
};

// The pieces of a body in memory.
class Pieces {
 public:
  // The next piece, in order. Empty at the end, or when the next bytes are not in memory.
  virtual Chunk next() = 0;

 protected:
  ~Pieces() = default;
};

// The outcome of Sink::send_at_once().
enum class AtOnce : uint8_t {
  sent,         // complete, as after finish()
  unfinished,   // finish() is the next call
  unsupported,  // begin() is the next call, and bytes written already are sent again
};

class Sink {
 public:
  virtual ~Sink() = default;
  // Called once, before any byte. An error means that nothing was sent and another sink may be tried.
  virtual Task<Result<void>> begin(uint64_t length) = 0;
  // begin(), each push() and, if no wait is needed, finish(), in one call that does not suspend.
  virtual Result<AtOnce> send_at_once(uint64_t /*length*/, Pieces& /*pieces*/) { return AtOnce::unsupported; }
  // The next bytes, in order. Takes the chunk and may return before they are sent (the sink keeps the lease until
  // then), so that reading the next chunk overlaps with sending this one. A sink bounds how many it holds.
  virtual Task<Result<void>> push(Chunk chunk) = 0;
  // Returns when no pushed chunk still waits for the peer. Called when memory is scarce, before the next chunk is read.
  virtual Task<Result<void>> drained() { co_return Result<void>{}; }
  // Called after the last push. Returns when all bytes are sent (HTTP: given to the kernel; RDMA: completed).
  // Not called after an error: the sink's destructor, or the error's own path, has drained what was posted.
  virtual Task<Result<void>> finish() = 0;
};

}  // namespace verbena::memory
