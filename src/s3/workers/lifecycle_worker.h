// Carries out the lifecycle rules of all buckets, in the background, on a thread of its own. It goes through a bucket's
// versions and uploads page by page, with a pause between pages and few removals at a time, and stores its position
// with the bucket, so that a restart continues there.
//
// Anything may change between the selection of a version and its removal. So the bucket and its rules are read again
// for each page, and each removal carries the facts of its selection (store/removal_grounds.h): the commit checks them
// again and removes nothing if one has changed. Object locks hold for it as for any caller.
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
  int64_t day_s = 86'400;  // length of a day in seconds
  int page_size = 1000;
  std::chrono::milliseconds pause{5};  // between pages
  std::function<bool()>
      on_duty{};  // if servers share a store: whether this one is the leader; called before each removal
};

// One pass over all buckets. For the worker, and for tests.
class LifecyclePass {
 public:
  // `service`: announces removals; null: they are not announced.
  LifecyclePass(store::Store& store, const WallClock& clock, LifecycleOptions options, const std::atomic<bool>& stop,
                Service* service = nullptr)
      : store_(store), clock_(clock), options_(options), stop_(stop), service_(service) {}
  Task<> run();

 private:
  // The bucket and its rules, as last read.
  struct Ground {
    std::string bucket;
    int64_t created_us = 0;
    store::Versioning versioning = store::Versioning::off;
    store::Document document;
    std::shared_ptr<const std::vector<LifecycleRule>> rules;

    store::RemovalGrounds as(store::RemovalGrounds::Of of) const;
  };
  // State of the key under the cursor.
  struct Key {
    std::string name;
    std::optional<store::VersionEntry> above;  // the next newer version, if it was seen and not removed
    uint32_t noncurrent_seen = 0;              // and not removed
    std::optional<store::VersionEntry>
        lone_marker;  // a newest delete marker, if no other version of the key was seen yet
  };
  enum class Outcome : uint8_t { removed, stayed, refused };

  Task<Result<void>> bucket(std::string name);
  // False: the bucket is gone, is a new one of its name, or has no rules any more.
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

// Runs a pass every 24th of a day, at most one per second.
class LifecycleWorker {
 public:
  LifecycleWorker(Service& service, LifecycleOptions options);
  ~LifecycleWorker() { stop(); }
  void start();
  void stop();  // ends the running pass; waits for it

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
