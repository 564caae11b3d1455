#include "auth/timestamp.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace verbena::auth {
namespace {

// `count` digits at `at`; -1 when one of them is none.
int digits(std::string_view text, size_t at, size_t count) {
  int value = 0;
  for (size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

std::optional<int64_t> seconds_of(int year, int month, int day, int hour, int minute, int second) {
  using namespace std::chrono;
  if (year < 0 || month < 1 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60) {
    return std::nullopt;
  }
  const year_month_day date{std::chrono::year(year), std::chrono::month(unsigned(month)),
                            std::chrono::day(unsigned(day))};
  if (!date.ok()) return std::nullopt;
  const int64_t days = sys_days(date).time_since_epoch().count();
  return days * 86'400 + hour * 3'600 + minute * 60 + second;
}

}  // namespace

std::string format_amz_date(int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  std::array<char, 64> text;
  const int n = std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02d%02d%02dZ", int(date.year()),
                              unsigned(date.month()), unsigned(date.day()), int(clock.hours().count()),
                              int(clock.minutes().count()), int(clock.seconds().count()));
  return {text.data(), size_t(n)};
}

std::optional<int64_t> parse_amz_date(std::string_view text) {
  if (text.size() != 16 || text[8] != 'T' || text[15] != 'Z') return std::nullopt;
  return seconds_of(digits(text, 0, 4), digits(text, 4, 2), digits(text, 6, 2), digits(text, 9, 2), digits(text, 11, 2),
                    digits(text, 13, 2));
}

namespace {

// 1 to 12; 0 for none.
int month_at(std::string_view text, size_t at) {
  static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t found = months.find(text.substr(at, 3));
  return found == std::string_view::npos || found % 3 != 0 ? 0 : int(found / 3) + 1;
}

// Whether `text` has the form of `shape`, where 'd' is a digit, 'a' a letter, and anything else itself.
bool has_shape(std::string_view text, std::string_view shape) {
  const auto fits = [](char c, char s) {
    if (s == 'd') return c >= '0' && c <= '9';
    if (s == 'a') return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    return c == s;
  };
  return text.size() == shape.size() && std::equal(text.begin(), text.end(), shape.begin(), fits);
}

// "24 May 2013 00:00:00", the clock at `at`.
std::optional<int64_t> read_date(std::string_view text, int year, int month, int day, size_t at) {
  return seconds_of(year, month, day, digits(text, at, 2), digits(text, at + 3, 2), digits(text, at + 6, 2));
}

// "24-May-13 00:00:00" behind the name of the day, whose length varies.
std::optional<int64_t> parse_rfc850(std::string_view text) {
  const size_t comma = text.find(", ");
  if (comma == std::string_view::npos || comma < 6 || comma > 9) return std::nullopt;
  text.remove_prefix(comma + 2);
  if (!has_shape(text, "dd-aaa-dd dd:dd:dd")) return std::nullopt;
  const int year = digits(text, 7, 2);
  return read_date(text, year + (year < 70 ? 2000 : 1900), month_at(text, 3), digits(text, 0, 2), 10);
}

// "Fri May 24 00:00:00 2013"; the day has a blank in place of a leading zero.
std::optional<int64_t> parse_asctime(std::string_view text) {
  const bool short_day = has_shape(text, "aaa aaa  d dd:dd:dd dddd");
  if (!short_day && !has_shape(text, "aaa aaa dd dd:dd:dd dddd")) return std::nullopt;
  const int day = short_day ? digits(text, 9, 1) : digits(text, 8, 2);
  return read_date(text, digits(text, 20, 4), month_at(text, 4), day, 11);
}

}  // namespace

std::optional<int64_t> parse_http_date(std::string_view text) {
  if (auto basic = parse_amz_date(text)) return basic;
  if (auto asctime = parse_asctime(text)) return asctime;
  // Mail's ways of writing the zone are common (AWS's own examples have "+0000"), and so is Go's.
  for (const std::string_view zone : {" GMT", " UTC", " +0000", " -0000"}) {
    if (!text.ends_with(zone)) continue;
    text.remove_suffix(zone.size());
    if (!has_shape(text, "aaa, dd aaa dddd dd:dd:dd")) return parse_rfc850(text);
    return read_date(text, digits(text, 12, 4), month_at(text, 8), digits(text, 5, 2), 17);
  }
  return std::nullopt;
}

}  // namespace verbena::auth
