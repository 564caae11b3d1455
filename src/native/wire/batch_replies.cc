#include <algorithm>
#include <cstring>

#include "native/wire/batch.h"
#include "native/wire/bodies.h"
#include "native/wire/cursor.h"

namespace verbena::native::wire {
namespace {

enum EntryFlags : uint8_t { entry_partial = 1, entry_inline = 2, entry_listed_alone = 4 };

}  // namespace

void encode_batch_reply_head(Writer& out, uint8_t details, uint16_t answered) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u8(details);
  out.u16(answered);
}

bool encode(Writer& out, const BatchEntry& entry, uint8_t details) {
  const auto tells = [&](BatchDetails detail) { return entry.code == Errc::ok && (details & detail) != 0; };
  const std::string_view etag = tells(detail_etag) ? entry.etag : std::string_view();
  const std::string_view version = tells(detail_version) ? entry.version : std::string_view();
  const bool has_checksum = tells(detail_checksum) && entry.checksum.has_value();
  const std::string_view checksum = has_checksum ? entry.checksum->value : std::string_view();
  constexpr size_t text_max = 0xff;
  if (std::max({etag.size(), version.size(), checksum.size()}) > text_max) {
    out.fail();
    return false;
  }
  size_t size = batch_failure_size;
  if (entry.code == Errc::ok) size += sizeof(uint64_t);
  if (tells(detail_size)) size += 2 * sizeof(uint64_t);
  if (tells(detail_etag)) size += 1 + etag.size();
  if (tells(detail_version)) size += 1 + version.size();
  if (tells(detail_checksum)) size += 1;
  if (has_checksum) size += 1 + checksum.size();
  // One bounds check for the whole entry: a batch has thousands of these.
  const MutableBytes room = out.reserve(size);
  if (room.empty()) return false;
  std::byte* at = room.data();
  const auto number = [&](auto value) {
    value = little_endian(value);
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  const auto text = [&](std::string_view value) {
    number(static_cast<uint8_t>(value.size()));
    if (!value.empty()) std::memcpy(at, value.data(), value.size());
    at += value.size();
  };
  number(static_cast<uint16_t>(entry.code));
  number(static_cast<uint8_t>((entry.partial ? entry_partial : 0) | (entry.in_reply ? entry_inline : 0) |
                              (entry.listed_alone ? entry_listed_alone : 0)));
  if (entry.code == Errc::ok) number(entry.length);
  if (tells(detail_size)) {
    number(entry.object_size);
    number(static_cast<uint64_t>(entry.modified_us));
  }
  if (tells(detail_etag)) text(etag);
  if (tells(detail_version)) text(version);
  if (tells(detail_checksum)) number(static_cast<uint8_t>(has_checksum ? entry.checksum->algorithm : Algorithm{}));
  if (has_checksum) text(checksum);
  return out.ok();
}

std::optional<BatchReply> decode_batch_reply(Bytes body) {
  Reader in(body);
  BatchReply reply;
  if (in.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  reply.details = in.u8();
  reply.answered = in.u16();
  if (!in.ok() || (reply.details & ~details_all) != 0 || reply.answered > batch_items_max) return std::nullopt;
  reply.entries = Reader(in.bytes(in.left()));
  return reply;
}

bool next_entry(BatchReply& reply, BatchEntry& entry) { return read_entry(reply.entries, reply.details, false, entry); }

bool read_entry(Reader& in, uint8_t details, bool listing, BatchEntry& entry) {
  entry = {};
  entry.code = static_cast<Errc>(in.u16());
  const uint8_t flags = in.u8();
  if ((flags & ~(listing ? entry_listed_alone : entry_partial | entry_inline)) != 0) return false;
  if (entry.code != Errc::ok) return in.ok() && flags == 0 && is_sent(entry.code);
  entry.partial = (flags & entry_partial) != 0;
  entry.in_reply = (flags & entry_inline) != 0;
  entry.listed_alone = (flags & entry_listed_alone) != 0;
  entry.length = in.u64();
  if ((details & detail_size) != 0) {
    entry.object_size = in.u64();
    entry.modified_us = in.i64();
  }
  if ((details & detail_etag) != 0) entry.etag = in.text(in.u8());
  if ((details & detail_version) != 0) entry.version = in.text(in.u8());
  if ((details & detail_checksum) != 0) {
    if (const uint8_t algorithm = in.u8(); algorithm != 0) {
      const std::string_view value = in.text(in.u8());
      if (!is_algorithm(algorithm) || value.size() != digest_size(static_cast<Algorithm>(algorithm))) return false;
      entry.checksum = {static_cast<Algorithm>(algorithm), 0, value};
    }
  }
  if (entry.in_reply) entry.inline_bytes = in.bytes(entry.length);
  return in.ok();
}

}  // namespace verbena::native::wire
