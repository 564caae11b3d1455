// The engines on which every test here runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/conformance/block_device_rig.h"
#include "store/conformance/far_store.h"
#include "store/conformance/rados_rig.h"
#include "store/conformance/rig.h"
#include "store/local/pmem_log.h"
#include "store/local/test_persistent_memory.h"
#include "store/local/test_store.h"
#include "store/memory/memory_store.h"

namespace verbena::store::conformance {

// The local engine on a file system that forgets unsynced data when it crashes.
class LocalRig : private std::unique_ptr<local::FaultyFileSystem>, public local::TestStore {
 public:
  explicit LocalRig(bool short_io = false)
      : unique_ptr(std::make_unique<local::FaultyFileSystem>()), local::TestStore(fs()) {
    fs()->set_short_io(short_io);
  }
  void vary(uint64_t seed) override {
    options.volume_size_max = 1 * MiB;
    options.write_behind_after = std::chrono::milliseconds(std::array{0, 1, 3'600'000}[seed % 3]);
    options.write_behind_max = std::array<uint64_t, 3>{0, 100'000, 64 * MiB}[seed / 3 % 3];
  }
  void crash(uint64_t seed) override {
    close();
    fs()->crash(local::FaultyFileSystem::Loss::unsynced, seed);
    open();
  }

 protected:
  local::FaultyFileSystem* fs() const { return std::unique_ptr<local::FaultyFileSystem>::get(); }
};

// Likewise with persistent memory, which forgets what was not written back.
class PmemRig : private std::unique_ptr<local::ModelMemories>, public LocalRig {
 public:
  PmemRig() : std::unique_ptr<local::ModelMemories>(std::make_unique<local::ModelMemories>()) {
    options.pmem = "/pmem";
    options.pmem_log_size = local::PmemLog::size_min;
    options.pmem_memories = memories();
  }
  // Not after an orderly stop, which would leave the log empty.
  void crash(uint64_t seed) override {
    fs()->fail_at(0, local::FaultyFileSystem::Fault::crash);
    close();
    fs()->crash(local::FaultyFileSystem::Loss::unsynced, seed);
    memories()->cut(seed);
    open();
  }

 private:
  local::ModelMemories* memories() const { return std::unique_ptr<local::ModelMemories>::get(); }
};

// Likewise with its volumes on a device.
class DeviceRig final : public LocalRig {
 public:
  DeviceRig() { local::use_device(*fs(), options); }
};

// Likewise with both.
class DevicePmemRig final : public PmemRig {
 public:
  DevicePmemRig() { local::use_device(*fs(), options); }
};

class MemoryRig : public Rig {
 public:
  void open() override {
    store_ = std::make_unique<in_memory::MemoryStore>(in_memory::Options{.arena = arena_.get(), .clock = &clock_});
  }
  Store& engine() override { return *store_; }
  uint64_t live_bytes() override { return store_->usage().blob_bytes; }
  bool leaks() override {
    const auto unnamed = store_->unnamed_blobs();
    return !unnamed || *unnamed != 0;
  }

 protected:
  std::unique_ptr<in_memory::MemoryStore> store_;
};

// The memory engine behind a catalogue that has nothing at hand.
class FarRig final : public MemoryRig {
 public:
  explicit FarRig(bool keeps_ends = true) : keeps_ends_(keeps_ends) {}
  void open() override {
    MemoryRig::open();
    far_ = std::make_unique<FarStore>(store_->context(), keeps_ends_);
  }
  Store& engine() override { return *far_; }

 private:
  const bool keeps_ends_;
  std::unique_ptr<FarStore> far_;
};

inline EngineStore& engine_of(Rig& rig) { return dynamic_cast<EngineStore&>(rig.below()); }

// Until the rows have everything acknowledged: for tests that look at rows, or at times that the rows alone decide.
inline void bring_into_rows(Rig& rig) {
  if (auto* const local = dynamic_cast<local::TestStore*>(&rig)) local->store->drain();
}

struct EngineUnderTest {
  const char* name;
  std::function<std::unique_ptr<Rig>()> make;
};

inline std::ostream& operator<<(std::ostream& out, const EngineUnderTest& engine) { return out << engine.name; }

// Adds the engine over RADOS where there is a cluster; tests/rados runs these.
inline std::vector<EngineUnderTest> with_rados(std::vector<EngineUnderTest> engines) {
  if (!RadosRig::has_cluster()) return engines;
  engines.push_back({"Rados", [] { return std::make_unique<RadosRig>(); }});
  engines.push_back({"RadosSplitting", [] { return std::make_unique<SplittingRadosRig>(); }});
  engines.push_back({"RadosKeeping", [] { return std::make_unique<KeepingRadosRig>(); }});
  return engines;
}

// Adds the local engine on a block device of the machine where there is one for it.
inline std::vector<EngineUnderTest> with_block_device(std::vector<EngineUnderTest> engines) {
  if (!BlockDeviceRig::has_device()) return engines;
  engines.push_back({"LocalOnBlockDevice", [] { return std::make_unique<BlockDeviceRig>(); }});
  return engines;
}

// Those that have their rows in this process.
inline std::vector<EngineUnderTest> near_engines() {
  return with_block_device({
      {"Local", [] { return std::make_unique<LocalRig>(); }},
      {"LocalOnDevice", [] { return std::make_unique<DeviceRig>(); }},
      {"LocalOnPmem", [] { return std::make_unique<PmemRig>(); }},
      {"Memory", [] { return std::make_unique<MemoryRig>(); }},
  });
}

inline const std::vector<EngineUnderTest>& engines() {
  static const std::vector<EngineUnderTest> all = [] {
    auto those = near_engines();
    those.push_back({"Far", [] { return std::make_unique<FarRig>(); }});
    return with_rados(std::move(those));
  }();
  return all;
}

// For tests about bytes: also on the machine's own files, and with short reads and writes.
inline const std::vector<EngineUnderTest>& engines_and_disks() {
  static const std::vector<EngineUnderTest> all = with_rados(with_block_device({
      {"Local", [] { return std::make_unique<LocalRig>(); }},
      {"LocalOnDevice", [] { return std::make_unique<DeviceRig>(); }},
      {"LocalOnPmem", [] { return std::make_unique<PmemRig>(); }},
      {"LocalOnDeviceAndPmem", [] { return std::make_unique<DevicePmemRig>(); }},
      {"LocalOnShortIo", [] { return std::make_unique<LocalRig>(true); }},
      {"LocalOnDisk", [] { return std::make_unique<local::TestStore>(); }},
      {"Memory", [] { return std::make_unique<MemoryRig>(); }},
      {"Far", [] { return std::make_unique<FarRig>(); }},
  }));
  return all;
}

class OnEngine : public ::testing::TestWithParam<EngineUnderTest> {
 protected:
  const std::unique_ptr<Rig> rig_ = GetParam().make();
  Rig& t = *rig_;
};

#define ON_THESE(fixture, engines_)                                    \
  INSTANTIATE_TEST_SUITE_P(On, fixture, ::testing::ValuesIn(engines_), \
                           [](const auto& engine) { return std::string(engine.param.name); })
#define ON_ALL_ENGINES(fixture) ON_THESE(fixture, engines())

}  // namespace verbena::store::conformance
