// From bytes as they arrive to frames. Small things go through a scratch buffer that a thread shares among its
// connections; the payload of writes and data is received where it belongs.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "fabric/tcp/frame.h"

namespace verbena::fabric::tcp {

// What a side does with frames. An error ends the connection.
class FrameReceiver {
 public:
  virtual Result<void> message(Bytes message) = 0;  // valid during the call
  // A write or data begins: where its payload goes. nullptr: nowhere, it is skipped.
  virtual Result<std::byte*> landing(const Frame& frame) = 0;
  virtual Result<void> landed(const Frame& frame) = 0;   // its last byte came, or was skipped
  virtual Result<void> control(const Frame& frame) = 0;  // read, refused
  // False: others have their turn first. What has come already waits until resume().
  virtual bool may_go_on() { return true; }

 protected:
  ~FrameReceiver() = default;
};

class FrameReader {
 public:
  FrameReader(Side side, size_t message_size_max) : side_(side), message_size_max_(message_size_max) {}

  // At least this much scratch.
  static size_t scratch_size(size_t message_size_max) { return std::max<size_t>(64 * KiB, 2 * message_size_max); }

  // Where the next bytes go: one or two places. What is written there counts by received(), with the same scratch,
  // which nobody else may use in between.
  std::span<iovec> targets(MutableBytes scratch);
  // malformed, or what the receiver said: the connection is of no use any more.
  Result<void> received(size_t size, MutableBytes scratch, FrameReceiver& receiver);
  // The receiver had enough for a turn: nothing is to be received before resume() has gone through the rest.
  bool paused() const { return paused_; }
  Result<void> resume(MutableBytes scratch, FrameReceiver& receiver);

  // The payload that is being received, if any.
  const Frame* under_way() const { return left_ != 0 ? &frame_ : nullptr; }
  // Its memory is not to be touched any more: the rest of it is skipped.
  void skip_rest() { into_ = nullptr; }

 private:
  Result<void> parse(Bytes bytes, FrameReceiver& receiver);
  Result<size_t> begin_frame(Bytes bytes, FrameReceiver& receiver);
  Result<void> took(size_t size, FrameReceiver& receiver);

  const Side side_;
  const size_t message_size_max_;
  Frame frame_;                // whose payload is under way
  uint32_t left_ = 0;          // of it
  std::byte* into_ = nullptr;  // where the next of it goes
  // A frame's beginning, less than a head and a message; when paused, whole frames, too.
  std::vector<std::byte> begun_;
  bool paused_ = false;
  iovec targets_[2];
  size_t direct_ = 0;  // bytes of the first target that are payload's own place
};

}  // namespace verbena::fabric::tcp
