// Carries out the lifecycles of all buckets, in the background, on a thread of its own. It goes through a bucket's
// versions and uploads page by page, with a pause between pages and few removals at a time, and remembers with the
// bucket how far it came, so that a restart goes on there. Each removal is conditional on what was judged, and locks
// hold for it as for everyone.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "s3/buckets/lifecycle_rules.h"
#include "s3/service.h"

namespace verbena::s3 {

struct LifecycleOptions {
  int64_t day_s = 86'400;  // seconds that a day has
  int page_size = 1000;
  std::chrono::milliseconds pause{5};  // between pages
  std::function<bool()> on_duty{};     // where servers share a store: whether this one does it; asked before each act
};

// One pass over everything, once. For the worker, and for tests.
class LifecyclePass {
 public:
  // `service`: announces what is removed; null: nothing is.
  LifecyclePass(store::Store& store, const WallClock& clock, LifecycleOptions options, const std::atomic<bool>& stop,
                Service* service = nullptr)
      : store_(store), clock_(clock), options_(options), stop_(stop), service_(service) {}
  Task<> run();

 private:
  using Rules = std::vector<LifecycleRule>;
  // What is known of the key under the cursor.
  struct Key {
    std::string name;
    int64_t successor_us = 0;  // when the version above was made
    uint32_t noncurrent_seen = 0;
    std::optional<store::VersionEntry> lone_marker;  // a newest delete marker of which no other version was seen yet
  };
  Task<Result<void>> bucket(std::string name);
  Task<Result<void>> versions(const std::string& bucket, const Rules& rules);
  Task<Result<void>> uploads(const std::string& bucket, const Rules& rules);
  Task<> judge(const std::string& bucket, const Rules& rules, const store::VersionEntry& entry, Key& key);
  Task<> end_key(const std::string& bucket, const Rules& rules, Key& key);
  Task<> remove(const std::string& bucket, const std::string& key, const store::ObjectInfo& info, bool by_version);
  Task<> rest();
  bool ends() const { return stop_ || (options_.on_duty && !options_.on_duty()); }
  bool marker_due(const Rules& rules, const store::VersionEntry& entry) const;
  bool noncurrent_due(const Rules& rules, const store::VersionEntry& entry, const Key& key) const;

  store::Store& store_;
  const WallClock& clock_;
  const LifecycleOptions options_;
  const std::atomic<bool>& stop_;
  Service* const service_;
};

// Passes, again and again: a pass every 24th of a day, at most each second.
class LifecycleWorker {
 public:
  LifecycleWorker(Service& service, LifecycleOptions options);
  ~LifecycleWorker() { stop(); }
  void start();
  void stop();  // ends the pass that runs; waits

 private:
  Task<> loop();
  Service& service_;
  const LifecycleOptions options_;
  std::atomic<bool> stop_{false};
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  std::thread thread_;
};

}  // namespace verbena::s3
