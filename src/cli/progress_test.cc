#include "cli/progress.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "cli/watch_terminal.h"

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

TEST(Progress, WideNamesFitTheTerminal) {
  for (const char* wide : {"\xe6\xbc\xa2", "\xed\x95\x9c", "\xf0\x9f\x8c\xbf"}) {
    std::string name;
    for (int i = 0; i < 100; ++i) name += wide;
    for (unsigned columns = 1; columns < 200; ++columns) {
      const std::string line = progress_line(name, 1, 2, 0.001, columns);
      size_t wides = 0;
      for (size_t at = 0; (at = line.find(wide, at)) != std::string::npos; at += std::string_view(wide).size()) ++wides;
      const size_t size = line.size() - wides * std::string_view(wide).size() + wides * 2;
      EXPECT_LE(size, columns) << line;
      if (columns > 150) {
        EXPECT_GT(wides, 20u) << line;
      }
    }
  }
}

TEST(Progress, NamesAreShownAsText) {
  const std::string line = progress_line("a\x1b[2J\xc2\x9b\xe2\x80\xae", 1, 2, 1, 200);
  EXPECT_TRUE(line.starts_with("a\\x1b[2J\\u{9b}\\u{202e}  [")) << line;
  // Cut between characters and escapes, at any width.
  for (unsigned columns = 1; columns < 90; ++columns) {
    const std::string cut = progress_line("\xe6\xbc\xa2\x1b\xe6\xbc\xa2\x1b\xe6\xbc\xa2", 1, 2, 1, columns);
    for (const char* part : {"\\xe6", "\\xbc", "\\xa2"}) EXPECT_EQ(shown(cut).find(part), std::string::npos) << cut;
  }
}

TEST(Progress, KnowsNothingAndEmptyThings) {
  EXPECT_EQ(progress_line("x", 10, std::nullopt, 1.0, 100).find('['), std::string::npos);
  EXPECT_NE(progress_line("x", 0, 0, 0, 100).find("100%"), std::string::npos);
  EXPECT_NE(progress_line("x", 20, 10, 1, 100).find("100%"), std::string::npos) << "a file that grew meanwhile";
}

}  // namespace
}  // namespace verbena::cli
