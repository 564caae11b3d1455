#include "native/read_batch.h"

#include "base/ticks.h"
#include "native/endpoint.h"
#include "native/object_bytes.h"
#include "s3/objects/read.h"

namespace verbena::native {

Result<void> ReadBatch::begin(Op& op, Bytes body) {
  reset(op);
  if ((op.header.flags & (wire::flag_lease | wire::flag_take_lease)) != 0) [[unlikely]]
    VB_TRY(read_leases(body));
  VB_TRY(source_.open(op, body));
  const wire::BatchHead& head = source_.head();
  const auto form = wish_.milliseconds != 0 ? OrderedReply::Form::leased_entries : OrderedReply::Form::entries;
  reply_.begin(op, head, form, source_.wants_bytes());
  for (size_t i = 0; i < head.buckets.count; ++i) {
    hot_[i] = s3::HotReads(op.endpoint->door().service, op.caller, head.buckets[i]);
  }
  VB_TRY(delivery_.open(op, head));
  if (leased_) [[unlikely]]
    taken_.begin(op, wish_);
  return {};
}

Result<void> ReadBatch::begin_listing(Op& op, std::shared_ptr<const store::ListedObjects> listed, bool truncated) {
  reset(op);
  source_.open_listing(op, std::move(listed), truncated);
  reply_.begin(op, source_.head(), OrderedReply::Form::listing, source_.wants_bytes());
  return delivery_.open(op, source_.head());
}

void ReadBatch::reset(Op& op) {
  op_ = &op;
  shared_.reset();
  lease_ = 0;
  wish_ = {};
  leased_ = false;
  late_ = publishing_ = false;
  const auto patience = std::chrono::milliseconds(op.header.timeout_ms);
  until_ = patience.count() == 0 ? Deadline::max() : deadline_in(patience);
  running_ = looked_at_ = 0;
  moved_ = published_ = published_bytes_ = 0;
}

void ReadBatch::end() {
  taken_.finish(false);  // a batch that was refused after begin() has a part in a lease
  delivery_.close();
  reply_.end();
  source_.close();
}

bool ReadBatch::serve_at_once() {
  size_t index = 0;
  const Step step = advance(index);
  op_->endpoint->took_turn(looked_at_, moved_);
  if (step != Step::over) return false;
  finish();
  return true;
}

bool ReadBatch::may_take() const { return !late_ && !op_->stream->closed && source_.has_next() && reply_.may_take(); }

// Asked for each item: keys and policies change while a batch is served.
bool ReadBatch::still_allowed() {
  if (!op_->endpoint->still_known(*op_->stream)) return false;
  if (Endpoint::is_old(op_->caller, *op_->stream)) Endpoint::renew(op_->caller, *op_->stream);
  return true;
}

bool ReadBatch::has_had_its_turn() {
  if (moved_ >= turn_bytes || looked_at_ >= turn_items) return true;
  if (looked_at_ == 0) turn_began_ = ticks();
  return ns_between(turn_began_, ticks()) >= static_cast<uint64_t>(turn_time.count());
}

// Serves items until one has to wait (its index), or this turn ends.
ReadBatch::Step ReadBatch::advance(size_t& index) {
  for (;;) {
    // The worker that serves the item which the others wait for goes on when it is done.
    if (!may_take()) return delivery_.has_run() ? Step::flush : Step::over;
    if (has_had_its_turn()) {
      publish_progress(true);
      return Step::turn;
    }
    if (may_serve_group() && serve_group() != 0) continue;
    index = reply_.take();
    ++looked_at_;
    source_.next(reply_.slot(index));
    if (serve_now(index) == Served::now) continue;
    publish_progress(true);
    return Step::wait;
  }
}

ReadBatch::Served ReadBatch::serve_now(size_t index) {
  ReadSlot& slot = reply_.slot(index);
  const bool allowed = still_allowed();
  if (leased_ && allowed) [[unlikely]]
    return serve_leased_now(index);
  s3::HotReads::Found hot;
  if (allowed && source_.is_plain()) hot = hot_[slot.bucket].find(source_.key());
  if (hot.object != nullptr) {
    const uint64_t size = hot.object->info().size;
    slot.open({std::move(hot.object), 0, size, false, {}});
    return deliver_now(index);
  }
  source_.fill_request(slot);
  if (!allowed) return refuse(index, Errc::access_denied);
  if (slot.listed_alone) return complete(index);
  if (hot.answer == s3::HotReads::Answer::absent) return Served::waits;
  return look_now(index);
}

ReadBatch::Served ReadBatch::look_now(size_t index) {
  using Look = s3::ObjectRead::Step;
  ReadSlot& slot = reply_.slot(index);
  s3::ObjectRead read(op_->endpoint->door().service, op_->caller, slot.request, s3::ObjectRead::Of::bytes);
  const Look look = read.look();
  if (look == Look::refusal) return refuse(index, wire_code(read.error().code));
  if (look != Look::answer) return Served::waits;
  slot.open(read.take());
  return deliver_now(index);
}

ReadBatch::Served ReadBatch::refuse(size_t index, Errc code) {
  reply_.slot(index).code = code;
  return complete(index);
}

ReadBatch::Served ReadBatch::complete(size_t index) {
  reply_.complete(index);
  publish_progress(false);
  return Served::now;
}

// Small enough for the reply, and the reply has room for it and what is behind it.
bool ReadBatch::goes_in_reply(const wire::BatchPlace& place, uint64_t length) const {
  if (source_.is_listing()) return false;
  const uint64_t most = std::min<uint64_t>(source_.head().inline_max, op_->endpoint->info().inline_max_bytes);
  if (length > most) return false;
  return place.window == wire::no_window || reply_.has_room(length, source_.left());
}

ReadBatch::Served ReadBatch::deliver_now(size_t index) {
  ReadSlot& slot = reply_.slot(index);
  if (!source_.wants_bytes()) return complete(index);
  slot.in_reply = goes_in_reply(slot.place, slot.length);
  if (slot.in_reply) {
    // Else it is copied from the object when the answer is written, which is now.
    if (!reply_.is_next(index)) copy_pieces(*slot.opened, reply_.hold(slot).data());
  } else if (!slot.place.holds(slot.length)) {
    slot.code = Errc::too_large;
  } else if (slot.length != 0) {
    const Result<void> written = delivery_.write_now(*slot.opened, slot.place);
    if (!written && written.error() == Errc::would_block) {
      return has_workers() && gather(index) ? Served::now : Served::waits;
    }
    if (!written) slot.code = wire_code(written.error().code);
  }
  moved_ += slot.length;
  return complete(index);
}

bool ReadBatch::gather(size_t index) {
  const ReadSlot& slot = reply_.slot(index);
  if (!delivery_.gather(index, slot)) return false;
  moved_ += slot.length;
  return true;
}

// Elsewhere GETs are gathered, and answered when they were written.
bool ReadBatch::may_serve_group() const {
  if (!source_.may_group() || !reply_.all_answered() || leased_) return false;
  return !source_.wants_bytes() || source_.head().windows.count == 0 || delivery_.writes_at_once();
}

// Answers the leading items of the next group that can be answered together, and returns how many. They are looked up
// and sent by one call each, so that the processor copies one while it still waits for another. The rest are as if they
// had not been looked up.
size_t ReadBatch::serve_group() {
  const std::span<const ItemSource::Plain> items = source_.group();
  if (items.empty() || !still_allowed()) return 0;
  std::array<store::Store::HotLookup, ItemSource::group_max> lookups;
  size_t count = 0;
  for (; count < items.size() && hot_[items[count].bucket].looks_in_memory(); ++count) {
    lookups[count] = {.bucket = source_.head().buckets[items[count].bucket], .key = items[count].key};
  }
  const std::span<store::Store::HotLookup> found = std::span(lookups).first(count);
  op_->endpoint->door().service.store.hot_many(found);
  size_t answered = 0;
  while (answered < count && moved_ < turn_bytes) {
    const size_t more = answer_together(found.subspan(answered), items.subspan(answered));
    if (more == 0) break;
    answered += more;
  }
  return answered;
}

// Answers the first of these, as many as are sent by one call. 0: the first has to be served by itself.
size_t ReadBatch::answer_together(Found found, std::span<const ItemSource::Plain> items) {
  ItemDelivery::Together writes(delivery_);
  OrderedReply::Answered all;
  const size_t before = reply_.size();
  for (const store::Store::HotLookup& one : found) {
    const store::ObjectReader* const object = one.found.get();
    if (object == nullptr || !s3::is_sent_as_it_lies(object->info())) break;
    const size_t unfinished = reply_.size();
    if (!append(writes, all, *object, items[all.items].place)) {
      reply_.rewind(unfinished);
      break;
    }
    ++all.items;
  }
  if (!writes.write()) {
    reply_.rewind(before);
    return 0;
  }
  all.in_window = writes.bytes();
  for (size_t i = 0; i < all.items; ++i) {
    if (source_.wants_bytes()) hot_[items[i].bucket].note_read(found[i].key, found[i].found->info());
    reply_.count_for_bucket(items[i].bucket, source_.wants_bytes() ? found[i].found->info().size : 0);
  }
  reply_.answered_together(all);
  source_.skip(all.items);
  looked_at_ += all.items;
  moved_ += all.bytes();
  publish_progress(false);
  return all.items;
}

// Appends the answer, and its bytes to the reply or to the writes. False: it has to be served by itself.
bool ReadBatch::append(ItemDelivery::Together& writes, OrderedReply::Answered& all, const store::ObjectReader& object,
                       const wire::BatchPlace& place) {
  const store::ObjectInfo& info = object.info();
  const bool wants_bytes = source_.wants_bytes();
  const bool in_reply = wants_bytes && goes_in_reply(place, info.size);
  if (!reply_.append(info, in_reply)) return false;
  if (!wants_bytes || info.size == 0) return true;
  if (!in_reply) return writes.add(object, place);
  if (!reply_.append_bytes(object)) return false;
  all.in_reply += info.size;
  return true;
}

void ReadBatch::finish() {
  publish_progress(true);
  const uint64_t lease = leased_ ? taken_.finish(true) : 0;
  reply_.finish(source_.is_listing() && source_.has_more_than(reply_.answered()), lease);
  end();
}

}  // namespace verbena::native
