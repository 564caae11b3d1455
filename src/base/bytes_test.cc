#include "base/bytes.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(Bytes, HexGoesBothWaysAndRefusesTheRest) {
  EXPECT_EQ(to_hex(as_bytes("\x01\xab")), "01ab");
  EXPECT_EQ(as_text(*from_hex("01aB")), "\x01\xab");
  EXPECT_FALSE(from_hex("0"));
  EXPECT_FALSE(from_hex("0g"));
}

// RFC 4648, section 10.
TEST(Bytes, Base64MatchesItsRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : vectors) {
    EXPECT_EQ(to_base64(as_bytes(plain)), coded);
    EXPECT_EQ(as_text(from_base64(coded).value()), plain);
  }
}

TEST(Bytes, Base64IsStrict) {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9", "Z===", "====", "Zg==Zg=="}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

TEST(Bytes, SizesParseAndPrint) {
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("64KiB"), 64 * KiB);
  EXPECT_EQ(parse_size("1 MiB"), MiB);
  EXPECT_EQ(parse_size("2G"), 2 * GiB);
  for (const char* bad : {"", "k", "-1", "1x", "99999999999999999999", "18014398509481984T", "1 2"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(64 * KiB), "64 KiB");
  EXPECT_EQ(format_size(3 * GiB / 2), "1.5 GiB");
}

TEST(Bytes, ConstantTimeComparisonComparesEverything) {
  EXPECT_TRUE(equal_constant_time(as_bytes("abc"), as_bytes("abc")));
  EXPECT_FALSE(equal_constant_time(as_bytes("abc"), as_bytes("abd")));
  EXPECT_FALSE(equal_constant_time(as_bytes("abc"), as_bytes("ab")));
  EXPECT_TRUE(equal_constant_time({}, {}));
  const std::string text = "0123456789abcdefghijklm";  // of whole words and a rest
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] ^= 0x40;
    EXPECT_FALSE(equal_constant_time(as_bytes(text), as_bytes(other))) << i;
  }
  EXPECT_TRUE(equal_constant_time(as_bytes(text), as_bytes(std::string(text))));
}

}  // namespace
}  // namespace verbena
