#include "iam/stranger_call.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <future>

#include "iam/query.h"
#include "iam/service.h"
#include "sign_in/test_key.h"
#include "store/memory/test_store.h"

namespace verbena::iam {
namespace {

class StandingClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  int64_t now_s = 1'767'323'045;
};

constexpr const char* issuer_name = "idp.example.org/r";

// The root account knows a provider, and a role trusts it.
class WebIdentityTest : public testing::Test {
 protected:
  WebIdentityTest() {
    auto opened = auth::IdentityStore::open("", *ring_, {"ROOT", "root secret", ""});
    EXPECT_TRUE(opened);
    store_ = std::move(*opened);
    caller_.request_id = "0123456789ABCDEF";
    caller_.peer_address = "192.0.2.1";
    change([&](auth::AccountEntry& entry) {
      auth::OpenIdProvider provider;
      provider.url = issuer_name;
      provider.created_s = clock_.now_s;
      provider.client_ids = {"app"};
      entry.open_id_providers.emplace(provider.url, provider);
    });
    add_role(R"("sts:AssumeRoleWithWebIdentity")");
  }
  void change(const std::function<void(auth::AccountEntry&)>& edit) {
    const auto done = store_->change_account("000000000000", [&](auth::AccountEntry& entry) -> Result<void> {
      edit(entry);
      return {};
    });
    EXPECT_TRUE(done);
  }
  void add_role(const std::string& actions) {
    change([&](auth::AccountEntry& entry) {
      auth::Role role;
      role.name = "people";
      role.id = "AROAPEOPLE";
      role.trust.text = R"({"Statement":{"Effect":"Allow","Action":[)" + actions +
                        R"(],"Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/idp.example.org/r"}}})";
      auto parsed = auth::parse_policy(role.trust.text, auth::PolicyKind::trust);
      EXPECT_TRUE(parsed);
      role.trust.policy = *parsed;
      entry.roles.insert_or_assign(role.name, role);
    });
  }
  std::string token(const std::string& more = "") const {
    return key_.sign(R"({"alg":"ES256","kid":"k"})",
                     R"({"iss":"https://idp.example.org/r","sub":"alice","aud":"app",)" +
                         ("\"iat\":" + std::to_string(clock_.now_s)) + ",\"exp\":" + std::to_string(clock_.now_s + 60) +
                         more + "}");
  }
  s3::Response ask(const std::string& web_token, bool last = false, const std::string& more = "",
                   const std::string& role = "people") {
    s3::Response response;
    reply_ = {};
    const std::string form =
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=me&RoleArn="
        "arn:aws:iam::000000000000:role/" +
        role + "&WebIdentityToken=" + web_token + more;
    answer_stranger({.store = *store_, .clock = clock_, .keys = &keys_},
                    {.caller = caller_, .form = form, .last = last}, response, reply_);
    return response;
  }
  void fetch() {
    auto task = [](WebIdentityTest* test) -> Task<void> {
      (void)co_await test->keys_.refresh(std::move(*test->reply_.wanted));
    };
    boost::asio::co_spawn(loop_, task(this), boost::asio::detached);
    loop_.restart();
    loop_.run();
  }
  static std::string element(const s3::Response& response, const std::string& name) {
    const size_t at = response.body.find("<" + name + ">");
    if (at == std::string::npos) return {};
    const size_t from = at + name.size() + 2;
    return response.body.substr(from, response.body.find('<', from) - from);
  }

  StandingClock clock_;
  const sign_in::TestKey key_{"ES256"};
  std::unique_ptr<auth::KeyRing> ring_ = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> store_;
  s3::Caller caller_;
  StrangerReply reply_;
  boost::asio::io_context loop_;
  BlockingPool pool_{1, 4};
  sign_in::ProviderKeys keys_{pool_, clock_, [this](const sign_in::Issuer& issuer, const std::atomic<bool>&) {
                                EXPECT_EQ(issuer.url, issuer_name);
                                return sign_in::parse_key_set(key_.set("k"));
                              }};
};

TEST_F(WebIdentityTest, ATokenBecomesASessionOfTheRole) {
  s3::Response response = ask(token());
  ASSERT_TRUE(reply_.wanted) << response.body;
  fetch();
  response = ask(token());
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(element(response, "SubjectFromWebIdentityToken"), "alice");
  EXPECT_EQ(element(response, "Arn"), "arn:aws:sts::000000000000:assumed-role/people/me");
  EXPECT_EQ(reply_.who.principal->arn, "arn:aws:sts::000000000000:assumed-role/people/me");
  const auto found =
      store_->find(element(response, "AccessKeyId"), element(response, "SessionToken"), clock_.now_s + 3599);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->principal->attributes->claims.at("idp.example.org/r:sub"), std::vector<std::string>{"alice"});
  EXPECT_FALSE(store_->find(element(response, "AccessKeyId"), element(response, "SessionToken"), clock_.now_s + 3600));
}

TEST_F(WebIdentityTest, WhatIsRefusedAnywayAsksNoProvider) {
  const sign_in::TestKey other("ES256");
  for (const std::string& bad :
       {std::string("x"), std::string("a.b.c"), other.sign(R"({"alg":"ES256"})", R"({"iss":"https://evil.example"})"),
        key_.sign(R"({"alg":"ES256","kid":"k"})", R"({"iss":"https://idp.example.org/r","sub":"a","aud":"b"})")}) {
    const s3::Response response = ask(bad);
    EXPECT_EQ(response.error_code, "InvalidIdentityToken") << response.body;
    EXPECT_FALSE(reply_.wanted) << bad;
  }
  clock_.now_s -= 1000;
  const std::string old = token();
  clock_.now_s += 1000;
  EXPECT_EQ(ask(old).error_code, "ExpiredTokenException");
  EXPECT_FALSE(reply_.wanted);
}

TEST_F(WebIdentityTest, WithoutKeysAndWithOthersNobodyIsLetIn) {
  EXPECT_EQ(ask(token(), /*last=*/true).error_code, "IDPCommunicationError");
  (void)ask(token());
  fetch();
  const sign_in::TestKey other("ES256");
  const std::string claims = R"({"iss":"https://idp.example.org/r","sub":"a","aud":"app","iat":)" +
                             std::to_string(clock_.now_s) + ",\"exp\":" + std::to_string(clock_.now_s + 60) + "}";
  (void)ask(other.sign(R"({"alg":"ES256","kid":"k"})", claims));
  EXPECT_TRUE(reply_.wanted) << "it may have been changed under its name";
  EXPECT_EQ(ask(other.sign(R"({"alg":"ES256","kid":"k"})", claims), true).error_code, "InvalidIdentityToken");
  (void)ask(other.sign(R"({"alg":"ES256","kid":"new"})", claims));
  EXPECT_TRUE(reply_.wanted) << "a key that is not there";
  EXPECT_EQ(ask(other.sign(R"({"alg":"ES256","kid":"new"})", claims), true).error_code, "InvalidIdentityToken");
  EXPECT_EQ(ask(token(), true, "", "nobody").error_code, "AccessDenied");
}

TEST_F(WebIdentityTest, TagsAndSourceIdentityNeedTheRolesLeave) {
  (void)ask(token());
  fetch();
  const std::string tags = R"(,"https://aws.amazon.com/tags":{"principal_tags":{"team":["red"]}})";
  EXPECT_EQ(ask(token(tags), true).error_code, "AccessDenied");
  const std::string source = R"(,"https://aws.amazon.com/source_identity":"alice")";
  EXPECT_EQ(ask(token(source), true).error_code, "AccessDenied");
  add_role(R"("sts:AssumeRoleWithWebIdentity","sts:TagSession","sts:SetSourceIdentity")");
  const s3::Response response = ask(token(tags + source), true);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(element(response, "SourceIdentity"), "alice");
  const auto found = store_->find(element(response, "AccessKeyId"), element(response, "SessionToken"), clock_.now_s);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->principal->attributes->tags.at("team"), "red");
}

TEST_F(WebIdentityTest, ParametersAreCheckedAsThoseOfSignedCallsAre) {
  (void)ask(token());
  fetch();
  EXPECT_EQ(ask(token(), true, "&DurationSeconds=899").error_code, "ValidationError");
  EXPECT_EQ(ask(token(), true, "&DurationSeconds=3601").error_code, "ValidationError");
  EXPECT_EQ(ask(token(), true, "&Policy=%7B%7D").error_code, "MalformedPolicyDocument");
  EXPECT_EQ(ask(token(), true, "&ProviderId=x").error_code, "ValidationError");
  EXPECT_EQ(ask(token(), true, "&WebIdentityToken=x").error_code, "ValidationError");
  for (const char* bytes : {"&%FF%FE=1", "&PolicyArns.member.1.arn=%FF%FE"}) {
    const s3::Response response = ask(token(), true, bytes);
    EXPECT_EQ(response.error_code, "ValidationError");
    for (const char c : response.body) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << response.body;
  }
}

// Who waits for a provider that does not answer.
class WaitingStrangersTest : public WebIdentityTest {
 protected:
  ~WaitingStrangersTest() override {
    gate_.set_value();
    run_until([this] { return answers_.size() == asked_; });
  }
  void call(const std::string& peer) {
    auto task = [](WaitingStrangersTest* test, std::string from, std::string form) -> Task<void> {
      const Service::CertificatesOf none = [] { return std::vector<std::string>(); };
      s3::Request request;
      request.caller.peer_address = from;
      request.caller.request_id = "0123456789ABCDEF";
      s3::Response response;
      (void)co_await test->service_.serve_stranger(request, form, none, response);
      test->answers_.emplace_back(from, response.error_code);
    };
    const std::string form =
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=me&RoleArn="
        "arn:aws:iam::000000000000:role/people&WebIdentityToken=" +
        token();
    boost::asio::co_spawn(loop_, task(this, peer, form), boost::asio::detached);
    ++asked_;
  }
  void run_until(const std::function<bool()>& done) {
    const Deadline end = deadline_in(std::chrono::seconds(60));
    loop_.restart();
    const auto work = boost::asio::make_work_guard(loop_);
    while (!done() && SteadyClock::now() < end) loop_.run_one_for(std::chrono::milliseconds(100));
  }
  size_t refused(std::string_view peer) const {
    return static_cast<size_t>(std::ranges::count_if(
        answers_, [&](const auto& one) { return one.first == peer && one.second == "SlowDown"; }));
  }

  std::vector<std::pair<std::string, std::string>> answers_;
  size_t asked_ = 0;
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
  std::unique_ptr<memory::Arena> arena_ = memory::Arena::create(64 * MiB).value();
  store::in_memory::TestStore buckets_{*arena_};
  BlockingPool waiting_pool_{2, 256};
  sign_in::ProviderKeys slow_keys_{pool_, clock_, [this](const sign_in::Issuer&, const std::atomic<bool>&) {
                                     opened_.wait();
                                     return sign_in::parse_key_set(key_.set("k"));
                                   }};
  Service service_{*store_, buckets_, waiting_pool_,
                   clock_,  [] {},    SignInTools{.pool = waiting_pool_, .keys = &slow_keys_}};
};

TEST_F(WaitingStrangersTest, OneAddressHasSoManyCallsUnderWayAndOthersComeIn) {
  for (int i = 0; i < 40; ++i) call("192.0.2.1");
  run_until([this] { return answers_.size() == 8; });
  EXPECT_EQ(refused("192.0.2.1"), 8u);
  for (int i = 0; i < 32; ++i) call("192.0.2.2");
  for (int i = 0; i < 40; ++i) call("127.0.0.1");
  call("192.0.2.2");
  run_until([this] { return answers_.size() == 9; });
  EXPECT_EQ(refused("192.0.2.2"), 1u);
  EXPECT_EQ(refused("127.0.0.1"), 0u);
  EXPECT_EQ(answers_.size(), 9u) << "the others wait";
}

}  // namespace
}  // namespace verbena::iam
