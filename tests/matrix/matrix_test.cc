// The matrix: an object put through any door is the same through every other, on every fabric, and so are errors.
#include <gtest/gtest.h>

#include <algorithm>

#include "world.h"

namespace verbena::matrix {
namespace {

// Sizes around every boundary: empty, inline limits, the engine's small objects, blocks, chunks.
const std::vector<size_t> sizes{0,     1,     511,   513,   4095,    4096,          4097,    16 * 1024,
                                16385, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 5 << 20, (16 << 20) + 12345};

// Each way in with each way out; with `of` only pairs that include the native door on that fabric.
void compare_every_way(World& world, std::string_view of = "") {
  const auto ways = every_way();
  const auto is_of = [&](const Way& way) { return of.empty() || (way.via == Via::native && way.provider == of); };
  std::vector<Client> clients;
  for (const auto& way : ways) clients.push_back(world.client(way));
  ASSERT_TRUE(clients[0].make_bucket("matrix"));
  size_t transfers = 0, pairs = 0;
  for (const Way& in : ways) {
    for (const Way& out : ways) pairs += is_of(in) || is_of(out) ? 1 : 0;
  }
  ASSERT_GT(pairs, 0u);
  for (size_t in = 0; in < ways.size(); ++in) {
    for (const size_t size : sizes) {
      SCOPED_TRACE("put by " + ways[in].name() + ", " + std::to_string(size) + " bytes");
      const auto bytes = random_bytes(size, size * 31 + in);
      const std::string key = "dir/" + std::to_string(in) + "/ключ " + std::to_string(size);
      const auto put = clients[in].put("matrix", key, std::span(bytes),
                                       {.content_type = "application/x-test", .metadata = {{"who", "matrix"}}});
      ASSERT_TRUE(put) << put.error().message;
      // An empty object has nothing to lend: its token PUT is a plain one.
      if (size != 0 || ways[in].via != Via::token) {
        ASSERT_EQ(put->transfer.door, ways[in].via);
      }
      for (size_t out = 0; out < ways.size(); ++out) {
        if (!is_of(ways[in]) && !is_of(ways[out])) continue;
        SCOPED_TRACE("got by " + ways[out].name());
        std::vector<std::byte> back(size + 64, std::byte{0xee});
        const auto got = clients[out].get("matrix", key, std::span(back), {.metadata = true});
        ASSERT_TRUE(got) << got.error().message;
        ASSERT_EQ(got->transfer.door, ways[out].via) << got->transfer.fell_back_reason;
        ASSERT_EQ(got->bytes, size);
        ASSERT_EQ(got->info.size, size);
        ASSERT_TRUE(same(bytes, std::span(back).first(size))) << "bytes differ";
        ASSERT_EQ(got->info.etag, put->etag);
        ASSERT_EQ(got->info.content_type, "application/x-test");
        ASSERT_EQ(got->info.metadata.at("who"), "matrix");
        const auto head = clients[out].head("matrix", key);
        ASSERT_TRUE(head) << head.error().message;
        ASSERT_EQ(head->etag, put->etag);
        ASSERT_EQ(head->size, size);
        ++transfers;
      }
    }
  }
  EXPECT_EQ(transfers, pairs * sizes.size());
}

TEST(Matrix, EveryWayInAndEveryWayOutGiveTheSameBytesAndMetadata) {
  World world;
  compare_every_way(world);
}

// All other tests encrypt the native door's tcp.
TEST(Matrix, TheSameWithoutEncryption) {
  const auto providers = test_providers();
  if (std::ranges::find(providers, "tcp") == providers.end()) GTEST_SKIP() << "tcp is not among the fabrics";
  Config config = test_config();
  config.rdma.tcp_encryption = false;
  World world(config);
  compare_every_way(world, "tcp");
}

TEST(Matrix, RangesAreTheSameThroughEveryDoor) {
  World world;
  const size_t size = 3'000'000;
  const auto bytes = random_bytes(size, 5);
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("ranges"));
  ASSERT_TRUE(world.client(ways[0]).put("ranges", "k", std::span(bytes)));
  const Range ranges[] = {{0, 1}, {65'535, 2}, {1, 65'536}, {1'000'000, 1'048'577}, {size - 1, 1}, {2'999'000, 0}};
  for (const auto& way : ways) {
    auto client = world.client(way);
    for (const auto& range : ranges) {
      SCOPED_TRACE(way.name() + " " + std::to_string(range.offset) + "+" + std::to_string(range.length));
      const size_t length = range.length == 0 ? size - range.offset : range.length;
      std::vector<std::byte> back(length);
      const auto got = client.get("ranges", "k", std::span(back), {.range = range});
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(got->bytes, length);
      ASSERT_TRUE(same(back, std::span(bytes).subspan(range.offset, back.size())));
    }
  }
}

TEST(Matrix, ErrorsAreTheSameThroughEveryDoor) {
  World world;
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("errors"));
  const auto bytes = random_bytes(1000, 1);
  const auto put = world.client(ways[0]).put("errors", "k", std::span(bytes));
  ASSERT_TRUE(put);
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name());
    auto client = world.client(way);
    std::vector<std::byte> back(2000);
    EXPECT_EQ(client.get("errors", "absent", std::span(back)).error().code, ErrorCode::no_such_key);
    EXPECT_EQ(client.get("no-such-bucket", "k", std::span(back)).error().code, ErrorCode::no_such_bucket);
    EXPECT_EQ(client.get("errors", "k", std::span(back), {.range = Range{1000, 1}}).error().code,
              ErrorCode::invalid_range);
    EXPECT_EQ(client.get("errors", "k", std::span(back), {.if_match = "0123456789abcdef0123456789abcdef"}).error().code,
              ErrorCode::precondition_failed);
    EXPECT_EQ(client.get("errors", "k", std::span(back), {.if_none_match = put->etag}).error().code,
              ErrorCode::not_modified);
    EXPECT_EQ(client.put("errors", "k", std::span(bytes), {.if_none_match = "*"}).error().code,
              ErrorCode::precondition_failed);
    EXPECT_EQ(client.put("no-such-bucket", "k", std::span(bytes)).error().code, ErrorCode::no_such_bucket);
    EXPECT_EQ(client.head("errors", "absent").error().code, ErrorCode::no_such_key);
    EXPECT_FALSE(client.put("errors", std::string(1025, 'k'), std::span(bytes)));
    EXPECT_TRUE(client.remove("errors", "absent"));
  }
  EXPECT_EQ(world.client(ways[0]).head("errors", "k")->etag, put->etag) << "a refused PUT changed the object";
}

TEST(Matrix, KeysMayHoldAnyByteThatUtf8Allows) {
  World world;
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("keys"));
  std::vector<std::string> keys{
      std::string(1024, 'k'), "a b+c%20d&e=f?g#h", "\xf0\x9f\x8c\xbf/\xc3\xa9", "..", "a//b", "/",
      "quote\"<>&'",          "back\\slash",       "tab\tnew\nline\x01\x7f"};
  const auto bytes = random_bytes(300, 2);
  for (const auto& in : ways) {
    auto putter = world.client(in);
    for (const auto& key : keys) {
      const auto put = putter.put("keys", key, std::span(bytes));
      ASSERT_TRUE(put) << in.name() << ": " << put.error().message;
    }
    for (const auto& out : ways) {
      auto getter = world.client(out);
      for (const auto& key : keys) {
        std::vector<std::byte> back(300);
        const auto got = getter.get("keys", key, std::span(back));
        ASSERT_TRUE(got) << out.name() << " " << key << ": " << got.error().message;
        ASSERT_EQ(back, bytes);
      }
      size_t listed = 0;
      ASSERT_TRUE(getter.for_each("keys", "", [&](const ObjectInfo& info) {
        listed += static_cast<size_t>(std::count(keys.begin(), keys.end(), info.key));
        return true;
      }));
      ASSERT_EQ(listed, keys.size()) << out.name();
    }
  }
}

}  // namespace
}  // namespace verbena::matrix
