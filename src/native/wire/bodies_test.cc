#include "native/wire/bodies.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace verbena::native::wire {
namespace {

template <class T>
std::vector<std::byte> encoded(const T& value) {
  std::vector<std::byte> space(256 * KiB);
  Writer out(space);
  EXPECT_TRUE(encode(out, value));
  space.resize(out.size());
  return space;
}

// No prefix of a body is valid, and none with an extra byte.
void expect_exact(const std::vector<std::byte>& body, const std::function<bool(Bytes)>& decodes) {
  ASSERT_TRUE(decodes(body));
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(decodes(Bytes(body).first(size))) << size;
  auto longer = body;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decodes(longer));
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  uint64_t below(uint64_t n) { return engine_() % n; }
  uint64_t u64() { return engine_(); }
  // Valid as long as this object.
  std::string_view text(size_t size_max) {
    std::string s(below(size_max + 1), '\0');
    for (char& c : s) c = static_cast<char>(engine_());
    texts_.push_back(std::make_unique<std::string>(std::move(s)));
    return *texts_.back();
  }
  ChecksumView checksum() {
    const auto algorithm = all_algorithms[below(std::size(all_algorithms))];
    std::string_view value;
    while (value.size() != digest_size(algorithm)) value = text(64);
    return {algorithm, static_cast<uint16_t>(u64()), value};
  }

 private:
  std::mt19937_64 engine_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

Get any_get(Random& random) {
  Get get;
  get.bucket = random.text(63);
  get.key = random.text(key_size_max);
  get.window = {random.u64(), random.u64(), random.u64()};
  get.inline_max = static_cast<uint32_t>(random.u64());
  get.part_number = static_cast<uint16_t>(random.u64());
  get.if_modified_since_s = static_cast<int64_t>(random.u64());
  for (size_t i = random.below(ranges_max + 1); i > 0; --i) get.ranges.add({random.u64(), random.u64()});
  for (size_t i = random.below(etags_max + 1); i > 0; --i) get.if_match.add(random.text(255));
  for (size_t i = random.below(etags_max + 1); i > 0; --i) get.if_none_match.add(random.text(255));
  return get;
}

TEST(Bodies, AGetSurvivesTheWire) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Get get = any_get(random);
    const auto body = encoded(get);
    const auto back = decode_get(body);
    ASSERT_TRUE(back) << seed;
    EXPECT_EQ(back->bucket, get.bucket);
    EXPECT_EQ(back->key, get.key);
    EXPECT_EQ(back->window.base, get.window.base);
    EXPECT_EQ(back->window.size, get.window.size);
    EXPECT_EQ(back->window.key, get.window.key);
    EXPECT_EQ(back->inline_max, get.inline_max);
    EXPECT_EQ(back->part_number, get.part_number);
    EXPECT_EQ(back->if_modified_since_s, get.if_modified_since_s);
    EXPECT_EQ(back->if_unmodified_since_s, no_time);
    ASSERT_EQ(back->ranges.count, get.ranges.count);
    for (size_t i = 0; i < get.ranges.count; ++i) {
      EXPECT_EQ(back->ranges[i].first, get.ranges[i].first);
      EXPECT_EQ(back->ranges[i].last, get.ranges[i].last);
    }
    EXPECT_TRUE(std::ranges::equal(back->if_match, get.if_match));
    EXPECT_TRUE(std::ranges::equal(back->if_none_match, get.if_none_match));
    EXPECT_EQ(encoded(*back), body);
  }
}

TEST(Bodies, AGetIsExactlyItsBytes) {
  Random random(1);
  Get get;
  get.bucket = "bucket";
  get.key = "a/key";
  get.ranges.add({0, 9});
  get.ranges.add({open_end, 5});
  get.if_match.add("etag");
  expect_exact(encoded(get), [](Bytes body) { return decode_get(body).has_value(); });
}

TEST(Bodies, APutSurvivesTheWire) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Put put;
    put.bucket = random.text(63);
    put.key = random.text(key_size_max);
    put.window = {random.u64(), random.u64(), random.u64()};
    put.if_none_match = random.text(255);
    if (random.below(2) == 0) put.compute = Algorithm::crc64nvme;
    for (size_t i = random.below(checksums_max + 1); i > 0; --i) put.expected.add(random.checksum());
    for (size_t i = random.below(headers_max + 1); i > 0; --i) put.headers.add({random.text(40), random.text(300)});
    const std::string_view bytes = random.text(5000);
    put.size = bytes.size();
    auto body = encoded(put);
    body.insert(body.end(), as_bytes(bytes).begin(), as_bytes(bytes).end());
    const auto back = decode_put(body, false);
    ASSERT_TRUE(back) << seed;
    EXPECT_EQ(back->key, put.key);
    EXPECT_EQ(back->compute, put.compute);
    EXPECT_EQ(back->if_none_match, put.if_none_match);
    EXPECT_EQ(back->if_match, "");
    ASSERT_EQ(back->expected.count, put.expected.count);
    for (size_t i = 0; i < put.expected.count; ++i) {
      EXPECT_EQ(back->expected[i].algorithm, put.expected[i].algorithm);
      EXPECT_EQ(back->expected[i].value, put.expected[i].value);
    }
    ASSERT_EQ(back->headers.count, put.headers.count);
    for (size_t i = 0; i < put.headers.count; ++i) {
      EXPECT_EQ(back->headers[i].name, put.headers[i].name);
      EXPECT_EQ(back->headers[i].value, put.headers[i].value);
    }
    EXPECT_EQ(as_text(back->inline_bytes), bytes);
    if (!bytes.empty()) {
      EXPECT_FALSE(decode_put(body, true)) << "inline bytes beside a window";
    }
  }
}

TEST(Bodies, APutIsExactlyItsBytes) {
  Put put;
  put.bucket = "bucket";
  put.key = "key";
  put.size = 3;
  put.headers.add({"content-type", "text/plain"});
  put.expected.add({Algorithm::crc32c, 0, "abcd"});
  auto body = encoded(put);
  for (char c : std::string("xyz")) body.push_back(static_cast<std::byte>(c));
  expect_exact(body, [](Bytes b) { return decode_put(b, false).has_value(); });
}

TEST(Bodies, APutWithAChecksumOfTheWrongLengthIsRefused) {
  Put put;
  put.bucket = "bucket";
  put.key = "key";
  put.expected.add({Algorithm::crc64nvme, 0, "short"});
  EXPECT_FALSE(decode_put(encoded(put), false));
}

TEST(Bodies, HelloDeleteAndListAreExactlyTheirBytes) {
  const Hello hello{.message_size_max = 16384, .address = "address"};
  expect_exact(encoded(hello), [](Bytes b) { return decode_hello(b).has_value(); });
  const Delete del{.bucket = "b", .key = "k", .if_match = "e"};
  expect_exact(encoded(del), [](Bytes b) { return decode_delete(b).has_value(); });
  List list;
  list.bucket = "b";
  list.prefix = "p/";
  list.delimiter = "/";
  list.after = "p/q";
  list.max_keys = 10;
  expect_exact(encoded(list), [](Bytes b) { return decode_list(b).has_value(); });
  EXPECT_EQ(decode_list(encoded(list))->after, "p/q");
}

TEST(Bodies, AppendAndRenameAreExactlyTheirBytes) {
  Append append{.offset = 12345, .put = {}};
  append.put.bucket = "bucket";
  append.put.key = "key";
  append.put.size = 3;
  auto body = encoded(append);
  for (char c : std::string("xyz")) body.push_back(static_cast<std::byte>(c));
  expect_exact(body, [](Bytes b) { return decode_append(b, false).has_value(); });
  const auto back = decode_append(body, false);
  EXPECT_EQ(back->offset, 12345u);
  EXPECT_EQ(as_text(back->put.inline_bytes), "xyz");
  EXPECT_FALSE(decode_append(body, true)) << "inline bytes beside a window";

  const Rename rename{.bucket = "b",
                      .from = "f",
                      .to = "t",
                      .source_if_match = "s",
                      .if_match = "m",
                      .if_none_match = "*",
                      .token = "once"};
  expect_exact(encoded(rename), [](Bytes b) { return decode_rename(b).has_value(); });
  const auto encoded_rename = encoded(rename);
  const auto renamed = decode_rename(encoded_rename);
  EXPECT_EQ(renamed->from, "f");
  EXPECT_EQ(renamed->to, "t");
  EXPECT_EQ(renamed->token, "once");
  const std::string long_key(key_size_max + 1, 'k');
  EXPECT_FALSE(decode_rename(encoded(Rename{.bucket = "b", .from = long_key, .to = "t"})));
}

TEST(Bodies, KeysLongerThanS3AllowsAreRefused) {
  const std::string key(key_size_max + 1, 'k');
  Get get;
  get.bucket = "b";
  get.key = key;
  EXPECT_FALSE(decode_get(encoded(get)));
}

TEST(Bodies, AnObjectReplySurvivesTheWire) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    ObjectReply reply;
    reply.partial = random.below(2) == 0;
    reply.length = random.u64();
    reply.object_size = random.u64();
    reply.modified_us = static_cast<int64_t>(random.u64());
    reply.parts = static_cast<uint32_t>(random.u64());
    reply.etag = random.text(255);
    reply.version = random.text(255);
    for (size_t i = random.below(checksums_max + 1); i > 0; --i) reply.checksums.add(random.checksum());
    for (size_t i = random.below(ranges_max + 1); i > 0; --i) reply.ranges.add({random.u64(), random.u64()});
    for (size_t i = random.below(headers_max + 1); i > 0; --i) reply.headers.add({random.text(40), random.text(300)});
    const std::string_view bytes = random.text(5000);
    reply.inline_size = static_cast<uint32_t>(bytes.size());
    auto body = encoded(reply);
    body.insert(body.end(), as_bytes(bytes).begin(), as_bytes(bytes).end());
    const auto back = decode_object_reply(body);
    ASSERT_TRUE(back) << seed;
    EXPECT_EQ(back->partial, reply.partial);
    EXPECT_EQ(back->length, reply.length);
    EXPECT_EQ(back->etag, reply.etag);
    EXPECT_EQ(back->checksums.count, reply.checksums.count);
    EXPECT_EQ(back->ranges.count, reply.ranges.count);
    EXPECT_EQ(back->headers.count, reply.headers.count);
    EXPECT_EQ(as_text(back->inline_bytes), bytes);
    ObjectReply again = *back;
    auto twice = encoded(again);
    twice.insert(twice.end(), as_bytes(bytes).begin(), as_bytes(bytes).end());
    EXPECT_EQ(twice, body);
  }
}

TEST(Bodies, AnObjectReplyIsExactlyItsBytes) {
  ObjectReply reply;
  reply.etag = "etag-1";
  reply.checksums.add({Algorithm::crc32, 2, "abcd"});
  reply.headers.add({"x-amz-meta-a", "b"});
  expect_exact(encoded(reply), [](Bytes b) { return decode_object_reply(b).has_value(); });
}

TEST(Bodies, AWriterThatRanOutSaysSo) {
  std::byte space[10];
  Writer out{MutableBytes(space)};
  Get get;
  get.bucket = "bucket";
  get.key = "key";
  EXPECT_FALSE(encode(out, get));
}

}  // namespace
}  // namespace verbena::native::wire
