// The paths of reads and writes: io_uring past the page cache, a copy from it, a thread for the rest. On real files.
#include "store/local/data_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/metrics.h"
#include "store/local/device_volumes.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

// A real file whose reads by the ring are spoiled.
class SpoiledFile final : public File {
 public:
  using Spoil = std::function<int(MutableBytes, int result)>;
  SpoiledFile(std::unique_ptr<File> file, Spoil spoil) : file_(std::move(file)), spoil_(std::move(spoil)) {}

  Result<size_t> pread(MutableBytes into, uint64_t offset) override { return file_->pread(into, offset); }
  Result<size_t> pwrite(Bytes from, uint64_t offset) override { return file_->pwrite(from, offset); }
  Result<void> datasync() override { return file_->datasync(); }
  Result<void> allocate(uint64_t offset, uint64_t length) override { return file_->allocate(offset, length); }
  Result<void> punch(uint64_t offset, uint64_t length) override { return file_->punch(offset, length); }
  Result<void> truncate(uint64_t size) override { return file_->truncate(size); }
  Result<FileStat> stat() override { return file_->stat(); }
  bool direct() const override { return file_->direct(); }
  int ring_descriptor() const override { return file_->ring_descriptor(); }
  int ring_read(MutableBytes into, uint64_t, int result) override {
    ++reads;
    return spoil_ ? spoil_(into, result) : result;
  }

  int ring_write(Bytes, uint64_t, int result) override {
    ++writes;
    return spoil_ ? spoil_({}, result) : result;
  }
  bool takes_writes() const override { return takes; }

  int reads = 0, writes = 0;
  bool takes = true;

 private:
  std::unique_ptr<File> file_;
  Spoil spoil_;
};

uint64_t reads_by(const char* way) {
  return metrics::counter("verbena_store_volume_reads_total", "", {{"way", way}}).value();
}

class DataReads : public testing::Test {
 protected:
  static constexpr size_t size = 256 * KiB;

  DataReads() : arena_(std::move(*memory::Arena::create(4 * MiB))), content_(pattern(size, 7)) {
    std::string name = std::filesystem::temp_directory_path() / "verbena-reads-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    std::ofstream(directory_ / "file") << content_;
    lease_ = std::move(*arena_->lease(size));
    std::memset(lease_.data(), 0, size);
  }
  ~DataReads() override {
    lease_.release();
    std::filesystem::remove_all(directory_);
  }

  // False: this machine has no io_uring, or its temporary folder no direct I/O.
  bool open(SpoiledFile::Spoil spoil, bool direct = true, bool ring = true) {
    auto file = real_file_system().open(directory_ / "file", {.write = true, .direct = direct});
    EXPECT_TRUE(file);
    const bool past_the_cache = (*file)->ring_descriptor() >= 0;
    auto spoiled = std::make_unique<SpoiledFile>(std::move(*file), std::move(spoil));
    file_ = spoiled.get();
    volume_ = std::make_shared<Volume>(1, std::move(spoiled));
    if (!direct || !ring) return true;
    return past_the_cache && IoRing::open(loop_, {.memory = arena_->mapping()}).has_value();
  }

  Result<void> read(uint64_t offset, size_t length) {
    auto future =
        boost::asio::co_spawn(loop_, io_.read(volume_, offset, lease_.bytes().first(length)), boost::asio::use_future);
    loop_.restart();
    loop_.run();
    return future.get();
  }
  Result<void> write(const std::string& bytes, uint64_t offset, bool in_place = true) {
    std::memcpy(lease_.data(), bytes.data(), bytes.size());
    const Bytes from = Bytes(lease_.bytes()).first(bytes.size());
    auto future = boost::asio::co_spawn(loop_, io_.write(volume_, offset, from, in_place), boost::asio::use_future);
    loop_.restart();
    loop_.run();
    return future.get();
  }
  std::string in_file(uint64_t offset, size_t length) {
    EXPECT_TRUE(read_fully(*file_, lease_.bytes().first(length), offset));
    return got(length);
  }
  std::string got(size_t length) const { return std::string(as_text(Bytes(lease_.bytes()).first(length))); }

  std::unique_ptr<memory::Arena> arena_;
  const std::string content_;
  std::filesystem::path directory_;
  memory::Lease lease_;
  std::shared_ptr<Volume> volume_;
  SpoiledFile* file_ = nullptr;
  BlockingPool pool_{1, 16};
  DataIo io_{pool_};
  boost::asio::io_context loop_{1};
};

TEST_F(DataReads, GoByTheRingPastThePageCache) {
  if (!open({})) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const uint64_t before = reads_by("io_uring"), threads = reads_by("threads");
  ASSERT_TRUE(read(64 * KiB, 128 * KiB));
  EXPECT_EQ(got(128 * KiB), content_.substr(64 * KiB, 128 * KiB));
  EXPECT_EQ(reads_by("io_uring"), before + 1);
  EXPECT_EQ(reads_by("threads"), threads);
  EXPECT_EQ(file_->reads, 1);
}

TEST_F(DataReads, GoByAThreadWhereTheLoopHasNoRing) {
  open({}, true, false);
  const uint64_t threads = reads_by("threads");
  ASSERT_TRUE(read(0, 128 * KiB));
  EXPECT_EQ(got(128 * KiB), content_.substr(0, 128 * KiB));
  EXPECT_EQ(reads_by("threads"), threads + 1);
  EXPECT_EQ(file_->reads, 0);
}

TEST_F(DataReads, GoOnAfterShortReadsOfTheRing) {
  int seen = 0;
  const auto shorten = [&seen](MutableBytes, int result) {
    return ++seen < 4 ? std::min(result, 12 * 1024 + 77) : result;
  };
  if (!open(shorten)) GTEST_SKIP() << "no io_uring or no direct I/O here";
  ASSERT_TRUE(read(0, size));
  EXPECT_EQ(got(size), content_);
  EXPECT_EQ(file_->reads, 4);
}

TEST_F(DataReads, TellAnErrorOfTheDiskAtOnce) {
  if (!open([](MutableBytes, int) { return -EIO; })) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const uint64_t threads = reads_by("threads");
  const auto done = read(0, 4096);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::io_error);
  EXPECT_EQ(done.error().sys, EIO);
  EXPECT_EQ(reads_by("threads"), threads);
}

TEST_F(DataReads, AskAThreadWhereTheRingCannot) {
  for (const int error : {EINVAL, EAGAIN, EOPNOTSUPP, ECANCELED}) {
    DataReads::loop_.restart();
    const auto refuse = [error](MutableBytes into, int) {
      std::memset(into.data(), 0, into.size());
      return -error;
    };
    if (IoRing::of(loop_.get_executor()) == nullptr) {
      if (!open(refuse)) GTEST_SKIP() << "no io_uring or no direct I/O here";
    } else {
      open(refuse, true, false);
    }
    const uint64_t threads = reads_by("threads");
    ASSERT_TRUE(read(4096, 64 * KiB)) << error;
    EXPECT_EQ(got(64 * KiB), content_.substr(4096, 64 * KiB));
    EXPECT_EQ(reads_by("threads"), threads + 1);
  }
}

TEST_F(DataReads, AFileThatEndsEarlyIsAnError) {
  if (!open({})) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const auto done = read(size - 4096, 8192);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::io_error);
  EXPECT_EQ(done.error().sys, 0);
}

TEST_F(DataReads, CopyWhatThePageCacheHas) {
  const auto file = real_file_system().open(directory_ / "file", {});
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->ring_descriptor(), -1);
  const auto cached = (*file)->pread_cached(lease_.bytes().first(8192), 4096);  // written a moment ago
  if (!cached) GTEST_SKIP() << "the page cache of this file system cannot be asked";
  ASSERT_EQ(*cached, 8192u);
  EXPECT_EQ(got(8192), content_.substr(4096, 8192));
}

TEST_F(DataReads, DirectIoThatTheFileSystemRefusesIsGivenUp) {
  auto file = real_file_system().open(directory_ / "file", {.write = true, .direct = true});
  ASSERT_TRUE(file);
  if (!(*file)->direct()) GTEST_SKIP() << "no direct I/O here";
  // An odd address and offset: the kernel answers EINVAL.
  const auto got_bytes = (*file)->pread(lease_.bytes().subspan(1, 100), 3);
  ASSERT_TRUE(got_bytes) << describe(got_bytes.error());
  EXPECT_EQ(*got_bytes, 100u);
  EXPECT_EQ(std::string(as_text(Bytes(lease_.bytes()).subspan(1, 100))), content_.substr(3, 100));
  EXPECT_FALSE((*file)->direct());
  EXPECT_EQ((*file)->ring_descriptor(), -1);
}

uint64_t ring_writes() { return metrics::counter("verbena_disk_ring_writes_total", "").value(); }

using DataWrites = DataReads;

TEST_F(DataWrites, GoByTheRingInPlace) {
  if (!open({})) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const std::string bytes = pattern(128 * KiB, 9);
  const uint64_t before = ring_writes();
  ASSERT_TRUE(write(bytes, 64 * KiB));
  EXPECT_EQ(ring_writes(), before + 1);
  EXPECT_EQ(in_file(64 * KiB, 128 * KiB), bytes);
  EXPECT_EQ(in_file(0, 64 * KiB), content_.substr(0, 64 * KiB));
}

TEST_F(DataWrites, GoByAThreadWhereTheFileMustGrow) {
  if (!open({})) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const std::string bytes = pattern(64 * KiB, 9);
  const uint64_t before = ring_writes();
  ASSERT_TRUE(write(bytes, size, false));
  EXPECT_EQ(ring_writes(), before);
  EXPECT_EQ(in_file(size, 64 * KiB), bytes);
}

TEST_F(DataWrites, AThreadWritesWhatTheRingLeft) {
  for (const int result : {4096 + 77, 3, 0, -EAGAIN, -EINVAL, -ECANCELED}) {
    int seen = 0;
    const auto spoil = [&](MutableBytes, int done) { return ++seen == 1 || result <= 3 ? result : done; };
    if (IoRing::of(loop_.get_executor()) == nullptr) {
      if (!open(spoil)) GTEST_SKIP() << "no io_uring or no direct I/O here";
    } else {
      open(spoil, true, false);
    }
    const std::string bytes = pattern(64 * KiB, static_cast<uint64_t>(1000 + result));
    ASSERT_TRUE(write(bytes, 4096)) << result;
    EXPECT_EQ(in_file(4096, 64 * KiB), bytes) << result;
  }
}

TEST_F(DataWrites, TellAnErrorOfTheDiskAtOnce) {
  if (!open([](MutableBytes, int) { return -EIO; })) GTEST_SKIP() << "no io_uring or no direct I/O here";
  const auto done = write(pattern(4096, 1), 0);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::io_error);
  EXPECT_EQ(done.error().sys, EIO);
}

TEST_F(DataReads, TheRingIsNotAskedToWriteWhatTheFileRefuses) {
  if (!open({})) GTEST_SKIP() << "no io_uring or no direct I/O here";
  ASSERT_TRUE(write(pattern(4096, 1), 0));
  EXPECT_EQ(file_->writes, 1);
  file_->takes = false;
  (void)write(pattern(4096, 2), 0);
  EXPECT_EQ(file_->writes, 1);
}

// A volume on a device is a part of the ring's file, elsewhere than at its begin.
TEST_F(DataReads, OfAVolumeOnADeviceGoToItsExtent) {
  const auto open_disk = [&] {
    return std::move(*real_file_system().open(directory_ / "disk", {.write = true, .create = true, .direct = true}));
  };
  auto disk = open_disk();
  ASSERT_TRUE(disk->truncate(64 * MiB));
  const auto facts = format_device(*disk, 1 * MiB, device_size_min);
  ASSERT_TRUE(facts) << describe(facts.error());
  if (disk->ring_descriptor() < 0 || !IoRing::open(loop_, {.memory = arena_->mapping()})) {
    GTEST_SKIP() << "no io_uring or no direct I/O here";
  }
  std::string trouble;
  auto volumes = DeviceVolumes::open("disk", open_disk(), trouble);
  ASSERT_TRUE(volumes) << trouble;
  ASSERT_TRUE((*volumes)->set_owner(random_device_id(), 1));
  const OpenMode make{.write = true, .create = true, .direct = true};
  ASSERT_TRUE((*volumes)->open("disk/0000000000000001.volume", make));
  volume_ = std::make_shared<Volume>(2, std::move(*(*volumes)->open("disk/0000000000000002.volume", make)));
  const uint64_t before = reads_by("io_uring");
  const std::string bytes = pattern(128 * KiB, 3);
  ASSERT_TRUE(write(bytes, 256 * KiB));
  std::memset(lease_.data(), 0, bytes.size());
  ASSERT_TRUE(read(256 * KiB, bytes.size()));
  EXPECT_TRUE(got(bytes.size()) == bytes);
  EXPECT_EQ(reads_by("io_uring"), before + 1);
  ASSERT_TRUE(read_fully(*disk, lease_.bytes().first(bytes.size()), facts->data_at + 1 * MiB + 256 * KiB));
  EXPECT_TRUE(got(bytes.size()) == bytes) << "it lies elsewhere";
  // A range that leaves the extent reaches no other volume.
  EXPECT_FALSE(write(bytes, 1 * MiB - 64 * KiB));
  EXPECT_FALSE(read(1 * MiB - 64 * KiB, bytes.size()));
}

// The engine on a real directory, its loop with a ring.
class StoreOnARing : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = IoRing::open(test.io(), {.memory = test.arena().mapping()});
    if (!opened) GTEST_SKIP() << "this machine has no io_uring: " << describe(opened.error());
    test.open();
    test.make_bucket("bucket");
  }
  TestStore test;
};

TEST_F(StoreOnARing, ReadsWhatWasPut) {
  const std::string bytes = pattern(5 * MiB + 12'345, 1);
  ASSERT_TRUE(test.put("bucket", "key", bytes));
  const uint64_t before = reads_by("io_uring") + reads_by("page_cache");
  const auto got = test.get("bucket", "key");
  ASSERT_TRUE(got) << describe(got.error());
  EXPECT_EQ(*got, bytes);
  EXPECT_GT(reads_by("io_uring") + reads_by("page_cache"), before);
  const auto reader = test.run(test.store->open("bucket", "key"));
  ASSERT_TRUE(reader);
  EXPECT_EQ(*test.read(**reader, 70'001, 3), bytes.substr(70'001, 3));
}

Task<> read_one(std::shared_ptr<ObjectReader> reader, uint64_t offset, std::string& into) {
  auto chunk = co_await reader->read(offset, 1000);
  if (chunk) into = as_text(chunk->bytes);
}

TEST_F(StoreOnARing, GivesRangesThatAreWantedTogetherToTheDiskTogether) {
  const std::string bytes = pattern(4 * MiB, 4);
  ASSERT_TRUE(test.put("bucket", "key", bytes));
  const auto reader = test.run(test.store->open("bucket", "key"));
  ASSERT_TRUE(reader);
  auto& submissions = metrics::counter("verbena_disk_ring_submissions_total", "");
  const uint64_t submitted = submissions.value(), read = reads_by("io_uring");
  std::vector<std::string> got(16);
  for (size_t i = 0; i < got.size(); ++i) {
    boost::asio::co_spawn(test.io(), read_one(*reader, i * 200'000, got[i]), boost::asio::detached);
  }
  test.io().restart();
  test.io().run();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], bytes.substr(i * 200'000, 1000));
  if (reads_by("io_uring") == read) GTEST_SKIP() << "no direct I/O here";
  EXPECT_EQ(submissions.value() - submitted, 1u);
}

TEST_F(StoreOnARing, FindsRot) {
  ASSERT_TRUE(test.put("bucket", "key", pattern(1 * MiB, 2)));
  test.reopen();
  for (const auto& volume : std::filesystem::directory_iterator(test.options.directory / "volumes")) {
    std::fstream file(volume.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(300'000);
    file << "rot";
  }
  const auto got = test.get("bucket", "key");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::corrupt_object);
}

Task<> read_all(std::shared_ptr<ObjectReader> reader) {
  for (uint64_t at = 0; at < reader->info().size; at += 1 * MiB) (void)co_await reader->read(at, 1 * MiB);
}

TEST(StoreOnARingThatEnds, ReadsInFlightGiveTheirMemoryBack) {
  for (int turns = 0; turns < 6; ++turns) {
    TestStore test;
    auto opened = IoRing::open(test.io(), {.memory = test.arena().mapping()});
    if (!opened) GTEST_SKIP() << "this machine has no io_uring: " << describe(opened.error());
    test.open();
    test.make_bucket("bucket");
    ASSERT_TRUE(test.put("bucket", "key", pattern(4 * MiB, 3)));
    auto reader = test.run(test.store->open("bucket", "key"));
    ASSERT_TRUE(reader);
    for (int i = 0; i < 4; ++i) boost::asio::co_spawn(test.io(), read_all(*reader), boost::asio::detached);
    reader->reset();
    test.io().restart();
    for (int i = 0; i < turns; ++i) test.io().poll_one();
    // The arena would abort if a lease were still out after the loop.
  }
}

}  // namespace
}  // namespace verbena::store::local
