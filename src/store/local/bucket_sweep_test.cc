// Removing a bucket that has many uploads.
#include "store/logic/bucket_sweep.h"

#include "store/local/engine.h"
#include "store/local/test_store.h"
#include "store/logic/bucket_ops.h"

namespace verbena::store::local {
namespace {

constexpr int uploads_count = 1500;

class RemovedBucket : public ::testing::Test {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
    for (int i = 0; i < uploads_count; ++i) ASSERT_TRUE(t.start_upload("b", "k" + std::to_string(i % 700)));
    auto upload = t.start_upload("b", "parts");
    ASSERT_TRUE(upload);
    ASSERT_TRUE(t.put_part(*upload, 1, pattern(100'000, 1)));
    ASSERT_TRUE(t.put_part(*upload, 2, pattern(100, 2)));
  }
  // The engine below the store, so that a test sees the batches.
  void open_engine() {
    t.close();
    engine = std::make_shared<Engine>(t.options);
    ASSERT_TRUE(engine->start());
  }
  size_t count(Family family, std::string prefix) {
    size_t n = 0;
    for (Cursor cursor = engine->index->cursor(family, std::move(prefix)); cursor.valid(); cursor.next()) {
      n += !cursor.key().empty();
    }
    return n;
  }
  FaultyFileSystem fs;
  TestStore t{&fs};
  const std::function<uint64_t()> ids = [] { return 1; };
  std::shared_ptr<Engine> engine;
};

TEST_F(RemovedBucket, IsOneSmallBatchHoweverManyUploadsItHas) {
  open_engine();
  auto bucket = engine->find_bucket("b");
  ASSERT_TRUE(bucket);
  IndexTransaction transaction(*engine->index, ids, 1);
  ASSERT_TRUE(remove_bucket_change(engine->buckets, *bucket).judge(transaction));
  EXPECT_LT(transaction.batch().changes(), 10u) << "a commit that everybody waits for";
}

TEST_F(RemovedBucket, LeavesNothingBehindAndItsNameIsFreeAtOnce) {
  ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
  EXPECT_EQ(t.run(t.store->bucket("b")).error(), Errc::no_such_bucket);
  t.make_bucket("b");
  auto fresh = t.start_upload("b", "parts");
  ASSERT_TRUE(fresh);
  t.expect_no_leak();
  auto page = t.run(t.store->list_uploads("b", {}));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->uploads.size(), 1u);
  EXPECT_EQ(page->uploads[0].upload_id, fresh->upload_id);
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
  t.close();
  open_engine();
  EXPECT_EQ(count(Family::uploads, ""), 1u);
  EXPECT_EQ(count(Family::in_index, ""), 0u);
  EXPECT_EQ(count(Family::meta, keys::removed_bucket_prefix()), 0u);
}

// The states after a crash between the removal and its pieces, and between two pieces.
TEST_F(RemovedBucket, IsSweptAfterARestartFromWhereItWas) {
  open_engine();
  auto bucket = engine->find_bucket("b");
  ASSERT_TRUE(bucket);
  IndexTransaction transaction(*engine->index, ids, 1);
  ASSERT_TRUE(remove_bucket_change(engine->buckets, *bucket).judge(transaction));
  ASSERT_TRUE(engine->index->write(transaction.batch()));
  ASSERT_TRUE(engine->index->sync());
  BucketSweep sweep((*bucket)->id);
  ASSERT_TRUE(sweep_piece(*engine->index, sweep));
  EXPECT_FALSE(sweep.done());
  const size_t left = count(Family::uploads, "");
  EXPECT_LT(left, static_cast<size_t>(uploads_count));
  EXPECT_GE(left + BucketSweep::rows_max, static_cast<size_t>(uploads_count)) << "one piece is bounded";
  bucket = std::unexpected(Error{});
  engine.reset();

  t.open();
  EXPECT_EQ(t.run(t.store->bucket("b")).error(), Errc::no_such_bucket);
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
  t.close();
  open_engine();
  EXPECT_EQ(count(Family::uploads, ""), 0u);
  EXPECT_EQ(count(Family::meta, keys::removed_bucket_prefix()), 0u);
}

}  // namespace
}  // namespace verbena::store::local
