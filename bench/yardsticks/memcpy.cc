#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "cli/bench/loop.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {

BenchRow measure_memcpy(uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  using Clock = std::chrono::steady_clock;
  BenchRow row;
  row.door = "memcpy";
  row.provider = "memory";
  row.op = "copy";
  row.size = size;
  row.concurrency = concurrency;
  // One copy of a few KiB takes less time than reading the clock twice, so small ones are timed in batches.
  const uint64_t batch = std::max<uint64_t>(1, 256 * 1024 / size);
  std::mutex mutex;
  std::vector<uint32_t> samples;
  const std::atomic<bool> never{false};
  const auto began = Clock::now();
  const auto run = [&] {
    // From page to page: elsewhere memcpy may be slow (base/copy.h), and unfit as a yardstick.
    constexpr size_t page = 4096;
    std::vector<std::byte> sources(size + page), targets(size + page);
    const auto at_page = [&](std::vector<std::byte>& bytes) {
      return MutableBytes(bytes).subspan((page - reinterpret_cast<uintptr_t>(bytes.data()) % page) % page, size);
    };
    const MutableBytes from = at_page(sources), to = at_page(targets);
    cli::fill_pattern(from, 1);
    std::vector<uint32_t> own;
    auto done = cli::timed_loop(own, plan, never, [&]() -> Outcome<> {
      for (uint64_t i = 0; i < batch; ++i) {
        std::memcpy(to.data(), from.data(), size);
        asm volatile("" : : "r"(to.data()) : "memory");  // the copy must happen
      }
      return {};
    });
    static_cast<void>(done);
    std::lock_guard lock(mutex);
    for (const uint32_t ns : own) samples.push_back(static_cast<uint32_t>(ns / batch));
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < concurrency; ++i) threads.emplace_back(run);
    run();
  }
  cli::summarize(row, samples, std::chrono::duration<double>(Clock::now() - began).count());
  row.ops_per_s *= static_cast<double>(batch);
  row.bytes_per_s *= static_cast<double>(batch);
  return row;
}

}  // namespace verbena::yardsticks
