// What a sealed connection sends: envelopes around messages, and the messages of its own by which both sides agree on
// records. All numbers are little-endian. Everything that decode() reads was authenticated, but its sender may still
// be hostile: a client to the server, and the reverse.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/aead.h"
#include "base/bytes.h"

namespace verbena::fabric::sealed {

inline constexpr size_t record_size_max = 64 * KiB;
// Records travel in segments of a ring that the client lends: up to four, one behind the other.
inline constexpr size_t segment_size = 256 * KiB;
inline constexpr size_t segments = 8;  // of each ring
inline constexpr size_t ring_size = segments * segment_size;
inline constexpr size_t records_per_segment = segment_size / record_size_max;

// The segments of a ring that may be used.
class FreeSegments {
 public:
  bool none() const { return bits_ == 0; }
  uint8_t take() {  // there must be one
    const auto segment = static_cast<uint8_t>(std::countr_zero(bits_));
    bits_ &= bits_ - 1;
    return segment;
  }
  void give_back(uint8_t segment) { bits_ |= 1u << segment; }

 private:
  uint32_t bits_ = (1u << segments) - 1;
};

enum class Kind : uint8_t {
  open = 1,     // to the server, the first: a salt, and inside a message of the layer above
  message = 2,  // both: a message of the layer above
  rings = 3,    // to the server: where its records are to be written and read
  records = 4,  // to the client: bytes for its windows, inside or in a segment
  freed = 5,    // to the server: a segment of the ring `down` may be used again
  want = 6,     // to the client: bytes of a window are wanted
  ready = 7,    // to the server: its answer, inside or in a segment of the ring `up`
  taken = 8,    // to the client: that segment may be used again
};

struct Header {
  static constexpr size_t size = 24;
  Kind kind{};
  uint64_t session = 0;
  uint64_t sequence = 0;  // from 1, up by one with each envelope of a direction
};
void encode(const Header& header, std::byte* out);
// nullopt: no envelope.
std::optional<Header> decode_header(Bytes envelope);

// A part of a lent window: which one, and where.
struct Place {
  uint64_t key = 0, offset = 0;
  uint32_t length = 0;
};
// The part of a place that record i holds.
Place part_of(const Place& place, size_t i);
// What a record's tag binds it to, besides its number.
std::array<std::byte, 24> context_of(const Place& place);

// A number and a tag for each record of a segment; record i has the number first + i.
struct Seals {
  uint64_t first = 0;
  std::vector<AeadTag> tags;
};
constexpr size_t records_of(size_t length) { return (length + record_size_max - 1) / record_size_max; }

struct Rings {
  uint64_t down_base = 0, down_key = 0, up_base = 0, up_key = 0;
};
struct Record {
  Place place;
  std::optional<Bytes> inside;  // the bytes themselves; else they are in `segment`
  uint8_t segment = 0;
  Seals seals;
};
struct Want {
  uint32_t id = 0;
  Place place;
};
struct Ready {
  uint32_t id = 0;
  bool refused = false;
  std::optional<Bytes> inside;
  uint8_t segment = 0;
  Seals seals;
};

void encode(const Rings& rings, std::vector<std::byte>& out);
void encode(const Record& record, std::vector<std::byte>& out);
void encode(const Want& want, std::vector<std::byte>& out);
void encode(const Ready& ready, std::vector<std::byte>& out);
void encode_segment(uint8_t segment, std::vector<std::byte>& out);  // of freed and taken

// nullopt: malformed, or a length, a segment or a number of tags is impossible.
std::optional<Rings> decode_rings(Bytes body);
std::optional<Want> decode_want(Bytes body);
std::optional<Ready> decode_ready(Bytes body);
std::optional<uint8_t> decode_segment(Bytes body);
// Takes the first record off `body`.
std::optional<Record> take_record(Bytes& body);

// Bytes of a record's form in a message besides those inside.
inline constexpr size_t record_overhead = 32;

}  // namespace verbena::fabric::sealed
