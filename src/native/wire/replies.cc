#include "native/wire/bodies.h"

namespace verbena::native::wire {
namespace {

enum ReplyFlags : uint8_t { reply_partial = 1 };

}  // namespace

bool encode_error(Writer& out, Errc code) {
  out.u16(static_cast<uint16_t>(code));
  return out.ok();
}

std::optional<Errc> decode_error(Bytes body) {
  Reader in(body);
  const auto code = static_cast<Errc>(in.u16());
  if (!in.ok() || !is_sent(code)) return std::nullopt;
  return code;
}

// docs/native-protocol.md, section 4.
bool is_sent(Errc code) { return code < Errc::would_block || code == Errc::too_large; }

bool encode(Writer& out, const ObjectReply& reply) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u8(reply.partial ? reply_partial : 0);
  out.u8(static_cast<uint8_t>(reply.checksums.count));
  out.u32(reply.inline_size);
  out.u64(reply.length);
  out.u64(reply.object_size);
  out.i64(reply.modified_us);
  out.u32(reply.parts);
  out.u16(reply.ranges.count);
  out.u16(reply.headers.count);
  put_text8(out, reply.etag);
  put_text8(out, reply.version);
  for (const ChecksumView& sum : reply.checksums) {
    out.u8(static_cast<uint8_t>(sum.algorithm));
    out.u16(sum.parts);
    put_text8(out, sum.value);
  }
  for (const Placed& range : reply.ranges) {
    out.u64(range.offset);
    out.u64(range.length);
  }
  for (const HeaderPair& header : reply.headers) {
    put_text16(out, header.name);
    put_text16(out, header.value);
  }
  return out.ok();
}

std::optional<ObjectReply> decode_object_reply(Bytes body) {
  Reader in(body);
  ObjectReply reply;  // not constructed in an optional, which would clear its space for headers
  if (in.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  const uint8_t flags = in.u8();
  if ((flags & ~reply_partial) != 0) return std::nullopt;
  reply.partial = (flags & reply_partial) != 0;
  const size_t sums = in.u8();
  reply.inline_size = in.u32();
  reply.length = in.u64();
  reply.object_size = in.u64();
  reply.modified_us = in.i64();
  reply.parts = in.u32();
  const size_t ranges = in.u16(), headers = in.u16();
  if (sums > checksums_max || ranges > ranges_max || headers > headers_max) return std::nullopt;
  reply.etag = in.text(in.u8());
  reply.version = in.text(in.u8());
  for (size_t i = 0; i < sums && in.ok(); ++i) {
    const uint8_t algorithm = in.u8();
    const uint16_t parts = in.u16();
    const std::string_view value = in.text(in.u8());
    if (!is_algorithm(algorithm) || value.size() != digest_size(static_cast<Algorithm>(algorithm))) return std::nullopt;
    reply.checksums.add({static_cast<Algorithm>(algorithm), parts, value});
  }
  for (size_t i = 0; i < ranges && in.ok(); ++i) {
    const uint64_t offset = in.u64(), length = in.u64();
    reply.ranges.add({offset, length});
  }
  for (size_t i = 0; i < headers && in.ok(); ++i) {
    const std::string_view name = in.text(in.u16());
    reply.headers.add({name, in.text(in.u16())});
  }
  if (!in.ok() || in.left() != reply.inline_size) return std::nullopt;
  reply.inline_bytes = in.bytes(in.left());
  return reply;
}

}  // namespace verbena::native::wire
