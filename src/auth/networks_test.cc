#include "auth/networks.h"

#include <gtest/gtest.h>

namespace verbena::auth {
namespace {

TEST(NetworksTest, OnlyPublicAddressesAreAllowedUnlessTheOwnerSaysSo) {
  const Networks none;
  for (const char* address :
       {"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "223.255.255.255"}) {
    EXPECT_TRUE(none.allow(address)) << address;
  }
  for (const char* address : {"127.0.0.1",
                              "10.1.2.3",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.1.1",
                              "169.254.169.254",
                              "100.64.0.1",
                              "0.0.0.0",
                              "224.0.0.1",
                              "255.255.255.255",
                              "240.0.0.1",
                              "192.0.2.1",
                              "198.18.0.1",
                              "::1",
                              "::",
                              "fe80::1",
                              "fc00::1",
                              "fd12::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "64:ff9b::a00:1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "2001::1",
                              "fe80::1%eth0",
                              "localhost",
                              "",
                              "1.2.3"}) {
    EXPECT_FALSE(none.allow(address)) << address;
  }
  const auto some = Networks::parse({"10.0.0.0/8", "::1"});
  ASSERT_TRUE(some);
  EXPECT_TRUE(some->allow("10.1.2.3") && some->allow("::1") && some->allow("::ffff:10.1.2.3") &&
              some->allow("8.8.8.8"));
  EXPECT_FALSE(some->allow("127.0.0.1") || some->allow("192.168.0.1"));
  EXPECT_FALSE(Networks::parse({"10.0.0.0/33"}));
  EXPECT_FALSE(Networks::parse({"home"}));
}

TEST(NetworksTest, WhatIsWrappedIsWhatItIsByItself) {
  const Networks none;
  for (const char* address : {"::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"})
    EXPECT_TRUE(none.allow(address)) << address;
  for (const char* address : {"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1", "64:ff9b:1::808:808"}) {
    EXPECT_FALSE(none.allow(address)) << address;
  }
}

}  // namespace
}  // namespace verbena::auth
