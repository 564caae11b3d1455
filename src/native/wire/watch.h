// WATCH, WATCH_NEXT, WATCH_END: bodies as in bodies.h.
#pragma once

#include "native/wire/bodies.h"

namespace verbena::native::wire {

inline constexpr uint32_t stream_watches_max = 64;  // of a session on one endpoint

struct Watch {
  std::string_view bucket, prefix;
};
bool encode(Writer& out, const Watch& request);
std::optional<Watch> decode_watch(Bytes body);

struct WatchStarted {
  uint64_t watch = 0;  // its number on this endpoint
};
bool encode(Writer& out, const WatchStarted& reply);
std::optional<WatchStarted> decode_watch_started(Bytes body);

struct WatchNext {
  uint64_t watch = 0;
  uint64_t seen = 0;  // the last number that the client has: earlier changes need not be sent again
  uint32_t wait_ms = 0;
};
bool encode(Writer& out, const WatchNext& request);
std::optional<WatchNext> decode_watch_next(Bytes body);

struct WatchEnd {
  uint64_t watch = 0;
};
bool encode(Writer& out, const WatchEnd& request);
std::optional<WatchEnd> decode_watch_end(Bytes body);

// One change. `what`: docs/native-protocol.md; never 0. One above the last may come from a newer server.
inline constexpr uint8_t key_event_last = 8;
struct WatchedChange {
  uint8_t what = 0;
  uint64_t size = 0;
  int64_t time_us = 0;
  std::string_view key, version, etag;
};
bool encode(Writer& out, const WatchedChange& change);

struct WatchNews {
  bool gap = false;   // some changes before these were dropped
  bool more = false;  // others are waiting already
  uint64_t upto = 0;  // the number of the last change here; the others have those before it
  uint16_t count = 0;
  Bytes changes = {};  // concatenated; read with next_change()
};
inline constexpr size_t watch_news_head_size = 13;
void encode_news_head(Writer& out, const WatchNews& news);
// Checks all changes.
std::optional<WatchNews> decode_watch_news(Bytes body);
std::optional<WatchedChange> next_change(Reader& changes);

}  // namespace verbena::native::wire
