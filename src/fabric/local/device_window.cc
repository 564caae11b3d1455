#include "fabric/local/device_window.h"

#include <algorithm>
#include <cstring>

#include "base/bus_guard.h"
#include "base/elsewhere.h"
#include "fabric/local/agreements.h"

namespace verbena::fabric::local {

using memory::cuda::Copy;
using memory::cuda::CopyEnd;

// The permit is `busy` for as long as the device copies, so that a client which withdraws the window knows when the
// device touches its memory no more. Ends on the thread of the device.
class DeviceWindow::Use {
 public:
  Use(std::shared_ptr<PeerMemory> peer, uint32_t slot, uint64_t wanted) : peer_(std::move(peer)), slot_(slot) {
    survives_bus_error([&] { permitted_ = begin_use<NativePlatform>(permit().permit, permit().busy, wanted); });
  }
  ~Use() {
    survives_bus_error([&] { end_use(permit().busy); });
  }
  Use(const Use&) = delete;
  bool permitted() const { return permitted_; }

 private:
  Permit& permit() { return peer_->region.permit(slot_); }

  std::shared_ptr<PeerMemory> peer_;
  uint32_t slot_;
  bool permitted_ = false;
};

DeviceWindow::DeviceWindow(std::shared_ptr<PeerMemory> peer, std::shared_ptr<memory::cuda::Mapped> memory,
                           memory::Arena& arena, const WindowDescriptor& lent, Access access)
    : peer_(std::move(peer)),
      memory_(std::move(memory)),
      arena_(arena),
      base_(lent.base),
      size_(lent.size),
      key_(WindowKey::unpack(lent.key)),
      access_(access) {}

Result<void> DeviceWindow::check(Access wanted, size_t size, uint64_t at, Deadline deadline) const {
  VB_TRY(check_range(access_, size_, wanted, size, at));
  if (SteadyClock::now() > deadline) return fail(Errc::timed_out, "local: device window");
  return {};
}

// The right to one copy. Either the client's withdrawal is seen here, or `busy` is seen by the client.
Result<std::shared_ptr<const void>> DeviceWindow::begin() {
  if (peer_->gone) return fail(Errc::closed, "local: the window's client is gone");
  auto use = std::make_shared<Use>(peer_, key_.slot, key_.permit(access_));
  if (!use->permitted()) return fail(Errc::cancelled, "local: the client withdrew the window");
  return use;
}

Task<Result<void>> DeviceWindow::copy(std::byte* host, size_t size, uint64_t at) {
  VB_CO_ASSIGN(auto use, begin());
  Copy copy{.to_device = access_ == Access::server_writes, .host = host, .at = base_ + at, .size = size};
  copy.held = std::move(use);
  const auto begin_copy = [&](auto ended) {
    copy.ended = std::move(ended);
    memory_->copy(std::move(copy));
  };
  const CopyEnd end = co_await elsewhere<CopyEnd>(begin_copy);
  if (end == CopyEnd::done) co_return Result<void>{};
  co_return fail(Errc::rdma_transfer_failed,
                 end == CopyEnd::lost ? "local: the device does not answer" : "local: the device did not copy");
}

Task<Result<void>> DeviceWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_writes, from.size(), at, deadline));
  if (from.empty()) co_return Result<void>{};
  if (!arena_.contains(from.data(), from.size())) co_return co_await write_from_outside(from, at);
  co_return co_await copy(const_cast<std::byte*>(from.data()), from.size(), at);  // only read
}

Task<Result<void>> DeviceWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_reads, into.size(), at, deadline));
  if (into.empty()) co_return Result<void>{};
  if (!arena_.contains(into.data(), into.size())) co_return co_await read_to_outside(into, at);
  co_return co_await copy(into.data(), into.size(), at);
}

// Memory that is not page-locked, and that could not be kept aside: through a lease.
Task<Result<void>> DeviceWindow::write_from_outside(Bytes from, uint64_t at) {
  for (size_t done = 0; done < from.size();) {
    const size_t size = std::min(memory::Arena::lease_size_max, from.size() - done);
    VB_CO_ASSIGN(const memory::Lease lease, arena_.lease(size));
    std::memcpy(lease.data(), from.data() + done, size);
    VB_CO_TRY(co_await copy(lease.data(), size, at + done));
    done += size;
  }
  co_return Result<void>{};
}

Task<Result<void>> DeviceWindow::read_to_outside(MutableBytes into, uint64_t at) {
  for (size_t done = 0; done < into.size();) {
    const size_t size = std::min(memory::Arena::lease_size_max, into.size() - done);
    VB_CO_ASSIGN(const memory::Lease lease, arena_.lease(size));
    VB_CO_TRY(co_await copy(lease.data(), size, at + done));
    std::memcpy(into.data() + done, lease.data(), size);
    done += size;
  }
  co_return Result<void>{};
}

}  // namespace verbena::fabric::local
