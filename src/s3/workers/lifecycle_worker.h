// Carries out the lifecycles of all buckets, in the background, on a thread of its own. It goes through a bucket's
// versions and uploads page by page, with a pause between pages and few removals at a time, and remembers with the
// bucket how far it came, so that a restart goes on there.
//
// Between a look and a removal anything may change. So the bucket and its rules are looked at again for each page, and
// each removal brings what it was judged by (store/removal_grounds.h): the commit judges that once more, and where
// something is another by then, nothing goes. Locks hold for it as for everyone.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "s3/documents/lifecycle_rules.h"
#include "s3/service.h"
#include "store/removal_grounds.h"

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
  // The bucket and its rules, as they were when they were last looked at.
  struct Ground {
    std::string bucket;
    int64_t created_us = 0;
    store::Versioning versioning = store::Versioning::off;
    store::Document document;
    std::shared_ptr<const std::vector<LifecycleRule>> rules;

    store::RemovalGrounds as(store::RemovalGrounds::Of of) const;
  };
  // What is known of the key under the cursor.
  struct Key {
    std::string name;
    std::optional<store::VersionEntry> above;        // the next newer version, where that was seen and has stayed
    uint32_t noncurrent_seen = 0;                    // and stayed
    std::optional<store::VersionEntry> lone_marker;  // a newest delete marker of which no other version was seen yet
  };
  enum class Outcome : uint8_t { removed, stayed, refused };

  Task<Result<void>> bucket(std::string name);
  // False: it has gone, is another one of that name, or has no rules any more.
  Task<Result<bool>> look_again(Ground& ground);
  Task<Result<void>> versions(Ground& ground);
  Task<Result<bool>> page(Ground& ground, const store::VersionPage& page, Key& key);  // as look_again()
  Task<Result<void>> uploads(Ground& ground);
  Task<Result<bool>> page(Ground& ground, const store::UploadPage& page);
  Task<Outcome> judge(const Ground& ground, const store::VersionEntry& entry, Key& key);
  Task<Outcome> judge_version(const Ground& ground, const store::VersionEntry& entry, Key& key);
  Task<Outcome> judge_noncurrent(const Ground& ground, const store::VersionEntry& entry, Key& key);
  Task<Outcome> end_key(const Ground& ground, Key& key);
  Task<Outcome> remove(const Ground& ground, const store::VersionEntry& entry, store::RemovalGrounds grounds);
  Task<> rest();
  bool ends() const { return stop_ || (options_.on_duty && !options_.on_duty()); }
  bool marker_due(const Ground& ground, const store::VersionEntry& entry) const;
  const LifecycleRule* noncurrent_due(const Ground& ground, const store::VersionEntry& entry, const Key& key) const;

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
