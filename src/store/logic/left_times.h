// Times of the last changes of recently removed objects, so that an object that replaces one is not older, for engines
// that store nothing of a key without rows. Bounded: keys share slots, and a key may get the later time of another in
// its slot; that matters only where the clock went back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace verbena::store {

class LeftTimes {
 public:
  static constexpr size_t places = 4096;

  int64_t of(uint64_t bucket, std::string_view key) const {
    if (!any_.load(std::memory_order_relaxed)) return 0;
    return times_[place(bucket, key)].load(std::memory_order_relaxed);
  }
  // Changes of one key are serialized; those of keys that share a slot may not be.
  void leave(uint64_t bucket, std::string_view key, int64_t us) {
    any_.store(true, std::memory_order_relaxed);
    auto& time = times_[place(bucket, key)];
    for (int64_t seen = time.load(std::memory_order_relaxed); seen < us && !time.compare_exchange_weak(seen, us);) {
    }
  }

 private:
  static size_t place(uint64_t bucket, std::string_view key) {
    return (std::hash<std::string_view>{}(key) ^ bucket) % places;
  }
  std::atomic<bool> any_{false};
  std::array<std::atomic<int64_t>, places> times_{};
};

}  // namespace verbena::store
