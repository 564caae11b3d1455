// Memory of a device that this host's RDMA devices read and write themselves (fabric/device.h, PeerLink).
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fabric/device.h"
#include "memory/cuda_peer.h"

namespace verbena::client {

// Where a window is: its first allocation and its last, and by what an RDMA device knows them.
struct PeerPlace {
  memory::cuda::Platform platform = memory::cuda::Platform::cuda;
  int device = 0;
  uint64_t begin = 0, first_id = 0, last_id = 0;
  uint64_t dma_buf = 0;  // the caller's, by the kernel's number of it; 0: what the driver exports
  static PeerPlace of(memory::cuda::Platform platform, const std::vector<memory::cuda::Allocation>& allocations);
  bool operator==(const PeerPlace&) const = default;
};

// Places that the RDMA device of a provider has refused a short while ago, whichever window was in them: callers
// without registered windows have a new one for each call. Other providers may take them. Thread-safe.
class RefusedPlaces {
 public:
  static constexpr size_t places_max = 64;
  // Where there is no room, it takes that of the one which ends first.
  void add(const PeerPlace& place, std::string_view provider, Deadline until);
  bool has(const PeerPlace& place, std::string_view provider, Deadline now) const;

 private:
  struct Refused {
    PeerPlace place;
    std::string provider;
    Deadline until;
  };
  mutable std::mutex mutex_;
  std::vector<Refused> all_;
};
RefusedPlaces& refused_places();  // this process's

class PeerWindow {
 public:
  // `bytes` are addresses of the device.
  PeerWindow(std::shared_ptr<const memory::cuda::PeerMemory> memory, MutableBytes bytes, const PeerPlace& place)
      : memory_(std::move(memory)), bytes_(bytes), place_(place) {}

  MutableBytes bytes() const { return bytes_; }
  const memory::cuda::PeerMemory& memory() const { return *memory_; }
  // unsupported: the link's device does not take it; then its place is one of refused_places() of the link's provider
  // for a while. `part` lies inside bytes().
  Result<std::unique_ptr<fabric::Lent>> lend(fabric::Link& link, MutableBytes part, fabric::Access access) const;

 private:
  std::shared_ptr<const memory::cuda::PeerMemory> memory_;
  MutableBytes bytes_;
  PeerPlace place_;
};

// The link is of a device that may reach such memory.
bool reaches_devices(const fabric::Link& link);

}  // namespace verbena::client
