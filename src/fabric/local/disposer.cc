#include "fabric/local/disposer.h"

#include <condition_variable>
#include <deque>
#include <mutex>
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
    static Disposer* const disposer = new Disposer;
    return *disposer;
  }
  static Disposer& of_mappings() {
    static Disposer* const disposer = new Disposer;
    return *disposer;
  }

  void add(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    condition_.notify_one();
  }
  // False: full. The item is left as it is.
  bool add_uncounted(Item& item) {
    const std::lock_guard lock(mutex_);
    if (uncounted_ == uncounted_max) return false;
    ++uncounted_;
    item.uncounted = true;
    items_.push_back(std::move(item));
    condition_.notify_one();
    return true;
  }

 private:
  static constexpr size_t uncounted_max = 512;

  Disposer() { std::thread(&Disposer::run, this).detach(); }

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      condition_.wait(lock, [this] { return !items_.empty(); });
      Item item = std::move(items_.front());
      items_.pop_front();
      uncounted_ -= item.uncounted ? 1 : 0;
      lock.unlock();
      item.end();
    }
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<Item> items_;
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
