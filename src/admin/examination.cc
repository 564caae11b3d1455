#include "admin/examination.h"

namespace verbena::admin {

std::optional<Findings> Examination::ask(BlockingPool& pool) {
  const std::lock_guard lock(mutex_);
  if (SteadyClock::now() < good_until_) return found_;
  if (looking_) return std::nullopt;
  // The examination may outlive the caller.
  looking_ = pool.submit("doctor", [self = shared_from_this()] { self->look(); });
  return std::nullopt;
}

void Examination::look() {
  Findings found = look_();
  const std::lock_guard lock(mutex_);
  found_ = std::move(found);
  good_until_ = deadline_in(good_for_);
  looking_ = false;
}

}  // namespace verbena::admin
