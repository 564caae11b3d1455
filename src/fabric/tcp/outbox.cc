#include "fabric/tcp/outbox.h"

#include <algorithm>
#include <array>

namespace verbena::fabric::tcp {
namespace {

constexpr size_t pieces_max = 4;
// Of payloads that wait, sent by one call: a small one costs less than its record and its system call.
constexpr size_t frames_max = 8, together_max = 256 * KiB;
constexpr size_t small_kept_max = 16 * KiB;  // of capacity, once it is empty

// Of the next frame.
uint32_t payload_of(const Outgoing& next) {
  return static_cast<uint32_t>(std::min<uint64_t>(next.left, payload_size_max));
}
Frame frame_of(const Outgoing& next) {
  return {.type = next.type, .payload = payload_of(next), .id = next.id, .offset = next.offset};
}

}  // namespace

Result<void> Outbox::send(Stream& stream, const Frame& frame, std::span<const Bytes> pieces, bool more) {
  FrameHead head;
  std::array<iovec, 1 + pieces_max> places;
  places[0] = {head.data(), encode(frame, head)};
  size_t count = 1;
  for (const Bytes& piece : pieces.first(std::min(pieces.size(), pieces_max))) {
    places[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  }
  return send_frames(stream, std::span(places).first(count), more);
}

Result<void> Outbox::send_frames(Stream& stream, std::span<const iovec> places, bool more) {
  size_t size = 0, sent = 0;
  for (const iovec& place : places) size += place.iov_len;
  if (empty()) {
    VB_ASSIGN(sent, stream.write(places, more));
    if (sent == size) {
      if (stream.backlogged()) note_progress(true);
      return {};
    }
  } else if (copied() + size > queued_max_) {
    return fail(Errc::would_block, "tcp: the peer's queue is full");
  }
  // The stream reports when it takes more.
  for (const iovec& place : places) {
    const size_t skip = std::min(sent, place.iov_len);
    sent -= skip;
    const auto* from = static_cast<const std::byte*>(place.iov_base);
    small_.insert(small_.end(), from + skip, from + place.iov_len);
  }
  note_progress(false);
  return {};
}

bool Outbox::cancel(const Outgoing& outgoing) {
  const auto found = std::ranges::find(waiting_, &outgoing);
  if (found == waiting_.end()) return true;
  if (found == waiting_.begin() && in_frame_) return false;
  waiting_.erase(found);
  return true;
}

void Outbox::begin_frame() {
  const Outgoing& next = *waiting_.front();
  payload_left_ = payload_of(next);
  head_size_ = encode(frame_of(next), head_);
  head_sent_ = 0;
  in_frame_ = true;
}

Result<void> Outbox::flush(Stream& stream, std::vector<Outgoing*>& done) {
  bool moved = false;
  for (;;) {
    if (stream.backlogged()) {
      VB_TRY(stream.flush());
      if (stream.backlogged()) break;
      moved = true;
    }
    if (empty()) break;
    std::array<iovec, 1 + 2 * frames_max> places;
    std::array<FrameHead, frames_max> heads;
    size_t count = 0, size = 0;
    // A frame in progress is completed first.
    const bool small_first = !in_frame_;
    if (small_first && copied() != 0) places[count++] = {small_.data() + small_sent_, copied()};
    if (!waiting_.empty()) {
      if (!in_frame_) begin_frame();
      if (head_sent_ < head_size_) places[count++] = {head_.data() + head_sent_, head_size_ - head_sent_};
      places[count++] = {const_cast<std::byte*>(waiting_.front()->bytes), payload_left_};
    }
    // Those behind it, a frame each, in the order in which took() gets to them. Small frames that wait for the end of
    // the one in progress go first: a call that takes only a part would end within another payload, time and again.
    const size_t frames = small_first || copied() == 0 ? std::min(waiting_.size(), frames_max) : 1;
    size_t together = payload_left_;
    for (size_t i = 1; i < frames; ++i) {
      const Outgoing& next = *waiting_[i];
      together += payload_of(next);
      if (together > together_max) break;
      places[count++] = {heads[i].data(), encode(frame_of(next), heads[i])};
      places[count++] = {const_cast<std::byte*>(next.bytes), payload_of(next)};
    }
    for (size_t i = 0; i < count; ++i) size += places[i].iov_len;
    VB_ASSIGN(const size_t sent, stream.write(std::span(places).first(count)));
    if (sent == 0) break;
    moved = true;
    size_t rest = sent;
    if (small_first && copied() != 0) {
      const size_t small = std::min(rest, copied());
      small_sent_ += small;
      rest -= small;
      if (copied() != 0) {
        in_frame_ = false;  // its head was not sent yet
      } else {
        if (small_.capacity() > small_kept_max) small_ = {};
        small_.clear();
        small_sent_ = 0;
      }
    }
    while (rest != 0 || in_frame_) {
      if (!in_frame_) begin_frame();
      rest -= took(rest, done);
      if (payload_left_ != 0) break;
    }
    // Sealed bytes were all taken, whatever the socket did; a plain socket that took less is full.
    if (sent < size && !stream.encrypted()) break;
  }
  note_progress(moved);
  if (empty() && !stream.backlogged()) idle_ = true;
  return {};
}

// Returns how many of these bytes were the frame's.
size_t Outbox::took(size_t size, std::vector<Outgoing*>& done) {
  const size_t head = std::min(size, head_size_ - head_sent_);
  head_sent_ += head;
  const auto payload = static_cast<uint32_t>(std::min<size_t>(size - head, payload_left_));
  Outgoing& current = *waiting_.front();
  payload_left_ -= payload;
  current.bytes += payload;
  current.offset += payload;
  current.left -= payload;
  if (payload_left_ != 0) {
    if (head_sent_ == 0) in_frame_ = false;
    return head + payload;
  }
  in_frame_ = false;
  waiting_.pop_front();
  if (current.left == 0) {
    done.push_back(&current);
  } else {
    waiting_.push_back(&current);
  }
  return head + payload;
}

void Outbox::note_progress(bool moved) {
  if (moved || idle_) progress_at_ = SteadyClock::now();
  idle_ = false;
}

}  // namespace verbena::fabric::tcp
