#include <algorithm>
#include <cstring>

#include "native/wire/batch.h"

namespace verbena::native::wire {
namespace {

bool has_windows(Type type) { return type == Type::get_many || type == Type::put_many; }

}  // namespace

bool is_batch(Type type) { return type >= Type::get_many && type <= Type::delete_many; }

uint8_t batch_fields(Type type) {
  switch (type) {
    case Type::get_many:
      return field_place | field_place_next | field_range | field_version | field_if_match | field_if_none_match;
    case Type::head_many:
      return field_range | field_version | field_if_match | field_if_none_match;
    case Type::put_many:
      return field_place | field_place_next | field_if_match | field_if_none_match | field_stored | field_inline;
    case Type::delete_many:
      return field_version | field_if_match;
    default:
      return 0;
  }
}

bool BatchWriter::begin(const BatchHead& head) {
  out_.u8(head.details);
  count_at_ = out_.size();
  out_.u16(0);
  out_.u32(head.inline_max);
  out_.u8(head.progress_window);
  out_.u64(head.progress_offset);
  out_.u8(static_cast<uint8_t>(head.windows.count));
  for (const Descriptor& window : head.windows) {
    out_.u64(window.base);
    out_.u64(window.size);
    out_.u64(window.key);
  }
  out_.u8(static_cast<uint8_t>(head.buckets.count));
  for (const std::string_view bucket : head.buckets) put_text8(out_, bucket);
  return out_.ok();
}

bool BatchWriter::add(const BatchItem& item) {
  if (count_ == batch_items_max || item.key.size() > key_size_max) return false;
  const size_t before = out_.size();
  uint8_t fields = item.fields & static_cast<uint8_t>(~(field_place_next));
  const bool follows = (fields & field_place) != 0 && item.place.window == place_.window &&
                       item.place.size == place_.size && item.place.offset == place_.offset + place_.size;
  if (follows) fields ^= field_place | field_place_next;
  const size_t shared = common_start({key_, key_size_}, item.key);
  out_.u8(fields);
  out_.u8(item.bucket);
  out_.u16(static_cast<uint16_t>(shared));
  put_text16(out_, item.key.substr(shared));
  if ((fields & field_place) != 0) {
    out_.u8(item.place.window);
    out_.u64(item.place.offset);
    out_.u64(item.place.size);
  }
  if ((fields & field_range) != 0) {
    out_.u64(item.range.first);
    out_.u64(item.range.last);
  }
  if ((fields & field_version) != 0) put_text8(out_, item.version);
  if ((fields & field_if_match) != 0) put_text8(out_, item.if_match);
  if ((fields & field_if_none_match) != 0) put_text8(out_, item.if_none_match);
  if ((fields & field_stored) != 0) {
    out_.u8(item.expected ? static_cast<uint8_t>(item.expected->algorithm) : 0);
    put_text8(out_, item.expected ? item.expected->value : std::string_view());
    out_.u16(item.headers.count);
    for (const HeaderPair& header : item.headers) {
      put_text16(out_, header.name);
      put_text16(out_, header.value);
    }
  }
  if ((fields & field_inline) != 0) {
    out_.u32(static_cast<uint32_t>(item.inline_bytes.size()));
    out_.bytes(item.inline_bytes);
  }
  if (!out_.ok()) {
    out_.rewind(before);
    return false;
  }
  std::memcpy(key_ + shared, item.key.data() + shared, item.key.size() - shared);
  key_size_ = item.key.size();
  if ((item.fields & field_place) != 0) place_ = item.place;
  ++count_;
  return true;
}

void BatchWriter::finish() {
  const size_t end = out_.size();
  out_.rewind(count_at_);
  out_.u16(count_);
  out_.rewind(end);
}

std::optional<BatchReader> BatchReader::open(Bytes body, Type type) {
  std::optional<BatchReader> reader(BatchReader(body, type));
  if (!reader->read_head()) return std::nullopt;
  return reader;
}

bool BatchReader::read_head() {
  head_.details = in_.u8();
  head_.count = in_.u16();
  head_.inline_max = in_.u32();
  head_.progress_window = in_.u8();
  head_.progress_offset = in_.u64();
  const size_t windows = in_.u8();
  if (windows > (has_windows(type_) ? batch_windows_max : 0)) return false;
  for (size_t i = 0; i < windows && in_.ok(); ++i) {
    Descriptor window;
    window.base = in_.u64();
    window.size = in_.u64();
    window.key = in_.u64();
    head_.windows.add(window);
  }
  const size_t buckets = in_.u8();
  if (buckets == 0 || buckets > batch_buckets_max) return false;
  for (size_t i = 0; i < buckets && in_.ok(); ++i) head_.buckets.add(get_text8(in_));
  if (!in_.ok() || head_.count == 0 || head_.count > batch_items_max) return false;
  if ((head_.details & ~details_all) != 0) return false;
  if (type_ != Type::get_many && (head_.inline_max != 0 || head_.progress_window != no_window)) return false;
  if (head_.progress_window == no_window ? head_.progress_offset != 0 : head_.progress_window >= windows) return false;
  left_ = head_.count;
  return true;
}

bool BatchReader::next(BatchItem& item) {
  if (left_ == 0) return false;
  // Fields, bucket and the key's differences. One bounds check for all of it: there are thousands.
  const Bytes raw = in_.bytes(6);
  if (raw.size() != 6) return false;
  const auto number = [&](size_t at) {
    uint16_t value;
    std::memcpy(&value, raw.data() + at, sizeof value);
    return little_endian(value);
  };
  const uint8_t before = std::exchange(item.fields, static_cast<uint8_t>(raw[0]));
  item.bucket = static_cast<uint8_t>(raw[1]);
  if ((item.fields & ~allowed_) != 0 || item.bucket >= head_.buckets.count) in_.fail();
  read_key(item, number(2), in_.text(number(4)));
  read_place(item);
  constexpr uint8_t places = field_place | field_place_next;
  // Most items have no other fields, nor did the previous contents of `item`.
  if (((item.fields | before) & ~places) == 0) {
    if (!in_.ok()) return false;
    --left_;
    return true;
  }
  if (item.has(field_range)) {
    item.range.first = in_.u64();
    item.range.last = in_.u64();
    if (item.range.first != open_end && item.range.last < item.range.first) in_.fail();
  }
  item.version = item.has(field_version) ? get_text8(in_) : std::string_view();
  item.if_match = item.has(field_if_match) ? get_text8(in_) : std::string_view();
  item.if_none_match = item.has(field_if_none_match) ? get_text8(in_) : std::string_view();
  item.expected.reset();
  item.headers.count = 0;
  if (item.has(field_stored)) read_stored(item);
  item.inline_bytes = item.has(field_inline) ? in_.bytes(in_.u32()) : Bytes();
  if (!in_.ok()) return false;
  --left_;
  return true;
}

// `shared` bytes of the previous key, and then `rest`.
void BatchReader::read_key(BatchItem& item, size_t shared, std::string_view rest) {
  if (shared > key_size_ || shared + rest.size() > key_size_max || shared + rest.size() == 0) return in_.fail();
  if (!rest.empty()) std::memcpy(key_ + shared, rest.data(), rest.size());
  key_size_ = shared + rest.size();
  item.key = {key_, key_size_};
}

// A place must lie in its window. Bytes of a PUT are in the message or in a window, not both.
void BatchReader::read_place(BatchItem& item) {
  const bool next = item.has(field_place_next);
  if (next && (item.has(field_place) || place_.window == no_window)) return in_.fail();
  if (next) {
    place_.offset += place_.size;  // inside a window: cannot overflow, or is refused below
  } else if (item.has(field_place)) {
    place_.window = in_.u8();
    place_.offset = in_.u64();
    place_.size = in_.u64();
  } else {
    item.place = {};
    if (type_ == Type::put_many && !item.has(field_inline)) in_.fail();
    return;
  }
  if (place_.window >= head_.windows.count || item.has(field_inline)) return in_.fail();
  const uint64_t size = head_.windows[place_.window].size;
  if (place_.offset > size || place_.size > size - place_.offset) return in_.fail();
  item.place = place_;
}

void BatchReader::read_stored(BatchItem& item) {
  const uint8_t algorithm = in_.u8();
  const std::string_view digest = get_text8(in_);
  if (algorithm != 0) {
    if (!is_algorithm(algorithm) || digest.size() != digest_size(static_cast<Algorithm>(algorithm))) return in_.fail();
    item.expected = {static_cast<Algorithm>(algorithm), 0, digest};
  } else if (!digest.empty()) {
    return in_.fail();
  }
  const size_t headers = in_.u16();
  if (headers > headers_max) return in_.fail();
  for (size_t i = 0; i < headers && in_.ok(); ++i) {
    const std::string_view name = get_text16(in_, 0xffff);
    item.headers.add({name, get_text16(in_, 0xffff)});
  }
}

}  // namespace verbena::native::wire
