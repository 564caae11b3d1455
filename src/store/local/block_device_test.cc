// What other programs would recognize, in files that stand for devices; locks; what is no block device.
#include "store/local/block_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "base/fd.h"
#include "store/local/device_volumes.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;

// The label of Promise RAID, where libblkid looks for it in a disk of 64 MiB: no other is farther from the end.
constexpr std::string_view promise = "Promise Technology, Inc.";
constexpr uint64_t promise_place = 64 * MiB - 3087 * 512;

class BlockDevices : public ::testing::Test {
 protected:
  BlockDevices() {
    std::string name = std::filesystem::temp_directory_path() / "verbena-device-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~BlockDevices() override { std::filesystem::remove_all(directory_); }
  // Of 64 MiB, without bytes.
  int open_image(bool direct = false) {
    const auto path = directory_ / "disk";
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
    int fd = ::open(path.c_str(), flags | (direct ? O_DIRECT : 0), 0600);
    if (fd < 0 && direct) fd = ::open(path.c_str(), flags, 0600);
    EXPECT_EQ(::ftruncate(fd, 64 * MiB), 0);
    return fd;
  }
  std::unique_ptr<File> image_file() {
    return std::move(*real_file_system().open(directory_ / "disk", {.write = true}));
  }
  void put(std::string_view text, uint64_t at) { ASSERT_TRUE(write_fully(*image_file(), as_bytes(text), at)); }
  // As mkswap does: a version, a number of pages, a magic.
  void make_swap() {
    put(std::string("\1\0\0\0\xff\0\0\0", 8), 1024);
    put("SWAPSPACE2", 4086);
  }

  std::filesystem::path directory_;
};

// Debian has the library on every system: a machine without it cannot run these tests.
TEST_F(BlockDevices, OfOtherProgramsAreRecognized) {
  const Fd fd(open_image(/*direct=*/true));
  const auto known = foreign_contents(fd.get());
  ASSERT_TRUE(known) << known.error();
  EXPECT_EQ(*known, "");
  make_swap();
  const std::string found = foreign_contents(fd.get()).value();
  EXPECT_NE(found.find("swap"), std::string::npos) << found;
}

TEST_F(BlockDevices, WithAPartitionTableAreRecognized) {
  const Fd fd(open_image());
  std::string entry(16, '\0');
  entry[4] = '\x83';  // Linux
  entry[9] = 8;       // from sector 2048
  entry[13] = 8;      // 2048 sectors
  put(entry, 446);
  put("\x55\xaa", 510);
  const std::string found = foreign_contents(fd.get()).value();
  EXPECT_NE(found.find("partition table"), std::string::npos) << found;
}

TEST_F(BlockDevices, ThatAreFormattedHoldNothingOfOthers) {
  const Fd fd(open_image());
  make_swap();
  put(promise, promise_place);
  ASSERT_TRUE(format_device(*image_file(), 0, device_size_min));
  EXPECT_EQ(foreign_contents(fd.get()).value(), "");
}

// A client chooses the bytes of its objects, and RAIDs and encrypted disks are recognized by bytes far from the begin.
TEST_F(BlockDevices, AreNotRecognizedByBytesOfObjects) {
  const Fd fd(open_image());
  const auto facts = format_device(*image_file(), 0, device_size_min);
  ASSERT_TRUE(facts);
  // The second header of LUKS2, as it lies at 4 MiB; labels of mdadm, in every block of the last extents.
  std::string luks = std::string("SKUL\xba\xbe\0\2", 8) + std::string(4088, '\0');
  const std::string raid = std::string("\xfc\x4e\x2b\xa9\0\0\0\0\x5a\0\0\0", 12);
  for (uint64_t at = facts->data_at; at < facts->data_at + 64 * KiB; at += 4096) put(luks, at);
  const uint64_t end = facts->data_at + facts->extents * facts->extent_size;
  for (uint64_t at = end - 2 * MiB; at < end; at += 4096) put(raid, at);
  EXPECT_EQ(foreign_contents(fd.get()).value(), "");
  for (uint64_t at = end - 2 * MiB; at < end; at += 512) put(promise, at);
  EXPECT_EQ(foreign_contents(fd.get()).value(), "");
  // The same bytes are recognized where no object lies.
  put(promise, promise_place);
  EXPECT_NE(foreign_contents(fd.get()).value().find("promise"), std::string::npos)
      << foreign_contents(fd.get()).value();
  put(std::string(promise.size(), '\0'), promise_place);
  put(raid, 64 * MiB - 64 * KiB);
  EXPECT_NE(foreign_contents(fd.get()).value(), "");
}

TEST_F(BlockDevices, AreWaitedForWhileAnotherProgramLooksAtThem) {
  const Fd ours(open_image()), theirs(open_image());
  ASSERT_EQ(::flock(theirs.get(), LOCK_SH), 0);
  EXPECT_FALSE(lock_within(ours.get(), LOCK_EX, 60ms));
  EXPECT_EQ(errno, EWOULDBLOCK);
  auto looked = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(200ms);
    ::flock(theirs.get(), LOCK_UN);
  });
  EXPECT_TRUE(lock_within(ours.get(), LOCK_EX, 30s));
  looked.get();
}

TEST_F(BlockDevices, AreNeitherFilesNorOtherDevices) {
  const Fd fd(open_image());
  std::string trouble;
  EXPECT_FALSE(open_block_device(directory_ / "disk", DeviceUse::own, trouble));
  EXPECT_NE(trouble.find("is no block device"), std::string::npos) << trouble;
  EXPECT_FALSE(open_block_device("/dev/null", DeviceUse::own, trouble));
  EXPECT_NE(trouble.find("is no block device"), std::string::npos) << trouble;
  EXPECT_FALSE(open_block_device(directory_ / "none", DeviceUse::look, trouble));
  EXPECT_NE(trouble.find("is missing"), std::string::npos) << trouble;
}

}  // namespace
}  // namespace verbena::store::local
