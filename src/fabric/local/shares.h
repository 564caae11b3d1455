// What clients take of the server's bounded resources: files, bytes, memory mappings. Bounded for each client, for each
// user who runs clients on this host, and for all clients of the process together.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/result.h"

namespace verbena::fabric::local {

// A bounded resource that several threads take from.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}
  bool take(uint64_t amount) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (amount > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + amount, std::memory_order_relaxed));
    return true;
  }
  void give(uint64_t amount) { used_.fetch_sub(amount, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
};

struct Share {
  std::shared_ptr<Budget> from;
  uint64_t amount = 0;
  const char* refusal = "";  // the error's context where it has not so much
};
// Takes all of the shares, or none (slow_down). They are given back when the result is destroyed, from any thread.
Result<std::shared_ptr<const void>> take_all(std::span<const Share> shares);

// A resource of the process: its budget, and one for each user. Thread-safe.
class UserShares {
 public:
  UserShares(uint64_t all_max, uint64_t of_user_max)
      : all_(std::make_shared<Budget>(all_max)), of_user_max_(of_user_max) {}
  const std::shared_ptr<Budget>& all() const { return all_; }
  std::shared_ptr<Budget> of_user(uid_t user);

 private:
  const std::shared_ptr<Budget> all_;
  const uint64_t of_user_max_;
  std::mutex mutex_;
  std::map<uid_t, std::weak_ptr<Budget>> known_;
};

// The process's memory mappings that are there for clients. Without a bound, clients take all that the kernel lets a
// process have (vm.max_map_count): then no allocation of the server succeeds any more.
UserShares& mapping_shares();
// What of `kernel_max` mappings all clients may take together, and one user's: each leaves a quarter.
struct MappingLimits {
  uint64_t all = 0, of_user = 0;
};
MappingLimits mapping_limits(uint64_t kernel_max);

}  // namespace verbena::fabric::local
