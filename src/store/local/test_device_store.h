// Support for tests of a store whose volumes are on a device.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "store/local/test_store.h"

namespace verbena::store::local {

inline constexpr uint64_t disk_bytes = 64 * MiB, volume_bytes = 1 * MiB;
inline constexpr size_t nowhere = std::string::npos;

class StoreOnDevice : public ::testing::Test {
 protected:
  StoreOnDevice() { use_device(fs, t.options, disk_bytes, volume_bytes); }
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

  void expect_same(const std::string& key, uint64_t size, uint64_t seed) {
    const auto got = t.get("b", key);
    ASSERT_TRUE(got) << key << ": " << describe(got.error());
    EXPECT_TRUE(*got == pattern(size, seed)) << key;
  }
  // The next start has another device, an empty one.
  void replace_by(const std::string& device) {
    fs.make_device(device, disk_bytes);
    ASSERT_TRUE(format_device(**fs.open(device, {.write = true}), volume_bytes, device_size_min));
    t.options.device = device;
  }
  // As after kill -9.
  void kill() {
    fs.fail_at(0, FaultyFileSystem::Fault::crash);
    t.close();
    fs.crash(FaultyFileSystem::Loss::nothing, 0);
  }
  std::string version() { return read_small_file(fs, "/store/VERSION", 1 * KiB).value_or(""); }
  void write_version(std::string_view text) { ASSERT_TRUE(replace_file(fs, "/store/VERSION", text)); }
  std::string all_of_the_device() {
    std::string bytes(disk_bytes, '\0');
    EXPECT_TRUE(
        read_fully(**fs.open("/dev/disk", {}), std::as_writable_bytes(std::span(bytes.data(), bytes.size())), 0));
    return bytes;
  }
  // Another object of this size into the volumes that are there: the table does not change.
  void put_without_a_change(const std::string& key, uint64_t size, uint64_t seed) {
    const uint64_t changes = table_changes();
    ASSERT_TRUE(put(key, size, seed));
    ASSERT_EQ(table_changes(), changes);
  }
  uint64_t table_changes() {
    std::string trouble;
    return (*DeviceVolumes::open("/dev/disk", std::move(*fs.open("/dev/disk", {})), trouble))->changes();
  }
  void wait_for_a_generation_after(uint64_t before) {
    for (int tries = 0; tries < 3000 && superblock().generation == before; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_GT(superblock().generation, before);
  }
  Superblock superblock() { return *read_superblock(**fs.open("/dev/disk", {})); }

  FaultyFileSystem fs;
  TestStore t{&fs};
};

}  // namespace verbena::store::local
