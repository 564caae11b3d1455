#include "fabric/local/device_window.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "fabric/local/bus_guard.h"

namespace verbena::fabric::local {

using memory::cuda::Copy;
using memory::cuda::CopyEnd;

// The permit is `busy` from the window's first copy to the end of its last one, so that a client which withdraws the
// window knows when the device touches its memory no more. Ends on the thread of the device.
class DeviceWindow::Use {
 public:
  Use(std::shared_ptr<PeerMemory> peer, std::shared_ptr<Uses> uses, uint32_t slot)
      : peer_(std::move(peer)), uses_(std::move(uses)), slot_(slot) {
    const std::lock_guard lock(uses_->mutex);
    if (uses_->count++ == 0) set_busy(1);
  }
  ~Use() {
    const std::lock_guard lock(uses_->mutex);
    if (--uses_->count == 0) set_busy(0);
  }
  Use(const Use&) = delete;

 private:
  void set_busy(uint32_t busy) {
    Permit& permit = peer_->region.permit(slot_);
    survives_bus_error([&] { permit.busy.store(busy, std::memory_order_release); });
  }

  std::shared_ptr<PeerMemory> peer_;
  std::shared_ptr<Uses> uses_;
  uint32_t slot_;
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
  if (access_ != wanted) return fail(Errc::access_denied, "local: window is lent for the other direction");
  if (at > size_ || size > size_ - at) return fail(Errc::invalid_argument, "local: past the end of the window");
  if (SteadyClock::now() > deadline) return fail(Errc::timed_out, "local: device window");
  return {};
}

// The right to one copy. Either the client's withdrawal is seen here, or `busy` is seen by the client.
Result<std::shared_ptr<const void>> DeviceWindow::begin() {
  if (peer_->gone) return fail(Errc::closed, "local: the window's client is gone");
  auto use = std::make_shared<Use>(peer_, uses_, key_.slot);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint64_t wanted = uint64_t{key_.generation} << 8 | static_cast<uint8_t>(access_);
  bool permitted = false;
  const Permit& permit = peer_->region.permit(key_.slot);
  survives_bus_error([&] { permitted = permit.permit.load(std::memory_order_acquire) == wanted; });
  if (!permitted) return fail(Errc::cancelled, "local: the client withdrew the window");
  return use;
}

Task<Result<void>> DeviceWindow::copy(std::byte* host, size_t size, uint64_t at) {
  VB_CO_ASSIGN(auto use, begin());
  auto executor = co_await boost::asio::this_coro::executor;
  Copy copy{.to_device = access_ == Access::server_writes, .host = host, .at = base_ + at, .size = size};
  copy.held = std::move(use);
  auto initiate = [&](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));  // std::function copies what it holds
    copy.ended = [executor, shared](CopyEnd end) { boost::asio::post(executor, [shared, end] { (*shared)(end); }); };
    memory_->copy(std::move(copy));
  };
  const CopyEnd end = co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(CopyEnd)>(
      initiate, boost::asio::use_awaitable);
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
