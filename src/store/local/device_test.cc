// A device alone: its layout, copies, faults of its table, other programs.
#include <algorithm>
#include <cstring>
#include <functional>

#include "base/checksum.h"
#include "base/metrics.h"
#include "store/local/test_device.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

TEST_F(Device, ALayoutFitsItsDevice) {
  for (const uint64_t size : {64 * MiB, 100 * MiB + 4096, 1 * GiB, 3 * TiB, 2000 * TiB}) {
    const auto plan = plan_device(size);
    ASSERT_TRUE(plan) << size;
    EXPECT_GE(plan->extents, 50u) << size;
    EXPECT_LE(plan->extents, extents_max);
    // Other programs look in the first and the last 4 MiB: no byte of a client lies there.
    EXPECT_GT(plan->data_at, 4 * MiB);
    EXPECT_LE(plan->data_at + plan->extents * plan->extent_size, size - 4 * MiB);
    EXPECT_GE(plan->page_place(0, 0), superblock_places[1] + device_block);
    EXPECT_GE(plan->page_place(0, 1), plan->page_place(plan->pages(), 0));
    EXPECT_GE(plan->page_place(0, 1) - plan->page_place(0, 0), 1 * MiB);
    EXPECT_LE(plan->page_place(plan->pages(), 1), plan->data_at);
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
  const auto refused = [](const std::function<void(Superblock&)>& change) {
    Superblock s = *plan_device(1 * GiB);
    change(s);
    return decode_superblock(encode(s)).error() == Errc::malformed;
  };
  EXPECT_TRUE(refused([](Superblock& s) { s.extents += 1'000'000'000; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.data_at += 1 * MiB; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.extent_size = 0; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.device_size = s.data_at + s.extents * s.extent_size; }));
  EXPECT_TRUE(refused([](Superblock& s) {
    s.extents = 1;
    s.device_size = 10 * MiB;
  }));
  // What is counted must be able to grow.
  EXPECT_TRUE(refused([](Superblock& s) { s.sequence = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.generation = device_number_max; }));
  EXPECT_FALSE(refused([](Superblock& s) { s.generation = s.sequence = device_number_max - 1; }));
  EXPECT_EQ(decode_superblock({}).error(), Errc::malformed);
}

TEST_F(Device, APageWithNumbersThatCannotBeIsDamaged) {
  const DeviceId id = random_device_id();
  TablePage page{.number = 0, .sequence = 1, .changes = 1, .volumes = std::vector<uint64_t>(entries_of_page)};
  page.volumes[7] = device_number_max - 1;
  EXPECT_TRUE(decode_page(encode(page, id), id, 0));
  page.volumes[7] = device_number_max;
  EXPECT_EQ(decode_page(encode(page, id), id, 0).error(), Errc::corrupt_object);
  page.volumes[7] = 0;
  page.sequence = UINT64_MAX;
  EXPECT_EQ(decode_page(encode(page, id), id, 0).error(), Errc::corrupt_object);
  page.sequence = 1;
  page.changes = UINT64_MAX;
  EXPECT_EQ(decode_page(encode(page, id), id, 0).error(), Errc::corrupt_object);
}

// Whether it never was formatted, or lost its superblocks, cannot be told here: the command would empty it.
TEST_F(Device, ThatIsNotFormattedIsRefusedWithoutACommand) {
  EXPECT_EQ(open().error(), Errc::not_found);
  EXPECT_NE(trouble.find("has no superblock"), std::string::npos) << trouble;
  EXPECT_EQ(trouble.find("verbena device format"), std::string::npos) << trouble;
}

// --- What formatting would take away ---

TEST_F(Device, OnlyABlankOneIsFormattedWithoutForce) {
  EXPECT_EQ(what_occupies(*file()), "");
  for (const uint64_t place :
       {uint64_t{0}, 512 * KiB, device_data_at_min - 1, device_bytes - device_tail, device_bytes - 1}) {
    SCOPED_TRACE(place);
    ASSERT_TRUE(write_fully(*file(), as_bytes(std::string("x")), place));
    EXPECT_EQ(what_occupies(*file()), "holds bytes of something that is not recognized");
    ASSERT_TRUE(write_fully(*file(), as_bytes(std::string(1, '\0')), place));
    EXPECT_EQ(what_occupies(*file()), "");
  }
  // Erased flash reads so.
  ASSERT_TRUE(write_fully(*file(), as_bytes(std::string(1 * MiB, '\xff')), 2 * MiB));
  EXPECT_EQ(what_occupies(*file()), "");
  // The bytes of objects that were removed with an earlier format are not looked at.
  ASSERT_TRUE(write_fully(*file(), as_bytes(std::string(4096, 'x')), 20 * MiB));
  EXPECT_EQ(what_occupies(*file()), "");
  fs.fail_reads_at("/dev/disk", device_bytes - 5);
  EXPECT_NE(what_occupies(*file()).find("cannot be read"), std::string::npos);
}

TEST_F(Device, TheLastSectorsOfAnOddSizeAreNotForgotten) {
  constexpr uint64_t odd = device_bytes + 3 * 512;
  fs.make_device("/dev/odd", odd);
  const auto odd_file = [&] { return std::move(*fs.open("/dev/odd", {.write = true})); };
  EXPECT_EQ(what_occupies(*odd_file()), "");
  ASSERT_TRUE(write_fully(*odd_file(), as_bytes(std::string("x")), odd - 1));
  EXPECT_NE(what_occupies(*odd_file()), "");
}

TEST_F(Device, ATableWithoutItsSuperblocksIsNotFormattedWithoutForce) {
  format();
  EXPECT_EQ(what_occupies(*file()), "is formatted for volumes already");
  must_take();
  EXPECT_EQ(what_occupies(*file()), "has the volumes of a Verbena store");
  ASSERT_TRUE(write_fully(*file(), as_bytes(std::string(2 * MiB, '\0')), 0));
  EXPECT_NE(what_occupies(*file()).find("the table of a Verbena store"), std::string::npos) << what_occupies(*file());
  ASSERT_TRUE(write_fully(*file(), as_bytes(std::string(1 * MiB, '\0')), 2 * MiB));
  EXPECT_NE(what_occupies(*file()).find("the table of a Verbena store"), std::string::npos) << what_occupies(*file());
}

// A store that leaves 64 MiB free would take nothing there.
TEST_F(Device, ThatIsTooSmallForAStoreIsNotFormatted) {
  EXPECT_EQ(format_device(*file()).error(), Errc::unsupported);
  EXPECT_FALSE(open());
  fs.make_device("/dev/large", formatted_size_min);
  EXPECT_TRUE(format_device(**fs.open("/dev/large", {.write = true})));
}

TEST_F(Device, ThatBecameSmallerIsRefused) {
  format();
  ASSERT_TRUE(file()->truncate(device_bytes - 1 * MiB));
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("smaller"), std::string::npos) << trouble;
}

// --- Two copies of everything ---

TEST_F(Device, OneDamagedSuperblockIsNoneLostAndTwoAre) {
  format();
  for (const uint64_t place : superblock_places) {
    fs.flip_bit("/dev/disk", place + 100);
    const auto volumes = must_open();
    ASSERT_EQ(volumes->defects().size(), 1u);
    EXPECT_NE(volumes->defects()[0].find(std::to_string(place)), std::string::npos) << volumes->defects()[0];
    EXPECT_FALSE(volumes->begin_overwritten());
    fs.flip_bit("/dev/disk", place + 100);
  }
  for (const uint64_t place : superblock_places) fs.flip_bit("/dev/disk", place + 100);
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find("both copies"), std::string::npos) << trouble;
}

// A change is in both copies when it returns: either may be lost after it, and at the next start the other one.
TEST_F(Device, AChangeIsInBothCopies) {
  format();
  must_take();
  const Superblock facts = must_open()->superblock();
  uint64_t id = 0;
  for (const uint64_t copy : {0, 1, 1, 0}) {
    ASSERT_TRUE(make(*must_take(), ++id));
    fs.flip_bit("/dev/disk", facts.page_place(0, copy) + 10);
    fs.flip_bit("/dev/disk", superblock_places[copy] + 100);
    auto volumes = must_open();
    EXPECT_EQ(volumes->volumes(), id);
    EXPECT_EQ(volumes->superblock().owner, owner);
    ASSERT_EQ(volumes->defects().size(), 2u);
    ASSERT_TRUE(volumes->repair());
    EXPECT_TRUE(must_open()->defects().empty());
  }
}

TEST_F(Device, ACopyThatCannotBeReadIsReplacedByTheOther) {
  format();
  ASSERT_TRUE(make(*must_take(), 7));
  const Superblock facts = must_open()->superblock();
  for (const uint64_t place :
       {superblock_places[0], superblock_places[1], facts.page_place(0, 0), facts.page_place(0, 1)}) {
    fs.fail_reads_at("/dev/disk", place + 5);
    const auto volumes = must_open();
    EXPECT_EQ(volumes->volumes(), 1u) << place;
    ASSERT_EQ(volumes->defects().size(), 1u) << place;
    EXPECT_NE(volumes->defects()[0].find("cannot be read"), std::string::npos) << volumes->defects()[0];
    EXPECT_FALSE(volumes->begin_overwritten());
    fs.fail_reads_at("", 0);
  }
}

// A page did not count the table's changes once: its number is not where it was.
TEST_F(Device, APageOfTheEarlierLayoutIsDamagedAndNotMisread) {
  const DeviceId id = random_device_id();
  const TablePage page{.number = 0, .sequence = 3, .changes = 0, .volumes = std::vector<uint64_t>(entries_of_page, 5)};
  DeviceBlock block = encode(page, id);
  ASSERT_TRUE(decode_page(block, id, 0));
  constexpr size_t changes_at = 16, crc_at = device_block - sizeof(uint32_t);
  std::copy(block.begin() + changes_at + 8, block.begin() + crc_at, block.begin() + changes_at);
  const uint32_t crc = crc32c(Bytes(block).first(crc_at));
  std::memcpy(block.data() + crc_at, &crc, sizeof crc);
  ASSERT_TRUE(is_page(block));
  EXPECT_EQ(decode_page(block, id, 0).error(), Errc::corrupt_object);
}

// A place that can neither be read nor written takes one copy away, and with it no volume: not now, and not at the next
// start, also if it can be read again then. Here it is the older copy; device_copies_test.cc has the one that is ahead.
TEST_F(Device, AnyOnePlaceThatIsBadForGoodLeavesItUsable) {
  format();
  ASSERT_TRUE(make(*must_take(), 1));
  const Superblock facts = must_open()->superblock();
  uint64_t id = 1;
  for (const uint64_t place :
       {superblock_places[0], superblock_places[1], facts.page_place(0, 0), facts.page_place(0, 1)}) {
    SCOPED_TRACE(place);
    fs.fail_reads_at("/dev/disk", place + 5);
    fs.fail_writes_at("/dev/disk", place + 5);
    for (int starts = 0; starts < 2; ++starts) {
      auto volumes = must_take();
      ASSERT_TRUE(make(*volumes, ++id));
      ASSERT_TRUE(volumes->unlink(volume_path_of(id - 1)));
      EXPECT_FALSE(volumes->failed());
    }
    const uint64_t generation = must_open()->superblock().generation;
    fs.fail_reads_at("", 0);
    auto volumes = must_open();
    EXPECT_EQ(volumes->superblock().generation, generation);
    EXPECT_EQ(volumes->volumes(), 1u);
    EXPECT_TRUE(volumes->stat(volume_path_of(id)));
    // It is written again once that succeeds.
    fs.fail_writes_at("", 0);
    ASSERT_TRUE(volumes->repair());
    EXPECT_TRUE(must_open()->defects().empty());
  }
}

// As no program leaves them.
TEST_F(Device, CopiesOfOneNumberThatDifferAreRefused) {
  format();
  ASSERT_TRUE(make(*must_take(), 1));
  const Superblock facts = must_open()->superblock();
  std::vector<std::byte> block(device_block);
  ASSERT_TRUE(read_fully(*file(), block, facts.page_place(0, 1)));
  TablePage page = *decode_page(block, facts.id, 0);
  page.volumes[7] = 12;
  ASSERT_TRUE(write_fully(*file(), encode(page, facts.id), facts.page_place(0, 1)));
  EXPECT_EQ(open().error(), Errc::corrupt_object);
  EXPECT_NE(trouble.find("have one number and differ"), std::string::npos) << trouble;
  ASSERT_TRUE(write_fully(*file(), block, facts.page_place(0, 1)));
  must_open();
  Superblock other = facts;
  ++other.generation;
  ASSERT_TRUE(write_fully(*file(), encode(other), superblock_places[1]));
  EXPECT_EQ(open().error(), Errc::corrupt_object);
  EXPECT_NE(trouble.find("contradict each other"), std::string::npos) << trouble;
}

// A place that takes no writes and reads back what it had: nothing protects the other copy, so it is told.
TEST_F(Device, ACopyThatIsOlderIsADefect) {
  format();
  must_take();
  const Superblock facts = must_open()->superblock();
  for (const uint64_t place : {superblock_places[1], facts.page_place(0, 1)}) {
    std::vector<std::byte> before(device_block);
    ASSERT_TRUE(read_fully(*file(), before, place));
    ASSERT_TRUE(make(*must_take(), place));
    ASSERT_TRUE(write_fully(*file(), before, place));
    const auto volumes = must_open();
    ASSERT_EQ(volumes->defects().size(), 1u);
    EXPECT_NE(volumes->defects()[0].find(std::to_string(place)), std::string::npos) << volumes->defects()[0];
    EXPECT_NE(volumes->defects()[0].find("is older"), std::string::npos) << volumes->defects()[0];
    ASSERT_TRUE(volumes->repair());
    EXPECT_TRUE(must_open()->defects().empty());
  }
}

TEST_F(Device, ACopyThatStandsAloneIsNotLostUnnoticed) {
  format();
  ASSERT_TRUE(make(*must_take(), 1));
  const Superblock facts = must_open()->superblock();
  fs.fail_reads_at("/dev/disk", facts.page_place(0, 0));
  fs.fail_writes_at("/dev/disk", facts.page_place(0, 0));
  auto volumes = must_take();
  fs.fail_writes_at("/dev/disk", facts.page_place(0, 1));
  EXPECT_FALSE(make(*volumes, 2));
  EXPECT_TRUE(volumes->failed());
}

TEST_F(Device, WhoseRepairIsNotFlushedIsNotUsed) {
  format();
  fs.flip_bit("/dev/disk", superblock_places[1] + 100);
  auto volumes = must_open();
  fs.fail_syncs("/dev");
  EXPECT_FALSE(volumes->repair());
  EXPECT_TRUE(volumes->failed());
}

TEST_F(Device, APageIsLostWithBothCopiesAndToldByItsPlace) {
  format();
  ASSERT_TRUE(make(*must_take(), 7));
  const Superblock facts = must_open()->superblock();
  for (const uint64_t copy : {0, 1}) fs.flip_bit("/dev/disk", facts.page_place(0, copy) + 10);
  ASSERT_FALSE(open());
  EXPECT_NE(trouble.find(std::to_string(facts.page_place(0, 0))), std::string::npos) << trouble;
  EXPECT_NE(trouble.find(std::to_string(facts.page_place(0, 1))), std::string::npos) << trouble;
}

TEST_F(Device, BytesOfOthersAtItsBeginAreNoRot) {
  format();
  const std::string bytes(512, 'x');
  ASSERT_TRUE(write_fully(*file(), as_bytes(bytes), 0));
  EXPECT_TRUE(must_open()->begin_overwritten());
  EXPECT_TRUE(must_open()->defects().empty()) << "no start writes it again by itself";
}

// --- Volumes ---

TEST_F(Device, VolumesAreExtentsThatDoNotTouchEachOther) {
  format();
  auto volumes = must_take();
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
  auto volumes = must_take();
  const uint64_t all = *volumes->free_bytes("");
  auto open_file = *volumes->open(volume_path_of(7), {.write = true, .create = true});
  ASSERT_TRUE(volumes->unlink(volume_path_of(7)));
  EXPECT_EQ(volumes->open(volume_path_of(7), {}).error(), Errc::not_found);
  EXPECT_EQ(*volumes->free_bytes(""), all - extent_bytes);
  open_file.reset();
  EXPECT_EQ(*volumes->free_bytes(""), all);
  EXPECT_EQ(volumes->unlink(volume_path_of(7)).error(), Errc::not_found);
}

// --- Faults ---

// The table is what it was before a change or after it, whichever operation of the change the machine stops at.
TEST_F(Device, ACrashInAChangeOfTheTableLeavesItWhole) {
  bool all_done = false;
  for (uint64_t n = 0; !all_done; ++n) {
    ASSERT_LT(n, 100u);
    for (const Loss loss : {Loss::nothing, Loss::unsynced, Loss::torn}) {
      format();
      bool made = false, gone = false;
      {
        auto volumes = must_take();
        ASSERT_TRUE(make(*volumes, 1));
        ASSERT_TRUE(make(*volumes, 2));
        fs.fail_at(n, Fault::crash);
        made = make(*volumes, 3).has_value();
        gone = volumes->unlink(volume_path_of(1)).has_value();
        all_done = !fs.fault_happened();
      }
      fs.crash(loss, n);
      auto volumes = must_open();
      ASSERT_TRUE(volumes->repair());
      volumes = must_open();
      EXPECT_TRUE(volumes->defects().empty());
      EXPECT_TRUE(volumes->stat(volume_path_of(2)));
      EXPECT_TRUE(!made || volumes->stat(volume_path_of(3))) << n;
      EXPECT_FALSE(gone && volumes->stat(volume_path_of(1))) << n;
    }
  }
}

TEST_F(Device, ACrashInAStartLeavesItsSuperblockWhole) {
  format();
  uint64_t before = must_take()->superblock().generation;
  bool done = false;
  for (uint64_t n = 0; !done; ++n) {
    ASSERT_LT(n, 100u);
    for (const Loss loss : {Loss::nothing, Loss::unsynced, Loss::torn}) {
      {
        auto volumes = must_open();
        ASSERT_TRUE(volumes->repair());
        fs.fail_at(n, Fault::crash);
        done = volumes->set_owner(owner, before + 1).has_value();
      }
      fs.crash(loss, n);
      const Superblock now = must_open()->superblock();
      EXPECT_EQ(now.owner, owner);
      EXPECT_TRUE(now.generation == before + 1 || (!done && now.generation == before)) << n;
      before = now.generation;
    }
  }
}

// Old format, no format or new format: never the old superblock with a table that is not its own.
TEST_F(Device, AnInterruptedFormatIsTheOldFormatOrNone) {
  for (const Loss loss : {Loss::nothing, Loss::unsynced, Loss::torn}) {
    for (uint64_t n = 0;; ++n) {
      ASSERT_LT(n, 200u);
      format();
      const DeviceId old = must_take()->superblock().id;
      {
        auto volumes = must_take();
        ASSERT_TRUE(make(*volumes, 1));
        ASSERT_TRUE(make(*volumes, 2));
      }
      fs.fail_at(n, Fault::crash);
      const auto made = format_device(*file(), extent_bytes, device_size_min);
      fs.crash(loss, n);
      auto opened = open();
      if (made) {
        ASSERT_TRUE(opened) << trouble;
        EXPECT_EQ((*opened)->superblock().id, made->id);
        EXPECT_TRUE((*opened)->defects().empty());
        break;
      }
      if (!opened) continue;
      const bool is_old = (*opened)->superblock().id == old;
      EXPECT_EQ((*opened)->volumes(), is_old ? 2u : 0u) << n;
    }
  }
}

TEST_F(Device, AFormatOverwritesTheLastSectorsToo) {
  constexpr uint64_t odd = device_bytes + 3 * 512;
  fs.make_device("/dev/disk2", odd);
  auto device = std::move(*fs.open("/dev/disk2", {.write = true}));
  const std::string label(4 * MiB + 3 * 512, 'x');
  ASSERT_TRUE(write_fully(*device, as_bytes(label), odd - label.size()));
  ASSERT_TRUE(format_device(*device, 0, device_size_min));
  std::string end(label.size(), 'x');
  ASSERT_TRUE(read_fully(*device, std::as_writable_bytes(std::span(end.data(), end.size())), odd - end.size()));
  EXPECT_EQ(end.find_first_not_of('\0'), std::string::npos);
  EXPECT_TRUE(DeviceVolumes::open("/dev/disk2", std::move(device), trouble)) << trouble;
}

TEST_F(Device, AfterAFlushThatFailedNothingIsWritten) {
  format();
  auto volumes = must_take();
  auto one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
  auto two = *volumes->open(volume_path_of(2), {.write = true, .create = true});
  const std::string bytes = pattern(4096, 1);
  ASSERT_TRUE(write_fully(*one, as_bytes(bytes), 0));
  ASSERT_TRUE(write_fully(*two, as_bytes(bytes), 0));
  EXPECT_TRUE(two->takes_writes());
  fs.fail_syncs("/dev");
  EXPECT_FALSE(one->datasync());
  fs.fail_syncs("");
  // The kernel would report nothing more, and the other volume's bytes may be lost with the first one's.
  EXPECT_FALSE(two->datasync());
  EXPECT_FALSE(write_fully(*two, as_bytes(bytes), 0));
  EXPECT_FALSE(two->takes_writes());
  EXPECT_FALSE(make(*volumes, 3));
  std::string back(4096, '\0');
  EXPECT_TRUE(read_fully(*two, std::as_writable_bytes(std::span(back.data(), back.size())), 0));
}

// The write may have been done: what the table says after the next start is not known, so nothing may rest on it.
TEST_F(Device, AfterAWriteOfTheTableThatFailedNothingIsWritten) {
  for (const Fault fault : {Fault::io_error, Fault::io_error_applied}) {
    for (uint64_t n = 0; n < 4; ++n) {  // two writes and two flushes
      format();
      auto volumes = must_take();
      auto one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
      fs.fail_at(n, fault, "/dev");
      EXPECT_FALSE(volumes->unlink(volume_path_of(1))) << n;
      ASSERT_TRUE(fs.fault_happened());
      EXPECT_TRUE(volumes->failed());
      const std::string bytes = pattern(4096, 1);
      EXPECT_FALSE(write_fully(*one, as_bytes(bytes), 0)) << n;
      EXPECT_FALSE(make(*volumes, 2)) << n;
    }
  }
}

// Locks hold on one machine alone.
TEST_F(Device, ThatAnotherMachineTookOrFormattedIsNotChanged) {
  for (const bool formats : {false, true}) {
    format();
    auto volumes = must_take();
    ASSERT_TRUE(make(*volumes, 1));
    if (formats) {
      format();
    } else {
      auto other = must_open();
      ASSERT_TRUE(other->set_owner(random_device_id(), 1));
    }
    const std::string theirs = all_bytes();
    EXPECT_FALSE(make(*volumes, 2));
    EXPECT_TRUE(volumes->failed());
    EXPECT_TRUE(all_bytes() == theirs) << "it was written to";
    EXPECT_EQ(must_open()->volumes(), formats ? 0u : 1u);
  }
}

// Nor by the generations that a store begins while it runs.
TEST_F(Device, ThatAnotherMachineTookIsNotTakenBack) {
  format();
  auto volumes = must_take();
  auto other = must_open();
  ASSERT_TRUE(other->set_owner(random_device_id(), 1));
  const std::string theirs = all_bytes();
  EXPECT_FALSE(volumes->set_owner(owner, 2));
  EXPECT_TRUE(volumes->failed());
  EXPECT_TRUE(all_bytes() == theirs);
}

// A logical volume that is reduced, a LUN that is cut: the kernel answers as a full device does.
TEST_F(Device, ThatBecomesSmallerWhileItIsUsedIsGivenUpAndOneThatIsFullIsNot) {
  for (const bool smaller : {false, true}) {
    SCOPED_TRACE(smaller);
    fs.make_device("/dev/disk", device_bytes);
    format();
    auto volumes = must_take();
    auto one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
    const std::string bytes = pattern(4096, 1);
    ASSERT_TRUE(write_fully(*one, as_bytes(bytes), 0));
    if (smaller) {
      ASSERT_TRUE(file()->truncate(device_data_at_min));
    }
    std::string back(4096, '\0');
    const auto read = read_fully(*one, std::as_writable_bytes(std::span(back.data(), back.size())), 8192);
    EXPECT_EQ(read.has_value(), !smaller);
    if (smaller) {
      EXPECT_FALSE(is_missing(read.error())) << "it is not damage";
    }
    EXPECT_EQ(volumes->failed(), smaller);
    volumes.reset();
    one.reset();
    fs.make_device("/dev/disk", device_bytes);
    format();
    volumes = must_take();
    one = *volumes->open(volume_path_of(1), {.write = true, .create = true});
    if (smaller) {
      ASSERT_TRUE(file()->truncate(device_data_at_min));
    }
    fs.fail_at(0, Fault::no_space, "/dev");
    const auto written = write_fully(*one, as_bytes(bytes), 0);
    EXPECT_EQ(written.error(), smaller ? Errc::io_error : Errc::insufficient_storage);
    EXPECT_EQ(volumes->failed(), smaller);
    EXPECT_EQ(make(*volumes, 2).has_value(), !smaller);
  }
}

TEST_F(Device, ThatVanishedIsGivenUpByTheNextChange) {
  format();
  auto volumes = must_take();
  fs.vanish("/dev");
  EXPECT_FALSE(make(*volumes, 1));
  EXPECT_TRUE(volumes->failed());
  EXPECT_EQ(metrics::gauge("verbena_store_device_failed", "").value(), 1);
}

TEST_F(Device, AGenerationIsNotedBeforeTheSuperblockHasItAndAfterwards) {
  format();
  auto volumes = must_take();
  ASSERT_TRUE(make(*volumes, 1));
  const uint64_t next = volumes->superblock().generation + 1;
  std::vector<uint64_t> there;  // what the device has when it is called
  const auto note = [&](uint64_t generation, uint64_t changes) -> Result<void> {
    EXPECT_EQ(generation, next);
    EXPECT_EQ(changes, 1u);
    there.push_back(read_superblock(*file())->generation);
    return {};
  };
  ASSERT_TRUE(volumes->set_owner(owner, next, note, note));
  EXPECT_EQ(there, (std::vector<uint64_t>{next - 1, next}));
  const auto refuse = [](uint64_t, uint64_t) -> Result<void> { return fail(Errc::io_error); };
  EXPECT_FALSE(volumes->set_owner(owner, next + 1, refuse));
  EXPECT_EQ(read_superblock(*file())->generation, next);
  EXPECT_FALSE(volumes->failed());
}

TEST_F(Device, TheTableIsAheadOfWhatIsNotedByOneAtMost) {
  format();
  auto volumes = must_take();
  uint64_t noted = volumes->changes();
  bool refuses = false;
  volumes->note_changes([&](const DeviceVolumes::Change& change) -> Result<void> {
    if (refuses) return fail(Errc::io_error);
    EXPECT_EQ(change.number, noted + 1);
    noted = change.number;
    return {};
  });
  ASSERT_TRUE(make(*volumes, 1));
  EXPECT_EQ(noted, 1u);
  refuses = true;
  EXPECT_FALSE(make(*volumes, 2));
  for (int tries = 0; tries < 3; ++tries) {
    EXPECT_FALSE(make(*volumes, 3));
    EXPECT_FALSE(volumes->unlink(volume_path_of(1)));
    EXPECT_EQ(must_open()->changes(), 2u);
  }
  refuses = false;
  EXPECT_TRUE(volumes->unlink(volume_path_of(1)));
  EXPECT_EQ(noted, 3u);
  EXPECT_EQ(must_open()->changes(), 3u);
}

TEST_F(Device, OneFlushServesAllVolumes) {
  format();
  auto volumes = must_take();
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

// --- Discards ---

class Discards : public Device {
 protected:
  // Three full volumes, of which two go.
  void begin() {
    format();
    volumes = must_take();
    for (const uint64_t id : {1, 2, 3}) {
      auto made = *volumes->open(volume_path_of(id), {.write = true, .create = true});
      ASSERT_TRUE(write_fully(*made, as_bytes(pattern(extent_bytes, id)), 0));
    }
    EXPECT_FALSE(volumes->discard(extent_bytes));
    ASSERT_TRUE(volumes->unlink(volume_path_of(1)));
    ASSERT_TRUE(volumes->unlink(volume_path_of(3)));
    used = fs.used_bytes();
  }
  void expect_the_other_whole() {
    std::string bytes(extent_bytes, '\0');
    const auto kept = *volumes->open(volume_path_of(2), {});
    ASSERT_TRUE(read_fully(*kept, std::as_writable_bytes(std::span(bytes.data(), bytes.size())), 0));
    EXPECT_TRUE(bytes == pattern(extent_bytes, 2));
  }
  std::unique_ptr<DeviceVolumes> volumes;
  uint64_t used = 0;
};

TEST_F(Discards, AreOfFreedExtentsInPiecesAndOfNoOthers) {
  begin();
  EXPECT_TRUE(volumes->discard(extent_bytes / 2));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes / 2);
  EXPECT_TRUE(volumes->discard(extent_bytes));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes);
  // An extent that is given out again is no longer discarded.
  const std::string bytes = pattern(extent_bytes, 4);
  for (const uint64_t id : {4, 5}) {
    auto made = *volumes->open(volume_path_of(id), {.write = true, .create = true});
    ASSERT_TRUE(write_fully(*made, as_bytes(bytes), 0));
  }
  EXPECT_FALSE(volumes->discard(extent_bytes));
  EXPECT_EQ(fs.used_bytes(), used);
  expect_the_other_whole();
}

// Another machine's objects may lie in extents that were free here.
TEST_F(Discards, EndWhereAnotherMachineTookOrFormattedTheDevice) {
  for (const bool formats : {false, true}) {
    SCOPED_TRACE(formats);
    fs.make_device("/dev/disk", device_bytes);
    begin();
    if (formats) {
      format();
    } else {
      auto other = must_open();
      ASSERT_TRUE(other->set_owner(random_device_id(), 1));
    }
    const std::string theirs = all_bytes();
    EXPECT_FALSE(volumes->discard(extent_bytes));
    EXPECT_TRUE(volumes->failed());
    EXPECT_TRUE(all_bytes() == theirs);
  }
}

// A path to it that does not answer for a second. A change of the table cannot wait, and gives the device up.
TEST_F(Discards, WaitWhereTheSuperblockCannotBeReadForAMoment) {
  begin();
  fs.fail_reads(true);
  EXPECT_FALSE(volumes->discard(extent_bytes));
  EXPECT_FALSE(volumes->failed());
  EXPECT_EQ(fs.used_bytes(), used);
  fs.fail_reads(false);
  EXPECT_TRUE(volumes->discard(extent_bytes));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes);
  expect_the_other_whole();
  fs.fail_reads(true);
  EXPECT_FALSE(make(*volumes, 4));
  EXPECT_TRUE(volumes->failed());
}

TEST_F(Discards, GoOnAfterAnErrorElsewhere) {
  begin();
  fs.fail_at(0, Fault::io_error);
  EXPECT_TRUE(volumes->discard(extent_bytes));
  ASSERT_TRUE(fs.fault_happened());
  EXPECT_EQ(fs.used_bytes(), used);
  EXPECT_TRUE(volumes->discard(extent_bytes));
  EXPECT_EQ(fs.used_bytes(), used - extent_bytes);
  EXPECT_FALSE(volumes->discard(extent_bytes));
  expect_the_other_whole();
}

}  // namespace
}  // namespace verbena::store::local
