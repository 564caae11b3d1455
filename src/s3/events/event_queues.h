// The queues of events, one for each target that the operator has named: how much waits in each and of which bucket,
// and whether there is room for more. The events themselves lie in the store.
//
// Each queue is bounded. What one account's buckets have in it may be as much as is still free, so whoever makes many
// events fills his own share and not another's: one such account gets half of the queue, of two each a third, and some
// is always left. Whose events an earlier start left is known when his bucket has the next one; until then they count
// together.
//
// There may be queues of targets that are named no more: bounded and counted like the others, until such a target is
// named again or an operator lets go of what waits. Their metrics are one, whatever they were called.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics.h"
#include "store/event.h"

namespace verbena::s3 {

class EventQueues {
 public:
  struct Target {
    std::string name, type;
  };
  struct Limits {
    uint64_t events_max = 1'000'000;  // of one queue
    uint64_t bytes_max = 1 * GiB;
    bool drop_when_full = false;  // the event, else the change is refused
  };
  EventQueues(std::vector<Target> targets, Limits limits);
  ~EventQueues();
  EventQueues(const EventQueues&) = delete;

  bool has_target(std::string_view name, std::string_view type) const;
  bool has_target(std::string_view name) const;
  const std::vector<Target>& targets() const { return targets_; }

  // All below are thread-safe.

  // What lies in the store: before the first event, and again where others add and deliver, too.
  void load(const std::string& queue, const std::vector<store::EventBacklog>& backlog);
  // Whether an event may be added. False: it is to be dropped. slow_down: refused.
  // `owner`: of the bucket.
  Result<bool> admit(const std::string& queue, const std::string& owner, size_t bytes);
  void added(uint64_t bucket, const std::string& owner, const std::vector<store::EventRow>& events);
  void removed(const std::string& queue, uint64_t bucket, uint64_t events, uint64_t bytes);
  // What came of a delivery: so many were confirmed, and whether it failed then.
  void tried(const std::string& queue, uint64_t confirmed, bool failed);
  // An operator has let go of so many, which are removed, too.
  void let_go(const std::string& queue, uint64_t events);

  struct State {
    Target target;                                // without a type: it is named no more
    uint64_t events = 0, bytes = 0, buckets = 0;  // what waits, and of how many buckets
    uint64_t delivered = 0, let_go = 0;           // since the start
    bool up = true;                               // the last delivery did not fail
  };
  // In the order of the configuration; behind them those that are named no more and have events.
  std::vector<State> states() const;

  struct Waiting {
    uint64_t bucket = 0, events = 0, bytes = 0;
    std::string owner{};
  };
  std::vector<Waiting> waiting(const std::string& queue) const;
  // Waits until there are any, or a wake(). For one thread of each queue.
  void wait(const std::string& queue);
  void wake(const std::string& queue);

 private:
  struct Amount {
    uint64_t events = 0, bytes = 0;
  };
  struct Queue {
    explicit Queue(const std::string& label);
    uint64_t events = 0, bytes = 0;
    std::map<uint64_t, Waiting> buckets{};   // those with some
    std::map<std::string, Amount> owners{};  // likewise
    uint64_t delivered = 0, let_go = 0;
    bool up = true;
    bool woken = false;
    std::condition_variable changed{};
    metrics::Gauge &events_gauge, &bytes_gauge;
    metrics::Counter &refused, &dropped, &delivered_counter, &failures, &let_go_counter;
    metrics::Gauge* up_gauge = nullptr;  // null: nobody delivers
  };
  // Of a target that is named no more, too.
  Queue& queue_locked(const std::string& name);
  static State state_of(const Queue& queue, Target target);
  void add_locked(Queue& queue, uint64_t bucket, const std::string& owner, Amount more);
  static void grow(Queue& queue, Amount more);
  static void shrink(Queue& queue, Amount less);
  static void take_from(Queue& queue, const std::string& owner, Amount less);

  const std::vector<Target> targets_;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Queue>> queues_;
};

}  // namespace verbena::s3
