// Objects by the time of their end (store/ends.h) over the cluster. The row of an end is stored in its key's tablet,
// written and erased by the call that changes the key, and goes with the key when tablets are split and joined.
//
// One object names the buckets that have, or had, an object with an end, so that the tablets of others are never read
// for them. A bucket is named there before its first end is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/ends.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class EndRows {
 public:
  explicit EndRows(Registry& registry);

  // Call before a change that writes an end in that bucket. Thread-safe.
  Task<Result<void>> mark(uint64_t bucket);
  // At most `max` entries whose end has come: by bucket, then tablet, then time. Without the buckets' names and times.
  // A bucket or tablet that cannot be read is passed over, told to the log, counted, and tried again after a pause: it
  // keeps no other one's entries. An error: the object that names the buckets cannot be read.
  Task<Result<std::vector<EndedKey>>> due(int64_t now_us, size_t max, std::optional<EndedKey> after);

 private:
  Task<Result<std::set<uint64_t>>> marked();
  Task<> due_in(BucketPtr bucket, int64_t now_us, size_t max, std::optional<EndedKey> after,
                std::vector<EndedKey>& found);
  Task<Result<void>> due_in_tablet(BucketPtr bucket, size_t tablet, int64_t now_us, size_t max, std::string after,
                                   std::vector<EndedKey>& found);
  Task<Result<void>> unmark_removed(std::set<uint64_t> missing);

  // What failed, by its object's name; tried again at `again`.
  struct Aside {
    SteadyClock::time_point again;
    std::chrono::seconds pause;
  };
  bool is_aside(const std::string& object) const;
  void put_aside(const std::string& object, const Error& error);
  void take_back(const std::string& object);

  Registry& registry_;
  mutable std::mutex mutex_;   // guards the following
  std::set<uint64_t> marked_;  // by this process
  std::map<std::string, Aside> aside_;
};

}  // namespace verbena::store::rados
