#include "admin/pages.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "admin/sandboxed.h"
#include "base/checksum.h"
#include "base/metrics.h"
#include "http/test_exchange.h"

namespace verbena::admin {
namespace {

class PagesTest : public testing::Test {
 protected:
  // The answer of `handler` to `method path` from `peer`.
  s3::Response ask(const http::Handler& handler, const std::string& method, const std::string& path,
                   const std::string& peer = "127.0.0.1") {
    http::FakeExchange exchange(method, path, "");
    exchange.peer = peer;
    exchange.request_headers = {{"host", host_}};
    if (!accept_.empty()) exchange.request_headers.emplace_back("accept", accept_);
    if (signer_) {
      auth::sign(*signer_, "us-east-1", "s3", system_clock(), method, path, "", to_hex(as_bytes(sha256(as_bytes("")))),
                 exchange.request_headers);
    }
    boost::asio::io_context loop;
    boost::asio::co_spawn(loop, http::serve_whole(handler, exchange), boost::asio::detached);
    loop.run();
    return exchange.response;
  }

  const auth::Credentials root_{.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
  auth::RootCredentials credentials_{root_};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  std::atomic<bool> stopping_{false};
  Pages pages_{verifier_, stopping_};
  std::optional<auth::Credentials> signer_;
  std::string accept_, host_ = "localhost:9001";
};

TEST_F(PagesTest, HealthIsOpenAndSaysWhenTheServerStops) {
  const auto handler = pages_.handler();
  const auto healthy = ask(handler, "GET", "/-/health", "192.0.2.7");
  EXPECT_EQ(healthy.status, 200);
  EXPECT_EQ(healthy.body, "ok\n");
  EXPECT_TRUE(ask(handler, "HEAD", "/-/health").no_body);
  stopping_ = true;
  EXPECT_EQ(ask(handler, "GET", "/-/health").status, 503);
}

TEST_F(PagesTest, MetricsAreOpenOnLoopbackAndForTheSuperuserAlone) {
  metrics::counter("verbena_pages_test_total", "A metric that is there").add();
  const auto handler = pages_.handler();
  EXPECT_NE(ask(handler, "GET", "/-/metrics").body.find("verbena_pages_test_total"), std::string::npos);
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 403);
  signer_ = auth::Credentials{.access_key = "AKROOT", .secret_key = "wrong", .session_token = {}};
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 403);
  signer_ = root_;
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 200);
}

// A page of evil.example whose name resolves to 127.0.0.1 could read the metrics of all tenants.
TEST_F(PagesTest, APageWhoseNameLeadsToLoopbackGetsNoMetrics) {
  const auto handler = pages_.handler();
  host_ = "evil.example:9001";
  EXPECT_EQ(ask(handler, "GET", "/-/metrics").status, 403);
  EXPECT_EQ(ask(handler, "GET", "/-/health").status, 200);
  signer_ = root_;
  EXPECT_EQ(ask(handler, "GET", "/-/metrics").status, 200);
}

class OneKey : public auth::CredentialStore {
 public:
  explicit OneKey(auth::AccessKey key) : key_(std::make_shared<const auth::AccessKey>(std::move(key))) {}
  Result<auth::AccessKeyPtr> find(std::string_view, std::string_view, int64_t) const override { return key_; }

 private:
  auth::AccessKeyPtr key_;
};

// A worker with a session of one directory bucket, opened by the root, could read the metrics of all tenants.
TEST_F(PagesTest, ASessionOfTheRootThatIsLimitedGetsNoMetrics) {
  const auto ask_with = [&](auth::AccessKey key, const char* service) {
    const OneKey credentials(key);
    const auth::Verifier verifier(credentials, system_clock(), {.express = true, .domain = {}});
    Pages pages(verifier, stopping_);
    http::FakeExchange exchange("GET", "/-/metrics", "");
    exchange.peer = "192.0.2.7";
    exchange.request_headers = {{"host", "server"}};
    auth::sign(key.credentials, "us-east-1", service, system_clock(), "GET", "/-/metrics", "",
               to_hex(as_bytes(sha256(as_bytes("")))), exchange.request_headers);
    boost::asio::io_context loop;
    const auto handler = pages.handler();  // there until the loop has ended
    boost::asio::co_spawn(loop, http::serve_whole(handler, exchange), boost::asio::detached);
    loop.run();
    return exchange.response.status;
  };
  auth::AccessKey key{.credentials = root_, .principal = auth::superuser()};
  key.credentials.session_token = "token";
  EXPECT_EQ(ask_with(key, "s3"), 200);  // a session with all rights of the root
  key.limits = auth::BucketSession{.bucket = "b--local1-az1--x-s3", .read_only = true};
  EXPECT_EQ(ask_with(key, "s3express"), 403);
  key.limits.reset();
  auth::Principal limited = *auth::superuser();
  limited.session.push_back(*auth::parse_policy(
      R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}})",
      auth::PolicyKind::identity));
  key.principal = std::make_shared<const auth::Principal>(std::move(limited));
  EXPECT_EQ(ask_with(key, "s3"), 403);
}

TEST_F(PagesTest, OpenMetricsAreOpenOnTheListenerThatSaysSo) {
  const auto open = pages_.handler({}, Pages::Metrics::open);
  EXPECT_EQ(ask(open, "GET", "/-/metrics", "192.0.2.7").status, 200);
  EXPECT_EQ(ask(pages_.handler(), "GET", "/-/metrics", "192.0.2.7").status, 403);
}

TEST_F(PagesTest, MetricsThatAProxyMayReachWantASignatureOnLoopbackToo) {
  const auto handler = pages_.handler({}, Pages::Metrics::signed_always);
  EXPECT_EQ(ask(handler, "GET", "/-/metrics").status, 403);
  signer_ = root_;
  EXPECT_EQ(ask(handler, "GET", "/-/metrics").status, 200);
}

TEST_F(PagesTest, WhoGuessesAtTheRootKeyIsHeldUp) {
  auth::AuthFailures auth_failures(system_clock(), {.tries_max = 3, .forgiven_s = 1000});
  Pages pages(verifier_, stopping_, &auth_failures);
  const auto handler = pages.handler();
  signer_ = auth::Credentials{.access_key = "AKROOT", .secret_key = "wrong", .session_token = {}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 403);
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 503);
  signer_ = root_;
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.7").status, 503);
  EXPECT_EQ(ask(handler, "GET", "/-/metrics", "192.0.2.8").status, 200);
}

// Unsigned requests are those of anonymous callers, also where metrics need no signature.
TEST_F(PagesTest, MetricsAreNotGivenToNetworksWithoutAnonymousCallers) {
  const auto rules = auth::NetworkRules::make(
      {{.networks = {"127.0.0.0/8", "192.0.2.0/24"}, .accounts = {{std::string(auth::root_account_id)}}}},
      RdmaEncryption::preferred);
  ASSERT_TRUE(rules) << rules.error();
  Pages pages(verifier_, stopping_, nullptr, &*rules);
  EXPECT_EQ(ask(pages.handler(), "GET", "/-/metrics").status, 403);
  const auto open = pages.handler({}, Pages::Metrics::open);
  EXPECT_EQ(ask(open, "GET", "/-/metrics", "192.0.2.7").status, 403);
  EXPECT_EQ(ask(open, "GET", "/-/metrics", "198.51.100.7").status, 200);
  signer_ = root_;
  EXPECT_EQ(ask(pages.handler(), "GET", "/-/metrics").status, 200);
}

TEST_F(PagesTest, MetricsAreInTheFormatThatTheScraperAccepts) {
  metrics::counter("verbena_pages_test_total", "A metric that is there").add();
  const auto handler = pages_.handler();
  EXPECT_NE(ask(handler, "GET", "/-/metrics").body.find("# TYPE verbena_pages_test_total counter"), std::string::npos);
  accept_ = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
  const auto open_metrics = ask(handler, "GET", "/-/metrics").body;
  EXPECT_NE(open_metrics.find("# TYPE verbena_pages_test counter"), std::string::npos);
  EXPECT_TRUE(open_metrics.ends_with("# EOF\n"));
}

// Else a signed client's connection would count as a stranger's wherever the console is served, and be closed first.
TEST(Sandboxed, TheConnectionLearnsThatItsClientIsKnown) {
  http::FakeExchange exchange("GET", "/", "");
  exchange.certificates = {"certificate"};
  Sandboxed sandboxed(exchange);
  sandboxed.vouch();
  EXPECT_EQ(exchange.vouched, 1);
  EXPECT_EQ(sandboxed.peer_certificates(), exchange.certificates);
}

TEST_F(PagesTest, OtherPathsGoOnOrAreRefused) {
  EXPECT_EQ(ask(pages_.handler(), "GET", "/bucket/key").status, 405);
  EXPECT_EQ(ask(pages_.handler(), "POST", "/-/health").status, 405);
  std::string seen;
  const auto handler = pages_.handler([&seen](http::Exchange& exchange) {
    return [](std::string& path, http::Exchange& asked) -> Task<void> {
      path = asked.path();
      co_return;
    }(seen, exchange);
  });
  ask(handler, "POST", "/-/session");
  EXPECT_EQ(seen, "/-/session");
}

}  // namespace
}  // namespace verbena::admin
