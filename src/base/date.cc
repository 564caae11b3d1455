#include "base/date.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace verbena {
namespace {

constexpr std::array<std::string_view, 7> day_names = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 7> long_day_names = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                            "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> month_names = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

constexpr int64_t seconds_min = -62'167'219'200;  // 0000-01-01T00:00:00Z
constexpr int64_t seconds_max = 253'402'300'799;  // 9999-12-31T23:59:59Z

struct Civil {
  int year = 0, month = 0, day = 0;  // month and day from 1
  int hour = 0, minute = 0, second = 0;
  unsigned weekday = 0;  // Sunday is 0
};

Civil to_civil(int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(std::clamp(seconds, seconds_min, seconds_max))};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count()),
          weekday{day}.c_encoding()};
}

std::optional<int64_t> to_seconds(const Civil& c) {
  using namespace std::chrono;
  const year_month_day date{year{c.year}, month{static_cast<unsigned>(c.month)}, day{static_cast<unsigned>(c.day)}};
  // A leap second (":60") is legal in HTTP dates.
  if (!date.ok() || c.hour > 23 || c.minute > 59 || c.second > 60) return std::nullopt;
  const int64_t seconds =
      sys_days{date}.time_since_epoch().count() * int64_t{86'400} + c.hour * 3'600 + c.minute * 60 + c.second;
  return seconds <= seconds_max ? std::optional(seconds) : std::nullopt;
}

// Writes into an existing text: every GET writes a date, and a listing a thousand.
void two(std::string& text, size_t at, int value) {
  text[at] = static_cast<char>('0' + value / 10);
  text[at + 1] = static_cast<char>('0' + value % 10);
}

void four(std::string& text, size_t at, int value) {
  two(text, at, value / 100);
  two(text, at + 2, value % 100);
}

// "0000-00-00T00:00:00" at `at`.
void write_iso8601(std::string& text, size_t at, int64_t seconds) {
  const Civil c = to_civil(seconds);
  four(text, at, c.year);
  two(text, at + 5, c.month);
  two(text, at + 8, c.day);
  two(text, at + 11, c.hour);
  two(text, at + 14, c.minute);
  two(text, at + 17, c.second);
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
  bool any_of(std::string_view characters) {
    if (rest_.empty() || characters.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  template <size_t n>
  bool name_of(const std::array<std::string_view, n>& names, int& index) {
    const auto found = std::ranges::find_if(names, [&](std::string_view name) { return literal(name); });
    index = static_cast<int>(found - names.begin());
    return found != names.end();
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
  bool month(Civil& c) { return name_of(month_names, c.month) && ++c.month; }
  bool end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool read_imf(Cursor in, Civil& c) {
  int day;
  return in.name_of(day_names, day) && in.literal(", ") && in.digits(2, c.day) && in.literal(" ") && in.month(c) &&
         in.literal(" ") && in.digits(4, c.year) && in.literal(" ") && in.clock(c) && in.end();
}

bool read_rfc850(Cursor in, Civil& c) {
  int day;
  if (!in.name_of(long_day_names, day) || !in.literal(", ") || !in.digits(2, c.day) || !in.literal("-") ||
      !in.month(c) || !in.literal("-") || !in.digits(2, c.year) || !in.literal(" ") || !in.clock(c) || !in.end()) {
    return false;
  }
  c.year += c.year < 70 ? 2000 : 1900;
  return true;
}

bool read_asctime(Cursor in, Civil& c) {
  int day;
  if (!(in.name_of(day_names, day) && in.literal(" ") && in.month(c) && in.literal(" "))) return false;
  if (!in.digits(in.literal(" ") ? 1 : 2, c.day)) return false;
  return in.literal(" ") && in.clock(c) && in.literal(" ") && in.digits(4, c.year) && in.end();
}

// The digits after a point, as microseconds.
bool read_fraction(Cursor& in, int64_t& microseconds) {
  int digit = 0;
  size_t count = 0;
  for (int64_t unit = 100'000; in.digits(1, digit); unit /= 10, ++count) microseconds += unit * digit;
  return count > 0;
}

// "Z", "+hh:mm", "+hhmm" or nothing: seconds east of Greenwich.
bool read_zone(Cursor& in, int64_t& east) {
  if (in.end() || in.any_of("Zz")) return in.end();
  const bool west = in.literal("-");
  int hours = 0, minutes = 0;
  if (!west && !in.literal("+")) return false;
  if (!in.digits(2, hours)) return false;
  (void)in.literal(":");
  if (!in.digits(2, minutes) || hours > 23 || minutes > 59) return false;
  east = (west ? -1 : 1) * (hours * int64_t{3'600} + minutes * 60);
  return in.end();
}

}  // namespace

std::string format_http_date(int64_t seconds) {
  const Civil c = to_civil(seconds);
  std::string text = "Sun, 00 Jan 0000 00:00:00 GMT";
  std::memcpy(text.data(), day_names[c.weekday].data(), 3);
  two(text, 5, c.day);
  std::memcpy(text.data() + 8, month_names[static_cast<size_t>(c.month - 1)].data(), 3);
  four(text, 12, c.year);
  two(text, 17, c.hour);
  two(text, 20, c.minute);
  two(text, 23, c.second);
  return text;
}

std::optional<int64_t> parse_http_date(std::string_view text) {
  Civil c;
  if (read_asctime(Cursor(text), c)) return to_seconds(c);
  for (const std::string_view zone : {" GMT", " UTC", " +0000", " -0000"}) {
    if (!text.ends_with(zone)) continue;
    text.remove_suffix(zone.size());
    return read_imf(Cursor(text), c) || read_rfc850(Cursor(text), c) ? to_seconds(c) : std::nullopt;
  }
  return std::nullopt;
}

std::string format_amz_date(int64_t seconds) {
  const Civil c = to_civil(seconds);
  std::string text = "00000000T000000Z";
  four(text, 0, c.year);
  two(text, 4, c.month);
  two(text, 6, c.day);
  two(text, 9, c.hour);
  two(text, 11, c.minute);
  two(text, 13, c.second);
  return text;
}

std::optional<int64_t> parse_amz_date(std::string_view text) {
  Cursor in(text);
  Civil c;
  if (!in.digits(4, c.year) || !in.digits(2, c.month) || !in.digits(2, c.day) || !in.literal("T") ||
      !in.digits(2, c.hour) || !in.digits(2, c.minute) || !in.digits(2, c.second) || !in.literal("Z") || !in.end()) {
    return std::nullopt;
  }
  return to_seconds(c);
}

std::string format_iso8601(int64_t microseconds) {
  std::string text;
  append_iso8601(text, microseconds);
  return text;
}

void append_iso8601(std::string& out, int64_t microseconds) {
  using namespace std::chrono;
  const std::chrono::microseconds time(
      std::clamp(microseconds, seconds_min * 1'000'000, seconds_max * 1'000'000 + 999'999));
  const auto whole = floor<seconds>(time);
  const int milliseconds = static_cast<int>(floor<std::chrono::milliseconds>(time - whole).count());
  const size_t at = out.size();
  out += "0000-00-00T00:00:00.000Z";
  write_iso8601(out, at, whole.count());
  out[at + 20] = static_cast<char>('0' + milliseconds / 100);
  two(out, at + 21, milliseconds % 100);
}

std::string format_iso8601_seconds(int64_t seconds) {
  std::string text = "0000-00-00T00:00:00Z";
  write_iso8601(text, 0, seconds);
  return text;
}

std::optional<int64_t> parse_iso8601(std::string_view text) {
  Cursor in(text);
  Civil c;
  int64_t fraction_us = 0, east = 0;
  if (!(in.digits(4, c.year) && in.literal("-") && in.digits(2, c.month) && in.literal("-") && in.digits(2, c.day))) {
    return std::nullopt;
  }
  if (!in.end()) {
    if (!in.any_of("Tt ") || !in.digits(2, c.hour) || !in.literal(":") || !in.digits(2, c.minute)) return std::nullopt;
    if (in.literal(":")) {
      if (!in.digits(2, c.second) || (in.literal(".") && !read_fraction(in, fraction_us))) return std::nullopt;
    }
    if (!read_zone(in, east)) return std::nullopt;
  }
  const auto local = to_seconds(c);
  // The zone may move the time out of the representable years.
  if (!local || *local - east < seconds_min || *local - east > seconds_max) return std::nullopt;
  return (*local - east) * 1'000'000 + fraction_us;
}

std::optional<int64_t> parse_iso8601_utc(std::string_view text) {
  if (text.size() < 11 || text[10] != 'T' || text.back() != 'Z') return std::nullopt;
  return parse_iso8601(text);
}

}  // namespace verbena
