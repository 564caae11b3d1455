#include "fabric/tcp/outbox.h"

#include <algorithm>
#include <array>

namespace verbena::fabric::tcp {
namespace {

constexpr size_t pieces_max = 4;
constexpr size_t small_kept_max = 16 * KiB;  // of capacity, once it is empty

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
  Outgoing& next = *waiting_.front();
  payload_left_ = static_cast<uint32_t>(std::min<uint64_t>(next.left, payload_size_max));
  head_size_ = encode({.type = next.type, .payload = payload_left_, .id = next.id, .offset = next.offset}, head_);
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
    std::array<iovec, 3> places;
    size_t count = 0, size = 0;
    // A frame in progress is completed first.
    const bool small_first = !in_frame_;
    if (small_first && copied() != 0) places[count++] = {small_.data() + small_sent_, copied()};
    if (!waiting_.empty()) {
      if (!in_frame_) begin_frame();
      if (head_sent_ < head_size_) places[count++] = {head_.data() + head_sent_, head_size_ - head_sent_};
      places[count++] = {const_cast<std::byte*>(waiting_.front()->bytes), payload_left_};
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
    if (in_frame_) took(rest, done);
    // Sealed bytes were all taken, whatever the socket did; a plain socket that took less is full.
    if (sent < size && !stream.encrypted()) break;
  }
  note_progress(moved);
  if (empty() && !stream.backlogged()) idle_ = true;
  return {};
}

void Outbox::took(size_t size, std::vector<Outgoing*>& done) {
  const size_t head = std::min(size, head_size_ - head_sent_);
  head_sent_ += head;
  size -= head;
  Outgoing& current = *waiting_.front();
  payload_left_ -= static_cast<uint32_t>(size);
  current.bytes += size;
  current.offset += size;
  current.left -= size;
  if (payload_left_ != 0) {
    if (head_sent_ == 0) in_frame_ = false;
    return;
  }
  in_frame_ = false;
  waiting_.pop_front();
  if (current.left == 0) {
    done.push_back(&current);
  } else {
    waiting_.push_back(&current);
  }
}

void Outbox::note_progress(bool moved) {
  if (moved || idle_) progress_at_ = SteadyClock::now();
  idle_ = false;
}

}  // namespace verbena::fabric::tcp
