#include <gtest/gtest.h>

#include <future>

#include "iam/test_federation.h"
#include "sign_in/test_key.h"

namespace verbena::iam {
namespace {

constexpr const char* issuer_name = "idp.example.org/r";

// The root account knows a provider, and a role trusts it.
class WebIdentityTest : public FederationTest {
 protected:
  WebIdentityTest() {
    change([&](auth::AccountEntry& entry) {
      auth::OpenIdProvider provider;
      provider.url = issuer_name;
      provider.created_s = clock_.now_s;
      provider.client_ids = {"app"};
      entry.open_id_providers.emplace(provider.url, provider);
    });
    add_trusting_role(R"("sts:AssumeRoleWithWebIdentity")");
  }
  void add_trusting_role(const std::string& actions) {
    add_role(R"({"Effect":"Allow","Action":[)" + actions +
             R"(],"Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/idp.example.org/r"}})");
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
    answer_federated({.store = *store_, .around = {clock_, "here"}, .keys = &keys_},
                     {.caller = caller_, .form = form, .last = last}, response, reply_);
    return response;
  }
  void fetch() {
    auto task = [](WebIdentityTest* test) -> Task<void> {
      (void)co_await test->keys_.refresh(std::move(*test->reply_.wanted));
    };
    boost::asio::io_context loop;
    boost::asio::co_spawn(loop, task(this), boost::asio::detached);
    loop.run();
  }
  static std::string element(const s3::Response& response, const std::string& name) {
    const size_t at = response.body.find("<" + name + ">");
    if (at == std::string::npos) return {};
    const size_t from = at + name.size() + 2;
    return response.body.substr(from, response.body.find('<', from) - from);
  }

  const sign_in::TestKey key_{"ES256"};
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
  add_trusting_role(R"("sts:AssumeRoleWithWebIdentity","sts:TagSession","sts:SetSourceIdentity")");
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

// Callers that wait for a provider that does not answer.
class WaitingFederationTest : public WebIdentityTest, protected FederatedCalls {
 protected:
  ~WaitingFederationTest() override {
    gate_.set_value();
    run_until_all_are_answered();
  }
  void call(const std::string& peer) {
    FederatedCalls::call(service_, peer, false,
                         "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=me&RoleArn="
                         "arn:aws:iam::000000000000:role/people&WebIdentityToken=" +
                             token());
  }
  size_t refused(std::string_view peer) const { return told(peer, "SlowDown"); }

  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
  BlockingPool waiting_pool_{2, 256};
  sign_in::ProviderKeys slow_keys_{pool_, clock_, [this](const sign_in::Issuer&, const std::atomic<bool>&) {
                                     opened_.wait();
                                     return sign_in::parse_key_set(key_.set("k"));
                                   }};
  Service service_{*store_,
                   buckets_,
                   waiting_pool_,
                   clock_,
                   "here",
                   [](const std::string&, const Result<void>&) {},
                   SignInTools{.pool = waiting_pool_, .keys = &slow_keys_}};
};

TEST_F(WaitingFederationTest, OneAddressHasSoManyCallsUnderWayAndOthersComeIn) {
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
