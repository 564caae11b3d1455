// The reply of a read batch: answers in the order of the items, each accounted for when it is written. An answer that
// is known before those ahead of it waits in its slot. The only place where a read batch encodes and accounts.
#pragma once

#include <array>
#include <optional>

#include "native/object_bytes.h"
#include "native/op.h"
#include "native/read_slot.h"
#include "native/wire/batch.h"
#include "native/wire/list_values.h"

namespace verbena::native {

class OrderedReply {
 public:
  static constexpr size_t slots_max = 64;  // items whose answers are not written yet

  // Answers that have been written.
  struct Answered {
    size_t items = 0;
    uint64_t in_reply = 0, in_window = 0;  // bytes
    uint64_t bytes() const { return in_reply + in_window; }
  };

  enum class Form : uint8_t { entries, leased_entries, listing };  // leased: the answer has a lease's number
  // `head` outlives the batch.
  void begin(Op& op, const wire::BatchHead& head, Form form, bool wants_bytes);
  // Releases the objects of answers that were not written.
  void end();

  // An item's slot is its own from take() until its answer is written.
  size_t take() { return taken_++; }
  bool may_take() const { return !full_ && taken_ - answered_ < slots_max && held_bytes_ <= out_->left(); }
  ReadSlot& slot(size_t index) { return slots_[index % slots_max]; }
  size_t taken() const { return taken_; }
  size_t answered() const { return answered_; }
  bool all_answered() const { return answered_ == taken_; }
  // Whether this item's answer is the next to be written.
  bool is_next(size_t index) const { return index == answered_; }

  // Room for an item's bytes, if `behind` items are left to be read.
  bool has_room(uint64_t bytes, size_t behind) const {
    return out_->left() >= held_bytes_ + bytes + (behind + taken_ - answered_) * entry_space;
  }
  // Makes room in the slot for bytes that wait for answers ahead of theirs.
  MutableBytes hold(ReadSlot& slot);
  // The item's answer is known. Writes it, and those behind it that waited, as soon as those ahead of it are written.
  void complete(size_t index);

  // For plain items in memory whose turn it is: their answers are appended without a slot, and counted together. No
  // item may be waiting in a slot then.
  // False: it does not fit, and the caller rewinds.
  bool append(const store::ObjectInfo& info, bool in_reply) {
    return encode(*out_, entry_of(info, info.size, false, in_reply), head_->details);
  }
  bool append_bytes(const store::ObjectReader& object);
  size_t size() const { return out_->size(); }
  void rewind(size_t size) { out_->rewind(size); }
  void count_for_bucket(size_t bucket, uint64_t bytes) {
    ++traffic_[bucket].requests;
    traffic_[bucket].bytes += bytes;
  }
  void answered_together(const Answered& all) {
    taken_ += all.items;
    account(all, true);
  }

  // Progress: the leading items that have arrived, up to the first that failed, and the bytes of all.
  uint64_t arrived() const { return arrived_; }
  uint64_t bytes_moved() const { return inline_bytes_ + window_bytes_; }

  // Writes the head, and counts what was answered. `more`: of a listing. `lease`: of leased entries.
  void finish(bool more, uint64_t lease);

 private:
  static constexpr size_t entry_space = 80;  // of an answer without bytes, approximately

  wire::BatchEntry entry_of(const store::ObjectInfo& info, uint64_t length, bool partial, bool in_reply) const {
    const bool has_checksum = (head_->details & wire::detail_checksum) != 0 && !partial;
    return {.partial = partial,
            .length = length,
            .object_size = info.size,
            .modified_us = info.modified_us,
            .etag = info.etag,
            .version = info.version_id,
            .checksum = has_checksum ? full_checksum(info, op_->version()) : std::nullopt,
            .in_reply = in_reply};
  }
  bool write(ReadSlot& slot);
  bool write_entry(const ReadSlot& slot, const wire::BatchEntry& entry);
  void account(const ReadSlot& slot);
  void account(const Answered& answered, bool ok);
  // Rates, logs and counters of an item.
  void record(const ReadSlot& slot, uint64_t bytes);
  void account_for_unanswered();
  void account_for_buckets();

  Op* op_ = nullptr;
  const wire::BatchHead* head_ = nullptr;
  bool wants_bytes_ = true;
  Form form_ = Form::entries;
  std::optional<wire::Writer> out_;
  std::optional<wire::ValueWriter> values_;  // of a listing
  std::array<ReadSlot, slots_max> slots_;
  bool full_ = false;  // the reply has no room: the items left are not answered
  size_t taken_ = 0, answered_ = 0;
  uint64_t held_bytes_ = 0;  // in slots, for the reply
  uint64_t arrived_ = 0;
  bool failed_ = false;
  uint64_t inline_bytes_ = 0, window_bytes_ = 0;
  // Answers of each bucket, accounted for together at the end: those that are in no log.
  struct Traffic {
    uint64_t requests = 0, bytes = 0;
  };
  std::array<Traffic, wire::batch_buckets_max> traffic_;
};

}  // namespace verbena::native
