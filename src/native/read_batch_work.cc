// A read batch's coroutines: what has to be waited for.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include "memory/budget.h"
#include "native/endpoint.h"
#include "native/read_batch.h"

namespace verbena::native {

void ReadBatch::start(OpPtr op) {
  ReadBatch& batch = *op->read;
  boost::asio::io_context& io = op->endpoint->core().io();
  // An item that was taken and not served is the first to be.
  std::optional<size_t> first;
  if (batch.taken_ > batch.told_) first = batch.taken_ - 1;
  // Yields to what arrived earlier.
  if (batch.taken_ == 0) batch.looked_at_ = turn_items;
  auto shared = std::make_shared<OpPtr>(std::move(op));
  batch.shared_ = shared;
  batch.running_ = 1;
  boost::asio::co_spawn(io, work(std::move(shared), first, false), boost::asio::detached);
}

Task<void> ReadBatch::work(Shared shared, std::optional<size_t> first, bool helps) {
  ReadBatch& batch = *(*shared)->read;
  std::shared_ptr<Endpoint> endpoint = (*shared)->endpoint;
  for (;;) {
    size_t index = first.value_or(0);
    const Step step = first ? Step::wait : batch.advance(index);
    first.reset();
    if (step == Step::over) break;
    if (step == Step::turn) {
      co_await endpoint->turn();
      batch.moved_ = 0;
      batch.looked_at_ = 0;
      batch.late_ = batch.late_ || SteadyClock::now() >= batch.until_;
      continue;
    }
    bool gathered = false;
    if (batch.run_) {
      Run run = std::move(*batch.run_);
      batch.run_.reset();
      // What did not fit this run begins the next one.
      gathered = step == Step::wait && batch.slot(index).opened && batch.gather(index);
      batch.help(shared);
      co_await batch.write_run(run);
    } else {
      batch.help(shared);
    }
    if (gathered || step == Step::flush) continue;
    Slot& slot = batch.slot(index);
    // A run that was written first may have taken long.
    Result<void> served = fail(Errc::access_denied, "native: the session's key");
    if (slot.opened || batch.still_allowed()) served = co_await batch.serve(slot);
    if (!served) {
      slot.code = wire_code(served.error().code);
      slot.in_reply = false;
    }
    batch.complete(index);
    batch.late_ = batch.late_ || SteadyClock::now() >= batch.until_;
  }
  if (helps) endpoint->end_read_ahead(*batch.op_->lane->client);
  leave(shared);
}

Task<void> ReadBatch::write_run(Run& run) {
  fabric::Window& window = *windows_[run.window];
  const Bytes bytes = Bytes(run.lease.bytes()).first(run.size);
  auto written = co_await window.write(bytes, run.offset, deadline_in(op_->operation_deadline()));
  for (size_t i = 0; i < run.count; ++i) {
    if (!written) slot(run.items[i]).code = wire_code(written.error().code);
    complete(run.items[i]);
  }
}

// Somebody goes on with what is behind an item that has to be waited for.
void ReadBatch::help(const Shared& shared) {
  Endpoint& endpoint = *(*shared)->endpoint;
  ClientLoad& client = *op_->lane->client;
  if (running_ >= workers_max || !endpoint.may_read_ahead(client) || !may_take()) return;
  ++running_;
  endpoint.begin_read_ahead(client);
  boost::asio::co_spawn(endpoint.core().io(), work(shared, std::nullopt, true), boost::asio::detached);
}

void ReadBatch::leave(Shared& shared) {
  ReadBatch& batch = *(*shared)->read;
  if (--batch.running_ != 0) return;
  // A last word on the progress may have to be waited for, too; or it was written at once, and this is over.
  batch.tell_progress(true);
  if (*shared == nullptr || batch.running_ != 0) return;
  OpPtr op = std::move(*shared);
  batch.finish();
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

void ReadBatch::tell_progress(bool all) {
  const wire::BatchHead& head = head_;
  if (head.progress_window == wire::no_window || arrived_ == published_ || publishing_) return;
  if (!all && arrived_bytes_ < progress_bytes) return;
  arrived_bytes_ = 0;
  fabric::Window& window = *windows_[head.progress_window];
  if (window.immediate_size_max() != 0) {
    std::byte raw[8];
    wire::Writer(MutableBytes(raw)).u64(arrived_);
    // A client that has withdrawn the window is not told.
    (void)window.write_now(raw, head.progress_offset);
    published_ = arrived_;
    return;
  }
  auto shared = shared_.lock();
  if (shared == nullptr) return;
  publishing_ = true;
  ++running_;
  boost::asio::co_spawn((*shared)->endpoint->core().io(), write_progress(shared), boost::asio::detached);
}

Task<void> ReadBatch::write_progress(Shared shared) {
  const wire::BatchHead& head = head_;
  const std::shared_ptr<fabric::Window> window = windows_[head.progress_window];
  // What is written to a window has to lie in the arena.
  memory::Share share(op_->endpoint->door().service.arena, op_->caller.peer_address, 64);
  auto lease = co_await share.lease(64);
  while (lease && published_ != arrived_) {
    const uint64_t now = arrived_;
    const MutableBytes word = MutableBytes(lease->bytes()).first(8);
    wire::Writer(word).u64(now);
    auto written = co_await window->write(word, head.progress_offset, deadline_in(op_->operation_deadline()));
    published_ = now;
    if (!written) break;
  }
  if (!lease) published_ = arrived_;
  publishing_ = false;
  leave(shared);
}

}  // namespace verbena::native
