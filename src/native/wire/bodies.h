// Bodies of requests and replies. Decoding is in place: every string_view and span points into the message. encode()
// returns false when the writer's space is too small; decode() returns nullopt for anything but exactly one well-formed
// body. Field order and widths: docs/native-protocol.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/checksum.h"
#include "base/result.h"
#include "native/wire/cursor.h"
#include "native/wire/message.h"

namespace verbena::native::wire {

inline constexpr size_t ranges_max = 64;
inline constexpr size_t etags_max = 8;
inline constexpr size_t checksums_max = 6;
inline constexpr size_t headers_max = 128;
inline constexpr size_t address_size_max = 192;  // bytes, as in the token door
inline constexpr size_t key_size_max = 1024;
inline constexpr size_t bucket_size_max = 255;
inline constexpr uint32_t list_keys_max = 1000;
inline constexpr int64_t no_time = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t open_end = ~uint64_t{0};

// A list of bounded length without allocation. It has space for all items, but writes and copies only the used ones:
// most lists of a message are empty, and clearing all their space would cost more than the rest of the message.
template <class T, size_t N>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Few() {}
  Few(const Few& other) { *this = other; }
  Few& operator=(const Few& other) {
    count = other.count;
    std::copy_n(other.items(), count, items());
    return *this;
  }

  // False when full.
  bool add(const T& item) {
    if (count == N) return false;
    std::construct_at(items() + count++, item);
    return true;
  }
  const T* begin() const { return items(); }
  const T* end() const { return items() + count; }
  const T& operator[](size_t i) const { return items()[i]; }

  uint16_t count = 0;

 private:
  T* items() { return reinterpret_cast<T*>(room_); }
  const T* items() const { return reinterpret_cast<const T*>(room_); }

  alignas(T) std::byte room_[N * sizeof(T)];
};

// first-last inclusive; last open_end: to the end; first open_end: the last `last` bytes.
struct Range {
  uint64_t first, last;
};
struct ChecksumView {
  Algorithm algorithm;
  uint16_t parts;
  std::string_view value;
};
// True if a session of that version knows the checksum; others are not sent to it.
constexpr bool is_known_to(unsigned version, Algorithm algorithm) {
  return version >= version_of_new_checksums || algorithm <= Algorithm::md5;
}
struct HeaderPair {
  std::string_view name, value;
};
struct Descriptor {  // as fabric::WindowDescriptor, which is not visible in this room
  uint64_t base = 0, size = 0, key = 0;
};

struct Hello {
  uint32_t message_size_max = 0;  // longest message that the client receives
  std::string_view address;       // ofi: fi_getname bytes of the client's endpoint; empty on `local`
};
bool encode(Writer& out, const Hello& hello);
std::optional<Hello> decode_hello(Bytes body);

// GET and HEAD.
struct Get {
  std::string_view bucket, key;
  Descriptor window;         // valid with flag_window
  uint32_t inline_max = 0;   // most bytes inside the reply; 0 for HEAD
  uint16_t part_number = 0;  // 0: none
  int64_t if_modified_since_s = no_time, if_unmodified_since_s = no_time;
  Few<Range, ranges_max> ranges = {};  // none: the whole object. Bytes of the ranges are concatenated
  Few<std::string_view, etags_max> if_match = {}, if_none_match = {};
};
bool encode(Writer& out, const Get& get);
std::optional<Get> decode_get(Bytes body);

struct Put {
  std::string_view bucket, key;
  Descriptor window;  // valid with flag_window: the object is its first `size` bytes
  uint64_t size = 0;
  std::optional<Algorithm> compute;          // compute and store this checksum even if none is expected
  std::string_view content_md5;              // 16 raw bytes or none
  std::string_view if_match, if_none_match;  // empty: no condition
  Few<ChecksumView, checksums_max> expected;
  Few<HeaderPair, headers_max> headers;
  Bytes inline_bytes;  // `size` bytes without flag_window, none with it
};
// Writes everything but the inline bytes, which the caller appends (they end the body).
bool encode(Writer& out, const Put& put);
std::optional<Put> decode_put(Bytes body, bool has_window);

// Version 3. A PUT whose bytes are appended to the existing object.
struct Append {
  uint64_t offset = open_end;  // the object's required size; open_end: any
  Put put;
};
// Writes everything but the inline bytes, as for a PUT.
bool encode(Writer& out, const Append& append);
std::optional<Append> decode_append(Bytes body, bool has_window);

// Version 3.
struct Rename {
  std::string_view bucket, from, to;
  std::string_view source_if_match = {}, if_match = {}, if_none_match = {};  // of the source; of the target's object
  std::string_view token = {};                                               // the client's, for a repeated request
};
bool encode(Writer& out, const Rename& rename);
std::optional<Rename> decode_rename(Bytes body);

struct Delete {
  std::string_view bucket, key;
  std::string_view if_match;
};
bool encode(Writer& out, const Delete& request);
std::optional<Delete> decode_delete(Bytes body);

struct List {
  std::string_view bucket, prefix, delimiter, after;
  uint32_t max_keys = list_keys_max;
};
bool encode(Writer& out, const List& request);
std::optional<List> decode_list(Bytes body);

// Every reply's body starts with a u16 Errc; an error's body is that alone. Codes that are never sent (is_sent) are
// refused.
bool encode_error(Writer& out, Errc code);
std::optional<Errc> decode_error(Bytes body);
bool is_sent(Errc code);

struct Placed {  // a resolved range
  uint64_t offset, length;
};

// Success of GET, HEAD and PUT.
struct ObjectReply {
  bool partial = false;
  uint64_t length = 0;  // bytes delivered (GET), stored (PUT) or that a GET would deliver (HEAD)
  uint64_t object_size = 0;
  int64_t modified_us = 0;
  uint32_t parts = 0;  // of a multipart upload; 0: none
  std::string_view etag, version;
  Few<ChecksumView, checksums_max> checksums;
  Few<Placed, ranges_max> ranges;
  Few<HeaderPair, headers_max> headers;
  uint32_t inline_size = 0;  // bytes at the end of the message; 0: they are in the window
  Bytes inline_bytes;        // set by decoding
};
// Writes everything but the inline bytes, which the caller appends (they end the body).
bool encode(Writer& out, const ObjectReply& reply);
std::optional<ObjectReply> decode_object_reply(Bytes body);

}  // namespace verbena::native::wire
