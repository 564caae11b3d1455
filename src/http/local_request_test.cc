#include "http/local_request.h"

#include <gtest/gtest.h>

#include "http/test_exchange.h"

namespace verbena::http {
namespace {

TEST(LocalRequest, OnlyNamesOfLoopbackNameIt) {
  for (const char* host : {"localhost", "LOCALHOST:9001", "localhost.", "127.0.0.1", "127.0.0.1:9001", "127.1.2.3:80",
                           "[::1]", "[::1]:9001"}) {
    EXPECT_TRUE(names_loopback(host)) << host;
  }
  for (const char* host :
       {"", ":9001", "evil.example", "evil.example:9001", "localhost.evil.example", "127.0.0.1.evil.example:9001",
        "127.0.0.1:evil.example", "127.1", "2130706433", "0.0.0.0:9001", "[::]:9001", "::1", "[::1]evil:1",
        "[::2]:9001", "192.168.0.1", "localhost:9001:9001", "localhost evil"}) {
    EXPECT_FALSE(names_loopback(host)) << host;
  }
}

bool local(const std::string& peer, s3::Headers headers) {
  FakeExchange exchange("GET", "/-/metrics", "");
  exchange.peer = peer;
  exchange.request_headers = std::move(headers);
  return is_local(exchange);
}

TEST(LocalRequest, APageFromElsewhereIsNotLocal) {
  EXPECT_TRUE(local("127.0.0.1", {{"host", "localhost:9001"}}));
  EXPECT_TRUE(local("::1", {{"host", "[::1]:9001"}}));
  EXPECT_TRUE(local("::ffff:127.0.0.1", {{"host", "127.0.0.1"}}));
  EXPECT_TRUE(local("127.0.0.1", {{"host", "localhost:9001"}, {"origin", "http://127.0.0.1:9001"}}));
  EXPECT_FALSE(local("192.0.2.7", {{"host", "localhost:9001"}}));
  EXPECT_FALSE(local("127.0.0.1", {{"host", "evil.example:9001"}}));
  EXPECT_FALSE(local("127.0.0.1", {}));
  EXPECT_FALSE(local("127.0.0.1", {{"host", "localhost"}, {"host", "evil.example"}}));
  EXPECT_FALSE(local("127.0.0.1", {{"host", "localhost"}, {"origin", "https://evil.example"}}));
  EXPECT_FALSE(local("127.0.0.1", {{"host", "localhost"}, {"origin", "null"}}));
}

}  // namespace
}  // namespace verbena::http
