#include "rdma/rc/rc_window.h"

#include <cstring>

namespace verbena::rdma::rc {

Result<QueuePair*> RcWindow::usable(uint64_t at, size_t size) {
  if (at > place_.size || size > place_.size - at) return fail(Errc::invalid_argument, "window: out of bounds");
  if (channel_->pair() == nullptr) return fail(Errc::rdma_transfer_failed, "queue pair: it is broken");
  return channel_->pair();
}

// Posted before the first suspension, so that writes go out in the order of the calls.
Task<Result<void>> RcWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  VB_CO_ASSIGN(QueuePair* const pair, usable(at, from.size()));
  memory::Lease copy;
  if (!own_.arena.contains(from.data(), from.size())) {
    VB_CO_ASSIGN(copy, own_.arena.lease(from.size()));
    std::memcpy(copy.data(), from.data(), from.size());
    from = copy.bytes();
  }
  std::optional<uint32_t> immediate;
  if (end_ && at + from.size() == end_->at) immediate = end_->immediate;
  const uint64_t id = channel_->next_id();
  VB_CO_TRY(pair->post_write(id, from, own_.key, {place_.address + at, place_.key}, immediate));
  VB_CO_TRY(co_await channel_->finish_write(id, deadline));
  co_return Result<void>{};
}

Task<Result<void>> RcWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  VB_CO_ASSIGN(QueuePair* const pair, usable(at, into.size()));
  if (!own_.arena.contains(into.data(), into.size())) co_return fail(Errc::internal, "window: not the arena's memory");
  const uint64_t id = channel_->next_id();
  VB_CO_TRY(pair->post_read(id, into, own_.key, {place_.address + at, place_.key}));
  VB_CO_TRY(co_await channel_->finish(id, deadline));
  co_return Result<void>{};
}

}  // namespace verbena::rdma::rc
