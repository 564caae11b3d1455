#include "cli/progress.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace verbena::cli {
namespace {

TEST(Progress, ShowsBarPercentAmountAndRate) {
  const std::string line = progress_line("file.bin", 50 * MiB, 100 * MiB, 2.0, 100);
  EXPECT_NE(line.find("file.bin"), std::string::npos);
  EXPECT_NE(line.find("[############            ]"), std::string::npos) << line;
  EXPECT_NE(line.find(" 50%"), std::string::npos);
  EXPECT_NE(line.find("50 MiB / 100 MiB"), std::string::npos);
  EXPECT_NE(line.find("25 MiB/s"), std::string::npos);
}

TEST(Progress, FitsTheTerminal) {
  for (unsigned columns : {1u, 10u, 40u, 79u, 200u}) {
    EXPECT_LE(progress_line(std::string(300, 'n'), 1, 2, 0.001, columns).size(), columns);
    EXPECT_LE(progress_line(std::string(300, 'n'), 1, std::nullopt, 0, columns).size(), columns);
  }
}

TEST(Progress, KnowsNothingAndEmptyThings) {
  EXPECT_EQ(progress_line("x", 10, std::nullopt, 1.0, 100).find('['), std::string::npos);
  EXPECT_NE(progress_line("x", 0, 0, 0, 100).find("100%"), std::string::npos);
  EXPECT_NE(progress_line("x", 20, 10, 1, 100).find("100%"), std::string::npos) << "a file that grew meanwhile";
}

}  // namespace
}  // namespace verbena::cli
