// The store on a device: which start is refused and what it says, faults, space, fsck. device_copies_test.cc has old
// copies of directory and device, device_lost_test.cc devices that are lost or another store's.
#include <future>
#include <map>
#include <random>

#include "base/metrics.h"
#include "store/local/cooling.h"
#include "store/local/device_bond.h"
#include "store/local/fsck.h"
#include "store/local/local_store.h"
#include "store/local/pmem_log.h"
#include "store/local/test_device_store.h"
#include "store/local/test_persistent_memory.h"
#include "store/local/version_file.h"
#include "store/local/volume.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

constexpr uint64_t space_bytes = 52 * MiB;  // of the extents of the device

TEST_F(StoreOnDevice, OpensWithItsDeviceAlone) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto device = t.options.device;
  t.options.device = "";
  EXPECT_NE(refusal().find("set data.device"), std::string::npos);
  t.options.device = "/missing";
  EXPECT_NE(refusal().find("missing"), std::string::npos);
  fs.make_device("/other", disk_bytes);
  ASSERT_TRUE(format_device(**fs.open("/other", {.write = true}), volume_bytes, device_size_min));
  t.options.device = "/other";
  EXPECT_NE(refusal().find("another device"), std::string::npos);
  t.options.device = device;
  t.open();
  EXPECT_TRUE(*t.get("b", "k") == pattern(200'000, 1));
}

// The most likely reason is a disk that is not mounted, so the sentence must not name what makes the device empty.
TEST_F(StoreOnDevice, ADeviceOfAnotherStoreIsRefusedWithoutACommandThatEmptiesIt) {
  begin();
  t.close();
  t.options.directory = "/second";
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("another store"), nowhere) << sentence;
  EXPECT_NE(sentence.find("not mounted"), nowhere) << sentence;
  EXPECT_EQ(sentence.find("--force"), nowhere) << sentence;
  EXPECT_EQ(sentence.find("format"), nowhere) << sentence;
}

// --- Other programs ---

TEST_F(StoreOnDevice, WhatAnotherProgramMadeThereIsNotOverwritten) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto before = superblock();
  fs.set_foreign_contents("swap (a known signature)");
  for (const bool accepts : {false, true}) {
    t.options.accept_data_loss = accepts;
    EXPECT_NE(refusal().find("swap"), nowhere);
    EXPECT_EQ(superblock().sequence, before.sequence) << "it was written to";
  }
  fs.set_foreign_contents("");
  t.options.accept_data_loss = false;
  t.open();
  expect_same("k", 200'000, 1);
}

TEST_F(StoreOnDevice, WhereItCannotBeToldNothingIsOverwrittenUnlessThatIsAccepted) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto before = superblock();
  fs.set_foreign_contents(std::unexpected("no library"));
  EXPECT_NE(refusal().find("no library"), nowhere);
  EXPECT_EQ(superblock().sequence, before.sequence) << "it was written to";
  std::string sentence;
  const FsckOptions options{.directory = "/store", .fs = &fs, .device = "/dev/disk", .trouble = &sentence};
  const auto report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  ASSERT_EQ(report->refusals.size(), 1u) << "no server starts there";
  EXPECT_NE(report->refusals[0].find("no library"), nowhere);
  t.options.accept_data_loss = true;
  t.open();
  expect_same("k", 200'000, 1);
}

TEST_F(StoreOnDevice, AnOverwrittenBeginIsRefusedOrAccepted) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const std::string bytes(512, 'x');
  ASSERT_TRUE(write_fully(**fs.open("/dev/disk", {.write = true}), as_bytes(bytes), 0));
  EXPECT_NE(refusal().find("begin of /dev/disk"), nowhere);
  // Not also as a copy that the next start writes again.
  const auto report = fsck({.directory = "/store", .fs = &fs, .device = "/dev/disk"});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->damaged());
  EXPECT_EQ(report->refusals.size(), 1u);
  EXPECT_TRUE(report->device.empty());
  t.options.accept_data_loss = true;
  t.open();
  expect_same("k", 200'000, 1);
  t.options.accept_data_loss = false;
  t.reopen();
  expect_same("k", 200'000, 1);
}

// --- Formats ---

TEST_F(StoreOnDevice, AStartWritesADamagedCopyAgain) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const Superblock facts = superblock();
  for (const uint64_t copy : {0, 1, 0}) {
    fs.flip_bit("/dev/disk", superblock_places[copy] + 100);
    fs.flip_bit("/dev/disk", facts.page_place(0, copy) + 100);
    t.open();
    expect_same("k", 200'000, 1);
    t.close();
  }
}

// The other copy is enough, for a start too.
TEST_F(StoreOnDevice, OneBadPlaceOfTheTableOrTheSuperblockStopsNoStart) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const Superblock facts = superblock();
  uint64_t n = 0;
  for (const uint64_t place :
       {superblock_places[0], superblock_places[1], facts.page_place(0, 0), facts.page_place(0, 1)}) {
    SCOPED_TRACE(place);
    fs.fail_reads_at("/dev/disk", place);
    fs.fail_writes_at("/dev/disk", place);
    for (int starts = 0; starts < 2; ++starts) {
      t.open();
      expect_same("k", 200'000, 1);
      ASSERT_TRUE(put("n" + std::to_string(n), 900'000, n));
      ++n;
      t.close();
    }
    fs.fail_reads_at("", 0);
    fs.fail_writes_at("", 0);
    t.reopen();  // it is written again, before the other copy's place is bad
    t.close();
  }
  t.open();
  for (uint64_t i = 0; i < n; ++i) expect_same("n" + std::to_string(i), 900'000, i);
}

TEST_F(StoreOnDevice, AStoreOfFilesDoesNotMoveByItself) {
  const auto device = std::exchange(t.options.device, "");
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  t.options.device = device;
  EXPECT_NE(refusal().find("volumes in files"), std::string::npos);
  t.options.device = "";
  t.open();
  EXPECT_TRUE(*t.get("b", "k") == pattern(200'000, 1));
}

TEST_F(StoreOnDevice, ItsFormatIsOneThatAnOlderProgramRefuses) {
  begin();
  t.close();
  const auto version = read_small_file(fs, "/store/VERSION", 1 * KiB);
  ASSERT_TRUE(version);
  EXPECT_TRUE(version->starts_with("verbena local store, format 9\ndevice ")) << *version;
  EXPECT_TRUE(fs.list("/store/volumes")->empty());
}

TEST_F(StoreOnDevice, ALineOfVersionThatIsNoneIsRefused) {
  const std::string head = "verbena local store, format ";
  for (const char* text : {"9", "9\n", "9\ndevice 12\n"}) {
    const auto cut = parse_version(head + text);
    ASSERT_TRUE(cut) << text;
    EXPECT_TRUE(cut->cut && !cut->bond) << text;
  }
  for (const char* text : {"7", "7\n", "8\n", "1\n"}) {
    const auto files = parse_version(head + text);
    ASSERT_TRUE(files) << text;
    EXPECT_TRUE(!files->cut && !files->bond) << text;
  }
  const DeviceBond bond{random_device_id(), random_device_id()};
  const std::string line = to_text(bond);
  for (const std::string& text : {"9\n" + line, "9\n" + line.substr(0, line.size() - 1)}) {
    const auto again = parse_version(head + text);
    ASSERT_TRUE(again && again->bond) << text;
    EXPECT_EQ(*again->bond, bond);
  }
  for (const std::string& text :
       {"7\n" + line, std::string("7x\n"), std::string("0\n"), std::string("\n"), std::string("7\nx")}) {
    EXPECT_EQ(parse_version(head + text).error(), Errc::malformed) << text;
  }
  EXPECT_EQ(parse_version(head + "10\n").error(), Errc::unsupported);
}

TEST_F(StoreOnDevice, AFullDeviceRefusesPutsAndTakesThemAgainAfterDeletes) {
  begin();
  uint64_t n = 0;
  for (; n < 200; ++n) {
    auto done = put("k" + std::to_string(n), 700'000, n);
    if (done) continue;
    EXPECT_EQ(done.error(), Errc::insufficient_storage) << describe(done.error());
    break;
  }
  EXPECT_GT(n * 700'000, 9 * space_bytes / 10);  // nearly all of it was used
  EXPECT_LT(n, 200u);
  ASSERT_TRUE(t.remove("b", "k3"));
  ASSERT_TRUE(t.remove("b", "k30"));
  t.store->drain();
  EXPECT_TRUE(put("again", 700'000, 999));
  t.reopen();
  EXPECT_TRUE(*t.get("b", "again") == pattern(700'000, 999));
  for (uint64_t i = 0; i < n; ++i) {
    if (i == 3 || i == 30) continue;
    EXPECT_TRUE(*t.get("b", "k" + std::to_string(i)) == pattern(700'000, i)) << i;
  }
  ASSERT_TRUE(t.remove("b", "k4"));
  t.store->drain();
  EXPECT_TRUE(put("after a start", 600'000, 5));
  t.expect_no_leak();
}

TEST_F(StoreOnDevice, SizesThatComeAndGoAreNeverRefusedOnADeviceThatIsNinetyPercentFull) {
  begin();
  std::mt19937_64 random(7);
  std::map<std::string, std::pair<uint64_t, uint64_t>> there;
  uint64_t bytes = 0;
  const uint64_t most = 9 * space_bytes / 10;
  for (uint64_t i = 0; i < 600; ++i) {
    const std::string key = "k" + std::to_string(random() % 400);
    const uint64_t size = 20'000 + random() % (random() % 8 == 0 ? 3'000'000 : 200'000);
    while (bytes + align_up(size) > most && !there.empty()) {
      const auto victim = there.begin();
      ASSERT_TRUE(t.remove("b", victim->first));
      bytes -= align_up(victim->second.first);
      there.erase(victim);
      t.store->drain();
    }
    auto done = put(key, size, i);
    ASSERT_TRUE(done) << i << ": " << describe(done.error()) << " " << bytes;
    if (const auto before = there.find(key); before != there.end()) bytes -= align_up(before->second.first);
    there[key] = {size, i};
    bytes += align_up(size);
    t.store->drain();
  }
  for (const auto& [key, what] : there) EXPECT_TRUE(*t.get("b", key) == pattern(what.first, what.second)) << key;
  t.expect_no_leak();
}

TEST_F(StoreOnDevice, EmptyVolumesGoBackAndTheirExtentsAreUsedByOthers) {
  begin();
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(put("k" + std::to_string(i), 900'000, i)) << round;
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
    t.store->drain();
    EXPECT_LE(t.store->usage()->volumes, 4u);
  }
}

// Volumes on the device without a store around them.
struct VolumesAlone {
  VolumesAlone(FileSystem& fs, size_t pieces_max)
      : device(open(fs)),
        volumes({.directory = "/dev/disk",
                 .fs = device.get(),
                 .volume_size_max = volume_bytes,
                 .free_bytes_min = 0,
                 .keep_free = UINT64_MAX,
                 .next_id = [this] { return ++id; },
                 .pieces_max = pieces_max,
                 .whole = true,
                 .index_directory = "/store",
                 .index_fs = &fs}) {}
  static std::unique_ptr<DeviceVolumes> open(FileSystem& fs) {
    EXPECT_TRUE(fs.make_directory("/store"));
    std::string trouble;
    auto opened = DeviceVolumes::open("/dev/disk", std::move(*fs.open("/dev/disk", {.write = true})), trouble);
    EXPECT_TRUE(opened) << trouble;
    return std::move(*opened);
  }

  uint64_t id = 0;
  const std::unique_ptr<DeviceVolumes> device;
  Volumes volumes;
};

// New objects find no place for new pieces in the list of free ones.
TEST_F(StoreOnDevice, AFullListOfPiecesKeepsNoNewVolumeOut) {
  VolumesAlone alone(fs, /*pieces_max=*/1);
  Volumes& volumes = alone.volumes;
  std::vector<local::Run> runs;
  for (int i = 0; i < 8; ++i) {
    auto run = volumes.reserve(VolumeKind::durable, 64 * KiB);
    ASSERT_TRUE(run) << i << ": " << describe(run.error());
    runs.push_back(std::move(*run));
  }
  // One piece is the rest of the volume, so nowhere of these is kept.
  for (size_t i = 0; i < runs.size(); i += 2) EXPECT_FALSE(volumes.keep({1, runs[i].offset, runs[i].length}));
  auto whole = volumes.reserve(VolumeKind::durable, volume_bytes);
  ASSERT_TRUE(whole) << describe(whole.error());
  EXPECT_EQ(whole->length, volume_bytes);
  EXPECT_EQ(alone.device->volumes(), 2u);
}

// A volume that the table has, and the index has not heard of: the next try opens it, so its extent is not lost.
TEST_F(StoreOnDevice, AVolumeThatCouldNotBeNotedIsUsedByTheNextTry) {
  VolumesAlone alone(fs, Volumes::Options().pieces_max);
  Volumes& volumes = alone.volumes;
  const uint64_t all = *alone.device->free_bytes("");
  auto run = volumes.reserve(VolumeKind::durable, volume_bytes);
  ASSERT_TRUE(run) << describe(run.error());
  const uint64_t volume = run->volume->id();
  volumes.settle(*run);
  run->volume.reset();
  fs.hold_syncs("/dev");
  auto drops = std::async(std::launch::async, [&] { return volumes.drop(volume); });
  fs.wait_for_held_sync();
  EXPECT_TRUE(volumes.open(volume));  // the table still has it
  fs.release_syncs();
  EXPECT_TRUE(drops.get());
  EXPECT_FALSE(volumes.cached(volume));
  EXPECT_EQ(*alone.device->free_bytes(""), all);
}

TEST_F(StoreOnDevice, FreeSpaceOfVolumesThatAreGoneRefusesNothing) {
  VolumesAlone alone(fs, Volumes::Options().pieces_max);
  Volumes& volumes = alone.volumes;
  std::vector<local::Run> runs;
  for (auto run = volumes.reserve(VolumeKind::durable, volume_bytes); run;
       run = volumes.reserve(VolumeKind::durable, volume_bytes)) {
    runs.push_back(std::move(*run));
  }
  ASSERT_EQ(runs.size(), alone.device->volumes());
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(volumes.keep({1000 + i, 0, 2 * volume_bytes})) << "they come first";
  EXPECT_FALSE(volumes.keeps(999)) << "nor is more of it kept, as of what a lost device had";
  const local::Run& freed = runs[3];
  EXPECT_TRUE(volumes.keep({freed.volume->id(), freed.offset, freed.length}));
  const auto run = volumes.reserve(VolumeKind::durable, volume_bytes);
  ASSERT_TRUE(run) << describe(run.error());
  EXPECT_EQ(run->volume->id(), freed.volume->id());
}

TEST_F(StoreOnDevice, AFlushThatFailedIsNotForgotten) {
  begin();
  ASSERT_TRUE(put("before", 200'000, 1));
  fs.fail_syncs("/dev");
  EXPECT_FALSE(put("during", 200'000, 2));
  fs.fail_syncs("");
  EXPECT_FALSE(put("still", 200'000, 3));
  expect_same("before", 200'000, 1);
  t.close();
  fs.crash(Loss::unsynced, 1);
  t.open();
  expect_same("before", 200'000, 1);
  EXPECT_TRUE(put("after", 200'000, 4));
}

// Volumes come and go while one write to the device fails although it was done: the table may say that a volume is
// gone, and the store that it is there. No object may be lost by that, neither now nor after the next start.
TEST_F(StoreOnDevice, AWriteThatFailsAlthoughItWasDoneLosesNothingAcknowledged) {
  bool happened = true;
  for (uint64_t n = 0; happened; ++n) {
    ASSERT_LT(n, 400u);
    SCOPED_TRACE("operation " + std::to_string(n));
    FaultyFileSystem here;
    TestStore store(&here);
    use_device(here, store.options, disk_bytes, volume_bytes);
    store.open();
    store.make_bucket("b");
    std::map<std::string, uint64_t> there;
    const auto put_there = [&](const std::string& key, uint64_t seed) {
      TestStore::How how;
      how.size_hint = 900'000;
      if (store.put("b", key, pattern(900'000, seed), how)) there[key] = seed;
    };
    for (uint64_t i = 0; i < 6; ++i) put_there("k" + std::to_string(i), i);
    here.fail_at(n, Fault::io_error_applied, "/dev");
    for (uint64_t i = 0; i < 5; ++i) {
      if (store.remove("b", "k" + std::to_string(i))) there.erase("k" + std::to_string(i));
    }
    store.store->drain();
    for (uint64_t i = 10; i < 14; ++i) put_there("k" + std::to_string(i), i);
    happened = here.fault_happened();
    here.fail_at(0, Fault::crash);  // kill -9
    store.close();
    here.crash(Loss::nothing, n);
    store.open();
    for (const auto& [key, seed] : there) {
      const auto got = store.get("b", key);
      ASSERT_TRUE(got) << key << ": " << describe(got.error());
      EXPECT_TRUE(*got == pattern(900'000, seed)) << key;
    }
    EXPECT_GE(there.size(), 1u);
    store.expect_no_leak();
    if (HasFailure()) return;
  }
}

// --- Objects that are acknowledged from memory ---

class MemoryBucketOnDevice : public StoreOnDevice {
 protected:
  MemoryBucketOnDevice() { t.options.write_behind_after = std::chrono::hours(1); }
  Result<ObjectInfo> put_in(const std::string& bucket, const std::string& key, uint64_t size, uint64_t seed) {
    const std::string bytes = pattern(size, seed);
    TestStore::How how;
    how.size_hint = bytes.size();
    return t.put(bucket, key, bytes, how);
  }
};

TEST_F(MemoryBucketOnDevice, ObjectsAreLeftToTheIndexByAnOrderlyStopWhenTheDeviceHasFailed) {
  begin();
  t.make_bucket("fast", Durability::memory);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(put_in("fast", "k" + std::to_string(i), 200'000 + i * 1000, i));
  fs.fail_syncs("/dev");
  EXPECT_FALSE(put("durable", 200'000, 9));
  fs.fail_syncs("");
  t.close();
  fs.crash(Loss::nothing, 1);
  t.open();
  for (uint64_t i = 0; i < 5; ++i) {
    const auto got = t.get("fast", "k" + std::to_string(i));
    ASSERT_TRUE(got) << i << ": " << describe(got.error());
    EXPECT_TRUE(*got == pattern(200'000 + i * 1000, i)) << i;
  }
  t.expect_no_leak();
}

TEST_F(MemoryBucketOnDevice, ObjectsAreLeftToTheIndexByAnOrderlyStopWhenTheDeviceIsGoneOrFull) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full);
    if (!full) {
      begin();
      t.make_bucket("fast", Durability::memory);
      ASSERT_TRUE(put("a volume is there", 200'000, 1));
    } else {
      for (uint64_t n = 0; put("k" + std::to_string(n), 700'000, n); ++n) continue;
      for (uint64_t n = 0; put("s" + std::to_string(n), 20'000, n); ++n) continue;
    }
    const std::string prefix = full ? "full" : "gone";
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(put_in("fast", prefix + std::to_string(i), 200'000 + i * 1000, i));
    }
    if (!full) fs.vanish("/dev");
    t.close();
    fs.vanish("");
    fs.crash(Loss::nothing, 1);
    t.open();
    for (uint64_t i = 0; i < 5; ++i) {
      const auto got = t.get("fast", prefix + std::to_string(i));
      ASSERT_TRUE(got) << i << ": " << describe(got.error());
      EXPECT_TRUE(*got == pattern(200'000 + i * 1000, i)) << i;
    }
  }
}

// What the log on persistent memory has is acknowledged as durable, whether the server is stopped in order or killed.
TEST_F(StoreOnDevice, AFailedDeviceLosesNothingOfTheLogOnPersistentMemory) {
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed);
    FaultyFileSystem here;
    ModelMemories memories;
    TestStore store(&here);
    use_device(here, store.options, disk_bytes, volume_bytes);
    store.options.pmem = "/pmem";
    store.options.pmem_log_size = PmemLog::size_min;
    store.options.pmem_memories = &memories;
    store.options.write_behind_after = std::chrono::hours(1);
    store.open();
    store.make_bucket("b");
    for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(store.put("b", "k" + std::to_string(i), pattern(40'000 + i, i)));
    here.fail_syncs("/dev");
    EXPECT_FALSE(store.put("b", "large", pattern(200'000, 9)));
    here.fail_syncs("");
    if (killed) here.fail_at(0, Fault::crash);
    store.close();
    here.crash(killed ? Loss::unsynced : Loss::nothing, 1);
    if (killed) memories.cut(1);
    store.open();
    for (uint64_t i = 0; i < 5; ++i) {
      const auto got = store.get("b", "k" + std::to_string(i));
      ASSERT_TRUE(got) << i << ": " << describe(got.error());
      EXPECT_TRUE(*got == pattern(40'000 + i, i)) << i;
    }
    store.expect_no_leak();
  }
}

// Holes of 192 KiB: an object of 700 KB fits into several only.
TEST_F(MemoryBucketOnDevice, AnObjectTakesSeveralPiecesOfADeviceThatHasNoLongerOne) {
  begin();
  t.make_bucket("fast", Durability::memory);
  constexpr uint64_t piece = 192 * KiB;
  uint64_t n = 0;
  while (put("k" + std::to_string(n), piece, n)) ++n;
  ASSERT_GT(n, 200u);
  for (uint64_t i = 0; i < n; i += 2) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
  t.store->drain();
  for (const uint64_t size : {700'000u, 999'999u, 16'385u, 196'609u}) {
    ASSERT_TRUE(put_in("fast", "o" + std::to_string(size), size, size));
  }
  t.store->drain();
  const auto written = metrics::gauge("verbena_store_write_behind_bytes", "").value();
  EXPECT_EQ(written, 0) << "an object still waits";
  t.reopen();
  for (const uint64_t size : {700'000u, 999'999u, 16'385u, 196'609u}) {
    const auto got = t.get("fast", "o" + std::to_string(size));
    ASSERT_TRUE(got) << size << ": " << describe(got.error());
    EXPECT_TRUE(*got == pattern(size, size)) << size;
    ASSERT_TRUE(t.remove("fast", "o" + std::to_string(size)));
  }
  for (uint64_t i = 1; i < n; i += 2) expect_same("k" + std::to_string(i), piece, i);
  t.expect_no_leak();
}

// --- fsck ---

TEST_F(StoreOnDevice, FsckTellsCopiesOthersAndOldDirectories) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto older = fs.copy_of("/store");
  t.open();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put("later" + std::to_string(i), 900'000, i));
  t.close();
  std::string sentence;
  const FsckOptions options{.directory = "/store", .fs = &fs, .device = "/dev/disk", .trouble = &sentence};
  auto report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  EXPECT_FALSE(report->damaged());
  EXPECT_TRUE(report->device.empty());
  fs.flip_bit("/dev/disk", superblock_places[0] + 100);
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  EXPECT_FALSE(report->damaged());
  EXPECT_TRUE(report->refusals.empty());
  ASSERT_EQ(report->device.size(), 1u);
  EXPECT_NE(report->device[0].find("copy 0 of the superblock"), nowhere) << report->device[0];
  // A server would refuse to start: that is no sound store.
  fs.set_foreign_contents("swap (a known signature)");
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  EXPECT_TRUE(report->damaged());
  ASSERT_EQ(report->refusals.size(), 1u);
  EXPECT_NE(report->refusals[0].find("swap"), nowhere) << report->refusals[0];
  fs.set_foreign_contents("");
  const std::string lost = version();
  write_version("verbena local store, format 9\n");
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  ASSERT_EQ(report->index.size(), 1u);
  EXPECT_NE(report->index[0].find("VERSION lacks"), nowhere) << report->index[0];
  ASSERT_TRUE(fs.unlink("/store/VERSION"));
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  ASSERT_EQ(report->index.size(), 1u);
  EXPECT_NE(report->index[0].find("VERSION is missing"), nowhere) << report->index[0];
  EXPECT_EQ(report->lost_count, 0u);
  fs.put_back(*older);
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  ASSERT_FALSE(report->index.empty());
  EXPECT_NE(report->index[0].find("the index is older"), nowhere) << report->index[0];
}

TEST_F(StoreOnDevice, FsckReadsIt) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  std::string sentence;
  FsckOptions options{.directory = "/store", .fs = &fs, .read_data = true, .device = "/dev/disk", .trouble = &sentence};
  auto report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  EXPECT_FALSE(report->damaged());
  EXPECT_EQ(report->objects, 1u);
  options.device = "";
  EXPECT_FALSE(fsck(options));
  EXPECT_NE(sentence.find("--device"), std::string::npos) << sentence;
  // Rot in the only extent that is in use: every byte of the object's first block.
  options.device = "/dev/disk";
  const auto place = read_superblock(**fs.open("/dev/disk", {}))->data_at;
  fs.flip_bit("/dev/disk", place + 5000);
  report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  ASSERT_EQ(report->lost.size(), 1u);
  EXPECT_NE(report->lost[0].why.find("fails its checksum"), std::string::npos) << report->lost[0].why;
}

}  // namespace
}  // namespace verbena::store::local
