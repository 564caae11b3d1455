// The index alone, and objects in it, when RocksDB has more tables than it keeps open.
#include "store/local/batch.h"

#include "base/metrics.h"
#include "store/local/index_checksum.h"
#include "store/local/seam_env.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

TEST(IndexTest, RocksDBComputesCrc32cByOurFunction) { EXPECT_TRUE(lends_checksum()); }

// RocksDB opens only a few tables at the start if the number of open ones is bounded. Asked for a key of another one
// without going to disk it returns "found, and empty".
TEST(IndexTest, AKeyInATableThatIsNotOpenNeedsTheDiskAndIsNotEmpty) {
  constexpr int tables = 12;
  FaultyFileSystem fs;
  const auto env = make_seam_env(fs);
  ASSERT_TRUE(fs.make_directory("/index"));
  const auto open = [&] {
    return Index::open({.directory = "/index", .env = env.get(), .open_files_max = 1, .create = true});
  };
  const auto key = [](int i) { return "k" + std::to_string(i); };
  for (int i = 0; i < tables; ++i) {
    auto index = open();  // writes what the log has into a table
    ASSERT_TRUE(index);
    Batch batch(**index);
    batch.put(Family::in_index, key(i), pattern(100, static_cast<uint64_t>(i)));
    batch.put(Family::objects, key(i), pattern(100, static_cast<uint64_t>(i)));
    batch.put(Family::meta, key(i), "");
    ASSERT_TRUE((*index)->write(batch));
  }
  auto index = open();
  ASSERT_TRUE(index);
  int not_open = 0;
  for (Family family : {Family::in_index, Family::objects}) {
    for (int i = 0; i < tables; ++i) {
      const auto cached = (*index)->get(family, key(i), Tier::cached);
      not_open += cached ? 0 : 1;
      if (cached) {
        EXPECT_EQ(*cached, pattern(100, static_cast<uint64_t>(i))) << key(i);
      } else {
        EXPECT_EQ(cached.error(), Errc::would_block) << key(i);
      }
      EXPECT_EQ(*(*index)->get(family, key(i), Tier::disk), pattern(100, static_cast<uint64_t>(i))) << key(i);
    }
  }
  EXPECT_GT(not_open, 0) << "all tables are open: this shows nothing";
  for (int i = 0; i < tables; ++i) EXPECT_EQ(*(*index)->get(Family::meta, key(i)), "");
  EXPECT_EQ((*index)->get(Family::in_index, "none").error(), Errc::not_found);
}

// Found by kill -9: each start after a crash writes tables, until there are more than RocksDB opens.
TEST(IndexTest, SmallObjectsAreWholeAfterMoreStartsThanTablesStayOpen) {
  constexpr int starts = 12;
  auto& damaged = metrics::counter("verbena_store_corrupt_reads_total", "");
  const uint64_t before = damaged.value();
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.options.open_index_files_max = 1;
  t.open();
  t.make_bucket("b");
  const auto name = [](int i) { return "k" + std::to_string(i); };
  for (int i = 0; i < starts; ++i) {
    ASSERT_TRUE(t.put("b", name(i), pattern(1000, static_cast<uint64_t>(i))));
    ASSERT_TRUE(t.put("b", "large-" + name(i), pattern(100'000, static_cast<uint64_t>(i))));
    t.reopen();
  }
  for (int i = 0; i < starts; ++i) {
    const auto small = t.get("b", name(i)), large = t.get("b", "large-" + name(i));
    ASSERT_TRUE(small) << name(i) << ": " << describe(small.error());
    EXPECT_EQ(*small, pattern(1000, static_cast<uint64_t>(i)));
    ASSERT_TRUE(large) << name(i) << ": " << describe(large.error());
    EXPECT_TRUE(*large == pattern(100'000, static_cast<uint64_t>(i)));
  }
  EXPECT_EQ(damaged.value(), before);
}

// The refused change is in the log, whole. If recover() returned before the tables are written, a crash right after it
// would bring it back.
TEST(IndexTest, WhatWasRefusedDoesNotComeBackAfterACrashRightAfterTheRecovery) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    FaultyFileSystem fs;
    const auto env = make_seam_env(fs);
    ASSERT_TRUE(fs.make_directory("/index"));
    const auto open = [&] { return Index::open({.directory = "/index", .env = env.get(), .create = true}); };
    {
      auto index = *open();
      Batch first(*index);
      first.put(Family::objects, "k", "before");
      ASSERT_TRUE(index->write(first));
      ASSERT_TRUE(index->sync());
      Batch refused(*index);
      refused.put(Family::objects, "k", "refused");
      refused.put(Family::meta, "m", pattern(2 * MiB, seed));
      ASSERT_TRUE(index->write_hidden(refused));
      fs.fail_at(0, FaultyFileSystem::Fault::no_space);
      ASSERT_FALSE(index->make_durable({&refused}));
      ASSERT_TRUE(index->recover());
      fs.fail_at(0, FaultyFileSystem::Fault::crash);
    }
    fs.crash(FaultyFileSystem::Loss::nothing, seed);
    auto index = open();
    ASSERT_TRUE(index);
    EXPECT_EQ(*(*index)->get(Family::objects, "k"), "before") << seed;
    EXPECT_EQ((*index)->get(Family::meta, "m").error(), Errc::not_found) << seed;
  }
}

}  // namespace
}  // namespace verbena::store::local
