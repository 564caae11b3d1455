// Memory of a device that this host's RDMA devices read and write themselves (fabric/device.h, PeerLink).
#pragma once

#include <atomic>

#include "base/clock.h"
#include "fabric/device.h"
#include "memory/cuda_peer.h"

namespace verbena::client {

class PeerWindow {
 public:
  // `bytes` are addresses of the device.
  PeerWindow(std::shared_ptr<const memory::cuda::PeerMemory> memory, MutableBytes bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}

  MutableBytes bytes() const { return bytes_; }
  const memory::cuda::PeerMemory& memory() const { return *memory_; }
  // unsupported: the link's device does not take it; then this window rests for a while. `part` lies inside bytes().
  Result<std::unique_ptr<fabric::Lent>> lend(fabric::Link& link, MutableBytes part, fabric::Access access) const;
  bool rests() const { return SteadyClock::now() < rests_until_.load(); }

 private:
  std::shared_ptr<const memory::cuda::PeerMemory> memory_;
  MutableBytes bytes_;
  mutable std::atomic<Deadline> rests_until_{};
};

// The link is of a device that may reach such memory.
bool reaches_devices(const fabric::Link& link);

}  // namespace verbena::client
