// Objects that `memory` buckets acknowledge before the index has them.
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;
using Fault = FaultyFileSystem::Fault;

int64_t held_bytes() { return metrics::gauge("verbena_store_write_behind_bytes", "").value(); }
uint64_t taken() { return metrics::counter("verbena_store_write_behind_total", "").value(); }

// Nothing is written before an operation needs it.
class WriteBehindTest : public ::testing::Test {
 protected:
  void SetUp() override {
    t.options.write_behind_after = 1h;
    t.open();
    t.make_bucket("b", Durability::memory);
  }
  // With its size announced, as by every client that knows it.
  Result<ObjectInfo> put(const std::string& key, std::string_view bytes, TestStore::How how = {}) {
    how.size_hint = bytes.size();
    return t.put("b", key, bytes, std::move(how));
  }
  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(WriteBehindTest, WhatIsAcknowledgedFromMemoryIsReadAtOnce) {
  const std::string small = pattern(300, 1), large = pattern(200'000, 2);
  const auto stored = put("small", small);
  ASSERT_TRUE(stored);
  ASSERT_TRUE(put("large", large));
  ASSERT_TRUE(put("empty", ""));
  EXPECT_GT(held_bytes(), 0);
  EXPECT_EQ(*t.get("b", "small"), small);
  EXPECT_EQ(*t.get("b", "large"), large);
  EXPECT_EQ(*t.get("b", "empty"), "");
  EXPECT_EQ(t.run(t.store->stat("b", "small"))->modified_us, stored->modified_us);
  EXPECT_EQ(t.run(t.store->stat("b", "small"))->etag, TestStore::etag_of(small));
  EXPECT_GT(held_bytes(), 0);
  EXPECT_EQ(t.get("b", "other").error(), Errc::no_such_key);
}

TEST_F(WriteBehindTest, WritingBehindChangesNothingThatAReaderSees) {
  const std::string bytes = pattern(200'001, 3);
  auto before = put("k", bytes);
  ASSERT_TRUE(before);
  t.store->drain();
  EXPECT_EQ(held_bytes(), 0);
  auto after = t.run(t.store->stat("b", "k"));
  ASSERT_TRUE(after);
  EXPECT_EQ(after->modified_us, before->modified_us);
  EXPECT_EQ(after->etag, before->etag);
  EXPECT_EQ(after->version_id, before->version_id);
  EXPECT_EQ(*t.get("b", "k"), bytes);
}

class Listener final : public ChangeListener {
 public:
  void told(uint64_t, const KeyChangePtr& change) override { etags += change->etag + " "; }
  void lost_track(uint64_t) override { ++lost; }
  void bucket_removed(uint64_t) override {}
  std::string etags;
  int lost = 0;
};

class TimeListener final : public ChangeListener {
 public:
  void told(uint64_t, const KeyChangePtr& change) override { last_us = change->time_us; }
  void lost_track(uint64_t) override {}
  void bucket_removed(uint64_t) override {}
  int64_t last_us = 0;
};

TEST_F(WriteBehindTest, ATimeThatIsRaisedWhenItIsWrittenIsToldAgain) {
  ASSERT_TRUE(put("k", "1"));
  ASSERT_TRUE(t.run(t.store->remove("b", "k", {})));
  const auto listener = std::make_shared<TimeListener>();
  ASSERT_TRUE((*t.store->feed("b"))->listen(listener));
  t.step_clock(-60s);
  const auto acknowledged = put("k", "2");
  ASSERT_TRUE(acknowledged);
  EXPECT_EQ(listener->last_us, acknowledged->modified_us);
  t.store->drain();
  const auto stored = t.run(t.store->stat("b", "k"));
  ASSERT_TRUE(stored);
  EXPECT_GT(stored->modified_us, acknowledged->modified_us);
  EXPECT_EQ(listener->last_us, stored->modified_us);
}

TEST_F(WriteBehindTest, WhoListensIsToldWhenItIsAcknowledgedAndNotAgainWhenItIsWritten) {
  const auto listener = std::make_shared<Listener>();
  ASSERT_TRUE((*t.store->feed("b"))->listen(listener));
  ASSERT_TRUE(put("k", "bytes", {.conditions = {}, .size_hint = {}, .etag = "1"}));
  EXPECT_EQ(listener->etags, "1 ");
  ASSERT_TRUE(put("k", "bytes", {.conditions = {}, .size_hint = {}, .etag = "2"}));
  t.store->drain();
  EXPECT_EQ(listener->etags, "1 2 ");
}

// A removal that was judged before a PUT was acknowledged, and committed after it: readers see the PUT's object, before
// and after.
TEST_F(WriteBehindTest, AChangeThatIsToldAfterAnObjectWhichOvertookItIsNotTheLastWord) {
  const auto listener = std::make_shared<Listener>();
  const BucketFeedPtr feed = *t.store->feed("b");
  ASSERT_TRUE(feed->listen(listener));
  ASSERT_TRUE(put("k", "bytes", {.conditions = {}, .size_hint = {}, .etag = "1"}));
  ObjectInfo gone;
  gone.etag = "removed";
  feed->tell(KeyEvent::removed, "k", gone);
  t.store->drain();
  EXPECT_EQ(listener->etags, "1 removed 1 ");
  EXPECT_TRUE(t.get("b", "k"));
}

TEST_F(WriteBehindTest, AReaderKeepsWhatItOpened) {
  const std::string first = pattern(100'000, 4), second = pattern(100'000, 5);
  ASSERT_TRUE(put("k", first));
  auto reader = t.run(t.store->open("b", "k"));
  ASSERT_TRUE(reader);
  ASSERT_TRUE(put("k", second));
  t.store->drain();
  EXPECT_EQ(*t.read(**reader, 0, first.size()), first);
  EXPECT_EQ(*t.get("b", "k"), second);
}

TEST_F(WriteBehindTest, OnlyTheLastOfManyOverwritesIsWritten) {
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(put("k", pattern(70'000, i)));
  EXPECT_LT(held_bytes(), 300'000);
  t.store->drain();
  EXPECT_EQ(*t.get("b", "k"), pattern(70'000, 99));
  EXPECT_EQ(t.store->usage()->live_bytes, 73'728u);
  t.expect_no_leak();
}

TEST_F(WriteBehindTest, AListingSeesIt) {
  ASSERT_TRUE(put("one", "1"));
  ASSERT_TRUE(put("two", "22"));
  auto page = t.list("b");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->entries.size(), 2u);
  EXPECT_EQ(page->entries[1].info.size, 2u);
  ASSERT_TRUE(put("three", "333"));
  EXPECT_EQ(t.list_versions("b")->versions.size(), 3u);
}

TEST_F(WriteBehindTest, ADeleteComesAfterIt) {
  ASSERT_TRUE(put("k", "1"));
  ASSERT_TRUE(t.remove("b", "k"));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  t.reopen();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
}

TEST_F(WriteBehindTest, ConditionsAreAboutIt) {
  ASSERT_TRUE(put("k", "1", {.conditions = {}, .size_hint = {}, .etag = "first"}));
  EXPECT_EQ(put("k", "2", {.conditions = {{}, "*"}, .size_hint = {}, .etag = {}}).error(), Errc::precondition_failed);
  ASSERT_TRUE(put("k", "2", {.conditions = {"first", {}}, .size_hint = {}, .etag = "second"}));
  ASSERT_TRUE(put("k", "3", {.conditions = {}, .size_hint = {}, .etag = "third"}));
  EXPECT_EQ(t.remove("b", "k", {.if_match = "second"}).error(), Errc::precondition_failed);
  EXPECT_EQ(*t.get("b", "k"), "3");
}

// The caller's core runs no more when the refusal comes, as at a stop of the server.
TEST_F(WriteBehindTest, ARefusedRemovalThatIsNotAnsweredYetKeepsNothingFromBeingWrittenAtAStop) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = "k-" + std::to_string(round);
    ASSERT_TRUE(put(key, "bytes"));
    auto& core = loop_that_stays();
    auto outcome = boost::asio::co_spawn(
        core, t.store->remove("b", key, {.version_id = {}, .conditions = {"another", {}}}), boost::asio::use_future);
    core.poll_one();  // up to the commit
    if (round % 2 == 1) std::this_thread::sleep_for(20ms);
    t.close();
    core.restart();
    core.run();
    EXPECT_EQ(outcome.get().error(), Errc::precondition_failed);
    t.open();
    const auto found = t.get("b", key);
    ASSERT_TRUE(found) << "round " << round;
    EXPECT_EQ(*found, "bytes");
  }
}

TEST_F(WriteBehindTest, WhoIsToldOfARemovalDoesNotFindTheObjectAnyMore) {
  class Looks final : public ChangeListener {
   public:
    explicit Looks(LocalStore& store) : store_(store) {}
    void told(uint64_t, const KeyChangePtr& change) override {
      if (change->what != KeyEvent::removed) return;
      ++removals;
      if (store_.hot("b", "k") != nullptr) ++found;  // it waits for nothing
    }
    void lost_track(uint64_t) override {}
    void bucket_removed(uint64_t) override {}
    std::atomic<int> removals = 0, found = 0;

   private:
    LocalStore& store_;
  };
  ASSERT_TRUE(put("k", "bytes"));
  ASSERT_NE(t.store->hot("b", "k"), nullptr);
  const auto listener = std::make_shared<Looks>(*t.store);
  ASSERT_TRUE((*t.store->feed("b"))->listen(listener));
  ASSERT_TRUE(t.remove("b", "k"));
  EXPECT_EQ(listener->removals, 1);
  EXPECT_EQ(listener->found, 0);
}

TEST_F(WriteBehindTest, APutThatTakesTheLongWayComesAfterIt) {
  ASSERT_TRUE(put("k", pattern(1000, 1)));
  const std::string pieces = pattern(100'000, 2);
  ASSERT_TRUE(put("k", pieces, {.conditions = {}, .chunk_size = 30'000, .size_hint = {}, .etag = {}}));
  EXPECT_EQ(*t.get("b", "k"), pieces);
  t.reopen();
  EXPECT_EQ(*t.get("b", "k"), pieces);
}

TEST_F(WriteBehindTest, AnUploadThatCompletesComesAfterIt) {
  auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  auto part = t.put_part(*upload, 1, pattern(100'000, 1));
  ASSERT_TRUE(part);
  ASSERT_TRUE(put("k", "short"));
  ASSERT_TRUE(t.complete(*upload, {*part}));
  EXPECT_EQ(*t.get("b", "k"), pattern(100'000, 1));
  t.reopen();
  EXPECT_EQ(*t.get("b", "k"), pattern(100'000, 1));
}

TEST_F(WriteBehindTest, VersioningBeginsWithIt) {
  ASSERT_TRUE(put("k", "before"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  EXPECT_EQ(t.run(t.store->stat("b", "k"))->version_id, "null");
  ASSERT_TRUE(put("k", "after"));
  EXPECT_EQ(*t.get_version("b", "k", "null"), "before");
  EXPECT_EQ(held_bytes(), 0);
}

TEST_F(WriteBehindTest, ABucketThatHoldsOnlySuchObjectsIsNotEmpty) {
  ASSERT_TRUE(put("k", "1"));
  EXPECT_EQ(t.run(t.store->remove_bucket("b")).error(), Errc::bucket_not_empty);
  ASSERT_TRUE(put("k", "2"));  // the table is open again
  EXPECT_GT(held_bytes(), 0);
  ASSERT_TRUE(t.remove("b", "k"));
  auto writer = t.run(t.store->create("b", "late", {}));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
  EXPECT_EQ(t.run((*writer)->commit({}, {})).error(), Errc::no_such_bucket);
}

TEST_F(WriteBehindTest, ABucketThatBecomesDurableKeepsIt) {
  ASSERT_TRUE(put("k", "1"));
  ASSERT_TRUE(t.run(t.store->set_durability("b", Durability::sync)));
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.open();
  EXPECT_EQ(*t.get("b", "k"), "1");
}

// It could not keep the promise: after a failed sync another may only seem to succeed.
TEST_F(WriteBehindTest, ABucketWhoseBytesCouldNotBeSyncedDoesNotBecomeDurable) {
  ASSERT_TRUE(put("k", pattern(200'000, 1)));
  t.store->drain();  // in a volume, and not synced
  for (const char* failing : {"/store/volumes", ""}) {
    fs.fail_syncs(failing);
    const auto changed = t.run(t.store->set_durability("b", Durability::sync));
    ASSERT_FALSE(changed) << failing;
    EXPECT_EQ(changed.error(), Errc::io_error);
    EXPECT_EQ(t.run(t.store->bucket("b"))->durability, Durability::memory) << failing;
  }
}

// Its space is punched, and a sync of the hole succeeds: the error was told before.
TEST_F(WriteBehindTest, NorDoesItAfterTheSpaceOfAnotherObjectOfThatVolumeWasFreed) {
  fs.fail_syncs("/store/volumes");
  for (const char* key : {"k", "other"}) ASSERT_TRUE(put(key, pattern(200'000, 1)));
  t.store->drain();  // in a volume, and not synced
  EXPECT_EQ(t.run(t.store->set_durability("b", Durability::sync)).error(), Errc::io_error);
  fs.fail_syncs("");
  ASSERT_TRUE(t.remove("b", "other"));
  const uint64_t syncs = fs.syncs("/store/volumes");
  t.store->drain();
  EXPECT_GT(fs.syncs("/store/volumes"), syncs) << "of the hole";
  const auto changed = t.run(t.store->set_durability("b", Durability::sync));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error(), Errc::io_error);
  EXPECT_EQ(t.run(t.store->bucket("b"))->durability, Durability::memory);
}

TEST_F(WriteBehindTest, ClosingTheStoreKeepsIt) {
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(t.put("b", std::to_string(i), pattern(20'000, static_cast<uint64_t>(i))));
  t.reopen();
  for (int i = 0; i < 600; ++i) ASSERT_EQ(*t.get("b", std::to_string(i)), pattern(20'000, static_cast<uint64_t>(i)));
}

TEST_F(WriteBehindTest, WhatIsFullSendsPutsThroughTheIndex) {
  t.close();
  t.options.write_behind_max = 100'000;
  t.open();
  const uint64_t before = taken();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(t.put("b", std::to_string(i), pattern(8'000, static_cast<uint64_t>(i))));
  EXPECT_LE(held_bytes(), 100'000);
  EXPECT_GT(taken(), before);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(*t.get("b", std::to_string(i)), pattern(8'000, static_cast<uint64_t>(i)));
  EXPECT_EQ(t.list("b")->entries.size(), 50u);
}

TEST_F(WriteBehindTest, OldEnoughItIsWrittenUnasked) {
  t.close();
  t.options.write_behind_after = 1ms;
  t.open();
  ASSERT_TRUE(put("k", "1"));
  for (int i = 0; i < 5000 && held_bytes() != 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(held_bytes(), 0);
  EXPECT_EQ(*t.get("b", "k"), "1");
}

// A waiter for one key once made the thread write everything that arrived, for as long as something always waited.
TEST_F(WriteBehindTest, WhoWaitsForOneObjectDoesNotHurryThoseThatComeAfterIt) {
  constexpr int count = 300, written_at_once = 256;
  int64_t behind = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t before = held_bytes();
    ASSERT_TRUE(put(std::to_string(i), pattern(100, 1)));
    if (i >= written_at_once) behind += held_bytes() - before;
  }
  ASSERT_TRUE(t.get_version("b", "0", "null"));  // waits until the index has it
  for (int i = 0; i < 5000 && held_bytes() > behind; ++i) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);  // for the thread to continue, if it does
  EXPECT_EQ(held_bytes(), behind);
  t.store->drain();
  EXPECT_EQ(held_bytes(), 0);
}

TEST_F(WriteBehindTest, WhatTheDiskRefusesStaysAndIsTriedAgain) {
  log::set_level(log::Level::error);
  const std::string bytes = pattern(100'000, 7);
  ASSERT_TRUE(put("k", bytes));
  fs.fail_at(1, Fault::no_space);  // a single failure
  auto page = t.list("b");         // needs it to be written
  log::set_level(log::Level::info);
  ASSERT_TRUE(page) << describe(page.error());
  EXPECT_TRUE(fs.fault_happened());
  EXPECT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(*t.get("b", "k"), bytes);
}

// A bucket with an object `k` whose row in the index cannot be read for now.
class UnreadableRow : public WriteBehindTest {
 protected:
  void SetUp() override {
    log::set_level(log::Level::error);
    t.options.write_behind_after = 1ms;
    t.open();
    t.make_bucket("b", Durability::memory);
    t.make_bucket("other", Durability::memory);
    ASSERT_TRUE(put(key, "old"));
    t.store->drain();
    t.reopen();  // its log becomes tables
    const auto names = *fs.list("/store/index");
    for (const std::string& name : names) {
      if (!name.ends_with(".sst")) continue;
      const std::string path = "/store/index/" + name;
      const auto bytes = read_small_file(fs, path, 1 * MiB);
      ASSERT_TRUE(bytes);
      if (bytes->find(key) == std::string::npos) continue;
      ASSERT_EQ(table_, "") << "of the heads alone";
      table_ = path;
    }
    ASSERT_NE(table_, "");
    fail_reads(true);
  }
  ~UnreadableRow() override { log::set_level(log::Level::info); }
  void fail_reads(bool is) { fs.fail_reads_at(is ? table_ : "", 0); }
  static int64_t stuck() { return metrics::gauge("verbena_store_write_behind_stuck", "").value(); }
  static bool becomes(int64_t count) {
    for (int i = 0; i < 500 && stuck() != count; ++i) std::this_thread::sleep_for(20ms);
    return stuck() == count;
  }
  bool is_taken(const std::string& bucket, const std::string& name) {
    const uint64_t before = taken();
    const std::string bytes = pattern(70'000, 3);
    EXPECT_TRUE(t.put(bucket, name, bytes, {.conditions = {}, .size_hint = bytes.size(), .etag = {}}));
    return taken() > before;
  }
  const std::string key = "the key of a row in a table";

 private:
  std::string table_;
};

// It once sent the PUTs of all buckets through the index, also those that persistent memory would have taken, until the
// next start; and whatever waits for a bucket waited for it.
TEST_F(UnreadableRow, OnlyTheBucketOfTheObjectGoesToTheDisk) {
  const std::string bytes = pattern(70'000, 2);
  ASSERT_TRUE(put(key, bytes));
  ASSERT_TRUE(becomes(1)) << "stuck";
  EXPECT_EQ(*t.get("b", key), bytes);
  EXPECT_FALSE(is_taken("b", "l"));
  EXPECT_TRUE(is_taken("other", "k"));
  t.store->drain();
  const uint64_t before = fs.space_changes("/store/volumes");
  EXPECT_EQ(t.remove("b", key).error(), Errc::slow_down);
  EXPECT_EQ(t.run(t.store->set_durability("b", Durability::sync)).error(), Errc::slow_down);
  std::this_thread::sleep_for(2500ms);  // two tries at least
  EXPECT_EQ(fs.space_changes("/store/volumes"), before) << "its bytes are not written before the index takes it";
  EXPECT_TRUE(is_taken("other", "l"));
  fail_reads(false);
  EXPECT_TRUE(becomes(0));
  EXPECT_TRUE(is_taken("b", "l"));
  t.reopen();
  EXPECT_EQ(*t.get("b", key), bytes);
  t.expect_no_leak();
}

TEST_F(UnreadableRow, WhatItKeepsOutOfTheIndexIsTriedOnceMoreAtAStop) {
  ASSERT_TRUE(put(key, "new"));
  ASSERT_TRUE(becomes(1));
  fail_reads(false);
  t.reopen();
  EXPECT_EQ(stuck(), 0);
  EXPECT_EQ(*t.get("b", key), "new");
}

TEST_F(UnreadableRow, AStopLosesWhatItStillKeepsOut) {
  static auto& lost = metrics::counter("verbena_store_write_behind_lost_total", "");
  ASSERT_TRUE(put(key, "new"));
  ASSERT_TRUE(becomes(1));
  const uint64_t before = lost.value();
  t.close();
  EXPECT_EQ(lost.value(), before + 1);
  EXPECT_EQ(stuck(), 0);
  fail_reads(false);
  t.open();
  EXPECT_EQ(*t.get("b", key), "old");
}

TEST_F(WriteBehindTest, APowerLossTakesTheNewestAndNeverGivesWrongBytes) {
  ASSERT_TRUE(put("old", pattern(50'000, 1)));
  t.store->drain();
  ASSERT_TRUE(put("old", pattern(60'000, 2)));
  ASSERT_TRUE(put("new", pattern(70'000, 3)));
  fs.fail_at(0, Fault::crash);  // nothing reaches the disk from here on
  log::set_level(log::Level::error);
  t.close();
  fs.crash(FaultyFileSystem::Loss::nothing, 1);
  t.open();
  log::set_level(log::Level::info);
  EXPECT_EQ(*t.get("b", "old"), pattern(50'000, 1));
  EXPECT_EQ(t.get("b", "new").error(), Errc::no_such_key);
  EXPECT_EQ(held_bytes(), 0);
  t.expect_no_leak();
}

// Runs tasks to their end on its own thread, like TestStore::run().
struct OwnLoop {
  boost::asio::io_context& io = loop_that_stays();
  template <class T>
  T operator()(Task<T> task) {
    auto future = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
    io.restart();
    io.run();
    return future.get();
  }
};

// A core reads its own acknowledged writes at once, whatever is being written behind and whatever others do.
TEST(WriteBehindOnSeveralCores, EachReadsItsOwnWrites) {
  TestStore t;
  t.options.write_behind_after = 1ms;
  t.options.write_behind_max = 200'000;  // often full: both paths are used
  t.open();
  t.make_bucket("b", Durability::memory);
  constexpr int cores = 3, rounds = 150;
  const auto work = [&](int core) {
    OwnLoop run;
    const std::string key = "core-" + std::to_string(core);
    for (int i = 0; i < rounds; ++i) {
      const std::string value = pattern(i % 7 == 0 ? 40'000 : 500, static_cast<uint64_t>(core * 1000 + i));
      auto writer = run(t.store->create("b", key, value.size()));
      ASSERT_TRUE(writer);
      ASSERT_TRUE(run((*writer)->append(t.chunk(value))));
      ObjectInfo info;
      info.size = value.size();
      info.etag = TestStore::etag_of(value);
      ASSERT_TRUE(run((*writer)->commit(info, {})));
      auto reader = run(t.store->open("b", key));
      ASSERT_TRUE(reader);
      auto chunk = run((*reader)->read(0, value.size()));
      ASSERT_TRUE(chunk);
      ASSERT_EQ(as_text(chunk->bytes), value) << key << " round " << i;
      if (i % 10 == 3) {
        ASSERT_TRUE(run(t.store->remove("b", key, {})));
        ASSERT_EQ(run(t.store->stat("b", key)).error(), Errc::no_such_key);
      }
      if (i % 25 == 7) {
        auto page = run(t.store->list("b", {.prefix = key, .delimiter = {}, .after = {}}));
        ASSERT_TRUE(page);
        ASSERT_EQ(page->entries.size(), 1u);
      }
      if (core == 0 && i % 40 == 20) {
        const auto durability = i % 80 == 20 ? Durability::sync : Durability::memory;
        ASSERT_TRUE(run(t.store->set_durability("b", durability)));
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int core = 0; core < cores; ++core) threads.emplace_back(work, core);
  }
  t.expect_no_leak();
}

// A listing waits for what was acknowledged before it; keys overwritten meanwhile are present all the time.
TEST(WriteBehindOnSeveralCores, WhatIsOverwrittenIsListedAllTheSame) {
  TestStore t;
  t.options.write_behind_after = 1ms;
  t.open();
  t.make_bucket("b", Durability::memory);
  ASSERT_TRUE(t.put("b", "k", "first"));
  std::atomic<bool> enough{false};
  std::jthread writer([&] {
    OwnLoop run;
    for (uint64_t i = 0; !enough; ++i) {
      const std::string value = pattern(500, i), key = i % 2 == 0 ? "k" : "other-" + std::to_string(i % 500);
      auto object = run(t.store->create("b", key, value.size()));
      ObjectInfo info;
      info.size = value.size();
      info.etag = TestStore::etag_of(value);
      if (!object || !run((*object)->append(t.chunk(value))) || !run((*object)->commit(info, {}))) break;
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto page = t.list("b");
    ASSERT_TRUE(page);
    ASSERT_FALSE(page->entries.empty());
    ASSERT_EQ(page->entries.front().key, "k") << "listing " << i;
  }
  enough = true;
}

}  // namespace
}  // namespace verbena::store::local
