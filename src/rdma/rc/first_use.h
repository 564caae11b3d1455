// Something of a device that is opened at its first use, in a pool: opening may register all of the arena, and calls
// that are not signed make the server try it. So a failure is the answer for a second.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "base/blocking.h"
#include "base/clock.h"

namespace verbena::rdma::rc {

// Thread-safe.
class FirstUse {
 public:
  // `is_open` and `open` (returning a Result<void>) run in the pool, one call at a time. The error is that of `open`,
  // or of the last one that was a moment ago.
  template <class IsOpen, class Open>
  Task<Result<void>> run(BlockingPool& pool, const char* reason, IsOpen is_open, Open open) {
    if (const auto failed = recent_failure()) co_return std::unexpected(*failed);
    const auto work = [this, is_open, open] { return open_now(is_open, open); };
    co_return co_await pool.run(reason, work);
  }

 private:
  static constexpr std::chrono::seconds failure_is_kept{1};

  std::optional<Error> recent_failure() {
    const std::lock_guard lock(failing_);
    return SteadyClock::now() < failed_until_ ? failure_ : std::nullopt;
  }
  template <class IsOpen, class Open>
  Result<void> open_now(IsOpen is_open, Open open) {
    const std::lock_guard lock(opening_);
    if (is_open()) return {};
    if (const auto failed = recent_failure()) return std::unexpected(*failed);
    const Result<void> opened = open();
    const std::lock_guard failing(failing_);
    failure_ = opened ? std::nullopt : std::optional(opened.error());
    failed_until_ = opened ? Deadline{} : deadline_in(failure_is_kept);
    return opened;
  }

  std::mutex opening_, failing_;
  std::optional<Error> failure_;  // of the last attempt
  Deadline failed_until_{};
};

}  // namespace verbena::rdma::rc
