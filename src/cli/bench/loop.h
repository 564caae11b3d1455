// The timed loop shared by all measurements, and the bytes they move.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cli/bench/bench.h"
#include "client/outcome.h"

namespace verbena::cli {

inline constexpr size_t bench_samples_max = 4u << 20;  // per caller

// Bytes that depend on the seed, without short repetitions.
void fill_pattern(std::span<std::byte> bytes, unsigned seed);

// Operations one after the other until the plan's time or count is up, or another caller has failed.
template <class Fn>
Outcome<> timed_loop(std::vector<uint32_t>& samples_ns, const BenchPlan& plan, const std::atomic<bool>& stop, Fn&& op) {
  using Clock = std::chrono::steady_clock;
  samples_ns.reserve(plan.count > 0 ? std::min<uint64_t>(plan.count, bench_samples_max) : 1u << 16);
  const auto end = Clock::now() + plan.duration;
  for (auto before = Clock::now();;) {
    OUT_TRY(op());
    const auto after = Clock::now();
    const auto took = std::chrono::nanoseconds(after - before).count();
    samples_ns.push_back(static_cast<uint32_t>(std::min<int64_t>(took, UINT32_MAX)));
    before = after;
    if (samples_ns.size() == bench_samples_max || stop) return {};
    if (plan.count > 0 ? samples_ns.size() >= plan.count : after >= end) return {};
  }
}

// unsupported: the bytes went by another door.
Outcome<> check_door(const Transfer& transfer, Via door);
// The first item of a batch that failed.
Outcome<> check_items(std::span<const BatchResult> results, std::span<const std::string> keys);

// A row of nothing measured yet.
BenchRow row_of(Via door, const std::string& op, uint64_t size, unsigned concurrency, unsigned batch = 1);
// After run_callers() of batches: rates count objects.
void count_objects(BenchRow& row);

// One caller of a measurement.
struct BenchCaller {
  std::function<Outcome<>()> op;
  std::vector<uint32_t> samples_ns = {};
  std::optional<ClientError> failure = {};
};

// Runs all callers from a common start; percentiles, rates and the server's CPU go into the row. cpu_seconds: of the
// server's process so far, or nothing.
Outcome<> run_callers(std::vector<BenchCaller>& callers, const BenchPlan& plan,
                      const std::function<std::optional<double>()>& cpu_seconds, BenchRow& row);

}  // namespace verbena::cli
