#include "fabric/local/disposer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace verbena::fabric::local {

namespace {

struct Item {
  Fd fd;
  Mapping mapping;
};

class Disposer {
 public:
  // Never destroyed: its thread may be blocked in close() for as long as a hostile client likes, also at exit.
  static Disposer& instance() {
    static Disposer* const disposer = new Disposer;
    return *disposer;
  }

  void add(Item item) {
    {
      std::lock_guard lock(mutex_);
      if (items_.size() < items_max) {
        items_.push_back(std::move(item));
        condition_.notify_one();
      }
    }
    // When the queue was full, `item` was not moved from and closes here.
  }

 private:
  static constexpr size_t items_max = 512;

  Disposer() { std::thread(&Disposer::run, this).detach(); }

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      condition_.wait(lock, [this] { return !items_.empty(); });
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Item> items_;
};

}  // namespace

void dispose(Fd fd) {
  if (fd) Disposer::instance().add({std::move(fd), {}});
}
void dispose(Mapping mapping) {
  if (mapping) Disposer::instance().add({{}, std::move(mapping)});
}

}  // namespace verbena::fabric::local
