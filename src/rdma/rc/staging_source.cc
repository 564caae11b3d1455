#include "rdma/rc/staging_source.h"

#include <algorithm>
#include <cstring>

#include "memory/budget.h"

namespace verbena::rdma::rc {

// The client must not change the bytes while they are checked and stored: its connection and its key end first, in the
// pool, for the device unpins the memory.
Task<void> StagingSource::end_access() {
  std::shared_ptr<QueuePair> pair = channel_->take();
  auto work = [session = session_, owned = std::move(pair)]() mutable -> Result<void> {
    owned.reset();
    session->staging.conceal();
    return {};
  };
  const auto done = co_await endpoint_.pool().run("rdma_close", std::move(work));
  if (!done) session_->staging.conceal();  // the pool is full
}

Task<Result<void>> StagingSource::ready() {
  if (arrived_ || !outcome_) co_return outcome_;
  const auto last = co_await channel_->finish(receive_id, deadline_);
  co_await end_access();
  if (!last) {
    outcome_ = std::unexpected(last.error());
  } else if (last->immediate != session_->asked.cookie || last->bytes != session_->asked.size) {
    outcome_ = fail(Errc::rdma_transfer_failed, "the last write has another cookie or size than the session");
  } else {
    arrived_ = true;
  }
  co_return outcome_;
}

// Only as large a piece as a body's otherwise are.
std::optional<memory::Chunk> StagingSource::give_all() {
  if (!arrived_ || taken_ != 0 || session_->asked.size > memory::Budget::chunk_max) return std::nullopt;
  memory::Chunk chunk{.lease = session_->staging.take_lease(), .bytes = {}};
  if (!chunk.lease) return std::nullopt;
  chunk.bytes = chunk.lease.bytes();
  taken_ = chunk.bytes.size();
  return chunk;
}

Task<Result<size_t>> StagingSource::read(MutableBytes into) {
  if (!arrived_) VB_CO_TRY(co_await ready());
  const size_t n = std::min<uint64_t>(into.size(), session_->asked.size - taken_);
  if (n != 0) std::memcpy(into.data(), session_->staging.bytes().data() + taken_, n);
  taken_ += n;
  co_return n;
}

}  // namespace verbena::rdma::rc
