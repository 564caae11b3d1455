#include "native/item_source.h"

#include <cstring>
#include <utility>

#include "native/batch_check.h"

namespace verbena::native {
namespace {

void assign_one(std::vector<std::string>& to, bool given, std::string_view etag) {
  to.resize(given ? 1 : 0);
  if (given) to[0].assign(etag);
}

}  // namespace

void ItemSource::reset(const Op& op) {
  op_ = &op;
  wants_bytes_ = static_cast<wire::Type>(op.header.type) != wire::Type::head_many;
  reader_.reset();
  listing_.reset();
  group_.next = group_.end = 0;
  has_ahead_ = false;
}

Result<void> ItemSource::open(const Op& op, Bytes body) {
  reset(op);
  const auto type = static_cast<wire::Type>(op.header.type);
  body_.assign(body.begin(), body.end());
  VB_TRY(check_batch(body_, type));
  reader_ = wire::BatchReader::open(body_, type);
  head_ = reader_->head();
  return {};
}

void ItemSource::open_listing(const Op& op, std::shared_ptr<const store::ListedObjects> listed, bool truncated) {
  reset(op);
  head_ = {};
  head_.details = op.details;
  head_.buckets.add(op.bucket);
  if (op.window.size != 0) head_.windows.add(op.window);
  listing_.emplace(Listing{std::move(listed), truncated});
}

bool ItemSource::wants_value(uint64_t size) const { return size <= op_->value_size_max && size <= op_->window.size; }

bool ItemSource::next_value_fits() const {
  const uint64_t size = (*listing_->objects)[listing_->next].size;
  return !wants_value(size) || size <= op_->window.size - listing_->used;
}

void ItemSource::next(ReadSlot& slot) {
  slot.clear();
  if (listing_) return next_of_listing(slot);
  next_of_message();
  slot.bucket = item_.bucket;
  slot.place = item_.place;
}

// check_batch() has read it before, without an error.
void ItemSource::next_of_message() {
  if (group_.next != group_.end) {
    const Plain& plain = group_.items[group_.next++];
    item_.fields = plain.fields;
    item_.bucket = plain.bucket;
    item_.key = plain.key;
    item_.place = plain.place;
    item_.version = item_.if_match = item_.if_none_match = {};
  } else if (std::exchange(has_ahead_, false)) {
    item_ = ahead_;
  } else {
    reader_->next(item_);
  }
}

void ItemSource::next_of_listing(ReadSlot& slot) {
  const store::ListedObjects::Entry entry = (*listing_->objects)[listing_->next++];
  slot.bucket = 0;
  slot.request.clear();
  slot.request.bucket.assign(op_->bucket);
  slot.request.key.assign(entry.key);
  slot.listed_alone = !wants_value(entry.size);
  slot.place = {};
  if (slot.listed_alone) {
    slot.info = {};
    slot.info.size = entry.size;
    slot.info.etag = entry.etag;
    slot.info.modified_us = entry.modified_us;
  } else {
    slot.place = {0, listing_->used, entry.size};
    listing_->used += entry.size;
  }
}

void ItemSource::fill_request(ReadSlot& slot) const {
  if (listing_) return;
  s3::GetRequest& request = slot.request;
  request.clear();
  request.bucket.assign(head_.buckets[item_.bucket]);
  request.key.assign(item_.key);
  request.version_id.assign(item_.version);
  if (item_.has(wire::field_range)) request.range = byte_range(item_.range);
  assign_one(request.preconditions.if_match, item_.has(wire::field_if_match), item_.if_match);
  assign_one(request.preconditions.if_none_match, item_.has(wire::field_if_none_match), item_.if_none_match);
}

std::span<const ItemSource::Plain> ItemSource::group() {
  group_.next = group_.end = group_.keys_size = 0;
  while (group_.end < group_max && reader_->left() != 0) {
    reader_->next(ahead_);
    const std::string_view key = ahead_.key;
    if (!is_plain(ahead_) || key.size() > group_.keys.size() - group_.keys_size) {
      has_ahead_ = true;
      break;
    }
    char* const kept = group_.keys.data() + group_.keys_size;
    std::memcpy(kept, key.data(), key.size());
    group_.keys_size += key.size();
    group_.items[group_.end++] = {ahead_.fields, ahead_.bucket, {kept, key.size()}, ahead_.place};
  }
  return std::span(group_.items).first(group_.end);
}

}  // namespace verbena::native
