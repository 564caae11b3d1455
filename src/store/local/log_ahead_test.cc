// Zeros ahead of the index's log: what they save, that they are no damage, and what a power loss leaves.
#include "store/local/log_ahead.h"

#include <rocksdb/file_system.h>

#include <algorithm>

#include "store/local/batch.h"
#include "store/local/index_check.h"
#include "store/local/log_scan.h"
#include "store/local/seam_env.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t zeros_step = 1 * MiB;

class LogAheadTest : public ::testing::Test {
 protected:
  LogAheadTest() { EXPECT_TRUE(disk.make_directory("/index")); }

  void open(LogMode mode = LogMode::whole) {
    auto opened = Index::open({.directory = "/index",
                               .env = env.get(),
                               .log = mode,
                               .log_ahead = {.fs = &disk, .step = zeros_step, .from = 16 * KiB},
                               .create = true});
    ASSERT_TRUE(opened) << describe(opened.error());
    index = std::move(*opened);
  }
  // As the start does: the files say which mode the log needs.
  void open_after_crash() {
    const auto files = check();
    EXPECT_TRUE(files.damage.empty()) << files.damage.front().what;
    open(files.torn_end ? LogMode::up_to_the_end : LogMode::whole);
  }
  IndexFiles check() {
    auto files = check_index_files(disk, "/index", [] { return Result<uint64_t>(0); });
    EXPECT_TRUE(files);
    return files ? *files : IndexFiles{};
  }
  static std::string key(int i) { return "k" + std::to_string(i); }
  static std::string value(int i) { return pattern(3000, static_cast<uint64_t>(i)); }
  bool write(int i) {
    Batch batch(*index);
    batch.put(Family::in_index, key(i), value(i));
    return index->write(batch) && index->sync();
  }
  void write(int from, int to) {
    for (int i = from; i < to; ++i) ASSERT_TRUE(write(i));
    index->log_ahead()->wait_idle();
  }
  void expect_rows(int from, int to) {
    for (int i = from; i < to; ++i) {
      const auto got = index->get(Family::in_index, key(i));
      ASSERT_TRUE(got) << i << ": " << describe(got.error());
      EXPECT_TRUE(*got == value(i)) << i;
    }
  }
  void power_loss(FaultyFileSystem::Loss loss, uint64_t seed) {
    disk.fail_at(0, FaultyFileSystem::Fault::crash);
    index.reset();
    disk.crash(loss, seed);
  }
  std::vector<std::string> logs() {
    std::vector<std::string> found;
    const auto listed = disk.list("/index");
    if (!listed) return {""};
    for (const std::string& name : *listed) {
      if (name.ends_with(".log")) found.push_back("/index/" + name);
    }
    std::ranges::sort(found);
    if (found.empty()) found.emplace_back();
    return found;
  }
  // Bytes of zeros at the end of a log.
  uint64_t zeros_of(const std::string& path) {
    const auto bytes = read_small_file(disk, path, 64 * MiB);
    if (!bytes) return 0;
    const auto last = bytes->find_last_not_of('\0');
    return last == std::string::npos ? bytes->size() : bytes->size() - last - 1;
  }

  FaultyFileSystem disk;
  std::unique_ptr<rocksdb::Env> env = make_seam_env(disk);
  std::unique_ptr<Index> index;
};

TEST_F(LogAheadTest, ARecordChangesNoMetadataOfTheFileSystem) {
  open();
  write(0, 20);
  ASSERT_GE(index->log_ahead()->bytes_ahead(), zeros_step / 2);
  const uint64_t before = disk.space_changes("/index"), syncs = disk.syncs("/index");
  write(20, 120);
  EXPECT_EQ(disk.space_changes("/index"), before);
  EXPECT_GE(disk.syncs("/index"), syncs + 100);
  expect_rows(0, 120);
}

TEST_F(LogAheadTest, ThereAreMoreBeforeTheyAreUsedUp) {
  open();
  write(0, 20);
  for (int i = 20; i < 1000; i += 20) {
    write(i, i + 20);
    ASSERT_GE(index->log_ahead()->bytes_ahead(), zeros_step / 2 - 80 * KiB) << i;
  }
}

TEST_F(LogAheadTest, AShortLogHasNone) {
  open();
  write(0, 3);
  EXPECT_EQ(index->log_ahead()->bytes_ahead(), 0u);
}

TEST_F(LogAheadTest, ZerosAtTheEndAreNoDamage) {
  open();
  write(0, 50);
  power_loss(FaultyFileSystem::Loss::nothing, 1);
  ASSERT_GE(zeros_of(logs().back()), zeros_step / 2) << "this shows nothing";
  const auto files = check();
  EXPECT_TRUE(files.damage.empty());
  EXPECT_FALSE(files.torn_end);
  open_after_crash();
  expect_rows(0, 50);
}

// It has no such zeros itself: it takes them for an end that a power loss tore off.
TEST_F(LogAheadTest, AnOlderProgramReadsALogWithZeros) {
  open();
  write(0, 50);
  power_loss(FaultyFileSystem::Loss::nothing, 1);
  auto older = Index::open({.directory = "/index", .env = env.get(), .log = LogMode::up_to_the_end});
  ASSERT_TRUE(older);
  index = std::move(*older);
  expect_rows(0, 50);
}

TEST_F(LogAheadTest, OnlyTheNewestLogHasZeros) {
  open();
  write(0, 50);
  const std::string first = logs().back();
  ASSERT_GT(zeros_of(first), 0u);
  // RocksDB makes a log when a table in memory is written; the first one stays, for the other families.
  auto* const families = index.get();
  Batch other(*families);
  other.put(Family::objects, "o", "1");
  ASSERT_TRUE(families->write(other));
  for (int i = 50; logs().back() == first && i < 20'000; ++i) ASSERT_TRUE(write(i));
  ASSERT_NE(logs().back(), first);
  index->log_ahead()->wait_idle();
  for (const std::string& log : logs()) {
    EXPECT_TRUE(log == logs().back() || zeros_of(log) == 0) << log;
  }
  power_loss(FaultyFileSystem::Loss::nothing, 1);
  open_after_crash();
  expect_rows(0, 50);
  EXPECT_EQ(*index->get(Family::objects, "o"), "1");
}

// The kernel tells of a failed write once. Were that forgotten, the next sync would promise what is not on the disk.
TEST_F(LogAheadTest, ASyncThatFailsWhileALogIsCutIsNotForgotten) {
  LogAhead ahead({.fs = &disk, .step = zeros_step, .from = 0});
  const auto logs_env = ahead.make_env(env.get());
  const auto& files = logs_env->GetFileSystem();
  std::unique_ptr<rocksdb::FSWritableFile> first, second;
  ASSERT_TRUE(files->NewWritableFile("/index/000001.log", {}, &first, nullptr).ok());
  ASSERT_TRUE(first->Append("record", {}, nullptr).ok());
  ahead.wait_idle();
  ASSERT_GT(ahead.bytes_ahead(), 0u);
  disk.fail_syncs("/index");
  ASSERT_TRUE(files->NewWritableFile("/index/000002.log", {}, &second, nullptr).ok());
  disk.fail_syncs("");
  EXPECT_FALSE(first->Sync({}, nullptr).ok());
  EXPECT_FALSE(first->Sync({}, nullptr).ok());
  EXPECT_TRUE(second->Sync({}, nullptr).ok());
  ahead.forgive_failures();  // the index moves past it
  EXPECT_TRUE(first->Sync({}, nullptr).ok());
  EXPECT_TRUE(first->Close({}, nullptr).ok());
  EXPECT_TRUE(second->Close({}, nullptr).ok());
}

TEST_F(LogAheadTest, AnOrderlyStopCutsThem) {
  open();
  write(0, 50);
  index.reset();
  EXPECT_EQ(zeros_of(logs().back()), 0u);
  open();
  expect_rows(0, 50);
}

TEST_F(LogAheadTest, APowerLossTakesNothingThatWasSynced) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int from = static_cast<int>(seed) * 1000;
    if (!index) open_after_crash();
    write(from, from + 15);
    disk.fail_at(seed, FaultyFileSystem::Fault::crash);
    int synced = from + 15;
    while (synced < from + 400 && write(synced)) ++synced;
    ASSERT_LT(synced, from + 400);
    power_loss(seed % 2 == 0 ? FaultyFileSystem::Loss::torn : FaultyFileSystem::Loss::unsynced, seed);
    open_after_crash();
    expect_rows(from, synced);
    const auto last = index->get(Family::in_index, key(synced));
    EXPECT_TRUE(!last || *last == value(synced));
  }
}

TEST_F(LogAheadTest, AFullDiskOnlyEndsThem) {
  open();
  write(0, 4);
  disk.set_capacity(disk.used_bytes() + 3 * zeros_step);
  write(4, 200);
  EXPECT_EQ(index->log_ahead()->bytes_ahead(), 0u);
  expect_rows(0, 200);
}

// --- What a start sees ---

TEST_F(LogAheadTest, ZerosBeforeARecordAreDamage) {
  open();
  write(0, 50);
  power_loss(FaultyFileSystem::Loss::nothing, 1);
  const std::string path = logs().back();
  const auto file = *disk.open(path, {.write = true});
  const std::vector<std::byte> nothing(64 * KiB);
  ASSERT_TRUE(write_fully(*file, nothing, 32 * KiB));
  EXPECT_FALSE(check().damage.empty());
}

TEST_F(LogAheadTest, AFlippedBitInTheLastRecordIsDamageThoughZerosFollow) {
  open();
  write(0, 50);
  power_loss(FaultyFileSystem::Loss::nothing, 1);
  const std::string path = logs().back();
  const uint64_t end = disk.stat(path)->size - zeros_of(path);
  for (const uint64_t back : {1, 100, 1500, 2900}) {
    disk.flip_bit(path, end - back);
    EXPECT_FALSE(check().damage.empty()) << back;
    disk.flip_bit(path, end - back);
  }
  EXPECT_TRUE(check().damage.empty());
}

TEST(LogAheadStore, ObjectsAreWholeAfterACrash) {
  FaultyFileSystem disk;
  TestStore t(&disk);
  t.options.log_ahead = zeros_step;
  t.open();
  t.make_bucket("b");
  for (uint64_t i = 0; i < 150; ++i) ASSERT_TRUE(t.put("b", "k" + std::to_string(i), pattern(12'000, i)));
  disk.fail_at(0, FaultyFileSystem::Fault::crash);
  t.close();
  disk.crash(FaultyFileSystem::Loss::torn, 3);
  t.open();
  for (uint64_t i = 0; i < 150; ++i) EXPECT_TRUE(*t.get("b", "k" + std::to_string(i)) == pattern(12'000, i)) << i;
  t.expect_no_leak();
}

}  // namespace
}  // namespace verbena::store::local
