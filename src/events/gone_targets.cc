#include "events/gone_targets.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "events/look_pause.h"
#include "events/run_task.h"

namespace verbena::events {
namespace {

constexpr size_t events_at_once = 1000;
constexpr size_t bytes_at_once = 4 * MiB;

}  // namespace

// One call at a time drops a target's events: the store reads and removes one queue's events for one caller at a time.
struct GoneTargets::Turn {
  GoneTargets& targets;
  const std::string name;
  bool taken = false;
  Turn(GoneTargets& all, std::string target) : targets(all), name(std::move(target)) {
    const std::lock_guard lock(targets.mutex_);
    taken = targets.dropping_.insert(name).second;
  }
  ~Turn() {
    if (!taken) return;
    const std::lock_guard lock(targets.mutex_);
    targets.dropping_.erase(name);
  }
  Turn(const Turn&) = delete;
};

GoneTargets::GoneTargets(store::Store& store, s3::EventQueues& queues, Options options)
    : store_(store), queues_(queues), options_(std::move(options)) {}

Result<void> GoneTargets::load() {
  VB_ASSIGN(auto names, run_task(io_, store_.event_queues()));
  // Counts also go to zero for queues that are gone from the store.
  for (const auto& state : queues_.states()) {
    if (state.target.type.empty() && std::ranges::find(names, state.target.name) == names.end()) {
      names.push_back(state.target.name);
    }
  }
  for (const std::string& name : names) {
    if (queues_.has_target(name)) continue;
    const Turn turn(*this, name);
    if (!turn.taken) continue;
    VB_ASSIGN(const auto backlog, run_task(io_, store_.event_backlog(name)));
    queues_.load(name, backlog);
  }
  return {};
}

// A single server makes all changes itself, so it needs no thread.
void GoneTargets::start() {
  if (options_.on_duty) thread_ = std::thread(&GoneTargets::loop, this);
}

void GoneTargets::begin_stop() {
  const std::lock_guard lock(mutex_);
  stop_ = true;
  stopped_.notify_all();
}

void GoneTargets::stop() {
  begin_stop();
  if (thread_.joinable()) thread_.join();
}

void GoneTargets::loop() {
  SteadyClock::duration pause = options_.look_every;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stopped_.wait_for(lock, pause, [this] { return stop_; })) return;
    }
    const auto began = SteadyClock::now();
    try {
      if (const auto counted = load(); !counted) {
        log::warn("events: what waits for targets that are gone cannot be counted: {}", describe(counted.error()));
      }
    } catch (const std::exception& e) {
      log::error("events: {}", e.what());
    }
    pause = pause_after_look(options_.look_every, SteadyClock::now() - began);
  }
}

Task<Result<GoneTargets::Dropped>> GoneTargets::drop(std::string target, std::string who, Deadline until) {
  if (queues_.has_target(target)) co_return fail(Errc::not_found, "events: the target is configured");
  if (options_.on_duty && !options_.on_duty()) co_return fail(Errc::unsupported, "events: another server delivers");
  const Turn turn(*this, target);
  if (!turn.taken) co_return fail(Errc::would_block, "events: another call drops them");
  const auto waiting = queues_.waiting(target);
  if (waiting.empty()) co_return fail(Errc::not_found, "events: nothing waits");
  log::warn("events: {}: {} begins to drop what waits: the target is not configured", target, who);
  Dropped dropped;
  Result<void> done;
  // What cannot be read of one bucket stays; others' events go.
  for (const auto& one : waiting) {
    if (SteadyClock::now() >= until) break;
    const auto of = co_await drop_of(target, one.bucket, until, dropped);
    if (!of && done) done = of;
    if (!of && of.error() == Errc::unsupported) break;
  }
  for (const auto& one : queues_.waiting(target)) dropped.left += one.events;
  log::warn("events: {}: {} drops {} events ({} bytes); {} are left", target, who, dropped.events, dropped.bytes,
            dropped.left);
  if (!done) co_return std::unexpected(done.error());
  co_return dropped;
}

Task<Result<void>> GoneTargets::drop_of(std::string target, uint64_t bucket, Deadline until, Dropped& dropped) {
  for (uint64_t behind = 0; SteadyClock::now() < until;) {
    // Another server may have a target of that name by now.
    if (options_.on_duty && !options_.on_duty()) co_return fail(Errc::unsupported, "events: another server delivers");
    VB_CO_ASSIGN(const auto events, co_await store_.events(target, bucket, behind, events_at_once, bytes_at_once));
    if (events.empty()) co_return Result<void>();
    std::vector<uint64_t> ids;
    uint64_t bytes = 0;
    for (const auto& event : events) {
      ids.push_back(event.id);
      bytes += event.record.size();
    }
    behind = ids.back();
    VB_CO_TRY(co_await store_.remove_events(target, bucket, std::move(ids)));
    queues_.removed(target, bucket, events.size(), bytes);
    queues_.let_go(target, events.size());
    dropped.events += events.size();
    dropped.bytes += bytes;
  }
  co_return Result<void>();
}

}  // namespace verbena::events
