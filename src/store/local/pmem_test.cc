// The engine with persistent memory, over the model: power cuts of memory and disk together, and refusals.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>

#include "base/metrics.h"
#include "store/local/batch.h"
#include "store/local/pmem_log.h"
#include "store/local/seam_env.h"
#include "store/local/test_persistent_memory.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using Fault = FaultyFileSystem::Fault;
using Loss = FaultyFileSystem::Loss;

class Pmem : public ::testing::Test {
 protected:
  Pmem() {
    t.options.pmem = "/pmem";
    t.options.pmem_log_size = PmemLog::size_min;
    t.options.pmem_memories = &memories;
    t.options.trouble = &trouble;
    t.options.write_behind_after = std::chrono::hours(1);
  }
  // The disk and the memory lose power at once.
  void power_cut(uint64_t seed = 1, Loss loss = Loss::unsynced) {
    fs.fail_at(0, Fault::crash);
    t.close();
    fs.crash(loss, seed);
    memories.cut(seed);
  }

  FaultyFileSystem fs;
  ModelMemories memories;
  std::string trouble;
  TestStore t{&fs};
};

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

// --- An object that the index refuses
// ----------------------------------------------------------------------------------------------------

class PmemStuck : public Pmem {
 protected:
  PmemStuck() {
    t.options.write_behind_after = std::chrono::milliseconds(1);
    t.open();
    t.make_bucket("b");
    t.make_bucket("other");
    EXPECT_TRUE(t.put("b", "k", "old"));
    t.close();
    edit([this](std::string& row) { row_ = std::exchange(row, "\xff\xff"); });
    t.open();
    EXPECT_TRUE(t.put("b", "k", "new"));
    EXPECT_TRUE(becomes([] { return stuck() == 1; }));
  }
  // Changes the row of the one object without the store's knowledge.
  void edit(const std::function<void(std::string& row)>& change) {
    const auto env = make_seam_env(fs);
    auto index = Index::open({.directory = "/store/index", .env = env.get()});
    ASSERT_TRUE(index);
    Batch batch(**index);
    Cursor cursor = (*index)->cursor(Family::objects, "");
    ASSERT_TRUE(cursor.valid());
    std::string row(cursor.value());
    change(row);
    batch.put(Family::objects, cursor.key(), row);
    ASSERT_TRUE((*index)->write(batch));
  }
  static bool becomes(const std::function<bool()>& is) {
    for (int i = 0; i < 500 && !is(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return is();
  }
  static int64_t stuck() { return metrics::gauge("verbena_store_pmem_stuck", "").value(); }
  static int64_t in_log() { return metrics::gauge("verbena_store_pmem_bytes", "").value(); }
  bool goes_to_the_disk(const std::string& bucket, const std::string& key, size_t size = 60'000) {
    static auto& logged = metrics::counter("verbena_store_pmem_total", "");
    const uint64_t before = logged.value();
    EXPECT_TRUE(t.put(bucket, key, pattern(size, 1)));
    return logged.value() == before;
  }

  std::string row_;
};

TEST_F(PmemStuck, OnlyItsBucketGoesToTheDisk) {
  EXPECT_TRUE(goes_to_the_disk("b", "l"));
  EXPECT_FALSE(goes_to_the_disk("other", "k"));
  EXPECT_EQ(*t.get("b", "k"), "new");
  const auto since = std::chrono::steady_clock::now();
  EXPECT_EQ(t.remove("b", "k").error(), Errc::slow_down);
  EXPECT_EQ(t.list("b").error(), Errc::slow_down);
  EXPECT_EQ(t.list("other")->entries.size(), 1u);
  EXPECT_TRUE(t.remove("other", "k"));
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(10)) << "told at once";
  EXPECT_FALSE(goes_to_the_disk("other", "k"));
}

TEST_F(PmemStuck, ItComesIntoTheIndexOnceTheRowIsMended) {
  t.close();
  EXPECT_EQ(stuck(), 0);
  edit([this](std::string& row) { row = row_; });
  t.open();
  t.store->drain();
  EXPECT_EQ(stuck(), 0);
  EXPECT_EQ(*t.get("b", "k"), "new");
  EXPECT_FALSE(goes_to_the_disk("b", "l"));
  EXPECT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
}

TEST_F(PmemStuck, ItDoesNotFillTheLogAndSurvivesAPowerCut) {
  for (int i = 0; i < 30; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_FALSE(goes_to_the_disk("other", key)) << i;
    t.store->drain();
    const auto half = static_cast<int64_t>(PmemLog::size_min / 2);
    ASSERT_TRUE(becomes([&] { return in_log() <= half + 4096; })) << i;
  }
  EXPECT_EQ(*t.get("b", "k"), "new");
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "new");
  EXPECT_EQ(*t.get("other", "29"), pattern(60'000, 1));
}

// Space is kept for its move: without that a full log would stay full.
TEST_F(PmemStuck, ALogThatFillsBehindItEmptiesAgain) {
  int puts = 0;
  for (const size_t size : {60'000, 3'000, 100}) {
    while (puts < 2'000 && !goes_to_the_disk("other", "x", size)) ++puts;
  }
  ASSERT_LT(puts, 2'000);
  EXPECT_TRUE(becomes([&] { return !goes_to_the_disk("other", "y"); }));
  EXPECT_EQ(*t.get("b", "k"), "new");
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "new");
  EXPECT_EQ(*t.get("other", "x"), pattern(100, 1));
}

// --- Refusals
// ----------------------------------------------------------------------------------------------------

class PmemRefused : public Pmem {
 protected:
  void use() {
    t.open();
    t.make_bucket("b");
    ASSERT_TRUE(t.put("b", "k", pattern(3000, 1)));
    ASSERT_TRUE(t.put("b", "l", pattern(3000, 2)));
    power_cut();
  }
  void expect_refusal(const std::string& words) {
    const auto before = memories.bytes();
    const auto opened = t.try_open();
    ASSERT_FALSE(opened) << words;
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
    EXPECT_NE(trouble.find("No object was changed"), std::string::npos) << trouble;
    if (!before.empty()) {
      EXPECT_EQ(memories.bytes(), before);
    }
  }
};

TEST_F(PmemRefused, AStartWithoutTheMemoryThatHasAcknowledgedObjects) {
  use();
  t.options.pmem.clear();
  expect_refusal("data.pmem is not set");
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(PmemRefused, AMemoryThatHasNoLog) {
  use();
  memories.forget();
  expect_refusal("is missing");
  t.options.accept_data_loss = true;
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  ASSERT_TRUE(t.put("b", "k", "again"));
  power_cut();
  t.options.accept_data_loss = false;
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "again");
}

TEST_F(PmemRefused, TheLogOfAnotherStore) {
  use();
  FaultyFileSystem other_disk;
  TestStore other(&other_disk);
  other.options.pmem = "/pmem";
  other.options.pmem_memories = &memories;
  other.options.trouble = &trouble;
  ASSERT_FALSE(other.try_open());
  EXPECT_NE(trouble.find("2 objects of another store"), std::string::npos) << trouble;
  t.open();
  EXPECT_EQ(*t.get("b", "k"), pattern(3000, 1));
}

TEST_F(PmemRefused, AWriteOfAnotherProcessAndAPoisonedLine) {
  for (const bool poisoned : {false, true}) {
    use();
    const auto bytes = memories.bytes();
    const std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = all.find(pattern(3000, 1).substr(0, 100));
    ASSERT_NE(at, std::string::npos);
    if (poisoned) {
      memories.poison(at + 100);
    } else {
      memories.change(at + 100);
    }
    expect_refusal("the bytes of k");
    t.options.accept_data_loss = true;
    t.open();
    EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
    EXPECT_EQ(*t.get("b", "l"), pattern(3000, 2)) << "an error of that object alone";
    t.options.accept_data_loss = false;
    if (poisoned) break;
    ASSERT_TRUE(t.remove("b", "l"));
    ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
    t.close();
  }
}

TEST_F(PmemRefused, APoisonedFirstPageSaysWhatCanBeDone) {
  use();
  memories.poison(0);
  expect_refusal("cannot be read at its beginning");
  for (const char* words : {"/pmem/verbena.pmem", "bad block", "Move the file away", "accept_data_loss"}) {
    EXPECT_NE(trouble.find(words), std::string::npos) << trouble;
  }
  t.options.accept_data_loss = true;
  expect_refusal("cannot be written at its beginning");
  EXPECT_NE(trouble.find("/pmem/verbena.pmem"), std::string::npos) << trouble;
  memories.replace();  // as the words say
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  ASSERT_TRUE(t.put("b", "k", "again"));
  power_cut();
  t.options.accept_data_loss = false;
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "again");
}

TEST_F(PmemRefused, APoisonedFirstPageOfALogThatIsNotNeededIsTakenAwayWithoutLoss) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "value"));
  t.close();
  memories.poison(0);
  expect_refusal("No object of this store is there alone");
  memories.replace();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "value");
}

TEST_F(PmemRefused, ANamespaceThatShrank) {
  use();
  memories.shrink(PmemLog::size_min / 2);
  expect_refusal("has shrunk");
}

TEST_F(PmemRefused, ASecondServerOnOneMemory) {
  t.open();
  FaultyFileSystem other_disk;
  TestStore other(&other_disk);
  other.options.pmem = "/pmem";
  other.options.pmem_memories = &memories;
  EXPECT_EQ(other.try_open().error(), Errc::service_unavailable);
}

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
    return std::make_unique<MappedMemory>(std::move(fd), static_cast<std::byte*>(base), size);
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
    const uint64_t what = random() % 10;
    // These wait for what is in the log, on a disk that has stopped for 15 s.
    if (what < 2 || what == 9) t.store->drain();
    if (is_over()) return;
    if (what < 2) {
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
    EXPECT_FALSE(leaks_for_long()) << "seed " << seed;
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
  std::map<std::string, std::set<Value>> keys_;
};

TEST_F(PmemCuts, EveryAcknowledgedObjectIsThereAfterwards) { run(75); }

TEST_F(PmemCuts, ThereTooWhereFreedSpaceIsUsedAgain) {
  t.options.keep_free = 4 * MiB;
  run(75);
}

}  // namespace
}  // namespace verbena::store::local
