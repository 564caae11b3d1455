// The engine with persistent memory, over the model: power cuts of memory and disk together, and refusals.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>

#include "store/local/test_pmem.h"

namespace verbena::store::local {
namespace {

TEST_F(Pmem, APutIsDurableWithoutASync) {
  t.open();
  t.make_bucket("b");
  const std::string small = pattern(4096, 1), largest = pattern(PmemLog::bytes_max, 2);
  const uint64_t before = fs.syncs("/store");
  fs.fail_at(UINT64_MAX, Fault::none);
  ASSERT_TRUE(t.put("b", "small", small));
  ASSERT_TRUE(t.put("b", "largest", largest));
  ASSERT_TRUE(t.put("b", "empty", ""));
  EXPECT_EQ(fs.syncs("/store"), before);
  EXPECT_EQ(fs.operations(), 0u) << "nothing is written to the disk either";
  const auto told = t.run(t.store->stat("b", "small"));
  ASSERT_TRUE(told);
  power_cut();
  t.open();
  const auto found = t.run(t.store->stat("b", "small"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->modified_us, told->modified_us);
  EXPECT_EQ(found->etag, told->etag);
  EXPECT_EQ(*t.get("b", "small"), small);
  EXPECT_EQ(*t.get("b", "largest"), largest);
  EXPECT_EQ(*t.get("b", "empty"), "");
  EXPECT_EQ(t.list("b")->entries.size(), 3u);
  t.expect_no_leak();
  EXPECT_EQ(*t.get("b", "largest"), largest) << "from the disk";
}

TEST_F(Pmem, ALargerObjectOneWithConditionsAndOneWithVersionsGoToTheDisk) {
  t.open();
  t.make_bucket("b");
  const auto synced = [&](const std::function<Result<ObjectInfo>()>& put) {
    const uint64_t before = fs.syncs("/store");
    EXPECT_TRUE(put());
    return fs.syncs("/store") != before;
  };
  TestStore::How once;
  once.conditions.if_none_match = "*";
  EXPECT_TRUE(synced([&] { return t.put("b", "large", pattern(PmemLog::bytes_max + 1, 1)); }));
  EXPECT_TRUE(synced([&] { return t.put("b", "new", "x", once); }));
  EXPECT_FALSE(synced([&] { return t.put("b", "k", "x"); }));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  EXPECT_TRUE(synced([&] { return t.put("b", "k", "y"); }));
}

TEST_F(Pmem, WhatTheIndexHadAndWasRemovedDoesNotComeBack) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "stays", "1"));
  ASSERT_TRUE(t.put("b", "k", "old"));
  ASSERT_TRUE(t.put("b", "k", "new"));
  ASSERT_TRUE(t.remove("b", "k"));
  power_cut();
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(*t.get("b", "stays"), "1");
  t.expect_no_leak();
}

TEST_F(Pmem, AnOrderlyStopNeedsNoLogAtTheNextStart) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "value"));
  t.close();
  memories.forget();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
  t.close();
  t.options.pmem.clear();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
}

TEST_F(Pmem, AnOlderProgramRefusesADirectoryThatUsedIt) {
  t.open();
  t.close();
  EXPECT_EQ(*read_small_file(fs, "/store/VERSION", 100), "verbena local store, format 8\n");
}

TEST_F(Pmem, AFullLogSendsPutsToTheDisk) {
  t.open();
  t.make_bucket("b");
  const auto value = [](int i) { return pattern(60'000, static_cast<uint64_t>(i)); };
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(t.put("b", "k" + std::to_string(i), value(i)));
  power_cut();
  t.open();
  for (int i = 0; i < 60; ++i) EXPECT_EQ(*t.get("b", "k" + std::to_string(i)), value(i)) << i;
  t.expect_no_leak();
}

TEST_F(Pmem, WhileTheDiskRefusesTheLogKeepsWhatItAcknowledged) {
  t.options.write_behind_after = std::chrono::milliseconds(1);
  t.open();
  t.make_bucket("b");
  fs.fail_syncs("/store");
  ASSERT_TRUE(t.put("b", "k", "value"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the first try to write it
  EXPECT_EQ(*t.get("b", "k"), "value");
  power_cut();
  fs.fail_syncs("");
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
}

// --- Reads
// ----------------------------------------------------------------------------------------------------

TEST_F(Pmem, WhatIsInTheLogIsReadFromMemoryWithoutWaiting) {
  t.open();
  t.make_bucket("b");
  const std::string bytes = pattern(4096, 1);
  ASSERT_TRUE(t.put("b", "k", bytes));
  ASSERT_TRUE(t.put("b", "empty", ""));
  const auto found = t.store->hot("b", "k");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(as_text(found->view(0, 4096)), bytes);
  EXPECT_EQ(as_text(found->peek(96, 4000).bytes), bytes.substr(96));
  EXPECT_TRUE(found->view(1, 4096).empty());
  EXPECT_EQ(t.store->hot("b", "other"), nullptr);
  EXPECT_EQ(t.store->hot("other", "k"), nullptr);
  EXPECT_EQ(t.store->hot("b", std::string(5000, 'k')), nullptr) << "no key";
  EXPECT_EQ(t.store->hot("b", "empty"), nullptr) << "has no bytes";
  t.store->drain();
  EXPECT_EQ(t.store->hot("b", "k"), nullptr);
  EXPECT_EQ(*t.get("b", "k"), bytes);
}

// RDMA devices read from the arena alone, where no PUT has put it.
TEST_F(Pmem, WhatAStartBroughtBackIsReadIntoTheArena) {
  t.open();
  t.make_bucket("b");
  const std::string bytes = pattern(5000, 1);
  ASSERT_TRUE(t.put("b", "k", bytes));
  power_cut();
  t.open();
  EXPECT_EQ(t.store->hot("b", "k"), nullptr);
  const auto reader = t.run(t.store->open("b", "k"));
  ASSERT_TRUE(reader);
  EXPECT_TRUE((*reader)->peek(0, 1).bytes.empty());
  const auto chunk = t.run((*reader)->read(100, 4000));
  ASSERT_TRUE(chunk) << describe(chunk.error());
  EXPECT_EQ(as_text(chunk->bytes), bytes.substr(100, 4000));
  EXPECT_TRUE(t.arena().contains(chunk->bytes.data(), chunk->bytes.size()));
  EXPECT_EQ(t.run((*reader)->read(4000, 1001)).error(), Errc::invalid_range);
}

// Whatever becomes of its record: overwritten, removed, moved to the disk, its space used again, its lines poisoned.
TEST_F(Pmem, AReaderKeepsWhatItOpened) {
  t.open();
  t.make_bucket("b");
  std::vector<std::shared_ptr<ObjectReader>> held;
  const auto value = [](uint64_t i) { return pattern(30'000, i); };
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(t.put("b", "k", value(i)));
    held.push_back(t.store->hot("b", "k"));
    ASSERT_NE(held.back(), nullptr);
  }
  ASSERT_TRUE(t.remove("b", "k"));
  for (uint64_t i = 3; i < 120; ++i) {  // the log's space is used three times
    ASSERT_TRUE(t.put("b", "other", value(i)));
    if (i % 10 == 0) t.store->drain();
  }
  for (uint64_t line = 4096; line < PmemLog::size_min; line += 4096) memories.poison(line);
  for (uint64_t i = 0; i < held.size(); ++i) EXPECT_EQ(as_text(held[i]->view(0, 30'000)), value(i)) << i;
  EXPECT_EQ(*t.get("b", "other"), value(119));
  ASSERT_TRUE(t.put("b", "after", "x"));
  EXPECT_EQ(*t.get("b", "after"), "x");
}

// --- Memory that fails
// ----------------------------------------------------------------------------------------------------

TEST_F(Pmem, APoisonedLineUnderAPutSendsItToTheDiskAndTheServerLives) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "before", "1"));
  memories.poison(4096 + 20 * cache_line);
  ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
  ASSERT_TRUE(t.put("b", "after", "2"));
  ASSERT_TRUE(t.remove("b", "before"));
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
  EXPECT_EQ(*t.get("b", "after"), "2");
  // The index has everything then, and says so: the line is no reason to refuse a start.
  t.store->drain();
  power_cut();
  t.open();
  EXPECT_EQ(t.get("b", "before").error(), Errc::no_such_key);
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
  EXPECT_EQ(*t.get("b", "after"), "2");
  t.expect_no_leak();
}

// Nothing else tells the thread of it: nothing waits any more, and no PUT asks the log.
TEST_F(Pmem, ALogThatFailsAtARemovalIsGivenUp) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "value"));
  memories.poison(cache_line);  // where the log says where it begins
  ASSERT_TRUE(t.remove("b", "k"));
  t.store->drain();
  power_cut();
  t.options.pmem.clear();
  const auto opened = t.try_open();
  ASSERT_TRUE(opened) << trouble;
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(Pmem, AFailedLogIsLeftBehindByAnOrderlyStop) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "value"));
  memories.poison(4096);  // where its record has its mark
  t.close();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
}

TEST_F(Pmem, WhatAnOverwrittenRecordHadDoesNotComeBack) {
  t.options.write_behind_after = std::chrono::milliseconds(1);
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 6; ++i) {
    const std::string newest = std::to_string(i);
    ASSERT_TRUE(t.put("b", "k", "old"));
    if (i % 2 == 0) t.store->drain();
    ASSERT_TRUE(t.put("b", "k", newest));
    if (i % 3 == 0) t.store->drain();
    power_cut(static_cast<uint64_t>(i));
    t.open();
    EXPECT_EQ(*t.get("b", "k"), newest);
  }
}

TEST_F(Pmem, AClockThatWasSetBackLosesNothing) {
  TestClock clock;
  t.options.clock = &clock;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "old"));
  t.store->drain();
  clock.step(-std::chrono::hours(1));
  ASSERT_TRUE(t.put("b", "k", "new"));
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "new");
  t.store->drain();
  EXPECT_EQ(*t.get("b", "k"), "new");
}

// A mapping of the machine's that loses its end while the server runs: the kernel sends SIGBUS, as for a bad block.
class ShortMemories final : public PersistentMemories {
 public:
  Result<std::unique_ptr<PersistentMemory>> open(const std::filesystem::path& /*folder*/, uint64_t size,
                                                 std::string& /*trouble*/) override {
    Fd fd(::memfd_create("pmem", MFD_CLOEXEC));
    file_ = fd.get();
    if (::ftruncate(file_, static_cast<off_t>(size)) != 0) return fail(Errc::io_error, "memfd");
    void* const base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (base == MAP_FAILED) return fail(Errc::io_error, "memfd");
    const MappedMemory::Mapping all{.base = static_cast<std::byte*>(base), .length = size, .size = size};
    return std::make_unique<MappedMemory>(PmemPlace{}, std::move(fd), all);
  }
  void shrink(uint64_t size) const { ASSERT_EQ(::ftruncate(file_, static_cast<off_t>(size)), 0); }

 private:
  int file_ = -1;
};

TEST_F(Pmem, ABusErrorUnderAPutSendsItToTheDiskAndTheServerLives) {
  ShortMemories short_ones;
  t.options.pmem_memories = &short_ones;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "before", "1"));
  short_ones.shrink(8192);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(t.put("b", "k" + std::to_string(i), pattern(3000, 1)));
  EXPECT_EQ(*t.get("b", "before"), "1");
  EXPECT_EQ(*t.get("b", "k9"), pattern(3000, 1));
  t.store->drain();
  t.options.pmem_memories = &memories;
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "before"), "1");
  EXPECT_EQ(*t.get("b", "k9"), pattern(3000, 1));
}

// --- Power cuts
// --------------------------------------------------------------------------------------------------

// Random changes of a few keys by every way, until the power fails at some call of the memory or of the disk.
class PmemCuts : public Pmem {
 protected:
  using Value = std::optional<std::string>;
  void run_seed(uint64_t seed) {
    std::mt19937_64 random(seed);
    t.options.write_behind_after = std::chrono::milliseconds(random() % 2);
    if (keeps_another_time_) t.options.keep_free = seed % 2 * 4 * MiB;
    t.open();
    if (seed == first_seed) t.make_bucket("b");
    check(seed);
    if (random() % 3 == 0) {
      fs.fail_at(random() % 60, Fault::crash);
    } else {
      memories.cut_at(random() % 150, [this] { fs.fail_at(0, Fault::crash); });
    }
    while (!is_over()) change(random);
    fs.fail_at(0, Fault::crash);
    t.close();
    fs.crash(random() % 2 == 0 ? Loss::unsynced : Loss::torn, seed);
    memories.cut(seed);
  }
  bool is_over() const { return fs.fault_happened() || memories.was_cut(); }

  void change(std::mt19937_64& random) {
    const std::string key = "k" + std::to_string(random() % 6);
    auto& possible = keys_[key];
    if (possible.empty()) possible = {std::nullopt};
    const uint64_t what = random() % 12;
    // These wait for what is in the log, on a disk that has stopped for 15 s. A removal of what waits does not.
    if (what < 2 || what == 9) t.store->drain();
    if (is_over()) return;
    if (what < 2 || what > 9) {
      possible.insert(std::nullopt);
      const auto removed = t.remove("b", key);
      if (removed && !is_over()) possible = {std::nullopt};
      return;
    }
    const size_t size = what < 7 ? random() % 3000 : what < 9 ? random() % PmemLog::bytes_max : 100'000;
    const std::string value = pattern(8 + size, random());
    possible.insert(value);
    const auto stored = t.put("b", key, value);
    if (stored && !is_over()) possible = {value};
  }

  void check(uint64_t seed) {
    size_t there = 0;
    for (auto& [key, possible] : keys_) {
      const auto got = t.get("b", key);
      const Value value = got ? Value(*got) : std::nullopt;
      if (!got) {
        ASSERT_EQ(got.error(), Errc::no_such_key) << key << ", seed " << seed;
      }
      EXPECT_TRUE(possible.contains(value)) << key << " after seed " << seed - 1;
      possible = {value};
      there += got ? 1 : 0;
    }
    EXPECT_EQ(t.list("b")->entries.size(), there);
    const auto usage = t.run(t.store->bucket_usage("b"));
    if (usage) {
      EXPECT_EQ(usage->objects, there) << "seed " << seed;
    }
    EXPECT_FALSE(leaks_for_long()) << "seed " << seed << ": " << held();
  }
  std::string held() {
    const auto usage = t.store->usage();
    if (!usage) return describe(usage.error());
    return std::to_string(usage->allocated_bytes) + " bytes are allocated, " + std::to_string(usage->live_bytes) +
           " live, " + std::to_string(usage->kept_bytes) + " kept";
  }
  // A group's last effects may come after drain() has seen its objects in the index.
  bool leaks_for_long() {
    for (int i = 0; i < 100; ++i) {
      if (!t.leaks()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  void run(uint64_t cuts) {
    for (uint64_t seed = first_seed; seed < first_seed + cuts && !HasFatalFailure(); ++seed) run_seed(seed);
  }

  static constexpr uint64_t first_seed = 1;
  bool keeps_another_time_ = false;
  std::map<std::string, std::set<Value>> keys_;
};

TEST_F(PmemCuts, EveryAcknowledgedObjectIsThereAfterwards) { run(75); }

TEST_F(PmemCuts, ThereTooWhereFreedSpaceIsUsedAgain) {
  t.options.keep_free = 4 * MiB;
  run(75);
}

TEST_F(PmemCuts, ThereTooWhereOneStartKeepsFreedSpaceAndTheNextDoesNot) {
  keeps_another_time_ = true;
  run(75);
}

}  // namespace
}  // namespace verbena::store::local
