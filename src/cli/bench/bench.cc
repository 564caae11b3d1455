#include "cli/bench/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/bytes.h"

namespace verbena::cli {
namespace {

constexpr uint64_t size_max = 5 * GiB;
constexpr unsigned concurrency_max = 256;

std::string number_or_dash(std::optional<double> value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

nlohmann::ordered_json or_null(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<double> percentile_us(std::vector<uint32_t>& samples_ns, double part) {
  if (samples_ns.empty()) return std::nullopt;
  const size_t index =
      std::min(samples_ns.size() - 1, static_cast<size_t>(part * static_cast<double>(samples_ns.size())));
  std::nth_element(samples_ns.begin(), samples_ns.begin() + static_cast<ptrdiff_t>(index), samples_ns.end());
  return static_cast<double>(samples_ns[index]) / 1e3;
}

void summarize(BenchRow& row, std::vector<uint32_t>& samples_ns, double seconds) {
  row.p50_us = percentile_us(samples_ns, 0.50);
  row.p99_us = percentile_us(samples_ns, 0.99);
  row.p999_us = percentile_us(samples_ns, 0.999);
  row.ops_per_s = seconds > 0 ? static_cast<double>(samples_ns.size()) / seconds : 0;
  row.bytes_per_s = row.ops_per_s * static_cast<double>(row.size);
}

std::string bench_json(const BenchRow& row) {
  nlohmann::ordered_json json{{"door", row.door},
                              {"provider", row.provider},
                              {"op", row.op},
                              {"size", row.size},
                              {"concurrency", row.concurrency},
                              {"p50_us", or_null(row.p50_us)},
                              {"p99_us", or_null(row.p99_us)},
                              {"p999_us", or_null(row.p999_us)},
                              {"ops_per_s", row.ops_per_s},
                              {"bytes_per_s", row.bytes_per_s},
                              {"server_cpu_s_per_gb", or_null(row.server_cpu_s_per_gb)}};
  if (row.batch != 1) json["batch"] = row.batch;
  if (!row.memory.empty()) {
    json["memory"] = row.memory;
    json["device_path"] = row.device_path;
  }
  return json.dump();
}

std::string bench_table_head() {
  return fmt::format("{:<9} {:<14} {:<9} {:>9} {:>5} {:>11} {:>11} {:>11} {:>11} {:>12} {:>15}", "door", "provider",
                     "op", "size", "conc", "p50 us", "p99 us", "p99.9 us", "ops/s", "MiB/s", "server cpu s/GB");
}

std::string bench_table_line(const BenchRow& row) {
  const std::string provider = row.device_path.empty() ? row.provider : row.provider + ", " + row.device_path;
  return fmt::format("{:<9} {:<14} {:<9} {:>9} {:>5} {:>11} {:>11} {:>11} {:>11.0f} {:>12.1f} {:>15}", row.door,
                     provider, row.op, format_size(row.size), row.concurrency, number_or_dash(row.p50_us, 2),
                     number_or_dash(row.p99_us, 2), number_or_dash(row.p999_us, 2), row.ops_per_s,
                     row.bytes_per_s / static_cast<double>(MiB), number_or_dash(row.server_cpu_s_per_gb, 3));
}

std::expected<std::vector<uint64_t>, std::string> parse_sizes(const std::vector<std::string>& items) {
  std::vector<uint64_t> out;
  for (const std::string& item : items) {
    const auto size = parse_size(item);
    if (!size || *size == 0 || *size > size_max) return std::unexpected("'" + item + "' is no size from 1 to 5 GiB");
    out.push_back(*size);
  }
  return out;
}

std::expected<std::vector<unsigned>, std::string> parse_counts(const std::vector<std::string>& items) {
  std::vector<unsigned> out;
  for (const std::string& item : items) {
    unsigned value = 0;
    auto [end, ec] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (ec != std::errc() || end != item.data() + item.size() || value == 0 || value > concurrency_max) {
      return std::unexpected("'" + item + "' is no number from 1 to 256");
    }
    out.push_back(value);
  }
  return out;
}

std::string to_string(const BenchDevice& device) {
  return (device.kind == DeviceKind::rocm ? "rocm:" : "cuda:") + std::to_string(device.number);
}

std::expected<std::optional<BenchDevice>, std::string> parse_memory(std::string_view text) {
  if (text == "host") return std::nullopt;
  const std::string_view kind = text.substr(0, text.find(':'));
  BenchDevice device{.kind = kind == "rocm" ? DeviceKind::rocm : DeviceKind::cuda};
  const std::string_view number = text.size() > kind.size() ? text.substr(kind.size() + 1) : "0";
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), device.number);
  const bool known = kind == "cuda" || kind == "rocm";
  if (known && ec == std::errc() && end == number.data() + number.size() && device.number >= 0) return device;
  return std::unexpected("'" + std::string(text) + "' is not host, cuda, cuda:N, rocm or rocm:N");
}

}  // namespace verbena::cli
