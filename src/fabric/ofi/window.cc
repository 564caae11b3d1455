#include "fabric/ofi/window.h"

#include <cstring>

#include "fabric/ofi/data_pool.h"

namespace verbena::fabric::ofi {
namespace {

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

Task<Result<void>> PoolWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  return move(Access::server_writes, const_cast<std::byte*>(from.data()), from.size(), at, deadline);
}

Task<Result<void>> PoolWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  return move(Access::server_reads, into.data(), into.size(), at, deadline);
}

// Nothing of `this` is used once suspended: the window may be destroyed meanwhile.
Task<Result<void>> PoolWindow::move(Access direction, std::byte* local, uint64_t size, uint64_t at, Deadline deadline) {
  if (direction != access_) co_return fail(Errc::invalid_argument, "window: the other direction was lent");
  if (at > lent_.size || size > lent_.size - at) co_return fail(Errc::invalid_argument, "window: out of bounds");
  if (size == 0) co_return Result<void>{};  // some virtual devices drop empty operations
  DataPool* pool = *pool_;
  if (pool == nullptr) co_return fail(Errc::closed, "fabric");
  if (!pool->arena_.contains(local, size)) co_return fail(Errc::invalid_argument, "window: not arena memory");
  Transfer transfer;
  transfer.peer = peer_;
  transfer.is_write = direction == Access::server_writes;
  transfer.local = local;
  transfer.size = size;
  transfer.remote = lent_.base + at;
  transfer.key = lent_.key;
  transfer.deadline = deadline;
  // The tcp provider takes the length of a read's answer from the peer and reports success for a shorter one. Another
  // tenant's bytes must not become this one's object.
  if (!transfer.is_write && pool->domain_.is_tcp()) std::memset(local, 0, size);
  VB_CO_TRY(pool->start(transfer));
  co_return co_await finished(transfer);
}

}  // namespace verbena::fabric::ofi
