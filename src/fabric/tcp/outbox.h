// The send queue of a connection: small frames, copied, and payload that is sent from its own memory. Small frames go
// first, between frames; payloads take turns, a frame each.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/clock.h"
#include "fabric/tcp/frame.h"
#include "fabric/tcp/stream.h"

namespace verbena::fabric::tcp {

// Payload to be sent, as one or several frames. Owned by the transfer that waits for it.
struct Outgoing {
  FrameType type = FrameType::write;
  uint64_t id = 0;  // the window, or the operation
  uint64_t offset = 0;
  const std::byte* bytes = nullptr;  // the first byte that is not in a frame yet
  uint64_t left = 0;                 // from there on
};

class Outbox {
 public:
  explicit Outbox(size_t queued_max) : queued_max_(queued_max) {}

  bool empty() const { return copied() == 0 && waiting_.empty(); }
  // Bytes of waiting small frames.
  size_t copied() const { return small_.size() - small_sent_; }

  // Sends one frame whose payload is in `pieces`. What the stream does not take at once is copied. would_block: too
  // much waits already, nothing of this was sent.
  Result<void> send(Stream& stream, const Frame& frame, std::span<const Bytes> pieces, bool more = false);
  // Whole frames, likewise.
  Result<void> send_frames(Stream& stream, std::span<const iovec> places, bool more = false);
  // Adds payload, which flush() sends. `outgoing` must stay in place until it is done or cancelled.
  void add(Outgoing& outgoing) {
    waiting_.push_back(&outgoing);
    note_progress(false);
  }
  // False: one of its frames is half sent, so that the connection is unusable without the rest.
  bool cancel(const Outgoing& outgoing);

  // Sends what the stream takes. `done` receives what was sent completely, for the caller to process.
  Result<void> flush(Stream& stream, std::vector<Outgoing*>& done);
  // Whether the stream has taken nothing since that time although something waits.
  bool stalled_since(SteadyClock::time_point before) const { return !idle_ && progress_at_ < before; }

 private:
  void begin_frame();
  size_t took(size_t size, std::vector<Outgoing*>& done);
  void note_progress(bool moved);

  const size_t queued_max_;
  std::vector<std::byte> small_;  // whole frames, except for the sent part of the first
  size_t small_sent_ = 0;
  std::deque<Outgoing*> waiting_;
  // The frame of waiting_.front() in progress.
  bool in_frame_ = false;
  FrameHead head_;
  size_t head_size_ = 0, head_sent_ = 0;
  uint32_t payload_left_ = 0;
  bool idle_ = true;
  SteadyClock::time_point progress_at_{};
};

}  // namespace verbena::fabric::tcp
