// For tests: running code on a core's thread from a thread of the test.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "base/core.h"
#include "base/task.h"

namespace verbena {

// Runs `f` on the core's thread and waits.
template <class F>
std::invoke_result_t<F> call_on(Core& core, F f) {
  auto task = std::make_shared<std::packaged_task<std::invoke_result_t<F>()>>(std::move(f));
  auto result = task->get_future();
  boost::asio::post(core.io(), [task] { (*task)(); });
  return result.get();
}

// Starts a coroutine on the core; the future has its result.
template <class T>
std::future<T> spawn_on(Core& core, Task<T> task) {
  auto promise = std::make_shared<std::promise<T>>();
  auto future = promise->get_future();
  boost::asio::co_spawn(core.io(), std::move(task),
                        [promise](std::exception_ptr, T value) { promise->set_value(std::move(value)); });
  return future;
}

// Polls `condition` for a bounded time.
template <class F>
bool eventually(F condition, std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto deadline = deadline_in(limit);
  while (SteadyClock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

}  // namespace verbena
