#include "admin/console.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "http/test_exchange.h"

namespace verbena::admin {
namespace {

std::string_view answer_header(const s3::Response& response, std::string_view wanted) {
  for (const auto& [name, value] : response.headers) {
    if (name == wanted) return value;
  }
  return {};
}

class ConsoleTest : public testing::Test {
 protected:
  s3::Response ask(const std::string& method, const std::string& path, s3::Headers headers = {}) {
    const auto otherwise = [this](http::Exchange& exchange) { return answer_otherwise(others_, exchange); };
    const auto handler = console_.handler("/console", otherwise);
    http::FakeExchange exchange(method, path, "");
    exchange.request_headers = std::move(headers);
    if (exchange.request_headers.empty()) exchange.request_headers = {{"host", "server:9001"}};
    boost::asio::io_context loop;
    boost::asio::co_spawn(loop, http::serve_whole(handler, exchange), boost::asio::detached);
    loop.run();
    return exchange.response;
  }
  static Task<void> answer_otherwise(std::vector<std::string>& others, http::Exchange& exchange) {
    others.emplace_back(exchange.path());
    s3::Response response;
    response.headers.emplace_back("content-security-policy", "script-src *");  // an object must not choose
    (void)co_await exchange.reply(response);
  }

  Console console_{"s3.example.org"};
  std::vector<std::string> others_;
};

TEST_F(ConsoleTest, FilesAreServedPackedAndUnderThePolicy) {
  for (const char* name : {"", "console.js", "console.css", "mark.svg"}) {
    const auto response =
        ask("GET", std::string("/-/console/") + name, {{"host", "server"}, {"accept-encoding", "br, gzip"}});
    EXPECT_EQ(response.status, 200) << name;
    EXPECT_TRUE(response.body.starts_with("\x1f\x8b")) << name;
    EXPECT_EQ(answer_header(response, "content-encoding"), "gzip");
    EXPECT_EQ(answer_header(response, "vary"), "accept-encoding");
    EXPECT_TRUE(answer_header(response, "content-security-policy").starts_with("default-src 'none'; "));
  }
  EXPECT_TRUE(others_.empty());
}

TEST_F(ConsoleTest, ThePageMayAskTheProviderByWhichPeopleSignInAndNobodyElse) {
  EXPECT_EQ(ask("GET", "/-/console/sign-in.json").body,
            R"({"client":"","directory":false,"directory_role":false,"issuer":"","role":""})");
  EXPECT_NE(answer_header(ask("GET", "/-/console/"), "content-security-policy").find("connect-src 'self';"),
            std::string_view::npos);
  const Console with("", {.issuer = "https://id.example.com:8443/realm",
                          .client = "console",
                          .role = "r",
                          .directory = true,
                          .directory_role = true});
  const auto handler = with.handler("/console", [this](http::Exchange& e) { return answer_otherwise(others_, e); });
  http::FakeExchange exchange("GET", "/-/console/sign-in.json", "");
  exchange.request_headers = {{"host", "server:9001"}};
  boost::asio::io_context loop;
  boost::asio::co_spawn(loop, http::serve_whole(handler, exchange), boost::asio::detached);
  loop.run();
  EXPECT_EQ(exchange.response.body, R"({"client":"console","directory":true,"directory_role":true,)"
                                    R"("issuer":"https://id.example.com:8443/realm","role":"r"})");
  EXPECT_NE(answer_header(exchange.response, "content-security-policy")
                .find("connect-src 'self' https://id.example.com:8443; base-uri 'none'"),
            std::string_view::npos);
}

// "curl http://HOST:9001/-/console/" showed gzip's bytes.
TEST_F(ConsoleTest, AFileGoesAsItIsToClientsThatDoNotAskForGzip) {
  for (const s3::Headers& headers : {s3::Headers{}, s3::Headers{{"host", "server"}, {"accept-encoding", "gzip;q=0"}}}) {
    const auto response = ask("GET", "/-/console/mark.svg", headers);
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.body.find("<svg"), std::string::npos);
    EXPECT_EQ(answer_header(response, "content-encoding"), "");
    EXPECT_EQ(answer_header(response, "vary"), "accept-encoding");
    EXPECT_TRUE(answer_header(response, "content-security-policy").starts_with("default-src 'none'; "));
  }
  const std::pair<std::string, std::string> host{"host", "server"}, gzip{"accept-encoding", "gzip"};
  const std::string plain(answer_header(ask("GET", "/-/console/mark.svg"), "etag"));
  const std::string packed(answer_header(ask("GET", "/-/console/mark.svg", {host, gzip}), "etag"));
  EXPECT_NE(plain, packed) << "other bytes";
  EXPECT_EQ(ask("GET", "/-/console/mark.svg", {host, {"if-none-match", plain}}).status, 304);
  EXPECT_EQ(ask("GET", "/-/console/mark.svg", {host, gzip, {"if-none-match", plain}}).status, 200);
  EXPECT_EQ(ask("GET", "/-/console/mark.svg", {host, gzip, {"if-none-match", packed}}).status, 304);
}

TEST_F(ConsoleTest, WhatTheBrowserHasIsNotSentAgain) {
  const std::string etag(answer_header(ask("GET", "/-/console/console.js"), "etag"));
  const auto same = ask("GET", "/-/console/console.js", {{"host", "server"}, {"if-none-match", "\"x\", W/" + etag}});
  EXPECT_EQ(same.status, 304);
  EXPECT_TRUE(same.body.empty());
}

TEST_F(ConsoleTest, BrowsersAreSentToThePageAndClientsOfS3AreNot) {
  const std::pair<std::string, std::string> host{"host", "server"}, page{"accept", "text/html,*/*"};
  EXPECT_EQ(ask("GET", "/console", {host, page}).status, 307);
  EXPECT_EQ(ask("GET", "/-/console", {host, page}).status, 307);
  EXPECT_TRUE(others_.empty());
  ask("GET", "/console", {host, page, {"authorization", "AWS4-HMAC-SHA256 ..."}});
  ask("GET", "/console", {host});
  ask("PUT", "/console", {host, page});
  ask("GET", "/console/key", {host, page});
  EXPECT_EQ(others_.size(), 4u);
}

TEST_F(ConsoleTest, InAVirtualHostThePathIsAKey) {
  for (const char* host : {"photos.s3.example.org:9000", "Photos.S3.example.org.", "photos.s3.example.org.:9000"}) {
    others_.clear();
    ask("GET", "/-/console/console.js", {{"host", host}});
    EXPECT_EQ(others_, std::vector<std::string>{"/-/console/console.js"}) << host;
  }
  others_.clear();
  EXPECT_EQ(ask("GET", "/-/console/console.js", {{"host", "[::1]"}}).status, 200);
  EXPECT_TRUE(others_.empty());
}

TEST_F(ConsoleTest, WhatIsBesideThePageRunsNothing) {
  const auto response = ask("GET", "/bucket/page.html");
  size_t policies = 0;
  for (const auto& [name, value] : response.headers) policies += name == "content-security-policy";
  EXPECT_EQ(policies, 1u);
  EXPECT_EQ(answer_header(response, "content-security-policy"), "sandbox; default-src 'none'");
  EXPECT_EQ(answer_header(response, "x-content-type-options"), "nosniff");
}

TEST_F(ConsoleTest, OtherNamesAreNotThere) {
  EXPECT_EQ(ask("GET", "/-/console/nothing").status, 404);
  EXPECT_EQ(ask("GET", "/-/console/../pages.h").status, 404);
  EXPECT_TRUE(others_.empty());
}

}  // namespace
}  // namespace verbena::admin
