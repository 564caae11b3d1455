#include "native/wire/watch.h"

namespace verbena::native::wire {
namespace {

enum NewsFlags : uint8_t { news_gap = 1, news_more = 2 };

}  // namespace

bool encode(Writer& out, const Watch& request) {
  put_text16(out, request.bucket);
  put_text16(out, request.prefix);
  return out.ok();
}

std::optional<Watch> decode_watch(Bytes body) {
  Reader in(body);
  Watch request;
  request.bucket = get_text16(in, bucket_size_max);
  request.prefix = get_text16(in, key_size_max);
  if (!in.complete()) return std::nullopt;
  return request;
}

bool encode(Writer& out, const WatchStarted& reply) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u64(reply.watch);
  return out.ok();
}

std::optional<WatchStarted> decode_watch_started(Bytes body) {
  Reader in(body);
  if (in.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  const WatchStarted reply{.watch = in.u64()};
  if (!in.complete()) return std::nullopt;
  return reply;
}

bool encode(Writer& out, const WatchNext& request) {
  out.u64(request.watch);
  out.u64(request.seen);
  out.u32(request.wait_ms);
  return out.ok();
}

std::optional<WatchNext> decode_watch_next(Bytes body) {
  Reader in(body);
  WatchNext request;
  request.watch = in.u64();
  request.seen = in.u64();
  request.wait_ms = in.u32();
  if (!in.complete()) return std::nullopt;
  return request;
}

bool encode(Writer& out, const WatchEnd& request) {
  out.u64(request.watch);
  return out.ok();
}

std::optional<WatchEnd> decode_watch_end(Bytes body) {
  Reader in(body);
  const WatchEnd request{.watch = in.u64()};
  if (!in.complete()) return std::nullopt;
  return request;
}

bool encode(Writer& out, const WatchedChange& change) {
  out.u8(change.what);
  out.u64(change.size);
  out.i64(change.time_us);
  put_text16(out, change.key);
  put_text8(out, change.version);
  put_text8(out, change.etag);
  return out.ok();
}

std::optional<WatchedChange> next_change(Reader& changes) {
  WatchedChange change;
  change.what = changes.u8();
  change.size = changes.u64();
  change.time_us = changes.i64();
  change.key = get_text16(changes, key_size_max);
  change.version = get_text8(changes);
  change.etag = get_text8(changes);
  if (!changes.ok() || change.what == 0) return std::nullopt;
  return change;
}

void encode_news_head(Writer& out, const WatchNews& news) {
  out.u16(static_cast<uint16_t>(Errc::ok));
  out.u8(static_cast<uint8_t>((news.gap ? news_gap : 0) | (news.more ? news_more : 0)));
  out.u64(news.upto);
  out.u16(news.count);
}

std::optional<WatchNews> decode_watch_news(Bytes body) {
  Reader in(body);
  if (in.u16() != static_cast<uint16_t>(Errc::ok)) return std::nullopt;
  WatchNews news;
  const uint8_t flags = in.u8();
  news.gap = (flags & news_gap) != 0;
  news.more = (flags & news_more) != 0;
  news.upto = in.u64();
  news.count = in.u16();
  if (!in.ok() || flags > (news_gap | news_more) || news.count > news.upto) return std::nullopt;
  news.changes = in.bytes(in.left());
  Reader changes(news.changes);
  for (uint16_t i = 0; i < news.count; ++i) {
    if (!next_change(changes)) return std::nullopt;
  }
  if (!changes.complete()) return std::nullopt;
  return news;
}

}  // namespace verbena::native::wire
