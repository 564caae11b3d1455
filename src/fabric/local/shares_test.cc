#include "fabric/local/shares.h"

#include <gtest/gtest.h>

namespace verbena::fabric::local {
namespace {

TEST(Shares, AreTakenTogetherOrNotAtAll) {
  const auto wide = std::make_shared<Budget>(10), narrow = std::make_shared<Budget>(2);
  const Share two[] = {{wide, 2, "wide"}, {narrow, 2, "narrow"}};
  auto taken = take_all(two);
  ASSERT_TRUE(taken);
  EXPECT_EQ(wide->used(), 2u);
  EXPECT_EQ(narrow->used(), 2u);
  const auto refused = take_all(two);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::slow_down);
  EXPECT_STREQ(refused.error().context, "narrow");
  EXPECT_EQ(wide->used(), 2u) << "what was taken before the refusal is given back";
  taken->reset();
  EXPECT_EQ(wide->used(), 0u);
  EXPECT_EQ(narrow->used(), 0u);
}

TEST(Shares, OfAUserAreKnownAsLongAsAnybodyHasThem) {
  UserShares shares(100, 10);
  auto one = shares.of_user(1);
  EXPECT_TRUE(one->take(10));
  EXPECT_EQ(shares.of_user(1), one);
  EXPECT_FALSE(shares.of_user(1)->take(1));
  EXPECT_TRUE(shares.of_user(2)->take(10));
  EXPECT_TRUE(shares.all()->take(100));
}

TEST(Shares, OfMappingsLeaveTheServerAndOtherUsersAQuarter) {
  const MappingLimits limits = mapping_limits(65'530);
  EXPECT_EQ(limits.all, 49'148u);
  EXPECT_EQ(limits.of_user, 36'861u);
}

}  // namespace
}  // namespace verbena::fabric::local
