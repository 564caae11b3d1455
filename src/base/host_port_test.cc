#include "base/host_port.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(HostPort, NamesAndAddressesWithAndWithoutAPort) {
  const auto is = [](const char* text, const char* host, uint16_t port) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->host, host) << text;
    EXPECT_EQ(parsed->port, port) << text;
  };
  is("a", "a", 0);
  is("id.example.com:8443", "id.example.com", 8443);
  is("under_score-1:1", "under_score-1", 1);
  is("10.0.0.1:65535", "10.0.0.1", 65535);
  is("[::1]", "::1", 0);
  is("[2001:db8::1]:9000", "2001:db8::1", 9000);
  is("[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1);
}

TEST(HostPort, WhatIsNoPlaceIsRefused) {
  for (const std::string& text : {std::string(),
                                  std::string(":"),
                                  std::string(":80"),
                                  std::string("a:"),
                                  std::string("a:0"),
                                  std::string("a:65536"),
                                  std::string("a:-1"),
                                  std::string("a:+1"),
                                  std::string("a: 1"),
                                  std::string("a:1x"),
                                  std::string("a:b:1"),
                                  std::string("::1"),
                                  std::string("["),
                                  std::string("[]"),
                                  std::string("[::1"),
                                  std::string("[::1]1"),
                                  std::string("[::1]:"),
                                  std::string("[a]"),
                                  std::string("[10.0.0.1]"),
                                  std::string("[fe80::1%eth0]"),
                                  std::string("user@a:1"),
                                  std::string("a b"),
                                  std::string("a/b"),
                                  std::string("a\0b", 3),
                                  std::string("[::1\0]", 6),
                                  std::string(254, 'a'),
                                  std::string("\xc3\xa4")}) {
    EXPECT_FALSE(parse_host_port(text)) << text;
  }
  EXPECT_TRUE(parse_host_port(std::string(253, 'a')));
}

}  // namespace
}  // namespace verbena
