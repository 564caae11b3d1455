#include "store/local/scrub.h"

#include <algorithm>

#include "base/log.h"
#include "base/log_ring.h"
#include "base/metrics.h"
#include "store/local/engine.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

class ScrubTest : public testing::Test {
 protected:
  ScrubTest() : t_(&fs_) {
    t_.open();
    t_.make_bucket("b");
  }
  ScrubReport scrub() {
    auto report = t_.store->scrub();
    EXPECT_TRUE(report) << describe(report.error());
    return report ? *report : ScrubReport{};
  }
  std::string volume() {
    const auto names = fs_.list("/store/volumes");
    EXPECT_EQ(names->size(), 1u);
    return "/store/volumes/" + names->front();
  }

  FaultyFileSystem fs_;
  TestStore t_;
};

TEST_F(ScrubTest, ReadsEverythingAndFindsNothingWrongInSoundObjects) {
  uint64_t least = 0;
  for (const size_t size :
       {size_t{1}, size_t{16'384}, size_t{16'385}, size_t{65'536}, size_t{65'537}, size_t{2'000'000}}) {
    ASSERT_TRUE(t_.put("b", "k" + std::to_string(size), pattern(size, size)));
    least += size;
  }
  const ScrubReport report = scrub();
  EXPECT_GE(report.bytes, least);
  EXPECT_EQ(report.damaged_blocks, 0u);
  EXPECT_TRUE(report.objects.empty());
}

TEST_F(ScrubTest, NamesTheObjectWhoseBitFlippedWhereverThatIs) {
  ASSERT_TRUE(t_.put("b", "k", pattern(200'000, 1)));
  auto& counter = metrics::counter("verbena_scrub_damaged_blocks_total", "");
  for (const uint64_t at : {0ul, 65'535ul, 65'536ul, 131'072ul, 199'999ul}) {
    const uint64_t before = counter.value();
    fs_.flip_bit(volume(), at);
    const ScrubReport report = scrub();
    EXPECT_EQ(report.damaged_blocks, 1u) << at;
    EXPECT_EQ(report.objects, std::vector<std::string>{"b/k"}) << at;
    EXPECT_EQ(counter.value(), before + 1);
    fs_.flip_bit(volume(), at);
  }
  fs_.flip_bit(volume(), 200'500);  // padding belongs to no object
  EXPECT_EQ(scrub().damaged_blocks, 0u);
}

// A line for each of them filled the log.
TEST_F(ScrubTest, OfVeryManyDamagedObjectsTheRestIsCounted) {
  constexpr size_t objects = 130, bytes = 20'000, stored_bytes = 20'480;
  for (size_t i = 0; i < objects; ++i) ASSERT_TRUE(t_.put("b", "k" + std::to_string(i), pattern(bytes, i)));
  for (size_t i = 0; i < objects; ++i) fs_.flip_bit(volume(), i * stored_bytes);
  const uint64_t before = log::ring().read(0, log::Level::trace, 1).last;
  const ScrubReport report = scrub();
  EXPECT_EQ(report.damaged_blocks, objects);
  EXPECT_EQ(report.objects.size(), 100u);
  EXPECT_EQ(report.unnamed, objects - 100);
  const auto said = log::ring().read(before, log::Level::error, log::Ring::lines_max);
  EXPECT_EQ(said.lines.size(), 101u);
  EXPECT_TRUE(said.lines.back().text.starts_with("scrub: 30 more objects")) << said.lines.back().text;
}

// The next start goes on behind them.
TEST_F(ScrubTest, AStopInARoundTellsTheNumberOfTheRest) {
  constexpr size_t objects = 130, bytes = 20'000, stored_bytes = 20'480;
  for (size_t i = 0; i < objects; ++i) ASSERT_TRUE(t_.put("b", "k" + std::to_string(i), pattern(bytes, i)));
  for (size_t i = 0; i < objects; ++i) fs_.flip_bit(volume(), i * stored_bytes);
  ASSERT_TRUE(t_.put("b", "large", pattern(16 * MiB, 1)));  // read after them
  auto& damaged = metrics::counter("verbena_scrub_damaged_blocks_total", "");
  auto& rounds = metrics::counter("verbena_scrub_rounds_total", "");
  const uint64_t damaged_before = damaged.value(), rounds_before = rounds.value();
  const uint64_t before = log::ring().read(0, log::Level::trace, 1).last;
  t_.options.scrub_rate = 8 * MiB;
  t_.reopen();
  while (damaged.value() < damaged_before + objects) std::this_thread::yield();
  t_.close();
  if (rounds.value() != rounds_before) GTEST_SKIP() << "the round was over before the store was closed";
  const auto said = log::ring().read(before, log::Level::error, log::Ring::lines_max);
  EXPECT_TRUE(said.lines.back().text.starts_with("scrub: 30 more objects")) << said.lines.back().text;
}

TEST_F(ScrubTest, AnObjectThatIsDamagedInManyPlacesIsNamedOnce) {
  ASSERT_TRUE(t_.put("b", "k", pattern(2 * segment_size, 1)));
  const auto volumes = fs_.list("/store/volumes");
  for (const std::string& one : *volumes) fs_.flip_bit("/store/volumes/" + one, 0);
  const ScrubReport report = scrub();
  EXPECT_EQ(report.damaged_blocks, volumes->size());
  EXPECT_GT(report.damaged_blocks, 2u);
  EXPECT_EQ(report.objects, std::vector<std::string>{"b/k"});
}

TEST_F(ScrubTest, FindsRotInOlderVersionsAndInParts) {
  ASSERT_TRUE(t_.set_versioning("b", Versioning::enabled));
  const auto first = t_.put("b", "k", pattern(100'000, 1));
  ASSERT_TRUE(first && t_.put("b", "k", pattern(100'000, 2)));
  fs_.flip_bit(volume(), 10);
  EXPECT_EQ(scrub().objects, std::vector<std::string>{"b/k version " + first->version_id});
  fs_.flip_bit(volume(), 10);

  const auto upload = *t_.start_upload("b", "m");
  const auto part = t_.put_part(upload, 1, pattern(300'000, 3));
  ASSERT_TRUE(part);
  const uint64_t at = 2 * align_up(100'000) + 7;
  fs_.flip_bit(volume(), at);
  EXPECT_EQ(scrub().objects.size(), 1u);
  EXPECT_NE(scrub().objects.front().find("part of an upload"), std::string::npos);
  ASSERT_TRUE(t_.complete(upload, {*part}));
  EXPECT_EQ(scrub().objects.front().substr(0, 3), "b/m");
}

TEST_F(ScrubTest, WhatTheDiskDoesNotReadIsCountedApartFromRot) {
  ASSERT_TRUE(t_.put("b", "k", pattern(100'000, 1)));
  auto& damaged = metrics::counter("verbena_scrub_damaged_blocks_total", "");
  auto& unreadable = metrics::counter("verbena_scrub_unreadable_blocks_total", "");
  const uint64_t damaged_before = damaged.value(), unreadable_before = unreadable.value();
  fs_.fail_reads(true);
  const ScrubReport report = scrub();
  fs_.fail_reads(false);
  EXPECT_EQ(report.damaged_blocks, 0u);
  EXPECT_TRUE(report.objects.empty());
  EXPECT_EQ(report.unreadable_blocks, 2u);
  EXPECT_EQ(report.unreadable, std::vector<std::string>{"b/k"});
  EXPECT_EQ(damaged.value(), damaged_before);
  EXPECT_EQ(unreadable.value(), unreadable_before + 2);
  EXPECT_EQ(scrub().unreadable_blocks, 0u);
}

TEST_F(ScrubTest, AVolumeThatIsGoneIsDamage) {
  ASSERT_TRUE(t_.put("b", "k", pattern(100'000, 1)));
  const std::string path = volume();
  t_.close();
  ASSERT_TRUE(fs_.unlink(path));
  t_.options.accept_data_loss = true;  // else the start reports what is missing, and refuses
  t_.open();
  const ScrubReport report = scrub();
  EXPECT_EQ(report.damaged_blocks, 2u);
  EXPECT_EQ(report.unreadable_blocks, 0u);
}

// It stood before a block of the index for ever, and rot behind it was never found.
TEST_F(ScrubTest, GoesOnBehindDamageToTheIndex) {
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(t_.put("b", "large" + std::to_string(i), pattern(17'000, static_cast<uint64_t>(i))));
    ASSERT_TRUE(t_.put("b", "small" + std::to_string(i), pattern(300, static_cast<uint64_t>(i))));
  }
  t_.reopen();  // tables now
  const uint64_t all = scrub().bytes;
  t_.close();
  const auto volumes = fs_.list("/store/volumes");
  ASSERT_TRUE(volumes && !volumes->empty());
  fs_.flip_bit("/store/volumes/" + *std::ranges::max_element(*volumes), 4096);  // of the last objects
  const auto listed = fs_.list("/store/index");
  ASSERT_TRUE(listed);
  int stood_in_the_way = 0;
  for (const std::string& name : *listed) {
    const std::string table = "/store/index/" + name;
    const uint64_t size = fs_.stat(table)->size;
    if (!name.ends_with(".sst") || size < 4000) continue;
    fs_.flip_bit(table, size / 3);  // of a block before the last one
    if (t_.try_open()) {
      const ScrubReport report = scrub();
      EXPECT_GE(report.damaged_blocks, 1u) << name << ": the volume's";
      stood_in_the_way += report.damaged_blocks > 1 ? 1 : 0;
      EXPECT_GT(report.bytes, all / 2) << name;
      t_.close();
    }
    fs_.flip_bit(table, size / 3);
  }
  EXPECT_EQ(stood_in_the_way, 2) << "the tables of places and of small objects' bytes";
}

// The index said "cannot be read" of each place: the scrub passed over all of them, and the round was complete.
TEST_F(ScrubTest, WithoutDescriptorsForTheIndexItPassesNothing) {
  constexpr int starts = 12;
  t_.options.open_index_files_max = 1;
  for (int i = 0; i < starts; ++i) {
    ASSERT_TRUE(t_.put("b", "k" + std::to_string(i), pattern(100'000, static_cast<uint64_t>(i))));
    t_.reopen();
  }
  auto& unreadable = metrics::counter("verbena_scrub_unreadable_blocks_total", "");
  const uint64_t before = unreadable.value();
  fs_.set_open_max("/store/index", 0);
  const auto report = t_.store->scrub();
  ASSERT_FALSE(report) << report->bytes << " bytes read, " << report->unreadable_blocks << " blocks unreadable";
  EXPECT_EQ(report.error(), Errc::slow_down);
  EXPECT_EQ(unreadable.value(), before);
  fs_.set_open_max("/store/index", SIZE_MAX);
  const ScrubReport whole = scrub();
  EXPECT_GE(whole.bytes, starts * 100'000u);
  EXPECT_EQ(whole.unreadable_blocks, 0u);
}

// Each number up to the one in the key counted as a block.
TEST_F(ScrubTest, AKeyOfThePlacesThatIsNoneIsPassedAtOnce) {
  t_.close();
  {
    const auto engine = std::make_shared<Engine>(t_.options);
    ASSERT_TRUE(engine->start());
    Batch batch(*engine->index);
    batch.put(Family::segments, keys::number(1000) + "x", "");
    ASSERT_TRUE(engine->index->write(batch) && engine->index->sync());
  }
  t_.open();
  ASSERT_TRUE(t_.put("b", "behind it", pattern(100'000, 1)));
  const ScrubReport report = scrub();
  EXPECT_EQ(report.damaged_blocks, 1u);
  EXPECT_GE(report.bytes, 100'000u);
}

// Of each damaged object it went through all rows, while the stop of the server waited for it.
TEST_F(ScrubTest, AStopDoesNotWaitUntilAnObjectIsNamed) {
  ASSERT_TRUE(t_.put("b", "small", pattern(300, 1)));
  t_.close();
  const auto engine = std::make_shared<Engine>(t_.options);
  ASSERT_TRUE(engine->start());
  Batch batch(*engine->index);
  for (Cursor cursor = engine->index->cursor(Family::in_index, ""); cursor.valid(); cursor.next()) {
    if (keys::parse_number(cursor.key())) batch.put(Family::in_index, cursor.key(), "rot");
  }
  ASSERT_TRUE(engine->index->write(batch));
  Scrub goes_on(*engine), stopped(*engine);
  stopped.stop();
  EXPECT_EQ(goes_on.run_once()->objects, std::vector<std::string>{"b/small"});
  const auto report = stopped.run_once();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->damaged_blocks, 1u);
  EXPECT_EQ(report->objects, std::vector<std::string>{"an object that was not looked for, since the server stops"});
}

TEST_F(ScrubTest, WhatWasRemovedIsNotRead) {
  ASSERT_TRUE(t_.put("b", "k", pattern(1'000'000, 1)));
  ASSERT_TRUE(t_.remove("b", "k"));
  EXPECT_EQ(scrub().bytes, 0u);
}

TEST_F(ScrubTest, WithoutARestItDoesNotSpinOnAStoreThatIsEmpty) {
  auto& rounds = metrics::counter("verbena_scrub_rounds_total", "");
  const uint64_t before = rounds.value();
  t_.options.scrub_rate = 1 * GiB;
  t_.options.scrub_rest = std::chrono::seconds(0);
  t_.reopen();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  t_.close();
  EXPECT_LE(rounds.value() - before, 2u);
}

// The thread: slow enough to be stopped in the middle, and it continues there after a restart.
TEST_F(ScrubTest, GoesOnWhereItWasAfterARestart) {
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(t_.put("b", "k" + std::to_string(i), pattern(1 * MiB, static_cast<uint64_t>(i))));
  auto& bytes = metrics::counter("verbena_scrub_bytes_total", "");
  auto& rounds = metrics::counter("verbena_scrub_rounds_total", "");
  const uint64_t before = bytes.value(), rounds_before = rounds.value();
  t_.options.scrub_rate = 64 * MiB;
  t_.reopen();
  while (bytes.value() < before + 2 * MiB) std::this_thread::yield();
  t_.close();
  const uint64_t stopped = bytes.value() - before;
  if (rounds.value() != rounds_before) GTEST_SKIP() << "the round was over before the store was closed";
  t_.options.scrub_rate = 1 * GiB;
  t_.open();
  while (rounds.value() == rounds_before) std::this_thread::yield();
  t_.close();
  // A read in progress at the stop may be repeated; completed ones are not.
  EXPECT_GE(bytes.value() - before, 8 * MiB);
  EXPECT_LE(bytes.value() - before, 8 * MiB + 1 * MiB);
  EXPECT_GE(stopped, 2 * MiB);
}

}  // namespace
}  // namespace verbena::store::local
