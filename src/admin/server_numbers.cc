#include "admin/server_numbers.h"

#include <sys/statvfs.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/date.h"
#include "base/hex.h"
#include "base/readings.h"
#include "base/utf8.h"
#include "rdma/transport.h"

namespace verbena::admin {
namespace {

using Json = nlohmann::json;

uint64_t whole(double value) { return value <= 0 ? 0 : static_cast<uint64_t>(value); }

void add_by(Json& list, std::string_view metric, const char* what, const std::string& label) {
  for (const auto& reading : metrics::read_values(metric)) {
    if (reading.value <= 0) continue;
    const auto reason = label.empty() ? reading.labels.end() : reading.labels.find(label);
    Json one = {{"what", what}, {"count", whole(reading.value)}};
    if (reason != reading.labels.end()) one["reason"] = reason->second;
    list.push_back(std::move(one));
  }
}

}  // namespace

std::string json_text(std::string_view text) {
  if (valid_utf8(text)) return std::string(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xc0 | byte >> 6);
      out += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

double sum_of(std::string_view metric, std::string_view label, std::string_view value) {
  double sum = 0;
  for (const auto& reading : metrics::read_values(metric)) {
    const auto found = reading.labels.find(std::string(label));
    if (label.empty() || (found != reading.labels.end() && found->second == value)) sum += reading.value;
  }
  return sum;
}

Json memory_json(const memory::Arena& arena) {
  return {{"bytes", arena.mapping().size()},
          {"leased_bytes", arena.leased_bytes()},
          {"leased_bytes_max", whole(sum_of("verbena_memory_leased_bytes_max"))},
          {"waiting", whole(sum_of("verbena_memory_waiting"))},
          {"huge_pages", arena.huge_pages()}};
}

Json hot_tier_json(uint64_t capacity) {
  if (capacity == 0) return nullptr;
  return {{"capacity_bytes", capacity},
          {"bytes", whole(sum_of("verbena_cache_bytes"))},
          {"objects", whole(sum_of("verbena_cache_entries"))},
          {"hits", whole(sum_of("verbena_cache_hits_total"))},
          {"misses", whole(sum_of("verbena_cache_misses_total"))}};
}

Json disk_json(const std::filesystem::path& data) {
  struct statvfs found{};
  if (data.empty() || ::statvfs(data.c_str(), &found) != 0) return nullptr;
  const uint64_t size = found.f_blocks * found.f_frsize, free = found.f_bavail * found.f_frsize;
  return {{"path", json_text(data.string())},
          {"size_bytes", size},
          {"free_bytes", free},
          {"used_bytes", size - found.f_bfree * found.f_frsize}};
}

Json refusals_json() {
  Json list = Json::array();
  add_by(list, "verbena_token_declines_total", "requests with a token that was declined", "direction");
  add_by(list, "verbena_rdma_tokens_refused_total", "tokens that opened no window", "reason");
  add_by(list, "verbena_token_fallbacks_total", "GETs whose transfer by token failed and went on by HTTP", "");
  add_by(list, "verbena_token_failures_total", "PUTs whose transfer by token failed", "");
  add_by(list, "verbena_native_dropped_total", "native messages dropped", "reason");
  add_by(list, "verbena_native_sessions_over_limit_total", "native sessions refused for a limit", "limit");
  add_by(list, "verbena_http_connections_refused_total", "connections refused for a limit", "door");
  add_by(list, "verbena_memory_refusals_total", "requests that were given no memory", "reason");
  add_by(list, "verbena_quota_refusals_total", "requests that a quota refused", "quota");
  return list;
}

Json latencies_json() {
  using Counts = std::array<uint64_t, metrics::Histogram::buckets>;
  std::map<std::pair<std::string, std::string>, Counts> sums;
  for (const auto& found : metrics::read_histograms("verbena_request_duration_seconds")) {
    auto& counts = sums[{found.labels.at("door"), found.labels.at("verb")}];
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += found.counts[i];
  }
  Json list = Json::array();
  for (const auto& [name, counts] : sums) {
    list.push_back({{"door", name.first}, {"verb", name.second}, {"counts", counts}});
  }
  return list;
}

Json doors_json(const ServerFacts& facts, const native::NativeDoor* door) {
  std::map<std::string, uint64_t> requests;
  for (const auto& found : metrics::read_histograms("verbena_request_duration_seconds")) {
    for (const uint64_t count : found.counts) requests[found.labels.at("door")] += count;
  }
  std::map<std::pair<std::string, std::string>, uint64_t> bytes;
  for (const auto& reading : metrics::read_values("verbena_door_bytes_total")) {
    bytes[{reading.labels.at("door"), reading.labels.at("direction")}] += whole(reading.value);
  }
  Json list = Json::array();
  for (const ServerFacts::Door& one : facts.doors) {
    if (one.address.empty() || (one.name != "http" && one.name != "token")) continue;
    const std::string provider = one.providers.empty() ? "" : one.providers.front();
    list.push_back({{"door", one.name},
                    {"provider", provider},
                    {"transport", to_string(one.name == "http" ? rdma::Transport::http : rdma::transport_of(provider))},
                    {"requests", requests[one.name]},
                    {"bytes_in", bytes[{one.name, "in"}]},
                    {"bytes_out", bytes[{one.name, "out"}]}});
  }
  if (door == nullptr) return list;
  for (const auto& moved : door->moved()) {
    list.push_back({{"door", "native"},
                    {"provider", moved.provider},
                    {"transport", to_string(rdma::transport_of(moved.provider))},
                    {"requests", moved.requests},
                    {"bytes_in", moved.bytes_in},
                    {"bytes_out", moved.bytes_out}});
  }
  return list;
}

Json line_json(const call::AccessLine& line) {
  Json out = {{"time", format_iso8601(line.time_us)},
              {"door", std::string(line.door)},
              {"transport", std::string(line.transport)},
              {"status", line.status},
              {"bytes_in", line.bytes_in},
              {"bytes_out", line.bytes_out},
              {"rdma_bytes", line.rdma_bytes},
              {"duration_us", line.duration_us},
              {"wait_us", line.wait_us},
              {"disk_us", line.disk_us},
              {"wire_us", line.wire_us}};
  const auto text = [&](const char* name, std::string_view value) {
    if (!value.empty()) out[name] = json_text(value);
  };
  observe::each_text(line, text);
  text("account", observe::account_of(line.principal));
  text("error", line.error_code);
  text("id", line.request_id);
  return out;
}

}  // namespace verbena::admin
