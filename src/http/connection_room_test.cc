#include "http/connection_room.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::http {
namespace {

TEST(ConnectionRoom, OneAddressCannotLockOutTheOthers) {
  ConnectionRoom room({.connections_max = 10, .client_max = 4, .reserved = 0}, "test");
  std::vector<ConnectionRoom::Place> held;
  for (int i = 0; i < 4; ++i) held.push_back(room.enter("192.0.2.1"));
  EXPECT_FALSE(room.enter("192.0.2.1"));
  EXPECT_TRUE(room.enter("192.0.2.2"));
  EXPECT_EQ(room.open(), 4u);
  held.pop_back();
  EXPECT_TRUE(room.enter("192.0.2.1"));
}

TEST(ConnectionRoom, AnIpv6NetworkIsOneClient) {
  ConnectionRoom room({.connections_max = 10, .client_max = 2, .reserved = 0}, "test");
  const auto a = room.enter("2001:db8::1"), b = room.enter("2001:db8::2");
  EXPECT_TRUE(a && b);
  EXPECT_FALSE(room.enter("2001:db8::3"));
  EXPECT_TRUE(room.enter("2001:db8:0:1::3"));
}

TEST(ConnectionRoom, WhenStrangersHaveTakenAllTheHostItselfGetsIn) {
  ConnectionRoom room({.connections_max = 10, .client_max = 0, .reserved = 2}, "test");
  std::vector<ConnectionRoom::Place> held;
  for (int i = 0; i < 8; ++i) held.push_back(room.enter("192.0.2." + std::to_string(i)));
  EXPECT_FALSE(room.enter("192.0.2.9"));
  held.push_back(room.enter("127.0.0.1"));
  held.push_back(room.enter("::1"));
  EXPECT_TRUE(held[8] && held[9]);
  EXPECT_FALSE(room.enter("127.0.0.1"));
}

}  // namespace
}  // namespace verbena::http
