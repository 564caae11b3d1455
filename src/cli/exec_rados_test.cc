#include "cli/exec_rados.h"

#include <gmock/gmock.h>

namespace verbena::cli {
namespace {

TEST(ExecRados, TheProgramBesideThisOneComesFirstThenTheInstalledOne) {
  const auto places = rados_programs("/somewhere/bin");
  ASSERT_GE(places.size(), 2u);
  EXPECT_EQ(places[0], "/somewhere/bin/verbena-rados");
  // Relative to the program, so that an installation may be moved.
  EXPECT_THAT(places[1].string(), testing::StartsWith("/somewhere/"));
  for (const auto& place : places) {
    EXPECT_TRUE(place.is_absolute()) << place;
    EXPECT_EQ(place.filename(), "verbena-rados");
  }
}

TEST(ExecRados, WithoutProcTheInstalledOneIsTaken) {
  const auto places = rados_programs("");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_TRUE(places[0].is_absolute());
}

}  // namespace
}  // namespace verbena::cli
