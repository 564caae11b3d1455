// What an administrator allows an account, a user or a bucket, and what it takes of that right now.
//
// Requests and bytes a second are token buckets: a second's worth may come at once. Whoever has the room of a single
// byte is let in with all of his request, and pays for it before the next. Bytes and objects that are kept are limited
// by reservations: what a request is about to store is set aside before its body is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::auth {

// What is not set is not limited.
struct Quota {
  std::optional<uint64_t> bytes{}, objects{};  // kept
  std::optional<uint64_t> requests_per_s{}, bytes_per_s{};
  bool empty() const { return !bytes && !objects && !requests_per_s && !bytes_per_s; }
  bool operator==(const Quota&) const = default;
};

inline constexpr uint64_t quota_max = uint64_t{1} << 62;  // of bytes and objects: sums stay far from overflowing
inline constexpr uint64_t rate_max = 1'000'000'000'000;   // a second
inline constexpr uint64_t bytes_per_s_min = 1024;         // less is no rate, but a way to lock somebody out

// A JSON object with some of bytes, objects, requests_per_second, bytes_per_second. invalid_argument: anything else.
Result<Quota> parse_quota(std::string_view json);
std::string quota_text(const Quota& quota);

// One token bucket. Times are of one steady clock. Thread-safe, without a lock.
class Meter {
 public:
  // Takes `n` if there is room for one. 0: taken; else how long until there is, in nanoseconds.
  uint64_t take(uint64_t n, uint64_t rate, int64_t now_ns);
  uint64_t wait_ns(int64_t now_ns) const;  // 0: there is room
  // Takes `n` whether there is room or not. Returns the time at which all that was taken so far is paid for.
  int64_t charge(uint64_t n, uint64_t rate, int64_t now_ns);
  // Gives `n` of a charge back that would have been paid for at `paid_ns`: as much of it as time has not paid for yet.
  void give_back(uint64_t n, uint64_t rate, int64_t paid_ns, int64_t now_ns);

 private:
  static constexpr int64_t burst_ns = 1'000'000'000;
  static int64_t cost_ns(uint64_t n, uint64_t rate);
  std::atomic<int64_t> until_ns_{0};  // when all that was taken is paid for
};

// Shared by all that the quota is about, for as long as it stays what it is.
class Limits {
 public:
  explicit Limits(Quota quota);
  const Quota& quota() const { return quota_; }
  bool has_sizes() const { return quota_.bytes || quota_.objects; }

  // Sets `bytes` and `objects` aside where they fit besides `held_*` and what is set aside already.
  bool reserve(uint64_t bytes, uint64_t objects, uint64_t held_bytes, uint64_t held_objects) const;
  void release(uint64_t bytes, uint64_t objects) const;

  // 0: `n` requests may come; else how long they have to wait, in nanoseconds.
  uint64_t admit(uint64_t n, int64_t now_ns) const;
  // Returns when the charge is paid for, which give_back() wants to know.
  int64_t charge(uint64_t bytes, int64_t now_ns) const;
  void give_back(uint64_t bytes, int64_t paid_ns, int64_t now_ns) const;

 private:
  const Quota quota_;
  mutable std::atomic<uint64_t> reserved_bytes_{0}, reserved_objects_{0};
  mutable Meter requests_, bytes_;
};
using LimitsPtr = std::shared_ptr<const Limits>;

// The same ones where the quota is as it was; null for an empty quota.
LimitsPtr make_limits(const Quota& quota, const LimitsPtr& before = nullptr);

// Whether anybody in this process was ever limited in requests or bytes a second. Who is not asks no more than this.
inline std::atomic<bool> rates_in_use{false};
inline bool rates_are_in_use() { return rates_in_use.load(std::memory_order_relaxed); }

}  // namespace verbena::auth
