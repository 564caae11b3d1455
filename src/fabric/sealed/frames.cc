#include "fabric/sealed/frames.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/cursor.h"

namespace verbena::fabric::sealed {
namespace {

using cursor::little_endian;
using cursor::Reader;

// "VNS" and the version.
constexpr std::array<std::byte, 4> magic{std::byte{0x56}, std::byte{0x4e}, std::byte{0x53}, std::byte{0x01}};

template <class T>
void put(std::vector<std::byte>& out, T value) {
  value = little_endian(value);
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), raw, raw + sizeof value);
}

enum Form : uint8_t { in_segment = 0, is_inside = 1, is_refused = 2 };

void put_place(std::vector<std::byte>& out, const Place& place) {
  put(out, place.key), put(out, place.offset), put(out, place.length);
}
Place take_place(Reader& in) {
  Place place;
  place.key = in.u64(), place.offset = in.u64(), place.length = in.u32();
  return place;
}

void put_seals(std::vector<std::byte>& out, uint8_t segment, const Seals& seals) {
  put(out, segment), put(out, static_cast<uint8_t>(seals.tags.size())), put(out, seals.first);
  for (const AeadTag& tag : seals.tags) out.insert(out.end(), tag.begin(), tag.end());
}
bool take_seals(Reader& in, uint8_t& segment, Seals& seals) {
  segment = in.u8();
  const size_t tags = in.u8();
  seals.first = in.u64();
  if (!in.ok() || segment >= segments || tags == 0 || tags > records_per_segment) return false;
  for (size_t i = 0; i < tags; ++i) {
    const Bytes tag = in.bytes(aead_tag_size);
    if (!in.ok()) return false;
    std::ranges::copy(tag, seals.tags.emplace_back().begin());
  }
  return true;
}

}  // namespace

void encode(const Header& header, std::byte* out) {
  std::memset(out, 0, Header::size);
  std::memcpy(out, magic.data(), magic.size());
  out[4] = static_cast<std::byte>(header.kind);
  const uint64_t session = little_endian(header.session), sequence = little_endian(header.sequence);
  std::memcpy(out + 8, &session, 8);
  std::memcpy(out + 16, &sequence, 8);
}

std::optional<Header> decode_header(Bytes envelope) {
  Reader in(envelope);
  const Bytes start = in.bytes(4);
  Header header;
  header.kind = static_cast<Kind>(in.u8());
  const Bytes zeros = in.bytes(3);
  header.session = in.u64();
  header.sequence = in.u64();
  if (!in.ok() || !std::ranges::equal(start, magic)) return std::nullopt;
  if (header.kind < Kind::open || header.kind > Kind::taken) return std::nullopt;
  if (std::ranges::any_of(zeros, [](std::byte b) { return b != std::byte{0}; })) return std::nullopt;
  return header;
}

Place part_of(const Place& place, size_t i) {
  const size_t from = i * record_size_max;
  return {place.key, place.offset + from,
          static_cast<uint32_t>(std::min<size_t>(record_size_max, place.length - from))};
}

std::array<std::byte, 24> context_of(const Place& place) {
  const std::array<uint64_t, 3> fields{little_endian(place.key), little_endian(place.offset),
                                       little_endian(uint64_t{place.length})};
  return std::bit_cast<std::array<std::byte, 24>>(fields);
}

void encode(const Rings& rings, std::vector<std::byte>& out) {
  put(out, rings.down_base), put(out, rings.down_key), put(out, rings.up_base), put(out, rings.up_key);
}

std::optional<Rings> decode_rings(Bytes body) {
  Reader in(body);
  Rings rings;
  rings.down_base = in.u64(), rings.down_key = in.u64();
  rings.up_base = in.u64(), rings.up_key = in.u64();
  return in.complete() ? std::optional(rings) : std::nullopt;
}

void encode(const Record& record, std::vector<std::byte>& out) {
  put(out, static_cast<uint8_t>(record.inside ? is_inside : in_segment));
  put_place(out, record.place);
  if (!record.inside) return put_seals(out, record.segment, record.seals);
  out.insert(out.end(), record.inside->begin(), record.inside->end());
}

std::optional<Record> take_record(Bytes& body) {
  Reader in(body);
  const auto form = in.u8();
  Record record;
  record.place = take_place(in);
  if (!in.ok() || record.place.length == 0) return std::nullopt;
  if (form == is_inside) {
    record.inside = in.bytes(record.place.length);
    if (!in.ok()) return std::nullopt;
  } else if (form != in_segment || record.place.length > segment_size ||
             !take_seals(in, record.segment, record.seals) ||
             record.seals.tags.size() != records_of(record.place.length)) {
    return std::nullopt;
  }
  body = body.last(in.left());
  return record;
}

void encode(const Want& want, std::vector<std::byte>& out) {
  put(out, want.id);
  put_place(out, want.place);
}

std::optional<Want> decode_want(Bytes body) {
  Reader in(body);
  Want want;
  want.id = in.u32();
  want.place = take_place(in);
  if (!in.complete() || want.place.length == 0 || want.place.length > segment_size) return std::nullopt;
  return want;
}

void encode(const Ready& ready, std::vector<std::byte>& out) {
  put(out, ready.id);
  put(out, static_cast<uint8_t>(ready.refused ? is_refused : ready.inside ? is_inside : in_segment));
  if (ready.refused) return;
  if (!ready.inside) return put_seals(out, ready.segment, ready.seals);
  out.insert(out.end(), ready.inside->begin(), ready.inside->end());
}

std::optional<Ready> decode_ready(Bytes body) {
  Reader in(body);
  Ready ready;
  ready.id = in.u32();
  const auto form = in.u8();
  if (!in.ok()) return std::nullopt;
  if (form == is_inside) {
    ready.inside = body.last(in.left());
    return ready;
  }
  ready.refused = form == is_refused;
  if (!ready.refused && (form != in_segment || !take_seals(in, ready.segment, ready.seals))) return std::nullopt;
  return in.complete() ? std::optional(std::move(ready)) : std::nullopt;
}

void encode_segment(uint8_t segment, std::vector<std::byte>& out) { put(out, segment); }

std::optional<uint8_t> decode_segment(Bytes body) {
  if (body.size() != 1 || std::to_integer<uint8_t>(body[0]) >= segments) return std::nullopt;
  return std::to_integer<uint8_t>(body[0]);
}

}  // namespace verbena::fabric::sealed
