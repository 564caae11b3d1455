// A limit on tries: a burst, then one every few seconds. Tries are charged before any work is done for them, and
// returned if they did not count.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace verbena::sign_in {

// Thread-safe. By names of any kind; when full, the entries that expire first are dropped.
class Attempts {
 public:
  struct Limits {
    unsigned tries_max = 32;
    int64_t forgiven_s = 2;  // until one try no longer counts
    size_t entries_max = 8192;
  };
  Attempts(const WallClock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  // False: too many, and this one is not counted.
  bool take(const std::string& name);
  void give_back(const std::string& name);

 private:
  void make_room(int64_t now_s);

  const WallClock& clock_;
  const Limits limits_;
  std::mutex mutex_;
  std::unordered_map<std::string, int64_t> forgiven_at_s_;  // when all tries of a name have expired
};

}  // namespace verbena::sign_in
