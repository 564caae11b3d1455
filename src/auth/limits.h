// An administrator's limits for an account, a user or a bucket, and their current consumption.
//
// Requests and bytes per second are token buckets: a second's worth may come at once. A request is admitted as a whole
// if there is room for a single byte, and the excess delays the next one. Stored bytes and objects are limited by
// reservations: a request's size is reserved before its body is read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::auth {

// Unset fields are unlimited.
struct Quota {
  std::optional<uint64_t> bytes{}, objects{};  // stored
  std::optional<uint64_t> requests_per_s{}, bytes_per_s{};
  bool empty() const { return !bytes && !objects && !requests_per_s && !bytes_per_s; }
  bool operator==(const Quota&) const = default;
};

inline constexpr uint64_t quota_max = uint64_t{1} << 62;  // of bytes and objects: sums stay far from overflowing
inline constexpr uint64_t rate_max = 1'000'000'000'000;   // per second
inline constexpr uint64_t bytes_per_s_min = 1024;         // a lower rate would only lock a user out

// A JSON object with some of bytes, objects, requests_per_second, bytes_per_second. invalid_argument: anything else.
Result<Quota> parse_quota(std::string_view json);
std::string quota_text(const Quota& quota);

// One token bucket. Times are from one steady clock. Thread-safe, without a lock.
class Meter {
 public:
  // Takes `n` if there is room for one. 0: taken; else the time until there is room, in nanoseconds.
  uint64_t take(uint64_t n, uint64_t rate, int64_t now_ns);
  void untake(uint64_t n, uint64_t rate);  // what take() has just taken
  uint64_t wait_ns(int64_t now_ns) const;  // 0: there is room
  // Takes `n` whether there is room or not. Returns the time at which everything taken so far will be paid for.
  int64_t charge(uint64_t n, uint64_t rate, int64_t now_ns);
  // Returns `n` of a charge that would have been paid for at `paid_ns`: only the part not paid for yet.
  void give_back(uint64_t n, uint64_t rate, int64_t paid_ns, int64_t now_ns);

 private:
  static constexpr int64_t burst_ns = 1'000'000'000;
  static int64_t cost_ns(uint64_t n, uint64_t rate);
  std::atomic<int64_t> until_ns_{0};  // when everything taken is paid for
};

// A quota and its consumption, shared by everything that it limits. Replaced when the quota changes.
class Limits {
 public:
  explicit Limits(Quota quota);
  const Quota& quota() const { return quota_; }
  bool has_sizes() const { return quota_.bytes || quota_.objects; }

  // A reservation and all that were made before it, as of one moment.
  struct Claim {
    uint64_t bytes = 0, objects = 0, all_bytes = 0, all_objects = 0;
  };
  // Reserves, until release(). nullopt: so much can never fit, and nothing is reserved.
  std::optional<Claim> claim(uint64_t bytes, uint64_t objects) const;
  // Whether it fits besides the others and what is held, which must be read after claim(): what another request has
  // reserved by then, or stored and no longer reserves, is in one of them.
  bool fits(const Claim& claim, uint64_t held_bytes, uint64_t held_objects) const;
  void release(uint64_t bytes, uint64_t objects) const;

  // 0: `n` requests are admitted; else how long they must wait, in nanoseconds.
  uint64_t admit(uint64_t n, int64_t now_ns) const;
  void withdraw(uint64_t n) const;  // `n` requests that were admitted here, and refused by another limit
  // Returns when the charge is paid for, an argument of give_back().
  int64_t charge(uint64_t bytes, int64_t now_ns) const;
  void give_back(uint64_t bytes, int64_t paid_ns, int64_t now_ns) const;

 private:
  const Quota quota_;
  mutable std::atomic<uint64_t> reserved_bytes_{0}, reserved_objects_{0};
  mutable Meter requests_, bytes_;
};
using LimitsPtr = std::shared_ptr<const Limits>;

// The previous ones if the quota is unchanged; null for an empty quota.
LimitsPtr make_limits(const Quota& quota, const LimitsPtr& before = nullptr);

// Whether one of make_limits() has a limit of requests or bytes per second. Where none has, this is the only check.
inline std::atomic<bool> rates_in_use{false};
inline bool rates_are_in_use() { return rates_in_use.load(std::memory_order_relaxed); }

}  // namespace verbena::auth
