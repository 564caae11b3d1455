#include "cli/bench_runner.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/checksum.h"
#include "cli/bench_loop.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int warm_up_ops = 10;

struct Caller {
  std::string key;
  Buffer buffer;
  uint32_t crc = 0;
};

Outcome<> check_door(const Transfer& transfer, Via door) {
  if (transfer.door == door) return {};
  return fault(ErrorCode::unsupported,
               "the bytes went by " + std::string(to_string(transfer.door)) + ": " + transfer.fell_back_reason);
}

Outcome<> one_op(const Client& client, const std::string& bucket, const Caller& caller, bool get, Via door) {
  if (get) {
    OUT_ASSIGN(const auto got, client.get(bucket, caller.key, caller.buffer));
    if (got.bytes != caller.buffer.size()) return fault(ErrorCode::malformed_reply, "a GET came back short");
    return check_door(got.transfer, door);
  }
  OUT_ASSIGN(const auto put, client.put(bucket, caller.key, caller.buffer));
  return check_door(put.transfer, door);
}

// A GET into wiped memory must bring back what was put.
Outcome<> verify(const Client& client, const std::string& bucket, const Caller& caller) {
  std::memset(caller.buffer.data(), 0, caller.buffer.size());
  OUT_TRY(client.get(bucket, caller.key, caller.buffer));
  if (crc32c(caller.buffer.bytes()) != caller.crc) {
    return fault(ErrorCode::checksum_mismatch, caller.key + ": the bytes are not those that were put");
  }
  return {};
}

Outcome<> prepare(const Client& client, const std::string& bucket, Caller& caller, unsigned index, uint64_t size,
                  bool get, Via door) {
  caller.key = "bench/" + std::to_string(size) + "/" + std::to_string(index);
  OUT_ASSIGN(caller.buffer, client.allocate(size));
  fill_pattern(caller.buffer.bytes(), index);
  caller.crc = crc32c(caller.buffer.bytes());
  OUT_TRY(client.put(bucket, caller.key, caller.buffer));
  OUT_TRY(verify(client, bucket, caller));
  for (int i = 0; i < warm_up_ops; ++i) OUT_TRY(one_op(client, bucket, caller, get, door));
  return {};
}

}  // namespace

Outcome<BenchRow> measure(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                          const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  const bool get = op == "get";
  std::vector<Caller> callers(concurrency);
  for (unsigned i = 0; i < concurrency; ++i) OUT_TRY(prepare(client, bucket, callers[i], i, size, get, door));

  BenchRow row;
  row.door = to_string(door);
  row.op = op;
  row.size = size;
  row.concurrency = concurrency;
  std::vector<BenchCaller> running;
  for (const Caller& caller : callers) {
    running.push_back({.op = [&] { return one_op(client, bucket, caller, get, door); }});
  }
  OUT_TRY(run_callers(running, plan, [&] { return server.cpu_seconds(); }, row));
  for (const Caller& caller : callers) {
    OUT_TRY(verify(client, bucket, caller));
    OUT_TRY(client.remove(bucket, caller.key));
  }
  return row;
}

BenchRow measure_memcpy(uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  BenchRow row;
  row.door = "memcpy";
  row.provider = "memory";
  row.op = "copy";
  row.size = size;
  row.concurrency = concurrency;
  std::mutex mutex;
  std::vector<uint32_t> samples;
  const std::atomic<bool> never{false};
  const auto began = Clock::now();
  const auto run = [&] {
    std::vector<std::byte> from(size), to(size);
    fill_pattern(from, 1);
    std::vector<uint32_t> own;
    // One copy of a few KiB is shorter than two readings of the clock, so small ones are timed by the batch.
    const uint64_t batch = std::max<uint64_t>(1, 256 * 1024 / size);
    auto done = timed_loop(own, plan, never, [&]() -> Outcome<> {
      for (uint64_t i = 0; i < batch; ++i) {
        std::memcpy(to.data(), from.data(), size);
        asm volatile("" : : "r"(to.data()) : "memory");  // the copy must happen
      }
      return {};
    });
    static_cast<void>(done);
    std::lock_guard lock(mutex);
    for (uint32_t ns : own) samples.push_back(static_cast<uint32_t>(ns / batch));
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < concurrency; ++i) threads.emplace_back(run);
    run();
  }
  const uint64_t batch = std::max<uint64_t>(1, 256 * 1024 / size);
  summarize(row, samples, std::chrono::duration<double>(Clock::now() - began).count());
  row.ops_per_s *= static_cast<double>(batch);
  row.bytes_per_s *= static_cast<double>(batch);
  return row;
}

}  // namespace verbena::cli
