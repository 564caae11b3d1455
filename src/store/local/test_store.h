// Support for the engine's tests: a store on a directory (or on a faulty file system) and plain calls into it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <mutex>

#include "store/conformance/rig.h"
#include "store/local/device_volumes.h"
#include "store/local/local_store.h"
#include "store/local/test_faulty_file_system.h"

namespace verbena::store::local {

// A loop for a thread of a test. When its work is done the store's threads may still be waking it, so it stays until
// they have ended, as a core's does.
inline boost::asio::io_context& loop_that_stays() {
  static std::mutex mutex;
  static std::deque<boost::asio::io_context> loops;
  const std::lock_guard lock(mutex);
  return loops.emplace_back();
}

// Makes a device in the file system, and the options' store to have its volumes there.
inline void use_device(FaultyFileSystem& fs, Options& options, uint64_t size = 256 * MiB, uint64_t extent_size = 0) {
  options.device = "/dev/disk";
  fs.make_device(options.device, size);
  auto file = fs.open(options.device, {.write = true});
  ASSERT_TRUE(file && format_device(**file, extent_size, device_size_min));
}

using conformance::pattern;
using conformance::TestClock;

class TestStore : public conformance::Rig {
 public:
  explicit TestStore(FileSystem* fs = nullptr) {
    options.directory = "/store";
    if (fs == nullptr) {
      std::string name = std::filesystem::temp_directory_path() / "verbena-store-XXXXXX";
      made_ = ::mkdtemp(name.data());
      options.directory = made_;
    }
    options.arena = arena_.get();
    options.pool = &pool_;
    options.fs = fs;
    options.clock = &clock_;
    options.volume_size_max = 8 * MiB;
    options.allocate_step = 0;
    options.free_bytes_min = 0;
  }
  ~TestStore() override {
    close();
    if (!made_.empty()) std::filesystem::remove_all(made_);
  }

  Result<void> try_open() {
    VB_ASSIGN(store, LocalStore::open(options));
    return {};
  }
  void open() override {
    auto opened = try_open();
    ASSERT_TRUE(opened) << describe(opened.error());
  }
  void close() { store.reset(); }
  void reopen() override {
    close();
    open();
  }

  Store& engine() override { return *store; }
  uint64_t live_bytes() override {
    store->drain();
    return store->usage()->live_bytes;
  }

  bool leaks() override {
    store->drain();
    const auto usage = store->usage();
    return !usage || usage->allocated_bytes != usage->live_bytes + usage->kept_bytes;
  }
  // Checks that nothing is held that the index does not name, nor the store for reuse.
  void expect_no_leak() override {
    store->drain();
    auto usage = store->usage();
    ASSERT_TRUE(usage) << describe(usage.error());
    // A real file system counts the blocks of its own extent trees, too.
    uint64_t metadata = options.fs == nullptr ? usage->volumes * 16 * KiB : 0;
    const uint64_t known = usage->live_bytes + usage->kept_bytes;
    EXPECT_GE(usage->allocated_bytes, known);
    EXPECT_LE(usage->allocated_bytes, known + metadata);
  }

  Options options;
  std::unique_ptr<LocalStore> store;

 private:
  std::string made_;
  BlockingPool pool_{2, 1024};  // it posts to the loop: the loop goes last
};

}  // namespace verbena::store::local
