// Reads and writes little-endian fields with bounds, in place. A cursor that ran out of bytes stays failed: callers
// check once at the end instead of after each field.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"

namespace verbena::cursor {

// Converts between the machine's byte order and little-endian.
template <class T>
T little_endian(T value) {
  return std::endian::native == std::endian::little ? value : std::byteswap(value);
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return static_cast<int64_t>(u64()); }

  // Empty once failed. Points into the message.
  Bytes bytes(size_t size) {
    if (size > bytes_.size() - at_) {
      failed_ = true;
      at_ = bytes_.size();
      return {};
    }
    Bytes taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }
  std::string_view text(size_t size) { return as_text(bytes(size)); }

  size_t left() const { return bytes_.size() - at_; }
  void fail() { failed_ = true; }
  bool ok() const { return !failed_; }
  // True if every byte was read and none was missing: trailing bytes are as malformed as missing ones.
  bool complete() const { return !failed_ && left() == 0; }

 private:
  template <class T>
  T number() {
    const Bytes raw = bytes(sizeof(T));
    if (raw.size() != sizeof(T)) return 0;
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));  // of a fixed size: one load
    return little_endian(value);
  }

  Bytes bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

class Writer {
 public:
  explicit Writer(MutableBytes bytes) : bytes_(bytes) {}

  void u8(uint8_t v) { number(v); }
  void u16(uint16_t v) { number(v); }
  void u32(uint32_t v) { number(v); }
  void u64(uint64_t v) { number(v); }
  void i64(int64_t v) { number(static_cast<uint64_t>(v)); }
  void bytes(Bytes b) {
    MutableBytes place = reserve(b.size());
    if (!place.empty()) std::memcpy(place.data(), b.data(), b.size());
  }
  void text(std::string_view t) { bytes(as_bytes(t)); }
  // Space to be filled by the caller; empty once failed.
  MutableBytes reserve(size_t size) {
    if (size > bytes_.size() - at_) {
      failed_ = true;
      return {};
    }
    MutableBytes place = bytes_.subspan(at_, size);
    at_ += size;
    return place;
  }

  size_t size() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  bool ok() const { return !failed_; }
  void fail() { failed_ = true; }
  // Returns to an earlier size(), also from failure.
  void rewind(size_t size) {
    at_ = size;
    failed_ = false;
  }

 private:
  template <class T>
  void number(T v) {
    const MutableBytes place = reserve(sizeof(T));
    if (place.size() != sizeof(T)) return;
    v = little_endian(v);
    std::memcpy(place.data(), &v, sizeof(T));
  }

  MutableBytes bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace verbena::cursor
