// The findings of `verbena doctor` about a running server, examined by one thread at a time and cached for a while: a
// disk that does not answer blocks only that thread. Internal to admin/.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "admin/doctor.h"
#include "base/blocking.h"
#include "base/clock.h"

namespace verbena::admin {

// Thread-safe.
class Examination : public std::enable_shared_from_this<Examination> {
 public:
  using Look = std::function<Findings()>;  // may continue after its creator is gone
  Examination(Look look, std::chrono::milliseconds good_for) : look_(std::move(look)), good_for_(good_for) {}

  // The findings, if fresh. Otherwise an examination has been started on `pool`, unless it is full: call again.
  std::optional<Findings> ask(BlockingPool& pool);

 private:
  void look();

  const Look look_;
  const std::chrono::milliseconds good_for_;
  std::mutex mutex_;
  Findings found_;
  Deadline good_until_{};  // when the findings become too old
  bool looking_ = false;
};

}  // namespace verbena::admin
