#include "server/session_limits.h"

#include <gtest/gtest.h>

namespace verbena::server {
namespace {

Config::Rdma settled(const SessionRoom& room, Config::Rdma rdma = {}) {
  settle_session_limits(rdma, room);
  return rdma;
}

TEST(SessionLimits, GrowWithTheMachineAndShrinkWithItsCores) {
  const uint64_t two = *settled({.memory = 24 * GiB, .files = 1 << 20, .cores = 2}).sessions_max;
  EXPECT_GT(two, 20'000u);
  EXPECT_LT(two * 2 * 24 * KiB, 2 * GiB);
  const uint64_t sixteen = *settled({.memory = 24 * GiB, .files = 1 << 20, .cores = 16}).sessions_max;
  EXPECT_EQ(sixteen, two / 8);
  EXPECT_GT(*settled({.memory = 256 * GiB, .files = 1 << 20, .cores = 16}).sessions_max, sixteen);
}

TEST(SessionLimits, LeaveMostOpenFilesToOthers) {
  EXPECT_EQ(*settled({.memory = 24 * GiB, .files = 4096, .cores = 2}).sessions_max, 512u);
  EXPECT_EQ(*settled({.memory = 24 * GiB, .files = 64, .cores = 2}).sessions_max, 16u);
}

TEST(SessionLimits, NobodyTakesAllOfThem) {
  const auto limits = settled({.memory = 24 * GiB, .files = 1 << 20, .cores = 2});
  EXPECT_EQ(*limits.sessions_per_account_max, (*limits.sessions_max + 1) / 2);
  EXPECT_EQ(*limits.sessions_per_client_max, (*limits.sessions_max + 1) / 2);
}

TEST(SessionLimits, AreWhatTheConfigurationSays) {
  Config::Rdma rdma;
  rdma.sessions_max = 100;
  rdma.sessions_per_account_max = 0;
  rdma.sessions_per_client_max = 7;
  rdma = settled({.memory = GiB, .files = 1024, .cores = 64}, rdma);
  EXPECT_EQ(*rdma.sessions_max, 100u);
  EXPECT_EQ(*rdma.sessions_per_account_max, 0u);
  EXPECT_EQ(*rdma.sessions_per_client_max, 7u);
}

}  // namespace
}  // namespace verbena::server
