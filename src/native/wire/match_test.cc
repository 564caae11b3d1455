#include "native/wire/match.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace verbena::native::wire {
namespace {

std::vector<std::byte> encoded(const Match& request) {
  std::vector<std::byte> space(64 * KiB);
  Writer out(space);
  EXPECT_TRUE(encode(out, request));
  space.resize(out.size());
  return space;
}

Match two_lists(Bytes keys) {
  Match request{
      .window = {}, .details = match_sizes, .width = 16, .bucket = "b", .prefix = "ns/", .counts = {}, .keys = keys};
  request.counts.add(2);
  request.counts.add(1);
  return request;
}

TEST(WireMatch, ARequestComesBackAsItWas) {
  std::vector<std::byte> hashes(48, std::byte{7});
  const auto body = encoded(two_lists(hashes));
  const auto back = decode_match(body);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bucket, "b");
  EXPECT_EQ(back->prefix, "ns/");
  EXPECT_EQ(back->details, match_sizes);
  EXPECT_EQ(back->counts.count, 2);
  EXPECT_EQ(back->total(), 3u);
  EXPECT_EQ(back->keys.size(), 48u);
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(decode_match(Bytes(body).first(size))) << size;
}

TEST(WireMatch, WhatDoesNotHoldItsKeysIsMalformed) {
  std::vector<std::byte> hashes(48);
  const auto refused = [&](auto change) {
    Match request = two_lists(hashes);
    change(request);
    return !decode_match(encoded(request));
  };
  EXPECT_FALSE(refused([](Match&) {}));
  EXPECT_TRUE(refused([](Match& m) { m.width = 17; }));
  EXPECT_TRUE(refused([](Match& m) { m.width = 32; }));
  EXPECT_TRUE(refused([](Match& m) { m.details = 4; }));
  EXPECT_TRUE(refused([](Match& m) { m.counts.add(1); }));
  EXPECT_TRUE(refused([](Match& m) { m.counts.add(0); }));
  EXPECT_TRUE(refused([](Match& m) { m.counts = {}; }));
  EXPECT_TRUE(refused([](Match& m) { m.window.size = 48; })) << "hashes in the message and in a window";
  EXPECT_TRUE(refused([](Match& m) { m.keys = {}, m.window.size = 47; })) << "a window that is too short";
  EXPECT_FALSE(refused([](Match& m) { m.keys = {}, m.window.size = 48; }));
  EXPECT_TRUE(refused([](Match& m) { m.keys = {}, m.window.size = ~0ull, m.counts.add(match_keys_max); }));
  EXPECT_TRUE(refused([](Match& m) { m.keys = {}, m.window.size = ~0ull, m.counts.add(~0u); })) << "no sum overflows";
  const std::string prefix(key_size_max - 31, 'p');
  EXPECT_TRUE(refused([&](Match& m) { m.prefix = prefix; })) << "keys longer than keys may be";
}

TEST(WireMatch, WholeKeysAreCounted) {
  std::vector<std::byte> space(100);
  Writer out(space);
  for (const char* key : {"one", "two", "three"}) put_text16(out, key);
  Match request = two_lists(Bytes(space).first(out.size()));
  request.width = 0;
  EXPECT_TRUE(decode_match(encoded(request)));
  request.keys = Bytes(space).first(out.size() - 1);
  EXPECT_FALSE(decode_match(encoded(request)));
  request.keys = Bytes(space).first(out.size());
  request.counts.add(1);
  EXPECT_FALSE(decode_match(encoded(request)));
}

TEST(WireMatch, AnAnswerMergesNeighboursOfOnePlaceAndSize) {
  std::vector<std::byte> space(4096);
  MatchWriter out(space, match_places | match_sizes);
  ASSERT_TRUE(out.begin_list());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(out.add(KeyPlace::memory, 100));
  ASSERT_TRUE(out.add(KeyPlace::disk, 100, 2));
  ASSERT_TRUE(out.add(KeyPlace::disk, 100));
  out.end_list(Errc::no_such_key, false);
  ASSERT_TRUE(out.begin_list());
  out.end_list(Errc::ok, true);
  const size_t size = out.finish(17);
  auto in = MatchReader::open(Bytes(space).first(size));
  ASSERT_TRUE(in);
  EXPECT_EQ(in->lease(), 17u);
  MatchedList list;
  ASSERT_TRUE(in->next(list));
  EXPECT_EQ(list.leading, 8u);
  EXPECT_EQ(list.code, Errc::no_such_key);
  MatchRun run;
  ASSERT_TRUE(in->next_run(run));
  EXPECT_EQ(run, (MatchRun{5, KeyPlace::memory, 100}));
  ASSERT_TRUE(in->next_run(run));
  EXPECT_EQ(run, (MatchRun{3, KeyPlace::disk, 100}));
  EXPECT_FALSE(in->next_run(run));
  ASSERT_TRUE(in->next(list));
  EXPECT_TRUE(list.more);
  EXPECT_TRUE(in->complete());
}

TEST(WireMatch, AnAnswerEndsWhereItsRoomDoes) {
  std::vector<std::byte> space(100);
  MatchWriter out(space, match_sizes);
  ASSERT_TRUE(out.begin_list());
  uint64_t added = 0;
  while (out.add(KeyPlace::memory, added)) ++added;
  EXPECT_EQ(added, 6u);
  out.end_list(Errc::ok, true);
  EXPECT_FALSE(out.begin_list());
  const size_t size = out.finish(0);
  auto in = MatchReader::open(Bytes(space).first(size));
  MatchedList list;
  ASSERT_TRUE(in && in->next(list));
  EXPECT_EQ(list.leading, added);
  MatchRun run;
  while (in->next_run(run)) {
  }
  EXPECT_TRUE(in->complete());
}

}  // namespace
}  // namespace verbena::native::wire
