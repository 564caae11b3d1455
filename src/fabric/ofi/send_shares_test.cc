#include "fabric/ofi/send_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::fabric::ofi {
namespace {

constexpr size_t slots = 128, client_max = 32;

// Takes what the peer is allowed to; returns how many.
size_t take_all(SendShares& shares, fi_addr_t address) {
  size_t taken = 0;
  for (const auto peer = shares.find(address); shares.may_take(*peer); ++taken) shares.take(*peer);
  return taken;
}

// Eleven sessions that did not read had all: 32, 32, 22, 15 and so on down to one each.
TEST(SendShares, SomeAreLeftForClientsThatHoldNone) {
  SendShares shares(slots, client_max);
  size_t taken = 0;
  for (fi_addr_t peer = 0; peer < 16; ++peer) {
    shares.add(peer, "client " + std::to_string(peer));
    taken += take_all(shares, peer);
  }
  EXPECT_GE(taken, slots - slots / 8) << "otherwise they are used";
  EXPECT_LT(taken, slots);
  shares.add(99, "another");
  EXPECT_TRUE(shares.may_take(*shares.find(99)));
}

TEST(SendShares, OfOneClientAreAQuarterHoweverManySessionsItHas) {
  SendShares shares(slots, client_max);
  size_t taken = 0;
  for (fi_addr_t peer = 0; peer < 100; ++peer) {
    shares.add(peer, "client");
    taken += take_all(shares, peer);
  }
  EXPECT_EQ(taken, client_max);
  shares.add(200, "another");
  EXPECT_EQ(take_all(shares, 200), client_max - client_max / 4);
}

TEST(SendShares, OfAPeerLeaveAPartToOtherPeersOfItsClient) {
  SendShares shares(slots, client_max);
  shares.add(0, "client");
  shares.add(1, "client");
  EXPECT_EQ(take_all(shares, 0), client_max - client_max / 4);
  EXPECT_TRUE(shares.may_take(*shares.find(1)));
}

TEST(SendShares, CountUntilTheyAreGivenBackAlsoIfThePeerIsRemoved) {
  SendShares shares(slots, client_max);
  shares.add(0, "client");
  shares.add(0, "client");
  const auto peer = shares.find(0);
  const size_t taken = take_all(shares, 0);
  shares.remove(0);
  EXPECT_NE(shares.find(0), nullptr) << "added twice";
  shares.remove(0);
  EXPECT_EQ(shares.find(0), nullptr);
  shares.add(0, "client");  // a new peer with its address
  shares.add(1, "client");
  EXPECT_EQ(take_all(shares, 0) + take_all(shares, 1) + taken, client_max - client_max / 4 + 2);
  for (size_t i = 0; i < taken; ++i) shares.give(*peer);
  EXPECT_EQ(shares.find(0)->client->under_way, 2u);
}

TEST(SendShares, OfALinkHaveNoLimits) {
  SendShares shares(slots, slots);
  shares.add(0, "server");
  EXPECT_EQ(take_all(shares, 0), slots);
}

}  // namespace
}  // namespace verbena::fabric::ofi
