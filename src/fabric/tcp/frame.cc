#include "fabric/tcp/frame.h"

#include <bit>
#include <cstring>

namespace verbena::fabric::tcp {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are copied as they are");

template <class Number>
Number get(const std::byte* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class Number>
void put(std::byte* at, Number value) {
  std::memcpy(at, &value, sizeof value);
}

bool may_receive(Side side, FrameType type) {
  switch (type) {
    case FrameType::message:
      return true;
    case FrameType::write:
    case FrameType::read:
      return side == Side::client;
    case FrameType::data:
    case FrameType::refused:
      return side == Side::server;
  }
  return false;
}

}  // namespace

size_t head_size(uint8_t type) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::message:
      return prefix_size;
    case FrameType::write:
    case FrameType::data:
    case FrameType::refused:
      return prefix_size + 16;
    case FrameType::read:
      return prefix_size + 32;
  }
  return 0;
}

size_t encode(const Frame& frame, FrameHead& head) {
  const size_t size = head_size(static_cast<uint8_t>(frame.type));
  put<uint32_t>(head.data(), static_cast<uint8_t>(frame.type));
  put<uint32_t>(head.data() + 4, static_cast<uint32_t>(size - prefix_size) + frame.payload);
  if (size > prefix_size) {
    put<uint64_t>(head.data() + 8, frame.id);
    put<uint64_t>(head.data() + 16, frame.offset);
  }
  if (frame.type == FrameType::read) {
    put<uint64_t>(head.data() + 24, frame.size);
    put<uint64_t>(head.data() + 32, frame.operation);
  }
  return size;
}

Result<Frame> decode(Bytes head, Side receiver, size_t message_size_max) {
  const auto type = get<uint32_t>(head.data());
  const auto length = get<uint32_t>(head.data() + 4);
  if (type > 0xff || !may_receive(receiver, static_cast<FrameType>(type))) {
    return fail(Errc::malformed, "tcp: frame type");
  }
  Frame frame{.type = static_cast<FrameType>(type)};
  const size_t own = head.size() - prefix_size;
  if (length < own) return fail(Errc::malformed, "tcp: frame shorter than its head");
  frame.payload = length - static_cast<uint32_t>(own);
  if (own != 0) {
    frame.id = get<uint64_t>(head.data() + 8);
    frame.offset = get<uint64_t>(head.data() + 16);
  }
  size_t payload_max = 0;
  switch (frame.type) {
    case FrameType::message:
      payload_max = message_size_max;
      if (frame.payload == 0) return fail(Errc::malformed, "tcp: empty message");
      break;
    case FrameType::write:
    case FrameType::data:
      payload_max = payload_size_max;
      if (frame.payload == 0) return fail(Errc::malformed, "tcp: empty payload");
      break;
    case FrameType::read:
      frame.size = get<uint64_t>(head.data() + 24);
      frame.operation = get<uint64_t>(head.data() + 32);
      if (frame.size == 0 || frame.size > read_size_max) return fail(Errc::malformed, "tcp: size of a read");
      break;
    case FrameType::refused:
      break;
  }
  if (frame.payload > payload_max) return fail(Errc::malformed, "tcp: frame too long");
  return frame;
}

}  // namespace verbena::fabric::tcp
