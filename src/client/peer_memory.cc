#include "client/peer_memory.h"

namespace verbena::client {
namespace {

constexpr std::chrono::seconds rest_of_refused{10};

}  // namespace

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
  if (!lent && lent.error() == Errc::unsupported) rests_until_ = deadline_in(rest_of_refused);
  return lent;
}

bool reaches_devices(const fabric::Link& link) {
  const auto* const peers = dynamic_cast<const fabric::PeerLink*>(&link);
  return peers != nullptr && peers->reaches_devices();
}

}  // namespace verbena::client
