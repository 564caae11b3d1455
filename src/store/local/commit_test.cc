// The committer's two queues side by side, and what readers see meanwhile.
#include <future>
#include <thread>

#include "store/local/test_store.h"
#include "store/whole_put.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;
using Fault = FaultyFileSystem::Fault;

constexpr auto long_enough = 60s;  // for operations that must not wait at all
constexpr const char* index_folder = "/store/index";
constexpr const char* volume_folder = "/store/volumes";

// A core of its own: its loop runs on the calling thread.
class Core {
 public:
  explicit Core(TestStore& t) : t_(t) {}
  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  Result<ObjectInfo> put(std::string bucket, std::string key, std::string bytes, CommitConditions conditions = {}) {
    VB_ASSIGN(auto writer, run(t_.store->create(bucket, key, bytes.size())));
    VB_TRY(run(writer->append(t_.chunk(bytes))));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = TestStore::etag_of(bytes);
    return run(writer->commit(std::move(info), std::move(conditions)));
  }

 private:
  TestStore& t_;
  boost::asio::io_context& io_ = loop_that_stays();
};

class CommitTest : public testing::Test {
 protected:
  void SetUp() override {
    t_.open();
    t_.make_bucket("sync");
    t_.make_bucket("memory", Durability::memory);
    t_.store->drain();
  }
  void TearDown() override { fs_.release_syncs(); }
  auto put_elsewhere(std::string bucket, std::string key, std::string bytes) {
    return std::async(std::launch::async, [this, bucket, key, bytes] { return Core(t_).put(bucket, key, bytes); });
  }

  FaultyFileSystem fs_;
  TestStore t_{&fs_};
};

TEST_F(CommitTest, AMemoryWriteDoesNotWaitForTheSyncOfADurableOne) {
  fs_.hold_syncs(index_folder);
  auto durable = put_elsewhere("sync", "k", "slow");
  fs_.wait_for_held_sync();
  // With a condition, so that it goes through the committer.
  auto quick = std::async(std::launch::async, [this] {
    return Core(t_).put("memory", "k", "quick", {.if_match = {}, .if_none_match = "*"});
  });
  const bool in_time = quick.wait_for(long_enough) == std::future_status::ready;
  EXPECT_TRUE(in_time) << "it waited for the log's sync";
  if (in_time) {
    EXPECT_EQ(*t_.get("memory", "k"), "quick");
  }
  EXPECT_NE(durable.wait_for(0s), std::future_status::ready);
  fs_.release_syncs();
  EXPECT_TRUE(durable.get());
  EXPECT_TRUE(quick.get());
}

TEST_F(CommitTest, AReaderOfADurableBucketIsNotShownWhatIsNotDurableYet) {
  ASSERT_TRUE(t_.put("sync", "old", "before"));
  fs_.hold_syncs(index_folder);
  auto overwrite = put_elsewhere("sync", "old", "after");
  fs_.wait_for_held_sync();
  EXPECT_EQ(*t_.get("sync", "old"), "before");
  EXPECT_EQ(t_.list("sync")->entries.front().info.etag, TestStore::etag_of("before"));
  fs_.release_syncs();
  ASSERT_TRUE(overwrite.get());
  EXPECT_EQ(*t_.get("sync", "old"), "after");

  fs_.hold_syncs(index_folder);
  auto another = put_elsewhere("sync", "new", "x");
  fs_.wait_for_held_sync();
  EXPECT_EQ(t_.get("sync", "new").error(), Errc::no_such_key);
  EXPECT_EQ(t_.list("sync")->entries.size(), 1u);
  fs_.release_syncs();
  ASSERT_TRUE(another.get());
  EXPECT_EQ(t_.list("sync")->entries.size(), 2u);
}

TEST_F(CommitTest, WhatALogSyncRefusedIsTakenBackAndMemoryWritesMeanwhileStay) {
  ASSERT_TRUE(t_.put("sync", "k", pattern(100'000, 1)));
  t_.store->drain();
  fs_.hold_syncs(index_folder);
  auto refused = put_elsewhere("sync", "k", "never");
  fs_.wait_for_held_sync();
  ASSERT_TRUE(Core(t_).put("memory", "m", "stays", {.if_match = {}, .if_none_match = "*"}));
  fs_.fail_at(0, Fault::no_space);
  fs_.release_syncs();
  EXPECT_FALSE(refused.get());
  EXPECT_TRUE(*t_.get("sync", "k") == pattern(100'000, 1));
  ASSERT_TRUE(t_.put("sync", "afterwards", "x"));
  t_.store->drain();
  EXPECT_TRUE(*t_.get("sync", "k") == pattern(100'000, 1));
  EXPECT_EQ(*t_.get("memory", "m"), "stays");
  t_.reopen();
  EXPECT_TRUE(*t_.get("sync", "k") == pattern(100'000, 1));
  EXPECT_EQ(*t_.get("memory", "m"), "stays");
  t_.expect_no_leak();
}

// Otherwise both queues would change one key at a time, and a failed sync of one would undo what the other wrote.
TEST_F(CommitTest, ABucketThatIsNoLongerDurableTakesWhatIsQueuedOfItAlong) {
  fs_.hold_syncs(index_folder);
  auto change = std::async(std::launch::async,
                           [this] { return Core(t_).run(t_.store->set_durability("sync", Durability::memory)); });
  fs_.wait_for_held_sync();
  // With a condition, so that it goes through the committer. Queued behind the change, most likely.
  auto queued = std::async(std::launch::async, [this] {
    return Core(t_).put("sync", "k", "queued", {.if_match = {}, .if_none_match = "*"});
  });
  EXPECT_EQ(queued.wait_for(200ms), std::future_status::timeout);
  fs_.release_one_sync();
  ASSERT_TRUE(change.get());
  const bool in_time = queued.wait_for(long_enough) == std::future_status::ready;
  EXPECT_TRUE(in_time) << "it went through the durable queue";
  fs_.release_syncs();
  EXPECT_TRUE(queued.get());
  EXPECT_EQ(*t_.get("sync", "k"), "queued");
}

TEST_F(CommitTest, ManyRemovalsFromAMemoryBucketAreNotASyncEach) {
  constexpr int count = 64;
  for (int i = 0; i < count; ++i) ASSERT_TRUE(Core(t_).put("memory", std::to_string(i), pattern(20'000, 1)));
  t_.store->drain();
  const uint64_t index = fs_.syncs(index_folder), volumes = fs_.syncs(volume_folder);
  for (int i = 0; i < count; ++i) ASSERT_TRUE(t_.remove("memory", std::to_string(i)));
  EXPECT_LT(fs_.syncs(index_folder) - index, count / 4u);
  EXPECT_LT(fs_.syncs(volume_folder) - volumes, count / 4u);
  t_.expect_no_leak();
}

// Small objects that are put together, each announcing that more follow.
class Series {
 public:
  explicit Series(TestStore& t) : t_(t) {}
  static std::string name(size_t i) { return "series-" + std::to_string(i); }
  static std::string bytes_of(size_t i) { return pattern(1000 + i, i); }

  // Submits them; outcomes arrive while the loop runs.
  void begin(size_t count, bool last_says_more = false) {
    outcomes_.assign(count, std::nullopt);
    left_ = count;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = name(i), bytes = bytes_of(i);
      WholePut put{.bucket = "sync", .key = key, .info = {}, .bytes = t_.chunk(bytes), .executor = {}, .then = {}};
      put.info.size = bytes.size();
      put.info.etag = TestStore::etag_of(bytes);
      put.executor = t_.io().get_executor();
      put.more_follow = last_says_more || i + 1 != count;
      put.then = [this, i](Result<ObjectInfo> stored) {
        EXPECT_FALSE(outcomes_[i]) << "told twice";
        outcomes_[i] = std::move(stored);
        --left_;
      };
      ASSERT_TRUE(t_.store->put_whole(put));
      if (i % 40 == 39) std::this_thread::sleep_for(100us);  // so that a piece is written before the rest is here
    }
  }
  void wait() {
    t_.io().restart();
    const auto waits = boost::asio::make_work_guard(t_.io());
    while (left_ != 0) t_.io().run_one();
  }
  void put(size_t count) {
    begin(count);
    wait();
  }
  size_t stored() const {
    return static_cast<size_t>(std::ranges::count_if(outcomes_, [](const auto& each) { return each && *each; }));
  }
  // Checks that every acknowledged one is whole, and no other exists.
  void expect_what_was_told() {
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      auto got = t_.get("sync", name(i));
      if (*outcomes_[i]) {
        ASSERT_TRUE(got) << i;
        EXPECT_TRUE(*got == bytes_of(i)) << i;
      } else {
        EXPECT_EQ(got.error(), Errc::no_such_key) << i;
      }
    }
    EXPECT_EQ(t_.usage("sync")->objects, stored());
  }

  void put(WholePut put, std::optional<Result<ObjectInfo>>& told) {
    ++left_;
    put.executor = t_.io().get_executor();
    put.then = [&](Result<ObjectInfo> stored) {
      told = std::move(stored);
      --left_;
    };
    ASSERT_TRUE(t_.store->put_whole(put));
  }

 private:
  TestStore& t_;
  std::vector<std::optional<Result<ObjectInfo>>> outcomes_;
  size_t left_ = 0;
};

TEST_F(CommitTest, ManyThatFollowEachOtherShareOneSyncOfTheLog) {
  const uint64_t index = fs_.syncs(index_folder), volumes = fs_.syncs(volume_folder);
  Series series(t_);
  series.put(200);
  EXPECT_EQ(series.stored(), 200u);
  // One, as long as all of them come within Committer::Options::gather_max: a busy machine may need longer.
  EXPECT_LE(fs_.syncs(index_folder) - index, 8u);
  EXPECT_EQ(fs_.syncs(volume_folder) - volumes, 0u);
  series.expect_what_was_told();
  t_.close();
  fs_.crash(FaultyFileSystem::Loss::unsynced, 1);
  t_.open();
  series.expect_what_was_told();
}

TEST_F(CommitTest, WhatComesWhileDataIsSyncedSharesTheSyncOfTheLog) {
  fs_.hold_syncs(volume_folder);
  auto large = put_elsewhere("sync", "large", pattern(100'000, 1));
  fs_.wait_for_held_sync();
  const uint64_t before = fs_.syncs(index_folder);
  Series small(t_);
  small.begin(1);
  fs_.release_syncs();
  small.wait();
  EXPECT_TRUE(large.get());
  EXPECT_EQ(small.stored(), 1u);
  EXPECT_EQ(fs_.syncs(index_folder) - before, 1u);
}

TEST_F(CommitTest, DataThatJoinsAGroupIsDurableWithIt) {
  t_.close();
  t_.options.volume_size_max = 1 * MiB;  // so that the second is in another volume than the first
  t_.open();
  fs_.hold_syncs(volume_folder);
  auto first = put_elsewhere("sync", "first", pattern(600'000, 1));
  fs_.wait_for_held_sync();
  const uint64_t before = fs_.used_bytes();
  auto second = put_elsewhere("sync", "second", pattern(600'000, 2));
  while (fs_.used_bytes() < before + 600'000) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);  // for its change to be queued; if it is late, it has a group of its own
  fs_.release_syncs();
  ASSERT_TRUE(first.get());
  ASSERT_TRUE(second.get());
  fs_.fail_at(0, Fault::crash);  // else closing would sync the rest
  t_.close();
  fs_.crash(FaultyFileSystem::Loss::unsynced, 1);
  t_.open();
  EXPECT_TRUE(*t_.get("sync", "first") == pattern(600'000, 1));
  EXPECT_TRUE(*t_.get("sync", "second") == pattern(600'000, 2));
}

TEST_F(CommitTest, NothingOfASeriesIsShownBeforeTheSyncOfAll) {
  fs_.hold_syncs(index_folder);
  Series series(t_);
  series.begin(100);
  fs_.wait_for_held_sync();
  EXPECT_EQ(t_.get("sync", Series::name(0)).error(), Errc::no_such_key);
  EXPECT_EQ(t_.list("sync")->entries.size(), 0u);
  fs_.release_syncs();
  series.wait();
  EXPECT_EQ(series.stored(), 100u);
  series.expect_what_was_told();
}

TEST_F(CommitTest, ASeriesWhoseLastOnesNeverComeIsNotWaitedForLong) {
  Series series(t_);
  series.begin(3, /*last_says_more=*/true);
  series.wait();
  EXPECT_EQ(series.stored(), 3u);
  ASSERT_TRUE(t_.put("sync", "another", "x"));
  EXPECT_EQ(t_.list("sync")->entries.size(), 4u);
}

TEST_F(CommitTest, OneOfASeriesThatIsRefusedTakesNoOthersAlong) {
  const std::string bytes = "locked";
  WholePut locked{.bucket = "sync", .key = "locked", .info = {}, .bytes = t_.chunk(bytes), .executor = {}, .then = {}};
  locked.info.size = bytes.size();
  locked.info.lock.legal_hold = true;  // the bucket has no locks
  std::optional<Result<ObjectInfo>> told;
  Series series(t_);
  series.begin(40, /*last_says_more=*/true);
  series.put(std::move(locked), told);
  series.wait();
  ASSERT_TRUE(told && !*told);
  EXPECT_EQ(told->error(), Errc::invalid_request);
  EXPECT_EQ(series.stored(), 40u);
  series.expect_what_was_told();
}

// For each of a group's writes and syncs, of several pieces.
TEST(SeriesFailureTest, WhatFailsIsNotThereAndWhatWasAcknowledgedSurvivesAPowerCut) {
  for (const Fault fault : {Fault::no_space, Fault::io_error}) {
    bool more = true;
    for (uint64_t n = 0; more && n < 64 && !testing::Test::HasFailure(); ++n) {
      SCOPED_TRACE("operation " + std::to_string(n));
      FaultyFileSystem fs;
      TestStore t(&fs);
      t.open();
      t.make_bucket("sync");
      Series series(t);
      fs.fail_at(n, fault);
      series.put(150);
      more = fs.fault_happened();
      fs.fail_at(0, Fault::none);
      series.expect_what_was_told();
      t.close();
      fs.crash(FaultyFileSystem::Loss::unsynced, n);
      t.open();
      series.expect_what_was_told();
    }
  }
}

// Else it would tell of an object that never was.
TEST_F(CommitTest, ARefusalThatRestsOnAChangeOfItsGroupFailsWithIt) {
  fs_.hold_syncs(index_folder);
  auto held = put_elsewhere("sync", "other", "x");
  fs_.wait_for_held_sync();
  auto undone = put_elsewhere("sync", "k", "never");
  EXPECT_EQ(undone.wait_for(200ms), std::future_status::timeout);
  auto refused = std::async(std::launch::async, [this] {
    return Core(t_).put("sync", "k", "not either", {.if_match = {}, .if_none_match = "*"});
  });
  EXPECT_EQ(refused.wait_for(200ms), std::future_status::timeout);
  fs_.release_one_sync();
  ASSERT_TRUE(held.get());
  fs_.wait_for_held_sync();
  fs_.fail_at(0, Fault::no_space);
  fs_.release_syncs();
  const auto before = undone.get(), after = refused.get();
  ASSERT_FALSE(before);
  ASSERT_FALSE(after);
  EXPECT_EQ(describe(after.error()), describe(before.error()));
  EXPECT_EQ(t_.get("sync", "k").error(), Errc::no_such_key);
}

// Its bucket exists at the look-up, and is gone at the commit.
TEST_F(CommitTest, ABucketThatGoesBeforeTheChangeIsJudgedTakesNothing) {
  t_.make_bucket("other");
  fs_.hold_syncs(index_folder);
  auto held = put_elsewhere("other", "k", "x");
  fs_.wait_for_held_sync();
  auto removal = std::async(std::launch::async, [this] { return Core(t_).run(t_.store->remove_bucket("sync")); });
  EXPECT_EQ(removal.wait_for(200ms), std::future_status::timeout);
  auto late = put_elsewhere("sync", "k", "late");
  EXPECT_EQ(late.wait_for(200ms), std::future_status::timeout);
  fs_.release_syncs();
  EXPECT_TRUE(held.get());
  ASSERT_TRUE(removal.get());
  EXPECT_EQ(late.get().error(), Errc::no_such_bucket);
  t_.make_bucket("sync");  // a new bucket of the same name
  EXPECT_EQ(t_.get("sync", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t_.usage("sync")->objects, 0u);
  t_.expect_no_leak();
}

}  // namespace
}  // namespace verbena::store::local
