#include "base/listen_address.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

TEST(ListenAddress, IsAnAddressOfThisMachineAndAPort) {
  const auto is = [](const char* text, const char* host, const char* address) {
    const auto parsed = parse_listen_address(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->host, host) << text;
    EXPECT_EQ(parsed->port, 9000) << text;
    const auto opened = parse_listen_host(parsed->host);
    ASSERT_TRUE(opened) << text;
    EXPECT_EQ(opened->to_string(), address) << text;
  };
  is("10.0.0.5:9000", "10.0.0.5", "10.0.0.5");
  is("[fd00::5]:9000", "fd00::5", "fd00::5");
  is("[fe80::1%lo]:9000", "fe80::1%lo", "fe80::1%lo");
  is("*:9000", "*", "::");
  is("localhost:9000", "localhost", "127.0.0.1");
  EXPECT_EQ(parse_listen_host("[::1]")->to_string(), "::1");
}

TEST(ListenAddress, NamesAndHalvesOfAnAddressAreRefused) {
  for (const std::string& text : {std::string(),
                                  std::string(":"),
                                  std::string(":9000"),
                                  std::string("10.0.0.5"),
                                  std::string("10.0.0.5:"),
                                  std::string("10.0.0.5:00"),
                                  std::string("10.0.0.5:"),
                                  std::string("10.0.0.5:65536"),
                                  std::string("10.0.0.5:+1"),
                                  std::string("10.0.0.5: 1"),
                                  std::string("10.0.0.999:9000"),
                                  std::string("10.0.0:9000"),
                                  std::string("10.0.0.0/8:9000"),
                                  std::string("storage1:9000"),
                                  std::string("fd00::5:9000"),
                                  std::string("[10.0.0.5]:9000"),
                                  std::string("[*]:9000"),
                                  std::string("[fd00::g]:9000"),
                                  std::string("[::1]9000"),
                                  std::string("[::1"),
                                  std::string("**:9000"),
                                  std::string("10.0.0.5\0x:9000", 15),
                                  "[fe80::1%" + std::string(100, 'e') + "]:9000"}) {
    EXPECT_FALSE(parse_listen_address(text)) << text;
  }
}

TEST(ListenAddress, PortZeroIsOneThatIsFree) {
  const auto parsed = parse_listen_address("127.0.0.1:0");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->port, 0);
}

}  // namespace
}  // namespace verbena
