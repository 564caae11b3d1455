// DEVICE, DEVICE_END: memory of a GPU that a client on the server's host shares with it. Version 8 of the protocol.
#pragma once

#include <array>
#include <vector>

#include "native/wire/bodies.h"

namespace verbena::native::wire {

inline constexpr unsigned version_of_devices = 8;

inline constexpr size_t device_pieces_max = 128;

enum DeviceKind : uint8_t {
  device_by_handle = 1,  // a CUDA allocation by its IPC handle
  // Pieces of CUDA's physical memory, side by side, by descriptors that the client has handed over on the socket.
  device_by_pieces = 2,
  device_by_hip_handle = 3,  // a HIP allocation (AMD) by its IPC handle
  device_by_hip_pieces = 4,  // HIP's physical memory, as device_by_pieces
};

struct Device {
  uint8_t kind = device_by_handle;
  std::array<std::byte, 16> device{};
  uint64_t size = 0;                   // of the allocation, or of all pieces
  std::array<std::byte, 64> handle{};  // by handle
  uint32_t handed_over = 0;            // by pieces: the number of their descriptors
  std::vector<uint64_t> pieces = {};   // their sizes, in order

  bool in_pieces() const { return kind == device_by_pieces || kind == device_by_hip_pieces; }
  bool of_hip() const { return kind == device_by_hip_handle || kind == device_by_hip_pieces; }
};
bool encode(Writer& out, const Device& request);
// By pieces: as many pieces as are allowed, none empty, whose sum is the size.
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
