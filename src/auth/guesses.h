// Wrong signatures of keys that there are. Who guesses at a secret, most of all at one that a person has chosen, gets
// few tries: so many at once from one client for one key, then one every few seconds.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/auth.h"

namespace verbena::auth {

// Thread-safe. Costs a request one load as long as nobody is over the limit.
class Guesses {
 public:
  struct Limits {
    unsigned tries_max = 32;    // wrong ones at once; 0: no limit
    int64_t forgiven_s = 2;     // until one of them no longer counts
    size_t entries_max = 4096;  // clients and keys that are kept: beyond that those are forgotten that end first
  };
  Guesses(const WallClock& clock, Limits limits) : clock_(clock), limits_(limits) {}
  explicit Guesses(const WallClock& clock) : Guesses(clock, Limits()) {}

  // Before a signature is looked at. slow_down: `peer` has sent too many wrong ones of the key that this request
  // claims. Nobody on loopback is held up: who proxies there stands for all his clients.
  Result<void> check(std::string_view peer, const RequestView& request) const {
    return blocked_until_s_.load(std::memory_order_relaxed) == 0 ? Result<void>() : check_claim(peer, request);
  }
  // After it was: counts signature_does_not_match, and nothing else. A key that there is not has no secret to guess.
  void note(std::string_view peer, const RequestView& request, const Error& error);

  // Browser forms name their key in the body: a client's forms count together.
  Result<void> check_form(std::string_view peer) const;
  void note_form(std::string_view peer);

 private:
  Result<void> check_claim(std::string_view peer, const RequestView& request) const;
  Result<void> check_entry(const std::string& name) const;
  void count(std::string name);
  void make_room(int64_t now_s);

  const WallClock& clock_;
  const Limits limits_;
  std::atomic<int64_t> blocked_until_s_{0};  // when the last that was over its limit may try again; 0: none ever was
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int64_t> forgiven_at_s_;  // by client and key: when all of it is forgiven
};

}  // namespace verbena::auth
