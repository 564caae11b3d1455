// Frames: the protocol of an authenticated connection, in both directions. Numbers are little-endian.
//
//   head   u8 type, 3 zero bytes, u32 length of what follows these eight bytes; then the type's own fields
//   1 message  (both)       the message
//   2 write    (to client)  u64 window, u64 offset, payload
//   3 read     (to client)  u64 window, u64 offset, u64 size, u64 operation
//   4 data     (to server)  u64 operation, u64 offset in what was asked for, payload
//   5 refused  (to server)  u64 operation, u64 reason
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace verbena::fabric::tcp {

enum class FrameType : uint8_t { message = 1, write = 2, read = 3, data = 4, refused = 5 };
enum class Side : uint8_t { server, client };

inline constexpr size_t prefix_size = 8;
inline constexpr size_t head_size_max = 40;
inline constexpr uint32_t payload_size_max = 1 * MiB;  // of one write or data frame
inline constexpr uint64_t read_size_max = 64 * MiB;    // of one read

struct Frame {
  FrameType type = FrameType::message;
  uint32_t payload = 0;    // bytes after the head: the message, or a write's or data's bytes
  uint64_t id = 0;         // write, read: the window; data, refused: the operation
  uint64_t offset = 0;     // write, read, data; refused: the reason
  uint64_t size = 0;       // read
  uint64_t operation = 0;  // read

  bool operator==(const Frame&) const = default;
};

// Bytes of a head, prefix included; 0 for an unknown type.
size_t head_size(uint8_t type);

using FrameHead = std::array<std::byte, head_size_max>;
// Returns the head's size.
size_t encode(const Frame& frame, FrameHead& head);

// `head` holds head_size(its first byte) bytes. malformed: inconsistent lengths, or a type that is not sent to
// `receiver`.
Result<Frame> decode(Bytes head, Side receiver, size_t message_size_max);

}  // namespace verbena::fabric::tcp
