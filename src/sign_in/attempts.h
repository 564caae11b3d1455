// How often somebody may try: so many times at once, then one every few seconds. Tries are charged before anything is
// done for them, and given back when they were none.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace verbena::sign_in {

// Thread-safe. By names of whatever kind; of those that it has no room for, the ones go first that end first.
class Attempts {
 public:
  struct Limits {
    unsigned tries_max = 32;
    int64_t forgiven_s = 2;  // until one of them no longer counts
    size_t entries_max = 8192;
  };
  Attempts(const WallClock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  // False: too many, and this one does not count.
  bool take(const std::string& name);
  void give_back(const std::string& name);

 private:
  void make_room(int64_t now_s);

  const WallClock& clock_;
  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<std::string, int64_t> forgiven_at_s_;  // when all of a name's are
};

}  // namespace verbena::sign_in
