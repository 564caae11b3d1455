// The index's work for a page.
#include <fmt/format.h>

#include "base/metrics.h"
#include "store/local/index.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

class Listing : public ::testing::Test {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b", Durability::memory);
  }
  void put(std::initializer_list<std::string> keys) {
    for (const std::string& key : keys) ASSERT_TRUE(t.put("b", key, key));
  }
  static std::vector<std::string> keys_of(const ListPage& page) {
    std::vector<std::string> keys;
    for (const ListEntry& entry : page.entries) keys.push_back(entry.key);
    return keys;
  }
  using Keys = std::vector<std::string>;
  FaultyFileSystem fs;
  TestStore t{&fs};
};

// The index's work while `work` runs.
template <class Work>
IndexWork count(Work work) {
  const IndexWork before = index_work();
  work();
  const IndexWork after = index_work();
  return {.gets = after.gets - before.gets,
          .seeks = after.seeks - before.seeks,
          .steps = after.steps - before.steps,
          .skipped = after.skipped - before.skipped,
          .blocks = after.blocks - before.blocks,
          .blocks_read = after.blocks_read - before.blocks_read};
}

TEST_F(Listing, APageCostsWhatItShowsNotWhatItsPrefixesHide) {
  for (int i = 0; i < 600; ++i) put({fmt::format("{}/{:03}", i % 3, i)});
  t.store->drain();
  const auto folders = count([&] {
    auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = "", .max_keys = 1000});
    ASSERT_EQ(page->common_prefixes, (Keys{"0/", "1/", "2/"}));
  });
  EXPECT_LE(folders.seeks, 4u);
  EXPECT_EQ(folders.steps, 0u);
  const auto keys = count([&] {
    auto page = t.list("b", {.prefix = "1/", .delimiter = "/", .after = "1/300", .max_keys = 10});
    ASSERT_EQ(page->entries.front().key, "1/301");
    ASSERT_TRUE(page->truncated);
  });
  EXPECT_LE(keys.seeks, 2u);
  EXPECT_LE(keys.steps, 11u);
}

// A wake-up of another thread costs more than a short page.
TEST_F(Listing, AShortPageOfRowsInMemoryNeedsNoOtherThread) {
  auto& calls = metrics::counter("verbena_blocking_calls_total", "", {{"reason", "object list"}});
  t.make_bucket("c");
  for (int i = 1000; i < 1600; ++i) ASSERT_TRUE(t.put("c", std::to_string(i), "1"));
  const uint64_t before = calls.value();
  ListRequest request;
  request.max_keys = 100;
  EXPECT_EQ(t.list("c", request)->entries.size(), 100u);
  EXPECT_EQ(calls.value(), before);
  const auto long_one = count([&] { EXPECT_EQ(t.list("c")->entries.size(), 600u); });
  EXPECT_EQ(calls.value(), before + 1);
  EXPECT_LE(long_one.steps, 600u) << "goes on where it was";
  EXPECT_EQ(long_one.seeks, 1u);
}

TEST_F(Listing, RowsThatAreNotInMemoryAreReadByAnotherThread) {
  t.make_bucket("c");
  for (int i = 1000; i < 1600; ++i) ASSERT_TRUE(t.put("c", std::to_string(i), std::string(100, 'x')));
  t.reopen();
  Keys keys;
  ListRequest request;
  request.max_keys = 100;
  for (bool more = true; more;) {
    const auto page = t.list("c", request);
    ASSERT_TRUE(page);
    for (const ListEntry& entry : page->entries) keys.push_back(entry.key);
    more = page->truncated;
    request.after = page->next_after;
  }
  ASSERT_EQ(keys.size(), 600u);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], std::to_string(1000 + i));
}

TEST_F(Listing, DoesNotStepOverWhatWasRemovedFromItsNeighbour) {
  t.make_bucket("c");
  put({"x"});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(t.put("c", std::to_string(i), "1"));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(t.remove("c", std::to_string(i)));
  const auto page = count([&] { EXPECT_EQ(t.list("b")->entries.size(), 1u); });
  EXPECT_EQ(page.skipped, 0u);
  EXPECT_LE(page.steps, 1u);
}

}  // namespace
}  // namespace verbena::store::local
