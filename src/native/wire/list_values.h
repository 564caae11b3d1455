// LIST_VALUES: a listing with the objects' bytes. Version 2 of the protocol.
//
// Values are concatenated in the client's window, in listing order. Layout: docs/native-protocol.md.
#pragma once

#include <string_view>

#include "native/wire/batch.h"

namespace verbena::native::wire {

struct ListValues {
  Descriptor window;
  uint64_t value_size_max = 0;  // longer ones are listed without their value
  uint32_t max_keys = list_keys_max;
  uint8_t details = 0;  // BatchDetails
  std::string_view bucket, prefix, after;
};
bool encode(Writer& out, const ListValues& request);
std::optional<ListValues> decode_list_values(Bytes body);

// The answer: a head, then `count` entries in byte order of their keys, each with only the difference to the previous
// key.
inline constexpr size_t list_values_head_size = 6;
void encode_list_values_head(Writer& out, bool more, uint8_t details, uint16_t count);

struct ValueEntry {
  std::string_view key;  // of a decoded entry: valid until the next is read
  BatchEntry entry;
  uint64_t offset = 0;  // of its value in the window; absent for those without value
};

class ValueWriter {
 public:
  ValueWriter(Writer& out, uint8_t details) : out_(out), details_(details) {}
  // False: it does not fit, and was not added.
  bool add(const ValueEntry& value);

 private:
  Writer& out_;
  const uint8_t details_;
  size_t key_size_ = 0;
  char key_[key_size_max];
};

class ValueReader {
 public:
  // nullopt: malformed.
  static std::optional<ValueReader> open(Bytes body);

  bool more() const { return more_; }
  uint8_t details() const { return details_; }
  uint16_t left() const { return left_; }
  // False: malformed, or the end.
  bool next(ValueEntry& value);
  bool complete() const { return left_ == 0 && in_.complete(); }

 private:
  explicit ValueReader(Bytes body) : in_(body) {}

  Reader in_;
  bool more_ = false;
  uint8_t details_ = 0;
  uint16_t left_ = 0;
  size_t key_size_ = 0;
  char key_[key_size_max];
};

}  // namespace verbena::native::wire
