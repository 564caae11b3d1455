#include "client/worker_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <system_error>

namespace verbena::client {

struct WorkerPool::State {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> queue;
  size_t idle = 0;
  bool stopping = false;
};

WorkerPool::WorkerPool(unsigned threads_max)
    : state_(std::make_shared<State>()), threads_max_(std::max(1u, threads_max)) {}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  std::vector<std::thread> threads;
  {
    // Running work may still post more; no thread is started for it any more.
    std::lock_guard lock(threads_mutex_);
    threads_max_ = 0;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();  // it ends by itself once this returns; the state outlives us
    } else {
      thread.join();
    }
  }
  std::unique_lock lock(state_->mutex);
  while (!state_->queue.empty()) {
    auto work = std::move(state_->queue.front());
    state_->queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

void WorkerPool::post(std::function<void()> work) {
  bool grow = false;
  {
    std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::move(work));
    grow = state_->idle < state_->queue.size();
  }
  state_->wake.notify_one();
  if (!grow || add_thread()) return;
  // The process has no thread left for it: the caller's does the work.
  std::unique_lock lock(state_->mutex);
  if (state_->queue.empty()) return;
  auto here = std::move(state_->queue.front());
  state_->queue.pop_front();
  lock.unlock();
  here();
}

// False: there is no thread at all, and none could be made.
bool WorkerPool::add_thread() {
  std::lock_guard lock(threads_mutex_);
  if (threads_.size() >= threads_max_) return true;
  try {
    threads_.emplace_back([state = state_] { run(state); });
  } catch (const std::system_error&) {
    return !threads_.empty();
  }
  return true;
}

void WorkerPool::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->wake.wait(lock, [&] { return !state->queue.empty() || state->stopping; });
    --state->idle;
    if (state->queue.empty()) return;
    auto work = std::move(state->queue.front());
    state->queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // its captures are destroyed before the lock is taken
    lock.lock();
  }
}

}  // namespace verbena::client
