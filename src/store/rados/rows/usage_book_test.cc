#include "store/rados/rows/usage_book.h"

#include <gtest/gtest.h>

namespace verbena::store::rados {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReadingPaceTest, AReadingThatAnOsdKeepsWaitingIsSoonFollowedByTheNext) {
  ReadingPace pace;
  pace.add(milliseconds(2));
  pace.add(seconds(40));
  EXPECT_EQ(pace.rest(), ReadingPace::rest_min);
}

TEST(ReadingPaceTest, ManyReadingsAreASmallPartOfTheWork) {
  ReadingPace pace;
  for (int i = 0; i < 1000; ++i) pace.add(milliseconds(10));
  EXPECT_EQ(pace.rest(), seconds(30));
}

}  // namespace
}  // namespace verbena::store::rados
