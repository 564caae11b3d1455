#include "native/wire/watch.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena::native::wire {
namespace {

template <class T>
Bytes encoded(std::array<std::byte, 8192>& buffer, const T& body) {
  Writer out(buffer);
  EXPECT_TRUE(encode(out, body));
  return Bytes(buffer).first(out.size());
}

TEST(WatchBodies, GoThereAndBack) {
  std::array<std::byte, 8192> buffer;
  const auto watch = decode_watch(encoded(buffer, Watch{.bucket = "b", .prefix = "p/"}));
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->bucket, "b");
  EXPECT_EQ(watch->prefix, "p/");
  EXPECT_EQ(decode_watch_started(encoded(buffer, WatchStarted{.watch = 7}))->watch, 7u);
  const auto next = decode_watch_next(encoded(buffer, WatchNext{.watch = 1, .seen = 2, .wait_ms = 3}));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->seen, 2u);
  EXPECT_EQ(next->wait_ms, 3u);
  EXPECT_EQ(decode_watch_end(encoded(buffer, WatchEnd{.watch = 9}))->watch, 9u);
}

TEST(WatchBodies, AByteMoreOrLessIsMalformed) {
  std::array<std::byte, 8192> buffer;
  const auto check = [&](Bytes body, auto decode) {
    EXPECT_TRUE(decode(body));
    EXPECT_FALSE(decode(body.first(body.size() - 1)));
    EXPECT_FALSE(decode(Bytes(buffer).first(body.size() + 1)));
  };
  buffer.fill(std::byte{0});
  check(encoded(buffer, Watch{.bucket = "b", .prefix = "p"}), decode_watch);
  check(encoded(buffer, WatchNext{.watch = 1}), decode_watch_next);
  check(encoded(buffer, WatchEnd{.watch = 1}), decode_watch_end);
  check(encoded(buffer, WatchStarted{.watch = 1}), decode_watch_started);
  const std::string long_prefix(key_size_max + 1, 'p');
  EXPECT_FALSE(decode_watch(encoded(buffer, Watch{.bucket = "b", .prefix = long_prefix})));
}

TEST(WatchBodies, NewsAreCheckedToTheLastChange) {
  std::array<std::byte, 8192> buffer{};
  Writer out(buffer);
  encode_news_head(out, {.gap = true, .more = false, .upto = 5, .count = 2});
  EXPECT_EQ(out.size(), watch_news_head_size);
  encode(out, WatchedChange{.what = 1, .size = 3, .time_us = -1, .key = "a", .version = "v", .etag = "e"});
  const size_t second = out.size();
  encode(out, WatchedChange{.what = 3, .key = "b"});
  const Bytes body = Bytes(buffer).first(out.size());
  const auto news = decode_watch_news(body);
  ASSERT_TRUE(news);
  EXPECT_TRUE(news->gap);
  Reader changes(news->changes);
  const auto first = next_change(changes);
  EXPECT_EQ(first->key, "a");
  EXPECT_EQ(first->time_us, -1);
  EXPECT_EQ(next_change(changes)->what, 3);
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(decode_watch_news(body.first(size))) << size;
  EXPECT_FALSE(decode_watch_news(Bytes(buffer).first(body.size() + 1)));
  for (const int what : {int{key_event_last}, key_event_last + 1, UINT8_MAX}) {
    buffer[second] = static_cast<std::byte>(what);
    EXPECT_TRUE(decode_watch_news(body)) << "of a newer server; the receiver decides";
  }
  buffer[second] = std::byte{0};
  EXPECT_FALSE(decode_watch_news(body)) << "nothing is called so";
  buffer[second] = std::byte{3};
  buffer[3] = std::byte{1};
  EXPECT_FALSE(decode_watch_news(body)) << "more changes than there are numbers";
}

}  // namespace
}  // namespace verbena::native::wire
