#include "native/read_batch.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/ticks.h"
#include "call/account.h"
#include "memory/budget.h"
#include "native/batch_check.h"
#include "native/endpoint.h"
#include "native/object_bytes.h"
#include "native/range_fan_out.h"
#include "native/streams.h"
#include "rdma/token_windows.h"
#include "s3/errors.h"
#include "s3/objects/read.h"
#include "s3/objects/send.h"

namespace verbena::native {
namespace {

constexpr size_t entry_space = 80;  // what one answer takes of a reply, more or less

void assign_one(std::vector<std::string>& to, bool given, std::string_view etag) {
  to.resize(given ? 1 : 0);
  if (given) to[0].assign(etag);
}

}  // namespace

bool ReadBatch::is_get() const { return static_cast<wire::Type>(op_->header.type) != wire::Type::head_many; }

Result<void> ReadBatch::begin(Op& op, Bytes body) {
  reset(op, wire::batch_reply_head_size);
  const auto type = static_cast<wire::Type>(op.header.type);
  body_.assign(body.begin(), body.end());
  VB_TRY(check_batch(body_, type));
  reader_ = wire::BatchReader::open(body_, type);
  head_ = reader_->head();
  for (size_t i = 0; i < head_.buckets.count; ++i) {
    hot_[i] = s3::HotReads(op.endpoint->door().service, op.caller, head_.buckets[i]);
  }
  return open_windows();
}

Result<void> ReadBatch::begin_listing(Op& op, store::ListPage page) {
  reset(op, wire::list_values_head_size);
  head_ = {};
  head_.details = op.details;
  if (op.window.size != 0) head_.windows.add(op.window);
  for (store::ListEntry& entry : page.entries) {
    store::ObjectInfo kept;  // until the last value is sent: only what is told
    kept.size = entry.info.size;
    kept.etag = std::move(entry.info.etag);
    kept.modified_us = entry.info.modified_us;
    entry.info = std::move(kept);
  }
  listing_.emplace(Listing{std::move(page), 0, 0, wire::ValueWriter(*out_, op.details)});
  return open_windows();
}

Result<void> ReadBatch::open_windows() {
  for (size_t i = 0; i < head_.windows.count; ++i) {
    const wire::Descriptor& lent = head_.windows[i];
    ++op_->lane->moved.windows;
    VB_ASSIGN(windows_[i], op_->endpoint->port().open_window(op_->lane->peer, {lent.base, lent.size, lent.key},
                                                             fabric::Access::server_writes));
  }
  return {};
}

void ReadBatch::reset(Op& op, size_t reply_head_size) {
  op_ = &op;
  reader_.reset();
  listing_.reset();
  out_.emplace(op.body_space().subspan(reply_head_size));
  run_.reset();
  shared_.reset();
  full_ = late_ = failed_ = publishing_ = false;
  const auto patience = std::chrono::milliseconds(op.header.timeout_ms);
  until_ = patience.count() == 0 ? Deadline::max() : deadline_in(patience);
  taken_ = told_ = running_ = looked_at_ = 0;
  group_.next = group_.end = 0;
  has_ahead_ = false;
  traffic_.fill({});
  waiting_bytes_ = moved_ = arrived_ = published_ = arrived_bytes_ = inline_bytes_ = window_bytes_ = 0;
}

void ReadBatch::end() {
  for (auto& window : windows_) window.reset();
  for (Slot& slot : slots_) slot.opened.reset();
  run_.reset();
  listing_.reset();
}

size_t ReadBatch::left() const {
  if (listing_) return listing_->page.entries.size() - listing_->next;
  return group_.end - group_.next + (has_ahead_ ? 1 : 0) + reader_->left();
}

bool ReadBatch::serve_at_once() {
  size_t index = 0;
  const Step step = advance(index);
  op_->endpoint->took_turn(looked_at_, moved_);
  if (step == Step::over) {
    finish();
    return true;
  }
  // start() finds it again.
  if (step == Step::wait) slot(index).done = false;
  return false;
}

// Whoever serves the item that the others wait for goes on when it is done.
bool ReadBatch::may_take() const {
  if (full_ || late_ || left() == 0 || op_->lane->closed) return false;
  if (listing_) {
    // A page ends where the window does.
    const store::ObjectInfo& next = listing_->page.entries[listing_->next].info;
    if (wants_value(next) && next.size > op_->window.size - listing_->used) return false;
  }
  return taken_ - told_ < ahead_max && waiting_bytes_ <= out_->left();
}

// Asked for each item: keys and policies change while a batch is served.
bool ReadBatch::still_allowed() {
  if (!op_->endpoint->still_known(*op_->lane)) return false;
  if (Endpoint::is_old(op_->caller, *op_->lane)) Endpoint::renew(op_->caller, *op_->lane);
  return true;
}

bool ReadBatch::has_had_its_turn() {
  if (moved_ >= turn_bytes || looked_at_ >= turn_items) return true;
  if (looked_at_ == 0) turn_began_ = ticks();
  constexpr auto turn_ns = static_cast<uint64_t>(std::chrono::nanoseconds(turn_time).count());
  return ns_between(turn_began_, ticks()) >= turn_ns;
}

// Goes on until something has to be waited for: an item (its index), or the turn of others.
ReadBatch::Step ReadBatch::advance(size_t& index) {
  for (;;) {
    if (!may_take()) return run_ ? Step::flush : Step::over;
    if (has_had_its_turn()) {
      tell_progress(true);
      return Step::turn;
    }
    if (may_take_group()) {
      take_group();
      serve_group();
      if (group_.next != 0) continue;
    }
    index = taken_++;
    ++looked_at_;
    if (!listing_) next_item();
    const std::optional<bool> plainly = is_plain(item_) ? serve_plain(index) : std::nullopt;
    if (!plainly) take(index);
    if (plainly ? *plainly : serve_now(index)) continue;
    tell_progress(true);
    return Step::wait;
  }
}

bool ReadBatch::wants_value(const store::ObjectInfo& info) const {
  return info.size <= op_->value_size_max && info.size <= op_->window.size;
}

void ReadBatch::take_listed(Slot& slot) {
  const store::ListEntry& entry = listing_->page.entries[listing_->next++];
  s3::GetRequest& request = slot.request;
  request.clear();
  request.bucket.assign(op_->bucket);
  request.key.assign(entry.key);
  slot.listed_alone = !wants_value(entry.info);
  slot.place = {};
  if (slot.listed_alone) {
    slot.info = entry.info;
  } else {
    slot.place = {0, listing_->used, entry.info.size};
    listing_->used += entry.info.size;
  }
}

void ReadBatch::clear(Slot& slot) {
  slot.opened.reset();
  slot.bytes.clear();
  slot.done = slot.partial = slot.in_reply = slot.listed_alone = slot.charged = false;
  slot.code = Errc::ok;
  slot.length = 0;
  slot.bucket = listing_ ? 0 : item_.bucket;
}

void ReadBatch::account() {
  for (size_t i = 0; i < traffic_.size(); ++i) {
    const auto [requests, bytes] = std::exchange(traffic_[i], {});
    if (requests == 0) continue;
    op_->endpoint->account(*op_, {.bucket = i, .bucket_name = bucket_name(i), .out = bytes, .requests = requests});
  }
}

void ReadBatch::take(size_t index) {
  Slot& slot = this->slot(index);
  clear(slot);
  if (listing_) return take_listed(slot);
  s3::GetRequest& request = slot.request;
  request.clear();
  request.bucket.assign(head_.buckets[item_.bucket]);
  request.key.assign(item_.key);
  request.version_id.assign(item_.version);
  if (item_.has(wire::field_range)) request.range = byte_range(item_.range);
  assign_one(request.preconditions.if_match, item_.has(wire::field_if_match), item_.if_match);
  assign_one(request.preconditions.if_none_match, item_.has(wire::field_if_none_match), item_.if_none_match);
  slot.place = item_.place;
}

bool ReadBatch::serve_now(size_t index) {
  Slot& slot = this->slot(index);
  if (!still_allowed()) {
    slot.code = Errc::access_denied;
    complete(index);
    return true;
  }
  if (slot.listed_alone) {
    complete(index);
    return true;
  }
  using Step = s3::ObjectRead::Step;
  s3::ObjectRead read(op_->endpoint->door().service, op_->caller, slot.request, s3::ObjectRead::Of::bytes);
  const Step step = read.look();
  if (step == Step::refusal) {
    slot.code = wire_code(read.error().code);
    complete(index);
    return true;
  }
  if (step != Step::answer) return false;
  slot.opened = read.take();
  slot.length = slot.opened->length;
  slot.partial = slot.opened->partial;
  if (!is_get()) {
    complete(index);
    return true;
  }
  return deliver_now(index);
}

// Small enough for the reply, and it has the room.
bool ReadBatch::wants_reply(const wire::BatchPlace& place, uint64_t length) const {
  if (listing_) return false;
  const uint64_t most = std::min(head_.inline_max, op_->endpoint->info().inline_max_bytes);
  if (length > most) return false;
  if (place.window == wire::no_window) return true;
  const size_t behind = left() + taken_ - told_;
  return out_->left() >= waiting_bytes_ + length + behind * entry_space;
}

// False: it has to be waited for.
bool ReadBatch::deliver_now(size_t index) {
  Slot& slot = this->slot(index);
  slot.in_reply = wants_reply(slot.place, slot.length);
  if (slot.in_reply) {
    if (index != told_) {
      slot.bytes.resize(slot.length);
      waiting_bytes_ += slot.length;
      copy_pieces(*slot.opened, slot.bytes.data());
    }
  } else if (!slot.place.holds(slot.length)) {
    slot.code = Errc::too_large;
  } else if (slot.length != 0) {
    auto written = write_now(*slot.opened->reader, slot.opened->offset, slot.length, slot.place);
    if (written && !*written) return gather(index);
    if (!written) slot.code = wire_code(written.error().code);
  }
  moved_ += slot.length;
  complete(index);
  return true;
}

// Copies a small item behind those before it. False: it has to go by itself.
bool ReadBatch::gather(size_t index) {
  const Slot& slot = this->slot(index);
  constexpr size_t most = memory::Budget::unit;
  // In the sync part nobody could write it.
  if (shared_.expired() || slot.length == 0 || slot.length > most / 2 || slot.length != slot.place.size) return false;
  const bool joins = run_ && run_->window == slot.place.window && run_->offset + run_->size == slot.place.offset &&
                     run_->size + slot.length <= most;
  if (run_ && !joins) return false;
  if (!run_) {
    s3::Service& service = op_->endpoint->door().service;
    memory::Share share(service.arena, op_->caller.peer_address, most);
    auto charge = share.try_take(most);
    if (!charge) return false;
    auto lease = service.arena.lease(most);
    if (!lease) return false;
    lease->attach(std::move(*charge));
    run_.emplace(Run());  // clang takes no default initializers of a nested class that is not complete yet
    run_->lease = std::move(*lease);
    run_->window = slot.place.window;
    run_->offset = slot.place.offset;
  }
  copy_pieces(*slot.opened, run_->lease.data() + run_->size);
  run_->size += slot.length;
  run_->items[run_->count++] = index;
  moved_ += slot.length;
  return true;
}

// Into the window, where the transport copies. False: it does not.
Result<bool> ReadBatch::write_now(const store::ObjectReader& object, uint64_t offset, uint64_t length,
                                  const wire::BatchPlace& place) {
  fabric::Window& window = *windows_[place.window];
  if (window.immediate_size_max() < length) return false;
  Result<void> done;
  each_piece(object, offset, length, [&](Bytes bytes, uint64_t at) {
    done = window.write_now(bytes, place.offset + at);
    return done.has_value();
  });
  // The socket is full: it has to be waited for, and what went out goes again.
  if (!done && done.error() == Errc::would_block) return false;
  if (!done) return std::unexpected(done.error());
  return true;
}

Task<Result<void>> ReadBatch::serve(Slot& slot) {
  s3::Service& service = op_->endpoint->door().service;
  if (!is_get()) {
    VB_CO_ASSIGN(s3::HeadReply found, co_await s3::head_object(service, op_->caller, slot.request));
    slot.info = std::move(found.info);
    slot.length = found.length;
    slot.partial = found.partial;
    co_return Result<void>{};
  }
  if (!slot.opened) {
    VB_CO_ASSIGN(slot.opened, co_await s3::open_object(service, op_->caller, slot.request));
    slot.length = slot.opened->length;
    slot.partial = slot.opened->partial;
  }
  slot.charged = true;
  co_return co_await deliver(slot);
}

Task<Result<void>> ReadBatch::deliver(Slot& slot) {
  s3::Service& service = op_->endpoint->door().service;
  slot.in_reply = wants_reply(slot.place, slot.length);
  if (slot.in_reply) {
    slot.bytes.resize(slot.length);
    waiting_bytes_ += slot.length;
    InlineSink sink(slot.bytes);
    co_return co_await s3::send_object(service, *slot.opened, sink);
  }
  if (!slot.place.holds(slot.length)) {
    co_return fail(Errc::too_large, "native: neither place nor reply holds the bytes");
  }
  if (slot.length == 0) co_return Result<void>{};
  auto part = std::make_unique<WindowPart>(windows_[slot.place.window], slot.place.offset, slot.length);
  rdma::WindowSink sink(std::move(part), op_->operation_deadline());
  co_return co_await send_drained(service, *slot.opened, sink);
}

// The answer is known; it is written when those before it are.
void ReadBatch::complete(size_t index) {
  slot(index).done = true;
  bool first = index == told_;
  while (!full_ && told_ < taken_ && slot(told_).done) {
    if (!tell(slot(told_), first)) {
      full_ = true;
      return;
    }
    told(slot(told_));
    ++told_;
    first = false;
  }
  tell_progress(false);
}

// Writes an answer. False: the reply is full. `first`: inline bytes are still where they lie in memory, unless they
// were fetched.
bool ReadBatch::tell(Slot& slot, bool first) {
  wire::BatchEntry entry;
  entry.code = slot.code;
  if (slot.code == Errc::ok) {
    const store::ObjectInfo& info = slot.opened ? slot.opened->info() : slot.info;
    entry.partial = slot.partial;
    entry.length = slot.length;
    entry.object_size = info.size;
    entry.modified_us = info.modified_us;
    entry.etag = info.etag;
    entry.version = info.version_id;
    entry.in_reply = slot.in_reply;
    entry.listed_alone = slot.listed_alone;
    if ((head_.details & wire::detail_checksum) != 0 && !slot.partial)
      entry.checksum = full_checksum(info, op_->version());
  }
  const size_t before = out_->size();
  const bool fits = write_entry(slot, entry);
  const MutableBytes place = entry.in_reply && fits ? out_->reserve(slot.length) : MutableBytes();
  if (!fits || !out_->ok()) {
    out_->rewind(before);
    if (told_ != 0) return false;
    // Alone, and still too long for a reply.
    slot.code = Errc::too_large;
    slot.in_reply = false;
    return write_entry(slot, {.code = Errc::too_large});
  }
  if (!entry.in_reply || slot.length == 0) return true;
  if (first && slot.bytes.empty()) {
    copy_pieces(*slot.opened, place.data());
  } else {
    copy_bytes(place.data(), slot.bytes.data(), slot.length);
  }
  return true;
}

bool ReadBatch::write_entry(const Slot& slot, const wire::BatchEntry& entry) {
  if (listing_) return listing_->out.add({slot.request.key, entry, slot.place.offset});
  return encode(*out_, entry, head_.details);
}

void ReadBatch::told(Slot& slot) {
  const bool ok = slot.code == Errc::ok;
  const uint64_t bytes = ok && is_get() ? slot.length : 0;
  (slot.in_reply ? inline_bytes_ : window_bytes_) += bytes;
  op_->moved.out += bytes;
  if (bytes != 0 && !slot.charged) s3::charge_sent(*slot.opened);
  if (op_->is_told() && !slot.listed_alone) {
    const store::ObjectInfo* const info = !ok ? nullptr : slot.opened ? &slot.opened->info() : &slot.info;
    Endpoint::Item item{.bucket = slot.bucket,
                        .bucket_name = bucket_name(slot.bucket),
                        .key = slot.request.key,
                        .version = slot.request.version_id,
                        .outcome = slot.code,
                        .partial = slot.partial,
                        .out = bytes};
    if (info != nullptr) item.object_size = info->size;
    if (info != nullptr && !info->version_id.empty()) item.version = info->version_id;
    op_->endpoint->account(*op_, item);
  } else if (!slot.listed_alone && (ok || s3::status_of(call::Verb::get, slot.code, false) < 400)) {
    ++traffic_[slot.bucket].requests;
    traffic_[slot.bucket].bytes += bytes;
  }
  failed_ = failed_ || !ok;
  if (!failed_) ++arrived_;
  arrived_bytes_ += bytes;
  waiting_bytes_ -= slot.bytes.size();
  slot.bytes.clear();
  slot.opened.reset();
}

void ReadBatch::finish() {
  tell_progress(true);
  account();
  const size_t head_size = listing_ ? wire::list_values_head_size : wire::batch_reply_head_size;
  wire::Writer head(op_->body_space().first(head_size));
  const auto answered = static_cast<uint16_t>(told_);
  if (listing_) {
    const bool more = listing_->page.truncated || told_ != listing_->page.entries.size();
    wire::encode_list_values_head(head, more, head_.details, answered);
  } else {
    wire::encode_batch_reply_head(head, head_.details, answered);
  }
  op_->body_size = head_size + out_->size();
  Metrics& metrics = op_->endpoint->door().metrics;
  metrics.inline_out.add(inline_bytes_);
  metrics.window_out.add(window_bytes_);
  metrics.batch_items.add(told_);
  end();
}

}  // namespace verbena::native
