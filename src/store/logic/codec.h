// The encoding of records: versioned binary, decoded as untrusted input.
//
// Each record starts with its format version. Integers are LEB128 varints, strings carry their length, lists their
// count; a count is checked against the remaining bytes before anything is allocated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace verbena::store {

// The first byte of every record. 2 added versions, tags and locks to objects, uploads and buckets; 3 added attributes
// to objects, uploads and parts. Records of earlier formats are still read.
inline constexpr uint8_t format_version = 1, format_version_2 = 2, format_version_3 = 3;
inline constexpr size_t string_size_max = 16 * MiB;

class Encoder {
 public:
  // `size`: of the row, roughly, if it is longer than a few bytes.
  explicit Encoder(uint8_t format = format_version, size_t size = 0) {
    out_.reserve(size);
    u8(format);
  }
  void u8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void u32(uint32_t v) {
    for (int shift = 0; shift < 32; shift += 8) u8(static_cast<uint8_t>(v >> shift));
  }
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) u8(static_cast<uint8_t>(v | 0x80));
    u8(static_cast<uint8_t>(v));
  }
  void text(std::string_view s) {
    varint(s.size());
    out_.append(s);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Failure is sticky: after it every read gives a zero, and finish() says malformed.
class Decoder {
 public:
  explicit Decoder(std::string_view in, uint8_t format_max = format_version) : in_(in) {
    format_ = u8();
    if (format_ < format_version || format_ > format_max) bad_ = true;
  }
  uint8_t format() const { return format_; }
  template <class E>
  E enumerator(E last) {
    uint8_t v = u8();
    if (v > static_cast<uint8_t>(last)) bad_ = true;
    return bad_ ? E{} : static_cast<E>(v);
  }
  bool flag() {
    uint8_t v = u8();
    if (v > 1) bad_ = true;
    return v == 1;
  }
  uint8_t u8() {
    if (!need(1)) return 0;
    auto v = static_cast<uint8_t>(in_[0]);
    in_.remove_prefix(1);
    return v;
  }
  uint32_t u32() {
    uint32_t v = 0;
    for (int shift = 0; shift < 32; shift += 8) v |= static_cast<uint32_t>(u8()) << shift;
    return v;
  }
  uint64_t varint() {
    if (!bad_ && !in_.empty() && static_cast<uint8_t>(in_[0]) < 0x80) return u8();  // most are short
    if (bad_) return 0;
    uint64_t v = 0;
    const size_t size_max = std::min<size_t>(in_.size(), 10);
    for (size_t i = 0; i < size_max; ++i) {
      const auto b = static_cast<uint8_t>(in_[i]);
      if (i == 9 && b > 1) break;
      v |= static_cast<uint64_t>(b & 0x7f) << (7 * i);
      if ((b & 0x80) != 0) continue;
      in_.remove_prefix(i + 1);
      return v;
    }
    bad_ = true;
    return 0;
  }
  uint64_t varint_max(uint64_t max) {
    uint64_t v = varint();
    if (v > max) bad_ = true;
    return bad_ ? 0 : v;
  }
  std::string text() { return std::string(view()); }
  // Of the bytes that are decoded.
  std::string_view view() {
    const size_t size = varint_max(string_size_max);
    if (!need(size)) return {};
    const std::string_view text = in_.substr(0, size);
    in_.remove_prefix(size);
    return text;
  }
  // The number of elements that follow, each of at least `element_min` bytes: bounded by the remaining bytes.
  size_t count(size_t element_min) {
    uint64_t n = varint();
    if (bad_ || n > in_.size() / element_min) {
      bad_ = true;
      return 0;
    }
    return n;
  }
  bool ok() const { return !bad_; }
  void reject() { bad_ = true; }
  Result<void> finish() const {
    if (bad_ || !in_.empty()) return fail(Errc::malformed, "index record");
    return {};
  }

 private:
  bool need(size_t n) {
    if (bad_ || in_.size() < n) bad_ = true;
    return !bad_;
  }
  std::string_view in_;
  uint8_t format_ = 0;
  bool bad_ = false;
};

template <class T>
Result<T> finished(const Decoder& d, T value) {
  VB_TRY(d.finish());
  return value;
}

}  // namespace verbena::store
