// The doorbells of a port's clients: an eventfd each, which the client rings and the server only watches. Not
// thread-safe.
//
// The server keeps no descriptors of them, so that a client costs it one, its socket. An epoll set watches an open file
// for as long as any process has it open (epoll(7)), here the client: the watch ends with the client's descriptor. So
// the server cannot stop watching a single doorbell. Therefore each set has few clients and is closed when the last of
// them is gone: a client that leaves and keeps its doorbell open costs the kernel memory no longer than that. Nor can
// it wake the core for long: a set with many rings from departed clients is put aside, out of the sleeping core's
// epoll, and polled by a timer until they are quiet. Its other clients are served a little later meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "fabric/fabric.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

class Doorbells {
 public:
  static constexpr size_t set_size = 64;
  static constexpr size_t strays_max = 64;    // rings of departed clients, after which their set is put aside
  static constexpr size_t quiet_looks = 250;  // polls without such a ring, after which it comes back

  Result<void> open();
  // For the core's loop to watch: readable once a doorbell has rung. The caller owns it from now on.
  Fd take_descriptor() { return std::move(outer_); }

  // Starts watching. `doorbell` may be closed once the client has it.
  Result<void> watch(PeerId peer, int doorbell);
  void forget(PeerId peer);
  // Wakes the thread that sleeps in the descriptor's poll.
  void ring_own() const;
  // Calls `handler` for each client that has rung since, except those in sets that were put aside.
  using Handler = std::function<void(PeerId)>;
  void answer(const Handler& handler);
  // Whether sets are aside: look_aside() must then be called every few milliseconds. It serves their clients.
  bool any_aside() const { return !aside_.empty(); }
  void look_aside(const Handler& handler);

  size_t sets() const { return sets_.size(); }

 private:
  struct Set {
    Fd epoll;
    size_t watched = 0;  // since its creation
    size_t members = 0;  // current clients
    size_t strays = 0;   // rings of departed clients
    size_t quiet = 0;    // polls while aside, since the last stray ring
  };
  Result<uint64_t> set_with_room();
  size_t answer_set(uint64_t id, const Handler& handler);
  void put_aside(uint64_t id);
  bool take_back(uint64_t id);

  Fd outer_, own_;
  int outer_descriptor_ = -1;
  std::unordered_map<uint64_t, Set> sets_;
  std::unordered_map<PeerId, uint64_t> set_of_;
  uint64_t newest_ = 0;          // the only set that clients are added to
  std::vector<uint64_t> aside_;  // ids of sets
};

}  // namespace verbena::fabric::local
