// perftest (linux-rdma's own benchmarks of verbs) as a yardstick: the device without any object library.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/child.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {

using cli::Child;

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds perftest_within{60};
constexpr int perftest_tries = 20;

struct Test {
  const char* program;
  const char* op;
  bool latency;
};
constexpr Test tests[] = {
    {"ib_write_bw", "rdma_write", false}, {"ib_read_bw", "rdma_read", false}, {"ib_write_lat", "write_lat", true}};

// The device and GID index that have this IPv4 address: "rxe0", "1".
std::optional<std::pair<std::string, std::string>> device_of(const std::string& address) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (std::sscanf(address.c_str(), "%u.%u.%u.%u", &a, &b, &c, &d) != 4) return std::nullopt;
  const std::string gid = fmt::format("0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}", a, b, c, d);
  std::error_code ec;
  for (fs::directory_iterator device("/sys/class/infiniband", ec), end; !ec && device != end; device.increment(ec)) {
    const fs::path gids = device->path() / "ports/1/gids";
    for (unsigned index = 0; index < 16; ++index) {
      std::ifstream file(gids / std::to_string(index));
      std::string line;
      if (std::getline(file, line) && line == gid)
        return std::pair(device->path().filename().string(), std::to_string(index));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<BenchRow> parse_perftest(const std::string& output, uint64_t size, bool latency) {
  // bandwidth: bytes iterations peak[MB/s] average[MB/s] Mpps (MB is 2^20)
  // latency:   bytes iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%   (usec)
  std::optional<BenchRow> row;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint64_t bytes = 0, iterations = 0;
    double at[5] = {};
    if (!(words >> bytes >> iterations >> at[0] >> at[1] >> at[2]) || bytes != size) continue;
    BenchRow found;
    found.size = size;
    if (latency) {
      found.p50_us = at[2];
      found.ops_per_s = at[2] > 0 ? 1e6 / at[2] : 0;
      found.bytes_per_s = found.ops_per_s * static_cast<double>(size);
    } else {
      found.bytes_per_s = at[1] * (1 << 20);
      found.ops_per_s = found.bytes_per_s / static_cast<double>(size);
      found.p50_us = found.ops_per_s > 0 ? std::optional(1e6 / found.ops_per_s) : std::nullopt;
    }
    row = found;
  }
  return row;
}

Rows measure_perftest(const std::string& address, uint64_t size) {
  const auto device = device_of(address);
  if (!device) return std::unexpected(address + " is the address of no RDMA device");
  std::vector<BenchRow> rows;
  for (const Test& test : tests) {
    const std::string program = std::string("/usr/bin/") + test.program;
    if (::access(program.c_str(), X_OK) != 0)
      return std::unexpected(program + " is not there: apt-get install perftest");
    const std::string iterations = std::to_string(std::clamp<uint64_t>((16u << 20) / size, 5, 500));
    const std::vector<std::string> server = {program, "-d", device->first,        "-x", device->second,
                                             "-F",    "-s", std::to_string(size), "-n", iterations};
    std::vector<std::string> client = server;
    client.push_back(address);
    auto serving = Child::start(server, {});
    if (!serving) return std::unexpected(serving.error());
    std::optional<BenchRow> row;
    // The server prints nothing when it listens.
    for (int i = 0; i < perftest_tries && !row; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      auto asking = Child::start(client, {});
      if (!asking) return std::unexpected(asking.error());
      (*asking)->read_until([](const std::string&) { return false; }, perftest_within);
      row = parse_perftest((*asking)->output(), size, test.latency);
    }
    if (!row) return std::unexpected(program + " printed no figures");
    row->door = "perftest";
    row->provider = device->first;
    row->op = test.op;
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace verbena::yardsticks
