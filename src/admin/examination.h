// What `verbena doctor` says of a running server, looked at by one thread at a time and told for a while: a disk that
// does not answer may keep that one, and nobody else. Internal to admin/.
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
  using Look = std::function<Findings()>;  // may go on when whoever made it is gone
  Examination(Look look, std::chrono::milliseconds good_for) : look_(std::move(look)), good_for_(good_for) {}

  // What was found, where that is fresh. Else a look has been begun on `pool` by now, unless it is full: ask again.
  std::optional<Findings> ask(BlockingPool& pool);

 private:
  void look();

  const Look look_;
  const std::chrono::milliseconds good_for_;
  std::mutex mutex_;
  Findings found_;
  Deadline good_until_{};  // when what was found is too old to be told
  bool looking_ = false;
};

}  // namespace verbena::admin
