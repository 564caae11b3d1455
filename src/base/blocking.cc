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
  };
  metrics::Histogram& waits = metrics::histogram("verbena_queue_wait_seconds", "Waits for what there is not enough of",
                                                 {{"queue", "blocking"}});
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<Work> queue;
  size_t queue_max = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

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
    if (queue.empty()) return;
    Work next = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    waits.observe_since(next.queued);
    const auto started = SteadyClock::now();
    next.run();
    const auto& m = metrics_of(next.reason);
    m.calls->add();
    m.microseconds->add(static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - started).count()));
    next.run = nullptr;
    lock.lock();
  }
}

BlockingPool::BlockingPool(unsigned threads, size_t queue_max) : state_(std::make_unique<State>()) {
  state_->queue_max = queue_max;
  for (unsigned i = 0; i < threads; ++i) state_->threads.emplace_back([s = state_.get()] { s->work(); });
}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->ready.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

bool BlockingPool::submit(const char* reason, std::function<void()> work) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.size() >= state_->queue_max || state_->stopping) return false;
    state_->queue.push_back({reason, std::move(work), ticks()});
  }
  state_->ready.notify_one();
  return true;
}

}  // namespace verbena
