// The doors against the yardsticks of the same run.
#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "cli/bench.h"

namespace verbena::cli {
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

std::string bench_ratios(const std::vector<BenchRow>& rows) {
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

}  // namespace verbena::cli
