// Support for tests of a device alone, without a store.
#pragma once

#include <memory>
#include <string>

#include "store/local/device_volumes.h"
#include "store/local/test_store.h"
#include "store/local/volume_name.h"

namespace verbena::store::local {

inline constexpr uint64_t device_bytes = 64 * MiB, extent_bytes = 1 * MiB;

inline std::string volume_path_of(uint64_t id) { return "/dev/disk/" + volume_file_name(id); }

class Device : public ::testing::Test {
 protected:
  Device() { fs.make_device("/dev/disk", device_bytes); }
  std::unique_ptr<File> file() { return std::move(*fs.open("/dev/disk", {.write = true})); }
  void format() { ASSERT_TRUE(format_device(*file(), extent_bytes, device_size_min)); }
  Result<std::unique_ptr<DeviceVolumes>> open() { return DeviceVolumes::open("/dev/disk", file(), trouble); }
  std::unique_ptr<DeviceVolumes> must_open() {
    auto opened = open();
    EXPECT_TRUE(opened) << trouble;
    return std::move(*opened);
  }
  // As a start of the store does.
  std::unique_ptr<DeviceVolumes> must_take() {
    auto volumes = must_open();
    EXPECT_TRUE(volumes->repair());
    EXPECT_TRUE(volumes->set_owner(owner, volumes->superblock().generation + 1));
    return volumes;
  }
  std::string all_bytes() {
    std::string bytes(device_bytes, '\0');
    EXPECT_TRUE(read_fully(*file(), std::as_writable_bytes(std::span(bytes.data(), bytes.size())), 0));
    return bytes;
  }
  static Result<void> make(DeviceVolumes& volumes, uint64_t id) {
    VB_ASSIGN(auto made, volumes.open(volume_path_of(id), {.write = true, .create = true}));
    return {};
  }

  FaultyFileSystem fs;
  std::string trouble;
  const DeviceId owner = random_device_id();
};

}  // namespace verbena::store::local
