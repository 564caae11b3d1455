#include "net/url.h"

#include <gtest/gtest.h>

namespace verbena::net {
namespace {

TEST(HttpUrlTest, UrlsAreReadStrictly) {
  const auto url = parse_http_url("https://idp.example.org:8443/a/b?c=d");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "idp.example.org");
  EXPECT_EQ(url->port, 8443);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(parse_http_url("https://h")->port, 443);
  EXPECT_EQ(parse_http_url("http://h")->port, 80);
  EXPECT_FALSE(parse_http_url("http://h")->tls);
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(parse_http_url("https://idp.example.org")->target, "/");
  EXPECT_EQ(parse_http_url("https://idp.example.org?a")->target, "/?a");
  EXPECT_EQ(parse_http_url("https://[2001:db8::1]:1/")->host, "2001:db8::1");
  for (const char* bad : {"",
                          "https://",
                          "http://",
                          "ftp://idp.example.org/",
                          "HTTPS://idp.example.org",
                          "https:///a",
                          "https://user@idp.example.org/",
                          "https://user:pass@idp.example.org/",
                          "https://idp.example.org:0/",
                          "https://idp.example.org:65536/",
                          "https://idp.example.org:/",
                          "https://idp.example.org:8443x/",
                          "https://idp.example.org/a b",
                          "https://idp.example.org/\r\nHost: other",
                          "https://idp.example.org/#a",
                          "https://idp example.org/",
                          "https://[::1/",
                          "https://[localhost]/",
                          "https://[::1]x/",
                          "https://[127.0.0.1]/",
                          "https://idp.example.org\\@other/",
                          "https://idp\xc3\xa4.example.org/",
                          "file:///etc/passwd"}) {
    EXPECT_FALSE(parse_http_url(bad)) << bad;
  }
  EXPECT_FALSE(parse_http_url("https://idp.example.org/" + std::string(3000, 'a')));
}

}  // namespace
}  // namespace verbena::net
