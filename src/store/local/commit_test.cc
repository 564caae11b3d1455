// The two queues of the committer beside each other, and what readers see meanwhile.
#include <future>

#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using namespace std::chrono_literals;
using Fault = FaultyFileSystem::Fault;

constexpr auto long_enough = 60s;  // for what must not wait at all
constexpr const char* index_folder = "/store/index";
constexpr const char* volume_folder = "/store/volumes";

// A core of its own: its loop runs on the thread that calls.
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

// Else both queues would change one key at a time, and a failing sync of the one would take back what the other wrote.
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

}  // namespace
}  // namespace verbena::store::local
