// fabric/sealed: any transport, encrypted and authenticated end to end. docs/sealed-rdma.md
//
// A SealedPort and a SealedLink are put around the port and the link of a transport whose packets can be read and
// changed on their way (fabric/ofi). They keep the interfaces of fabric.h:
//  - Every message travels inside an envelope: AES-256-GCM or ChaCha20-Poly1305, in strict order.
//  - Memory that is lent here never becomes reachable from the network. The client lends two rings of its own instead.
//    The server seals records into one and reads records from the other; the client opens them into, and seals them
//    out of, the lent memory. So a byte in lent memory was authenticated before it came there.
#pragma once

#include <cstdint>
#include <memory>

#include "base/core.h"
#include "fabric/fabric.h"
#include "memory/arena.h"

namespace verbena::fabric::sealed {

// A connection has so many numbers for each of its ciphers, and ends with them: a number and the records of a segment
// add up to what 64 bits hold.
inline constexpr uint64_t numbers_max_default = UINT64_MAX - 4;

// Bytes by which the messages of the transport below must be longer.
size_t message_overhead();

struct PortOptions {
  bool takes_plain = false;  // messages of sessions that are not sealed pass through; false: they are dropped
  // Memory for records on their way, of the arena: this many segments of 256 KiB for the port, leased on demand.
  size_t buffers_max = 16;
  size_t buffers_per_peer_max = 4;
  unsigned epoch_bits = 24;  // keys are renewed after 2^epoch_bits messages, or records; less in tests
  uint64_t numbers_max = numbers_max_default;  // a connection ends after so many messages, or records; less in tests
};
// `below` and `arena` must outlive the port. Used on the core's thread alone.
std::unique_ptr<Port> seal(Core& core, Port& below, memory::Arena& arena, const PortOptions& options);

// The client's side, for the session of `key`. At most one link for each session and port, ever: the server refuses a
// second one.
std::unique_ptr<Link> seal(std::unique_ptr<Link> below, uint64_t session, const ConnectionKey& key,
                           unsigned epoch_bits = 24, uint64_t numbers_max = numbers_max_default);

// Makes the metrics of this room, so that they are there before the first use.
void export_metrics();

}  // namespace verbena::fabric::sealed
