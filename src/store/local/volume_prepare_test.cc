// Volumes that are written ahead of their use: when, what that saves, and what a crash or a full disk makes of them.
#include <chrono>
#include <thread>

#include "store/local/fsck.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

constexpr const char* prepared_folder = "/store/volumes";
constexpr size_t object_size = 64 * KiB;

class Prepared : public ::testing::Test {
 protected:
  Prepared() { set_up(t); }
  static void set_up(TestStore& store) {
    store.options.keep_free = 1 * GiB;
    store.options.prepare_size = 4 * MiB;
    store.options.prepare_after = 256 * KiB;
    store.open();
    store.make_bucket("b");
  }
  static Result<ObjectInfo> put(TestStore& store, uint64_t i) {
    const std::string bytes = pattern(object_size, i);
    TestStore::How how;
    how.size_hint = bytes.size();
    return store.put("b", "k" + std::to_string(i), bytes, how);
  }
  void put(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) ASSERT_TRUE(put(t, i));
  }
  static void expect_same(TestStore& store, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      const auto got = store.get("b", "k" + std::to_string(i));
      ASSERT_TRUE(got) << i << ": " << describe(got.error());
      EXPECT_TRUE(*got == pattern(object_size, i)) << i;
    }
  }
  static uint64_t kept(TestStore& store) {
    store.store->drain();
    return store.store->usage()->kept_bytes;
  }
  // Asks for a volume by small objects and waits until it is there.
  static bool prepare(TestStore& store) {
    for (uint64_t i = 0; i < 5; ++i) {
      if (!put(store, i)) return false;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (kept(store) < 3 * MiB && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return kept(store) >= 3 * MiB;
  }

  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(Prepared, AFirstWriteChangesNoMetadataOfTheFileSystem) {
  ASSERT_TRUE(prepare(t));
  put(5, 6);  // the last that may have been appended
  const uint64_t before = fs.space_changes(prepared_folder), syncs = fs.syncs(prepared_folder);
  put(6, 18);
  EXPECT_EQ(fs.space_changes(prepared_folder), before);
  EXPECT_GT(fs.syncs(prepared_folder), syncs);
  expect_same(t, 0, 18);
  t.expect_no_leak();
}

TEST_F(Prepared, AStartKeepsThem) {
  ASSERT_TRUE(prepare(t));
  put(5, 10);
  const uint64_t before = kept(t);
  t.reopen();
  EXPECT_EQ(kept(t), before);
  put(10, 14);
  EXPECT_LT(kept(t), before);
  expect_same(t, 0, 14);
  t.expect_no_leak();
}

TEST_F(Prepared, LargeObjectsAskForNone) {
  for (uint64_t i = 0; i < 4; ++i) {
    const std::string bytes = pattern(3 * MiB, i);
    TestStore::How how;
    how.size_hint = bytes.size();
    ASSERT_TRUE(t.put("b", "large" + std::to_string(i), bytes, how));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(kept(t), 0u);
  t.expect_no_leak();
}

TEST_F(Prepared, AStoreThatKeepsNothingHasNone) {
  t.options.keep_free = 0;
  t.reopen();
  put(0, 12);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(kept(t), 0u);
  t.expect_no_leak();
}

// The new object's write is answered and not done: it reads zeros, or what was there before, and neither passes.
TEST_F(Prepared, WhatIsThereBeforeTheFirstWriteIsNeverServed) {
  ASSERT_TRUE(prepare(t));
  const uint64_t before = kept(t);
  fs.drop_writes(prepared_folder);
  ASSERT_TRUE(put(t, 100));
  fs.drop_writes({});
  EXPECT_LT(kept(t), before) << "the object is not there: this shows nothing";
  EXPECT_EQ(t.get("b", "k100").error(), Errc::corrupt_object);
}

TEST_F(Prepared, ACrashAtAnyStepLeavesWhatWasAcknowledgedAndNoLeak) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    FaultyFileSystem disk;
    TestStore other(&disk);
    set_up(other);
    disk.fail_at(seed * 5, FaultyFileSystem::Fault::crash);
    uint64_t stored = 0;
    while (stored < 30 && put(other, stored)) ++stored;
    other.close();
    disk.crash(seed % 2 == 0 ? FaultyFileSystem::Loss::torn : FaultyFileSystem::Loss::unsynced, seed);
    const auto report = fsck({.directory = "/store", .fs = &disk});
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->damaged()) << "seed " << seed;
    other.open();
    expect_same(other, 0, stored);
    EXPECT_EQ(other.store->scrub()->damaged_blocks, 0u) << "seed " << seed;
    other.store->drain();
    // One may be in the making again.
    other.options.prepare_size = 0;
    other.reopen();
    other.expect_no_leak();
  }
}

TEST_F(Prepared, AFullDiskUsesTheirSpaceBeforeItRefuses) {
  t.options.free_bytes_min = 1 * MiB;
  t.reopen();
  constexpr uint64_t capacity = 40 * MiB;
  fs.set_capacity(capacity);
  uint64_t stored = 0;
  while (stored < 1000 && put(t, stored)) ++stored;
  ASSERT_LT(stored, 1000u);
  EXPECT_GT(stored * object_size, capacity * 8 / 10);
  expect_same(t, 0, stored);
  ASSERT_TRUE(t.remove("b", "k0"));
}

TEST_F(Prepared, ADiskThatFailsWhileTheyAreWrittenFailsNothingElse) {
  uint64_t stored = 0;
  for (; stored < 3; ++stored) ASSERT_TRUE(put(t, stored));
  for (uint64_t operation = 8; operation < 40; operation += 4) {
    fs.fail_at(operation, FaultyFileSystem::Fault::no_space);
    for (int i = 0; i < 4; ++i) stored += put(t, stored) ? 1 : 0;
  }
  fs.fail_at(UINT64_MAX, FaultyFileSystem::Fault::none);
  expect_same(t, 0, stored);
  put(stored, stored + 4);
  expect_same(t, 0, stored + 4);
}

}  // namespace
}  // namespace verbena::store::local
