// Persistent memory and the index behind it: objects that the index refuses, a disk that is full, removals of what the
// index does not have yet.
#include "base/metrics.h"
#include "store/local/test_aside.h"
#include "store/local/test_pmem.h"
#include "store/removal_grounds.h"

namespace verbena::store::local {
namespace {

// --- An object that the index refuses
// ----------------------------------------------------------------------------------------------------

// A bucket with an object `k` whose row in the index is damaged.
class PmemDamaged : public Pmem {
 protected:
  PmemDamaged() {
    t.options.write_behind_after = std::chrono::milliseconds(1);
    t.open();
    t.make_bucket("b");
    t.make_bucket("other");
    EXPECT_TRUE(t.put("b", "k", "old"));
    EXPECT_TRUE(t.put("b", "l", "old"));
    t.close();
    edit_row([this](std::string& row) { row_ = std::exchange(row, "\xff\xff"); });
    t.open();
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

  // "" for each that was evicted.
  std::vector<std::string> evict(const std::vector<std::string>& chosen) {
    constexpr std::string_view document = "a bound";
    EXPECT_TRUE(t.run(t.store->set_document("b", std::string(bounding_document), std::string(document))));
    const RemovalGrounds why{.bucket_created_us = t.run(t.store->bucket("b"))->created_us,
                             .rules = std::make_shared<const std::string>(document),
                             .of = RemovalGrounds::Of::evicted};
    std::vector<Eviction> objects;
    for (const std::string& key : chosen) {
      const auto found = t.run(t.store->stat("b", key));
      objects.push_back({.key = key, .modified_us = found ? found->modified_us : 1});
    }
    std::vector<std::string> outcomes;
    for (const auto& one : t.run(t.store->evict("b", std::make_shared<const RemovalGrounds>(why), objects))) {
      outcomes.push_back(one ? "" : one.error() == Errc::slow_down ? "slow_down" : "damaged");
    }
    return outcomes;
  }

  std::string row_;
};

TEST_F(PmemDamaged, TheOthersOfAGroupOfEvictionsGoOn) {
  EXPECT_EQ(evict({"k", "l"}), (std::vector<std::string>{"damaged", ""}));
  EXPECT_EQ(t.get("b", "l").error(), Errc::no_such_key);
}

// The committer refuses an object while its key's next one is being appended: the older one is given up then.
TEST_F(PmemDamaged, AnObjectThatGetsStuckWhileItIsOverwrittenIsGivenUp) {
  t.close();
  t.options.write_behind_after = std::chrono::milliseconds(200);
  t.open();
  ASSERT_TRUE(t.put("b", "k", "first"));
  memories.before_next_store([] { EXPECT_TRUE(becomes([] { return stuck() == 1; })); });
  ASSERT_TRUE(t.put("b", "k", "second"));
  EXPECT_EQ(*t.get("b", "k"), "second");
  EXPECT_TRUE(becomes([] { return stuck() == 2; })) << "the index refuses the second one, too";
  EXPECT_TRUE(becomes([] { return stuck() == 1; })) << "the first one is never tried again";
  EXPECT_EQ(*t.get("b", "k"), "second");
  t.close();
  edit_row([this](std::string& row) { row = row_; });
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "second");
  t.store->drain();
  EXPECT_EQ(stuck(), 0);
  EXPECT_EQ(*t.get("b", "k"), "second");
  ASSERT_TRUE(t.remove("b", "k"));
  power_cut();
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

class PmemStuck : public PmemDamaged {
 protected:
  explicit PmemStuck(const std::string& bytes = "new") {
    EXPECT_TRUE(t.put("b", "k", bytes));
    EXPECT_TRUE(becomes([] { return stuck() == 1; }));
  }
};

// Without persistent memory: what a `memory` bucket acknowledges has no log.
TEST_F(Pmem, WhatTheIndexRefusesOfAMemoryBucketIsReadUntilTheServerEnds) {
  t.options.pmem.clear();
  // Its size is announced, as by clients that know it.
  const auto put = [this](const std::string& key, const std::string& bytes) {
    TestStore::How how;
    how.size_hint = bytes.size();
    return t.put("b", key, bytes, std::move(how));
  };
  t.open();
  t.make_bucket("b", Durability::memory);
  ASSERT_TRUE(t.put("b", "k", "old"));
  t.close();
  edit_row([](std::string& row) { row = "\xff\xff"; });
  t.open();
  ASSERT_TRUE(put("k", "new"));
  t.store->drain();
  const auto bytes = t.get("b", "k");
  ASSERT_TRUE(bytes) << describe(bytes.error());
  EXPECT_EQ(*bytes, "new");
  const auto page = t.list("b");
  ASSERT_TRUE(page) << describe(page.error());
  ASSERT_FALSE(page->entries.empty());
  EXPECT_EQ(page->entries.front().info.size, 3u);
  EXPECT_EQ(put("k", "newer").error(), Errc::slow_down) << "acknowledges no more that is lost";
  EXPECT_EQ(t.remove("b", "k").error(), Errc::slow_down);
  ASSERT_TRUE(put("l", "by the index"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // a try at least
  EXPECT_EQ(*t.get("b", "k"), "new");
  t.close();
  t.open();
  EXPECT_FALSE(t.get("b", "k"));
  EXPECT_EQ(*t.get("b", "l"), "by the index");
}

class PmemStuckInAVolume : public PmemStuck {
 protected:
  PmemStuckInAVolume() : PmemStuck(pattern(60'000, 1)) {}
};

TEST_F(PmemStuckInAVolume, ItsBytesAreNotWrittenAgainBeforeTheIndexTakesIt) {
  t.store->drain();
  const uint64_t before = fs.space_changes("/store/volumes");
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // two tries at least
  EXPECT_EQ(fs.space_changes("/store/volumes"), before);
  EXPECT_EQ(stuck(), 1);
  t.close();
  edit_row([this](std::string& row) { row = row_; });
  t.open();
  t.store->drain();
  EXPECT_EQ(stuck(), 0);
  EXPECT_EQ(*t.get("b", "k"), pattern(60'000, 1));
  t.expect_no_leak();
}

TEST_F(PmemStuck, TheOthersOfAGroupOfEvictionsGoOn) {
  EXPECT_EQ(evict({"k", "l"}), (std::vector<std::string>{"slow_down", ""}));
  EXPECT_EQ(*t.get("b", "k"), "new");
  EXPECT_EQ(t.get("b", "l").error(), Errc::no_such_key);
}

TEST_F(PmemStuck, OnlyItsBucketGoesToTheDisk) {
  EXPECT_TRUE(goes_to_the_disk("b", "l"));
  EXPECT_FALSE(goes_to_the_disk("other", "k"));
  EXPECT_EQ(*t.get("b", "k"), "new");
  const auto since = std::chrono::steady_clock::now();
  EXPECT_EQ(t.remove("b", "k").error(), Errc::slow_down);
  EXPECT_EQ(t.set_versioning("b", Versioning::enabled).error(), Errc::slow_down);
  const auto page = t.list("b");
  ASSERT_TRUE(page) << describe(page.error());
  ASSERT_EQ(page->entries.size(), 2u);
  EXPECT_EQ(page->entries[0].info.size, 3u) << "what reads of it find";
  EXPECT_EQ(t.list("other")->entries.size(), 1u);
  EXPECT_TRUE(t.remove("other", "k"));
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(10)) << "told at once";
  EXPECT_FALSE(goes_to_the_disk("other", "k"));
}

TEST_F(PmemStuck, ItComesIntoTheIndexOnceTheRowIsMended) {
  t.close();
  EXPECT_EQ(stuck(), 0);
  edit_row([this](std::string& row) { row = row_; });
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

// --- A full disk
// ----------------------------------------------------------------------------------------------------

// Volumes grow no more; the index has what is kept free for it.
class PmemFull : public Pmem {
 protected:
  PmemFull() {
    t.options.free_bytes_min = 4 * MiB;
    t.open();
    t.make_bucket("b");
    EXPECT_TRUE(t.put("b", "old", pattern(60'000, 1)));
    t.store->drain();
    fs.set_capacity(fs.used_bytes() + 2 * MiB);
    for (const char* key : {"k", "l", "m"}) EXPECT_TRUE(t.put("b", key, pattern(60'000, 2)));
  }
  ~PmemFull() override {
    EXPECT_LT(std::chrono::steady_clock::now() - since_, std::chrono::seconds(12)) << "it waited";
  }
  std::vector<std::string> keys() {
    std::vector<std::string> found;
    const auto page = t.list("b");
    EXPECT_TRUE(page) << describe(page.error());
    if (!page) return found;
    for (const auto& entry : page->entries) found.push_back(entry.key);
    return found;
  }
  using Keys = std::vector<std::string>;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

TEST_F(PmemFull, ListingsHaveWhatTheLogHas) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(keys(), (Keys{"k", "l", "m", "old"})) << i;
  const auto versions = t.list_versions("b");
  ASSERT_TRUE(versions) << describe(versions.error());
  EXPECT_EQ(versions->versions.size(), 4u);
  EXPECT_EQ(*t.get("b", "k"), pattern(60'000, 2));
}

TEST_F(PmemFull, WhatTheLogHasCanBeRemovedAndMakesRoomForPuts) {
  ASSERT_TRUE(t.remove("b", "k")) << "before the disk was asked";
  EXPECT_EQ(keys(), (Keys{"l", "m", "old"}));
  EXPECT_EQ(t.remove("b", "l", {.if_match = "another"}).error(), Errc::precondition_failed);
  EXPECT_EQ(*t.get("b", "l"), pattern(60'000, 2));
  const auto removed = t.remove("b", "l");
  ASSERT_TRUE(removed) << describe(removed.error());
  EXPECT_EQ(t.get("b", "l").error(), Errc::no_such_key);
  EXPECT_EQ(t.put("b", "n", "x").error(), Errc::insufficient_storage);
  ASSERT_TRUE(t.remove("b", "m"));
  EXPECT_EQ(keys(), Keys{"old"});
  // Nothing waits for the disk any more, so the log takes objects again.
  bool taken = false;
  for (int i = 0; i < 200 && !taken; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    taken = t.put("b", "n", "x").has_value();
  }
  EXPECT_TRUE(taken);
  power_cut();
  t.open();
  EXPECT_EQ(keys(), (Keys{"n", "old"}));
  EXPECT_EQ(*t.get("b", "old"), pattern(60'000, 1));
  EXPECT_EQ(t.run(t.store->bucket_usage("b"))->objects, 2u);
  t.expect_no_leak();
}

// --- Removals of what waits
// ----------------------------------------------------------------------------------------------------

TEST_F(Pmem, WhatIsRemovedBeforeTheIndexHasItIsNeverWritten) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "stays", pattern(60'000, 1)));
  ASSERT_TRUE(t.put("b", "k", pattern(60'000, 2)));
  ASSERT_TRUE(t.put("b", "k", pattern(60'000, 3)));
  const uint64_t before = fs.space_changes("/store/volumes");
  ASSERT_TRUE(t.remove("b", "k"));
  EXPECT_EQ(fs.space_changes("/store/volumes"), before);
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  ASSERT_TRUE(t.remove("b", "k")) << "there is none";
  power_cut();
  t.open();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(*t.get("b", "stays"), pattern(60'000, 1));
  EXPECT_EQ(t.list("b")->entries.size(), 1u);
  EXPECT_EQ(t.run(t.store->bucket_usage("b"))->objects, 1u);
  t.expect_no_leak();
}

TEST_F(Pmem, ARemovalTakesWhatTheIndexHadOfTheKeyWithIt) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(60'000, 1)));
  t.store->drain();
  ASSERT_TRUE(t.put("b", "k", pattern(60'000, 2)));
  ASSERT_TRUE(t.remove("b", "k"));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t.live_bytes(), 0u);
  ASSERT_TRUE(t.put("b", "k", "third"));
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "third");
  t.expect_no_leak();
}

// Its record is not the key's last one any more.
TEST_F(Pmem, ARefusedRemovalOfWhatIsOverwrittenMeanwhileBringsNothingBack) {
  t.open();
  t.make_bucket("b");
  t.make_bucket("other");
  ASSERT_TRUE(t.put("b", "k", "first"));
  fs.hold_syncs("/store/index");
  Aside before(put_in_index(t, "other", "x", "x"));
  fs.wait_for_held_sync();
  Aside removal(t.store->remove("b", "k", {.version_id = {}, .conditions = {"another", {}}}));
  ASSERT_TRUE(t.put("b", "k", "second"));
  fs.release_syncs();
  EXPECT_TRUE(before.finish());
  EXPECT_EQ(removal.finish().error(), Errc::precondition_failed);
  EXPECT_EQ(*t.get("b", "k"), "second");
  EXPECT_EQ(t.list("b")->entries.size(), 1u);
  power_cut();
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "second");
  t.store->drain();
  EXPECT_EQ(*t.get("b", "k"), "second");
  EXPECT_EQ(t.run(t.store->bucket_usage("b"))->objects, 1u);
  t.expect_no_leak();
}

// Mixed with PUTs that the log does not take, they were a sync each.
TEST_F(Pmem, RemovalsOfWhatWaitsByTurnsWithOtherChangesShareSyncs) {
  constexpr int count = 20;
  t.open();
  t.make_bucket("b");
  t.make_bucket("other");
  for (int i = 0; i < count; ++i) ASSERT_TRUE(t.put("b", "k" + std::to_string(i), "waits"));
  fs.hold_syncs("/store/index");
  Aside before(put_in_index(t, "other", "x", "x"));
  fs.wait_for_held_sync();
  std::deque<Aside<Result<Removed>>> removals;
  std::deque<Aside<Result<ObjectInfo>>> puts;
  for (int i = 0; i < count; ++i) {
    removals.emplace_back(t.store->remove("b", "k" + std::to_string(i), {}));
    puts.emplace_back(put_in_index(t, "other", std::to_string(i), "x"));
  }
  const uint64_t syncs = fs.syncs("/store/index");
  fs.release_syncs();
  EXPECT_TRUE(before.finish());
  for (auto& one : removals) EXPECT_TRUE(one.finish());
  for (auto& one : puts) EXPECT_TRUE(one.finish());
  EXPECT_LE(fs.syncs("/store/index") - syncs, 3u);
  power_cut();
  t.open();
  EXPECT_EQ(t.list("b")->entries.size(), 0u);
  EXPECT_EQ(t.list("other")->entries.size(), count + 1u);
}

}  // namespace
}  // namespace verbena::store::local
