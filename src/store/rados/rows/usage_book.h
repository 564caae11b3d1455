// Usage of the buckets: this process's own counts are added with each change (batcher.h); other servers' counts are
// read from the tablets from time to time: every other second for buckets whose usage was requested recently, less
// often for the others.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "store/logic/bucket.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// The server that has counted what this row of a tablet says; nullopt: the row means nothing yet, since the tablet that
// it is of has not been joined with this one.
std::optional<uint64_t> usage_counted_in(std::string_view row, const BucketState& state);

// The rest after a round of readings, so that they are a small part of this process's work.
class ReadingPace {
 public:
  static constexpr std::chrono::seconds rest_min{2};
  // Of one reading. What an OSD keeps waiting for half a minute is no work, and not to be followed by minutes in which
  // nothing is read.
  static constexpr std::chrono::milliseconds counted_max{100};

  void add(SteadyClock::duration took) { work_ += std::min<SteadyClock::duration>(took, counted_max); }
  SteadyClock::duration rest() const { return std::max<SteadyClock::duration>(rest_min, 3 * work_); }

 private:
  SteadyClock::duration work_{};
};

class UsageBook {
 public:
  static constexpr std::chrono::seconds asked_for_max{60};  // after the last request
  static constexpr size_t others_at_once = 16;              // other buckets read each time

  UsageBook(Registry& registry, boost::asio::io_context& io) : registry_(registry), timer_(io) {}
  // What this process has counted in a tablet's object, while it has that. On the thread of `io`.
  using CountedIn = std::function<Usage(const std::string& tablet)>;
  void begin(uint64_t incarnation, CountedIn counted_in) {
    incarnation_ = incarnation;
    counted_in_ = std::move(counted_in);
  }

  // This process's counts. Thread-safe, like all functions here.
  void count(uint64_t bucket, const Usage& change);
  // Begins to count a bucket. It is uncounted until other servers' counts have been read.
  void know(const std::shared_ptr<const Bucket>& bucket);
  // Stops counting a bucket; call before the bucket is released.
  void forget(uint64_t bucket);
  // Records a request for this account's usage.
  void ask(const std::string& owner);

  // Reads the usage from the tablets. no_such_bucket.
  Task<Result<Usage>> read(uint64_t bucket);
  // Reads what other servers have counted. What this process has counted itself, in a tablet that was joined, and of
  // which no row of its own is left, is another's from now on: this process was taken for dead meanwhile, and its rows
  // were added to the common one. On the thread of `io`.
  Task<Result<void>> look(uint64_t bucket);

  Task<> run();  // until stop()
  void stop();

  // Takes over the counts in a tablet of servers that are not among `living`.
  Task<Result<void>> take_over(std::string tablet, std::set<uint64_t> living);
  // Each join leaves a row for each server in the tablet that remains. Adds up those that count: of a living server to
  // one row, since it knows what it counted itself, and of the others to the common row; one of those that comes back
  // notices it with its next look(). So a tablet has no more of them than servers live, however often it is split and
  // joined.
  Task<Result<void>> fold_joined(BucketPtr bucket, size_t tablet, std::set<uint64_t> living);

 private:
  struct Entry {
    std::shared_ptr<const Bucket> bucket{};  // null: not in use yet
    Usage own{}, others{};
  };
  struct Sums {
    Usage own, own_joined, others;  // own_joined: the part of `own` in rows of joined tablets
  };
  Task<Result<Sums>> sum(BucketPtr state);
  Usage excess(uint64_t bucket, const BucketState& state, const Usage& own_joined);
  void set_others(uint64_t bucket, const Usage& others, const Usage& excess);
  std::set<uint64_t> due();

  Registry& registry_;
  boost::asio::steady_timer timer_;
  uint64_t incarnation_ = 0;
  CountedIn counted_in_{};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;                        // guards the following members
  std::map<uint64_t, Entry> entries_;       // by bucket
  std::map<std::string, Deadline> owners_;  // recently requested owners, with the end of that status
  uint64_t looked_at_ = 0;                  // the last one of the other buckets
};

}  // namespace verbena::store::rados
