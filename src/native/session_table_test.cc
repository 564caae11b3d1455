#include "native/session_table.h"

#include <gtest/gtest.h>

#include "native/lane.h"

namespace verbena::native {
namespace {

using std::chrono::seconds;

std::shared_ptr<Session> add(SessionTable& table) {
  auto session = std::make_shared<Session>();
  EXPECT_TRUE(table.add(session, {}, {}, "secret"));
  return session;
}

TEST(SessionTable, FindsWhatWasAddedUntilItEnds) {
  SessionTable table({.sessions_max = 10, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  auto session = add(table);
  EXPECT_EQ(table.find(session->id), session);
  EXPECT_EQ(table.find(session->id + 1), nullptr);
  table.end(session->id);
  EXPECT_TRUE(session->ended);
  EXPECT_EQ(table.find(session->id), nullptr);
  table.end(session->id);
  EXPECT_EQ(table.size(), 0u);
}

TEST(SessionTable, IsBounded) {
  SessionTable table({.sessions_max = 2, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  auto a = add(table), b = add(table);
  auto refused = table.add(std::make_shared<Session>(), {}, {}, "secret");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::slow_down);
  table.end(a->id);
  add(table);
  EXPECT_EQ(table.size(), 2u);
}

TEST(SessionTable, ForgetsTheIdleAndTheNeverUsed) {
  SessionTable table({.sessions_max = 10, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  const auto now = SteadyClock::now();
  auto used = add(table), unused = add(table);
  used->claimed = true;
  EXPECT_EQ(table.sweep(now), 0u);
  EXPECT_EQ(table.sweep(now + seconds(2)), 1u);
  EXPECT_TRUE(unused->ended);
  EXPECT_FALSE(used->ended);
  EXPECT_EQ(table.sweep(now + seconds(11)), 1u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(NonceMemory, RemembersForAsLongAsASignatureIsGood) {
  NonceMemory memory;
  const auto now = SteadyClock::now();
  wire::Nonce nonce{};
  EXPECT_TRUE(memory.fresh(nonce, now));
  EXPECT_FALSE(memory.fresh(nonce, now + std::chrono::minutes(30)));
  EXPECT_TRUE(memory.fresh(nonce, now + std::chrono::minutes(32)));
}

TEST(LaneMap, FindsEachOfManyAndForgetsTheDropped) {
  LaneMap lanes;
  EXPECT_EQ(lanes.find(1), nullptr);
  for (uint64_t id = 1; id <= 1000; ++id) {
    auto lane = std::make_shared<Lane>();
    lane->session = std::make_shared<Session>();
    lane->session->id = id * 0x10000;  // all in one neighbourhood
    lanes.add(lane);
  }
  EXPECT_EQ(lanes.size(), 1000u);
  for (uint64_t id = 1; id <= 1000; ++id) ASSERT_EQ(lanes.find(id * 0x10000)->session->id, id * 0x10000);
  lanes.keep_if([](const Lane& lane) { return lane.session->id > 500 * 0x10000; });
  EXPECT_EQ(lanes.size(), 500u);
  EXPECT_EQ(lanes.find(0x10000), nullptr);
  EXPECT_NE(lanes.find(501 * 0x10000), nullptr);
  EXPECT_EQ(lanes.find(77), nullptr);
}

}  // namespace
}  // namespace verbena::native
