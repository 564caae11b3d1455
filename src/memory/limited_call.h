// Calls of a driver that nothing ends: each on a thread of its own, for which its caller waits for a limited time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <expected>
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

// What a call is to do where no thread is to be had.
enum class NoThread : uint8_t {
  call_here,  // the caller's thread runs it, without a limit
  give_up,    // it is not made
};

// Why there is no result.
enum class NotBrought : uint8_t {
  no_thread,
  late,  // the call has not returned by the deadline, or before the stop was requested
};

// For limited_call(): what comes late ends on its thread.
struct EndLate {
  template <class Brought>
  void operator()(Brought&&) const {}  // its owner ends it
};

// What `call` returns. What a call brings later goes to `when_late`, on the call's thread, and is destroyed there, as
// `call` is after each call. From when the caller has given it up until that is done it is one of those in
// `left_alone`, which like `when_late` outlives the call's thread.
template <class Call, class WhenLate = EndLate, class Brought = std::invoke_result_t<Call&>>
std::expected<Brought, NotBrought> limited_call(Call call, std::atomic<unsigned>& left_alone, Deadline until,
                                                const std::stop_token& stop, NoThread no_thread = NoThread::call_here,
                                                WhenLate when_late = {}) {
  struct Shared {  // of the caller and the thread
    std::optional<Call> call;
    WhenLate when_late;
    std::mutex mutex = {};
    std::condition_variable_any ended = {};
    std::optional<Brought> brought = {};
    bool unwanted = false;
  };
  const auto shared = std::make_shared<Shared>(std::move(call), std::move(when_late));
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
    shared->when_late(std::move(*brought));
    brought.reset();
    --left_alone;
  };
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) {
    if (no_thread == NoThread::give_up) return std::unexpected(NotBrought::no_thread);
    run();
  }
  std::unique_lock lock(shared->mutex);
  shared->ended.wait_until(lock, stop, until, [&] { return shared->brought.has_value(); });
  if (shared->brought) return std::move(*shared->brought);
  shared->unwanted = true;
  ++left_alone;
  return std::unexpected(NotBrought::late);
}

}  // namespace verbena::memory::cuda
