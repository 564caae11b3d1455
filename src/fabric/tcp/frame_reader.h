// Splits received bytes into frames. Small frames go through a scratch buffer that a thread shares among its
// connections; the payload of writes and data is received directly into its destination.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "fabric/tcp/frame.h"

namespace verbena::fabric::tcp {

// One side's handling of frames. An error ends the connection.
class FrameReceiver {
 public:
  virtual Result<void> message(Bytes message) = 0;  // valid during the call
  // A write or data frame begins: returns the destination of its payload; nullptr: it is skipped.
  virtual Result<std::byte*> landing(const Frame& frame) = 0;
  virtual Result<void> landed(const Frame& frame) = 0;   // its last byte was received or skipped
  virtual Result<void> control(const Frame& frame) = 0;  // read, refused
  // False: others go first. Bytes received already wait until resume().
  virtual bool may_go_on() { return true; }

 protected:
  ~FrameReceiver() = default;
};

class FrameReader {
 public:
  FrameReader(Side side, size_t message_size_max) : side_(side), message_size_max_(message_size_max) {}

  // At least this much scratch.
  static size_t scratch_size(size_t message_size_max) { return std::max<size_t>(64 * KiB, 2 * message_size_max); }

  // The destinations of the next bytes: one or two. received() processes what was written there, with the same scratch,
  // which must not be used in between.
  std::span<iovec> targets(MutableBytes scratch);
  // malformed, or the receiver's error: the connection is unusable then.
  Result<void> received(size_t size, MutableBytes scratch, FrameReceiver& receiver);
  // The receiver stopped the turn: nothing may be received before resume() has processed the rest.
  bool paused() const { return paused_; }
  Result<void> resume(MutableBytes scratch, FrameReceiver& receiver);

  // The payload that is being received, if any.
  const Frame* under_way() const { return left_ != 0 ? &frame_ : nullptr; }
  // Stops using its destination: the rest of the payload is skipped.
  void skip_rest() { into_ = nullptr; }

 private:
  Result<void> parse(Bytes bytes, FrameReceiver& receiver);
  Result<size_t> begin_frame(Bytes bytes, FrameReceiver& receiver);
  Result<void> took(size_t size, FrameReceiver& receiver);

  const Side side_;
  const size_t message_size_max_;
  Frame frame_;                // whose payload is being received
  uint32_t left_ = 0;          // of its payload
  std::byte* into_ = nullptr;  // destination of the next byte
  // The beginning of a frame, less than a head and a message; when paused, whole frames, too.
  std::vector<std::byte> begun_;
  bool paused_ = false;
  iovec targets_[2];
  size_t direct_ = 0;  // bytes of the first target that are a payload's destination
};

}  // namespace verbena::fabric::tcp
