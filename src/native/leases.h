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
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "native/foreign_pins.h"
#include "s3/access/access.h"
#include "store/store.h"

namespace verbena::native {

// What leases hold: of all together, half of that for one account, a quarter (not of the memory) for one session on one
// endpoint. Thread-safe.
class LeaseLimits {
 public:
  struct Options {
    uint64_t keys_max = 0;          // 0: no leases
    uint64_t bytes_max = 0;         // of the objects
    uint64_t memory_bytes_max = 0;  // of what they hold in memory: lease_memory()
  };
  struct Party {
    std::atomic<uint64_t> keys{0}, bytes{0};
    uint64_t memory_bytes = 0;  // of an account; under the lock
  };
  using PartyPtr = std::shared_ptr<Party>;

  explicit LeaseLimits(Options options);
  PartyPtr account(std::string_view name);
  bool are_off() const { return options_.keys_max == 0; }
  // One key more, of an object of `bytes`. False: a limit is reached, and nothing was taken.
  bool take(Party& account, Party& stream, uint64_t bytes, bool in_memory);
  void give_back(Party& account, Party& stream, uint64_t bytes, bool in_memory);
  // Likewise, of a bounded bucket of another account than this one.
  bool take_foreign(const s3::BucketAccess& bucket, std::string_view account, std::string_view key, uint64_t bytes);
  void give_back_foreign(const s3::BucketAccess& bucket, std::string_view account, std::string_view key) {
    foreign_.give_back(bucket, account, key);
  }

 private:
  bool fits(const Party& party, uint64_t bytes, unsigned share) const;

  const Options options_;
  ForeignPins foreign_;
  std::mutex mutex_;  // of what follows
  std::map<std::string, std::weak_ptr<Party>, std::less<>> accounts_;
  Party all_;
  metrics::Gauge &keys_gauge_, &bytes_gauge_;
  metrics::Counter& refused_;
};

// What a lease holds in memory of an object: all of one in the hot tier or small enough to lie in the index, and what
// describes it.
uint64_t lease_memory(uint64_t bytes, bool in_memory);

// Whether they are the same bytes.
bool is_same_version(const store::ObjectInfo& one, const store::ObjectInfo& other);

// The leases of one core's streams; used on that core.
class LeaseBook {
 public:
  // Of a turn: leases that end, and keys that are released. A large lease does not stop the core.
  static constexpr size_t turn_max = 1024;

  explicit LeaseBook(LeaseLimits& limits) : limits_(limits) {}  // `limits` outlives it
  ~LeaseBook();
  LeaseBook(const LeaseBook&) = delete;

  LeaseLimits& limits() { return limits_; }
  // Ends leases whose time or stream is over, and releases what has ended: as much as in a turn. True: some is left.
  bool work(Deadline now);

 private:
  friend class Leases;
  // A stream. It outlives its leases.
  struct Owner {
    std::string account;  // empty: of a client without one
    LeaseLimits::PartyPtr payer;
    LeaseLimits::Party own{};
    std::unordered_set<uint64_t> leases{};
    bool open = true;
  };
  using OwnerPtr = std::shared_ptr<Owner>;
  struct Kept {
    std::shared_ptr<store::ObjectReader> reader;
    s3::BucketAccessPtr bucket;
    uint64_t bytes = 0;
    bool in_memory = false;
    bool foreign = false;  // take_foreign()
  };
  struct Lease {
    OwnerPtr owner;
    Deadline until, last;
    Deadline promised = Deadline::min();  // to the client
    size_t requests = 1;                  // that add to it and are not answered
    std::unordered_map<std::string, Kept> keys{};
  };
  using Leased = std::unordered_map<uint64_t, Lease>;

  uint64_t make(OwnerPtr owner, Deadline until, Deadline now);
  // Null: it has ended, or is another stream's.
  Lease* of(const Owner& owner, uint64_t id);
  void end_at(uint64_t id, Lease& lease, Deadline until);
  void end(Leased::iterator lease);
  static bool is_foreign(const Owner& owner, const s3::BucketAccess& bucket);
  void release(Owner& owner, const std::string& name, Kept& kept);

  LeaseLimits& limits_;
  Leased leases_;
  std::set<std::pair<Deadline, uint64_t>> by_end_;
  std::vector<OwnerPtr> closed_;  // whose leases have to be ended
  std::vector<Lease> ended_;      // to be released
};

// Those of one stream.
class Leases {
 public:
  // From a lease's begin, however often it is prolonged: so long the space of a removed object may be kept.
  static constexpr std::chrono::milliseconds longest{60'000};

  Leases(std::shared_ptr<LeaseBook> book, std::string_view account);
  ~Leases();
  Leases(const Leases&) = delete;

  // Of a request, which ends with keep_until() or leave(). A new lease, or `id` if it exists and its longest is not
  // over. It does not end before `until`, which leaves time for the answer: a minute after its longest at most.
  uint64_t begin(uint64_t id, Deadline until, Deadline now = SteadyClock::now());
  // In place of another version of the key. `bucket` is its record from before the object was found. slow_down: a limit
  // is reached, and another version is still held. no_such_key: the lease has ended.
  Result<void> add(uint64_t id, const s3::BucketAccessPtr& bucket, std::string_view key,
                   std::shared_ptr<store::ObjectReader> reader, bool in_memory);
  // The client knows of it: it ends at `until`, or when an earlier answer said, if that is later, but not after its
  // longest, and not before other requests that add to it are answered. One without keys ends at once. False: it has
  // ended, or has no keys.
  bool keep_until(uint64_t id, Deadline until);
  // The request was not answered: the lease ends when earlier answers said.
  void leave(uint64_t id);
  struct Found {
    std::shared_ptr<store::ObjectReader> reader;  // null: the lease or the key in it does not exist
    s3::BucketAccessPtr bucket;
  };
  // By a lease of this stream, or of another one of the same account on this core.
  Found find(uint64_t id, std::string_view bucket, std::string_view key) const;
  void end(uint64_t id);

 private:
  // The end of a request of a lease.
  void close(uint64_t id, LeaseBook::Lease& lease);

  const std::shared_ptr<LeaseBook> book_;
  const LeaseBook::OwnerPtr owner_;
};

}  // namespace verbena::native
