#include "native/item_delivery.h"

#include "memory/budget.h"
#include "native/endpoint.h"
#include "native/object_bytes.h"
#include "native/range_fan_out.h"
#include "native/sinks.h"
#include "rdma/token_windows.h"
#include "s3/objects/send.h"

namespace verbena::native {
namespace {

constexpr size_t run_bytes_max = memory::Budget::unit;

}  // namespace

Result<void> ItemDelivery::open(Op& op, const wire::BatchHead& head) {
  op_ = &op;
  run_.reset();
  for (size_t i = 0; i < head.windows.count; ++i) {
    const wire::Descriptor& lent = head.windows[i];
    ++op.stream->moved.windows;
    VB_ASSIGN(windows_[i], op.endpoint->port().open_window(op.stream->peer, {lent.base, lent.size, lent.key},
                                                           fabric::Access::server_writes));
  }
  return {};
}

void ItemDelivery::close() {
  for (auto& window : windows_) window.reset();
  run_.reset();
}

bool ItemDelivery::Together::add(const store::ObjectReader& object, const wire::BatchPlace& place) {
  const uint64_t size = object.info().size;
  const Bytes bytes = object.view(0, size);
  if (bytes.size() != size || !place.holds(size)) return false;
  fabric::Window* const window = delivery_.windows_[place.window].get();
  if (window_ == nullptr) {
    window_ = window;
    bytes_max_ = window->immediate_size_max();
  }
  if (window != window_ || size > bytes_max_ - bytes_) return false;
  writes_[count_++] = {bytes, place.offset};
  bytes_ += size;
  return true;
}

Result<void> ItemDelivery::write_now(const s3::OpenObject& object, const wire::BatchPlace& place) {
  fabric::Window& window = *windows_[place.window];
  if (window.immediate_size_max() < object.length) return fail(Errc::would_block, "native: not within the call");
  Result<void> written;
  each_piece(*object.reader, object.offset, object.length, [&](Bytes bytes, uint64_t at) {
    written = window.write_now(bytes, place.offset + at);
    return written.has_value();
  });
  return written;
}

bool ItemDelivery::gather(size_t index, const ReadSlot& slot) {
  if (slot.length == 0 || slot.length > run_bytes_max / 2 || slot.length != slot.place.size) return false;
  const bool joins = run_ && run_->window == slot.place.window && run_->offset + run_->size == slot.place.offset &&
                     run_->size + slot.length <= run_bytes_max;
  if (run_ ? !joins : !begin_run(slot)) return false;
  copy_pieces(*slot.opened, run_->lease.data() + run_->size);
  run_->size += slot.length;
  run_->items[run_->count++] = index;
  return true;
}

// False: there is no memory for it now.
bool ItemDelivery::begin_run(const ReadSlot& slot) {
  memory::Arena& arena = op_->endpoint->door().service.arena;
  memory::Share share(arena, op_->caller.peer_address, run_bytes_max);
  auto charge = share.try_take(run_bytes_max);
  if (!charge) return false;
  auto lease = arena.lease(run_bytes_max);
  if (!lease) return false;
  lease->attach(std::move(*charge));
  run_.emplace(Run());  // clang takes no default initializers of a nested class that is not complete yet
  run_->lease = std::move(*lease);
  run_->window = slot.place.window;
  run_->offset = slot.place.offset;
  return true;
}

ItemDelivery::Run ItemDelivery::take_run() {
  Run run = std::move(*run_);
  run_.reset();
  return run;
}

Task<Result<void>> ItemDelivery::write(const Run& run) {
  const Bytes bytes = Bytes(run.lease.bytes()).first(run.size);
  co_return co_await windows_[run.window]->write(bytes, run.offset, deadline_in(op_->operation_deadline()));
}

Task<Result<void>> ItemDelivery::send_to_reply(ReadSlot& slot, MutableBytes to) {
  InlineSink sink(to);
  auto charge = std::exchange(slot.opened->charge, nullptr);
  auto sent = co_await s3::send_object(op_->endpoint->door().service, *slot.opened, sink);
  slot.opened->charge = std::move(charge);
  co_return sent;
}

Task<Result<void>> ItemDelivery::send_to_window(ReadSlot& slot) {
  if (!slot.place.holds(slot.length)) {
    co_return fail(Errc::too_large, "native: neither place nor reply holds the bytes");
  }
  if (slot.length == 0) co_return Result<void>{};
  auto part = std::make_unique<WindowPart>(windows_[slot.place.window], slot.place.offset, slot.length);
  rdma::WindowSink sink(std::move(part), op_->operation_deadline());
  co_return co_await send_drained(op_->endpoint->door().service, *slot.opened, sink);
}

}  // namespace verbena::native
