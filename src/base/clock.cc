#include "base/clock.h"

namespace verbena {

int64_t WallClock::now_us() const {
  using namespace std::chrono;
  return duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

const WallClock& system_clock() {
  static const WallClock clock;
  return clock;
}

namespace {

class UnsetClock final : public WallClock {
 public:
  int64_t now_us() const override {
    using namespace std::chrono;
    return duration_cast<microseconds>(SteadyClock::now().time_since_epoch()).count();
  }
};

}  // namespace

const WallClock& unset_clock() {
  static const UnsetClock clock;
  return clock;
}

}  // namespace verbena
