#include "native/ordered_reply.h"

#include <utility>

#include "native/endpoint.h"
#include "native/wire/match.h"
#include "s3/errors.h"
#include "s3/objects/send.h"

namespace verbena::native {
namespace {

size_t head_size(OrderedReply::Form form) {
  if (form == OrderedReply::Form::listing) return wire::list_values_head_size;
  return wire::batch_reply_head_size + (form == OrderedReply::Form::leased_entries ? wire::lease_size : 0);
}

}  // namespace

void OrderedReply::begin(Op& op, const wire::BatchHead& head, Form form, bool wants_bytes) {
  op_ = &op;
  head_ = &head;
  wants_bytes_ = wants_bytes;
  form_ = form;
  out_.emplace(op.body_space().subspan(head_size(form)));
  values_.reset();
  if (form == Form::listing) values_.emplace(*out_, head.details);
  full_ = failed_ = false;
  taken_ = answered_ = 0;
  held_bytes_ = arrived_ = inline_bytes_ = window_bytes_ = 0;
  traffic_.fill({});
}

void OrderedReply::end() {
  for (ReadSlot& slot : slots_) slot.opened.reset();
}

MutableBytes OrderedReply::hold(ReadSlot& slot) {
  slot.bytes.resize(slot.length);
  held_bytes_ += slot.length;
  return slot.bytes;
}

void OrderedReply::complete(size_t index) {
  slot(index).done = true;
  while (!full_ && answered_ < taken_ && slot(answered_).done) {
    ReadSlot& next = slot(answered_);
    if (!write(next)) {
      full_ = true;
      return;
    }
    account(next);
    held_bytes_ -= next.bytes.size();
    next.bytes.clear();
    next.opened.reset();
  }
}

// False: the reply is full.
bool OrderedReply::write(ReadSlot& slot) {
  wire::BatchEntry entry{.code = slot.code};
  if (slot.code == Errc::ok) {
    entry = entry_of(slot.object_info(), slot.length, slot.partial, slot.in_reply);
    entry.listed_alone = slot.listed_alone;
  }
  const size_t before = out_->size();
  const bool fits = write_entry(slot, entry);
  const MutableBytes place = entry.in_reply && fits ? out_->reserve(slot.length) : MutableBytes();
  if (!fits || !out_->ok()) {
    out_->rewind(before);
    if (answered_ != 0) return false;
    // The first answer is too long for an empty reply.
    slot.code = Errc::too_large;
    slot.in_reply = false;
    return write_entry(slot, {.code = Errc::too_large});
  }
  if (!entry.in_reply || slot.length == 0) return true;
  if (slot.bytes.empty()) {
    copy_pieces(*slot.opened, place.data());
  } else {
    copy_bytes(place.data(), slot.bytes.data(), slot.length);
  }
  return true;
}

bool OrderedReply::write_entry(const ReadSlot& slot, const wire::BatchEntry& entry) {
  if (values_) return values_->add({slot.request.key, entry, slot.place.offset});
  return encode(*out_, entry, head_->details);
}

bool OrderedReply::append_bytes(const store::ObjectReader& object) {
  const uint64_t size = object.info().size;
  const MutableBytes room = out_->reserve(size);
  if (room.size() != size) return false;
  copy_pieces(object, 0, size, room.data());
  return true;
}

void OrderedReply::account(const ReadSlot& slot) {
  const bool ok = slot.code == Errc::ok;
  const uint64_t bytes = ok && wants_bytes_ ? slot.length : 0;
  account({.items = 1, .in_reply = slot.in_reply ? bytes : 0, .in_window = slot.in_reply ? 0 : bytes}, ok);
  record(slot, bytes);
}

void OrderedReply::record(const ReadSlot& slot, uint64_t bytes) {
  const bool ok = slot.code == Errc::ok;
  if (bytes != 0 && !slot.charged) s3::charge_sent(*slot.opened);
  if (slot.listed_alone) return;  // an entry of the listing, not a request
  if (!op_->is_told()) {
    if (ok || s3::status_of(call::Verb::get, slot.code, false) < 400) count_for_bucket(slot.bucket, bytes);
    return;
  }
  Endpoint::Item item{.bucket = slot.bucket,
                      .bucket_name = head_->buckets[slot.bucket],
                      .key = slot.request.key,
                      .version = slot.request.version_id,
                      .outcome = slot.code,
                      .partial = slot.partial,
                      .out = bytes};
  if (ok) {
    const store::ObjectInfo& info = slot.object_info();
    item.object_size = info.size;
    if (!info.version_id.empty()) item.version = info.version_id;
  }
  op_->endpoint->account(*op_, item);
}

void OrderedReply::account(const Answered& answered, bool ok) {
  answered_ += answered.items;
  inline_bytes_ += answered.in_reply;
  window_bytes_ += answered.in_window;
  op_->moved.out += answered.bytes();
  failed_ = failed_ || !ok;
  if (!failed_) arrived_ += answered.items;
}

// The client has the bytes in its window, although there was no room for their answer.
void OrderedReply::account_for_unanswered() {
  for (size_t index = answered_; index < taken_; ++index) {
    const ReadSlot& one = slot(index);
    const bool moved = one.done && one.code == Errc::ok && wants_bytes_ && !one.in_reply && one.length != 0;
    if (!moved) continue;
    window_bytes_ += one.length;
    op_->moved.out += one.length;
    record(one, one.length);
  }
}

void OrderedReply::account_for_buckets() {
  for (size_t i = 0; i < traffic_.size(); ++i) {
    const auto [requests, bytes] = std::exchange(traffic_[i], {});
    if (requests == 0) continue;
    op_->endpoint->account(*op_, {.bucket = i, .bucket_name = head_->buckets[i], .out = bytes, .requests = requests});
  }
}

void OrderedReply::finish(bool more, uint64_t lease) {
  account_for_unanswered();
  account_for_buckets();
  const size_t size = head_size(form_);
  wire::Writer head(op_->body_space().first(size));
  const auto answered = static_cast<uint16_t>(answered_);
  if (values_) {
    wire::encode_list_values_head(head, more, head_->details, answered);
  } else {
    wire::encode_batch_reply_head(head, head_->details, answered);
    if (form_ == Form::leased_entries) head.u64(lease);
  }
  op_->body_size = size + out_->size();
  Metrics& metrics = op_->endpoint->door().metrics;
  metrics.inline_out.add(inline_bytes_);
  metrics.window_out.add(window_bytes_);
  metrics.batch_items.add(answered_);
}

}  // namespace verbena::native
