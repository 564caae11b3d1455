// The doorbells of a port's clients: an eventfd each, which the client rings and the server only watches for. Not
// thread-safe.
//
// The server keeps no descriptor of them, so that a client costs it one, its socket. An epoll set goes on watching an
// open file for as long as anybody has it open (epoll(7)), and that is the client: what is watched ends with it. Nor
// can the server stop watching a single one, then. So the sets are of few clients each, and a set goes when the last of
// its clients has: whoever leaves and keeps its doorbell open has the kernel remember it no longer than that. Nor does
// it wake the core by it any longer than a little: a set in which those who left ring is put aside, out of the sight of
// whoever sleeps, and looked at by the clock until they are quiet. Its others are heard a little later meanwhile.
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
  static constexpr size_t strays_max = 64;    // rings of those who left, then their set is put aside
  static constexpr size_t quiet_looks = 250;  // without one, then it comes back

  Result<void> open();
  // To be watched by the core's loop: readable once somebody has rung. The caller owns it from now on.
  Fd take_descriptor() { return std::move(outer_); }

  // From now on rings are answered. `doorbell` may be closed once the client has it.
  Result<void> watch(PeerId peer, int doorbell);
  void forget(PeerId peer);
  // Wakes who sleeps in the descriptor's poll.
  void ring_own() const;
  // Calls `handler` for each that has rung since, but for those of sets that were put aside.
  using Handler = std::function<void(PeerId)>;
  void answer(const Handler& handler);
  // Some are aside: look_aside() is to be called every few milliseconds. It does the same for theirs.
  bool any_aside() const { return !aside_.empty(); }
  void look_aside(const Handler& handler);

  size_t sets() const { return sets_.size(); }

 private:
  struct Set {
    Fd epoll;
    size_t watched = 0;  // since it was made
    size_t members = 0;  // that were not forgotten
    size_t strays = 0;   // rings of those that were
    size_t quiet = 0;    // looks, while it is aside, since the last of these
  };
  Result<uint64_t> set_with_room();
  size_t answer_set(uint64_t id, const Handler& handler);
  void put_aside(uint64_t id);
  bool take_back(uint64_t id);

  Fd outer_, own_;
  int outer_descriptor_ = -1;
  std::unordered_map<uint64_t, Set> sets_;
  std::unordered_map<PeerId, uint64_t> set_of_;
  uint64_t newest_ = 0;          // the only one that more are added to
  std::vector<uint64_t> aside_;  // sets
};

}  // namespace verbena::fabric::local
