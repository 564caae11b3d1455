#include "store/logic/bucket.h"

#include <gtest/gtest.h>

namespace verbena::store {
namespace {

TEST(BucketsTest, AreFoundByTheirNumberAsByTheirName) {
  Buckets buckets;
  buckets.add({.id = 7, .info = {.name = "a", .created_us = 0, .owner = "root"}});
  buckets.add({.id = 3, .info = {.name = "b", .created_us = 0, .owner = "root"}});
  EXPECT_EQ(buckets.find_id(7), buckets.find("a"));
  EXPECT_EQ(buckets.find_id(3), buckets.find("b"));
  EXPECT_EQ(buckets.find_id(4), nullptr);
  // Another bucket of the name, as where one server removes and makes it and another learns of the end alone.
  buckets.add({.id = 9, .info = {.name = "a", .created_us = 0, .owner = "root"}});
  EXPECT_EQ(buckets.find_id(7), nullptr);
  EXPECT_EQ(buckets.find_id(9), buckets.find("a"));
  buckets.remove("a");
  EXPECT_EQ(buckets.find_id(9), nullptr);
  EXPECT_NE(buckets.find_id(3), nullptr);
}

// A bucket and the room that was taken for it counted beside each other, until its creator went on.
TEST(BucketsTest, OneThatIsThereNeedsItsRoomNoMore) {
  Buckets buckets;
  const BucketRoom first(buckets, "root", 2);
  ASSERT_TRUE(first);
  buckets.add({.id = 7, .info = {.name = "a", .created_us = 0, .owner = "root"}}, first.number());
  {
    const BucketRoom second(buckets, "root", 2);
    EXPECT_TRUE(second);
    EXPECT_FALSE(BucketRoom(buckets, "root", 2));
  }
  EXPECT_TRUE(BucketRoom(buckets, "root", 2)) << "of a bucket that was refused";
}

}  // namespace
}  // namespace verbena::store
