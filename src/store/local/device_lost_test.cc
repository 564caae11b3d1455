// The store on a device: a device that was wiped or lost, another store's, a directory whose index or VERSION is not
// the device's.
#include <string>
#include <utility>

#include "store/local/device_volumes.h"
#include "store/local/fsck.h"
#include "store/local/local_store.h"
#include "store/local/test_device_store.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

// Its table may be whole, and all volumes with it.
TEST_F(StoreOnDevice, AStoreWhoseDeviceWasWipedIsNotToldToFormatIt) {
  begin();
  t.close();
  const std::string zeros(2 * MiB, '\0');
  ASSERT_TRUE(write_fully(**fs.open("/dev/disk", {.write = true}), as_bytes(zeros), 0));
  std::string sentence = refusal();
  EXPECT_NE(sentence.find("holds no volumes"), nowhere) << sentence;
  EXPECT_EQ(sentence.find("format"), nowhere) << sentence;
  const auto report = fsck({.directory = "/store", .fs = &fs, .device = "/dev/disk", .trouble = &sentence});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error(), Errc::corrupt_object);
  EXPECT_NE(sentence.find("holds no volumes"), nowhere) << sentence;
  EXPECT_EQ(sentence.find("format"), nowhere) << sentence;
  ASSERT_TRUE(fs.unlink("/store/VERSION"));
  sentence = refusal();
  EXPECT_NE(sentence.find("has a store"), nowhere) << sentence;
  EXPECT_EQ(sentence.find("device format"), nowhere) << sentence;
}

TEST_F(StoreOnDevice, ANewStoreIsToldTheCommandThatMakesItsDeviceReady) {
  fs.make_device("/blank", disk_bytes);
  t.options.device = "/blank";
  EXPECT_NE(refusal().find("verbena device format /blank"), nowhere);
}

// The two lines that a start prints, followed without a thought: what the device has is another store's, and all of it
// would be freed.
TEST_F(StoreOnDevice, AStoreOfFilesTakesNoDeviceOfAnotherWhateverItsVersionSays) {
  begin();
  ASSERT_TRUE(put("theirs", 200'000, 1));
  t.close();
  const std::string lines = version();
  const auto device = std::exchange(t.options.device, "");
  for (const uint64_t size : {300, 200'000}) {  // without and with volumes
    t.options.directory = size == 300 ? "/small" : "/files";
    t.options.device = "";
    t.open();
    t.make_bucket("b");
    ASSERT_TRUE(put("ours", size, 2));
    t.close();
    t.options.device = device;
    const std::string theirs = all_of_the_device();
    for (const bool writes_lines : {false, true}) {
      for (const bool accepts : {false, true}) {
        SCOPED_TRACE(t.options.directory.string() + (writes_lines ? ", lines" : "") + (accepts ? ", accepts" : ""));
        if (writes_lines) {
          ASSERT_TRUE(replace_file(fs, t.options.directory / "VERSION", lines));
        }
        t.options.accept_data_loss = accepts;
        EXPECT_NE(refusal(), "");
        EXPECT_TRUE(all_of_the_device() == theirs) << "it was written to";
      }
    }
    t.options.accept_data_loss = false;
  }
  EXPECT_NE(refusal().find("volumes in files"), nowhere);
  t.options.directory = "/store";
  t.open();
  expect_same("theirs", 200'000, 1);
}

// --- A device that is lost for good ---

TEST_F(StoreOnDevice, AnEmptyDeviceTakesThePlaceOfALostOneWhereTheLossIsAccepted) {
  begin();
  ASSERT_TRUE(put("small", 300, 1));
  ASSERT_TRUE(put("large", 200'000, 2));
  t.close();
  const std::string lost = version();
  const auto device = t.options.device;
  replace_by("/new");
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("another device"), nowhere) << sentence;
  EXPECT_NE(sentence.find("accept_data_loss"), nowhere) << sentence;
  EXPECT_EQ(version(), lost);
  t.options.device = device;
  t.reopen();
  expect_same("large", 200'000, 2);
  t.close();
  t.options.device = "/new";
  t.options.accept_data_loss = true;
  t.open();
  expect_same("small", 300, 1);
  EXPECT_FALSE(t.get("b", "large"));
  ASSERT_TRUE(put("large", 200'000, 3));
  t.store->drain();
  expect_same("large", 200'000, 3);
  t.options.accept_data_loss = false;
  t.reopen();
  expect_same("small", 300, 1);
  expect_same("large", 200'000, 3);
  t.close();
  // The old one is another's from now on.
  t.options.device = device;
  EXPECT_NE(refusal().find("another device"), nowhere);
}

// Else the switch would stay on for as long as the index names lost objects, and the next wrong disk would be taken.
TEST_F(StoreOnDevice, ALossIsAcceptedForOneStartWhateverTheIndexStillNames) {
  begin();
  ASSERT_TRUE(put("small", 300, 1));
  ASSERT_TRUE(put("large", 200'000, 2));
  t.close();
  replace_by("/new");
  t.options.accept_data_loss = true;
  t.open();
  ASSERT_TRUE(put("later", 200'000, 3));
  t.close();
  t.options.accept_data_loss = false;
  for (int starts = 0; starts < 2; ++starts) {
    t.open();
    expect_same("small", 300, 1);
    expect_same("later", 200'000, 3);
    EXPECT_FALSE(t.get("b", "large"));
    t.close();
  }
  std::string sentence;
  const auto report = fsck({.directory = "/store", .fs = &fs, .device = "/new", .trouble = &sentence});
  ASSERT_TRUE(report) << sentence;
  EXPECT_EQ(report->lost_count, 1u);
  EXPECT_TRUE(report->index.empty());
  // What the new device has is missed as ever.
  const std::string ours = version();
  replace_by("/third");
  EXPECT_NE(refusal().find("another device"), nowhere);
  EXPECT_EQ(version(), ours);
  t.options.device = "/new";
  t.open();
  ASSERT_TRUE(t.remove("b", "large"));
  t.store->drain();
  t.reopen();
  expect_same("later", 200'000, 3);
}

// Only those of the lost device are passed over. And a second device may be lost like the first one.
TEST_F(StoreOnDevice, VolumesOfTheDeviceThatTookALostOnesPlaceMayNotBeMissing) {
  begin();
  ASSERT_TRUE(put("first", 200'000, 1));
  t.close();
  const std::string second = "/spare/disk";
  replace_by(second);
  t.options.accept_data_loss = true;
  t.open();
  ASSERT_TRUE(put("second", 200'000, 2));
  t.close();
  t.options.accept_data_loss = false;
  const auto whole = fs.copy_of("/spare");
  {
    std::string trouble;
    auto device = *DeviceVolumes::open(second, std::move(*fs.open(second, {.write = true})), trouble);
    const auto names = *device->list("");
    ASSERT_EQ(names.size(), 1u);
    ASSERT_TRUE(device->unlink(names[0]));
  }
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("are missing"), nowhere) << sentence;
  fs.put_back(*whole);
  replace_by("/third");
  t.options.accept_data_loss = true;
  t.open();
  t.options.accept_data_loss = false;
  t.reopen();
  EXPECT_FALSE(t.get("b", "first"));
  EXPECT_FALSE(t.get("b", "second"));
  ASSERT_TRUE(put("third", 200'000, 3));
}

// VERSION is of this store, and the index another one's: its disk is mounted in the wrong place. The switch is no
// reason to take the other store's device away from it.
TEST_F(StoreOnDevice, TheIndexOfAnotherStoreIsGivenNoDeviceInPlaceOfALostOne) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const std::string ours = version();
  t.options.directory = "/second";
  use_device(fs, t.options, disk_bytes, volume_bytes);  // formatted again
  begin();
  ASSERT_TRUE(put("theirs", 200'000, 2));
  t.close();
  const std::string theirs = *read_small_file(fs, "/second/VERSION", 1 * KiB);
  ASSERT_TRUE(replace_file(fs, "/second/VERSION", ours));
  const auto device = t.options.device;
  replace_by("/new");
  t.options.accept_data_loss = true;
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("belongs to another device"), nowhere) << sentence;
  t.options.accept_data_loss = false;
  ASSERT_TRUE(replace_file(fs, "/second/VERSION", theirs));
  t.options.device = device;
  t.open();
  expect_same("theirs", 200'000, 2);
}

TEST_F(StoreOnDevice, ACrashWhileALostDeviceIsReplacedIsNoReasonToRefuseTheNextTry) {
  begin();
  ASSERT_TRUE(put("small", 300, 1));
  ASSERT_TRUE(put("large", 200'000, 2));
  t.close();
  const auto before = fs.copy_of("/store");
  bool whole = false;
  for (uint64_t n = 0; !whole; ++n) {
    ASSERT_LT(n, 500u);
    SCOPED_TRACE("operation " + std::to_string(n));
    fs.put_back(*before);
    replace_by("/new");
    t.options.accept_data_loss = true;
    fs.fail_at(n, Fault::crash);
    whole = t.try_open().has_value() && !fs.fault_happened();
    t.close();
    fs.crash(Loss::torn, n);
    t.open();
    if (HasFatalFailure()) return;
    expect_same("small", 300, 1);
    t.options.accept_data_loss = false;
    t.reopen();
    if (HasFatalFailure()) return;
    t.close();
  }
}

TEST_F(StoreOnDevice, ADeviceThatIsInUseTakesNoLostOnesPlace) {
  begin();
  t.close();
  const std::string ours = version();
  t.options.directory = "/second";
  use_device(fs, t.options, disk_bytes, volume_bytes);  // formatted again
  begin();
  t.close();
  t.options.directory = "/store";
  t.options.accept_data_loss = true;
  EXPECT_NE(refusal().find("another device"), nowhere);
  EXPECT_EQ(version(), ours);
}

// Its disk is not mounted, and no volume is there that would tell.
TEST_F(StoreOnDevice, AnIndexThatIsGoneIsToldByAnEmptyDeviceThatWasUsed) {
  begin();
  ASSERT_TRUE(put("small", 300, 1));
  t.close();
  const auto whole = fs.copy_of("/store");
  const auto names = *fs.list("/store/index");
  for (const std::string& name : names) ASSERT_TRUE(fs.unlink("/store/index/" + name));
  std::string sentence;
  const auto report = fsck({.directory = "/store", .fs = &fs, .device = "/dev/disk", .trouble = &sentence});
  ASSERT_TRUE(report) << sentence;
  ASSERT_EQ(report->index.size(), 1u);
  EXPECT_NE(report->index[0].find("There is no index"), nowhere) << report->index[0];
  const uint64_t sequence = superblock().sequence;
  EXPECT_NE(refusal().find("holds no index"), nowhere);
  EXPECT_EQ(superblock().sequence, sequence);
  EXPECT_TRUE(fs.list("/store/index")->empty()) << "a new index was made";
  fs.put_back(*whole);
  t.open();
  expect_same("small", 300, 1);
}

// Of a store of files the number is right, and the device is not: nothing is checked. Else the number was restored by
// hand, and the index knows better.
TEST_F(StoreOnDevice, FsckBelievesTheIndexWhereVersionNamesNoDevice) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  write_version("verbena local store, format 7\n");
  std::string sentence;
  FsckOptions options{.directory = "/store", .fs = &fs, .device = "/dev/disk", .trouble = &sentence};
  auto report = fsck(options);
  ASSERT_TRUE(report) << sentence;
  EXPECT_EQ(report->objects, 1u);
  EXPECT_EQ(report->lost_count, 0u);
  ASSERT_EQ(report->index.size(), 1u);
  EXPECT_NE(report->index[0].find("VERSION names no device"), nowhere) << report->index[0];
  t.options.directory = options.directory = "/files";
  t.options.device = "";
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  report = fsck(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error(), Errc::invalid_argument);
  EXPECT_NE(sentence.find("volumes are files"), nowhere) << sentence;
  // Without an index, too: what the device has is another store's.
  const auto names = *fs.list("/files/index");
  for (const std::string& name : names) ASSERT_TRUE(fs.unlink("/files/index/" + name));
  report = fsck(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error(), Errc::invalid_argument);
  EXPECT_NE(sentence.find("volumes are files"), nowhere) << sentence;
}

}  // namespace
}  // namespace verbena::store::local
