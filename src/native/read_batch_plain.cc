// Items of a read batch that say nothing but a name and a place, of callers who may read all of their bucket.
#include <cstring>

#include "native/endpoint.h"
#include "native/object_bytes.h"
#include "native/read_batch.h"
#include "s3/objects/read.h"

namespace verbena::native {

bool ReadBatch::may_be_plain() const { return !listing_ && !op_->is_told(); }

// The item says nothing but a name and a place, and nobody wants to know of it.
bool ReadBatch::is_plain(const wire::BatchItem& item) const {
  return may_be_plain() && (item.fields & ~(wire::field_place | wire::field_place_next)) == 0;
}

// check_batch() has read it, too.
void ReadBatch::next_item() {
  if (group_.next != group_.end) {
    const Group::Member& member = group_.members[group_.next++];
    item_.fields = member.fields;
    item_.bucket = member.bucket;
    item_.key = member.key;
    item_.place = member.place;
    item_.version = item_.if_match = item_.if_none_match = {};
  } else if (std::exchange(has_ahead_, false)) {
    item_ = ahead_;
  } else {
    reader_->next(item_);
  }
}

// Those before have been told of: what is found can be told at once.
bool ReadBatch::may_take_group() const {
  if (!may_be_plain() || told_ != taken_ || group_.next != group_.end || has_ahead_) return false;
  // Elsewhere GETs are gathered, and told of when they were written.
  return !is_get() || head_.windows.count == 0 || windows_[0]->immediate_size_max() != 0;
}

// The plain items that come next.
void ReadBatch::take_group() {
  group_.next = group_.end = group_.keys_size = 0;
  while (group_.end < Group::most && reader_->left() != 0) {
    reader_->next(ahead_);
    const std::string_view key = ahead_.key;
    if (!is_plain(ahead_) || key.size() > group_.keys.size() - group_.keys_size) {
      has_ahead_ = true;
      return;
    }
    char* const kept = group_.keys.data() + group_.keys_size;
    std::memcpy(kept, key.data(), key.size());
    group_.keys_size += key.size();
    group_.members[group_.end++] = {ahead_.fields, ahead_.bucket, {kept, key.size()}, ahead_.place};
  }
}

// Those that can be told at once. They are looked up together and let go together: between, nothing keeps the processor
// from copying one while it still waits for another. The rest are as if they had not been looked up.
void ReadBatch::serve_group() {
  if (group_.end == 0 || !still_allowed()) return;
  std::array<store::Store::HotLookup, Group::most> lookups;
  size_t count = 0;
  for (; count < group_.end && hot_[group_.members[count].bucket].looks_in_memory(); ++count) {
    const Group::Member& member = group_.members[count];
    lookups[count] = {.bucket = head_.buckets[member.bucket], .key = member.key};
  }
  const std::span<store::Store::HotLookup> found = std::span(lookups).first(count);
  op_->endpoint->door().service.store.hot_many(found);
  for (size_t i = 0; i < count && moved_ < turn_bytes;) {
    const size_t told = tell_together(found.subspan(i));
    if (told == 0) return;
    i += told;
  }
}

// Tells of the first of these, as many as go out by one call. How many: 0, the first one goes another way.
size_t ReadBatch::tell_together(Found found) {
  Together all;
  all.before = out_->size();
  const size_t first = group_.next;
  for (const store::Store::HotLookup& one : found) {
    const store::ObjectReader* const object = one.found.get();
    if (object == nullptr || !s3::is_sent_as_it_lies(object->info())) break;
    const size_t before = out_->size();
    if (!add(all, *object, group_.members[first + all.count].place)) {
      out_->rewind(before);
      break;
    }
    ++all.count;
  }
  if (all.writes_count != 0 && !all.window->write_all_now(std::span(all.writes).first(all.writes_count))) {
    out_->rewind(all.before);
    return 0;
  }
  for (size_t i = 0; i < all.count; ++i) {
    Traffic& traffic = traffic_[group_.members[first + i].bucket];
    ++traffic.requests;
    if (is_get()) traffic.bytes += found[i].found->info().size;
  }
  inline_bytes_ += all.in_reply;
  window_bytes_ += all.size;
  group_.next += all.count;
  taken_ += all.count;
  looked_at_ += all.count;
  op_->moved.out += all.in_reply + all.size;
  count_told(all.count, all.in_reply + all.size);
  return all.count;
}

// Writes the answer, and puts the bytes behind it or among those that go together. False: the answer may not stay.
bool ReadBatch::add(Together& all, const store::ObjectReader& object, const wire::BatchPlace& place) {
  const store::ObjectInfo& info = object.info();
  const bool gets = is_get();
  const bool in_reply = gets && wants_reply(place, info.size);
  if (!encode_plain(info, in_reply)) return false;
  if (!gets || info.size == 0) return true;
  if (!in_reply) {
    const Bytes bytes = object.view(0, info.size);
    return bytes.size() == info.size && add_write(all, bytes, place);
  }
  if (!put_in_reply(object)) return false;
  all.in_reply += info.size;
  return true;
}

// False: it goes to another window than those before it, or does not fit.
bool ReadBatch::add_write(Together& all, Bytes bytes, const wire::BatchPlace& place) {
  if (!place.holds(bytes.size())) return false;
  fabric::Window* const window = windows_[place.window].get();
  if (all.window == nullptr) {
    all.window = window;
    all.size_max = window->immediate_size_max();
  }
  if (window != all.window) return false;
  if (bytes.size() > all.size_max - all.size) return false;
  all.writes[all.writes_count++] = {bytes, place.offset};
  all.size += bytes.size();
  return true;
}

bool ReadBatch::encode_plain(const store::ObjectInfo& info, bool in_reply) {
  const wire::BatchEntry entry{
      .length = info.size,
      .object_size = info.size,
      .modified_us = info.modified_us,
      .etag = info.etag,
      .version = info.version_id,
      .checksum = (head_.details & wire::detail_checksum) != 0 ? full_checksum(info, op_->version()) : std::nullopt,
      .in_reply = in_reply};
  return encode(*out_, entry, head_.details);
}

// Behind its answer; it is not empty. False: it does not fit.
bool ReadBatch::put_in_reply(const store::ObjectReader& object) {
  const uint64_t size = object.info().size;
  const MutableBytes room = out_->reserve(size);
  if (room.size() != size) return false;
  copy_pieces(object, 0, size, room.data());
  return true;
}

void ReadBatch::count_told(size_t items, uint64_t bytes) {
  moved_ += bytes;
  told_ += items;
  if (!failed_) arrived_ += items;
  arrived_bytes_ += bytes;
  tell_progress(false);
}

// For who may read all of the item's bucket. False: it has to be waited for, as by serve_now(). nullopt: the way of all
// others knows.
std::optional<bool> ReadBatch::serve_plain(size_t index) {
  if (!still_allowed()) return std::nullopt;
  auto found = hot_[item_.bucket].find(item_.key);
  if (!found) return std::nullopt;
  std::shared_ptr<store::ObjectReader> object = std::move(*found);
  if (object == nullptr) {
    take(index);
    return false;
  }
  if (index == told_ && tell_plain(*object, item_.bucket, item_.place)) return true;
  Slot& slot = this->slot(index);
  clear(slot);
  slot.place = item_.place;
  slot.length = object->info().size;
  slot.opened.emplace(s3::OpenObject{std::move(object), 0, slot.length, false, {}});
  if (!is_get()) {
    complete(index);
    return true;
  }
  const bool served = deliver_now(index);
  if (!served) slot.opened->peer = op_->caller.peer_address;
  return served;
}

// As deliver_now() and complete() do, of an item that all before it were told of: nothing of it has to be kept. False:
// nothing was told, and they have to.
bool ReadBatch::tell_plain(const store::ObjectReader& object, size_t bucket, const wire::BatchPlace& place) {
  const store::ObjectInfo& info = object.info();
  const bool gets = is_get();
  const bool in_reply = gets && wants_reply(place, info.size);
  const size_t before = out_->size();
  if (!encode_plain(info, in_reply) || (gets && !write_plain(object, place, in_reply))) {
    out_->rewind(before);
    return false;
  }
  const uint64_t bytes = gets ? info.size : 0;
  (in_reply ? inline_bytes_ : window_bytes_) += bytes;
  ++traffic_[bucket].requests;
  traffic_[bucket].bytes += bytes;
  op_->moved.out += bytes;
  count_told(1, bytes);
  return true;
}

bool ReadBatch::write_plain(const store::ObjectReader& object, const wire::BatchPlace& place, bool in_reply) {
  const uint64_t size = object.info().size;
  if (size == 0) return true;
  if (in_reply) return put_in_reply(object);
  if (!place.holds(size)) return false;
  const auto written = write_now(object, 0, size, place);
  return written && *written;
}

}  // namespace verbena::native
