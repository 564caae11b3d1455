// Volumes on a device: the layout and what is refused, a device that fails, space that goes round.
#include <random>

#include "store/local/device_bond.h"
#include "store/local/engine.h"
#include "store/local/fsck.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

constexpr uint64_t device_bytes = 64 * MiB, extent_bytes = 1 * MiB;

std::string volume_path_of(uint64_t id) {
  char name[48];
  std::snprintf(name, sizeof name, "/dev/disk/%016llx.volume", static_cast<unsigned long long>(id));
  return name;
}

class Device : public ::testing::Test {
 protected:
  Device() { fs.make_device("/dev/disk", device_bytes); }
  std::unique_ptr<File> file() { return std::move(*fs.open("/dev/disk", {.write = true})); }
  void format() { ASSERT_TRUE(format_device(*file(), extent_bytes)); }
  Result<std::unique_ptr<DeviceVolumes>> open() { return DeviceVolumes::open("/dev/disk", file(), trouble); }
  std::unique_ptr<DeviceVolumes> must_open() {
    auto opened = open();
    EXPECT_TRUE(opened) << trouble;
    return std::move(*opened);
  }
  static Result<void> make(DeviceVolumes& volumes, uint64_t id) {
    VB_ASSIGN(auto made, volumes.open(volume_path_of(id), {.write = true, .create = true}));
    return {};
  }

  FaultyFileSystem fs;
  std::string trouble;
};

TEST_F(Device, ALayoutFitsItsDevice) {
  for (const uint64_t size : {64 * MiB, 100 * MiB + 4096, 1 * GiB, 3 * TiB, 2000 * TiB}) {
    const auto plan = plan_device(size);
    ASSERT_TRUE(plan) << size;
    EXPECT_LE(plan->data_at + plan->extents * plan->extent_size, size);
    EXPECT_GE(plan->extents, 60u) << size;
    EXPECT_LE(plan->extents, extents_max);
    EXPECT_GE(page_place(plan->pages(), 0), device_table_at);
    EXPECT_LE(page_place(plan->pages(), 0), plan->data_at);
    const auto again = decode_superblock(encode(*plan));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->id, plan->id);
    EXPECT_EQ(again->extents, plan->extents);
  }
  EXPECT_FALSE(plan_device(63 * MiB));
  EXPECT_FALSE(plan_device(1 * GiB, 2 * GiB));
  EXPECT_FALSE(plan_device(1 * GiB, 3 * MiB));
}

TEST_F(Device, ASuperblockWhoseNumbersCannotBeIsRefused) {
  Superblock s = *plan_device(1 * GiB);
  s.extents += 1'000'000'000;
  EXPECT_EQ(decode_superblock(encode(s)).error(), Errc::malformed);
  s = *plan_device(1 * GiB);
  s.data_at += 1 * MiB;
  EXPECT_EQ(decode_superblock(encode(s)).error(), Errc::malformed);
  s = *plan_device(1 * GiB);
  s.extent_size = 0;
  EXPECT_EQ(decode_superblock(encode(s)).error(), Errc::malformed);
  EXPECT_EQ(decode_superblock({}).error(), Errc::malformed);
}

TEST_F(Device, ThatIsNotFormattedIsRefusedWithTheCommand) {
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("verbena device format"), std::string::npos) << trouble;
}

TEST_F(Device, OneTornSuperblockIsNoneLostAndTwoAre) {
  format();
  fs.flip_bit("/dev/disk", 100);
  EXPECT_TRUE(open()) << trouble;
  fs.flip_bit("/dev/disk", superblock_places[1] + 100);
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("both copies"), std::string::npos) << trouble;
}

TEST_F(Device, ThatBecameSmallerIsRefused) {
  format();
  ASSERT_TRUE(file()->truncate(device_bytes - 1 * MiB));
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("smaller"), std::string::npos) << trouble;
}

TEST_F(Device, ADamagedPageOfTheTableIsToldByItsPlace) {
  format();
  fs.flip_bit("/dev/disk", device_table_at + 10);
  EXPECT_TRUE(open()) << trouble;
  fs.flip_bit("/dev/disk", device_table_at + device_block + 10);
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("at byte 1048576"), std::string::npos) << trouble;
}

TEST_F(Device, VolumesAreExtentsThatDoNotTouchEachOther) {
  format();
  auto volumes = must_open();
  const uint64_t extents = volumes->superblock().extents;
  std::vector<std::unique_ptr<File>> files;
  for (uint64_t id = 1; id <= extents; ++id) {
    auto made = volumes->open(volume_path_of(id), {.write = true, .create = true});
    ASSERT_TRUE(made) << id;
    files.push_back(std::move(*made));
  }
  EXPECT_EQ(volumes->open(volume_path_of(extents + 1), {.create = true}).error(), Errc::insufficient_storage);
  EXPECT_EQ(*volumes->free_bytes(""), 0u);
  for (uint64_t i = 0; i < extents; ++i) {
    const std::string bytes = pattern(extent_bytes, i);
    ASSERT_TRUE(write_fully(*files[i], as_bytes(bytes), 0));
    EXPECT_FALSE(write_fully(*files[i], as_bytes(bytes), 4096));
  }
  files.clear();
  volumes.reset();
  volumes = must_open();
  for (uint64_t i = 0; i < extents; ++i) {
    auto again = volumes->open(volume_path_of(i + 1), {});
    ASSERT_TRUE(again);
    std::string bytes(extent_bytes, '\0');
    ASSERT_TRUE(read_fully(**again, std::as_writable_bytes(std::span(bytes.data(), bytes.size())), 0));
    EXPECT_TRUE(bytes == pattern(extent_bytes, i)) << i;
    EXPECT_EQ(*(*again)->pread(std::as_writable_bytes(std::span(bytes.data(), 4096)), extent_bytes), 0u);
  }
}

TEST_F(Device, AnUnlinkedVolumeFreesItsExtentWhenItsLastFileIsClosed) {
  format();
  auto volumes = must_open();
  const uint64_t all = *volumes->free_bytes("");
  auto open_file = *volumes->open(volume_path_of(7), {.write = true, .create = true});
  ASSERT_TRUE(volumes->unlink(volume_path_of(7)));
  EXPECT_EQ(volumes->open(volume_path_of(7), {}).error(), Errc::not_found);
  EXPECT_EQ(*volumes->free_bytes(""), all - extent_bytes);
  open_file.reset();
  EXPECT_EQ(*volumes->free_bytes(""), all);
  EXPECT_EQ(volumes->unlink(volume_path_of(7)).error(), Errc::not_found);
}

// The table is what it was before a change or after it, whichever operation of the change the machine stops at.
TEST_F(Device, ACrashInAChangeOfTheTableLeavesItWhole) {
  for (uint64_t n = 0; n < 12; ++n) {
    for (const Loss loss : {Loss::nothing, Loss::unsynced, Loss::torn}) {
      format();
      bool made = false, gone = false;
      {
        auto volumes = must_open();
        ASSERT_TRUE(make(*volumes, 1));
        ASSERT_TRUE(make(*volumes, 2));
        fs.fail_at(n, Fault::crash);
        made = make(*volumes, 3).has_value();
        gone = volumes->unlink(volume_path_of(1)).has_value();
      }
      fs.crash(loss, n);
      auto volumes = must_open();
      EXPECT_TRUE(volumes->stat(volume_path_of(2)));
      EXPECT_TRUE(!made || volumes->stat(volume_path_of(3))) << n;
      EXPECT_FALSE(gone && volumes->stat(volume_path_of(1))) << n;
    }
  }
}

TEST_F(Device, AnInterruptedFormatIsNoFormat) {
  format();
  const auto old = must_open()->superblock().id;
  for (uint64_t n = 0;; ++n) {
    fs.fail_at(n, Fault::crash);
    const bool done = format_device(*file(), extent_bytes).has_value();
    fs.crash(Loss::torn, n);
    if (done) break;
    // Torn writes may leave the old superblock before the first flush, and the new one after the last.
    const auto opened = open();
    EXPECT_TRUE(!opened || (*opened)->superblock().id == old || (*opened)->volumes() == 0) << n;
    ASSERT_LT(n, 200u);
  }
}

TEST_F(Device, AfterAFlushThatFailedNothingIsWritten) {
  format();
  auto volumes = must_open();
  auto one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
  auto two = *volumes->open(volume_path_of(2), {.write = true, .create = true});
  const std::string bytes = pattern(4096, 1);
  ASSERT_TRUE(write_fully(*one, as_bytes(bytes), 0));
  ASSERT_TRUE(write_fully(*two, as_bytes(bytes), 0));
  fs.fail_syncs("/dev");
  EXPECT_FALSE(one->datasync());
  fs.fail_syncs("");
  // The kernel would report nothing more, and the other volume's bytes may be lost with the first one's.
  EXPECT_FALSE(two->datasync());
  EXPECT_FALSE(write_fully(*two, as_bytes(bytes), 0));
  EXPECT_FALSE(make(*volumes, 3));
  std::string back(4096, '\0');
  EXPECT_TRUE(read_fully(*two, std::as_writable_bytes(std::span(back.data(), back.size())), 0));
}

TEST_F(Device, OneFlushServesAllVolumes) {
  format();
  auto volumes = must_open();
  auto one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
  auto two = *volumes->open(volume_path_of(2), {.write = true, .create = true});
  const std::string bytes = pattern(4096, 1);
  ASSERT_TRUE(write_fully(*one, as_bytes(bytes), 0));
  ASSERT_TRUE(write_fully(*two, as_bytes(bytes), 0));
  const uint64_t before = fs.syncs("/dev");
  ASSERT_TRUE(one->datasync());
  ASSERT_TRUE(two->datasync());
  EXPECT_EQ(fs.syncs("/dev"), before + 1);
}

TEST_F(Device, FreedExtentsAreDiscardedInPiecesAndNoOthers) {
  format();
  auto volumes = must_open();
  const std::string bytes = pattern(extent_bytes, 1);
  for (const uint64_t id : {1, 2}) {
    auto made = *volumes->open(volume_path_of(id), {.write = true, .create = true});
    ASSERT_TRUE(write_fully(*made, as_bytes(bytes), 0));
  }
  EXPECT_FALSE(volumes->discard(extent_bytes));
  ASSERT_TRUE(volumes->unlink(volume_path_of(1)));
  const uint64_t used = fs.used_bytes();
  EXPECT_TRUE(volumes->discard(extent_bytes / 2));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes / 2);
  EXPECT_TRUE(volumes->discard(extent_bytes));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes);
  EXPECT_FALSE(volumes->discard(extent_bytes));
}

// --- The store on a device ---

class StoreOnDevice : public ::testing::Test {
 protected:
  StoreOnDevice() { use_device(fs, t.options, device_bytes, extent_bytes); }
  void begin() {
    t.open();
    t.make_bucket("b");
  }
  std::string refusal() {
    std::string sentence;
    t.options.trouble = &sentence;
    EXPECT_FALSE(t.try_open());
    t.options.trouble = nullptr;
    return sentence;
  }
  Result<ObjectInfo> put(const std::string& key, uint64_t size, uint64_t seed) {
    const std::string bytes = pattern(size, seed);
    TestStore::How how;
    how.size_hint = bytes.size();
    return t.put("b", key, bytes, how);
  }

  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(StoreOnDevice, OpensWithItsDeviceAlone) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto device = t.options.device;
  t.options.device = "";
  EXPECT_NE(refusal().find("set data.device"), std::string::npos);
  t.options.device = "/missing";
  EXPECT_NE(refusal().find("missing"), std::string::npos);
  fs.make_device("/other", device_bytes);
  ASSERT_TRUE(format_device(**fs.open("/other", {.write = true}), extent_bytes));
  t.options.device = "/other";
  EXPECT_NE(refusal().find("another device"), std::string::npos);
  t.options.device = device;
  t.open();
  EXPECT_TRUE(*t.get("b", "k") == pattern(200'000, 1));
}

TEST_F(StoreOnDevice, ADeviceOfAnotherStoreIsRefused) {
  begin();
  t.close();
  t.options.directory = "/second";
  EXPECT_NE(refusal().find("another store"), std::string::npos);
}

TEST_F(StoreOnDevice, OpensWithOneDamagedSuperblockWhicheverItIs) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  for (const uint64_t place : superblock_places) {
    t.close();
    fs.flip_bit("/dev/disk", place + 100);
    t.open();
    EXPECT_TRUE(*t.get("b", "k") == pattern(200'000, 1));
    t.close();
    fs.flip_bit("/dev/disk", place + 100);
    t.open();
  }
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
  EXPECT_EQ(find_bond("verbena local store, format 9\ndevice 12\n").error(), Errc::malformed);
  EXPECT_FALSE(*find_bond("verbena local store, format 7\n"));
  const DeviceBond bond{random_device_id(), random_device_id()};
  const auto again = find_bond("verbena local store, format 9\n" + to_text(bond));
  ASSERT_TRUE(again && *again);
  EXPECT_EQ((*again)->store, bond.store);
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
  EXPECT_GT(n * 700'000, 9 * (device_bytes - 2 * MiB) / 10);  // nearly all of it was used
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
  const uint64_t most = 9 * (device_bytes - 2 * MiB) / 10;
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

// The device is gone: every write and flush is EIO.
TEST_F(StoreOnDevice, ADeviceThatVanishesLosesNothingAcknowledged) {
  begin();
  ASSERT_TRUE(put("before", 200'000, 1));
  fs.fail_syncs("/dev");
  EXPECT_FALSE(put("during", 200'000, 2));
  EXPECT_FALSE(t.get("b", "during"));
  fs.fail_syncs("");
  EXPECT_FALSE(put("still", 200'000, 3)) << "the flush that failed is forgotten";
  EXPECT_TRUE(*t.get("b", "before") == pattern(200'000, 1));
  t.close();
  fs.crash(Loss::unsynced, 1);
  t.open();
  EXPECT_TRUE(*t.get("b", "before") == pattern(200'000, 1));
  EXPECT_FALSE(t.get("b", "during"));
  EXPECT_TRUE(put("after", 200'000, 4));
  t.expect_no_leak();
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
