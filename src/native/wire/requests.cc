#include "native/wire/bodies.h"
#include "native/wire/descriptor.h"

namespace verbena::native::wire {
namespace {

template <class List>
void put_etags(Writer& out, const List& etags) {
  out.u8(static_cast<uint8_t>(etags.count));
  for (std::string_view etag : etags) put_text8(out, etag);
}
template <class List>
void get_etags(Reader& in, List& etags) {
  const size_t count = in.u8();
  if (count > etags_max) return in.fail();
  for (size_t i = 0; i < count && in.ok(); ++i) etags.add(get_text8(in));
}

}  // namespace

bool encode(Writer& out, const Hello& hello) {
  out.u32(hello.message_size_max);
  put_text16(out, hello.address);
  return out.ok();
}

std::optional<Hello> decode_hello(Bytes body) {
  Reader in(body);
  Hello hello;
  hello.message_size_max = in.u32();
  hello.address = get_text16(in, address_size_max);
  if (!in.complete()) return std::nullopt;
  return hello;
}

bool encode(Writer& out, const Get& get) {
  put_descriptor(out, get.window);
  out.u32(get.inline_max);
  out.u16(get.part_number);
  out.i64(get.if_modified_since_s);
  out.i64(get.if_unmodified_since_s);
  put_text16(out, get.bucket);
  put_text16(out, get.key);
  out.u16(get.ranges.count);
  for (const Range& range : get.ranges) {
    out.u64(range.first);
    out.u64(range.last);
  }
  put_etags(out, get.if_match);
  put_etags(out, get.if_none_match);
  return out.ok();
}

std::optional<Get> decode_get(Bytes body) {
  Reader in(body);
  Get get;  // not constructed in an optional, which would clear its space for ranges and tags
  get.window = get_descriptor(in);
  get.inline_max = in.u32();
  get.part_number = in.u16();
  get.if_modified_since_s = in.i64();
  get.if_unmodified_since_s = in.i64();
  get.bucket = get_text16(in, bucket_size_max);
  get.key = get_text16(in, key_size_max);
  const size_t ranges = in.u16();
  if (ranges > ranges_max) in.fail();
  for (size_t i = 0; i < ranges && in.ok(); ++i) {
    const uint64_t first = in.u64(), last = in.u64();
    get.ranges.add({first, last});
  }
  get_etags(in, get.if_match);
  get_etags(in, get.if_none_match);
  if (!in.complete()) return std::nullopt;
  return get;
}

bool encode(Writer& out, const Put& put) {
  put_descriptor(out, put.window);
  out.u64(put.size);
  out.u8(put.compute ? static_cast<uint8_t>(*put.compute) : 0);
  put_text8(out, put.content_md5);
  put_text16(out, put.bucket);
  put_text16(out, put.key);
  put_text8(out, put.if_match);
  put_text8(out, put.if_none_match);
  out.u8(static_cast<uint8_t>(put.expected.count));
  for (const ChecksumView& sum : put.expected) {
    out.u8(static_cast<uint8_t>(sum.algorithm));
    put_text8(out, sum.value);
  }
  out.u16(put.headers.count);
  for (const HeaderPair& header : put.headers) {
    put_text16(out, header.name);
    put_text16(out, header.value);
  }
  return out.ok();
}

namespace {

// Reads the rest of a PUT's body in place: `put` has space for all headers.
bool read_put(Reader& in, bool has_window, Put& put) {
  put.window = get_descriptor(in);
  put.size = in.u64();
  const uint8_t compute = in.u8();
  if (is_algorithm(compute)) put.compute = static_cast<Algorithm>(compute);
  if (compute != 0 && !is_algorithm(compute)) in.fail();
  put.content_md5 = get_text8(in);
  if (!put.content_md5.empty() && put.content_md5.size() != 16) in.fail();
  put.bucket = get_text16(in, bucket_size_max);
  put.key = get_text16(in, key_size_max);
  put.if_match = get_text8(in);
  put.if_none_match = get_text8(in);
  const size_t sums = in.u8();
  if (sums > checksums_max) in.fail();
  for (size_t i = 0; i < sums && in.ok(); ++i) {
    const uint8_t algorithm = in.u8();
    const std::string_view value = get_text8(in);
    if (!is_algorithm(algorithm) || value.size() != digest_size(static_cast<Algorithm>(algorithm))) return false;
    put.expected.add({static_cast<Algorithm>(algorithm), 0, value});
  }
  const size_t headers = in.u16();
  if (headers > headers_max) in.fail();
  for (size_t i = 0; i < headers && in.ok(); ++i) {
    const std::string_view name = get_text16(in, 0xffff);
    put.headers.add({name, get_text16(in, 0xffff)});
  }
  if (!in.ok() || in.left() != (has_window ? 0 : put.size)) return false;
  put.inline_bytes = in.bytes(in.left());
  return true;
}

}  // namespace

std::optional<Put> decode_put(Bytes body, bool has_window) {
  Reader in(body);
  Put put;  // as in decode_get()
  if (!read_put(in, has_window, put)) return std::nullopt;
  return put;
}

bool encode(Writer& out, const Append& append) {
  out.u64(append.offset);
  return encode(out, append.put);
}

std::optional<Append> decode_append(Bytes body, bool has_window) {
  Reader in(body);
  Append append;  // as in decode_get()
  append.offset = in.u64();
  if (!read_put(in, has_window, append.put)) return std::nullopt;
  return append;
}

bool encode(Writer& out, const Rename& rename) {
  put_text16(out, rename.bucket);
  put_text16(out, rename.from);
  put_text16(out, rename.to);
  for (const std::string_view text : {rename.source_if_match, rename.if_match, rename.if_none_match, rename.token}) {
    put_text8(out, text);
  }
  return out.ok();
}

std::optional<Rename> decode_rename(Bytes body) {
  Reader in(body);
  Rename rename;
  rename.bucket = get_text16(in, bucket_size_max);
  rename.from = get_text16(in, key_size_max);
  rename.to = get_text16(in, key_size_max);
  rename.source_if_match = get_text8(in);
  rename.if_match = get_text8(in);
  rename.if_none_match = get_text8(in);
  rename.token = get_text8(in);
  if (!in.complete()) return std::nullopt;
  return rename;
}

bool encode(Writer& out, const Delete& request) {
  put_text16(out, request.bucket);
  put_text16(out, request.key);
  put_text8(out, request.if_match);
  return out.ok();
}

std::optional<Delete> decode_delete(Bytes body) {
  Reader in(body);
  Delete request;
  request.bucket = get_text16(in, bucket_size_max);
  request.key = get_text16(in, key_size_max);
  request.if_match = get_text8(in);
  if (!in.complete()) return std::nullopt;
  return request;
}

bool encode(Writer& out, const List& request) {
  out.u32(request.max_keys);
  put_text16(out, request.bucket);
  put_text16(out, request.prefix);
  put_text16(out, request.delimiter);
  put_text16(out, request.after);
  return out.ok();
}

std::optional<List> decode_list(Bytes body) {
  Reader in(body);
  List request;
  request.max_keys = in.u32();
  request.bucket = get_text16(in, bucket_size_max);
  request.prefix = get_text16(in, key_size_max);
  request.delimiter = get_text16(in, key_size_max);
  request.after = get_text16(in, key_size_max);
  if (!in.complete()) return std::nullopt;
  return request;
}

}  // namespace verbena::native::wire
