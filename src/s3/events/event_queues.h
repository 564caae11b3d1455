// The queues of events, one for each configured target: the amount waiting in each and of which bucket, and whether
// there is room for more. The events themselves are in the store.
//
// Each queue is bounded. The events of one account's buckets may use as much as is still free, so that an account with
// many events fills its own share and not another's: one such account gets half of the queue, of two each a third, and
// some is always left. The owner of events of an earlier start is known once their bucket has a new one; until then
// they count together.
//
// Queues of targets that are no longer configured may exist: bounded and counted like the others, until such a target
// is configured again or an operator discards the events. They share one set of metrics.
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
    bool drop_when_full = false;  // drops the event, else the change is refused
  };
  EventQueues(std::vector<Target> targets, Limits limits);
  ~EventQueues();
  EventQueues(const EventQueues&) = delete;

  bool has_target(std::string_view name, std::string_view type) const;
  bool has_target(std::string_view name) const;
  const std::vector<Target>& targets() const { return targets_; }

  // All functions below are thread-safe.

  // Loads the store's counts: before the first event, and again when other servers add and deliver, too.
  void load(const std::string& queue, const std::vector<store::EventBacklog>& backlog);
  // Decides whether an event may be added, and reserves its room until it is. Null: drop it. slow_down: refuse the
  // change. `owner`: of the bucket. The room may outlive the queues.
  using RoomPtr = std::shared_ptr<store::EventRoom>;
  Result<RoomPtr> admit(const std::string& queue, const std::string& owner, size_t bytes);
  // Counts events that are in the store now, and ends their reservations.
  void added(uint64_t bucket, const std::string& owner, const std::vector<store::EventRow>& events);
  void removed(const std::string& queue, uint64_t bucket, uint64_t events, uint64_t bytes);
  // Records a delivery: the number of confirmed events, and whether it failed.
  void tried(const std::string& queue, uint64_t confirmed, bool failed);
  // Records events that an operator has discarded; they are removed from the store, too.
  void let_go(const std::string& queue, uint64_t events);

  struct State {
    Target target;                                // without a type: no longer configured
    uint64_t events = 0, bytes = 0, buckets = 0;  // waiting events, and the number of their buckets
    uint64_t delivered = 0, let_go = 0;           // since the start
    bool up = true;                               // the last delivery succeeded
  };
  // In the order of the configuration; then targets that are no longer configured and have events.
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
    Amount& operator+=(Amount more);
    Amount& operator-=(Amount less);
  };
  // Rooms of events that are not counted yet. Locked after mutex_.
  struct Reserved {
    struct InQueue {
      Amount all{};
      std::map<std::string, Amount> owners{};
    };
    Amount all(const std::string& queue) const;
    Amount own(const std::string& queue, const std::string& owner) const;
    std::mutex mutex;
    std::map<std::string, InQueue> queues{};  // with rooms
  };
  class Room;
  struct Queue {
    explicit Queue(const std::string& label);
    uint64_t events = 0, bytes = 0;
    std::map<uint64_t, Waiting> buckets{};   // with events
    std::map<std::string, Amount> owners{};  // likewise
    uint64_t delivered = 0, let_go = 0;
    bool up = true;
    bool woken = false;
    std::condition_variable changed{};
    metrics::Gauge &events_gauge, &bytes_gauge;
    metrics::Counter &refused, &dropped, &delivered_counter, &failures, &let_go_counter;
    metrics::Gauge* up_gauge = nullptr;  // null: no delivery
  };
  // Includes targets that are no longer configured.
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
  const std::shared_ptr<Reserved> reserved_ = std::make_shared<Reserved>();
};

}  // namespace verbena::s3
