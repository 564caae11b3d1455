// Calls of a driver that nothing ends: each on a thread of its own, for which its caller waits for a limited time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/clock.h"

namespace verbena::memory::cuda {

// What `call` returns. Nothing: it has not returned by `until`, or before `stop` was requested. What it brings later is
// destroyed on its thread, as `call` is after each call, and until then it is one of those in `left_alone`. Where no
// thread is to be had, the caller's runs it, without a limit.
template <class Call, class Brought = std::invoke_result_t<Call&>>
std::optional<Brought> limited_call(Call call, std::atomic<unsigned>& left_alone, Deadline until,
                                    const std::stop_token& stop) {
  struct Shared {  // of the caller and the thread
    std::optional<Call> call;
    std::mutex mutex = {};
    std::condition_variable_any ended = {};
    std::optional<Brought> brought = {};
    bool unwanted = false;
  };
  const auto shared = std::make_shared<Shared>(std::move(call));
  const auto run = [shared, &left_alone] {
    std::optional<Brought> brought((*shared->call)());
    shared->call.reset();
    std::unique_lock lock(shared->mutex);
    if (!shared->unwanted) {
      shared->brought = std::move(brought);
      shared->ended.notify_one();
      return;
    }
    lock.unlock();
    brought.reset();
    --left_alone;
  };
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) {
    run();
  }
  std::unique_lock lock(shared->mutex);
  shared->ended.wait_until(lock, stop, until, [&] { return shared->brought.has_value(); });
  if (shared->brought) return std::move(shared->brought);
  shared->unwanted = true;
  ++left_alone;
  return std::nullopt;
}

}  // namespace verbena::memory::cuda
