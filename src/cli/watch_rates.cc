#include "cli/watch_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/date.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

uint64_t count_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}
double number_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
std::string text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}
const Json& list_in(const Json& json, const char* name) {
  static const Json none = Json::array();
  const auto found = json.find(name);
  return found != json.end() && found->is_array() ? *found : none;
}

// The entry of `list` with the same texts under these two names, or an empty one.
const Json& same_in(const Json& list, const Json& entry, const char* one, const char* two) {
  static const Json none = Json::object();
  const auto found = std::ranges::find_if(list, [&](const Json& other) {
    return text_in(other, one) == text_in(entry, one) && text_in(other, two) == text_in(entry, two);
  });
  return found == list.end() ? none : *found;
}

double rate(uint64_t before, uint64_t now, double seconds) {
  return static_cast<double>(now >= before ? now - before : now) / seconds;
}

Json door_rates(const Json& before, const Json& now, double seconds) {
  Json list = Json::array();
  for (const Json& door : list_in(now, "doors")) {
    const Json& was = same_in(list_in(before, "doors"), door, "door", "provider");
    Json one = {{"door", text_in(door, "door")},
                {"provider", text_in(door, "provider")},
                {"transport", text_in(door, "transport")}};
    for (const auto& [from, to] : {std::pair{"requests", "requests_per_s"}, std::pair{"bytes_in", "bytes_in_per_s"},
                                   std::pair{"bytes_out", "bytes_out_per_s"}}) {
      one[to] = rate(count_in(was, from), count_in(door, from), seconds);
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json latency_rates(const Json& before, const Json& now, double seconds) {
  Json list = Json::array();
  for (const Json& each : list_in(now, "latencies")) {
    const Json& was = list_in(same_in(list_in(before, "latencies"), each, "door", "verb"), "counts");
    const Json& is = list_in(each, "counts");
    Json counts = Json::array();
    uint64_t sum = 0;
    for (size_t i = 0; i < is.size(); ++i) {
      const uint64_t now_there = is[i].is_number_unsigned() ? is[i].get<uint64_t>() : 0;
      const uint64_t then = i < was.size() && was[i].is_number_unsigned() ? was[i].get<uint64_t>() : 0;
      const uint64_t more = now_there >= then ? now_there - then : now_there;
      counts.push_back(more);
      sum += more;
    }
    if (sum == 0) continue;
    list.push_back({{"door", text_in(each, "door")},
                    {"verb", text_in(each, "verb")},
                    {"requests_per_s", static_cast<double>(sum) / seconds},
                    {"p50_us", percentile_us(counts, 0.5).value_or(0)},
                    {"p99_us", percentile_us(counts, 0.99).value_or(0)}});
  }
  return list;
}

// Their sums are for the time since the previous call.
Json name_rates(const Json& sums, double seconds) {
  Json list = Json::array();
  for (const Json& each : sums) {
    Json one = {{"name", text_in(each, "name")}};
    if (each.contains("account")) one["account"] = text_in(each, "account");
    for (const auto& [from, to] :
         {std::pair{"requests", "requests_per_s"}, std::pair{"errors", "errors_per_s"},
          std::pair{"bytes_in", "bytes_in_per_s"}, std::pair{"bytes_out", "bytes_out_per_s"}}) {
      one[to] = static_cast<double>(count_in(each, from)) / seconds;
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::string each_second(double bytes) { return format_size(static_cast<uint64_t>(bytes)) + "/s"; }

std::string time_text(double us) {
  if (us < 1000) return fmt::format("{:.3g} us", us);
  return us < 1'000'000 ? fmt::format("{:.3g} ms", us / 1000) : fmt::format("{:.3g} s", us / 1'000'000);
}

void add_names(std::string& page, const char* title, const Json& list) {
  fmt::format_to(std::back_inserter(page), "\n{:<40} {:>10} {:>10} {:>14} {:>14}\n", title, "requests/s", "errors/s",
                 "in", "out");
  size_t left = 10;
  for (const Json& one : list) {
    if (left-- == 0) break;
    const std::string account = text_in(one, "account");
    const std::string& name = account.empty() ? text_in(one, "name") : account;
    fmt::format_to(std::back_inserter(page), "{:<40} {:>10.1f} {:>10.1f} {:>14} {:>14}\n", shown(name, 40),
                   number_in(one, "requests_per_s"), number_in(one, "errors_per_s"),
                   each_second(number_in(one, "bytes_in_per_s")), each_second(number_in(one, "bytes_out_per_s")));
  }
}

}  // namespace

std::optional<double> percentile_us(const Json& counts, double part) {
  constexpr double first_bound_us = 0.25;
  double sum = 0;
  for (const Json& count : counts) sum += count.get<double>();
  if (sum == 0) return std::nullopt;
  const double wanted = sum * part;
  double below = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto here = counts[i].get<double>();
    const double low = i == 0 ? 0 : std::ldexp(first_bound_us, static_cast<int>(i) - 1);
    const double high = std::ldexp(first_bound_us, static_cast<int>(i));
    // The last bucket has only a lower bound.
    if (below + here >= wanted && here > 0) {
      return i + 1 == counts.size() ? low : low + (high - low) * (wanted - below) / here;
    }
    below += here;
  }
  return std::nullopt;
}

Json top_rates(const Json& before, const Json& now) {
  const uint64_t from = count_in(before, "time_us"), to = count_in(now, "time_us");
  const double seconds = to > from ? std::max(static_cast<double>(to - from) / 1e6, 0.001) : 1;
  Json out = {{"time", format_iso8601(static_cast<int64_t>(to))},
              {"interval_s", seconds},
              {"uptime_s", count_in(now, "uptime_s")},
              {"cores", count_in(now, "cores")},
              {"sessions", count_in(now, "sessions")},
              {"connections", count_in(now, "connections")},
              {"arena", now.value("arena", Json::object())},
              {"hot_tier", now.value("hot_tier", Json())},
              {"doors", door_rates(before, now, seconds)},
              {"latencies", latency_rates(before, now, seconds)},
              {"buckets", name_rates(list_in(now, "buckets"), seconds)},
              {"accounts", name_rates(list_in(now, "accounts"), seconds)},
              {"lost", count_in(now, "lost")}};
  return out;
}

std::string top_page(const Json& rates) {
  std::string page;
  const auto to = std::back_inserter(page);
  const Json arena = rates.value("arena", Json::object());
  fmt::format_to(to, "verbena  up {} s  cores {}  sessions {}  connections {}  arena {} of {}",
                 count_in(rates, "uptime_s"), count_in(rates, "cores"), count_in(rates, "sessions"),
                 count_in(rates, "connections"), format_size(count_in(arena, "leased_bytes")),
                 format_size(count_in(arena, "bytes")));
  const Json hot = rates.value("hot_tier", Json());
  if (const uint64_t hits = hot.is_object() ? count_in(hot, "hits") : 0; hits != 0) {
    const auto looks = static_cast<double>(hits + count_in(hot, "misses"));
    fmt::format_to(to, "  hot tier {:.1f} % hits", 100 * static_cast<double>(hits) / looks);
  }
  fmt::format_to(to, "\n\n{:<10} {:<15} {:<14} {:>14} {:>14} {:>14}\n", "door", "provider", "carried by", "requests/s",
                 "in", "out");
  for (const Json& door : list_in(rates, "doors")) {
    fmt::format_to(to, "{:<10} {:<15} {:<14} {:>14.1f} {:>14} {:>14}\n", shown(text_in(door, "door")),
                   shown(text_in(door, "provider")), shown(text_in(door, "transport")),
                   number_in(door, "requests_per_s"), each_second(number_in(door, "bytes_in_per_s")),
                   each_second(number_in(door, "bytes_out_per_s")));
  }
  fmt::format_to(to, "\n{:<10} {:<15} {:>14} {:>14} {:>14}\n", "door", "verb", "requests/s", "p50", "p99");
  for (const Json& one : list_in(rates, "latencies")) {
    fmt::format_to(to, "{:<10} {:<15} {:>14.1f} {:>14} {:>14}\n", shown(text_in(one, "door")),
                   shown(text_in(one, "verb")), number_in(one, "requests_per_s"), time_text(number_in(one, "p50_us")),
                   time_text(number_in(one, "p99_us")));
  }
  add_names(page, "bucket", list_in(rates, "buckets"));
  add_names(page, "account", list_in(rates, "accounts"));
  if (const uint64_t lost = count_in(rates, "lost"); lost != 0) {
    fmt::format_to(std::back_inserter(page), "\n{} requests are missing from these two lists: there were too many\n",
                   lost);
  }
  return page;
}

}  // namespace verbena::cli
