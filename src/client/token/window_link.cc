#include "client/token/window_link.h"

namespace verbena::client {
namespace {

constexpr int polls_max = 8;  // before the answer is looked for again
constexpr std::chrono::microseconds sleep_max{10'000}, nap{100};
// A sleep delays the next piece of a transfer; most pieces follow each other within this time.
constexpr std::chrono::microseconds spin_for{200};

}  // namespace

Result<std::unique_ptr<fabric::Lent>> WindowLink::lend(MutableBytes memory, fabric::Access access,
                                                       const PeerWindow* device) {
  last_progress_ = SteadyClock::now();
  return device == nullptr ? link_->lend(memory, access) : device->lend(*link_, memory, access);
}

net::Meanwhile::Sleep WindowLink::run() {
  const auto ignore = [](Bytes) {};  // a link without a peer receives no messages
  const auto now = SteadyClock::now();
  for (int i = 0; i < polls_max; ++i) {
    const auto events = link_->poll(ignore);
    if (!events) break;
    if (*events > 0) last_progress_ = now;
    if (now - last_progress_ < spin_for && spin_.allowed(now)) {
      spin_.yield(now);
      return {-1, std::chrono::nanoseconds(0)};
    }
    if (const int fd = readable_ == nullptr ? -1 : readable_->sleep_fd(); fd >= 0) return {fd, sleep_max};
    if (*events == 0) break;
  }
  return {-1, nap};
}

}  // namespace verbena::client
