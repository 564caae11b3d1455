// Bars late calls: a change of a key that was not answered may still be made. Before it is reported as of unknown
// outcome, the bucket's epoch is raised, and every server is told of the new one. The first call of any server on the
// key's tablet takes the new epoch there, after which the late call fails: what is read of the key from then on does
// not change by that call, whether it was made or not.
//
// An epoch alone changes nothing that anyone sees, so it needs no intent and is charged to no account.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class LateCalls {
 public:
  static constexpr std::chrono::seconds wait_max{60};
  static constexpr size_t runs_max = 128;  // buckets at once

  // Returns when every server has read the bucket again.
  using Tell = std::function<Task<Result<void>>(uint64_t bucket)>;
  // `io` must run as long as stop() was not called.
  LateCalls(Registry& registry, boost::asio::io_context& io, Tell tell)
      : registry_(registry), io_(io), tell_(std::move(tell)) {}

  // Returns when every server knows a later epoch of the bucket than this one, which guards the late call. False: not
  // within `wait_max`; it is tried again until it is done or stop() is called. Thread-safe.
  Task<bool> bar(uint64_t bucket, uint64_t epoch);
  void stop() { stopping_ = true; }

 private:
  struct Wanted {
    uint64_t bucket;
    uint64_t epoch;         // that guards the latest of its late calls
    uint64_t known = 0;     // an epoch that every server knows
    uint32_t failures = 0;  // one after the other
  };
  void add(uint64_t bucket, uint64_t epoch);
  std::optional<Wanted> take();
  std::chrono::milliseconds note(uint64_t bucket, const Result<uint64_t>& known);
  void end(uint64_t bucket);
  bool is_barred(uint64_t bucket, uint64_t epoch);
  Task<> work();
  Task<Result<uint64_t>> try_raise(uint64_t bucket, uint64_t above);
  // Returns an epoch that every server knows, or a greater number than all if the bucket is gone.
  Task<Result<uint64_t>> raise(uint64_t bucket, uint64_t above);

  Registry& registry_;
  boost::asio::io_context& io_;
  const Tell tell_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;                   // guards the following members
  std::map<uint64_t, Wanted> wanted_;  // by bucket
  std::deque<uint64_t> queue_;         // buckets in `wanted_` that none of the tasks works at
  size_t tasks_ = 0;
};

}  // namespace verbena::store::rados
