// Batches through every door and fabric: objects put by one are read, headed and removed by every other, and an item's
// failure affects only that item.
#include <gtest/gtest.h>

#include "base/metrics.h"
#include "world.h"

namespace verbena::matrix {
namespace {

struct Set {
  std::vector<std::string> keys;
  std::vector<size_t> sizes, offsets;
  size_t bytes = 0;

  explicit Set(const std::string& prefix, size_t count, bool large = true) {
    const size_t around[] = {0, 1, 255, 257, 511, 513, 1023, 1025, 4096, 4097, 65'537, 300'000, 600'001};
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(prefix + "/" + std::to_string(i) + "/ключ");
      sizes.push_back(around[i % (large ? std::size(around) : 10)]);
      offsets.push_back(bytes);
      bytes += sizes.back() + 3;
    }
  }
  std::vector<BatchItem> items() const {
    std::vector<BatchItem> items;
    for (size_t i = 0; i < keys.size(); ++i) {
      items.push_back({.bucket = "batches", .key = keys[i], .offset = offsets[i], .size = sizes[i]});
    }
    return items;
  }
};

Buffer buffer_of(const Client& client, size_t size, uint64_t seed) {
  auto buffer = client.allocate(size);
  EXPECT_TRUE(buffer);
  const auto bytes = random_bytes(size, seed);
  std::copy(bytes.begin(), bytes.end(), buffer->bytes().begin());
  return *buffer;
}

TEST(MatrixBatches, WhatIsPutByOneWayIsGotByEveryOther) {
  World world;
  const auto ways = every_way();
  std::vector<Client> clients;
  for (const auto& way : ways) clients.push_back(world.client(way));
  ASSERT_TRUE(clients[0].make_bucket("batches"));
  for (size_t in = 0; in < ways.size(); ++in) {
    SCOPED_TRACE("put by " + ways[in].name());
    const Set set(std::to_string(in), 40);
    const auto items = set.items();
    const Buffer from = buffer_of(clients[in], set.bytes, in + 1);
    std::vector<BatchResult> stored(items.size()), got(items.size());
    const auto put = clients[in].put_many(items, std::span(&from, 1), stored);
    ASSERT_TRUE(put) << put.error().message;
    if (ways[in].via == Via::native) {
      EXPECT_EQ(put->door, Via::native);
      EXPECT_EQ(put->fell_back_reason, "");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_FALSE(stored[i].error) << set.keys[i] << " " << to_string(*stored[i].error);
      ASSERT_FALSE(stored[i].etag.empty());
    }
    for (size_t out = 0; out < ways.size(); ++out) {
      SCOPED_TRACE("got by " + ways[out].name());
      const Buffer into = *clients[out].allocate(set.bytes);
      std::ranges::fill(into.bytes(), std::byte{0xee});
      size_t leading = 0;
      const auto moved = clients[out].get_many(items, std::span(&into, 1), got, {.in_order = [&](size_t n) {
                                                 EXPECT_GT(n, leading);
                                                 leading = n;
                                               }});
      ASSERT_TRUE(moved) << moved.error().message;
      EXPECT_EQ(leading, items.size());
      std::vector<BatchResult> heads(items.size());
      ASSERT_TRUE(clients[out].head_many(items, heads));
      for (size_t i = 0; i < items.size(); ++i) {
        ASSERT_FALSE(got[i].error) << set.keys[i] << " " << to_string(*got[i].error);
        ASSERT_EQ(got[i].bytes, set.sizes[i]);
        ASSERT_EQ(got[i].etag, stored[i].etag);
        ASSERT_FALSE(heads[i].error);
        ASSERT_EQ(heads[i].size, set.sizes[i]);
        ASSERT_EQ(heads[i].etag, stored[i].etag);
        const auto is = into.bytes().subspan(set.offsets[i], set.sizes[i]);
        const auto was = from.bytes().subspan(set.offsets[i], set.sizes[i]);
        ASSERT_TRUE(same(is, was)) << set.keys[i] << ": bytes differ";
        ASSERT_EQ(into.data()[set.offsets[i] + set.sizes[i]], std::byte{0xee}) << "written past the place";
      }
    }
    std::vector<BatchResult> removed(items.size());
    ASSERT_TRUE(clients[in].remove_many(items, removed));
    for (const auto& result : removed) ASSERT_FALSE(result.error);
    ASSERT_TRUE(clients[in].head_many(items, got));
    for (const auto& result : got) ASSERT_EQ(result.error, ErrorCode::no_such_key);
  }
}

TEST(MatrixBatches, AnItemsFailureIsItsOwn) {
  World world;
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("batches"));
  const auto bytes = random_bytes(10'000, 1);
  const auto stored = world.client(ways[0]).put("batches", "there", std::span(bytes));
  ASSERT_TRUE(stored);
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name());
    auto client = world.client(way);
    const Buffer into = *client.allocate(100'000);
    std::ranges::fill(into.bytes(), std::byte{0});
    std::vector<BatchItem> items{
        {.bucket = "batches", .key = "there", .offset = 0, .size = 10'000},
        {.bucket = "batches", .key = "absent", .offset = 10'000, .size = 10'000},
        {.bucket = "no-such-bucket", .key = "there", .offset = 20'000, .size = 10'000},
        {.bucket = "batches", .key = "there", .offset = 30'000, .size = 9'999},
        {.bucket = "batches", .key = "there", .offset = 40'000, .size = 100, .range = Range{5'000, 100}},
        {.bucket = "batches", .key = "there", .offset = 50'000, .size = 100, .range = Range{10'000, 100}},
        {.bucket = "batches", .key = "there", .offset = 60'000, .size = 10'000, .if_match = "nonesuch"},
        {.bucket = "batches", .key = "there", .offset = 70'000, .size = 10'000, .if_none_match = stored->etag},
        {.bucket = "batches", .key = "there", .offset = 80'000, .size = 20'000},
    };
    std::vector<BatchResult> results(items.size());
    ASSERT_TRUE(client.get_many(items, std::span(&into, 1), results));
    const std::optional<ErrorCode> wanted[] = {
        {}, ErrorCode::no_such_key,   ErrorCode::no_such_bucket,      ErrorCode::buffer_too_small,
        {}, ErrorCode::invalid_range, ErrorCode::precondition_failed, ErrorCode::not_modified,
        {}};
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(results[i].error, wanted[i]) << i;
    const auto at = [&](size_t offset, size_t size) { return into.bytes().subspan(offset, size); };
    EXPECT_TRUE(same(at(0, 10'000), bytes));
    EXPECT_TRUE(same(at(40'000, 100), std::span(bytes).subspan(5'000, 100)));
    EXPECT_TRUE(same(at(80'000, 10'000), bytes));
    EXPECT_EQ(results[8].bytes, 10'000u);
    // Writes, among them one that must not replace an existing object.
    const Buffer from = buffer_of(client, 3'000, 9);
    std::vector<BatchItem> writes{{.bucket = "batches", .key = way.name() + "/a", .offset = 0, .size = 1'000},
                                  {.bucket = "batches", .key = "there", .size = 10, .if_none_match = "*"},
                                  {.bucket = "no-such-bucket", .key = "b", .offset = 0, .size = 1'000}};
    const std::string key = way.name() + "/a";
    writes[0].key = key;
    std::vector<BatchResult> written(3);
    ASSERT_TRUE(client.put_many(writes, std::span(&from, 1), written));
    EXPECT_FALSE(written[0].error);
    EXPECT_EQ(written[1].error, ErrorCode::precondition_failed);
    EXPECT_EQ(written[2].error, ErrorCode::no_such_bucket);
    EXPECT_EQ(client.head("batches", "there")->etag, stored->etag);
    EXPECT_EQ(client.head("batches", key)->size, 1'000u);
  }
}

TEST(MatrixBatches, ThousandsOfKeysFitOneCall) {
  World world;
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("batches"));
  for (const auto& way : ways) {
    if (way.via != Via::native) continue;
    SCOPED_TRACE(way.name());
    auto client = world.client(way);
    const Set set("a/prefix/that/they/share/" + way.provider, batch_items_max, false);
    const auto items = set.items();
    const Buffer from = buffer_of(client, set.bytes, 3), into = *client.allocate(set.bytes);
    std::vector<BatchResult> results(items.size());
    auto put = client.put_many(items, std::span(&from, 1), results);
    ASSERT_TRUE(put) << put.error().message;
    for (const auto& result : results) ASSERT_FALSE(result.error) << to_string(*result.error);
    ASSERT_TRUE(client.get_many(items, std::span(&into, 1), results));
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_FALSE(results[i].error) << i;
      ASSERT_TRUE(
          same(into.bytes().subspan(set.offsets[i], set.sizes[i]), from.bytes().subspan(set.offsets[i], set.sizes[i])));
    }
    ASSERT_TRUE(client.remove_many(items, results));
    for (const auto& result : results) ASSERT_FALSE(result.error);
  }
}

TEST(MatrixBatches, ABatchOfPutsSharesItsCommits) {
  World world;
  auto client = world.client({Via::native, test_providers().front()});
  ASSERT_TRUE(client.make_bucket("batches", BucketDurability::sync));
  Set set("commits", 256, false);
  const auto items = set.items();
  const Buffer from = buffer_of(client, set.bytes, 1);
  std::vector<BatchResult> results(items.size());
  // A group of commits is one sync of the log and one of each volume that it wrote to.
  auto& commits = metrics::counter("verbena_store_commits_total", "");
  auto& groups = metrics::counter("verbena_store_commit_groups_total", "");
  const uint64_t commits_before = commits.value(), groups_before = groups.value();
  ASSERT_TRUE(client.put_many(items, std::span(&from, 1), results));
  for (const auto& result : results) ASSERT_FALSE(result.error);
  EXPECT_GE(commits.value() - commits_before, 256u);
  EXPECT_LE(groups.value() - groups_before, 128u) << "256 objects, stored by one call";
}

TEST(MatrixBatches, WhatIsNoBatchIsRefusedBeforeAnythingIsSent) {
  World world;
  const auto ways = every_way();
  ASSERT_TRUE(world.client(ways[0]).make_bucket("batches"));
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name());
    auto client = world.client(way);
    const Buffer window = *client.allocate(1000);
    std::vector<BatchResult> results(2);
    const auto refused = [&](std::vector<BatchItem> items, bool put) {
      const auto done = put ? client.put_many(items, std::span(&window, 1), results)
                            : client.get_many(items, std::span(&window, 1), results);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
    };
    refused({}, false);
    refused({{.bucket = "batches", .key = "a", .offset = 999, .size = 2}}, false);
    refused({{.bucket = "batches", .key = "a", .size = 1, .window = 1}}, false);
    refused({{.bucket = "batches", .key = "a", .size = 10}, {.bucket = "batches", .key = "b", .offset = 9, .size = 1}},
            false);
    refused({{.bucket = "batches", .key = "a", .size = 10}, {.bucket = "batches", .key = "a", .size = 1}}, true);
    refused({{.bucket = "batches", .key = ""}}, true);
  }
}

// All pages of a prefix, by one door.
void expect_values(const Client& client, const Set& set, std::span<const std::byte> was, const std::string& prefix) {
  const Buffer into = *client.allocate(300'000);
  ValueOptions options{.prefix = prefix, .value_size_max = 70'000, .max_keys = 17};
  size_t seen = 0;
  for (int pages = 0; pages < 50; ++pages) {
    const auto page = client.list_values("batches", into, options);
    ASSERT_TRUE(page) << page.error().message;
    for (const ListedValue& value : page->values) {
      const auto found = std::ranges::find(set.keys, value.info.key);
      ASSERT_NE(found, set.keys.end()) << value.info.key;
      const auto i = static_cast<size_t>(found - set.keys.begin());
      ASSERT_FALSE(value.error) << value.info.key;
      ASSERT_EQ(value.info.size, set.sizes[i]);
      ASSERT_EQ(value.offset.has_value(), set.sizes[i] <= 70'000) << value.info.key;
      if (value.offset) {
        ASSERT_TRUE(same(into.bytes().subspan(*value.offset, set.sizes[i]), was.subspan(set.offsets[i], set.sizes[i])))
            << value.info.key << ": bytes differ";
      }
      ++seen;
    }
    if (!page->truncated) break;
    ASSERT_FALSE(page->values.empty());
    options.after = page->values.back().info.key;
  }
  EXPECT_EQ(seen, set.keys.size());
}

TEST(MatrixBatches, AListingBringsItsValuesByEveryWay) {
  World world;
  const auto ways = every_way();
  auto first = world.client(ways[0]);
  ASSERT_TRUE(first.make_bucket("batches"));
  const Set set("values", 60);
  const auto items = set.items();
  const Buffer from = buffer_of(first, set.bytes, 5);
  std::vector<BatchResult> stored(items.size());
  ASSERT_TRUE(first.put_many(items, std::span(&from, 1), stored));
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name());
    const auto client = world.client(way);
    const Buffer into = *client.allocate(1000);
    const auto one = client.list_values("batches", into, {.prefix = "values/", .value_size_max = 10, .max_keys = 3});
    ASSERT_TRUE(one);
    if (way.via == Via::native) {
      EXPECT_EQ(one->transfer.door, Via::native);
      EXPECT_EQ(one->transfer.fell_back_reason, "");
    }
    expect_values(client, set, from.bytes(), "values/");
  }
  for (const auto& way : ways) {
    SCOPED_TRACE(way.name());
    const auto client = world.client(way);
    const auto none = client.list_values("batches", *client.allocate(10), {.prefix = "nothing/"});
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->values.empty());
    const auto absent = client.list_values("no-such-bucket", *client.allocate(10));
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, ErrorCode::no_such_bucket);
  }
}

// All other tests encrypt.
TEST(MatrixBatches, TcpCarriesThemWithoutEncryptionToo) {
  const auto providers = test_providers();
  if (std::ranges::find(providers, "tcp") == providers.end()) GTEST_SKIP() << "no tcp here";
  Config config = test_config();
  config.rdma.tcp_encryption = false;
  World world(std::move(config));
  const auto client = world.client({Via::native, "tcp"});
  ASSERT_TRUE(client.make_bucket("batches"));
  const Set set("clear", 60);
  const auto items = set.items();
  const Buffer from = buffer_of(client, set.bytes, 8), into = *client.allocate(set.bytes);
  std::vector<BatchResult> results(items.size());
  ASSERT_TRUE(client.put_many(items, std::span(&from, 1), results));
  const auto moved = client.get_many(items, std::span(&into, 1), results);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->provider, "tcp");
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_FALSE(results[i].error);
    ASSERT_TRUE(
        same(into.bytes().subspan(set.offsets[i], set.sizes[i]), from.bytes().subspan(set.offsets[i], set.sizes[i])));
  }
  expect_values(client, set, from.bytes(), "clear/");
}

}  // namespace
}  // namespace verbena::matrix
