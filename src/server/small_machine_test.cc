// The defaults on a machine as small as a DPU: eight cores and 16 GiB (docs/dpu.md).
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "base/metrics.h"
#include "server/server_state.h"
#include "server/session_limits.h"
#include "server/test_server.h"

namespace verbena::server {
namespace {

constexpr unsigned processors = 8;
constexpr uint64_t memory = 16 * GiB;

TEST(SmallMachine, HasACoreForEachProcessor) {
  EXPECT_EQ(core_count(Config{}, processors), processors);
  EXPECT_EQ(core_count(Config{}, 1), 1u);
  EXPECT_EQ(core_count(Config{}, 0), 1u) << "the system does not say how many";
  EXPECT_EQ(core_count(Config{}, 160), 16u);
}

TEST(SmallMachine, SessionsTakeASixteenthOfItsMemory) {
  Config::Rdma rdma;
  settle_session_limits(rdma, {.memory = memory, .files = 1 << 20, .cores = processors});
  EXPECT_GT(*rdma.sessions_max, 5'000u);
  EXPECT_LE(*rdma.sessions_max * processors * 24 * KiB, memory / 16);
}

size_t threads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// What the fabrics of eight cores keep of the arena must leave the hot tier its half, and room for transfers.
TEST(SmallMachine, EightCoresStartAndServeWithTheDefaultArena) {
  Config config;
  config.cores = core_count(Config{}, processors);
  config.arena_size = Config{}.arena_size + 1 * KiB;  // not the smaller one of other tests
  const size_t threads_before = threads();
  const TestServer test(config);
  ASSERT_TRUE(test.running());
  EXPECT_LE(threads() - threads_before, 64u);
  const int64_t leased = metrics::gauge("verbena_memory_leased_bytes", "").value();
  EXPECT_GT(leased, 0) << "of all fabrics";
  EXPECT_LT(static_cast<uint64_t>(leased), config.arena_size / 4);
}

}  // namespace
}  // namespace verbena::server
