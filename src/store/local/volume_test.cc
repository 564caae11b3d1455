// Volumes: which have their files open, and what is durable when.
#include "store/local/volume.h"

#include <cerrno>
#include <future>

#include "base/metrics.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;
using Fault = FaultyFileSystem::Fault;

constexpr const char* folder = "/store/volumes";

class VolumesTest : public testing::Test {
 protected:
  VolumesTest() { EXPECT_TRUE(fs_.make_directory(folder)); }
  Volumes::Options options() {
    return {.directory = folder,
            .fs = &fs_,
            .volume_size_max = 1 * MiB,
            .allocate_step = 0,
            .free_bytes_min = 0,
            .open_max = 4,
            .next_id = [this] { return ++id_; }};
  }
  // Writes like write_behind.
  static void write_behind(Volumes& volumes) {
    const std::vector<std::byte> bytes(disk_alignment);
    auto run = volumes.reserve(VolumeKind::written_behind, bytes.size());
    ASSERT_TRUE(run);
    ASSERT_TRUE(write_fully(run->volume->file(), bytes, run->offset));
    run->volume->note_written();
    volumes.settle(*run);
  }

  FaultyFileSystem fs_;
  uint64_t id_ = 0;
};

// set_durability() relies on this: it must not call a bucket durable while its bytes are being written.
TEST_F(VolumesTest, AVolumeThatIsLeavingItsListIsSyncedBeforeWrittenBehindCountsAsDurable) {
  Volumes volumes(options());
  write_behind(volumes);
  fs_.hold_syncs(folder);
  auto leaving = std::async(std::launch::async, [&] { return volumes.take_finished(/*all=*/true).size(); });
  fs_.wait_for_held_sync();
  auto durable = std::async(std::launch::async, [&] { return volumes.sync_written_behind().has_value(); });
  EXPECT_EQ(durable.wait_for(100ms), std::future_status::timeout) << "it said so while the volume's sync was running";
  fs_.release_syncs();
  EXPECT_TRUE(durable.get());
  EXPECT_EQ(leaving.get(), 1u);
}

TEST_F(VolumesTest, ASyncThatFailsWhileAVolumeLeavesItsListIsTold) {
  Volumes volumes(options());
  write_behind(volumes);
  fs_.fail_at(1, Fault::io_error);  // the cut, then the sync
  EXPECT_TRUE(volumes.take_finished(/*all=*/true).empty());
  ASSERT_TRUE(fs_.fault_happened());
  const auto told = volumes.sync_written_behind();
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error(), Errc::io_error);
  // Nor is it forgotten when others were synced since.
  write_behind(volumes);
  EXPECT_FALSE(volumes.sync_written_behind());
  // When the volume is removed, it contains nothing that could be missing.
  EXPECT_TRUE(volumes.drop(1));
  EXPECT_TRUE(volumes.sync_written_behind());
}

TEST_F(VolumesTest, AVolumeWhoseSyncFailedIsNotMarkedCleanByALaterOne) {
  Volumes volumes(options());
  write_behind(volumes);
  fs_.fail_at(0, Fault::io_error);
  EXPECT_FALSE(volumes.sync_written_behind());
  EXPECT_TRUE(volumes.take_finished(/*all=*/true).empty()) << "the first sync may have dropped pages";
}

TEST_F(VolumesTest, OneVolumeThatFailsDoesNotKeepTheOthersFromTheirSync) {
  Volumes volumes(options());
  write_behind(volumes);
  auto failed = volumes.cached(1);
  failed->distrust();
  write_behind(volumes);  // into another
  EXPECT_FALSE(volumes.sync_written_behind());
  ASSERT_NE(volumes.cached(2), nullptr);
  EXPECT_FALSE(volumes.cached(2)->dirty());
}

TEST_F(VolumesTest, ThoseThatNobodyUsesAreClosedThoseInUseAreNot) {
  Volumes volumes(options());
  fs_.set_open_max(folder, SIZE_MAX);  // counts
  for (uint64_t id = 101; id <= 120; ++id) ASSERT_TRUE(fs_.open(volumes.path(id), {.create = true}));
  const auto in_use = *volumes.open(101);
  for (uint64_t id = 102; id <= 120; ++id) ASSERT_TRUE(volumes.open(id));
  EXPECT_EQ(fs_.open_files(), 4u);
  EXPECT_EQ(volumes.cached(101), in_use);
  EXPECT_EQ(volumes.cached(102), nullptr);
  EXPECT_NE(volumes.cached(120), nullptr);
  EXPECT_EQ(volumes.open(121).error(), Errc::not_found);
}

// --- The store above them ---

class ManyVolumes : public testing::Test {
 protected:
  static constexpr int count = 24;  // of volumes, with one object each
  void SetUp() override {
    t_.options.volume_size_max = 1 * MiB;
    t_.options.open_volumes_max = 4;
    t_.open();
    t_.make_bucket("b");
    for (int i = 0; i < count; ++i) ASSERT_TRUE(t_.put("b", name(i), bytes(i)));
    t_.store->drain();
    ASSERT_GE(fs_.list(folder)->size(), static_cast<size_t>(count));
  }
  static std::string name(int i) { return "k" + std::to_string(i); }
  static std::string bytes(int i) { return pattern(700'000, static_cast<uint64_t>(i)); }

  FaultyFileSystem fs_;
  TestStore t_{&fs_};
};

TEST_F(ManyVolumes, AStoreOfMoreVolumesThanFilesMayBeOpenIsReadWhole) {
  fs_.set_open_max(folder, 8);
  t_.reopen();
  std::vector<std::shared_ptr<ObjectReader>> readers;  // open ones hold no file
  for (int i = 0; i < count; ++i) {
    auto reader = t_.run(t_.store->open("b", name(i)));
    ASSERT_TRUE(reader) << i;
    auto read = t_.read(**reader, 0, 700'000);
    ASSERT_TRUE(read) << i << ": " << describe(read.error());
    EXPECT_TRUE(*read == bytes(i)) << i;
    readers.push_back(*reader);
  }
  const auto report = t_.store->scrub();
  ASSERT_TRUE(report) << describe(report.error());
  EXPECT_EQ(report->damaged_blocks + report->unreadable_blocks, 0u);
  readers.clear();
  for (int i = 0; i < count; ++i) ASSERT_TRUE(t_.remove("b", name(i)));
  t_.expect_no_leak();
}

TEST_F(ManyVolumes, AProcessOutOfDescriptorsHasNoDamagedObjects) {
  auto& damaged = metrics::counter("verbena_store_corrupt_reads_total", "");
  const uint64_t before = damaged.value();
  fs_.set_open_max(folder, 1);
  t_.reopen();
  const auto elsewhere = fs_.open(std::string(folder) + "/" + fs_.list(folder)->front(), {});
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(t_.get("b", name(3)).error(), Errc::slow_down);
  EXPECT_EQ(damaged.value(), before);
  const auto report = t_.store->scrub();
  ASSERT_FALSE(report) << report->damaged_blocks << " sound blocks were called damaged";
  EXPECT_EQ(report.error(), Errc::slow_down);
  fs_.set_open_max(folder, 8);
  EXPECT_EQ(t_.store->scrub()->damaged_blocks, 0u);
}

}  // namespace
}  // namespace verbena::store::local
