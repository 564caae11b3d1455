// Serializes changes of a key in this process: concurrent ones would only lose races to each other in the cluster.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/task.h"

namespace verbena::store::rados {

class KeyLocks {
 public:
  using Name = std::pair<uint64_t, std::string>;  // bucket, key
  static constexpr size_t waiters_max = 10'000;   // for one key: an upload's parts may all arrive at once

  class Held {
   public:
    Held(KeyLocks* locks, Name name) : locks_(locks), name_(std::move(name)) {}
    Held(Held&& other) noexcept : locks_(std::exchange(other.locks_, nullptr)), name_(std::move(other.name_)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (locks_ != nullptr) locks_->release(name_);
    }

   private:
    KeyLocks* locks_;
    Name name_;
  };

  // Stops waking waiters: their executors may be gone.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  // nullopt: the lock is taken.
  std::optional<Held> try_take(Name name) {
    const std::lock_guard lock(mutex_);
    if (!waiters_.try_emplace(name).second) return std::nullopt;
    return Held(this, std::move(name));
  }

  // slow_down: too many waiters for that key.
  Task<Result<Held>> take(Name name) {
    auto executor = co_await boost::asio::this_coro::executor;
    auto initiate = [this, executor](auto handler, Name wanted) {
      auto shared = std::make_shared<decltype(handler)>(std::move(handler));
      auto go = [executor, shared](bool granted) {
        boost::asio::post(executor, [shared, granted]() mutable { (*shared)(granted); });
      };
      std::unique_lock lock(mutex_);
      const auto [waiters, is_new] = waiters_.try_emplace(std::move(wanted));
      const bool full = waiters->second.size() >= waiters_max;
      if (!is_new && !full) {
        waiters->second.push_back(std::move(go));
        return;
      }
      lock.unlock();
      go(is_new);
    };
    Name copy = name;
    const bool granted = co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(bool)>(
        std::move(initiate), boost::asio::use_awaitable, std::move(copy));
    if (!granted) co_return fail(Errc::slow_down, "rados: changes of one key");
    co_return Held(this, std::move(name));
  }

 private:
  void release(const Name& name) {
    const std::lock_guard lock(mutex_);
    const auto waiters = waiters_.find(name);
    if (closed_ || waiters == waiters_.end()) return;
    if (waiters->second.empty()) {
      waiters_.erase(waiters);
      return;
    }
    auto go = std::move(waiters->second.front());
    waiters->second.pop_front();
    go(true);  // only posts
  }

  std::mutex mutex_;
  bool closed_ = false;                                            // guarded by mutex_, as the next
  std::map<Name, std::deque<std::function<void(bool)>>> waiters_;  // an entry means that the lock is held
};

}  // namespace verbena::store::rados
