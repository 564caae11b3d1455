// What the buckets hold, as this process knows it: what it has counted itself is there with each change (batcher.h),
// what other servers have counted is read from the tablets now and then: every other second of buckets whose usage is
// asked for, and of the others by and by.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "store/logic/bucket.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class UsageBook {
 public:
  static constexpr std::chrono::seconds look_every{2};      // at what is asked for
  static constexpr std::chrono::seconds asked_for_max{60};  // after the last question
  static constexpr size_t others_at_once = 16;              // buckets that are not asked for, looked at each time

  UsageBook(Registry& registry, boost::asio::io_context& io) : registry_(registry), timer_(io) {}
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }

  // Of this process. Thread-safe, as all here.
  void count(uint64_t bucket, const Usage& change);
  // A bucket that is in use from now on. Until what others counted has been read it is uncounted.
  void know(const std::shared_ptr<const Bucket>& bucket);
  // Before the bucket goes out of use: nothing is counted for it any more.
  void forget(uint64_t bucket);
  // Somebody wants to know what this account holds.
  void ask(const std::string& owner);

  // As the tablets say it now. no_such_bucket.
  Task<Result<Usage>> read(uint64_t bucket);
  // Reads what other servers have counted.
  Task<Result<void>> look(uint64_t bucket);

  Task<> run();  // until stop()
  void stop();

  // Takes over what servers counted in a tablet that are not among `living`.
  Task<Result<void>> take_over(std::string tablet, std::set<uint64_t> living);

 private:
  struct Entry {
    std::shared_ptr<const Bucket> bucket{};  // null: not in use yet
    Usage own{}, others{};
  };
  struct Sums {
    Usage own, others;
  };
  Task<Result<Sums>> sum(BucketPtr state);
  void set_others(uint64_t bucket, const Usage& others);
  std::set<uint64_t> due();

  Registry& registry_;
  boost::asio::steady_timer timer_;
  uint64_t incarnation_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;                        // of these
  std::map<uint64_t, Entry> entries_;       // by bucket
  std::map<std::string, Deadline> owners_;  // owners that were asked for, and until when that counts
  uint64_t looked_at_ = 0;                  // the last of the buckets that are not asked for
};

}  // namespace verbena::store::rados
