// Sessions of directory buckets: their tokens, and the requests that accept them.
#include <gtest/gtest.h>

#include "auth/bucket_token.h"
#include "auth/identity_store.h"
#include "auth/policy_dependence.h"
#include "auth/test_clock.h"

namespace verbena::auth {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

class BucketSessions : public ::testing::Test {
 protected:
  BucketSessions() : store_(std::move(*IdentityStore::open("", *keys_, {"ROOT", "root's secret", ""}))) {}

  AccessKeyPtr root() { return *store_->find("ROOT", "", clock_.now_s()); }
  Credentials open(BucketSession limits = {.bucket = "b--local1-az1--x-s3", .read_only = true}) {
    auto made = store_->open_bucket_session(*root(), limits, clock_.now_s());
    EXPECT_TRUE(made);
    EXPECT_EQ(made->expires_s, clock_.now_s() + 300);
    return made->credentials;
  }
  Result<Verified> verify(const Credentials& credentials, std::string_view service, HeaderList more = {}) {
    HeaderList headers = {{"host", "localhost"}};
    for (auto& header : more) headers.push_back(header);
    sign(credentials, "us-east-1", service, clock_, "GET", "/b", "list-type=2", "UNSIGNED-PAYLOAD", headers);
    return verify(headers);
  }
  Result<Verified> verify(const HeaderList& headers) {
    std::vector<HeaderView> views;
    for (const auto& [name, value] : headers) views.push_back({name, value});
    return verifier_.verify({"GET", "/b", "list-type=2", views});
  }

  FixedClock clock_{1'767'323'045};
  std::unique_ptr<KeyRing> keys_ = KeyRing::in_memory();
  std::unique_ptr<IdentityStore> store_;
  Verifier verifier_{*store_, clock_, {.express = true, .domain = {}}};
};

TEST_F(BucketSessions, SignForS3ExpressWithAHeaderOfTheirOwn) {
  const auto verified = verify(open(), "s3express");
  ASSERT_TRUE(verified) << describe(verified.error());
  EXPECT_TRUE(verified->identity.express);
  ASSERT_TRUE(verified->key->limits);
  EXPECT_EQ(verified->key->limits->bucket, "b--local1-az1--x-s3");
  EXPECT_TRUE(verified->key->limits->read_only);
  EXPECT_TRUE(verified->identity.signs("x-amz-s3session-token"));
  const auto lasting = verify({"ROOT", "root's secret", ""}, "s3express");
  ASSERT_TRUE(lasting);
  EXPECT_FALSE(lasting->key->limits);
}

TEST_F(BucketSessions, AreTakenForNothingElse) {
  const Credentials session = open();
  EXPECT_EQ(verify(session, "s3").error(), Errc::invalid_token) << "sent as STS's token";
  const Credentials bare{session.access_key, session.secret_key, ""};
  EXPECT_EQ(verify(bare, "s3express").error(), Errc::invalid_access_key_id);
  EXPECT_EQ(verify(bare, "s3", {{"x-amz-s3session-token", session.session_token}}).error(), Errc::invalid_token);
  EXPECT_EQ(verify(session, "s3express", {{"x-amz-security-token", session.session_token}}).error(),
            Errc::invalid_token);
  SessionContents grant;
  grant.kind = Principal::Kind::account_root;
  grant.account_id = root_account_id;
  grant.expires_s = clock_.now_s() + 900;
  const Credentials of_sts = store_->make_session(grant, *root(), clock_.now_s());
  EXPECT_EQ(verify(of_sts, "s3express").error(), Errc::invalid_token) << "STS's token in a session's header";
  EXPECT_TRUE(verify(of_sts, "s3"));
}

TEST_F(BucketSessions, WhereTheyAreTurnedOffTheScopeIsAnotherService) {
  const Verifier off(*store_, clock_, {});
  HeaderList headers = {{"host", "localhost"}};
  sign(open(), "us-east-1", "s3express", clock_, "GET", "/b", "", "UNSIGNED-PAYLOAD", headers);
  std::vector<HeaderView> views;
  for (const auto& [name, value] : headers) views.push_back({name, value});
  EXPECT_EQ(off.verify({"GET", "/b", "", views}).error(), Errc::authorization_header_malformed);
}

TEST_F(BucketSessions, OfASessionHaveItsEndAndItsAge) {
  SessionContents grant;
  grant.kind = Principal::Kind::account_root;
  grant.account_id = root_account_id;
  grant.expires_s = clock_.now_s() + 100;
  const Credentials of_sts = store_->make_session(grant, *root(), clock_.now_s() - 50);
  const auto by = store_->find(of_sts.access_key, of_sts.session_token, clock_.now_s());
  ASSERT_TRUE(by);
  const auto made = store_->open_bucket_session(**by, {.bucket = "b"}, clock_.now_s());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->expires_s, clock_.now_s() + 100) << "not longer than the one that opens it";
  const auto found = store_->find(made->credentials.access_key, made->credentials.session_token, clock_.now_s());
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->principal->token_issued_s, clock_.now_s() - 50);
  EXPECT_EQ(store_->open_bucket_session(**found, {.bucket = "b"}, clock_.now_s()).error(), Errc::access_denied);
}

// Every byte of a token is hashed for each request: three blocks of SHA-256 at most.
TEST_F(BucketSessions, HaveAShortTokenThatSaysWhatWasAgreed) {
  const BucketSession limits{
      .bucket = "b--local1-az1--x-s3", .read_only = true, .encryption = "aws:kms", .kms_key_id = "k"};
  const Credentials made = open(limits);
  EXPECT_LE(open().session_token.size(), 128u);
  EXPECT_TRUE(is_bucket_token(made.session_token));
  const auto found = store_->find(made.access_key, made.session_token, clock_.now_s());
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->limits, limits);
  EXPECT_EQ((*found)->credentials.secret_key, made.secret_key);
  EXPECT_EQ(made.secret_key.size(), 40u);
  EXPECT_EQ((*found)->principal->token_issued_s, clock_.now_s());
  EXPECT_NE(open(limits).secret_key, made.secret_key) << "each session has keys of its own";
}

TEST_F(BucketSessions, OfWhoseTokenABitIsAnotherDoNotOpen) {
  const Credentials made = open();
  auto raw = *from_base64(made.session_token);
  for (size_t bit = 0; bit < raw.size() * 8; ++bit) {
    raw[bit / 8] ^= std::byte{1} << bit % 8;
    const std::string forged = to_base64(raw);
    raw[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_EQ(store_->find(made.access_key, forged, clock_.now_s()).error(), Errc::invalid_token) << bit;
  }
  for (size_t size = 0; size < raw.size(); ++size) {
    const std::string cut = to_base64(Bytes(raw).first(size));
    if (cut.empty()) continue;
    EXPECT_FALSE(store_->find(made.access_key, cut, clock_.now_s())) << size;
  }
  EXPECT_TRUE(store_->find(made.access_key, made.session_token, clock_.now_s()));
  const auto others = KeyRing::in_memory();
  EXPECT_EQ(open_bucket_token(*others, made.session_token).error(), Errc::invalid_token) << "of another server";
}

// The cache is bounded: an account that opens very many sessions takes from others only cache slots.
TEST_F(BucketSessions, ThatAreVeryManyAreTakenAllTheSame) {
  const Credentials first = open();
  std::vector<Credentials> many;
  for (int i = 0; i < 2'000; ++i) many.push_back(open());
  for (const Credentials& one : many) {
    ASSERT_TRUE(store_->find(one.access_key, one.session_token, clock_.now_s()));
  }
  EXPECT_TRUE(store_->find(first.access_key, first.session_token, clock_.now_s()));
  EXPECT_EQ(store_->find(first.access_key, many[0].session_token, clock_.now_s()).error(), Errc::invalid_token)
      << "another session's key";
}

TEST_F(BucketSessions, EndAtTheirTime) {
  const Credentials made = open();
  EXPECT_TRUE(store_->find(made.access_key, made.session_token, clock_.now_s() + 299));
  EXPECT_EQ(store_->find(made.access_key, made.session_token, clock_.now_s() + 300).error(), Errc::expired_token);
}

TEST_F(BucketSessions, EndWithTheKeyThatOpenedThem) {
  std::string name;
  ASSERT_TRUE(store_->change([&](AccountMap& accounts) -> Result<void> {
    auto entry = std::make_shared<AccountEntry>(*accounts.at(std::string(root_account_id)));
    User user;
    user.name = "alice";
    user.id = "AIDAALICE";
    user.keys.push_back(store_->make_key("AKALICE", "alice's secret", clock_.now_s()));
    entry->users.emplace("alice", user);
    accounts[std::string(root_account_id)] = std::move(entry);
    return {};
  }));
  const auto edit = [&](auto change) {
    ASSERT_TRUE(store_->change([&](AccountMap& accounts) -> Result<void> {
      auto entry = std::make_shared<AccountEntry>(*accounts.at(std::string(root_account_id)));
      change(*entry);
      accounts[std::string(root_account_id)] = std::move(entry);
      return {};
    }));
  };
  const auto key = store_->find("AKALICE", "", clock_.now_s());
  ASSERT_TRUE(key);
  const auto made = store_->open_bucket_session(**key, {.bucket = "b"}, clock_.now_s());
  ASSERT_TRUE(made);
  const auto use = [&] {
    return store_->find(made->credentials.access_key, made->credentials.session_token, clock_.now_s());
  };
  ASSERT_TRUE(use());
  EXPECT_EQ((*use())->principal->name, "alice");
  edit([](AccountEntry& entry) { entry.users.at("alice").keys[0].active = false; });
  EXPECT_EQ(use().error(), Errc::invalid_access_key_id) << "turned off";
  edit([](AccountEntry& entry) { entry.users.at("alice").keys[0].active = true; });
  EXPECT_TRUE(use()) << "turned on again";
  edit([](AccountEntry& entry) { entry.users.at("alice").id = "AIDAANOTHER"; });
  EXPECT_EQ(use().error(), Errc::invalid_access_key_id) << "of another user of that name";
  edit([&](AccountEntry& entry) {
    entry.users.at("alice").id = "AIDAALICE";
    entry.users.at("alice").keys[0] = store_->make_key("AKALICE", "made anew", clock_.now_s());
  });
  EXPECT_EQ(use().error(), Errc::invalid_access_key_id) << "another key of that name";
  edit([](AccountEntry& entry) { entry.users.erase("alice"); });
  EXPECT_EQ(use().error(), Errc::invalid_access_key_id);
}

TEST_F(BucketSessions, HostsOfZonesNameTheirBuckets) {
  EXPECT_EQ(virtual_bucket("b--use1-az4--x-s3.s3express-use1-az4.s3.test", "s3.test"), "b--use1-az4--x-s3");
  EXPECT_EQ(virtual_bucket("b--use1-az4--x-s3.s3.test", "s3.test"), "b--use1-az4--x-s3");
  EXPECT_EQ(virtual_bucket("s3express-control.s3.test", "s3.test"), "");
  EXPECT_EQ(virtual_bucket("b--use1-az4--x-s3.s3express-use1-az5.s3.test", "s3.test"),
            "b--use1-az4--x-s3.s3express-use1-az5")
      << "of another zone: no bucket has such a name";
  EXPECT_EQ(virtual_bucket("my.s3express-x.s3.test", "s3.test"), "my.s3express-x") << "a general bucket";
}

// A policy that allows, with an action and further elements.
PolicyPtr policy_of(const std::string& action_and_rest) {
  const auto policy =
      parse_policy(R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":)" + action_and_rest + "}}",
                   PolicyKind::identity);
  EXPECT_TRUE(policy) << action_and_rest;
  return *policy;
}

TEST(PolicyDependence, ConditionsAndVariablesDependOnTheRequest) {
  const auto depends = [](const std::string& rest) {
    return depends_on_request(*policy_of(R"("s3express:*")" + rest));
  };
  EXPECT_FALSE(depends(R"(,"Resource":"*")"));
  EXPECT_FALSE(depends(R"(,"Resource":"*","Condition":{"StringEquals":{"s3express:SessionMode":"ReadOnly"}})"));
  EXPECT_TRUE(depends(R"(,"Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}})"));
  EXPECT_TRUE(depends(R"(,"Resource":"arn:aws:s3express:*:*:bucket/${aws:UserAgent}")"));
  EXPECT_TRUE(depends(R"(,"Resource":"arn:aws:s3express:*:*:bucket/\u0024{aws:UserAgent}")"));
}

TEST(PolicyDependence, AResourceThatSomeNamesFitAndOthersDoNotDependsOnIt) {
  const auto depends = [](const std::string& rest) {
    return depends_on_resource(*policy_of(R"("s3:*",)" + rest), "arn:aws:s3:::bucket/");
  };
  for (const char* one :
       {R"("Resource":"*")", R"("Resource":"arn:aws:s3:::*")", R"("Resource":"arn:aws:s3:::bucket/*")",
        R"("Resource":"arn:aws:s3:::buck*")", R"("NotResource":"arn:aws:s3:::bucket/*")",
        R"("Resource":"arn:aws:s3:::other/a")", R"("Resource":"arn:aws:s3:::other/a*b")",
        R"("Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"])"}) {
    EXPECT_FALSE(depends(one)) << one;
  }
  for (const char* one :
       {R"("Resource":"arn:aws:s3:::bucket/a")", R"("Resource":"arn:aws:s3:::bucket/a*")",
        R"("Resource":"arn:aws:s3:::bucket/*a")", R"("Resource":"arn:aws:s3:::*/a")", R"("Resource":"arn:aws:s3:::*a")",
        R"("Resource":"arn:aws:s3:::bucke?/*")", R"("Resource":"arn:aws:s3:::bucket/?*")",
        R"("Resource":"arn:aws:s3:::bucket*/a")", R"("Resource":["*","arn:aws:s3:::bucket/a"])",
        R"("Resource":"arn:aws:s3:::${aws:username}/*")",
        R"("Resource":"arn:aws:s3:::\u0024{aws:username}-data/secret/*")",
        R"("Resource":"arn:aws:s3:::$\u007Baws:username}/*")",
        R"("Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"true"}})"}) {
    EXPECT_TRUE(depends(one)) << one;
  }
}

}  // namespace
}  // namespace verbena::auth
