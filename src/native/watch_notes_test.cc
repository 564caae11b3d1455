// Notes of commits to a busy core.
#include "native/watch_notes.h"

#include <gtest/gtest.h>

namespace verbena::native {
namespace {

constexpr uint64_t bytes_max = 64 << 10;

class WatchNotesTest : public testing::Test {
 protected:
  WatchNotesTest() {
    notes_.add_bucket(1);
    notes_.add_bucket(2);
  }
  void tell(uint64_t bucket, const std::string& key) {
    notes_.told(bucket, std::make_shared<const store::KeyChange>(store::KeyChange{
                            .what = store::KeyEvent::created, .key = key, .version_id = {}, .etag = {}}));
  }
  size_t calls_ = 0;
  WatchNotes notes_{bytes_max, [this] { ++calls_; }};
};

TEST_F(WatchNotesTest, AreTakenInTheirOrderAndBucketsInTurns) {
  for (const char* key : {"a", "b", "c"}) tell(1, key);
  tell(2, "d");
  notes_.removed(1);
  EXPECT_EQ(calls_, 1u);
  std::vector<std::string> taken;
  for (WatchNotes::Taken some; notes_.take(some, 2);) {
    for (const auto& change : some.changes) taken.push_back(std::to_string(some.bucket) + change->key);
    if (some.removed) taken.push_back("end of " + std::to_string(some.bucket));
    EXPECT_FALSE(some.lost);
  }
  EXPECT_EQ(taken, (std::vector<std::string>{"1a", "1b", "2d", "1c", "end of 1"}));
  EXPECT_FALSE(notes_.any());
  EXPECT_EQ(notes_.bytes(), 0u);
  notes_.was_called();
  tell(1, "e");
  EXPECT_EQ(calls_, 2u);
}

TEST_F(WatchNotesTest, AreNeverMoreThanTheirRoomHoweverSlowTheyAreTaken) {
  WatchNotes::Taken some;
  for (int i = 0; i < 20'000; ++i) {
    tell(1 + i % 2, std::string(200, 'k'));
    if (i % 100 == 0) {
      ASSERT_TRUE(notes_.take(some, 1));
    }
    ASSERT_LE(notes_.bytes(), bytes_max);
  }
}

TEST_F(WatchNotesTest, AFloodIsLostAndWhatOtherBucketsHaveIsNot) {
  tell(2, "kept");
  for (int i = 0; i < 1000; ++i) tell(1, std::string(200, 'k'));
  WatchNotes::Taken some;
  bool lost = false, kept = false;
  while (notes_.take(some, 16)) {
    lost = lost || (some.bucket == 1 && some.lost);
    kept = kept || (some.bucket == 2 && !some.lost && some.changes.size() == 1);
  }
  EXPECT_TRUE(lost);
  EXPECT_TRUE(kept);
}

// Many buckets with few notes each.
TEST_F(WatchNotesTest, WhereAllHaveTheSameTheFattestIsLost) {
  for (uint64_t bucket = 10; bucket < 110; ++bucket) notes_.add_bucket(bucket);
  for (int i = 0; i < 3; ++i) tell(50, std::string(100, 'k'));
  for (uint64_t i = 0; i < 5000; ++i) {
    tell(10 + i % 100, "k");
    ASSERT_LE(notes_.bytes(), bytes_max);
  }
}

TEST_F(WatchNotesTest, WhatCannotBeToldTakesNoRoom) {
  for (int i = 0; i < 100'000; ++i) notes_.lost_track(1);
  WatchNotes::Taken some;
  ASSERT_TRUE(notes_.take(some, 16));
  EXPECT_TRUE(some.lost);
  EXPECT_FALSE(notes_.take(some, 16));
}

TEST_F(WatchNotesTest, OfABucketThatNobodyWatchesAndAfterTheEndThereIsNothing) {
  tell(3, "k");
  EXPECT_FALSE(notes_.any());
  tell(1, "k");
  notes_.remove_bucket(1);
  EXPECT_EQ(notes_.bytes(), 0u);
  EXPECT_FALSE(notes_.any());
  notes_.close();
  notes_.was_called();
  tell(2, "k");
  EXPECT_EQ(calls_, 1u);
  EXPECT_FALSE(notes_.any());
}

}  // namespace
}  // namespace verbena::native
