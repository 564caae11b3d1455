#include "base/client_counts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace verbena {
namespace {

TEST(ClientOf, AnIpv6ClientIsItsSlash64) {
  EXPECT_EQ(client_of("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(client_of("2001:db8:1:2:aaaa::1"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_of("2001:db8:1:2:bbbb::2"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_of("2001:db8:1:3::1"), "2001:db8:1:3::/64");
  EXPECT_EQ(client_of("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(client_of("::1"), "::1");
}

TEST(ClientOf, NeighboursOnALinkCountAlone) {
  EXPECT_EQ(client_of("fe80::1%eth0"), "fe80::1");
  EXPECT_NE(client_of("fe80::1"), client_of("fe80::2"));
}

TEST(ClientOf, WhatIsNoAddressStandsForItself) {
  EXPECT_EQ(client_of("alice"), "alice");
  EXPECT_EQ(client_of(""), "");
  EXPECT_EQ(client_of(std::string("a\0b", 3)), std::string("a\0b", 3));
}

TEST(ClientOf, ASocketAddressIsAsItsText) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  ASSERT_EQ(::inet_pton(AF_INET6, "2001:db8::5", &v6.sin6_addr), 1);
  EXPECT_EQ(client_of(reinterpret_cast<const sockaddr&>(v6)), client_of("2001:db8::6"));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  ASSERT_EQ(::inet_pton(AF_INET, "192.0.2.7", &v4.sin_addr), 1);
  EXPECT_EQ(client_of(reinterpret_cast<const sockaddr&>(v4)), "192.0.2.7");
}

TEST(ClientOf, LoopbackIsKnown) {
  EXPECT_TRUE(is_loopback_client(client_of("127.0.0.1")));
  EXPECT_TRUE(is_loopback_client(client_of("127.9.9.9")));
  EXPECT_TRUE(is_loopback_client(client_of("::ffff:127.0.0.1")));
  EXPECT_TRUE(is_loopback_client(client_of("::1")));
  EXPECT_FALSE(is_loopback_client(client_of("128.0.0.1")));
  EXPECT_FALSE(is_loopback_client(client_of("::2")));
  EXPECT_FALSE(is_loopback_client("127"));
}

TEST(ClientCounts, OneClientCannotTakeWhatIsThereForAll) {
  ClientCounts counts({.each_max = 2, .clients_max = 0});
  auto first = counts.try_hold("a"), second = counts.try_hold("a");
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(counts.try_hold("a"));
  EXPECT_TRUE(counts.try_hold("b"));
  first.reset();
  EXPECT_TRUE(counts.try_hold("a"));
}

TEST(ClientCounts, TheTableForgetsWhoHoldsNothingAndIsBounded) {
  ClientCounts counts({.each_max = 0, .clients_max = 2});
  std::vector<ClientCounts::Hold> held{counts.try_hold("a"), counts.try_hold("b")};
  EXPECT_FALSE(counts.try_hold("c"));
  EXPECT_TRUE(counts.try_hold("a"));  // known already
  EXPECT_EQ(counts.clients(), 2u);
  held.clear();
  EXPECT_EQ(counts.clients(), 0u);
  EXPECT_EQ(counts.count("a"), 0u);
  EXPECT_TRUE(counts.try_hold("c"));
}

TEST(ClientCounts, AHoldMayOutliveTheTable) {
  ClientCounts::Hold hold;
  {
    ClientCounts counts({.each_max = 1, .clients_max = 1});
    hold = counts.try_hold("a");
  }
  hold.reset();
}

TEST(ClientCounts, ThreadsNeverGetMoreThanTheLimit) {
  ClientCounts counts({.each_max = 3, .clients_max = 8});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counts] {
      for (int i = 0; i < 5000; ++i) {
        const auto hold = counts.try_hold("a");
        EXPECT_LE(counts.count("a"), 3u);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(counts.clients(), 0u);
}

}  // namespace
}  // namespace verbena
