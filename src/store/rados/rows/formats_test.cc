#include "store/rados/rows/formats.h"

#include <gtest/gtest.h>

namespace verbena::store::rados {
namespace {

TEST(Formats, AServerThatKnowsTheClustersRuns) {
  for (uint64_t format = format_oldest; format <= format_newest; ++format) {
    EXPECT_FALSE(refused(format, format_oldest, format_newest)) << format;
  }
  EXPECT_FALSE(refused(3, 3, 3));
}

TEST(Formats, AServerThatIsTooOldOrTooNewIsToldWhatToInstall) {
  const auto old = refused(format_newest + 1, format_oldest, format_newest);
  ASSERT_TRUE(old);
  EXPECT_NE(old->find("too old for the cluster"), std::string::npos) << *old;
  const auto early = refused(2, 4, 6);
  ASSERT_TRUE(early);
  EXPECT_NE(early->find("too new for the cluster"), std::string::npos) << *early;
  EXPECT_NE(early->find("from 4 on"), std::string::npos) << *early;
  EXPECT_NE(early->find("write format 2"), std::string::npos) << *early;
}

}  // namespace
}  // namespace verbena::store::rados
