// What an oracle knows of objects with an end (TTL): of the clocks while a call lasts, and of the ends that came of it.
//
// Servers that share a store judge an end each by its own clock, which is up to some seconds ahead of the world's or
// behind. Whatever one of them said lies between the least and the latest that any clock said meanwhile.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <list>

#include "simulator/scheduler.h"

namespace verbena::simulator {

struct Lasting {
  static constexpr int64_t second_ns = 1'000'000'000, microsecond_ns = 1000;

  uint32_t content = 0;  // 0: no object
  int64_t ttl_s = 0;     // 0: without an end
  int64_t from_s = 0;    // the end is one of the seconds from here
  int64_t to_s = 0;      // to here
  auto operator<=>(const Lasting&) const = default;

  // Until `latest_ns`, the latest that a clock has ever said.
  bool may_be_absent(int64_t latest_ns) const {
    return content == 0 || (ttl_s != 0 && from_s * second_ns <= latest_ns);
  }
};

// A call, from its begin on.
struct LastingCall {
  int64_t lowest_ns;   // the least that a clock may have said meanwhile
  int64_t told_s = 0;  // an end of that second was told before it by the only server: it stays so

  bool ends_later(int64_t end_s) const { return end_s * Lasting::second_ns > lowest_ns && end_s > told_s; }
  bool may_find(const Lasting& one) const { return one.content != 0 && (one.ttl_s == 0 || ends_later(one.to_s)); }
  // What a change that ends now has made.
  Lasting made(uint32_t content, int64_t ttl_s, int64_t latest_ns) const {
    if (ttl_s == 0) return {.content = content};
    return {content, ttl_s, second_after(lowest_ns) + ttl_s, second_after(latest_ns) + ttl_s};
  }
  // What one makes that has not ended.
  Lasting makes(uint32_t content, int64_t ttl_s, int64_t latest_ns) const {
    constexpr int64_t long_s = 1'000'000;
    Lasting one = made(content, ttl_s, latest_ns);
    if (ttl_s != 0) one.to_s += long_s;
    return one;
  }
  static int64_t second_after(int64_t ns) {
    return (ns / Lasting::microsecond_ns * Lasting::microsecond_ns + Lasting::second_ns - 1) / Lasting::second_ns;
  }
};

// Calls under way.
class LastingCalls {
 public:
  using Call = std::list<LastingCall>::iterator;
  Call begin(int64_t told_s = 0, int64_t clocks_apart_ns = 0) {
    const int64_t lowest_ns = Scheduler::get().wall_ns() - clocks_apart_ns - Lasting::microsecond_ns;
    return calls_.insert(calls_.end(), {lowest_ns, told_s});
  }
  LastingCall end(Call at) {
    const LastingCall call = *at;
    calls_.erase(at);
    return call;
  }
  void clock_went_back(int64_t by_ns) {
    for (LastingCall& call : calls_) call.lowest_ns -= by_ns;
  }

 private:
  std::list<LastingCall> calls_;
};

}  // namespace verbena::simulator
