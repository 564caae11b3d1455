// Usage in the local engine: updated in the batch of the change, and counted if an older program stored none.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "store/local/batch.h"
#include "store/local/engine.h"
#include "store/local/fsck.h"
#include "store/local/recount.h"
#include "store/local/seam_env.h"
#include "store/local/test_store.h"
#include "store/logic/usage.h"

namespace verbena::store::local {
namespace {

class LocalUsage : public ::testing::Test {
 protected:
  LocalUsage() : t(&fs) {
    t.open();
    t.make_bucket("b");
    EXPECT_TRUE(t.put("b", "a", pattern(100, 1)));
    EXPECT_TRUE(t.put("b", "large", pattern(300'000, 2)));
    EXPECT_TRUE(t.set_versioning("b", Versioning::enabled));
    EXPECT_TRUE(t.put("b", "a", pattern(20, 1)));
    const auto upload = t.start_upload("b", "never");
    EXPECT_TRUE(upload && t.put_part(*upload, 3, pattern(70'000, 5)));
  }
  static constexpr Usage wanted{
      .objects = 2, .bytes = 300'020, .versions = 1, .version_bytes = 100, .uploads = 1, .upload_bytes = 70'000};

  // Changes the rows of usage without the store's knowledge.
  void edit(const std::function<void(Batch&, const std::string& key)>& change) {
    t.close();
    const auto env = make_seam_env(fs);
    auto index = Index::open({.directory = "/store/index", .env = env.get()});
    ASSERT_TRUE(index);
    Batch batch(**index);
    Cursor cursor = (*index)->cursor(Family::meta, "u");
    int rows = 0;
    for (; cursor.valid(); cursor.next(), ++rows) change(batch, std::string(cursor.key()));
    ASSERT_EQ(rows, 1);
    ASSERT_TRUE((*index)->write(batch));
    ASSERT_TRUE((*index)->sync());
  }
  void forget() {
    edit([](Batch& batch, const std::string& key) { batch.erase(Family::meta, key); });
  }
  void wait_until_counted() {
    for (int i = 0; i < 10'000 && !t.engine().usage_now("b")->bucket_counted; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(t.engine().usage_now("b")->owner_counted);
  }
  FsckReport check() {
    t.close();
    auto report = fsck({.directory = "/store", .fs = &fs});
    EXPECT_TRUE(report) << describe(report.error());
    return report ? *report : FsckReport{};
  }

  FaultyFileSystem fs;
  TestStore t;
};

TEST_F(LocalUsage, AStoreOfAnOlderProgramIsCountedAtItsFirstStart) {
  forget();
  t.open();
  wait_until_counted();
  EXPECT_EQ(t.usage("b").value(), wanted);
  t.reopen();
  EXPECT_TRUE(t.engine().usage_now("b")->bucket_counted) << "it was counted once";
  EXPECT_EQ(t.usage("b").value(), wanted);
  EXPECT_FALSE(check().damaged());
}

TEST_F(LocalUsage, ChangesWhileItIsCountedCountOnce) {
  for (int round = 0; round < 5; ++round) {
    forget();
    t.open();
    // Concurrently with the count: some before it, some after.
    ASSERT_TRUE(t.put("b", "a", pattern(20, 1)));
    ASSERT_TRUE(t.remove("b", "large"));
    ASSERT_TRUE(t.put("b", "large", pattern(300'000, 2)));
    wait_until_counted();
    EXPECT_EQ(t.usage("b").value(), t.usage_by_listing("b").value());
    EXPECT_EQ(t.engine().usage_now("b")->owner, t.usage("b").value());
  }
  EXPECT_FALSE(check().damaged());
}

// It stayed without its numbers, and its account's quota without what was there at the start.
TEST_F(LocalUsage, ABucketThatCouldNotBeReadIsCountedWhenItCan) {
  auto& engine = static_cast<Engine&>(*t.store->context());
  engine.buckets.find("b")->set_uncounted(true);
  std::atomic<int> tries{0};
  const auto count_by = [&](uint64_t) -> Result<Usage> {
    return ++tries < 3 ? Result<Usage>(fail(tries == 1 ? Errc::io_error : Errc::slow_down)) : Usage{};
  };
  Recount recount(engine, {.again_after = std::chrono::milliseconds(1), .count_by = count_by});
  recount.start();
  wait_until_counted();
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(t.usage("b").value(), wanted);
}

TEST_F(LocalUsage, ADamagedBucketIsNotCountedAgainAndAgain) {
  t.make_bucket("sound");
  auto& engine = static_cast<Engine&>(*t.store->context());
  for (const char* name : {"b", "sound"}) engine.buckets.find(name)->set_uncounted(true);
  const uint64_t damaged = engine.buckets.find("b")->id;
  std::atomic<int> tries{0};
  const auto count_by = [&](uint64_t bucket) -> Result<Usage> {
    if (bucket != damaged) return Usage{};
    ++tries;
    return fail(Errc::malformed, "a row");
  };
  Recount recount(engine, {.again_after = std::chrono::milliseconds(1), .count_by = count_by});
  recount.start();
  for (int i = 0; i < 10'000 && !t.engine().usage_now("sound")->bucket_counted; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(t.engine().usage_now("sound")->bucket_counted);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  recount.stop();
  EXPECT_EQ(tries, 1);
  EXPECT_FALSE(t.engine().usage_now("b")->bucket_counted);
}

TEST_F(LocalUsage, ABucketThatIsRemovedBeforeItIsCountedLeavesNothing) {
  t.make_bucket("gone");
  const auto upload = t.start_upload("gone", "never");
  ASSERT_TRUE(upload && t.put_part(*upload, 3, pattern(70'000, 5)));
  t.close();
  {
    const auto env = make_seam_env(fs);
    auto index = Index::open({.directory = "/store/index", .env = env.get()});
    ASSERT_TRUE(index);
    Batch batch(**index);
    Cursor cursor = (*index)->cursor(Family::meta, "u");
    for (; cursor.valid(); cursor.next()) batch.erase(Family::meta, cursor.key());
    ASSERT_TRUE((*index)->write(batch));
  }
  t.open();
  ASSERT_TRUE(t.run(t.engine().remove_bucket("gone")));
  wait_until_counted();
  EXPECT_EQ(t.engine().usage_now("b")->owner, wanted);
}

TEST_F(LocalUsage, FsckTellsNumbersThatAreNotTrue) {
  EXPECT_FALSE(check().damaged());
  edit([](Batch& batch, const std::string& key) {
    batch.put(Family::meta, key, encode(Usage{.objects = 3, .bytes = 1}));
  });
  const auto report = check();
  ASSERT_EQ(report.index.size(), 1u);
  EXPECT_EQ(report.index[0],
            "Bucket b is counted with 3 objects, versions and uploads of 1 bytes, but holds 4 of 370120.");
}

TEST_F(LocalUsage, FsckTellsARecordThatIsNone) {
  edit([](Batch& batch, const std::string& key) { batch.put(Family::meta, key, "\xff\xff"); });
  EXPECT_EQ(check().index.at(0), "The record of what bucket b holds is damaged.");
}

TEST_F(LocalUsage, AChangeWhoseLogCannotBeSyncedCountsNothing) {
  fs.hold_syncs("/store/index");
  auto refused = std::async(std::launch::async, [this] { return t.put("b", "a", pattern(99, 1)); });
  fs.wait_for_held_sync();
  EXPECT_EQ(t.engine().usage_now("b")->bucket, wanted) << "what a power cut may take back is not counted yet";
  fs.fail_at(0, FaultyFileSystem::Fault::no_space);
  fs.release_syncs();
  EXPECT_FALSE(refused.get());
  EXPECT_EQ(t.usage("b").value(), wanted);
  ASSERT_TRUE(t.put("b", "b", "x"));
  EXPECT_EQ(t.usage("b").value(), (wanted + Usage{.objects = 1, .bytes = 1}));
  t.reopen();
  EXPECT_EQ(t.usage("b").value(), (wanted + Usage{.objects = 1, .bytes = 1}));
  EXPECT_FALSE(check().damaged());
}

// Whatever survives a crash of a `memory` bucket, its numbers match.
TEST_F(LocalUsage, AfterACrashAMemoryBucketsNumbersAreThoseOfWhatIsLeft) {
  t.make_bucket("fast", Durability::memory);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (int i = 0; i < 20; ++i) {
      const std::string bytes = pattern(static_cast<size_t>(i) * 997, seed);
      ASSERT_TRUE(t.put("fast", "k" + std::to_string(i % 7), bytes,
                        {.conditions = {}, .chunk_size = 1 * MiB, .size_hint = bytes.size(), .etag = {}}));
      if (i == 10) t.store->drain();
    }
    t.close();
    fs.crash(FaultyFileSystem::Loss::unsynced, seed);
    t.open();
    EXPECT_EQ(t.usage("fast").value(), t.usage_by_listing("fast").value());
    EXPECT_EQ(t.usage("b").value(), wanted);
  }
}

}  // namespace
}  // namespace verbena::store::local
