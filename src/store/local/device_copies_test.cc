// The store on a device: VERSION is lost or wrong, the directory or the device was put back from a copy. A device
// alone: one copy of its table or superblock was ahead of the other, and could not be seen for a while.
#include <string>
#include <thread>

#include "store/local/device_bond.h"
#include "store/local/local_store.h"
#include "store/local/test_device.h"
#include "store/local/test_device_store.h"
#include "store/local/version_file.h"

namespace verbena::store::local {
namespace {

using Loss = FaultyFileSystem::Loss;
using Fault = FaultyFileSystem::Fault;

// --- VERSION is lost ---

TEST_F(StoreOnDevice, ALostVersionIsToldWordByWordOrAccepted) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const std::string lost = version();
  ASSERT_TRUE(fs.unlink("/store/VERSION"));
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find(lost), nowhere) << sentence;
  EXPECT_EQ(sentence.find("--force"), nowhere) << sentence;
  EXPECT_EQ(version(), "");
  t.options.accept_data_loss = true;
  t.open();
  expect_same("k", 200'000, 1);
  EXPECT_EQ(version(), lost);
  t.options.accept_data_loss = false;
  t.reopen();
  expect_same("k", 200'000, 1);
}

TEST_F(StoreOnDevice, ALostVersionDoesNotMakeItAStoreOfFiles) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  ASSERT_TRUE(fs.unlink("/store/VERSION"));
  const auto device = std::exchange(t.options.device, "");
  t.options.accept_data_loss = true;
  EXPECT_NE(refusal().find("set data.device"), nowhere);
  EXPECT_EQ(version(), "");
  t.options.device = device;
  t.open();
  expect_same("k", 200'000, 1);
}

TEST_F(StoreOnDevice, AnotherStoresDeviceIsNotAdoptedByAnIndexWithoutVersion) {
  begin();
  t.close();
  const auto device = std::exchange(t.options.device, "");
  t.options.directory = "/second";
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(put("small", 100, 1));
  t.close();
  ASSERT_TRUE(fs.unlink("/second/VERSION"));
  t.options.device = device;
  t.options.accept_data_loss = true;
  EXPECT_NE(refusal().find("of no store on a device"), nowhere);
  EXPECT_FALSE(fs.stat("/second/VERSION"));
}

// A number without the line, which a hand restored, or a number of stores without a device: never a store of files.
TEST_F(StoreOnDevice, AVersionThatNamesNoDeviceIsNotReplacedBeforeTheIndexHasSpoken) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const std::string whole = version();
  for (const std::string text : {"verbena local store, format 9\n", "verbena local store, format 9\ndevice 12\n",
                                 "verbena local store, format 7\n"}) {
    SCOPED_TRACE(text);
    write_version(text);
    EXPECT_NE(refusal().find(whole), nowhere);
    const auto device = std::exchange(t.options.device, "");
    EXPECT_NE(refusal(), "");
    t.options.accept_data_loss = true;
    EXPECT_NE(refusal().find("set data.device"), nowhere);
    EXPECT_EQ(version(), text);
    t.options.device = device;
    t.open();
    expect_same("k", 200'000, 1);
    EXPECT_EQ(version(), whole);
    t.close();
    t.options.accept_data_loss = false;
  }
  write_version(whole.substr(0, whole.size() - 1));
  t.open();
  expect_same("k", 200'000, 1);
  EXPECT_EQ(version(), whole);
}

// Its index is of another device than the one that was never used.
TEST_F(StoreOnDevice, AnUnusedDeviceIsNotBoundToTheIndexOfAnother) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  fs.make_device("/other", disk_bytes);
  ASSERT_TRUE(format_device(**fs.open("/other", {.write = true}), volume_bytes, device_size_min));
  const std::string text = "verbena local store, format 7\n";
  write_version(text);
  t.options.device = "/other";
  EXPECT_NE(refusal().find("another device"), nowhere);
  EXPECT_EQ(version(), text);
}

// --- A directory or a device that was put back from a copy ---

// In a store that runs as it should, a start and its overwrites change nothing of the table.
TEST_F(StoreOnDevice, ADeviceThatIsOneStartOldIsRefused) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const auto older = fs.copy_of("/dev");
  t.open();
  t.store->drain();  // the volume's free space is known
  put_without_a_change("k", 200'000, 2);
  t.close();
  const auto newer = fs.copy_of("/dev");
  fs.put_back(*older);
  EXPECT_NE(refusal().find("/dev/disk is older"), nowhere);
  fs.put_back(*newer);
  t.open();
  expect_same("k", 200'000, 2);
}

// Also if the start wrote nothing else and was killed.
TEST_F(StoreOnDevice, ADeviceOfBeforeAStartThatWasKilledIsRefused) {
  begin();
  t.close();
  const auto older = fs.copy_of("/dev");
  t.open();
  kill();
  fs.put_back(*older);
  EXPECT_NE(refusal().find("/dev/disk is older"), nowhere);
}

// A backup of a server that runs for months: no start and no change of the table lies between.
TEST_F(StoreOnDevice, ACopyFromARunningServerIsRefusedAfterAnOrderlyStop) {
  for (const std::string folder : {"/store", "/dev"}) {
    SCOPED_TRACE(folder);
    const std::string key = "k" + folder.substr(1);
    if (folder == "/store") begin();
    ASSERT_TRUE(put("first", 100'000, 1));
    const auto older = fs.copy_of(folder);
    put_without_a_change(key, 100'000, 2);
    t.close();
    const auto newer = fs.copy_of(folder);
    fs.put_back(*older);
    EXPECT_NE(refusal().find("is older than"), nowhere);
    fs.put_back(*newer);
    t.open();
    expect_same(key, 100'000, 2);
  }
}

TEST_F(StoreOnDevice, ACopyFromARunningServerIsRefusedAfterAGenerationAndAKill) {
  t.options.device_generation_after = std::chrono::milliseconds(1);
  begin();
  uint64_t before = superblock().generation;
  ASSERT_TRUE(put("first", 100'000, 1));
  wait_for_a_generation_after(before);
  const auto older = fs.copy_of("/store");
  before = superblock().generation;
  put_without_a_change("later", 100'000, 2);
  wait_for_a_generation_after(before);
  kill();
  const auto newer = fs.copy_of("/store");
  fs.put_back(*older);
  EXPECT_NE(refusal().find("generation"), nowhere);
  fs.put_back(*newer);
  t.open();
  expect_same("later", 100'000, 2);
}

// Generations cost an idle device nothing.
TEST_F(StoreOnDevice, WithoutWritesNoGenerationBegins) {
  t.options.device_generation_after = std::chrono::milliseconds(1);
  begin();
  const uint64_t before = superblock().generation;
  ASSERT_TRUE(put("k", 100'000, 1));
  wait_for_a_generation_after(before);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the object's last write may be after it
  const uint64_t generation = superblock().generation;
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(superblock().generation, generation);
  t.close();
  EXPECT_EQ(superblock().generation, generation);
}

TEST_F(StoreOnDevice, AnOlderDirectoryIsRefusedAndTheNewerOneOpens) {
  begin();
  ASSERT_TRUE(put("first", 200'000, 1));
  t.close();
  const auto older = fs.copy_of("/store");
  t.open();
  for (uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put("later" + std::to_string(i), 400'000, i));
  t.close();
  const auto newer = fs.copy_of("/store");
  fs.put_back(*older);
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("older than /dev/disk"), nowhere) << sentence;
  fs.put_back(*newer);
  t.open();
  expect_same("first", 200'000, 1);
  for (uint64_t i = 0; i < 12; ++i) expect_same("later" + std::to_string(i), 400'000, i);
}

// A copy that was made while the server ran: no start lies between, but volumes were made.
TEST_F(StoreOnDevice, AnOlderDirectoryOfTheSameStartIsRefused) {
  begin();
  ASSERT_TRUE(put("first", 200'000, 1));
  const auto older = fs.copy_of("/store");
  for (uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put("later" + std::to_string(i), 400'000, i));
  kill();
  const auto newer = fs.copy_of("/store");
  fs.put_back(*older);
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("older than /dev/disk"), nowhere) << sentence;
  EXPECT_NE(sentence.find("changes of the table"), nowhere) << sentence;
  fs.put_back(*newer);
  t.open();
  for (uint64_t i = 0; i < 12; ++i) expect_same("later" + std::to_string(i), 400'000, i);
}

TEST_F(StoreOnDevice, AnOlderDeviceIsRefused) {
  begin();
  ASSERT_TRUE(put("first", 200'000, 1));
  t.close();
  const auto older = fs.copy_of("/dev");
  for (int starts = 0; starts < 2; ++starts) {
    t.open();
    t.close();
  }
  const auto newer = fs.copy_of("/dev");
  fs.put_back(*older);
  EXPECT_NE(refusal().find("/dev/disk is older"), nowhere);
  fs.put_back(*newer);
  t.open();
  expect_same("first", 200'000, 1);
}

TEST_F(StoreOnDevice, AnOlderDirectoryGoesOnWhereItsLossIsAccepted) {
  begin();
  ASSERT_TRUE(put("first", 200'000, 1));
  t.close();
  const auto older = fs.copy_of("/store");
  t.open();
  for (uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(put("later" + std::to_string(i), 400'000, i));
  t.close();
  fs.put_back(*older);
  t.options.accept_data_loss = true;
  t.open();
  expect_same("first", 200'000, 1);
  EXPECT_FALSE(t.get("b", "later3"));
  ASSERT_TRUE(put("new", 400'000, 50));
  t.expect_no_leak();
  t.options.accept_data_loss = false;
  t.reopen();
  expect_same("first", 200'000, 1);
  expect_same("new", 400'000, 50);
}

// Inside the window that no number tells (device_bond.h) the missing volume does, and then the device must be as it
// was: else the directory that belongs to it is taken for the older one.
TEST_F(StoreOnDevice, AStartThatMissesVolumesChangesNothingOfTheDevice) {
  begin();
  for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(put("k" + std::to_string(i), 900'000, i));
  t.store->drain();
  const auto older = fs.copy_of("/store");
  const uint64_t before = table_changes();
  uint64_t gone = 0;
  while (gone < 6 && table_changes() == before) {
    ASSERT_TRUE(t.remove("b", "k" + std::to_string(gone++)));
    t.store->drain();
  }
  ASSERT_EQ(table_changes(), before + 1);
  kill();
  const auto newer = fs.copy_of("/store");
  const std::string bytes = all_of_the_device();
  fs.put_back(*older);
  const std::string sentence = refusal();
  EXPECT_NE(sentence.find("are missing"), nowhere) << sentence;
  EXPECT_TRUE(all_of_the_device() == bytes) << "it was written to";
  fs.put_back(*newer);
  t.open();
  for (uint64_t i = gone; i < 6; ++i) expect_same("k" + std::to_string(i), 900'000, i);
}

// A copy of a page whose place has taken no writes for months stands in for the other one, which could not be read this
// time. That another page has the newest change, of 500 extents and more, is what its count of changes stands for here.
TEST_F(StoreOnDevice, AnOldPageIsNotWrittenOverTheOneThatCouldNotBeRead) {
  begin();
  ASSERT_TRUE(put("k", 200'000, 1));
  t.close();
  const Superblock facts = superblock();
  const uint64_t place = facts.page_place(0, 0), other = facts.page_place(0, 1);
  std::vector<std::byte> block(device_block);
  const auto device = [&] { return std::move(*fs.open("/dev/disk", {.write = true})); };
  ASSERT_TRUE(read_fully(*device(), block, place));
  TablePage page = *decode_page(block, facts.id, 0);
  page.volumes.assign(entries_of_page, 0);
  --page.sequence;
  ASSERT_TRUE(write_fully(*device(), encode(page, facts.id), other));
  const std::string bytes = all_of_the_device();
  fs.fail_reads_at("/dev/disk", place);
  EXPECT_NE(refusal().find("are missing"), nowhere);
  fs.fail_reads_at("", 0);
  EXPECT_TRUE(all_of_the_device() == bytes) << "it was written to";
  t.open();
  expect_same("k", 200'000, 1);
}

TEST_F(StoreOnDevice, ACrashInAStartIsNoReasonToRefuseTheNext) {
  for (const Loss loss : {Loss::nothing, Loss::unsynced, Loss::torn}) {
    FaultyFileSystem here;
    TestStore store(&here);
    use_device(here, store.options, disk_bytes, volume_bytes);
    bool whole = false;
    for (uint64_t n = 0; !whole; ++n) {
      ASSERT_LT(n, 500u);
      SCOPED_TRACE("operation " + std::to_string(n));
      here.fail_at(n, Fault::crash);
      whole = store.try_open().has_value() && !here.fault_happened();
      store.close();
      here.crash(loss, n);
      if (n % 7 != 0 && !whole) continue;  // several starts that crash, one after the other
      store.open();
      if (::testing::Test::HasFatalFailure()) return;
      store.close();
    }
  }
}

TEST_F(StoreOnDevice, ARowOfTheDeviceThatIsNoneIsRefused) {
  const DeviceRow row{{random_device_id(), random_device_id()}, 12, 11, 345, 6};
  const std::string text = encode(row);
  const auto again = decode_device_row(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bond, row.bond);
  EXPECT_EQ(again->generation, 12u);
  EXPECT_EQ(again->confirmed, 11u);
  EXPECT_EQ(again->changes, 345u);
  EXPECT_EQ(again->lost_before, 6u);
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_device_row(text.substr(0, size))) << size;
  EXPECT_FALSE(decode_device_row(text + "1"));
  EXPECT_FALSE(decode_device_row(encode(DeviceRow{row.bond, UINT64_MAX, 11, 345})));
}

TEST_F(StoreOnDevice, WhichIsOlderFollowsFromTheNumbers) {
  const DeviceRow row{{}, 12, 10, 345};
  const auto apart = [&](uint64_t generation, uint64_t changes) {
    return why_apart(row, Superblock{.generation = generation}, changes, "INDEX", "DEVICE");
  };
  for (const uint64_t generation : {10, 11, 12}) {
    for (const uint64_t changes : {345, 346}) EXPECT_EQ(apart(generation, changes), "") << generation;
  }
  EXPECT_TRUE(apart(9, 345).starts_with("DEVICE is older"));
  EXPECT_TRUE(apart(13, 345).starts_with("INDEX is older"));
  EXPECT_TRUE(apart(12, 344).starts_with("DEVICE is older"));
  EXPECT_TRUE(apart(12, 347).starts_with("INDEX is older"));
}

// --- A copy that was ahead and could not be seen ---

// A change that was interrupted between the copies, whose first place is bad for the next start and good for the one
// after: what it has there was never noted, and is older than what was made since.
TEST_F(Device, ACopyThatWasAheadAndBadForAStartIsNotBelievedAfterwards) {
  for (const Fault fault : {Fault::crash, Fault::io_error}) {
    SCOPED_TRACE(static_cast<int>(fault));
    format();
    ASSERT_TRUE(make(*must_take(), 1));
    const Superblock facts = must_open()->superblock();
    {
      auto volumes = must_take();
      fs.fail_at(2, fault, "/dev");  // the first copy and its flush are done
      EXPECT_FALSE(make(*volumes, 2));
      ASSERT_TRUE(fs.fault_happened());
    }
    fs.crash(Loss::unsynced, 1);
    const uint64_t place = facts.page_place(0, 0);
    fs.fail_reads_at("/dev/disk", place);
    fs.fail_writes_at("/dev/disk", place);
    ASSERT_TRUE(make(*must_take(), 3));
    fs.fail_reads_at("", 0);
    fs.fail_writes_at("", 0);
    auto volumes = must_open();
    EXPECT_TRUE(volumes->stat(volume_path_of(1)));
    EXPECT_FALSE(volumes->stat(volume_path_of(2)));
    EXPECT_TRUE(volumes->stat(volume_path_of(3)));
    EXPECT_EQ(volumes->changes(), 2u);
    ASSERT_EQ(volumes->defects().size(), 1u);
    EXPECT_NE(volumes->defects()[0].find("is older"), std::string::npos) << volumes->defects()[0];
    ASSERT_TRUE(volumes->repair());
    EXPECT_TRUE(must_open()->stat(volume_path_of(3)));
    EXPECT_TRUE(must_open()->defects().empty());
  }
}

// Likewise, where nothing of the table was changed by the start that could not see it: objects of an old volume may
// have been written all the same.
TEST_F(Device, AnUnlinkThatWasAheadAndBadForAStartWithoutAChangeIsNotBelievedAfterwards) {
  for (const Fault fault : {Fault::crash, Fault::io_error}) {
    SCOPED_TRACE(static_cast<int>(fault));
    format();
    {
      auto volumes = must_take();
      ASSERT_TRUE(make(*volumes, 1));
      ASSERT_TRUE(make(*volumes, 2));
    }
    const Superblock facts = must_open()->superblock();
    const uint64_t changes = must_open()->changes();
    {
      auto volumes = must_take();
      fs.fail_at(2, fault, "/dev");  // the first copy and its flush are done
      EXPECT_FALSE(volumes->unlink(volume_path_of(2)));
      ASSERT_TRUE(fs.fault_happened());
    }
    fs.crash(Loss::unsynced, 1);
    const uint64_t place = facts.page_place(0, 0);
    fs.fail_reads_at("/dev/disk", place);
    fs.fail_writes_at("/dev/disk", place);
    const std::string bytes = pattern(extent_bytes, 7);
    {
      auto used = *must_take()->open(volume_path_of(2), {.write = true});
      ASSERT_TRUE(write_fully(*used, as_bytes(bytes), 0));
      ASSERT_TRUE(used->datasync());
    }
    fs.fail_reads_at("", 0);
    fs.fail_writes_at("", 0);
    auto volumes = must_open();
    EXPECT_EQ(volumes->changes(), changes);
    ASSERT_TRUE(volumes->stat(volume_path_of(2)));
    ASSERT_EQ(volumes->defects().size(), 1u);
    EXPECT_NE(volumes->defects()[0].find("is older"), std::string::npos) << volumes->defects()[0];
    ASSERT_TRUE(volumes->repair());
    EXPECT_TRUE(must_open()->defects().empty());
    auto kept = *must_open()->open(volume_path_of(2), {});
    std::string read(extent_bytes, '\0');
    ASSERT_TRUE(read_fully(*kept, std::as_writable_bytes(std::span(read.data(), read.size())), 0));
    EXPECT_TRUE(read == bytes);
  }
}

TEST_F(Device, ASuperblockThatWasAheadAndBadForAStartIsNotBelievedAfterwards) {
  format();
  must_take();
  const uint64_t before = must_open()->superblock().generation;
  {
    auto volumes = must_open();
    ASSERT_TRUE(volumes->repair());
    fs.fail_at(2, Fault::crash, "/dev");
    EXPECT_FALSE(volumes->set_owner(owner, before + 1));
  }
  fs.crash(Loss::unsynced, 1);
  fs.fail_reads_at("/dev/disk", superblock_places[0]);
  fs.fail_writes_at("/dev/disk", superblock_places[0]);
  {
    auto volumes = must_open();
    ASSERT_TRUE(volumes->repair());
    ASSERT_TRUE(volumes->set_owner(owner, before + 2));
    // While it is in use, too.
    fs.fail_reads_at("", 0);
    EXPECT_TRUE(make(*volumes, 1));
    EXPECT_FALSE(volumes->failed());
  }
  EXPECT_EQ(must_open()->superblock().generation, before + 2);
  fs.fail_writes_at("", 0);
}

}  // namespace
}  // namespace verbena::store::local
