#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "base/hex_run.h"

namespace verbena {
namespace {

TEST(Hex, EachByteHasOneValueOrNone) {
  int digits = 0;
  for (int c = 0; c < 256; ++c) {
    const int value = hex_value(static_cast<char>(c));
    EXPECT_EQ(is_hex_digit(static_cast<char>(c)), value >= 0);
    if (value < 0) continue;
    ++digits;
    EXPECT_TRUE(lower_hex_digits[value] == c || upper_hex_digits[value] == c) << c;
  }
  EXPECT_EQ(digits, 22);
}

TEST(Hex, OnlyDigitsAreHexadecimal) {
  EXPECT_TRUE(is_hex("0aF"));
  EXPECT_FALSE(is_lower_hex("0aF"));
  EXPECT_TRUE(is_lower_hex("0af"));
  for (const char* text : {"", "g", "0x1", "-1", "+1", " 1", "1 ", "1\n"}) {
    EXPECT_FALSE(is_hex(text)) << text;
    EXPECT_FALSE(is_lower_hex(text)) << text;
    EXPECT_FALSE(parse_hex(text)) << text;
  }
}

TEST(Hex, LowerCaseDigitsAreReadAndNoOthers) {
  std::array<std::byte, 2> into{};
  ASSERT_TRUE(read_lower_hex("09af", into));
  EXPECT_EQ(into, (std::array{std::byte{0x09}, std::byte{0xaf}}));
  for (const char* text : {"", "09a", "09aff", "09aF", "A9af", "0:af", "0/af", "0`af", "0gaf", "\x80\xff af"}) {
    EXPECT_FALSE(read_lower_hex(text, into)) << text;
  }
  EXPECT_FALSE(read_lower_hex(std::string_view("0\0af", 4), into));
}

// Sixteen bytes are read at once, and what is left over one by one.
TEST(Hex, AWrongDigitIsFoundAtEveryPlaceOfALongText) {
  std::array<std::byte, 35> bytes, into{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(7 * i + 1);
  std::string text = to_hex(bytes);
  ASSERT_TRUE(read_lower_hex(text, into));
  EXPECT_EQ(into, bytes);
  for (char& digit : text) {
    for (const char wrong : {'/', ':', '`', 'g', 'A', 'F', '\0', '\x80', '\xff'}) {
      const char right = std::exchange(digit, wrong);
      EXPECT_FALSE(read_lower_hex(text, into)) << text;
      digit = right;
    }
  }
}

TEST(Hex, NumbersOfMoreDigitsThanAllowedAreRefused) {
  EXPECT_EQ(parse_hex("0"), 0u);
  EXPECT_EQ(parse_hex("1aB"), 0x1abu);
  EXPECT_EQ(parse_hex("ffffffffffffffff"), UINT64_MAX);
  EXPECT_FALSE(parse_hex("0ffffffffffffffff"));
  EXPECT_FALSE(parse_hex("0ffffffffffffffff", 17));
  EXPECT_EQ(parse_hex("fffffffffffffff", 15), UINT64_MAX >> 4);
  EXPECT_FALSE(parse_hex("0000000000000000", 15));
}

TEST(Hex, ANumberIsReadBackAsItWasWritten) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{9}, uint64_t{0x10}, uint64_t{0xdeadbeef}, UINT64_MAX}) {
    std::string text;
    append_hex(text, value);
    EXPECT_EQ(parse_hex(text), value) << text;
  }
}

TEST(Hex, BytesAreReadBackAsTheyWereWritten) {
  std::array<std::byte, 256> bytes, read;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  std::array<char, 512> text;
  write_hex(bytes, text.data());
  const std::string_view written(text.data(), text.size());
  EXPECT_TRUE(written.starts_with("000102") && written.ends_with("fdfeff"));
  ASSERT_TRUE(read_hex(written, read));
  EXPECT_EQ(read, bytes);
  EXPECT_TRUE(read_hex("", {}));
  for (const size_t size : {1, 15, 16, 17, 33, 100}) {
    text.fill('-');
    write_hex(Bytes(bytes).last(size), text.data());
    std::array<std::byte, 100> again;
    ASSERT_TRUE(read_hex({text.data(), 2 * size}, std::span(again).first(size)));
    EXPECT_TRUE(std::ranges::equal(std::span(again).first(size), Bytes(bytes).last(size)));
    EXPECT_EQ(text[2 * size], '-');
  }
}

TEST(Hex, ARunIsWrittenAsEachOfItsParts) {
  std::array<std::byte, 7 * 48> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(37 * i);
  for (const size_t size : {1, 15, 16, 20, 32, 48}) {
    const size_t stride = 2 * size + 5;
    for (size_t count = 0; count <= 7; ++count) {
      std::string text(7 * stride, '-'), wanted = text;
      for (size_t i = 0; i < count; ++i) write_hex(Bytes(bytes).subspan(i * size, size), wanted.data() + i * stride);
      write_hex_run(Bytes(bytes).first(count * size), size, text.data(), stride);
      EXPECT_EQ(text, wanted) << size << " x " << count;
    }
  }
}

TEST(Hex, TextOfTheWrongLengthFillsNothing) {
  std::array<std::byte, 2> two;
  for (const char* text : {"", "ab", "abc", "abcde", "abcdef", "abcg", "g000"})
    EXPECT_FALSE(read_hex(text, two)) << text;
  EXPECT_TRUE(read_hex("aBcD", two));
}

}  // namespace
}  // namespace verbena
