#include "store/rados/rows/formats.h"

#include <gtest/gtest.h>

#include "store/logic/keys.h"

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

std::string knows(uint64_t newest) { return keys::number(1) + keys::number(newest); }

TEST(Formats, AServerWithoutARowOfItsOwnIsFromBeforeFormats) {
  ServersRows rows = {{"s" + keys::number(7), "sign"}, {formats_row(7), knows(3)}};
  EXPECT_EQ(known_by_all(rows, 3), 3u);
  rows.emplace(formats_row(9), knows(1));
  EXPECT_EQ(known_by_all(rows, 3), 3u) << "of a server that was given up";
  rows.emplace("s" + keys::number(8), "sign");
  EXPECT_EQ(known_by_all(rows, 3), 1u);
  rows.emplace(formats_row(8), knows(2));
  EXPECT_EQ(known_by_all(rows, 3), 2u);
  EXPECT_EQ(known_by_all({}, 3), 3u);
}

TEST(Formats, AStoreFromBeforeFormatsHasTheFirstAndOneThatHasLostItsOwnHasNone) {
  const ServersRows before = {{"era", "1"}, {"master", "0123456789abcdef\n"}, {"s" + keys::number(7), "sign"}};
  EXPECT_EQ(format_in({}), 1u);
  EXPECT_EQ(format_in(before), 1u);
  EXPECT_FALSE(format_in(before, /*marked=*/true));
  ServersRows closed = before, known = before;
  closed["master"] = with_gate_line(before.at("master"), 2);
  EXPECT_FALSE(format_in(closed));
  known[formats_row(7)] = knows(2);
  EXPECT_FALSE(format_in(known));
  for (ServersRows rows : {before, closed, known}) {
    rows["format"] = "2 0123456789abcdef";
    EXPECT_EQ(format_in(rows, true), 2u);
    for (const char* text : {"x", "0", "-1 0", "2x", " 2", "99999999999999999999 0"}) {
      rows["format"] = text;
      ASSERT_FALSE(format_in(rows)) << text;
      EXPECT_NE(format_in(rows).error().find("no number"), std::string::npos);
    }
  }
}

TEST(Formats, TheIdsOfTheMasterKeysHaveOneGateLine) {
  const std::string ids = "0123456789abcdef\nfedcba9876543210\n", line = "servers-of-this-cluster-have-format-";
  EXPECT_FALSE(has_gate_line(""));
  EXPECT_FALSE(has_gate_line(ids));
  EXPECT_EQ(with_gate_line("", 2), line + "2\n");
  EXPECT_EQ(with_gate_line(ids, 2), ids + line + "2\n");
  EXPECT_EQ(with_gate_line(with_gate_line(ids, 2), 13), ids + line + "13\n");
  EXPECT_TRUE(has_gate_line(with_gate_line("", 2)));
  EXPECT_TRUE(has_gate_line(line + "2\n" + ids));
}

}  // namespace
}  // namespace verbena::store::rados
