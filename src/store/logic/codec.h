// The encoding of records: versioned binary, decoded as untrusted input.
//
// Each record starts with its format version. Integers are LEB128 varints, strings carry their length, lists their
// count; a count is checked against the remaining bytes before anything is allocated.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
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
  explicit Decoder(std::string_view in, uint8_t format_max = format_version) : at_(in.data()), end_(at_ + in.size()) {
    format_ = u8();
    if (format_ < format_version || format_ > format_max) reject();
  }
  uint8_t format() const { return format_; }
  template <class E>
  E enumerator(E last) {
    uint8_t v = u8();
    if (v > static_cast<uint8_t>(last)) reject();
    return bad_ ? E{} : static_cast<E>(v);
  }
  bool flag() {
    uint8_t v = u8();
    if (v > 1) reject();
    return v == 1;
  }
  uint8_t u8() {
    if (!need(1)) return 0;
    return static_cast<uint8_t>(*at_++);
  }
  uint32_t u32() {
    uint32_t v = 0;
    for (int shift = 0; shift < 32; shift += 8) v |= static_cast<uint32_t>(u8()) << shift;
    return v;
  }
  [[gnu::always_inline]] uint64_t varint() {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);  // most are short
    return long_varint();
  }
  uint64_t varint_max(uint64_t max) {
    uint64_t v = varint();
    if (v <= max) return v;
    reject();
    return 0;
  }
  std::string text() { return std::string(view()); }
  // Of the bytes that are decoded.
  [[gnu::always_inline]] std::string_view view() {
    const size_t size = varint_max(string_size_max);
    if (!need(size)) return {};
    const std::string_view text(at_, size);
    at_ += size;
    return text;
  }
  // The number of elements that follow, each of at least `element_min` bytes: bounded by the remaining bytes.
  size_t count(size_t element_min) {
    const uint64_t n = varint();
    if (n == 0 || n <= left() / element_min) return n;
    reject();
    return 0;
  }
  // Where the next read begins. Of the bytes that are decoded.
  const char* at() const { return at_; }
  bool ok() const { return !bad_; }
  void reject() {
    bad_ = true;
    at_ = end_;
  }
  Result<void> finish() const {
    if (bad_ || at_ != end_) return fail(Errc::malformed, "index record");
    return {};
  }

 private:
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  [[gnu::always_inline]] bool need(size_t n) {
    if (left() >= n) return true;
    reject();
    return false;
  }

  // Of several bytes. Those of up to eight are read at once: seven bits of each, moved together in three steps.
  [[gnu::noinline]] uint64_t long_varint() {
    if (left() >= sizeof(uint64_t)) {
      uint64_t bytes;
      std::memcpy(&bytes, at_, sizeof bytes);
      if constexpr (std::endian::native == std::endian::big) bytes = std::byteswap(bytes);
      if (const uint64_t ends = ~bytes & 0x8080'8080'8080'8080; ends != 0) {
        at_ += std::countr_zero(ends) / 8 + 1;
        bytes &= (ends ^ (ends - 1)) & 0x7f7f'7f7f'7f7f'7f7f;
        bytes = (bytes & 0x007f'007f'007f'007f) | (bytes & 0x7f00'7f00'7f00'7f00) >> 1;
        bytes = (bytes & 0x0000'3fff'0000'3fff) | (bytes & 0x3fff'0000'3fff'0000) >> 2;
        return (bytes & 0x0000'0000'0fff'ffff) | (bytes & 0x0fff'ffff'0000'0000) >> 4;
      }
    }
    uint64_t v = 0;
    for (size_t i = 0; i < std::min<size_t>(left(), 10); ++i) {
      const auto b = static_cast<uint8_t>(at_[i]);
      if (i == 9 && b > 1) break;
      v |= static_cast<uint64_t>(b & 0x7f) << (7 * i);
      if ((b & 0x80) != 0) continue;
      at_ += i + 1;
      return v;
    }
    reject();
    return 0;
  }

  const char* at_;
  const char* const end_;
  uint8_t format_ = 0;
  bool bad_ = false;
};

template <class T>
Result<T> finished(const Decoder& d, T value) {
  VB_TRY(d.finish());
  return value;
}

}  // namespace verbena::store
