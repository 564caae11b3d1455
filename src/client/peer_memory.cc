#include "client/peer_memory.h"

#include <algorithm>

namespace verbena::client {
namespace {

constexpr std::chrono::seconds rest_of_refused{10};

}  // namespace

PeerPlace PeerPlace::of(memory::cuda::Platform platform, const std::vector<memory::cuda::Allocation>& allocations) {
  const auto &first = allocations.front(), &last = allocations.back();
  return {.platform = platform, .device = first.device, .begin = first.begin, .first_id = first.id, .last_id = last.id};
}

void RefusedPlaces::add(const PeerPlace& place, std::string_view provider, Deadline until) {
  const std::lock_guard lock(mutex_);
  auto at =
      std::ranges::find_if(all_, [&](const Refused& one) { return one.place == place && one.provider == provider; });
  if (at == all_.end() && all_.size() == places_max) at = std::ranges::min_element(all_, {}, &Refused::until);
  if (at == all_.end()) at = all_.emplace(at);
  *at = {place, std::string(provider), until};
}

bool RefusedPlaces::has(const PeerPlace& place, std::string_view provider, Deadline now) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      all_, [&](const Refused& one) { return one.place == place && one.provider == provider && now < one.until; });
}

RefusedPlaces& refused_places() {
  static auto& all = *new RefusedPlaces;  // threads may use it until the process has ended
  return all;
}

Result<std::unique_ptr<fabric::Lent>> PeerWindow::lend(fabric::Link& link, MutableBytes part,
                                                       fabric::Access access) const {
  auto* const peers = dynamic_cast<fabric::PeerLink*>(&link);
  if (peers == nullptr) return fail(Errc::unsupported, "this link lends no memory of devices");
  auto lent =
      peers->lend_peer({.address = reinterpret_cast<uintptr_t>(part.data()),
                        .size = part.size(),
                        .maker = memory_->platform() == memory::cuda::Platform::rocm ? fabric::DeviceMaker::amd
                                                                                     : fabric::DeviceMaker::nvidia,
                        .device = memory_->device(),
                        .descriptor = memory_->descriptor(),
                        .begin = memory_->begin(),
                        .by_address = memory_->by_address()},
                       access);
  if (!lent && lent.error() == Errc::unsupported) {
    refused_places().add(place_, link.provider(), deadline_in(rest_of_refused));
  }
  return lent;
}

bool reaches_devices(const fabric::Link& link) {
  const auto* const peers = dynamic_cast<const fabric::PeerLink*>(&link);
  return peers != nullptr && peers->reaches_devices();
}

}  // namespace verbena::client
