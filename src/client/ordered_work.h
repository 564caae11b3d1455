// Work that is done in the order in which it was given, name by name, on threads of others.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

namespace verbena::client {

// Thread-safe. Must outlive the work.
class OrderedWork {
 public:
  // `post` runs a function on another thread, perhaps later.
  explicit OrderedWork(std::function<void(std::function<void()>)> post) : post_(std::move(post)) {}
  OrderedWork(const OrderedWork&) = delete;

  // One after the other of the same name, each when the one before it has returned.
  void add(const std::string& name, std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      const auto [found, is_first] = waiting_.try_emplace(name);
      found->second.push_back(std::move(work));
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
  void run(const std::string& name) {
    std::unique_lock lock(mutex_);
    const auto found = waiting_.find(name);
    auto work = std::move(found->second.front());
    found->second.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // its captures are destroyed before the next one begins
    lock.lock();
    const auto rest = waiting_.find(name);
    if (rest->second.empty()) {
      waiting_.erase(rest);
      return;
    }
    lock.unlock();
    post_([this, name] { run(name); });  // not at once: others wait for the thread, too
  }

  const std::function<void(std::function<void()>)> post_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::deque<std::function<void()>>> waiting_;  // an entry until its last work is done
};

}  // namespace verbena::client
