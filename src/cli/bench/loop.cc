#include "cli/bench/loop.h"

namespace verbena::cli {

void fill_pattern(std::span<std::byte> bytes, unsigned seed) {
  uint64_t state = 0x9e3779b97f4a7c15ull * (seed + 1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005ull + 1442695040888963407ull;
    bytes[i] = static_cast<std::byte>(state >> (8 * (i % 8)));
  }
}

Outcome<> check_door(const Transfer& transfer, Via door) {
  if (transfer.door == door) return {};
  return client::fault(ErrorCode::unsupported,
                       "the bytes went by " + std::string(to_string(transfer.door)) + ": " + transfer.fell_back_reason);
}

Outcome<> check_items(std::span<const BatchResult> results, std::span<const std::string> keys) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (results[i].error) {
      return client::fault(*results[i].error, keys[i] + ": " + std::string(to_string(*results[i].error)));
    }
  }
  return {};
}

BenchRow row_of(Via door, const std::string& op, uint64_t size, unsigned concurrency, unsigned batch) {
  BenchRow row;
  row.door = to_string(door);
  row.op = op;
  row.size = size;
  row.concurrency = concurrency;
  row.batch = batch;
  return row;
}

void count_objects(BenchRow& row) {
  row.ops_per_s *= row.batch;
  row.bytes_per_s *= row.batch;
  if (row.server_cpu_s_per_gb) *row.server_cpu_s_per_gb /= row.batch;
}

Outcome<> run_callers(std::vector<BenchCaller>& callers, const BenchPlan& plan,
                      const std::function<std::optional<double>()>& cpu_seconds, BenchRow& row) {
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> stop{false};
  Clock::time_point began;
  std::optional<double> cpu_before;
  const auto start_clock = [&]() noexcept {
    cpu_before = cpu_seconds();
    began = Clock::now();
  };
  std::barrier gate(static_cast<ptrdiff_t>(callers.size()), start_clock);
  const auto run = [&](BenchCaller& caller) {
    gate.arrive_and_wait();
    auto done = timed_loop(caller.samples_ns, plan, stop, caller.op);
    if (!done) {
      caller.failure = std::move(done).error();
      stop = true;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < callers.size(); ++i) threads.emplace_back([&run, &caller = callers[i]] { run(caller); });
    run(callers[0]);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const std::optional<double> cpu_after = cpu_seconds();
  std::vector<uint32_t> samples;
  for (BenchCaller& caller : callers) {
    if (caller.failure) return std::unexpected(*caller.failure);
    samples.insert(samples.end(), caller.samples_ns.begin(), caller.samples_ns.end());
  }
  summarize(row, samples, seconds);
  const double gigabytes = static_cast<double>(samples.size()) * static_cast<double>(row.size) / 1e9;
  if (cpu_before && cpu_after && gigabytes > 0) row.server_cpu_s_per_gb = (*cpu_after - *cpu_before) / gigabytes;
  return {};
}

}  // namespace verbena::cli
