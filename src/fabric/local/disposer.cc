#include "fabric/local/disposer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace verbena::fabric::local {

namespace {

// The members are destroyed from the last to the first.
struct Item {
  std::shared_ptr<const void> counted;
  std::vector<Fd> counted_ones;
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
      const bool counted = item.counted != nullptr;
      if (counted || others_ < others_max) {
        others_ += counted ? 0 : 1;
        items_.push_back(std::move(item));
        condition_.notify_one();
      }
    }
    // When the queue was full, `item` was not moved from and closes here.
  }

 private:
  static constexpr size_t others_max = 512;

  Disposer() { std::thread(&Disposer::run, this).detach(); }

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      condition_.wait(lock, [this] { return !items_.empty(); });
      Item item = std::move(items_.front());
      items_.pop_front();
      others_ -= item.counted == nullptr ? 1 : 0;
      lock.unlock();
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Item> items_;
  size_t others_ = 0;  // of them, those that are not counted elsewhere
};

}  // namespace

void dispose(Fd fd) {
  if (fd) Disposer::instance().add({.counted = {}, .counted_ones = {}, .fd = std::move(fd), .mapping = {}});
}
void dispose(Mapping mapping) {
  if (mapping) Disposer::instance().add({.counted = {}, .counted_ones = {}, .fd = {}, .mapping = std::move(mapping)});
}
void dispose(std::vector<Fd> counted_ones, std::shared_ptr<const void> counted) {
  Disposer::instance().add(
      {.counted = std::move(counted), .counted_ones = std::move(counted_ones), .fd = {}, .mapping = {}});
}

}  // namespace verbena::fabric::local
