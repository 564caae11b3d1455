#include "native/wire/message.h"

#include <algorithm>

#include "base/checksum.h"
#include "native/wire/cursor.h"

namespace verbena::native::wire {

std::string_view to_string(Drop drop) {
  // In metrics: a name that was released stays ("lane_closed": stream_closed).
  static constexpr std::string_view names[drop_count] = {
      "truncated", "oversized", "bad_magic", "bad_length", "unknown_session", "wrong_peer",   "bad_mac",
      "replayed",  "bad_type",  "malformed", "no_credit",  "lane_closed",     "undeliverable"};
  return names[static_cast<size_t>(drop)];
}

std::expected<Header, Drop> parse_header(Bytes message, size_t size_max) {
  if (message.size() < frame_size) return std::unexpected(Drop::truncated);
  if (message.size() > size_max) return std::unexpected(Drop::oversized);
  Reader in(message.first(header_size));
  if (in.u32() != magic) return std::unexpected(Drop::bad_magic);
  Header header;
  header.type = in.u8();
  header.flags = in.u8();
  if (in.u16() != 0) return std::unexpected(Drop::bad_magic);
  header.session = in.u64();
  header.sequence = in.u64();
  header.request = in.u64();
  header.body_length = in.u32();
  header.timeout_ms = in.u32();
  if (header.body_length != message.size() - frame_size) return std::unexpected(Drop::bad_length);
  return header;
}

namespace {

uint64_t mac_of(const MacKey& key, Bytes covered) { return key.in_envelope ? 0 : siphash24(key.bytes, covered); }

}  // namespace

bool mac_matches(const MacKey& key, Bytes message) {
  Reader in(message.last(mac_size));
  // One comparison of two words takes constant time.
  return in.u64() == mac_of(key, message.first(message.size() - mac_size));
}

size_t seal(const MacKey& key, const Header& header, MutableBytes buffer) {
  Writer out(buffer.first(header_size));
  out.u32(magic);
  out.u8(header.type);
  out.u8(header.flags);
  out.u16(0);
  out.u64(header.session);
  out.u64(header.sequence);
  out.u64(header.request);
  out.u32(header.body_length);
  out.u32(header.timeout_ms);
  const size_t covered = header_size + header.body_length;
  Writer tail(buffer.subspan(covered, mac_size));
  tail.u64(mac_of(key, buffer.first(covered)));
  return covered + mac_size;
}

bool ReplayWindow::accept(uint64_t sequence) {
  if (sequence == 0) return false;
  if (sequence > highest_) {
    const uint64_t from = highest_ / 64, to = sequence / 64;
    for (uint64_t i = 1; i <= std::min(to - from, words); ++i) bits_[(from + i) % words] = 0;
    highest_ = sequence;
  } else if (highest_ - sequence >= width) {
    return false;
  }
  uint64_t& word = bits_[sequence / 64 % words];
  const uint64_t bit = uint64_t{1} << (sequence % 64);
  if ((word & bit) != 0) return false;
  word |= bit;
  return true;
}

}  // namespace verbena::native::wire
