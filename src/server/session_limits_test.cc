#include "server/session_limits.h"

#include <gtest/gtest.h>

namespace verbena::server {
namespace {

TEST(SessionLimits, GrowWithTheMachineAndShrinkWithItsCores) {
  const auto two = session_limits({}, {.memory = 24 * GiB, .files = 1 << 20, .cores = 2});
  EXPECT_GT(two.sessions_max, 20'000u);
  EXPECT_LT(two.sessions_max * 2 * 24 * KiB, 2 * GiB);
  const auto sixteen = session_limits({}, {.memory = 24 * GiB, .files = 1 << 20, .cores = 16});
  EXPECT_EQ(sixteen.sessions_max, two.sessions_max / 8);
  const auto large = session_limits({}, {.memory = 256 * GiB, .files = 1 << 20, .cores = 16});
  EXPECT_GT(large.sessions_max, sixteen.sessions_max);
}

TEST(SessionLimits, LeaveMostOpenFilesToOthers) {
  const auto few = session_limits({}, {.memory = 24 * GiB, .files = 4096, .cores = 2});
  EXPECT_EQ(few.sessions_max, 256u);
  EXPECT_EQ(session_limits({}, {.memory = 24 * GiB, .files = 64, .cores = 2}).sessions_max, 64u);
}

TEST(SessionLimits, NobodyTakesAllOfThem) {
  const auto limits = session_limits({}, {.memory = 24 * GiB, .files = 1 << 20, .cores = 2});
  EXPECT_LT(limits.account_max + limits.reserved, limits.sessions_max);
  EXPECT_LT(limits.client_max + limits.reserved, limits.sessions_max);
  EXPECT_GT(limits.reserved, 0u);
}

TEST(SessionLimits, AreWhatTheConfigurationSays) {
  Config::Rdma rdma;
  rdma.sessions_max = 100;
  rdma.sessions_per_account_max = 0;
  rdma.sessions_per_client_max = 7;
  const auto limits = session_limits(rdma, {.memory = GiB, .files = 1024, .cores = 64});
  EXPECT_EQ(limits.sessions_max, 100u);
  EXPECT_EQ(limits.account_max, 0u);
  EXPECT_EQ(limits.client_max, 7u);
}

}  // namespace
}  // namespace verbena::server
