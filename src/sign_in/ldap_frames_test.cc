#include "sign_in/ldap_frames.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace verbena::sign_in {
namespace {

using namespace std::string_view_literals;

bool accepts(std::string_view bytes) {
  LdapFrames whole, one_by_one;
  const bool accepted = whole.accept(std::as_bytes(std::span(bytes)));
  bool still = true;
  for (const char& byte : bytes) still = one_by_one.accept(std::as_bytes(std::span(&byte, 1)));
  EXPECT_EQ(accepted, still) << "the same however it arrives";
  return accepted;
}

constexpr auto bound = "\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0"sv;

TEST(LdapFrames, MessagesOfRequestsPass) {
  EXPECT_TRUE(accepts(bound));
  EXPECT_TRUE(accepts(std::string(bound) + std::string(bound)));
  EXPECT_TRUE(accepts("\x30\x84\0\0\x01\x00\x02\x04\0\0\x01\0\x64\x82\0\xf6rest"sv));
  EXPECT_TRUE(accepts(bound.substr(0, 5)));
}

TEST(LdapFrames, AnUnsolicitedMessageDoesNotPass) {
  constexpr auto notice =
      "\x30\x24\x02\x01\0\x78\x1f\x0a\x01\x34\x04\0\x04\0\x8a\x16"
      "1.3.6.1.4.1.1466.20036"sv;
  EXPECT_FALSE(accepts(notice));
  EXPECT_FALSE(accepts(std::string(bound) + std::string(notice)));
  EXPECT_FALSE(accepts("\x30\x0c\x02\x03\0\0\0\x61"sv)) << "zero in three bytes";
}

TEST(LdapFrames, OtherBytesAreNoMessage) {
  for (const auto bytes :
       {"HTTP/1.1 200 OK"sv, "\x30\x80\x02\x01\x01"sv, "\x30\x85\0\0\0\0\x05"sv, "\x30\x02\x02\x01"sv,
        "\x30\x05\x04\x01\x01"sv, "\x30\x05\x02\0"sv, "\x30\x03\x02\x02"sv, "\x30\x0c\x02\x01\x01\x8c\x01"sv,
        "\x30\x0c\x02\x01\x01\x61\x08"sv, "\x30\x03\x02\x01\x01\x61"sv, "\x30\x09\x02\x05"sv}) {
    EXPECT_FALSE(accepts(bytes)) << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace verbena::sign_in
