// The memfd that a server makes for one peer: control words, permits, and two rings.
//
//   0          Control (one page)
//   4 KiB      Permits: one cache line for each window the client can lend at once
//   128 KiB    ring client -> server, then ring server -> client, `ring_size` bytes each
//
// The server makes and seals it (no shrinking, no growing, no more seals), so its size is the server's choice. It is
// not written to before the client uses it: its pages are charged to the process that touches them first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "fabric/fabric.h"
#include "fabric/local/fd.h"
#include "fabric/local/ring.h"

namespace verbena::fabric::local {

struct Control {
  RingIndices to_server;
  RingIndices to_client;
  // "I am about to sleep: wake me after you have published" (agreements.h). The side that finds it set clears it and
  // wakes the other: the server by one byte on the socket, the client by eventfd.
  alignas(line_pair) std::atomic<uint32_t> server_sleeps;
  alignas(line_pair) std::atomic<uint32_t> client_sleeps;
  // The client found the ring full and sleeps until there is space.
  std::atomic<uint32_t> client_wants_space;
};
static_assert(sizeof(Control) <= 4096);

// The right to touch one lent window, revocable at any moment (agreements.h): the client sets `permit` when it lends
// and clears it when it withdraws, then waits while `busy`. The server counts up `busy` and compares `permit` before
// each slice it copies, and counts it down after it. A client that violates this gets late bytes itself, or waits for
// itself.
struct Permit {
  alignas(64) std::atomic<uint64_t> permit;  // generation << 8 | Access bits; 0: nothing is lent
  std::atomic<uint32_t> busy;
};
static_assert(sizeof(Permit) == 64);
inline constexpr size_t permits_max = 1024;

// WindowDescriptor::key of this transport: which memfd, which permit, and the permit's generation.
struct WindowKey {
  uint32_t memory = 0;      // 20 bits
  uint32_t slot = 0;        // 12 bits
  uint32_t generation = 0;  // 32 bits
  uint64_t pack() const { return uint64_t{generation} << 32 | uint64_t{slot} << 20 | memory; }
  // The word in Permit::permit while it is lent.
  uint64_t permit(Access access) const { return uint64_t{generation} << 8 | static_cast<uint8_t>(access); }
  static WindowKey unpack(uint64_t key) {
    return {static_cast<uint32_t>(key & 0xfffff), static_cast<uint32_t>(key >> 20 & 0xfff),
            static_cast<uint32_t>(key >> 32)};
  }
};
inline constexpr uint32_t memory_key_max = 0xfffff;
// The last numbers are of memory of devices; a peer has at most half as many.
inline constexpr uint32_t device_keys = 8192;
inline constexpr uint32_t device_key_first = memory_key_max - device_keys + 1;

class SharedRegion {
 public:
  // Server: a new, sealed region. ring_size is a power of two and a multiple of the page size.
  static Result<SharedRegion> create(size_t ring_size, size_t message_size_max);
  // Client: maps the region that the server sent.
  static Result<SharedRegion> attach(Fd memfd, size_t ring_size, size_t message_size_max);

  static constexpr uint64_t mappings = 3;  // that one takes of a process
  // What it counts for: ends once it is unmapped.
  void count(std::shared_ptr<const void> taken) { taken_ = std::move(taken); }

  int memfd() const { return memfd_.get(); }
  void close_memfd() { memfd_ = Fd(); }
  Control& control() const { return *reinterpret_cast<Control*>(mapping_.data()); }
  Permit& permit(size_t slot) const { return reinterpret_cast<Permit*>(mapping_.data() + 4096)[slot]; }
  RingMemory to_server() const { return {&control().to_server, ring(0), ring_size_, message_size_max_}; }
  RingMemory to_client() const { return {&control().to_client, ring(1), ring_size_, message_size_max_}; }

 private:
  static Result<SharedRegion> map(Fd memfd, size_t ring_size, size_t message_size_max);
  std::byte* ring(size_t which) const;

  std::shared_ptr<const void> taken_;  // destroyed after the mapping
  Fd memfd_;
  Mapping mapping_;
  size_t ring_size_ = 0;
  size_t message_size_max_ = 0;
};

}  // namespace verbena::fabric::local
