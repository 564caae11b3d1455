#include "base/log_ring.h"

#include <gtest/gtest.h>

#include "base/log_limit.h"

namespace verbena::log {
namespace {

std::vector<std::string> texts(const Ring::Found& found) {
  std::vector<std::string> out;
  for (const Line& line : found.lines) out.push_back(line.text);
  return out;
}

TEST(LogRing, TellsTheNewestLinesFirstAndThenGoesOn) {
  Ring ring;
  for (const char* text : {"a", "b", "c"}) ring.add(Level::info, text);
  const auto first = ring.read(0, Level::trace, 2);
  EXPECT_EQ(texts(first), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(first.last, 3u);
  ring.add(Level::warn, "d");
  EXPECT_EQ(texts(ring.read(first.last, Level::trace, 9)), std::vector<std::string>{"d"});
  EXPECT_TRUE(ring.read(4, Level::trace, 9).lines.empty());
}

TEST(LogRing, ShowsOnlyTheLevelsThatAreAskedFor) {
  Ring ring;
  ring.add(Level::debug, "debug");
  ring.add(Level::warn, "warn");
  ring.add(Level::info, "info");
  ring.add(Level::error, "error");
  EXPECT_EQ(texts(ring.read(0, Level::warn, 9)), (std::vector<std::string>{"warn", "error"}));
}

TEST(LogRing, IsBoundedAndTellsHowMuchSomebodyHasMissed) {
  Ring ring;
  ring.add(Level::info, "first");
  const auto begun = ring.read(0, Level::trace, 1);
  for (size_t i = 0; i < Ring::lines_max + 10; ++i) ring.add(Level::info, std::to_string(i));
  const auto found = ring.read(begun.last, Level::trace, 5);
  EXPECT_EQ(found.lost, 10u);
  EXPECT_EQ(texts(found), (std::vector<std::string>{"10", "11", "12", "13", "14"}));
  EXPECT_EQ(ring.read(found.last, Level::trace, 1).lines.at(0).text, "15") << "a short answer is gone on with";
  ring.add(Level::info, std::string(Ring::line_bytes_max + 100, 'x'));
  EXPECT_EQ(ring.read(0, Level::trace, 1).lines.at(0).text.size(), Ring::line_bytes_max);
}

TEST(LogRing, StartsAnewForANumberOfAnotherProcess) {
  Ring ring;
  ring.add(Level::info, "a");
  EXPECT_EQ(texts(ring.read(1'000'000, Level::trace, 9)), std::vector<std::string>{"a"});
}

TEST(LogRing, HasWhatIsWrittenToTheLog) {
  const uint64_t before = ring().read(0, Level::trace, 1).last;
  warn("ring: a line of number {}", 7);
  const auto found = ring().read(before == 0 ? 0 : before, Level::trace, 100);
  ASSERT_FALSE(found.lines.empty());
  EXPECT_EQ(found.lines.back().text, "ring: a line of number 7");
  EXPECT_EQ(found.lines.back().level, Level::warn);
}

// A client that joined and left in a loop wrote two lines for each time.
TEST(LogLimit, WritesTheFirstLinesOfAnIntervalAndTellsHowManyFollowed) {
  Limit limit;
  const SteadyClock::time_point begin = SteadyClock::now();
  for (uint64_t i = 0; i < Limit::lines_max; ++i) EXPECT_EQ(limit.admit(begin), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limit.admit(begin + std::chrono::seconds(9)), std::nullopt);
  EXPECT_EQ(limit.admit(begin + Limit::interval), 1000u);
  EXPECT_EQ(limit.admit(begin + Limit::interval), 0u);
}

TEST(LogLimit, LinesAreThoseOfTheLog) {
  Limit limit;
  const uint64_t before = ring().read(0, Level::trace, 1).last;
  for (uint64_t i = 0; i < Limit::lines_max + 5; ++i) limit.warn("limit: line {}", i);
  limit.at(Level::debug, "not shown at all");
  EXPECT_EQ(ring().read(0, Level::trace, 1).last, before + Limit::lines_max);
  EXPECT_EQ(ring().read(0, Level::trace, 1).lines.at(0).text, "limit: line 19");
}

}  // namespace
}  // namespace verbena::log
