// When the port of a device is read again: its addresses, partitions and state change while it is open, so what was
// read holds for a second, also that it was down.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/result.h"

namespace verbena::rdma::rc {

// Thread-safe. `read` (returning a Result<void>) reads the port; one call at a time, in a pool.
class PortReading {
 public:
  // The outcome of the last call, if that was less than a second ago.
  std::optional<Result<void>> known() const {
    if (SteadyClock::now() >= read_again_.load()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return outcome_;
  }
  // known(), or reads.
  template <class Read>
  Result<void> refresh(Read read) {
    const std::lock_guard lock(reading_);
    if (const auto outcome = known()) return *outcome;
    return keep(read());
  }
  // Reads in any case: something has failed as if the port were not what was read.
  template <class Read>
  Result<void> read_now(Read read) {
    const std::lock_guard lock(reading_);
    return keep(read());
  }
  // The next refresh() reads.
  void forget() { read_again_ = Deadline{}; }

 private:
  static constexpr std::chrono::seconds kept_for{1};

  Result<void> keep(Result<void> outcome) {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
    read_again_ = deadline_in(kept_for);
    return outcome;
  }

  std::mutex reading_;
  mutable std::mutex mutex_;
  Result<void> outcome_;  // under mutex_
  std::atomic<Deadline> read_again_{Deadline{}};
};

}  // namespace verbena::rdma::rc
