#include "native/wire/device.h"

#include <algorithm>

namespace verbena::native::wire {

namespace {

bool read_pieces(Reader& in, Device& request) {
  request.handed_over = in.u32();
  const size_t count = in.u16();
  if (count == 0 || count > device_pieces_max) return false;
  uint64_t left = request.size;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t size = in.u64();
    if (size == 0 || size > left) return false;
    left -= size;
    request.pieces.push_back(size);
  }
  return left == 0;
}

}  // namespace

bool encode(Writer& out, const Device& request) {
  out.u8(request.kind);
  out.bytes(request.device);
  out.u64(request.size);
  if (request.in_pieces()) {
    out.u32(request.handed_over);
    out.u16(static_cast<uint16_t>(request.pieces.size()));
    for (const uint64_t size : request.pieces) out.u64(size);
  } else {
    out.bytes(request.handle);
  }
  return out.ok();
}

std::optional<Device> decode_device(Bytes body) {
  Reader in(body);
  Device request;
  request.kind = in.u8();
  const Bytes device = in.bytes(request.device.size());
  request.size = in.u64();
  Bytes handle;
  if (!request.in_pieces()) {
    handle = in.bytes(request.handle.size());
  } else if (!read_pieces(in, request)) {
    return std::nullopt;
  }
  if (!in.complete()) return std::nullopt;
  std::ranges::copy(device, request.device.begin());
  std::ranges::copy(handle, request.handle.begin());
  return request;
}

bool encode(Writer& out, const DeviceShared& reply) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u64(reply.number);
  return out.ok();
}

std::optional<DeviceShared> decode_device_shared(Bytes body) {
  Reader in(body);
  if (in.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  const DeviceShared reply{.number = in.u64()};
  if (!in.complete()) return std::nullopt;
  return reply;
}

bool encode(Writer& out, const DeviceEnd& request) {
  out.u64(request.number);
  return out.ok();
}

std::optional<DeviceEnd> decode_device_end(Bytes body) {
  Reader in(body);
  const DeviceEnd request{.number = in.u64()};
  if (!in.complete()) return std::nullopt;
  return request;
}

}  // namespace verbena::native::wire
