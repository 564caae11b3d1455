// Messages on the Unix socket: the handshake, memory that a client shares, and wake-ups of a sleeping client. Each is
// one packet of fixed size. Same host, so native byte order.
//
//   client: hello                      server: welcome {a ring size, b longest message, c memory limit} + ring, eventfd
//                                              or refused {status}
//   client: share {a size} + memfd     server: shared {request, status, a key}
//   client: withdraw {a key}           server: shared {request}: the memory is unmapped, or will be after its last use
//   client: hand_over {a number of descriptors} + as many
//                                      server: shared {request, status, a number}: kept for a moment under that number
//                                      server: wake
//
// A sleeping client is woken on the socket, not by an eventfd: O_NONBLOCK belongs to the open file that both ends
// would share, so a client could clear it, fill the counter and have the server block in write(). The server's own
// doorbell is an eventfd: the server never reads or writes it, it only watches for edges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "fabric/device.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

enum class ControlType : uint16_t { hello = 1, welcome, refused, share, shared, withdraw, wake, hand_over };

struct ControlMessage {
  static constexpr uint32_t magic_value = 0x31424c56;  // "VLB1"
  static constexpr uint16_t version_value = 1;

  uint32_t magic = magic_value;
  uint16_t version = version_value;
  ControlType type = ControlType::wake;
  uint32_t request = 0;  // chosen by the client, returned with `shared`
  uint32_t status = 0;   // an Errc; 0 is success
  uint64_t a = 0, b = 0, c = 0;
};
static_assert(sizeof(ControlMessage) == 40);

// Checks size, magic, version, type, and that the number of descriptors is right for the type.
// unsupported: another version; malformed: anything else.
Result<ControlMessage> parse_control(Bytes packet, size_t descriptors);
// The same without the number of descriptors.
Result<ControlMessage> parse_control(Bytes packet);

struct Packet {
  std::vector<std::byte> bytes;  // up to one byte more than a ControlMessage, to detect longer packets
  std::vector<Fd> descriptors;
  bool cut_off = false;  // it came with more descriptors: this process may open no more
};
// Receives one packet without blocking. would_block when there is none, closed at the end of the connection.
Result<Packet> receive_packet(int socket);

// Sends one packet without blocking. would_block when the socket's buffer is full, closed when the peer is gone.
Result<void> send_control(int socket, const ControlMessage& message, std::span<const int> descriptors = {});

}  // namespace verbena::fabric::local
