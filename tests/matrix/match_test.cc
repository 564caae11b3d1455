// MATCH through every door and fabric.
#include <gtest/gtest.h>

#include "world.h"

namespace verbena::matrix {
namespace {

// Hashes of a list, and the objects that they name.
class Blocks {
 public:
  Blocks(const std::string& space, size_t width) : space_(space), width_(width) {}
  std::vector<std::byte> hashes(unsigned from, unsigned count) const {
    std::vector<std::byte> all;
    for (unsigned i = from; i < from + count; ++i) {
      for (size_t at = 0; at < width_; ++at) all.push_back(static_cast<std::byte>(at < 2 ? i >> (8 * at) : 0xf0 + at));
    }
    return all;
  }
  void store(const Client& client, unsigned from, unsigned count, size_t size) const {
    std::vector<std::string> keys;
    std::vector<BatchItem> items;
    for (unsigned i = from; i < from + count; ++i) keys.push_back(space_ + "/" + to_hex(hashes(i, 1)));
    for (const std::string& key : keys) items.push_back({.bucket = "blocks", .key = key, .size = size});
    const Buffer from_buffer = *client.allocate(size);
    std::vector<BatchResult> results(items.size());
    ASSERT_TRUE(client.put_many(items, std::span(&from_buffer, 1), results));
    for (const auto& result : results) ASSERT_FALSE(result.error);
  }

 private:
  std::string space_;
  size_t width_;
};

TEST(MatrixMatch, LeadingKeysAreCountedByEveryWay) {
  World world;
  const auto ways = every_way();
  std::vector<Client> clients;
  for (const auto& way : ways) clients.push_back(world.client(way));
  ASSERT_TRUE(clients[0].make_bucket("blocks"));
  for (const size_t width : {16u, 32u}) {
    const std::string space = "model-" + std::to_string(width);
    const Blocks blocks(space, width);
    blocks.store(clients[0], 0, 1500, 64);
    blocks.store(clients[0], 1600, 40, 3);
    const unsigned counts[] = {2000, 40, 10};
    auto hashes = blocks.hashes(0, 2000);
    for (const unsigned from : {1600u, 1500u}) {
      const auto more = blocks.hashes(from, from == 1600 ? 40 : 10);
      hashes.insert(hashes.end(), more.begin(), more.end());
    }
    for (size_t i = 0; i < ways.size(); ++i) {
      SCOPED_TRACE(ways[i].name());
      const auto matched = clients[i].match("blocks", space, hashes, width, counts, {.sizes = true, .places = true});
      ASSERT_TRUE(matched) << matched.error().message;
      ASSERT_EQ(matched->lists.size(), 3u);
      EXPECT_EQ(matched->lists[0].leading, 1500u);
      EXPECT_EQ(matched->lists[0].ended, ErrorCode::no_such_key);
      EXPECT_EQ(matched->lists[1].leading, 40u);
      EXPECT_FALSE(matched->lists[1].ended);
      EXPECT_EQ(matched->lists[2].leading, 0u);
      EXPECT_EQ(matched->lists[1].runs.at(0).size, 3u);
      if (ways[i].via != Via::native) continue;
      EXPECT_EQ(matched->transfer.door, Via::native);
      EXPECT_EQ(matched->transfer.fell_back_reason, "");
      EXPECT_NE(matched->lists[0].runs.at(0).place, KeyPlace::unknown);
    }
  }
}

TEST(MatrixMatch, ALeaseKeepsWhatWasFound) {
  World world;
  for (const auto& way : every_way()) {
    if (way.via != Via::native) continue;
    SCOPED_TRACE(way.name());
    const Client client = world.client(way);
    (void)client.make_bucket("blocks");
    const Blocks blocks("leased", 16);
    blocks.store(client, 0, 20, 40'000);
    const auto hashes = blocks.hashes(0, 20);
    const uint32_t counts[] = {20};
    const auto matched =
        client.match("blocks", "leased", hashes, 16, counts, {.sizes = true, .lease = std::chrono::minutes(1)});
    ASSERT_TRUE(matched) << matched.error().message;
    ASSERT_NE(matched->lease, 0u);
    std::vector<std::string> keys;
    std::vector<BatchItem> items;
    for (unsigned i = 0; i < 20; ++i) keys.push_back("leased/" + to_hex(blocks.hashes(i, 1)));
    for (size_t i = 0; i < 20; ++i) {
      items.push_back({.bucket = "blocks", .key = keys[i], .offset = i * 40'000, .size = 40'000});
      ASSERT_TRUE(client.remove("blocks", keys[i]));
    }
    const Buffer into = *client.allocate(20 * 40'000);
    std::vector<BatchResult> results(20);
    ASSERT_TRUE(client.get_many(items, std::span(&into, 1), results, {.lease = matched->lease}));
    for (const auto& result : results) {
      EXPECT_FALSE(result.error);
      EXPECT_EQ(result.bytes, 40'000u);
    }
    ASSERT_TRUE(client.end_lease(matched->lease));
    ASSERT_TRUE(client.get_many(items, std::span(&into, 1), results, {.lease = matched->lease}));
    for (const auto& result : results) EXPECT_EQ(result.error, ErrorCode::no_such_key);
  }
}

TEST(MatrixMatch, TheLongestListIsOneCall) {
  World world;
  for (const auto& way : every_way()) {
    if (way.via != Via::native) continue;
    SCOPED_TRACE(way.name());
    const Client client = world.client(way);
    (void)client.make_bucket("blocks");
    const Blocks blocks("long", 16);
    blocks.store(client, 0, 4000, 8);
    // The same keys again and again.
    std::vector<std::byte> hashes;
    const auto once = blocks.hashes(0, 4000);
    while (hashes.size() < match_keys_max * 16) hashes.insert(hashes.end(), once.begin(), once.end());
    hashes.resize(match_keys_max * 16);
    const uint32_t counts[] = {match_keys_max};
    const auto matched = client.match("blocks", "long", hashes, 16, counts);
    ASSERT_TRUE(matched) << matched.error().message;
    EXPECT_EQ(matched->lists.at(0).leading, match_keys_max);
    const uint32_t too_many[] = {match_keys_max + 1};
    hashes.resize(hashes.size() + 16);
    EXPECT_EQ(client.match("blocks", "long", hashes, 16, too_many).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(client.match("blocks", "long", hashes, 17, counts).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(client.match("not-there", "long", once, 16, std::array<uint32_t, 1>{4000}).error().code,
              ErrorCode::no_such_bucket);
  }
}

}  // namespace
}  // namespace verbena::matrix
