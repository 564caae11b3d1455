#include "base/blocking.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"

namespace verbena {

struct BlockingPool::State {
  struct Work {
    const char* reason;
    std::function<void()> run;
    uint64_t queued;  // ticks()
    bool is_bounded;
  };
  metrics::Histogram& waits =
      metrics::histogram("verbena_queue_wait_seconds", "Waits for a limited resource", {{"queue", "blocking"}});
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<Work> queue;
  // Of the queue's works those that the bound is for. Works of run_in_order() take none of its places: else some
  // callers of these would have all others refused.
  size_t bounded = 0, queue_max = 0;
  bool stopping = false;
  size_t working = 0;  // threads that have not ended
  std::condition_variable ended;
  std::vector<std::thread> threads;  // used by the pool's owner only

  void work();
};

namespace {

struct ReasonMetrics {
  metrics::Counter* calls;
  metrics::Counter* microseconds;
};

// Per thread, so that the lookup takes no lock once warm.
const ReasonMetrics& metrics_of(const char* reason) {
  thread_local std::map<const char*, ReasonMetrics> known;
  auto it = known.find(reason);
  if (it == known.end()) {
    const metrics::Labels labels{{"reason", reason}};
    it = known
             .emplace(reason, ReasonMetrics{&metrics::counter("verbena_blocking_calls_total",
                                                              "Calls on the blocking pool", labels),
                                            &metrics::counter("verbena_blocking_microseconds_total",
                                                              "Time spent in calls on the blocking pool", labels)})
             .first;
  }
  return it->second;
}

}  // namespace

void BlockingPool::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    ready.wait(lock, [this] { return stopping || !queue.empty(); });
    if (queue.empty()) break;
    Work next = std::move(queue.front());
    queue.pop_front();
    if (next.is_bounded) --bounded;
    lock.unlock();
    waits.observe_since(next.queued);
    const auto started = SteadyClock::now();
    const auto& m = metrics_of(next.reason);
    m.calls->add();  // before the work: its caller may read this as soon as it has ended
    next.run();
    m.microseconds->add(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - started).count()));
    next.run = nullptr;
    lock.lock();
  }
  --working;
  ended.notify_all();
}

BlockingPool::BlockingPool(unsigned threads, size_t queue_max) : state_(std::make_shared<State>()) {
  state_->queue_max = queue_max;
  state_->working = threads;
  for (unsigned i = 0; i < threads; ++i) state_->threads.emplace_back([s = state_] { s->work(); });
}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->ready.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

bool BlockingPool::leave(std::chrono::milliseconds at_most) {
  std::deque<State::Work> never;
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->queue.swap(never);
  state_->ready.notify_all();
  const bool all = state_->ended.wait_for(lock, at_most, [this] { return state_->working == 0; });
  lock.unlock();
  for (auto& thread : state_->threads) all ? thread.join() : thread.detach();
  state_->threads.clear();
  return all;
}

bool BlockingPool::submit(const char* reason, std::function<void()> work) {
  return submit(reason, std::move(work), Queued::within_bound);
}

bool BlockingPool::submit(const char* reason, std::function<void()> work, Queued queued) {
  {
    const std::lock_guard lock(state_->mutex);
    const bool is_bounded = queued == Queued::within_bound;
    if ((is_bounded && state_->bounded >= state_->queue_max) || state_->stopping) return false;
    state_->queue.push_back({reason, std::move(work), ticks(), is_bounded});
    if (is_bounded) ++state_->bounded;
  }
  state_->ready.notify_one();
  return true;
}

}  // namespace verbena
