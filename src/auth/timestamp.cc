#include "auth/timestamp.h"

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

std::optional<int64_t> parse_http_date(std::string_view text) {
  if (auto basic = parse_amz_date(text)) return basic;
  // "Fri, 24 May 2013 00:00:00 GMT". Mail's ways of writing that zone are common, too: AWS's own examples have "+0000".
  for (const std::string_view zone : {" +0000", " -0000"}) {
    if (text.ends_with(zone)) return parse_http_date(std::string(text.substr(0, text.size() - zone.size())) + " GMT");
  }
  if (text.size() != 29 || text[3] != ',' || text[4] != ' ' || text[7] != ' ' || text[11] != ' ' || text[16] != ' ' ||
      text[19] != ':' || text[22] != ':' || text.substr(25) != " GMT") {
    return std::nullopt;
  }
  static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t found = months.find(text.substr(8, 3));
  if (found == std::string_view::npos || found % 3 != 0) return std::nullopt;
  return seconds_of(digits(text, 12, 4), int(found / 3) + 1, digits(text, 5, 2), digits(text, 17, 2),
                    digits(text, 20, 2), digits(text, 23, 2));
}

}  // namespace verbena::auth
