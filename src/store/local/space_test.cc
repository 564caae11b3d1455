// Space, damage and races.
#include <sys/stat.h>

#include <thread>

#include "store/local/record.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

std::filesystem::path only_volume(const TestStore& t) {
  for (const auto& entry : std::filesystem::directory_iterator(t.options.directory / "volumes")) return entry.path();
  return {};
}

uint64_t blocks(const std::filesystem::path& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 ? static_cast<uint64_t>(s.st_blocks) * 512 : 0;
}

TEST(Space, ADeletePunchesItsHoleAndADeadVolumeIsUnlinked) {
  TestStore t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "stays", pattern(1 * MiB, 1)));
  ASSERT_TRUE(t.put("b", "goes", pattern(2 * MiB, 2)));
  auto path = only_volume(t);
  uint64_t before = blocks(path);
  EXPECT_GE(before, 3 * MiB);
  ASSERT_TRUE(t.remove("b", "goes"));
  t.store->drain();
  EXPECT_LE(blocks(path) + 2 * MiB, before + 64 * KiB);
  EXPECT_TRUE(*t.get("b", "stays") == pattern(1 * MiB, 1));
  t.reopen();
  ASSERT_TRUE(t.remove("b", "stays"));
  t.store->drain();
  EXPECT_EQ(t.store->usage()->volumes, 0u);
}

// One row of the index describes 64 MiB.
TEST(Space, WhatManyRowsDescribeIsFreedWhole) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.options.volume_size_max = 1 * GiB;
  t.open();
  t.make_bucket("b");
  for (const uint64_t size : {segment_size, segment_size + 1, 2 * segment_size}) {
    auto writer = t.run(t.store->create("b", "k", size));
    ASSERT_TRUE(writer);
    const std::string piece = pattern(8 * MiB, size);
    for (uint64_t left = size; left != 0; left -= std::min<uint64_t>(left, piece.size())) {
      ASSERT_TRUE(t.append(**writer, piece.substr(0, left)));
    }
    ObjectInfo info;
    info.size = size;
    ASSERT_TRUE(t.run((*writer)->commit(std::move(info), {})));
    EXPECT_EQ(t.live_bytes(), align_up(size));
    ASSERT_TRUE(t.remove("b", "k"));
    EXPECT_EQ(t.live_bytes(), 0u) << size;
  }
  t.expect_no_leak();
}

// Each announced 64 MiB, sent one and stopped: 6.4 GB were taken from all others.
TEST(Space, UploadsThatPromiseMuchAndSendLittleHoldLittle) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.options.volume_size_max = 1 * GiB;
  t.options.allocate_step = 16 * MiB;
  t.open();
  t.make_bucket("b");
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  for (int i = 0; i < 100; ++i) {
    auto writer = t.run(t.store->create("b", "k" + std::to_string(i), 64 * MiB));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, pattern(1 * MiB, static_cast<uint64_t>(i))));
    writers.push_back(std::move(*writer));
  }
  EXPECT_LE(fs.used_bytes(), 240 * MiB);
}

TEST(Space, AFullDiskRefusesPutsServesReadsAndDeletes) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.options.volume_size_max = 2 * MiB;
  t.options.free_bytes_min = 2 * MiB;
  t.open();
  t.make_bucket("b");
  fs.set_capacity(12 * MiB);
  int stored = 0;
  Result<ObjectInfo> last;
  for (; stored < 100; ++stored) {
    last = t.put("b", "k" + std::to_string(stored), pattern(600'000, static_cast<uint64_t>(stored)));
    if (!last) break;
  }
  ASSERT_GT(stored, 5);
  ASSERT_LT(stored, 100);
  EXPECT_EQ(last.error(), Errc::insufficient_storage);
  t.store->drain();  // space that the refused PUT had taken
  fs.set_capacity(fs.used_bytes() + 1 * MiB);
  EXPECT_EQ(t.put("b", "small", "x").error(), Errc::insufficient_storage);
  for (int i = 0; i < stored; ++i) {
    EXPECT_TRUE(*t.get("b", "k" + std::to_string(i)) == pattern(600'000, static_cast<uint64_t>(i)));
  }
  for (int i = 0; i < stored; ++i) ASSERT_TRUE(t.remove("b", "k" + std::to_string(i)));
  t.store->drain();
  fs.set_capacity(12 * MiB);
  ASSERT_TRUE(t.put("b", "again", pattern(600'000, 1)));
  t.reopen();
  t.expect_no_leak();
}

TEST(Damage, AFlippedBitAnywhereInTheDataIsAnErrorNeverWrongBytes) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  std::string bytes = pattern(200'000, 1);
  ASSERT_TRUE(t.put("b", "k", bytes));
  auto names = fs.list("/store/volumes");
  ASSERT_EQ(names->size(), 1u);
  std::string path = "/store/volumes/" + names->front();
  for (uint64_t at : {0ul, 65'535ul, 65'536ul, 131'071ul, 199'999ul}) {
    fs.flip_bit(path, at);
    EXPECT_EQ(t.get("b", "k").error(), Errc::corrupt_object) << at;
    auto reader = t.run(t.store->open("b", "k"));
    // A range in an undamaged block is readable; one in the damaged block is not, wherever the bit is in it.
    uint64_t block = at / 65'536, other = (block + 1) % 3 * 65'536;
    EXPECT_EQ(t.run((*reader)->read(block * 65'536 + 100, 10)).error(), Errc::corrupt_object);
    EXPECT_EQ(*t.read(**reader, other, 100), bytes.substr(other, 100));
    fs.flip_bit(path, at);
  }
  EXPECT_TRUE(*t.get("b", "k") == bytes);
  fs.flip_bit(path, 200'500);  // padding
  EXPECT_TRUE(*t.get("b", "k") == bytes);
}

TEST(Damage, AMissingOrShortVolumeIsAnError) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(200'000, 1)));
  std::string path = "/store/volumes/" + fs.list("/store/volumes")->front();
  t.close();
  ASSERT_TRUE((*fs.open(path, {.write = true}))->truncate(100'000));
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::corrupt_object);
  t.close();
  ASSERT_TRUE(fs.unlink(path));
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::corrupt_object);
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
}

TEST(Damage, AnIoErrorOnReadIsNeitherBytesNorCorruption) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(200'000, 1)));
  fs.fail_reads(true);
  EXPECT_EQ(t.get("b", "k").error(), Errc::io_error);
  fs.fail_reads(false);
  EXPECT_TRUE(t.get("b", "k").has_value());
}

// One core of several: its own loop on its own thread, the store shared.
template <class Fn>
void on_threads(int n, Fn fn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(fn, i);
  for (auto& thread : threads) thread.join();
}

template <class T>
T run_on(boost::asio::io_context& io, Task<T> task) {
  auto future = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
  io.restart();
  io.run();
  return future.get();
}

Result<ObjectInfo> put_on(boost::asio::io_context& io, TestStore& t, const std::string& key, const std::string& bytes,
                          CommitConditions conditions) {
  VB_ASSIGN(auto writer, run_on(io, t.store->create("b", key, bytes.size())));
  VB_TRY(run_on(io, writer->append(t.chunk(bytes))));
  ObjectInfo info;
  info.size = bytes.size();
  info.etag = TestStore::etag_of(bytes);
  return run_on(io, writer->commit(info, conditions));
}

TEST(Races, ExactlyOneOfManyCreatorsWins) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  for (int round = 0; round < 10; ++round) {
    std::string key = "k" + std::to_string(round);
    std::atomic<int> won{0}, lost{0};
    on_threads(4, [&](int i) {
      auto& io = loop_that_stays();
      size_t size = i % 2 == 0 ? 100 : 70'000;
      auto done = put_on(io, t, key, pattern(size, static_cast<uint64_t>(i)), {{}, "*"});
      if (done) ++won;
      if (!done && done.error() == Errc::precondition_failed) ++lost;
    });
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, 3);
  }
  t.expect_no_leak();
}

TEST(Races, ReadersOfAKeyThatIsOverwrittenAllTheTimeSeeWholeObjects) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  std::vector<std::string> values;
  for (uint64_t i = 0; i < 4; ++i) values.push_back(pattern(i % 2 == 0 ? 70'000 + i : 1000 + i, i));
  ASSERT_TRUE(t.put("b", "k", values[0]));
  std::atomic<bool> stop{false};
  on_threads(4, [&](int i) {
    auto& io = loop_that_stays();
    if (i < 2) {
      for (int n = 0; n < 100; ++n) EXPECT_TRUE(put_on(io, t, "k", values[static_cast<size_t>(n + i) % 4], {}));
      stop = true;
      return;
    }
    while (!stop) {
      auto reader = run_on(io, t.store->open("b", "k"));
      ASSERT_TRUE(reader) << describe(reader.error());
      auto chunk = run_on(io, (*reader)->read(0, (*reader)->info().size));
      ASSERT_TRUE(chunk) << describe(chunk.error());
      EXPECT_TRUE(std::find(values.begin(), values.end(), as_text(chunk->bytes)) != values.end());
    }
  });
  t.expect_no_leak();
}

}  // namespace
}  // namespace verbena::store::local
