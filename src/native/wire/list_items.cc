#include "native/wire/list_items.h"

#include <cstring>

#include "base/hex.h"

namespace verbena::native::wire {
namespace {

// The first byte of a short item. Widths are the logarithm of 1, 2, 4 or 8 bytes.
enum Kind : uint8_t {
  kind_prefix = 1,    // a common prefix: nothing follows its key
  kind_long_key = 2,  // the key's two sizes have two bytes each, not one
  kind_etag_raw = 4,  // 16 bytes, told by their 32 lower-case digits
  kind_etag_r = 8,    // likewise, with "-r" behind them
  size_width_at = 4,  // a place, not a bit
  time_width_at = 6,
};
constexpr size_t etag_bytes = 16, digits = 2 * etag_bytes;
constexpr std::string_view random_end = "-r";  // of an ETag that is no digest

constexpr uint8_t width_of(uint64_t value) {
  return value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffff'ffff ? 2 : 3;
}

// The least significant bytes. Where the next field begins.
std::byte* put_number(std::byte* to, uint64_t value, uint8_t width) {
  value = little_endian(value);
  switch (width) {
    case 0:
      std::memcpy(to, &value, 1);
      break;
    case 1:
      std::memcpy(to, &value, 2);
      break;
    case 2:
      std::memcpy(to, &value, 4);
      break;
    default:
      std::memcpy(to, &value, 8);
  }
  return to + (size_t{1} << width);
}

uint64_t get_number(Reader& in, uint8_t width) {
  switch (width) {
    case 0:
      return in.u8();
    case 1:
      return in.u16();
    case 2:
      return in.u32();
    default:
      return in.u64();
  }
}

// Small numbers for small differences of either sign.
constexpr uint64_t folded(uint64_t difference) { return difference << 1 ^ -(difference >> 63); }
constexpr uint64_t unfolded(uint64_t number) { return number >> 1 ^ -(number & 1); }

}  // namespace

ListWriter::ListWriter(MutableBytes body, unsigned version)
    : body_(body), out_(body), short_(version >= version_of_short_listings) {
  restart();
}

void ListWriter::restart() {
  out_.rewind(0);
  out_.reserve(list_reply_head_size);
  count_ = 0;
  key_size_ = 0;
  modified_us_ = 0;
}

size_t ListWriter::finish(bool truncated) {
  Writer head(body_.first(list_reply_head_size));
  head.u16(static_cast<uint16_t>(Errc::ok));
  head.u16(truncated ? 1 : 0);
  head.u32(count_);
  return out_.size();
}

bool ListWriter::add(const ListItem& item) {
  const size_t before = out_.size();
  if (short_) {
    if (!add_short(item)) out_.fail();
  } else {
    out_.u8(item.common_prefix ? 1 : 0);
    out_.u64(item.size);
    out_.i64(item.modified_us);
    put_text16(out_, item.key);
    put_text8(out_, item.etag);
  }
  if (!out_.ok()) {
    out_.rewind(before);
    return false;
  }
  ++count_;
  return true;
}

bool ListWriter::add_short(const ListItem& item) {
  if (item.key.size() > key_size_max || item.etag.size() > 0xff) return false;
  const size_t shared = common_start({key_.data(), key_size_}, item.key), rest = item.key.size() - shared;
  const bool is_long = std::max(shared, rest) > 0xff;
  const uint8_t key_width = is_long ? 1 : 0;
  const uint64_t later = folded(static_cast<uint64_t>(item.modified_us) - static_cast<uint64_t>(modified_us_));
  const uint8_t size_width = width_of(item.size), time_width = width_of(later);
  std::array<std::byte, etag_bytes> raw;
  const bool random = item.etag.size() == digits + random_end.size() && item.etag.ends_with(random_end);
  const bool is_raw =
      (random || item.etag.size() == digits) && read_lower_hex(item.etag.substr(0, digits), MutableBytes(raw));

  size_t size = 1 + (size_t{2} << key_width) + rest;
  if (!item.common_prefix) {
    size += (size_t{1} << size_width) + (size_t{1} << time_width) + (is_raw ? etag_bytes : 1 + item.etag.size());
  }
  const MutableBytes place = out_.reserve(size);
  if (place.empty()) return false;
  uint8_t kind = is_long ? kind_long_key : 0;
  if (item.common_prefix) {
    kind |= kind_prefix;
  } else {
    kind |= static_cast<uint8_t>(size_width << size_width_at | time_width << time_width_at);
    if (is_raw) kind |= random ? kind_etag_r : kind_etag_raw;
  }
  std::byte* to = place.data();
  *to++ = std::byte{kind};
  to = put_number(to, shared, key_width);
  to = put_number(to, rest, key_width);
  if (rest != 0) std::memcpy(to, item.key.data() + shared, rest);
  if (!item.common_prefix) {
    to = put_number(to + rest, item.size, size_width);
    to = put_number(to, later, time_width);
    if (is_raw) {
      std::memcpy(to, raw.data(), raw.size());
    } else {
      *to++ = static_cast<std::byte>(item.etag.size());
      if (!item.etag.empty()) std::memcpy(to, item.etag.data(), item.etag.size());
    }
    modified_us_ = item.modified_us;
  }
  if (rest != 0) std::memcpy(key_.data() + shared, item.key.data() + shared, rest);
  key_size_ = item.key.size();
  return true;
}

ListReader::ListReader(Bytes body, unsigned version) : in_(body), short_(version >= version_of_short_listings) {}

std::optional<ListReader> ListReader::open(Bytes body, unsigned version) {
  ListReader reader(body, version);
  Reader& in = reader.in_;
  const uint16_t code = in.u16(), truncated = in.u16();
  reader.left_ = in.u32();
  reader.truncated_ = truncated == 1;
  if (!in.ok() || code != static_cast<uint16_t>(Errc::ok) || truncated > 1 || reader.left_ > list_keys_max) {
    return std::nullopt;
  }
  return reader;
}

bool ListReader::next(ListItem& item) {
  if (left_ == 0 || !(short_ ? next_short(item) : next_whole(item))) return false;
  --left_;
  return true;
}

bool ListReader::next_whole(ListItem& item) {
  const uint8_t kind = in_.u8();
  item.common_prefix = kind == 1;
  item.size = in_.u64();
  item.modified_us = in_.i64();
  item.key = get_text16(in_, key_size_max);
  item.etag = get_text8(in_);
  return in_.ok() && kind <= 1;
}

bool ListReader::next_short(ListItem& item) {
  const uint8_t kind = in_.u8();
  const bool is_long = (kind & kind_long_key) != 0;
  const size_t shared = is_long ? in_.u16() : in_.u8();
  const std::string_view rest = in_.text(is_long ? in_.u16() : in_.u8());
  if (!in_.ok() || shared > key_size_ || shared + rest.size() > key_size_max) return false;
  if (!rest.empty()) std::memcpy(key_.data() + shared, rest.data(), rest.size());
  key_size_ = shared + rest.size();
  item.key = {key_.data(), key_size_};
  item.common_prefix = (kind & kind_prefix) != 0;
  if (item.common_prefix) {
    item.size = 0;
    item.modified_us = 0;
    item.etag = {};
    return (kind & ~(kind_prefix | kind_long_key)) == 0;
  }
  item.size = get_number(in_, kind >> size_width_at & 3);
  modified_us_ =
      static_cast<int64_t>(static_cast<uint64_t>(modified_us_) + unfolded(get_number(in_, kind >> time_width_at & 3)));
  item.modified_us = modified_us_;
  item.etag = short_etag(kind);
  return in_.ok();
}

std::string_view ListReader::short_etag(uint8_t kind) {
  const uint8_t form = kind & (kind_etag_raw | kind_etag_r);
  if (form == 0) return get_text8(in_);
  if (form == (kind_etag_raw | kind_etag_r)) in_.fail();
  const Bytes raw = in_.bytes(etag_bytes);
  if (!in_.ok()) return {};
  write_hex(raw, etag_.data());
  if (form == kind_etag_raw) return {etag_.data(), digits};
  random_end.copy(etag_.data() + digits, random_end.size());
  return {etag_.data(), digits + random_end.size()};
}

}  // namespace verbena::native::wire
