// MD5 of one body after the other (OpenSSL), and of many side by side (base/md5.h), by one core.
#include "base/md5.h"

#include "base/bytes.h"
#include "base/checksum.h"
#include "cli/bench/loop.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {
namespace {

using Clock = std::chrono::steady_clock;

// Bytes as a server has them: separate memory for each body, so that the caches are used as much.
std::vector<std::vector<std::byte>> bodies_of(uint64_t size, unsigned count) {
  std::vector<std::vector<std::byte>> bodies(count, std::vector<std::byte>(size));
  for (unsigned i = 0; i < count; ++i) cli::fill_pattern(bodies[i], i + 1);
  return bodies;
}

BenchRow timed(const char* op, uint64_t size, unsigned bodies, const BenchPlan& plan,
               const std::function<void()>& digest_all) {
  BenchRow row;
  row.door = "md5";
  row.provider = "memory";
  row.op = op;
  row.size = size;
  row.concurrency = bodies;
  std::vector<uint32_t> samples;
  const std::atomic<bool> never{false};
  const auto began = Clock::now();
  static_cast<void>(cli::timed_loop(samples, plan, never, [&]() -> Outcome<> {
    digest_all();
    return {};
  }));
  cli::summarize(row, samples, std::chrono::duration<double>(Clock::now() - began).count());
  row.ops_per_s *= bodies;
  row.bytes_per_s *= bodies;
  return row;
}

}  // namespace

BenchRow measure_md5_of_one(uint64_t size, const BenchPlan& plan) {
  const auto body = bodies_of(size, 1).front();
  return timed("one_body", size, 1, plan, [&] {
    Digest digest(Algorithm::md5);
    digest.update(body);
    static_cast<void>(digest.finish());
  });
}

BenchRow measure_md5_side_by_side(uint64_t size, unsigned count, const BenchPlan& plan) {
  const auto bodies = bodies_of(size, count);
  return timed("side_by_side", size, count, plan, [&] {
    std::vector<Md5> digests(count);
    std::vector<Md5::More> list;
    for (unsigned i = 0; i < count; ++i) list.push_back({&digests[i], bodies[i]});
    Md5::update_all(list);
    for (Md5& digest : digests) static_cast<void>(digest.finish());
  });
}

}  // namespace verbena::yardsticks
