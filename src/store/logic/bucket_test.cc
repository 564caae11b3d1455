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

// A bucket and the room that was taken for it counted beside each other: until its creator went on, and where another
// server's message, or a look at all buckets, brought the bucket first.
TEST(BucketsTest, OneThatIsThereNeedsItsRoomNoMore) {
  Buckets buckets;
  const BucketRoom first(buckets, "root", "a", 2);
  ASSERT_TRUE(first);
  buckets.add({.id = 7, .info = {.name = "a", .created_us = 0, .owner = "root"}});
  {
    const BucketRoom second(buckets, "root", "b", 2);
    EXPECT_TRUE(second);
    EXPECT_FALSE(BucketRoom(buckets, "root", "c", 2));
    buckets.remove("a");
    EXPECT_FALSE(BucketRoom(buckets, "root", "c", 2)) << "it may be made again by who holds its room";
  }
  EXPECT_TRUE(BucketRoom(buckets, "root", "c", 2)) << "of a bucket that was refused";
}

// Those who created one name at once took the places of others, and all but one were refused.
TEST(BucketsTest, OneNameThatManyCreateTakesOneRoom) {
  Buckets buckets;
  const BucketRoom other(buckets, "root", "b", 2);
  {
    const BucketRoom first(buckets, "root", "a", 2), second(buckets, "root", "a", 2);
    EXPECT_TRUE(other && first && second);
    EXPECT_FALSE(BucketRoom(buckets, "root", "c", 2));
  }
  EXPECT_TRUE(BucketRoom(buckets, "root", "c", 2));
}

}  // namespace
}  // namespace verbena::store
