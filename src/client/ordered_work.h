// Work that is done in the order in which it was given, name by name, on threads of others.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>

namespace verbena::client {

// Thread-safe. Must outlive the work.
class OrderedWork {
 public:
  using Work = std::function<void()>;
  // `post` runs a function on another thread, perhaps later.
  explicit OrderedWork(std::function<void(Work)> post) : post_(std::move(post)) {}
  OrderedWork(const OrderedWork&) = delete;

  // One after the other of the same name, each when the one before it has returned. A stop that is requested before its
  // turn has come calls `cancelled` instead of `work`, at once and on the thread that requests it; it must not block.
  void add(const std::string& name, Work work, const std::stop_token& stop = {}, Work cancelled = {}) {
    auto item = std::make_shared<Item>();
    item->work = std::move(work);
    if (stop.stop_possible()) item->stopped.emplace(stop, Stopped{*item, std::move(cancelled)});
    {
      const std::lock_guard lock(mutex_);
      const auto [found, is_first] = waiting_.try_emplace(name);
      found->second.push_back(std::move(item));
      if (!is_first) return;
    }
    post_([this, name] { run(name); });
  }
  // Whether work of this name waits or is being done.
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return !waiting_.empty() && waiting_.contains(name);
  }

 private:
  struct Item;
  struct Stopped {
    Item& item;
    Work cancelled;
    void operator()() const {
      if (item.decided.exchange(true)) return;
      item.work = nullptr;  // its captures are not kept until its turn
      cancelled();
    }
  };
  struct Item {
    Work work;
    std::atomic<bool> decided{false};  // that it is done, or that it is cancelled
    std::optional<std::stop_callback<Stopped>> stopped;
  };

  void run(const std::string& name) {
    std::unique_lock lock(mutex_);
    const auto found = waiting_.find(name);
    auto item = std::move(found->second.front());
    found->second.pop_front();
    lock.unlock();
    const bool is_wanted = !item->decided.exchange(true);
    item->stopped.reset();  // waits for `cancelled`
    if (is_wanted) item->work();
    item = nullptr;  // its captures are destroyed before the next one begins
    lock.lock();
    const auto rest = waiting_.find(name);
    if (rest->second.empty()) {
      waiting_.erase(rest);
      return;
    }
    lock.unlock();
    post_([this, name] { run(name); });  // not at once: others wait for the thread, too
  }

  const std::function<void(Work)> post_;
  mutable std::mutex mutex_;
  // An entry until its last work is done.
  std::unordered_map<std::string, std::deque<std::shared_ptr<Item>>> waiting_;
};

}  // namespace verbena::client
