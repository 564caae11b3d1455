#include "base/fair_share.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(FairShare, OneTakesHalfAndOthersFindRoom) {
  uint64_t first = 0, second = 0;
  while (fits_fair_share(first, first, 1, 90)) ++first;
  EXPECT_EQ(first, 45u);
  while (fits_fair_share(first + second, second, 1, 90)) ++second;
  EXPECT_GT(second, 20u);
  EXPECT_TRUE(fits_fair_share(first + second, 0, 1, 90));
  EXPECT_FALSE(fits_fair_share(90, 0, 1, 90));
  EXPECT_FALSE(fits_fair_share(0, 0, 91, 90));
  EXPECT_EQ(fair_share(0, 90), 45u);
  EXPECT_EQ(fair_share(91, 90), 0u);
}

}  // namespace
}  // namespace verbena
