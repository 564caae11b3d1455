// Authentication failures: wrong signatures for existing keys. They limit attempts to guess a secret, above all one
// chosen by a person: per client and key a burst of tries, then one every few seconds.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/auth.h"

namespace verbena::auth {

// Thread-safe. Costs a request one load as long as no client is over the limit.
class AuthFailures {
 public:
  struct Limits {
    unsigned tries_max = 32;    // failures in a burst; 0: no limit
    int64_t forgiven_s = 2;     // until one failure no longer counts
    size_t entries_max = 4096;  // remembered clients and keys: beyond that those that expire first are dropped
  };
  AuthFailures(const WallClock& clock, Limits limits) : clock_(clock), limits_(limits) {}
  explicit AuthFailures(const WallClock& clock) : AuthFailures(clock, Limits()) {}

  // Called before a signature is verified. slow_down: `peer` has sent too many wrong ones for the claimed key. Loopback
  // is never limited: a proxy there acts for all its clients.
  Result<void> check(std::string_view peer, const RequestView& request) const {
    return blocked_until_s_.load(std::memory_order_relaxed) == 0 ? Result<void>() : check_claim(peer, request);
  }
  // Called after verification: counts signature_does_not_match, and no other error. An unknown key has no secret to
  // guess.
  void note(std::string_view peer, const RequestView& request, const Error& error);

  // Browser forms name their key in the body, so a client's forms are counted together.
  Result<void> check_form(std::string_view peer) const;
  void note_form(std::string_view peer);

 private:
  Result<void> check_claim(std::string_view peer, const RequestView& request) const;
  Result<void> check_entry(const std::string& name) const;
  void count(std::string name);
  void make_room(int64_t now_s);

  const WallClock& clock_;
  const Limits limits_;
  std::atomic<int64_t> blocked_until_s_{0};  // when the last client over its limit may try again; 0: none ever was
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int64_t> forgiven_at_s_;  // by client and key: when all failures have expired
};

}  // namespace verbena::auth
