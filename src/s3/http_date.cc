#include "s3/http_date.h"

#include <fmt/core.h>

#include <array>
#include <chrono>

namespace verbena::s3 {
namespace {

constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 7> long_days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                       "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct Civil {
  int year = 0;
  unsigned month = 0, day = 0;  // from 1
  int hour = 0, minute = 0, second = 0;
  unsigned weekday = 0;  // Sunday is 0
};

Civil to_civil(int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = floor<std::chrono::days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count()),
          weekday{day}.c_encoding()};
}

std::optional<int64_t> to_seconds(const Civil& c) {
  using namespace std::chrono;
  const year_month_day date{year{c.year}, month{c.month}, day{c.day}};
  // A leap second (":60") is legal in HTTP dates.
  if (!date.ok() || c.hour > 23 || c.minute > 59 || c.second > 60) return std::nullopt;
  return sys_days{date}.time_since_epoch().count() * int64_t{86400} + c.hour * 3600 + c.minute * 60 + c.second;
}

// Reads a date from left to right; the first mismatch makes everything fail.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}
  bool literal(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  template <size_t n>
  bool one_of(const std::array<std::string_view, n>& names, unsigned& index) {
    for (unsigned i = 0; i < n; ++i) {
      if (literal(names[i])) return index = i, true;
    }
    return false;
  }
  bool digits(size_t count, int& value) {
    if (rest_.size() < count) return false;
    value = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') return false;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return true;
  }
  bool clock(Civil& c) {
    return digits(2, c.hour) && literal(":") && digits(2, c.minute) && literal(":") && digits(2, c.second);
  }
  bool month(Civil& c) {
    unsigned index = 0;
    if (!one_of(months, index)) return false;
    c.month = index + 1;
    return true;
  }
  bool day(size_t count, Civil& c) {
    int value = 0;
    if (!digits(count, value)) return false;
    c.day = static_cast<unsigned>(value);
    return true;
  }
  bool end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<int64_t> parse_imf(std::string_view text) {
  Cursor in(text);
  Civil c;
  if (in.one_of(days, c.weekday) && in.literal(", ") && in.day(2, c) && in.literal(" ") && in.month(c) &&
      in.literal(" ") && in.digits(4, c.year) && in.literal(" ") && in.clock(c) && in.literal(" GMT") && in.end()) {
    return to_seconds(c);
  }
  return std::nullopt;
}

std::optional<int64_t> parse_rfc850(std::string_view text) {
  Cursor in(text);
  Civil c;
  if (in.one_of(long_days, c.weekday) && in.literal(", ") && in.day(2, c) && in.literal("-") && in.month(c) &&
      in.literal("-") && in.digits(2, c.year) && in.literal(" ") && in.clock(c) && in.literal(" GMT") && in.end()) {
    c.year += c.year < 70 ? 2000 : 1900;
    return to_seconds(c);
  }
  return std::nullopt;
}

std::optional<int64_t> parse_asctime(std::string_view text) {
  Cursor in(text);
  Civil c;
  if (!(in.one_of(days, c.weekday) && in.literal(" ") && in.month(c) && in.literal(" "))) return std::nullopt;
  if (in.literal(" ") ? !in.day(1, c) : !in.day(2, c)) return std::nullopt;
  if (in.literal(" ") && in.clock(c) && in.literal(" ") && in.digits(4, c.year) && in.end()) return to_seconds(c);
  return std::nullopt;
}

}  // namespace

std::string format_http_date(int64_t seconds) {
  const Civil c = to_civil(seconds);
  if (c.year < 0 || c.year > 9999) {
    return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", days[c.weekday], c.day, months[c.month - 1], c.year,
                       c.hour, c.minute, c.second);
  }
  // By hand: every GET and HEAD says one.
  std::string text = "Sun, 00 Jan 0000 00:00:00 GMT";
  const auto two = [&](size_t at, int value) {
    text[at] = static_cast<char>('0' + value / 10);
    text[at + 1] = static_cast<char>('0' + value % 10);
  };
  text.replace(0, 3, days[c.weekday]);
  two(5, static_cast<int>(c.day));
  text.replace(8, 3, months[c.month - 1]);
  two(12, c.year / 100);
  two(14, c.year % 100);
  two(17, c.hour);
  two(20, c.minute);
  two(23, c.second);
  return text;
}

std::optional<int64_t> parse_http_date(std::string_view text) {
  if (auto time = parse_imf(text)) return time;
  if (auto time = parse_rfc850(text)) return time;
  return parse_asctime(text);
}

std::optional<int64_t> parse_iso8601(std::string_view text) {
  Cursor in(text);
  Civil c;
  int month = 0, day = 0;
  if (!(in.digits(4, c.year) && in.literal("-") && in.digits(2, month) && in.literal("-") && in.digits(2, day))) {
    return std::nullopt;
  }
  c.month = static_cast<unsigned>(month);
  c.day = static_cast<unsigned>(day);
  if (!in.literal("T") || !in.clock(c)) return std::nullopt;
  if (in.literal(".")) {
    int digit = 0, count = 0;
    while (count < 9 && in.digits(1, digit)) ++count;
    if (count == 0) return std::nullopt;
  }
  return in.literal("Z") && in.end() ? to_seconds(c) : std::nullopt;
}

namespace {

// Digits of a fraction, as microseconds. Advances behind them.
std::optional<int64_t> take_fraction(std::string_view& text) {
  int64_t value = 0;
  size_t n = 0;
  for (; n < text.size() && text[n] >= '0' && text[n] <= '9'; ++n) {
    if (n < 6) value = value * 10 + (text[n] - '0');
  }
  if (n == 0 || n > 9) return std::nullopt;
  text.remove_prefix(n);
  for (; n < 6; ++n) value *= 10;
  return value;
}

// "Z", "+hh:mm" or nothing: seconds to take away.
std::optional<int64_t> parse_zone(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z") return 0;
  const bool shape = text.size() == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':';
  if (!shape) return std::nullopt;
  int64_t parts[2] = {0, 0};
  for (size_t at : {1u, 2u, 4u, 5u}) {
    if (text[at] < '0' || text[at] > '9') return std::nullopt;
    parts[at / 3] = parts[at / 3] * 10 + (text[at] - '0');
  }
  if (parts[0] > 23 || parts[1] > 59) return std::nullopt;
  return (parts[0] * 3600 + parts[1] * 60) * (text[0] == '-' ? -1 : 1);
}

}  // namespace

std::optional<int64_t> parse_timestamp_us(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-ddTdd:dd:dd";
  const bool date_only = text.size() == 10;
  if (text.size() != 10 && text.size() < shape.size()) return std::nullopt;
  int fields[6] = {0, 0, 0, 0, 0, 0};
  size_t field = 0;
  for (size_t i = 0; i < (date_only ? 10 : shape.size()); ++i) {
    if (shape[i] == 'd') {
      if (text[i] < '0' || text[i] > '9') return std::nullopt;
      fields[field] = fields[field] * 10 + (text[i] - '0');
    } else {
      if (text[i] != shape[i] && !(shape[i] == 'T' && (text[i] == 't' || text[i] == ' '))) return std::nullopt;
      ++field;
    }
  }
  const auto seconds = to_seconds({fields[0], static_cast<unsigned>(fields[1]), static_cast<unsigned>(fields[2]),
                                   fields[3], fields[4], fields[5], 0});
  if (!seconds || date_only) return seconds ? std::optional(*seconds * 1'000'000) : std::nullopt;
  std::string_view rest = text.substr(shape.size());
  int64_t fraction_us = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const auto fraction = take_fraction(rest);
    if (!fraction) return std::nullopt;
    fraction_us = *fraction;
  }
  const auto zone = parse_zone(rest);
  if (!zone) return std::nullopt;
  return (*seconds - *zone) * 1'000'000 + fraction_us;
}

std::string format_iso8601(int64_t microseconds) {
  const int64_t milliseconds = microseconds / 1000 - (microseconds % 1000 < 0 ? 1 : 0);
  const int64_t seconds = milliseconds / 1000 - (milliseconds % 1000 < 0 ? 1 : 0);
  const Civil c = to_civil(seconds);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", c.year, c.month, c.day, c.hour, c.minute, c.second,
                     milliseconds - seconds * 1000);
}

}  // namespace verbena::s3
