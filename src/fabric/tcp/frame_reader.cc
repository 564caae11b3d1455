#include "fabric/tcp/frame_reader.h"
#include "base/copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace verbena::fabric::tcp {

std::span<iovec> FrameReader::targets(MutableBytes scratch) {
  direct_ = 0;
  // Another frame may follow a long one, and its payload should also be received in place.
  constexpr size_t room_behind = 4 * KiB, is_long = 64 * KiB;
  if (left_ != 0 && into_ != nullptr) {
    direct_ = left_;
    targets_[0] = {into_, left_};
    targets_[1] = {scratch.data(), frame_.payload < is_long ? scratch.size() : room_behind};
    return {targets_, 2};
  }
  // The saved beginning is put before its rest, so that a frame is contiguous.
  std::ranges::copy(begun_, scratch.begin());
  targets_[0] = {scratch.data() + begun_.size(), scratch.size() - begun_.size()};
  return {targets_, 1};
}

Result<void> FrameReader::received(size_t size, MutableBytes scratch, FrameReceiver& receiver) {
  const size_t direct = std::min(size, direct_);
  if (direct != 0) VB_TRY(took(direct, receiver));
  size_t in_scratch = size - direct;
  if (direct_ == 0) in_scratch += begun_.size();
  begun_.clear();
  return parse(scratch.first(in_scratch), receiver);
}

Result<void> FrameReader::resume(MutableBytes scratch, FrameReceiver& receiver) {
  paused_ = false;
  const auto waited = std::exchange(begun_, {});
  std::ranges::copy(waited, scratch.begin());
  return parse(scratch.first(waited.size()), receiver);
}

Result<void> FrameReader::took(size_t size, FrameReceiver& receiver) {
  left_ -= static_cast<uint32_t>(size);
  if (into_ != nullptr) into_ += size;
  if (left_ != 0) return {};
  into_ = nullptr;
  return receiver.landed(frame_);
}

Result<void> FrameReader::parse(Bytes bytes, FrameReceiver& receiver) {
  while (!bytes.empty()) {
    if (left_ != 0) {
      const size_t size = std::min<size_t>(left_, bytes.size());
      if (into_ != nullptr) copy_bytes(into_, bytes.data(), size);
      bytes = bytes.subspan(size);
      VB_TRY(took(size, receiver));
      continue;
    }
    paused_ = !receiver.may_go_on();
    size_t taken = 0;
    if (!paused_) {
      VB_ASSIGN(taken, begin_frame(bytes, receiver));
    }
    if (taken == 0) {
      begun_.assign(bytes.begin(), bytes.end());
      return {};
    }
    bytes = bytes.subspan(taken);
  }
  return {};
}

// Returns the bytes used; 0: more are needed.
Result<size_t> FrameReader::begin_frame(Bytes bytes, FrameReceiver& receiver) {
  const size_t head = head_size(static_cast<uint8_t>(bytes[0]));
  if (head == 0) return fail(Errc::malformed, "tcp: frame type");
  if (bytes.size() < head) return size_t{0};
  VB_ASSIGN(const Frame frame, decode(bytes.first(head), side_, message_size_max_));
  switch (frame.type) {
    case FrameType::message:
      if (bytes.size() - head < frame.payload) return size_t{0};
      VB_TRY(receiver.message(bytes.subspan(head, frame.payload)));
      return head + frame.payload;
    case FrameType::write:
    case FrameType::data:
      frame_ = frame;
      left_ = frame.payload;
      {
        auto into = receiver.landing(frame);
        if (!into) {
          left_ = 0;
          return std::unexpected(into.error());
        }
        into_ = *into;
      }
      return head;
    case FrameType::read:
    case FrameType::refused:
      VB_TRY(receiver.control(frame));
      return head;
  }
  return fail(Errc::malformed, "tcp: frame type");
}

}  // namespace verbena::fabric::tcp
