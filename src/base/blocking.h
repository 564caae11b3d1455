// Blocking work (RocksDB, file metadata, fsync) runs here, never on an event loop. The pool is bounded: when its queue
// is full, a call fails with slow_down at once instead of piling up.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <type_traits>

#include "base/handoff.h"
#include "base/result.h"
#include "base/task.h"

namespace verbena {

class BlockingPool {
 public:
  // `threads` workers; at most `queue_max` submissions wait.
  BlockingPool(unsigned threads, size_t queue_max);
  ~BlockingPool();  // completes submitted work, then joins
  // Ends the pool after the work in progress, or without it if that takes longer: a disk that does not answer. Such
  // work continues by itself, so it must own everything that it uses, its means of notification included; queued work
  // never runs. False: some work is still in progress.
  bool leave(std::chrono::milliseconds at_most);
  BlockingPool(const BlockingPool&) = delete;

  // Runs `fn` (returning a Result<T>) on a worker and resumes the caller on its own executor with the result. `reason`
  // is a static string; it labels verbena_blocking_calls_total and verbena_blocking_microseconds_total.
  template <class Fn>
  Task<std::invoke_result_t<Fn>> run(const char* reason, Fn fn) {
    return run(reason, std::move(fn), Queued::within_bound);
  }
  // The same behind what waits, however much that is: for callers that would have to ask again, each of which is
  // bounded elsewhere (a request in progress). If each asked again, the one that waits longest could be served last.
  // slow_down: the pool is ending.
  template <class Fn>
  Task<std::invoke_result_t<Fn>> run_in_order(const char* reason, Fn fn) {
    return run(reason, std::move(fn), Queued::always);
  }

  // Without a coroutine. False when the queue is full (then `work` never runs).
  bool submit(const char* reason, std::function<void()> work);

 private:
  enum class Queued : uint8_t { within_bound, always };
  template <class Fn>
  Task<std::invoke_result_t<Fn>> run(const char* reason, Fn fn, Queued queued) {
    using R = std::invoke_result_t<Fn>;
    auto executor = co_await boost::asio::this_coro::executor;
    auto initiate = [this, reason, executor, queued](auto handler, Fn work) {
      // The handler is shared because std::function copies what it holds.
      auto shared = std::make_shared<decltype(handler)>(std::move(handler));
      auto done = [executor, shared](R result) {
        boost::asio::post(executor, [shared, result = std::move(result), given = Handoff()]() mutable {
          given.taken();
          (*shared)(std::move(result));
        });
      };
      // Destroy the closure before the caller is resumed: it may next destroy objects that the work was using.
      auto job = [done, work = std::make_shared<Fn>(std::move(work))]() mutable {
        R result = (*work)();
        work.reset();
        done(std::move(result));
      };
      if (!submit(reason, std::move(job), queued)) {
        done(fail(Errc::slow_down, "blocking pool is full"));
      }
    };
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(R)>(
        std::move(initiate), boost::asio::use_awaitable, std::move(fn));
  }

  bool submit(const char* reason, std::function<void()> work, Queued queued);

  struct State;
  std::shared_ptr<State> state_;  // shared with its threads
};

}  // namespace verbena
