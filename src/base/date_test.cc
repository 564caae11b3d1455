#include "base/date.h"

#include <gtest/gtest.h>

#include <limits>

namespace verbena {
namespace {

constexpr int64_t second_us = 1'000'000;
constexpr int64_t noon_s = 1'767'355'200;  // 2026-01-02T12:00:00Z

TEST(HttpDate, ReadsTheThreeFormsOfRfc9110) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
  EXPECT_EQ(parse_http_date("Wednesday, 06-Nov-69 08:49:37 GMT"), 3150953377)
      << "two digits below 70 are of this century";
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), 784111777);
  EXPECT_EQ(parse_http_date("Wed Nov 16 08:49:37 1994"), 784975777);
  EXPECT_EQ(format_http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(HttpDate, ReadsTheZonesThatMailAndGoWrite) {
  for (const char* zone : {"GMT", "UTC", "+0000", "-0000"}) {
    EXPECT_EQ(parse_http_date(std::string("Sun, 06 Nov 1994 08:49:37 ") + zone), 784111777) << zone;
    EXPECT_EQ(parse_http_date(std::string("Sunday, 06-Nov-94 08:49:37 ") + zone), 784111777) << zone;
  }
}

TEST(HttpDate, RefusesEverythingElse) {
  for (const char* bad : {"",
                          "yesterday",
                          "Sun, 06 Nov 1994 08:49:37",
                          "Sun, 31 Feb 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 24:49:37 GMT",
                          "Sun, 06 Nov 1994 08:49:37 GMT ",
                          "Sun, 6 Nov 1994 08:49:37 GMT",
                          "Sun, 06 Nov 94 08:49:37 GMT",
                          "784111777",
                          "Sun, -6 Nov 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 08:49:37 CET",
                          "Sun, 06 Nov 1994 08:49:37 +0100",
                          "06-Nov-94 08:49:37 GMT",
                          "Sunday, 06-Nov-94 08:49:37 -",
                          "Sun Nov 6 08:49:37 1994",
                          "Sun Nov  6 08:49:37 94",
                          "Sun Foo  6 08:49:37 1994",
                          "Sun, 06 Nvo 1994 08:49:37 GMT",
                          "Son, 06 Nov 1994 08:49:37 GMT",
                          " GMT",
                          "UTC",
                          "Fri, 31 Dec 9999 23:59:60 GMT"}) {
    EXPECT_FALSE(parse_http_date(bad)) << bad;
  }
}

TEST(AmzDate, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_amz_date("20130524T000000Z"), 1369353600);
  EXPECT_EQ(format_amz_date(1369353600), "20130524T000000Z");
  for (const char* text : {"20130532T000000Z", "20130229T000000Z", "20131301T000000Z", "20130524T240000Z", "2013",
                           "20130524T000000", "2013052xT000000Z", "20130524T000000Zx", "20130524 000000Z", ""}) {
    EXPECT_FALSE(parse_amz_date(text)) << text;
  }
}

TEST(Iso8601, IsWrittenWithMillisecondsOrSeconds) {
  EXPECT_EQ(format_iso8601(1'767'323'045'678'901), "2026-01-02T03:04:05.678Z");
  EXPECT_EQ(format_iso8601(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(format_iso8601_seconds(1'767'323'045), "2026-01-02T03:04:05Z");
  std::string text = "at ";
  append_iso8601(text, 0);
  EXPECT_EQ(text, "at 1970-01-01T00:00:00.000Z");
}

TEST(Iso8601, IsReadInAllTheFormsThatClientsSend) {
  EXPECT_EQ(parse_iso8601("2026-01-02"), (noon_s - 43'200) * second_us);
  for (const char* text :
       {"2026-01-02T12:00Z", "2026-01-02T12:00", "2026-01-02T12:00:00Z", "2026-01-02T12:00:00",
        "2026-01-02T12:00:00.000Z", "2026-01-02t12:00:00z", "2026-01-02 12:00:00", "2026-01-02T13:30:00+01:30",
        "2026-01-02T13:30:00+0130", "2026-01-02T11:00:00.0-01:00", "2026-01-02T12:00:00.0000000009Z"}) {
    EXPECT_EQ(parse_iso8601(text), noon_s * second_us) << text;
  }
  EXPECT_EQ(parse_iso8601("2026-01-02T12:00:00.123456789Z"), noon_s * second_us + 123'456);
  EXPECT_EQ(parse_iso8601("1969-12-31T23:59:59.5Z"), -second_us / 2);
}

TEST(Iso8601, RefusesEverythingElse) {
  for (const char* text : {"",
                           "2026",
                           "20260102",
                           "2026-13-02",
                           "2026-02-30",
                           "2026-01-02T",
                           "2026-01-02T12",
                           "2026-01-02T25:00:00Z",
                           "2026-01-02T12:60Z",
                           "2026-01-02T12:00:61Z",
                           "2026-01-02T12:00:00.Z",
                           "2026-01-02T12:00:.5Z",
                           "2026-01-02T12:00:00X",
                           "2026-01-02T12:00:00ZZ",
                           "2026-01-02x12:00:00Z",
                           "2026-01-02T12:00:00+24:00",
                           "2026-01-02T12:00:00+01:60",
                           "2026-01-02T12:00:00+01",
                           "2026-01-02T12:00:00+01:30Z",
                           "2026-01-02Z",
                           "+026-01-02",
                           "9999-12-31T23:59:60Z",
                           "9999-12-31T23:59-00:01",
                           "0000-01-01T00:00+00:01"}) {
    EXPECT_FALSE(parse_iso8601(text)) << text;
  }
}

TEST(Iso8601, WhatGrantsSomethingSaysItsZone) {
  EXPECT_EQ(parse_iso8601_utc("2026-01-02T12:00:00.5Z"), noon_s * second_us + second_us / 2);
  for (const char* text : {"2026-01-02", "2026-01-02T12:00:00", "2026-01-02 12:00:00Z", "2026-01-02T12:00:00z",
                           "2026-01-02T12:00:00+00:00", "2026-01-02Z", "Z", ""}) {
    EXPECT_FALSE(parse_iso8601_utc(text)) << text;
  }
}

TEST(Date, TimesThatFourDigitsCannotSayAreTheLastThatTheyCan) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(format_http_date(most), "Fri, 31 Dec 9999 23:59:59 GMT");
  EXPECT_EQ(format_http_date(least), "Sat, 01 Jan 0000 00:00:00 GMT");
  EXPECT_EQ(format_amz_date(most), "99991231T235959Z");
  EXPECT_EQ(format_iso8601(most), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(format_iso8601(least), "0000-01-01T00:00:00.000Z");
  EXPECT_EQ(format_iso8601_seconds(least), "0000-01-01T00:00:00Z");
}

// Steps of a day and some seconds, over leap years and both ends of a century.
TEST(Date, EveryDayIsReadBackAsItWasWritten) {
  for (int64_t s = -2'300'000'000; s < 4'200'000'000; s += 86'400 + 3'661) {
    ASSERT_EQ(parse_http_date(format_http_date(s)), s);
    ASSERT_EQ(parse_amz_date(format_amz_date(s)), s);
    ASSERT_EQ(parse_iso8601(format_iso8601_seconds(s)), s * second_us);
    ASSERT_EQ(parse_iso8601_utc(format_iso8601(s * second_us + 7'000)), s * second_us + 7'000);
  }
}

}  // namespace
}  // namespace verbena
