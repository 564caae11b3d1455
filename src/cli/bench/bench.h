// `verbena bench`: the measurement plan, and one row of results.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "verbena/client.h"

namespace verbena::cli {

struct BenchDevice {
  DeviceKind kind = DeviceKind::cuda;
  int number = 0;
};

struct BenchPlan {
  std::vector<uint64_t> sizes;         // bytes
  std::vector<std::string> doors;      // http, anonymous, token, native
  std::vector<std::string> providers;  // of the native door: local, tcp, verbs
  std::vector<std::string> ops;        // get, put, head, range, ranges, get_many, head_many, put_many, ...
  std::vector<unsigned> concurrency;   // callers at once, one operation each
  std::chrono::milliseconds duration{1'000};
  uint64_t count = 0;  // operations per caller; 0: by duration
  BucketDurability durability = BucketDurability::memory;
  uint64_t object_size = 1u << 30;         // bytes of the object that range and ranges read
  unsigned batch = 256;                    // objects in a call of get_many, head_many and put_many
  unsigned keys = 1;                       // of each caller, in turn: get, put and put_md5
  std::string trace;                       // file that trace and trace_many replay
  std::optional<BenchDevice> device = {};  // GETs and PUTs of this device's memory; none: of host memory
  bool checksums = false;                  // let the client verify each GET inside the timed section
  bool sign_payload = true;                // of PUTs over HTTP
};

// Fields as in the JSON. Empty optionals are null: not measured, or unknown.
struct BenchRow {
  std::string door, provider, op;
  uint64_t size = 0;
  unsigned concurrency = 1;
  std::optional<double> p50_us, p99_us, p999_us;
  double ops_per_s = 0, bytes_per_s = 0;
  std::optional<double> server_cpu_s_per_gb;  // 10^9 bytes
  unsigned batch = 1;                         // objects in a call; the times are a call's, the rates are of objects
  std::string memory = {}, device_path = {};  // "cuda:0", and the way to it; empty: host memory
};

// The value below which `part` (0..1) of the samples lie; samples in ns are reordered. nullopt without samples.
std::optional<double> percentile_us(std::vector<uint32_t>& samples_ns, double part);
// Fills percentiles and rates from the samples of all callers.
void summarize(BenchRow& row, std::vector<uint32_t>& samples_ns, double seconds);

std::string bench_json(const BenchRow& row);
// Column headings for bench_table_line().
std::string bench_table_head();
std::string bench_table_line(const BenchRow& row);

// "4KiB,64KiB" and "1,4". The error names the item.
std::expected<std::vector<uint64_t>, std::string> parse_sizes(const std::vector<std::string>& items);
std::expected<std::vector<unsigned>, std::string> parse_counts(const std::vector<std::string>& items);
// "host" (none), "cuda" (device 0), "cuda:2", "rocm:1".
std::expected<std::optional<BenchDevice>, std::string> parse_memory(std::string_view text);
std::string to_string(const BenchDevice& device);  // "cuda:2"

}  // namespace verbena::cli
