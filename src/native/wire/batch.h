// HEAD_MANY, GET_MANY, PUT_MANY and DELETE_MANY: bodies with many objects. Version 2 of the protocol.
//
// A request is a head and then items; an item's key contains only the difference to the key before it. Both ends
// iterate with a cursor and store no items, so that a peer's item count does not determine memory use. Layout:
// docs/native-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "native/wire/bodies.h"
#include "native/wire/message.h"

namespace verbena::native::wire {

inline constexpr size_t batch_items_max = 4096;
inline constexpr size_t batch_windows_max = 8;
inline constexpr size_t batch_buckets_max = 16;
inline constexpr uint8_t no_window = 0xff;

// Optional fields in the answers of a batch.
enum BatchDetails : uint8_t {
  detail_etag = 1,
  detail_size = 2,  // and time
  detail_version = 4,
  detail_checksum = 8,  // of the whole object, if known
  details_all = 15,
};

// Optional fields of an item.
enum BatchFields : uint8_t {
  field_place = 1,       // range of its bytes in a window
  field_place_next = 2,  // likewise: after the place of the previous item, of the same size
  field_range = 4,       // GET, HEAD
  field_version = 8,     // not PUT
  field_if_match = 16,
  field_if_none_match = 32,  // not DELETE
  field_stored = 64,         // PUT: headers and checksum
  field_inline = 128,        // PUT: the bytes themselves
};

bool is_batch(Type type);
// The fields allowed for items of this type.
uint8_t batch_fields(Type type);

struct BatchPlace {
  uint8_t window = no_window;
  uint64_t offset = 0, size = 0;

  // True if the place exists and holds `bytes` bytes.
  bool holds(uint64_t bytes) const { return window != no_window && size >= bytes; }
};

struct BatchHead {
  uint8_t details = 0;
  uint16_t count = 0;                   // of items
  uint32_t inline_max = 0;              // GET: most bytes of one item inside the reply
  uint8_t progress_window = no_window;  // GET: where 8 bytes report the number of leading items that have arrived
  uint64_t progress_offset = 0;
  Few<Descriptor, batch_windows_max> windows;
  Few<std::string_view, batch_buckets_max> buckets;
};

struct BatchItem {
  uint8_t fields = 0;
  uint8_t bucket = 0;    // which of the head's
  std::string_view key;  // of a decoded item: valid until the cursor moves on
  BatchPlace place;
  Range range{0, open_end};
  std::string_view version, if_match, if_none_match;
  std::optional<ChecksumView> expected;
  Few<HeaderPair, headers_max> headers;
  Bytes inline_bytes;

  bool has(BatchFields field) const { return (fields & field) != 0; }
};

// Writes a batch: begin(), add() while it returns true, finish().
class BatchWriter {
 public:
  BatchWriter(Writer& out, Type type) : out_(out), type_(type) {}
  // head.count is ignored.
  bool begin(const BatchHead& head);
  // False: the item does not fit, and was not added. `item.fields` need not include field_place_next.
  bool add(const BatchItem& item);
  void finish();
  uint16_t count() const { return count_; }

 private:
  Writer& out_;
  Type type_;
  size_t count_at_ = 0;
  uint16_t count_ = 0;
  BatchPlace place_;
  size_t key_size_ = 0;
  char key_[key_size_max];
};

// Reads a batch, item by item.
class BatchReader {
 public:
  // nullopt: malformed. Items are not checked yet.
  static std::optional<BatchReader> open(Bytes body, Type type);

  const BatchHead& head() const { return head_; }
  // Reads the next item. False: malformed, or the end. `item` is a new one, or one filled by next() before.
  bool next(BatchItem& item);
  uint16_t left() const { return left_; }
  // True if all items were read, and nothing follows them.
  bool complete() const { return left_ == 0 && in_.complete(); }

 private:
  BatchReader(Bytes body, Type type) : in_(body), type_(type), allowed_(batch_fields(type)) {}
  bool read_head();
  void read_key(BatchItem& item, size_t shared, std::string_view rest);
  void read_place(BatchItem& item);
  void read_stored(BatchItem& item);

  Reader in_;
  Type type_;
  uint8_t allowed_;  // fields
  BatchHead head_;
  uint16_t left_ = 0;
  BatchPlace place_;
  size_t key_size_ = 0;
  char key_[key_size_max] = {};
};

// The answer: a head, then one entry for each of the leading items that it answers. Unanswered items were not executed:
// the caller requests them again.
struct BatchEntry {
  Errc code = Errc::ok;
  bool partial = false;
  uint64_t length = 0;  // delivered, stored, or what a GET would deliver
  uint64_t object_size = 0;
  int64_t modified_us = 0;
  std::string_view etag{}, version{};
  std::optional<ChecksumView> checksum{};
  bool in_reply = false;      // `length` bytes follow
  bool listed_alone = false;  // LIST_VALUES: without the bytes
  Bytes inline_bytes{};       // set by decoding
};
inline constexpr size_t batch_reply_head_size = 5;
// Without ETag, version, checksum and bytes.
inline constexpr size_t batch_entry_size = 11;
inline constexpr size_t batch_failure_size = 3;
void encode_batch_reply_head(Writer& out, uint8_t details, uint16_t answered);
// All but the inline bytes, which the caller appends.
bool encode(Writer& out, const BatchEntry& entry, uint8_t details);

struct BatchReply {
  uint8_t details = 0;
  uint16_t answered = 0;
  Reader entries{{}};
};
std::optional<BatchReply> decode_batch_reply(Bytes body);
// False: malformed.
bool next_entry(BatchReply& reply, BatchEntry& entry);
// The same for any list of entries. `listing`: LIST_VALUES, where bytes are not in the reply.
bool read_entry(Reader& in, uint8_t details, bool listing, BatchEntry& entry);

}  // namespace verbena::native::wire
