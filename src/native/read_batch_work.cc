// A read batch's coroutines: workers that serve items which have to wait, and the writer of the progress word.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "memory/budget.h"
#include "native/endpoint.h"
#include "native/read_batch.h"
#include "s3/objects/read.h"

namespace verbena::native {

void ReadBatch::start(OpPtr op) {
  ReadBatch& batch = *op->read;
  boost::asio::io_context& io = op->endpoint->core().io();
  // An item that was taken and not served is the first to be served.
  std::optional<size_t> first;
  if (!batch.reply_.all_answered()) first = batch.reply_.taken() - 1;
  // A batch that has not begun waits for its turn.
  if (batch.reply_.taken() == 0) batch.looked_at_ = turn_items;
  auto shared = std::make_shared<OpPtr>(std::move(op));
  batch.shared_ = shared;
  batch.running_ = 1;
  boost::asio::co_spawn(io, work(std::move(shared), first, false), boost::asio::detached);
}

// `first`: the item to begin with. `helps`: not the first worker.
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
      batch.begin_turn();
    } else {
      bool gathered = false;
      const bool has_run = batch.delivery_.has_run();
      const bool writes = has_run || batch.reply_.slot(index).opened.has_value();
      if (writes) ++batch.writing_;
      if (has_run) {
        const ItemDelivery::Run run = batch.delivery_.take_run();
        // The item that did not fit this run begins the next one.
        gathered = step == Step::wait && batch.reply_.slot(index).opened && batch.gather(index);
        batch.help(shared);
        co_await batch.write_run(run);
      } else {
        batch.help(shared);
      }
      const bool serves = !gathered && step != Step::flush;
      if (serves) {
        // A run that was written first may have taken long.
        ReadSlot& slot = batch.reply_.slot(index);
        Result<void> served = fail(Errc::access_denied, "native: the session's key");
        if (slot.opened || batch.still_allowed()) served = co_await batch.serve(slot);
        batch.complete_waiting(index, served);
      }
      if (writes) --batch.writing_;
      if (!serves) continue;
    }
    batch.late_ = batch.late_ || SteadyClock::now() >= batch.until_;
  }
  if (helps) endpoint->end_read_ahead(*batch.op_->stream->client);
  leave(shared);
}

Task<void> ReadBatch::write_run(const ItemDelivery::Run& run) {
  const Result<void> written = co_await delivery_.write(run);
  for (const size_t index : run.indices()) {
    if (!written) reply_.slot(index).code = wire_code(written.error().code);
    complete(index);
  }
}

void ReadBatch::complete_waiting(size_t index, const Result<void>& served) {
  if (!served) {
    ReadSlot& slot = reply_.slot(index);
    slot.code = wire_code(served.error().code);
    slot.in_reply = false;
  }
  complete(index);
}

Task<Result<void>> ReadBatch::serve(ReadSlot& slot) {
  s3::Service& service = op_->endpoint->door().service;
  if (leased_ && !slot.opened) [[unlikely]] {
    VB_CO_ASSIGN(s3::OpenObject opened, co_await open_leased(slot.request));
    slot.open(std::move(opened));
    if (!source_.wants_bytes()) co_return Result<void>{};
  } else if (!source_.wants_bytes()) {
    VB_CO_ASSIGN(s3::HeadReply found, co_await s3::head_object(service, op_->caller, slot.request));
    slot.info = std::move(found.info);
    slot.length = found.length;
    slot.partial = found.partial;
    co_return Result<void>{};
  }
  if (slot.opened) {
    slot.opened->peer = op_->caller.peer_address;
  } else {
    VB_CO_ASSIGN(s3::OpenObject opened, co_await s3::open_object(service, op_->caller, slot.request));
    slot.open(std::move(opened));
  }
  slot.in_reply = goes_in_reply(slot.place, slot.length);
  if (slot.in_reply) co_return co_await delivery_.send_to_reply(slot, reply_.hold(slot));
  slot.charged = true;
  co_return co_await delivery_.send_to_window(slot);
}

bool ReadBatch::may_help() const {
  const bool in_order = source_.head().progress_window != wire::no_window;
  return running_ < workers_max && (!in_order || writing_ < writers_in_order);
}

// Starts a worker for the items behind one that has to wait.
void ReadBatch::help(const Shared& shared) {
  Endpoint& endpoint = *(*shared)->endpoint;
  ClientLoad& client = *op_->stream->client;
  if (!may_help() || !endpoint.may_read_ahead(client) || !may_take()) return;
  ++running_;
  endpoint.begin_read_ahead(client);
  boost::asio::co_spawn(endpoint.core().io(), work(shared, std::nullopt, true), boost::asio::detached);
}

void ReadBatch::leave(Shared& shared) {
  ReadBatch& batch = *(*shared)->read;
  if (--batch.running_ != 0) return;
  // The last write of the progress may have to wait, and then leaves after this.
  batch.publish_progress(true);
  if (*shared == nullptr || batch.running_ != 0) return;
  OpPtr op = std::move(*shared);
  batch.finish();
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

// Writes how many leading items have arrived, if that has changed: always, or after each progress_bytes.
void ReadBatch::publish_progress(bool all) {
  const wire::BatchHead& head = source_.head();
  if (head.progress_window == wire::no_window || reply_.arrived() == published_ || publishing_) return;
  if (!all && reply_.bytes_moved() - published_bytes_ < progress_bytes) return;
  published_bytes_ = reply_.bytes_moved();
  fabric::Window& window = delivery_.window(head.progress_window);
  if (window.immediate_size_max() != 0) {
    std::byte raw[8];
    wire::Writer(MutableBytes(raw)).u64(reply_.arrived());
    // A client that has withdrawn the window gets no progress.
    (void)window.write_now(raw, head.progress_offset);
    published_ = reply_.arrived();
    return;
  }
  auto shared = shared_.lock();
  if (shared == nullptr) return;
  publishing_ = true;
  ++running_;
  boost::asio::co_spawn((*shared)->endpoint->core().io(), write_progress(shared), boost::asio::detached);
}

Task<void> ReadBatch::write_progress(Shared shared) {
  const wire::BatchHead& head = source_.head();
  // What is written to a window has to lie in the arena.
  memory::Share share(op_->endpoint->door().service.arena, op_->caller.peer_address, 64);
  auto lease = co_await share.lease(64);
  while (lease && published_ != reply_.arrived()) {
    const uint64_t now = reply_.arrived();
    const MutableBytes word = MutableBytes(lease->bytes()).first(8);
    wire::Writer(word).u64(now);
    auto written = co_await delivery_.window(head.progress_window)
                       .write(word, head.progress_offset, deadline_in(op_->operation_deadline()));
    published_ = now;
    if (!written) break;
  }
  if (!lease) published_ = reply_.arrived();
  publishing_ = false;
  leave(shared);
}

}  // namespace verbena::native
