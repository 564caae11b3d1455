// The doors against the yardsticks of the same run.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {
namespace {

const BenchRow* find(const std::vector<BenchRow>& rows, std::string_view door, std::string_view op, uint64_t size,
                     std::string_view provider = {}) {
  const auto it = std::ranges::find_if(rows, [&](const BenchRow& row) {
    return row.door == door && row.op == op && row.size == size && row.concurrency == 1 &&
           (provider.empty() || row.provider == provider);
  });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

std::string ratios(const std::vector<BenchRow>& rows) {
  struct Against {
    const char *op, *door, *yardstick;
  };
  constexpr Against bandwidths[] = {
      {"get", "fabtests", "rma_write"}, {"get", "perftest", "rdma_write"}, {"put", "perftest", "rdma_read"}};
  std::string out;
  for (const BenchRow& row : rows) {
    if (row.door != "native" && row.door != "token") continue;
    if (row.provider == "local" || row.concurrency != 1) continue;
    for (const Against& against : bandwidths) {
      if (row.op != against.op) continue;
      const BenchRow* other = find(rows, against.door, against.yardstick, row.size,
                                   against.door == std::string_view("fabtests") ? row.provider : "");
      if (other == nullptr || other->bytes_per_s <= 0) continue;
      out += fmt::format("{} ({}) {} {}: {:.2f}x the throughput of {} {}\n", row.door, row.provider, row.op,
                         format_size(row.size), row.bytes_per_s / other->bytes_per_s, against.door, against.yardstick);
    }
    const BenchRow* one_way = find(rows, "fabtests", "one_way", row.size, row.provider);
    if (row.op == "get" && one_way != nullptr && row.p50_us && one_way->p50_us) {
      out += fmt::format("{} ({}) get {}: {:.2f}x the time of fabtests one_way\n", row.door, row.provider,
                         format_size(row.size), *row.p50_us / *one_way->p50_us);
    }
  }
  return out;
}

Rows parse_rows(const std::string& text) {
  using Json = nlohmann::json;
  std::vector<BenchRow> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto json = Json::parse(line, nullptr, false);
    const auto has = [&](const char* name, bool (Json::*is)() const noexcept) {
      return json.contains(name) && (json[name].*is)();
    };
    const bool sound = json.is_object() && has("door", &Json::is_string) && has("provider", &Json::is_string) &&
                       has("op", &Json::is_string) && has("size", &Json::is_number_unsigned) &&
                       has("concurrency", &Json::is_number_unsigned) && has("bytes_per_s", &Json::is_number);
    if (!sound) return std::unexpected("'" + line + "' is no row of verbena bench --json");
    BenchRow row{json["door"], json["provider"], json["op"], json["size"], json["concurrency"]};
    if (has("p50_us", &Json::is_number)) row.p50_us = json["p50_us"].get<double>();
    row.bytes_per_s = json["bytes_per_s"];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace verbena::yardsticks
