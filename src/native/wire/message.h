// The frame of every native message: header, body, MAC. Layout in docs/native-protocol.md.
//
//   0  u32 magic "VNB" and the version     16 u64 sequence         36 u32 timeout_ms
//   4  u8 type  5 u8 flags  6 u16 zero     24 u64 request          40 body
//   8  u64 session                         32 u32 body_length      ...  u64 MAC over all that precedes it
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string_view>

#include "base/bytes.h"
#include "native/wire/keys.h"

namespace verbena::native::wire {

// The version of the frame, the same in all versions of the protocol; those differ in the types that a session knows,
// and in a few bodies.
inline constexpr uint8_t version = 1;
inline constexpr uint8_t protocol_version_max = 10;
// The newest version that this machine has: without X25519 (a policy of OpenSSL's) that before the exchange of keys.
inline uint8_t newest_version() {
  return EphemeralKey::available() ? protocol_version_max : uint8_t{version_of_key_exchange - 1};
}
// The first version with the checksums from SHA512 on, and MD5 as one of them.
inline constexpr unsigned version_of_new_checksums = 5;
// The first version whose LIST is answered with the short form of items (list_items.h).
inline constexpr unsigned version_of_short_listings = 10;
inline constexpr uint32_t magic = 'V' | 'N' << 8 | 'B' << 16 | version << 24;
inline constexpr size_t header_size = 40;
inline constexpr size_t mac_size = 8;
inline constexpr size_t frame_size = header_size + mac_size;
// A transport whose longest message is below this cannot carry the protocol (one key of 1,024 bytes and its metadata).
inline constexpr size_t message_size_min = 4096;
// The limit of replies, whatever the transport allows: each request in flight has a buffer of that size.
inline constexpr size_t reply_size_max = 32 * KiB;

enum class Type : uint8_t {
  hello = 1,
  ping = 2,
  bye = 3,
  get = 16,
  head = 17,
  put = 18,
  del = 19,
  list = 20,
  // Version 2:
  get_many = 21,
  head_many = 22,
  put_many = 23,
  delete_many = 24,
  list_values = 25,
  // Version 3:
  append = 26,
  rename = 27,
  // Version 4:
  watch = 28,
  watch_next = 29,
  watch_end = 30,
  // Version 6:
  match = 31,
  lease_end = 32,
  // Version 8:
  device = 33,
  device_end = 34,
};
// The first version whose sessions know the type.
inline constexpr unsigned version_of(uint8_t type) {
  if (type >= static_cast<uint8_t>(Type::device)) return 8;
  if (type >= static_cast<uint8_t>(Type::match)) return 6;
  if (type >= static_cast<uint8_t>(Type::watch)) return 4;
  if (type >= static_cast<uint8_t>(Type::append)) return 3;
  return type >= static_cast<uint8_t>(Type::get_many) ? 2 : 1;
}
inline constexpr uint8_t reply_bit = 0x80;  // a reply's type is its request's with this bit

enum Flags : uint8_t {
  flag_window = 1,        // GET, PUT: the window descriptor is valid
  flag_full_headers = 2,  // GET, HEAD: answer with all stored headers
  flag_md5_etag = 4,      // PUT: the ETag must be the MD5 of the bytes
  flag_said_headers = 8,  // GET, HEAD, PUT: answer with the headers that S3 computes, too
  flag_lease = 32,        // GET_MANY: the number of a lease is behind the body
  flag_take_lease = 64,   // GET_MANY, HEAD_MANY: a LeaseWish is behind the body, and behind that number
};

struct Header {
  uint8_t type = 0;
  uint8_t flags = 0;
  uint64_t session = 0;
  uint64_t sequence = 0;
  uint64_t request = 0;  // chosen by the client, echoed by the reply
  uint32_t body_length = 0;
  uint32_t timeout_ms = 0;  // requests: how long the client will wait; 0: the server's own limit
};

// Why a message was dropped. Names are the metric's label values.
enum class Drop : uint8_t {
  truncated,
  oversized,
  bad_magic,
  bad_length,
  unknown_session,
  wrong_peer,
  bad_mac,
  replayed,
  bad_type,
  malformed,
  no_credit,
  stream_closed,
  undeliverable,
};
inline constexpr size_t drop_count = 13;
std::string_view to_string(Drop drop);

// Checks lengths, magic and version, but not the MAC. `size_max`: the transport's longest message.
std::expected<Header, Drop> parse_header(Bytes message, size_t size_max);
inline Bytes body_of(Bytes message) { return message.subspan(header_size, message.size() - frame_size); }

// Over the whole message but its last 8 bytes. The length was checked by parse_header().
bool mac_matches(const MacKey& key, Bytes message);

// `buffer` holds a body of header.body_length bytes at header_size; writes the header and the MAC around it.
// Returns the message's length. The buffer has frame_size + body_length bytes at least.
size_t seal(const MacKey& key, const Header& header, MutableBytes buffer);

// The sequence numbers seen so far (the algorithm of RFC 6479). Starts before 1.
class ReplayWindow {
 public:
  static constexpr uint64_t width = 1024;  // numbers: far above the number of credits
  // True, once, for each number that is new and not older than the window.
  bool accept(uint64_t sequence);

 private:
  static constexpr uint64_t words = width / 64 + 1;  // one spare word, so that old bits clear as the window moves
  std::array<uint64_t, words> bits_{};
  uint64_t highest_ = 0;
};

}  // namespace verbena::native::wire
