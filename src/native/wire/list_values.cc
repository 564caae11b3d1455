#include "native/wire/list_values.h"

#include <cstring>

#include "native/wire/descriptor.h"

namespace verbena::native::wire {

bool encode(Writer& out, const ListValues& request) {
  put_descriptor(out, request.window);
  out.u64(request.value_size_max);
  out.u32(request.max_keys);
  out.u8(request.details);
  put_text16(out, request.bucket);
  put_text16(out, request.prefix);
  put_text16(out, request.after);
  return out.ok();
}

std::optional<ListValues> decode_list_values(Bytes body) {
  Reader in(body);
  ListValues request;
  request.window = get_descriptor(in);
  request.value_size_max = in.u64();
  request.max_keys = in.u32();
  request.details = in.u8();
  request.bucket = get_text16(in, bucket_size_max);
  request.prefix = get_text16(in, key_size_max);
  request.after = get_text16(in, key_size_max);
  if (!in.complete() || (request.details & ~details_all) != 0) return std::nullopt;
  return request;
}

void encode_list_values_head(Writer& out, bool more, uint8_t details, uint16_t count) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u8(more ? 1 : 0);
  out.u8(details);
  out.u16(count);
}

bool ValueWriter::add(const ValueEntry& value) {
  if (value.key.size() > key_size_max) return false;
  const size_t before = out_.size();
  const size_t shared = common_start({key_, key_size_}, value.key);
  out_.u16(static_cast<uint16_t>(shared));
  put_text16(out_, value.key.substr(shared));
  encode(out_, value.entry, details_);
  if (value.entry.code == Errc::ok && !value.entry.listed_alone) out_.u64(value.offset);
  if (!out_.ok()) {
    out_.rewind(before);
    return false;
  }
  std::memcpy(key_ + shared, value.key.data() + shared, value.key.size() - shared);
  key_size_ = value.key.size();
  return true;
}

std::optional<ValueReader> ValueReader::open(Bytes body) {
  ValueReader reader(body);
  Reader& in = reader.in_;
  const uint16_t code = in.u16();
  const uint8_t more = in.u8();
  reader.details_ = in.u8();
  reader.left_ = in.u16();
  if (!in.ok() || code != static_cast<uint16_t>(Errc::ok) || more > 1 || (reader.details_ & ~details_all) != 0 ||
      reader.left_ > list_keys_max) {
    return std::nullopt;
  }
  reader.more_ = more == 1;
  return reader;
}

bool ValueReader::next(ValueEntry& value) {
  if (left_ == 0) return false;
  const size_t shared = in_.u16();
  const std::string_view rest = get_text16(in_, key_size_max);
  if (!in_.ok() || shared > key_size_ || shared + rest.size() > key_size_max || shared + rest.size() == 0) return false;
  if (!rest.empty()) std::memcpy(key_ + shared, rest.data(), rest.size());
  key_size_ = shared + rest.size();
  value.key = {key_, key_size_};
  if (!read_entry(in_, details_, true, value.entry)) return false;
  value.offset = value.entry.code == Errc::ok && !value.entry.listed_alone ? in_.u64() : 0;
  if (!in_.ok()) return false;
  --left_;
  return true;
}

}  // namespace verbena::native::wire
