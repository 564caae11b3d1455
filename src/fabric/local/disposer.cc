#include "fabric/local/disposer.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace verbena::fabric::local {

namespace {

struct Item {
  std::vector<Fd> descriptors;
  Mapping mapping;
  std::shared_ptr<const void> counted;
  std::function<void()> done;
  bool uncounted = false;

  void end() {
    descriptors.clear();
    mapping = Mapping();
    counted.reset();
    if (done) done();
  }
};

class Disposer {
 public:
  // Never destroyed: their threads may be blocked in close() for as long as a hostile client likes, also at exit.
  static Disposer& of_descriptors() {
    static Disposer* const disposer = new Disposer(closers_max);
    return *disposer;
  }
  static Disposer& of_mappings() {
    static Disposer* const disposer = new Disposer(1);
    return *disposer;
  }

  void add(Item item) {
    const std::lock_guard lock(mutex_);
    push(std::move(item));
  }
  // False: full. The item is left as it is.
  bool add_uncounted(Item& item) {
    const std::lock_guard lock(mutex_);
    if (uncounted_ == uncounted_max) return false;
    ++uncounted_;
    item.uncounted = true;
    push(std::move(item));
    return true;
  }

 private:
  static constexpr size_t uncounted_max = 512;
  static constexpr unsigned closers_max = 32;
  static constexpr std::chrono::seconds patience{1};

  explicit Disposer(unsigned threads_max) : threads_max_(threads_max) {
    begin_thread();
    if (threads_max > 1) std::thread(&Disposer::watch, this).detach();
  }

  // Under the mutex, or in the constructor. std::system_error: there is no thread to be had.
  void begin_thread() {
    ++threads_;
    ++idle_;
    try {
      std::thread(&Disposer::run, this).detach();
    } catch (...) {
      --threads_;
      --idle_;
      throw;
    }
  }

  // Under the mutex.
  void push(Item item) {
    items_.push_back(std::move(item));
    condition_.notify_one();
    waiting_.notify_one();
  }

  // Threads that are blocked in close() are replaced by another one, so that one descriptor of one client does not hold
  // up all others.
  void watch() {
    std::unique_lock lock(mutex_);
    for (;;) {
      waiting_.wait(lock, [this] { return !items_.empty(); });
      const uint64_t taken = taken_;
      lock.unlock();
      std::this_thread::sleep_for(patience);
      lock.lock();
      if (taken != taken_ || items_.empty() || idle_ > 0 || threads_ == threads_max_) continue;
      try {
        begin_thread();
      } catch (const std::system_error&) {  // no thread is to be had now: looked at again
      }
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      condition_.wait(lock, [this] { return !items_.empty(); });
      ++taken_;
      --idle_;
      Item item = std::move(items_.front());
      items_.pop_front();
      uncounted_ -= item.uncounted ? 1 : 0;
      lock.unlock();
      item.end();
      lock.lock();
      ++idle_;
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::condition_variable waiting_;  // of the watch
  std::deque<Item> items_;
  uint64_t taken_ = 0;  // items, so far
  const unsigned threads_max_;
  unsigned threads_ = 0, idle_ = 0;
  size_t uncounted_ = 0;
};

std::vector<Fd> list_of(Fd fd) {
  std::vector<Fd> one;
  one.push_back(std::move(fd));
  return one;
}

}  // namespace

void dispose(Fd fd) {
  if (!fd) return;
  Item item{.descriptors = list_of(std::move(fd)), .mapping = {}, .counted = {}, .done = {}};
  if (!Disposer::of_descriptors().add_uncounted(item)) item.end();
}

void dispose(std::vector<Fd> descriptors, std::shared_ptr<const void> counted) {
  Disposer::of_descriptors().add(
      {.descriptors = std::move(descriptors), .mapping = {}, .counted = std::move(counted), .done = {}});
}

void dispose(Mapping mapping, std::shared_ptr<const void> counted, std::function<void()> done) {
  Disposer::of_mappings().add(
      {.descriptors = {}, .mapping = std::move(mapping), .counted = std::move(counted), .done = std::move(done)});
}

}  // namespace verbena::fabric::local
