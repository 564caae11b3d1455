#include "fabric/ofi/window.h"

#include <cstring>

#include "base/copy.h"
#include "fabric/ofi/data_pool.h"

namespace verbena::fabric::ofi {
namespace {

// The target of an RDMA READ on iWARP. The arena has no rights for that (Domain::register_local).
struct Landing {
  std::unique_ptr<std::byte[]> bytes;
  FidPtr<fid_mr> region;  // closed first
};

Result<Landing> make_landing(Domain& domain, uint64_t size) {
  Landing landing{std::make_unique<std::byte[]>(size), {}};
  VB_ASSIGN(landing.region, domain.register_landing({landing.bytes.get(), size}));
  return landing;
}

// Suspends until the pool resumes `transfer`. The transfer stays in the caller's frame.
Task<Result<void>> finished(Transfer& transfer) {
  auto initiate = [&transfer](auto handler) { transfer.handler.emplace(std::move(handler)); };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      initiate, boost::asio::use_awaitable);
}

}  // namespace

PoolWindow::~PoolWindow() {
  if (*pool_ != nullptr) (*pool_)->close_window(peer_);
}

// The tcp provider copies on the core.
bool PoolWindow::by_device() const { return *pool_ != nullptr && !(*pool_)->domain_.is_tcp(); }

Task<Result<void>> PoolWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  return move(Access::server_writes, const_cast<std::byte*>(from.data()), from.size(), at, deadline);
}

Task<Result<void>> PoolWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  return move(Access::server_reads, into.data(), into.size(), at, deadline);
}

// `this` must not be used after a suspension: the window may be destroyed meanwhile.
Task<Result<void>> PoolWindow::move(Access direction, std::byte* local, uint64_t size, uint64_t at, Deadline deadline) {
  if (direction != access_) co_return fail(Errc::invalid_argument, "window: the other direction was lent");
  if (at > lent_.size || size > lent_.size - at) co_return fail(Errc::invalid_argument, "window: out of bounds");
  if (size == 0) co_return Result<void>{};  // some virtual devices drop empty operations
  DataPool* pool = *pool_;
  if (pool == nullptr) co_return fail(Errc::closed, "fabric");
  if (!pool->arena_.contains(local, size)) co_return fail(Errc::invalid_argument, "window: not arena memory");
  Transfer transfer;
  Landing landing;  // outlives every operation of the transfer
  transfer.peer = peer_;
  transfer.is_write = direction == Access::server_writes;
  // iWARP completes a write when it was sent, not when it has arrived.
  if (transfer.is_write && pool->domain_.iwarp()) transfer.fence = Transfer::Fence::wanted;
  transfer.local = local;
  transfer.size = size;
  transfer.remote = lent_.base + at;
  transfer.key = lent_.key;
  transfer.deadline = deadline;
  // The tcp provider takes the length of a read's answer from the peer and reports success for a shorter one. Stale
  // bytes of another tenant must not become part of this object.
  if (!transfer.is_write && pool->domain_.is_tcp()) std::memset(local, 0, size);
  if (!transfer.is_write && pool->domain_.iwarp()) {
    VB_CO_ASSIGN(landing, make_landing(pool->domain_, size));
    transfer.local = landing.bytes.get();
    transfer.region = landing.region.get();
  }
  VB_CO_TRY(pool->start(transfer));
  const Result<void> outcome = co_await finished(transfer);
  if (outcome && landing.region) {
    landing.region.reset();  // from here on the owner of the window writes nothing there any more
    copy_bytes(local, landing.bytes.get(), size);
  }
  co_return outcome;
}

}  // namespace verbena::fabric::ofi
