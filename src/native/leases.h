// Leases: objects that a client has found and wants to read soon. A lease holds their readers, so that the version
// found stays readable by that lease although the key is overwritten, removed or evicted; and it pins their keys
// (store/key_pins.h). It ends by its client, by its time, or with its stream.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "store/store.h"

namespace verbena::native {

// What leases hold: of all together, half of that for one account, a quarter for one session on one endpoint. Thread-
// safe.
class LeaseLimits {
 public:
  struct Options {
    uint64_t keys_max = 0;          // 0: no leases
    uint64_t bytes_max = 0;         // of the objects
    uint64_t memory_bytes_max = 0;  // of those that lie in the hot tier's memory
  };
  struct Party {
    std::atomic<uint64_t> keys{0}, bytes{0};
  };
  using PartyPtr = std::shared_ptr<Party>;

  explicit LeaseLimits(Options options);
  PartyPtr account(std::string_view name);
  // One key more. False: a limit is reached, and nothing was taken.
  bool take(Party& account, Party& stream, uint64_t bytes, bool in_memory);
  void give_back(Party& account, Party& stream, uint64_t bytes, bool in_memory);

 private:
  bool fits(const Party& party, uint64_t bytes, unsigned share) const;

  const Options options_;
  std::mutex mutex_;  // of what follows
  std::map<std::string, std::weak_ptr<Party>, std::less<>> accounts_;
  Party all_;
  uint64_t memory_bytes_ = 0;
  metrics::Gauge &keys_gauge_, &bytes_gauge_;
  metrics::Counter& refused_;
};

// Of one stream; used on its core.
class Leases {
 public:
  static constexpr std::chrono::milliseconds longest{600'000};

  // `limits` outlives it.
  Leases(LeaseLimits& limits, std::string_view account);
  ~Leases();
  Leases(const Leases&) = delete;

  // A new lease, or `id` if it exists, prolonged to at least `until`.
  uint64_t begin(uint64_t id, Deadline until);
  // slow_down: a limit is reached. no_such_key: the lease has ended.
  Result<void> add(uint64_t id, std::string_view bucket, std::string_view key,
                   std::shared_ptr<store::ObjectReader> reader, bool in_memory);
  // From now on it ends at `until`, unless it ends later already; a lease without keys ends at once. False: it has
  // ended.
  bool keep_until(uint64_t id, Deadline until);
  // Null: the lease or the key in it does not exist.
  std::shared_ptr<store::ObjectReader> find(uint64_t id, std::string_view bucket, std::string_view key) const;
  void end(uint64_t id);
  // Ends those whose time is over, and releases some of what has ended.
  void sweep(Deadline now);

 private:
  struct Kept {
    std::shared_ptr<store::ObjectReader> reader;
    uint64_t bytes = 0;
    bool in_memory = false;
    size_t bucket_size = 0;  // of the name, "bucket/key"
  };
  struct Lease {
    Deadline until;
    bool kept = false;  // the client knows it
    std::unordered_map<std::string, Kept> keys;
  };
  static constexpr size_t release_max = 16'384;  // keys at once: a large lease does not stop the core
  void release_some();
  void release(const std::string& name, Kept& kept);

  LeaseLimits& limits_;
  const LeaseLimits::PartyPtr account_;
  LeaseLimits::Party own_;
  std::unordered_map<uint64_t, Lease> leases_;
  std::set<std::pair<Deadline, uint64_t>> by_end_;
  std::vector<Lease> ended_;  // to be released
};

}  // namespace verbena::native
