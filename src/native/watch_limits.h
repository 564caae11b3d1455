// Limits of watches and of their queued bytes: of all together, and half of that for one account or one address (or
// IPv6 /64). Half of the bytes are divided in advance, so that each watch has some whatever other clients do; the other
// half goes to watches that need more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::native {

class WatchLimits {
  struct Party {
    Party(size_t watches, uint64_t bytes) : watches_max(watches), bytes_max(bytes) {}
    const size_t watches_max;
    const uint64_t bytes_max;
    std::atomic<size_t> watches{0};
    std::atomic<uint64_t> bytes{0};
  };

 public:
  struct Options {
    size_t watches_max = 0;  // 0: watches are disabled
    uint64_t bytes_max = 0;
  };
  // The place of one watch and its bytes, until it is destroyed. Used by one thread at a time.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    bool take(uint64_t bytes);
    void give_back(uint64_t bytes);

   private:
    friend class WatchLimits;
    explicit Place(uint64_t own) : own_(own) {}
    bool count(uint64_t common);
    uint64_t common(uint64_t bytes) const { return bytes > own_ ? bytes - own_ : 0; }
    const uint64_t own_;
    std::shared_ptr<Party> parties_[3];
    uint64_t bytes_ = 0;
  };

  explicit WatchLimits(Options options)
      : options_(options), own_bytes_(options.watches_max == 0 ? 0 : options.bytes_max / 2 / options.watches_max) {}
  // slow_down: the limit is reached. not_implemented: watches are disabled.
  Result<std::unique_ptr<Place>> take_place(std::string_view account, std::string_view address);
  size_t watches() const { return all_->watches.load(std::memory_order_relaxed); }

 private:
  using Parties = std::map<std::string, std::weak_ptr<Party>, std::less<>>;
  std::shared_ptr<Party> find(Parties& among, std::string name);
  uint64_t common_bytes() const { return options_.bytes_max - options_.bytes_max / 2; }

  const Options options_;
  const uint64_t own_bytes_;  // of each watch
  const std::shared_ptr<Party> all_ = std::make_shared<Party>(options_.watches_max, common_bytes());
  std::mutex mutex_;
  Parties accounts_, addresses_;
};

}  // namespace verbena::native
