#include "client/endpoint.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

TEST(Endpoint, ReadsSchemeHostAndPort) {
  auto plain = parse_endpoint("http://127.0.0.1:9000");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, 9000);
  EXPECT_FALSE(plain->tls);
  auto secure = parse_endpoint("https://s3.example.com/");
  ASSERT_TRUE(secure);
  EXPECT_EQ(secure->host, "s3.example.com");
  EXPECT_EQ(secure->port, 443);
  EXPECT_TRUE(secure->tls);
}

TEST(Endpoint, ReadsIpv6InBrackets) {
  auto endpoint = parse_endpoint("http://[::1]:9000");
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->host, "::1");
  EXPECT_EQ(endpoint->port, 9000);
}

TEST(Endpoint, SaysWhatIsWrong) {
  for (const char* text :
       {"", "127.0.0.1:9000", "ftp://x", "http://", "http://host:0", "http://host:65536", "http://host:9x",
        "http://[::1", "http://ho st", "http://host:9000/path", "http://user@host"}) {
    auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, ErrorCode::invalid_argument) << text;
    EXPECT_FALSE(endpoint.error().message.empty()) << text;
  }
}

// AWS_ENDPOINT_URL with keys in it: they were in the error, and so in logs.
TEST(Endpoint, AnErrorShowsNoKeys) {
  for (const char* text : {"http://AKEY:SECRET@host", "http://AKEY:SECRET@host:9000/path", "AKEY:SECRET@host:9000",
                           "ftp://AKEY:SECRET@host", "http://AKEY:SEC@SECRET@host", "https://[AKEY:SECRET@host"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().message.find("SECRET"), std::string::npos) << endpoint.error().message;
    EXPECT_NE(endpoint.error().message.find("host"), std::string::npos) << endpoint.error().message;
  }
}

TEST(Endpoint, AHostAloneTakesTheDefaultPort) {
  auto endpoint = parse_host_port("storage", 9100);
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->host, "storage");
  EXPECT_EQ(endpoint->port, 9100);
}

}  // namespace
}  // namespace verbena::client
