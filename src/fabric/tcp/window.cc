#include "fabric/tcp/window.h"

#include <algorithm>

#include "fabric/tcp/connection.h"

namespace verbena::fabric::tcp {
namespace {

// Suspends until the port resumes `transfer`. The transfer stays in the caller's frame.
Task<Result<void>> finished(Transfer& transfer) {
  auto initiate = [&transfer](auto handler) { transfer.handler.emplace(std::move(handler)); };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      initiate, boost::asio::use_awaitable);
}

}  // namespace

Result<void> TcpWindow::check(Access wanted, size_t size, uint64_t at) const {
  if (access_ != wanted) return fail(Errc::access_denied, "tcp: window is lent for the other direction");
  if (at > lent_.size || size > lent_.size - at) return fail(Errc::invalid_argument, "tcp: past the window's end");
  return {};
}

// `this` must not be used after a suspension: the window may be destroyed meanwhile.
Task<Result<void>> TcpWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_writes, from.size(), at));
  if (from.empty()) co_return Result<void>{};
  Transfer transfer;
  transfer.is_write = true;
  transfer.deadline = deadline;
  transfer.out = {.type = FrameType::write, .id = lent_.key, .offset = at, .bytes = from.data(), .left = from.size()};
  connection_->start(transfer);
  if (transfer.done) co_return transfer.outcome;
  co_return co_await finished(transfer);
}

Task<Result<void>> TcpWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_reads, into.size(), at));
  while (!into.empty()) {
    const MutableBytes piece = into.first(std::min<size_t>(into.size(), read_size_max));
    Transfer transfer;
    transfer.deadline = deadline;
    transfer.into = piece.data();
    transfer.size = piece.size();
    connection_->start(transfer, {.type = FrameType::read, .id = lent_.key, .offset = at});
    Result<void> outcome = transfer.outcome;
    if (!transfer.done) outcome = co_await finished(transfer);
    if (!outcome) co_return outcome;
    into = into.subspan(piece.size());
    at += piece.size();
  }
  co_return Result<void>{};
}

// Reads always wait for the client's answer.
size_t TcpWindow::immediate_size_max() const {
  return access_ == Access::server_writes && connection_->may_write_now() ? at_once_max : 0;
}

Result<void> TcpWindow::write_all_now(std::span<const Write> writes) {
  if (writes.size() > writes_max) return fail(Errc::invalid_argument, "tcp: too many writes at once");
  for (const Write& write : writes) VB_TRY(check(Access::server_writes, write.from.size(), write.at));
  return connection_->write_now(writes, lent_.key);
}

}  // namespace verbena::fabric::tcp
