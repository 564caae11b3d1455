// A clock that a test sets.
#pragma once

#include "base/clock.h"

namespace verbena::auth {

class FixedClock : public WallClock {
 public:
  explicit FixedClock(int64_t seconds) : seconds_(seconds) {}
  int64_t now_us() const override { return seconds_ * 1'000'000; }
  void set(int64_t seconds) { seconds_ = seconds; }

 private:
  int64_t seconds_;
};

// 2013-05-24T00:00:00Z, the day of AWS's published S3 examples.
inline constexpr int64_t example_day = 1369353600;

}  // namespace verbena::auth
