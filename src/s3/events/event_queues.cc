#include "s3/events/event_queues.h"

#include <algorithm>
#include <utility>

#include "base/fair_share.h"

namespace verbena::s3 {
namespace {

// Not a valid name of a target.
const std::string gone_label = "(gone)";

}  // namespace

EventQueues::Amount& EventQueues::Amount::operator+=(Amount more) {
  events += more.events;
  bytes += more.bytes;
  return *this;
}

EventQueues::Amount& EventQueues::Amount::operator-=(Amount less) {
  events -= less.events;
  bytes -= less.bytes;
  return *this;
}

EventQueues::Amount EventQueues::Reserved::all(const std::string& queue) const {
  const auto found = queues.find(queue);
  return found == queues.end() ? Amount() : found->second.all;
}

EventQueues::Amount EventQueues::Reserved::own(const std::string& queue, const std::string& owner) const {
  const auto found = queues.find(queue);
  if (found == queues.end()) return {};
  const auto of = found->second.owners.find(owner);
  return of == found->second.owners.end() ? Amount() : of->second;
}

class EventQueues::Room final : public store::EventRoom {
 public:
  // The caller holds the lock of `reserved`.
  Room(std::shared_ptr<Reserved> reserved, const std::string& queue, const std::string& owner, Amount amount)
      : reserved_(std::move(reserved)), queue_(queue), owner_(owner), amount_(amount) {
    Reserved::InQueue& in = reserved_->queues[queue_];
    in.all += amount_;
    in.owners[owner_] += amount_;
  }
  ~Room() override { give_back(); }
  // Once, by one thread at a time: the one that makes the change.
  void give_back() {
    if (std::exchange(given_back_, true)) return;
    const std::lock_guard lock(reserved_->mutex);
    const auto in = reserved_->queues.find(queue_);
    const auto own = in->second.owners.find(owner_);
    in->second.all -= amount_;
    own->second -= amount_;
    if (own->second.events == 0) in->second.owners.erase(own);
    if (in->second.all.events == 0) reserved_->queues.erase(in);
  }

 private:
  const std::shared_ptr<Reserved> reserved_;
  const std::string queue_, owner_;
  const Amount amount_;
  bool given_back_ = false;
};

EventQueues::Queue::Queue(const std::string& label)
    : events_gauge(metrics::gauge("verbena_events_queued", "Events that wait for their target", {{"target", label}})),
      bytes_gauge(metrics::gauge("verbena_events_queued_bytes", "Bytes of events that wait", {{"target", label}})),
      refused(metrics::counter("verbena_events_refused_total", "Changes refused because a queue of events was full",
                               {{"target", label}})),
      dropped(metrics::counter("verbena_events_dropped_total", "Events dropped because their queue was full",
                               {{"target", label}})),
      delivered_counter(metrics::counter("verbena_events_delivered_total", "Events that their target has confirmed",
                                         {{"target", label}})),
      failures(metrics::counter("verbena_events_failures_total", "Deliveries that failed and are tried again",
                                {{"target", label}})),
      let_go_counter(metrics::counter("verbena_events_let_go_total",
                                      "Events that an operator has dropped, one by one or with their target",
                                      {{"target", label}})) {}

EventQueues::EventQueues(std::vector<Target> targets, Limits limits) : targets_(std::move(targets)), limits_(limits) {
  const std::lock_guard lock(mutex_);
  for (const Target& target : targets_) {
    Queue& queue = queue_locked(target.name);
    queue.up_gauge =
        &metrics::gauge("verbena_events_target_up", "1: the last delivery did not fail", {{"target", target.name}});
    queue.up_gauge->set(1);
  }
}

EventQueues::~EventQueues() {
  for (const auto& [name, queue] : queues_) shrink(*queue, {queue->events, queue->bytes});
}

bool EventQueues::has_target(std::string_view name, std::string_view type) const {
  return std::ranges::any_of(targets_, [&](const Target& t) { return t.name == name && t.type == type; });
}

bool EventQueues::has_target(std::string_view name) const {
  return std::ranges::find(targets_, name, &Target::name) != targets_.end();
}

EventQueues::Queue& EventQueues::queue_locked(const std::string& name) {
  auto& queue = queues_[name];
  if (queue == nullptr) queue = std::make_unique<Queue>(has_target(name) ? name : gone_label);
  return *queue;
}

// Queues may share a gauge.
void EventQueues::grow(Queue& queue, Amount more) {
  queue.events += more.events;
  queue.bytes += more.bytes;
  queue.events_gauge.add(static_cast<int64_t>(more.events));
  queue.bytes_gauge.add(static_cast<int64_t>(more.bytes));
}

void EventQueues::shrink(Queue& queue, Amount less) {
  queue.events -= less.events;
  queue.bytes -= less.bytes;
  queue.events_gauge.add(-static_cast<int64_t>(less.events));
  queue.bytes_gauge.add(-static_cast<int64_t>(less.bytes));
}

void EventQueues::take_from(Queue& queue, const std::string& owner, Amount less) {
  const auto of = queue.owners.find(owner);
  if (of == queue.owners.end()) return;
  of->second.events -= less.events;
  of->second.bytes -= less.bytes;
  if (of->second.events == 0) queue.owners.erase(of);
}

void EventQueues::add_locked(Queue& queue, uint64_t bucket, const std::string& owner, Amount more) {
  Waiting& own = queue.buckets[bucket];
  own.bucket = bucket;
  if (own.owner != owner) {
    const Amount before{own.events, own.bytes};
    if (before.events != 0) take_from(queue, own.owner, before);
    queue.owners[owner].events += before.events;
    queue.owners[owner].bytes += before.bytes;
    own.owner = owner;
  }
  queue.owners[owner].events += more.events;
  queue.owners[owner].bytes += more.bytes;
  own.events += more.events;
  own.bytes += more.bytes;
  grow(queue, more);
  queue.changed.notify_one();
}

void EventQueues::load(const std::string& queue, const std::vector<store::EventBacklog>& backlog) {
  const std::lock_guard lock(mutex_);
  Queue& of = queue_locked(queue);
  std::map<uint64_t, std::string> owners;
  for (const auto& [bucket, one] : of.buckets) owners.emplace(bucket, one.owner);
  of.buckets.clear();
  of.owners.clear();
  shrink(of, {of.events, of.bytes});
  for (const auto& one : backlog) add_locked(of, one.bucket, owners[one.bucket], {one.events, one.bytes});
}

Result<EventQueues::RoomPtr> EventQueues::admit(const std::string& queue, const std::string& owner, size_t bytes) {
  const std::lock_guard lock(mutex_);
  Queue& into = queue_locked(queue);
  const auto found = into.owners.find(owner);
  {
    const std::lock_guard reserving(reserved_->mutex);
    Amount all{into.events, into.bytes}, own = found == into.owners.end() ? Amount() : found->second;
    all += reserved_->all(queue);
    own += reserved_->own(queue, owner);
    if (fits_fair_share(all.events, own.events, 1, limits_.events_max) &&
        fits_fair_share(all.bytes, own.bytes, bytes, limits_.bytes_max)) {
      return std::make_shared<Room>(reserved_, queue, owner, Amount{1, bytes});
    }
  }
  if (limits_.drop_when_full) {
    into.dropped.add();
    return nullptr;
  }
  into.refused.add();
  return fail(Errc::slow_down, "The queue of this bucket's events is full: their target does not take them.");
}

void EventQueues::added(uint64_t bucket, const std::string& owner, const std::vector<store::EventRow>& events) {
  const std::lock_guard lock(mutex_);
  for (const store::EventRow& event : events) {
    add_locked(queue_locked(event.queue), bucket, owner, {1, event.record.size()});
    // Under the lock, so that it is never counted twice, and a change that fits is not refused.
    if (auto* const room = dynamic_cast<Room*>(event.room.get())) room->give_back();
  }
}

void EventQueues::removed(const std::string& queue, uint64_t bucket, uint64_t events, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Queue& from = queue_locked(queue);
  const auto own = from.buckets.find(bucket);
  if (own == from.buckets.end()) return;
  // Other threads may have counted them before they were added.
  events = std::min(events, own->second.events);
  bytes = std::min(bytes, own->second.bytes);
  take_from(from, own->second.owner, {events, bytes});
  own->second.events -= events;
  own->second.bytes -= bytes;
  if (own->second.events == 0) from.buckets.erase(own);
  shrink(from, {events, bytes});
}

void EventQueues::let_go(const std::string& queue, uint64_t events) {
  const std::lock_guard lock(mutex_);
  Queue& of = queue_locked(queue);
  of.let_go += events;
  of.let_go_counter.add(events);
}

void EventQueues::tried(const std::string& queue, uint64_t confirmed, bool failed) {
  const std::lock_guard lock(mutex_);
  Queue& of = queue_locked(queue);
  of.delivered += confirmed;
  of.delivered_counter.add(confirmed);
  if (failed) of.failures.add();
  of.up = !failed;
  if (of.up_gauge != nullptr) of.up_gauge->set(of.up ? 1 : 0);
}

EventQueues::State EventQueues::state_of(const Queue& queue, Target target) {
  return {.target = std::move(target),
          .events = queue.events,
          .bytes = queue.bytes,
          .buckets = queue.buckets.size(),
          .delivered = queue.delivered,
          .let_go = queue.let_go,
          .up = queue.up};
}

std::vector<EventQueues::State> EventQueues::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<State> states;
  for (const Target& target : targets_) states.push_back(state_of(*queues_.at(target.name), target));
  for (const auto& [name, queue] : queues_) {
    if (queue->events != 0 && !has_target(name)) states.push_back(state_of(*queue, {name, ""}));
  }
  return states;
}

std::vector<EventQueues::Waiting> EventQueues::waiting(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  std::vector<Waiting> all;
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return all;
  for (const auto& [bucket, one] : found->second->buckets) all.push_back(one);
  return all;
}

void EventQueues::wait(const std::string& queue) {
  std::unique_lock lock(mutex_);
  Queue& of = queue_locked(queue);
  of.changed.wait(lock, [&] { return of.woken || !of.buckets.empty(); });
  of.woken = false;
}

void EventQueues::wake(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  Queue& of = queue_locked(queue);
  of.woken = true;
  of.changed.notify_all();
}

}  // namespace verbena::s3
