// The same-host transport: messages go through rings in shared memory, windows are memory that the client shares by
// file descriptor. Clients are not trusted: whatever one writes into shared memory, sends on its socket or does to
// itself (freezing and dying included) harms only itself.
//
// Structure: one Unix socket per Port (SOCK_SEQPACKET, mode 0666), for the handshake, for passing descriptors and for
// waking a sleeping client; one sealed memfd per peer with two rings, made by the server; up to
// `client_memory_count_max` memfds per peer with the client's windows, made and sealed by the client.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/core.h"
#include "base/result.h"
#include "fabric/fabric.h"

namespace verbena::fabric::local {

class Pool;

struct Options {
  // Both ends.
  std::chrono::milliseconds handshake_timeout{2000};  // a connection without a hello by then is closed

  // Server. Longest message, and bytes of each of a peer's two rings (a power of two, at least four messages). A larger
  // ring takes more messages before would_block and costs memory per peer once they went through it; 256 KiB showed no
  // better latency than 1 MiB (bench/local_ring_bench). Above a few KiB a window is faster than a long message: one
  // copy instead of two.
  size_t message_size_max = 128 * KiB;
  size_t ring_size = 1 * MiB;
  size_t peers_max = 256;
  // A peer that is not admitted (Port::admit()) within this is disconnected, and may share no memory before; 0: it
  // needs no admission. At peers_max the oldest unadmitted peer makes room earlier.
  std::chrono::milliseconds admission_timeout{0};
  size_t handshakes_max = 64;  // connections without a hello yet; the oldest makes room
  size_t client_memory_count_max = 64;
  uint64_t client_memory_size_max = 2 * GiB;  // per peer, bytes of all its memfds
  uint64_t memory_size_max = 16 * GiB;        // of all peers of the port
  // Whether peers that were admitted may hand over descriptors (DeviceLink), and how long those wait for their use.
  bool takes_descriptors = false;
  std::chrono::milliseconds handed_over_timeout{5000};

  // Client.
  std::chrono::microseconds spin_for{50};  // how long wait() polls before it sleeps
  // Where allocate() takes memory from. Links that share a pool can lend each other's memory, so give one pool to all
  // links of one server, and never one to two servers that do not trust each other: a pool is shared with a server as a
  // whole. nullptr: the link makes its own.
  std::shared_ptr<Pool> pool = {};
};

// A pool of sealed memfds for Options::pool. Thread-safe.
std::shared_ptr<Pool> make_pool();

// The number of links for which the process has memory mappings (vm.max_map_count), if each shares one memfd: of all
// its ports together. Links beyond the mappings are refused (slow_down), whatever peers_max is.
size_t links_max();

// Server: listens on `socket_path`. A socket file without a listener is replaced; any other file there is an error.
// Called before the core runs or on its thread; the port is destroyed likewise. Linux 5.8 or newer.
Result<std::unique_ptr<Port>> listen(Core& core, const std::string& socket_path, Options options = {});

// Client: connects and shakes hands, within `handshake_timeout`. The link's provider is "local". connection_failed: no
// server listens; closed or timed_out: the server ended the handshake.
//
// allocate() shares memory with the server lazily, so the first lend() of a piece may take a round trip on the socket.
// Memory from allocate() may outlive the link. Destroying a Lent waits for the slice that the server may be copying; a
// server stopped in the middle of one is waited for.
Result<std::unique_ptr<Link>> connect(const std::string& socket_path, Options options = {});

}  // namespace verbena::fabric::local
