#include "cli/watch_terminal.h"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

TEST(Terminal, NothingOfAStrangersMakingSteersIt) {
  EXPECT_EQ(shown("plain/key.txt"), "plain/key.txt");
  EXPECT_EQ(shown("\x1b[2J\x1b]0;owned\x07"), "\\x1b[2J\\x1b]0;owned\\x07");
  EXPECT_EQ(shown("a\nb\rc\td\x7f"), "a\\x0ab\\x0dc\\x09d\\x7f");
  EXPECT_EQ(shown("\xc2\x9b"
                  "31m"),
            "\\u{9b}31m")
      << "CSI as one character of C1";
  EXPECT_EQ(shown("\xe2\x80\xae"
                  "gpj.exe"),
            "\\u{202e}gpj.exe")
      << "right to left";
  EXPECT_EQ(shown("\xe2\x80\x8b"), "\\u{200b}") << "nothing to see";
  EXPECT_EQ(shown("\xff\xc0\xaf\xed\xa0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80") << "no UTF-8";
  EXPECT_EQ(shown("caf\xc3\xa9 \xe6\xbc\xa2"), "caf\xc3\xa9 \xe6\xbc\xa2");
  EXPECT_EQ(shown("a\\x1b"), "a\\\\x1b") << "an escape in the input differs from ours";
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Terminal, LongNamesKeepTheirEnds) {
  EXPECT_EQ(shown("0123456789", 6), "...789");
  EXPECT_EQ(shown("0123456789", 10), "0123456789");
  EXPECT_EQ(shown("", 5), "");
}

}  // namespace
}  // namespace verbena::cli
