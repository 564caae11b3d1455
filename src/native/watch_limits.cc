#include "native/watch_limits.h"

#include "base/client_counts.h"

namespace verbena::native {
namespace {

template <class T>
bool try_add(std::atomic<T>& to, T n, T most) {
  if (to.fetch_add(n, std::memory_order_relaxed) + n <= most) return true;
  to.fetch_sub(n, std::memory_order_relaxed);
  return false;
}

}  // namespace

WatchLimits::Place::~Place() {
  for (const auto& party : parties_) {
    if (party == nullptr) continue;
    party->bytes.fetch_sub(common(bytes_), std::memory_order_relaxed);
    party->watches.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool WatchLimits::Place::take(uint64_t bytes) {
  if (!count(common(bytes_ + bytes) - common(bytes_))) return false;
  bytes_ += bytes;
  return true;
}

bool WatchLimits::Place::count(uint64_t bytes) {
  for (size_t i = 0; i < std::size(parties_); ++i) {
    if (try_add(parties_[i]->bytes, bytes, parties_[i]->bytes_max)) continue;
    for (; i > 0; --i) parties_[i - 1]->bytes.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void WatchLimits::Place::give_back(uint64_t bytes) {
  const uint64_t common_before = common(bytes_);
  bytes_ -= bytes;
  for (const auto& party : parties_) party->bytes.fetch_sub(common_before - common(bytes_), std::memory_order_relaxed);
}

std::shared_ptr<WatchLimits::Party> WatchLimits::find(Parties& among, std::string name) {
  std::erase_if(among, [](const auto& party) { return party.second.expired(); });
  auto& known = among[std::move(name)];
  auto party = known.lock();
  if (party == nullptr) {
    known = party = std::make_shared<Party>((options_.watches_max + 1) / 2, (common_bytes() + 1) / 2);
  }
  return party;
}

Result<std::unique_ptr<WatchLimits::Place>> WatchLimits::take_place(std::string_view account,
                                                                    std::string_view address) {
  if (options_.watches_max == 0) return fail(Errc::not_implemented, "native: watches are turned off");
  std::unique_ptr<Place> place(new Place(own_bytes_));
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Party> parties[] = {all_, find(accounts_, std::string(account)),
                                            find(addresses_, client_of(address))};
  for (size_t i = 0; i < std::size(parties); ++i) {
    if (!try_add<size_t>(parties[i]->watches, 1, parties[i]->watches_max)) {
      return fail(Errc::slow_down, "native: too many watches");
    }
    place->parties_[i] = parties[i];
  }
  return place;
}

}  // namespace verbena::native
