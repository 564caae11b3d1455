// Server access logs: records of requests to buckets with logging are collected and delivered, as objects, into the
// buckets that their owners named. Delivery is best effort, as at AWS: records that cannot be delivered are counted and
// dropped, and a request never waits for its record.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/task.h"
#include "s3/buckets/logging_rules.h"
#include "s3/service.h"
#include "s3/workers/log_record.h"

namespace verbena::s3 {

class RequestLog;

// A request to a bucket with logging, while it is served.
struct LogEntry final : call::BucketRecord {
  LogEntry(RequestLog& of, LoggingRule by) : log(of), rule(std::move(by)) {}
  void set_acl_required() override { record.acl_required = !of_source; }
  void finish(const call::Answered& answered, const call::Details& details) override;

  RequestLog& log;
  LoggingRule rule;
  LogRecord record{};
  bool of_source = false;  // of a copy's source: the answer was sent by the target
  std::string account{};   // of the bucket's owner: 12 digits
};

class RequestLog {
 public:
  struct Options {
    // In milliseconds, because it is divided: a quarter of three seconds would be rounded to zero.
    std::chrono::milliseconds interval{300'000};  // from a batch's first record to its delivery
    size_t batch_bytes_max = 1 * MiB;             // a batch of that size is delivered at once
    // Of all batches. Each bucket owner has a fair share of it, and each client address a fair share of the owner's
    // (base/fair_share.h): a flood of records displaces only records of the same owner and address.
    size_t queued_bytes_max = 16 * MiB;
    std::chrono::milliseconds stop_max{10'000};  // after it a stop begins no delivery
  };
  RequestLog(Service& service, Options options) : service_(service), options_(options), in_use_(*service.buckets_log) {}
  ~RequestLog() { stop(); }
  RequestLog(const RequestLog&) = delete;

  void start();
  // From now on delivers all records, those of owners in turns. Does not wait.
  void begin_stop();
  // Begins the stop and waits for its end. No delivery begins later than Options::stop_max after the stop: what is left
  // then is dropped, and the server's log says how much. The delivery under way is not cut off.
  void stop();

  // Null: that bucket's requests are not logged.
  Task<std::shared_ptr<LogEntry>> begin(const std::string& bucket);
  // Called when the first bucket has logging. Until then begin() need not be called. An access record of a bucket with
  // logging does the same (access/access.cc).
  void use() { in_use_.store(true, std::memory_order_relaxed); }
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // Thread-safe; does not wait.
  void add(const LogEntry& entry);
  // Called after each key of a request with many keys, so that the cost of a thousand records is spread over the
  // request. The record has the request's id, but not its long texts, which the request's own record has.
  void add_deletion(const LogEntry& entry, const call::Deletion& deletion);
  // Delivers the batches that are due; `all`: every batch. Once a stop has begun, those that are due are left for the
  // delivery of all. For the thread, and for tests.
  Task<> deliver(bool all);
  uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }  // number of checks for due batches so far

 private:
  struct Batch {
    LoggingRule rule;
    std::string owner;  // of the records' bucket
    LogSource source;
    std::chrono::steady_clock::time_point due;
    std::string lines;
    std::map<std::string, size_t> bytes_of{};  // by address
  };
  // The queued bytes of an owner, in total and by client address.
  struct Queued {
    size_t bytes = 0;
    std::map<std::string, size_t> of_address{};
  };
  bool fits(const LogRecord& record, const std::string& client, size_t bytes) const;  // under mutex_
  void queue(const LogEntry& entry, const LogRecord& record);
  Task<> loop();
  Task<> find_users();
  Task<Result<void>> write(const Batch& batch);
  std::vector<Batch> take(bool all);
  bool pressed() const { return queued_bytes_ > options_.queued_bytes_max / 8; }  // under mutex_
  void wake();                                                                    // under mutex_
  bool is_late() const;                                                           // to begin another delivery of a stop
  Task<> deliver_one(const Batch& batch);
  void drop_at_stop(std::span<const Batch> batches);
  void tell_dropped(const Batch& batch, const Error& error);
  bool is_woken();

  Service& service_;
  const Options options_;
  std::atomic<bool>& in_use_;
  std::mutex mutex_;
  std::map<std::string, Batch> batches_;  // by destination
  size_t queued_bytes_ = 0;
  std::map<std::string, Queued> queued_of_;  // by owner; only owners with queued records
  bool woken_ = false;                       // deliver early: much is queued
  std::vector<Batch> left_;                  // taken before a stop and left for its deliveries; for the thread
  uint64_t untold_ = 0;                      // dropped batches not yet reported in the server's log
  std::chrono::steady_clock::time_point tell_at_{};
  std::chrono::steady_clock::time_point stop_by_{};  // set before stop_
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> looks_{0};
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  std::thread thread_;
};

// The record of the request; null: its bucket has no log.
inline LogEntry* log_of(const Call& call) {
  LogEntry* const first = call.records.empty() ? nullptr : static_cast<LogEntry*>(call.records.front().get());
  return first == nullptr || first->of_source ? nullptr : first;
}

// The requester's name in records; empty for an anonymous caller.
void name_requester(const Call& caller, LogRecord& record);

}  // namespace verbena::s3
