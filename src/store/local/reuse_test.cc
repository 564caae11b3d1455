// Freed space that is used again in place: when, what it saves, and that no old bytes are ever served for a new key.
#include <algorithm>
#include <map>
#include <random>

#include "store/local/batch.h"
#include "store/local/engine.h"
#include "store/local/fsck.h"
#include "store/local/seam_env.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

constexpr const char* volumes_folder = "/store/volumes";

class Reuse : public ::testing::Test {
 protected:
  Reuse() {
    t.options.keep_free = 1 * GiB;
    t.open();
    t.make_bucket("b");
  }
  static Result<ObjectInfo> put(TestStore& store, const std::string& key, const std::string& bytes) {
    return store.put("b", key, bytes, {.size_hint = bytes.size()});
  }
  Result<ObjectInfo> put(const std::string& key, const std::string& bytes) { return put(t, key, bytes); }
  void expect_same(const std::string& key, const std::string& bytes) {
    auto got = t.get("b", key);
    ASSERT_TRUE(got) << key << ": " << describe(got.error());
    EXPECT_TRUE(*got == bytes) << key;
  }
  // An object that is begun while its bucket is durable, and committed when it is not.
  void put_across_durabilities(const std::string& key, const std::string& bytes) {
    auto writer = t.run(t.store->create("b", key, bytes.size()));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, bytes, 64 * KiB));
    ASSERT_TRUE(t.run(t.store->set_durability("b", Durability::memory)));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = TestStore::etag_of(bytes);
    ASSERT_TRUE(t.run((*writer)->commit(std::move(info), {})));
  }
  // The power goes when the bucket has been made durable.
  void make_durable_and_crash() {
    ASSERT_TRUE(t.run(t.store->set_durability("b", Durability::sync)));
    fs.fail_at(0, FaultyFileSystem::Fault::crash);
    t.close();
    fs.crash(FaultyFileSystem::Loss::unsynced, 1);
    t.open();
  }
  LocalStore::Usage usage() {
    t.store->drain();
    return *t.store->usage();
  }

  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(Reuse, AFreedExtentIsUsedAgainInPlace) {
  ASSERT_TRUE(put("stays", pattern(100'000, 1)));
  ASSERT_TRUE(put("goes", pattern(200'000, 2)));
  ASSERT_TRUE(t.remove("b", "goes"));
  const auto before = usage();
  EXPECT_GE(before.kept_bytes, 200'000u);
  ASSERT_TRUE(put("new", pattern(200'000, 3)));
  const auto after = usage();
  EXPECT_EQ(after.allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(after.kept_bytes, 0u);
  expect_same("stays", pattern(100'000, 1));
  expect_same("new", pattern(200'000, 3));
  t.expect_no_leak();
}

// What a PUT costs a file system in steady state: writes and syncs, and nothing that it must note.
TEST_F(Reuse, InSteadyStateAWriteChangesNoMetadataOfTheFileSystem) {
  const auto round = [&](uint64_t seed) {
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string bytes = pattern(20'000 + 10'000 * (i % 7), seed * 100 + i);
      ASSERT_TRUE(put("k" + std::to_string(i), bytes));
    }
    t.store->drain();
  };
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(put("goes" + std::to_string(i), pattern(200'000, i)));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(t.remove("b", "goes" + std::to_string(i)));
  t.store->drain();
  for (uint64_t seed = 0; seed < 3; ++seed) round(seed);
  const uint64_t before = fs.space_changes(volumes_folder), syncs = fs.syncs(volumes_folder);
  for (uint64_t seed = 3; seed < 10; ++seed) round(seed);
  EXPECT_EQ(fs.space_changes(volumes_folder), before);
  EXPECT_GT(fs.syncs(volumes_folder), syncs);
  for (uint64_t i = 0; i < 20; ++i) expect_same("k" + std::to_string(i), pattern(20'000 + 10'000 * (i % 7), 900 + i));
}

TEST_F(Reuse, SpaceThatAReaderHoldsIsNotUsedAgain) {
  const std::string old = pattern(300'000, 1);
  ASSERT_TRUE(put("k", old));
  auto reader = t.run(t.store->open("b", "k"));
  ASSERT_TRUE(reader);
  for (uint64_t i = 2; i < 6; ++i) {
    ASSERT_TRUE(put("k", pattern(300'000, i)));
    t.store->drain();
  }
  auto read = t.read(**reader, 0, old.size());
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_TRUE(*read == old);
  reader->reset();
  t.expect_no_leak();
  EXPECT_GT(usage().kept_bytes, 0u);
}

TEST_F(Reuse, AStartFindsWhatTheOneBeforeKept) {
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(put("k" + std::to_string(i), pattern(100'000, i)));
  for (uint64_t i = 0; i < 10; i += 2) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
  const uint64_t kept = usage().kept_bytes;
  EXPECT_GE(kept, 500'000u);
  t.reopen();
  EXPECT_EQ(usage().kept_bytes, kept);
  const uint64_t before = usage().allocated_bytes;
  ASSERT_TRUE(put("new", pattern(100'000, 20)));
  EXPECT_EQ(usage().allocated_bytes, before);
  t.expect_no_leak();
  // Likewise after a crash, which ends no volume in order.
  fs.fail_at(0, FaultyFileSystem::Fault::crash);
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.open();
  t.expect_no_leak();
  for (uint64_t i = 1; i < 10; i += 2) expect_same("k" + std::to_string(i), pattern(100'000, i));
  expect_same("new", pattern(100'000, 20));
}

TEST_F(Reuse, AStartThatKeepsNothingGivesAllBack) {
  ASSERT_TRUE(put("stays", pattern(100'000, 1)));
  ASSERT_TRUE(put("goes", pattern(400'000, 2)));
  ASSERT_TRUE(t.remove("b", "goes"));
  EXPECT_GT(usage().kept_bytes, 0u);
  t.options.keep_free = 0;
  t.reopen();
  EXPECT_EQ(usage().kept_bytes, 0u);
  t.expect_no_leak();
  t.reopen();  // now without a look for it
  t.expect_no_leak();
  expect_same("stays", pattern(100'000, 1));
}

// The holes that such a start makes are durable before it is durable that nothing is left.
TEST_F(Reuse, AStartThatKeepsNothingGivesAllBackForGood) {
  ASSERT_TRUE(put("stays", pattern(100'000, 1)));
  ASSERT_TRUE(put("goes", pattern(400'000, 2)));
  ASSERT_TRUE(t.remove("b", "goes"));
  EXPECT_GT(usage().kept_bytes, 0u);
  t.options.keep_free = 0;
  t.reopen();
  EXPECT_EQ(usage().kept_bytes, 0u);
  ASSERT_TRUE(put("small", "x"));  // whose sync makes all of the index durable
  fs.fail_at(0, FaultyFileSystem::Fault::crash);
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.options.keep_free = 1 * GiB;
  t.open();
  t.expect_no_leak();
  expect_same("stays", pattern(100'000, 1));
}

// Nor is that durable before the holes that an earlier start has made, of which nothing but its own end was synced.
TEST_F(Reuse, AStartThatKeepsNothingFindsTheHolesOfTheOneBeforeDurable) {
  ASSERT_TRUE(put("stays", pattern(100'000, 1)));
  ASSERT_TRUE(put("goes", pattern(400'000, 2)));
  t.reopen();  // nothing is appended to the volume any more
  ASSERT_TRUE(t.remove("b", "goes"));
  EXPECT_GT(usage().kept_bytes, 0u);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (usage().kept_bytes != 0 && std::chrono::steady_clock::now() < deadline) {
    fs.set_capacity(fs.used_bytes());  // each time: a file of the index that goes leaves room, in which space is kept
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fs.set_capacity(1 * TiB);
  ASSERT_EQ(usage().kept_bytes, 0u);
  t.options.keep_free = 0;
  t.reopen();
  t.expect_no_leak();
  ASSERT_TRUE(put("small", "x"));  // whose sync makes all of the index durable
  fs.fail_at(0, FaultyFileSystem::Fault::crash);
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.open();
  t.expect_no_leak();
  expect_same("stays", pattern(100'000, 1));
}

TEST_F(Reuse, AboveTheWatermarkSpaceGoesBackAndEmptyVolumesGo) {
  t.options.volume_size_max = 1 * MiB;
  t.options.keep_free = 2 * MiB;
  t.reopen();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(put("k" + std::to_string(i), pattern(700'000, i)));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (usage().kept_bytes > 2 * MiB && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LE(usage().kept_bytes, 2 * MiB);
  EXPECT_LE(usage().volumes, 4u);
  t.expect_no_leak();
}

// The disk answers writes and does not do them: the reused extent still has an old object's blocks, each of which was
// whole and right for that one.
TEST_F(Reuse, OldBlocksInAReusedExtentAreNeverServedForTheNewKey) {
  for (const size_t size : {20'000, 65'536, 200'000}) {
    const std::string old = pattern(size, 1);
    ASSERT_TRUE(put("old", old));
    ASSERT_TRUE(t.remove("b", "old"));
    const uint64_t kept = usage().kept_bytes;
    fs.drop_writes(volumes_folder);
    ASSERT_TRUE(put("new", pattern(size, 2)));
    fs.drop_writes({});
    EXPECT_LT(usage().kept_bytes, kept) << "the extent is not reused: this shows nothing";
    EXPECT_EQ(t.get("b", "new").error(), Errc::corrupt_object);
    auto reader = t.run(t.store->open("b", "new"));
    ASSERT_TRUE(reader);
    EXPECT_EQ(t.run((*reader)->read(0, 100)).error(), Errc::corrupt_object);
    reader->reset();
    EXPECT_EQ(t.store->scrub()->damaged_blocks, (size + 65'535) / 65'536);
    ASSERT_TRUE(t.remove("b", "new"));
  }
}

// The write arrives in part: a mix of sectors of both is neither of them.
TEST_F(Reuse, APowerLossDuringAReuseLeavesTheNewObjectOrNone) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    FaultyFileSystem disk;
    TestStore other(&disk);
    other.options.keep_free = 1 * GiB;
    other.open();
    other.make_bucket("b");
    ASSERT_TRUE(put(other, "stays", pattern(150'000, 1)));
    ASSERT_TRUE(put(other, "old", pattern(150'000, 2)));
    ASSERT_TRUE(other.remove("b", "old"));
    other.store->drain();
    disk.fail_at(seed / 4, FaultyFileSystem::Fault::crash);
    const bool answered = put(other, "new", pattern(150'000, 3)).has_value();
    other.close();
    disk.crash(FaultyFileSystem::Loss::torn, seed);
    const auto report = fsck({.directory = "/store", .fs = &disk});
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->damaged()) << "seed " << seed;
    other.open();
    EXPECT_TRUE(*other.get("b", "stays") == pattern(150'000, 1));
    EXPECT_EQ(other.get("b", "old").error(), Errc::no_such_key);
    const auto got = other.get("b", "new");
    if (got) {
      EXPECT_TRUE(*got == pattern(150'000, 3)) << "seed " << seed;
    } else {
      EXPECT_EQ(got.error(), Errc::no_such_key) << "seed " << seed;
      EXPECT_FALSE(answered) << "seed " << seed;
    }
    EXPECT_EQ(other.store->scrub()->damaged_blocks, 0u) << "seed " << seed;
    other.expect_no_leak();
  }
}

// Begun while its bucket was durable, the object is in space that is used again: nothing but its commit syncs that.
TEST_F(Reuse, ABucketThatIsDurableAgainHasWhatWasBegunBeforeItWasNot) {
  ASSERT_TRUE(put("old", pattern(150'000, 2)));
  ASSERT_TRUE(t.remove("b", "old"));
  const uint64_t kept = usage().kept_bytes;
  const std::string bytes = pattern(150'000, 3);
  ASSERT_NO_FATAL_FAILURE(put_across_durabilities("new", bytes));
  EXPECT_LT(usage().kept_bytes, kept) << "the extent is not reused: this shows nothing";
  ASSERT_NO_FATAL_FAILURE(make_durable_and_crash());
  expect_same("new", bytes);
}

// Likewise where nothing is used again: its bytes are at the end of a durable volume.
TEST_F(Reuse, ABucketThatIsDurableAgainHasWhatWasAppendedBeforeItWasNot) {
  const std::string bytes = pattern(150'000, 3);
  ASSERT_NO_FATAL_FAILURE(put_across_durabilities("new", bytes));
  ASSERT_NO_FATAL_FAILURE(make_durable_and_crash());
  expect_same("new", bytes);
}

TEST_F(Reuse, AVolumeWhoseSyncFailedIsNotUsedAgain) {
  ASSERT_TRUE(put("stays", pattern(100'000, 1)));
  ASSERT_TRUE(put("goes", pattern(300'000, 2)));
  ASSERT_TRUE(t.remove("b", "goes"));
  EXPECT_GT(usage().kept_bytes, 0u);
  fs.fail_syncs(volumes_folder);
  EXPECT_FALSE(put("new", pattern(100'000, 3)));
  fs.fail_syncs({});
  EXPECT_EQ(usage().kept_bytes, 0u);
  ASSERT_TRUE(put("new", pattern(100'000, 4)));
  EXPECT_GE(fs.list(volumes_folder)->size(), 2u);
  expect_same("stays", pattern(100'000, 1));
  expect_same("new", pattern(100'000, 4));
  t.reopen();
  t.expect_no_leak();
}

TEST_F(Reuse, AFullDiskGivesKeptSpaceBackBeforeItRefuses) {
  t.options.volume_size_max = 4 * MiB;
  t.options.free_bytes_min = 2 * MiB;
  t.reopen();
  fs.set_capacity(24 * MiB);
  int stored = 0;
  while (stored < 200 && put("k" + std::to_string(stored), pattern(300'000, 1))) ++stored;
  ASSERT_LT(stored, 200);
  for (int i = 0; i < stored; i += 2) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
  t.store->drain();
  // Pieces of 300 kB: as they are, none takes a larger object.
  for (int i = 0; i < stored / 6; ++i) {
    const auto large = put("large" + std::to_string(i), pattern(600'000, 2));
    EXPECT_TRUE(large) << i << ": " << describe(large.error());
  }
  expect_same("k1", pattern(300'000, 1));
  expect_same("large0", pattern(600'000, 2));
}

TEST_F(Reuse, ADirectoryOfAnOlderProgramIsConverted) {
  t.options.keep_free = 0;
  t.reopen();
  ASSERT_TRUE(put("old", pattern(200'000, 1)));
  ASSERT_TRUE(put("hole", pattern(200'000, 2)));
  ASSERT_TRUE(put("old2", pattern(200'000, 3)));
  ASSERT_TRUE(t.remove("b", "hole"));
  t.store->drain();
  t.close();
  ASSERT_TRUE(replace_file(fs, "/store/VERSION", "verbena local store, format 5\n"));
  t.options.keep_free = 1 * GiB;
  t.open();
  EXPECT_EQ(*read_small_file(fs, "/store/VERSION", 100), "verbena local store, format 7\n");
  EXPECT_EQ(usage().kept_bytes, 0u) << "a hole has no blocks to use again";
  ASSERT_TRUE(t.remove("b", "old2"));
  EXPECT_GE(usage().kept_bytes, 200'000u);
  expect_same("old", pattern(200'000, 1));
  t.expect_no_leak();
}

// --- The index ---

// A group's later piece may name space whose records were removed after its first piece: were the group undone, the
// records would be back.
TEST(IndexMoments, AGroupThatIsHiddenKeepsThemFromPassing) {
  FaultyFileSystem fs;
  const auto env = make_seam_env(fs);
  ASSERT_TRUE(fs.make_directory("/index"));
  auto index = Index::open({.directory = "/index", .env = env.get(), .create = true});
  ASSERT_TRUE(index);
  Batch removal(**index);
  removal.put(Family::extents, "a", "1");
  ASSERT_TRUE((*index)->write(removal));
  const auto first = (*index)->moment();
  EXPECT_FALSE((*index)->is_past(first)) << "it is not durable";
  ASSERT_TRUE((*index)->sync());
  EXPECT_TRUE((*index)->is_past(first));

  Batch piece(**index), other(**index);
  piece.put(Family::objects, "k", "1");
  ASSERT_TRUE((*index)->write_hidden(piece));
  other.erase(Family::extents, "a");
  ASSERT_TRUE((*index)->write(other));
  const auto second = (*index)->moment();
  ASSERT_TRUE((*index)->sync());
  EXPECT_FALSE((*index)->is_past(second));
  ASSERT_TRUE((*index)->make_durable({&piece}));
  EXPECT_TRUE((*index)->is_past(second));
}

// --- The pieces ---

TEST(FreeSpaceTest, HoldsWhatAMapOfPagesHolds) {
  constexpr uint64_t pages = 4096, volumes = 3;
  std::mt19937_64 random(7);
  FreeSpace space;
  std::vector<std::vector<bool>> free(volumes, std::vector<bool>(pages, false));
  uint64_t bytes = 0;
  const auto mark = [&](const FreeSpace::Piece& piece, bool to) {
    for (uint64_t p = piece.offset / disk_alignment; p < (piece.offset + piece.length) / disk_alignment; ++p) {
      ASSERT_NE(free[piece.volume][p], to);
      free[piece.volume][p] = to;
    }
    bytes = to ? bytes + piece.length : bytes - piece.length;
  };
  std::vector<FreeSpace::Piece> taken;
  for (uint64_t v = 0; v < volumes; ++v) {
    space.add({v, 0, pages * disk_alignment});
    mark({v, 0, pages * disk_alignment}, true);
  }
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const uint64_t want = (1 + random() % 200) * disk_alignment;
      const auto id = space.volume_for(want, want);
      if (!id) continue;
      const auto piece = space.take(*id, want, want, block_size);
      ASSERT_TRUE(piece);
      ASSERT_EQ(piece->length, want);
      mark(*piece, false);
      taken.push_back(*piece);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      space.add(taken.back());
      mark(taken.back(), true);
      taken.pop_back();
    }
    ASSERT_EQ(space.bytes(), bytes);
  }
  for (const auto& piece : taken) space.add(piece);
  EXPECT_EQ(space.pieces(), volumes) << "all pieces are joined again";
  EXPECT_EQ(space.longest()->length, pages * disk_alignment);
  EXPECT_EQ(space.remove(1).size(), 1u);
  EXPECT_EQ(space.bytes(), (volumes - 1) * pages * disk_alignment);
}

// Sizes from 20 KiB to 8 MiB come and go on a disk that is at least 91 % full for as long as a busy day has changes:
// none is refused, so at least that much is usable.
TEST(Churn, OfMixedSizesLeavesNineTenthsUsable) {
  constexpr uint64_t capacity = 256 * MiB;
  FaultyFileSystem fs;
  ASSERT_TRUE(fs.make_directory("/v"));
  fs.set_capacity(capacity);
  uint64_t id = 0;
  Volumes volumes({.directory = "/v",
                   .fs = &fs,
                   .volume_size_max = 32 * MiB,
                   .allocate_step = 1 * MiB,
                   .free_bytes_min = 4 * MiB,
                   .open_max = 16,
                   .keep_free = 64 * MiB,
                   .next_id = [&] { return ++id; }});
  std::mt19937_64 random(3);
  const auto size = [&] {
    constexpr uint64_t classes[] = {20 * KiB, 68 * KiB, 256 * KiB, 1 * MiB, 8 * MiB};
    const uint64_t upto = classes[std::min(random() % 5, random() % 5)];
    return align_up(upto / 2 + random() % (upto / 2));
  };
  std::vector<std::vector<local::Run>> objects;
  uint64_t live = 0, refused = 0, reused = 0, appended = 0;
  const auto put = [&] {
    std::vector<local::Run> runs;
    for (uint64_t left = size(); left != 0;) {
      auto run = volumes.reserve(VolumeKind::durable, left, std::min(left, block_size));
      if (!run) {
        ++refused;
        break;
      }
      (run->reused ? reused : appended) += run->length;
      left -= run->length;
      live += run->length;
      runs.push_back(std::move(*run));
    }
    for (const local::Run& run : runs) volumes.settle(run);
    objects.push_back(std::move(runs));
  };
  const auto remove = [&] {
    std::swap(objects[random() % objects.size()], objects.back());
    for (const local::Run& run : objects.back()) {
      live -= run.length;
      if (!volumes.keep({run.volume->id(), run.offset, run.length}))
        (void)run.volume->file().punch(run.offset, run.length);
    }
    objects.pop_back();
  };
  for (int i = 0; i < 60'000 && refused == 0; ++i) {
    while (live < capacity * 91 / 100 && refused == 0) put();
    remove();
    if (i % 500 == 0) {
      const auto surplus = volumes.surplus();
      ASSERT_TRUE(surplus);
      volumes.give_back(*surplus);
    }
  }
  EXPECT_EQ(refused, 0u) << "at " << live * 100 / capacity << " %";
  EXPECT_GT(reused, appended) << "space is taken in place where there is some";
}

}  // namespace
}  // namespace verbena::store::local
