// DEVICE, DEVICE_END: memory of a GPU that a client on the server's host shares with it. Version 8 of the protocol.
#pragma once

#include <array>

#include "native/wire/bodies.h"

namespace verbena::native::wire {

inline constexpr unsigned version_of_devices = 8;

struct Device {
  uint8_t kind = 1;  // 1: a CUDA allocation by its IPC handle
  std::array<std::byte, 16> device{};
  uint64_t size = 0;  // of the allocation
  std::array<std::byte, 64> handle{};
};
bool encode(Writer& out, const Device& request);
std::optional<Device> decode_device(Bytes body);

struct DeviceShared {
  uint64_t number = 0;  // of the memory, in windows of this session on this endpoint
};
bool encode(Writer& out, const DeviceShared& reply);
std::optional<DeviceShared> decode_device_shared(Bytes body);

struct DeviceEnd {
  uint64_t number = 0;
};
bool encode(Writer& out, const DeviceEnd& request);
std::optional<DeviceEnd> decode_device_end(Bytes body);

}  // namespace verbena::native::wire
