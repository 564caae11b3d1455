#include <gtest/gtest.h>

#include "iam/test_federation.h"
#include "sign_in/test_directory.h"

namespace verbena::iam {
namespace {

// A role of the root account trusts the directory.
class LdapIdentityTest : public FederationTest {
 protected:
  LdapIdentityTest() {
    store_->set_voucher("ldap/directory", {"tag"});
    directory_.name = "directory";
    directory_.tag = "tag";
    caller_.secure = true;
    add_role(R"({"Effect":"Allow","Action":"sts:AssumeRoleWithLDAPIdentity","Principal":
        {"Federated":"arn:aws:iam::000000000000:ldap/directory"},
        "Condition":{"ForAnyValue:StringEquals":{"ldap:groups":"cn=dev,o=x"}}})");
  }
  s3::Response ask(const DirectoryAnswer* person = nullptr, bool in_query = false, const std::string& more = "") {
    s3::Response response;
    reply_ = {};
    const std::string form =
        "Action=AssumeRoleWithLDAPIdentity&Version=2011-06-15&LDAPUsername=alice&LDAPPassword=a+secret" + more;
    answer_federated({.store = *store_, .around = {clock_, "here"}, .directory = &directory_},
                     {.caller = caller_, .form = form, .in_query = in_query, .person = person}, response, reply_);
    return response;
  }
  static constexpr const char* role_ = "&RoleArn=arn:aws:iam::000000000000:role/people";

  sign_in::DirectorySettings directory_;
};

TEST_F(LdapIdentityTest, PasswordsAreTakenOverTlsAndFromLoopbackAlone) {
  (void)ask(nullptr, false, role_);
  ASSERT_TRUE(reply_.question);
  EXPECT_EQ(reply_.question->name, "alice");
  EXPECT_EQ(reply_.question->password.text(), "a secret");
  caller_.secure = false;
  EXPECT_EQ(ask(nullptr, false, role_).error_code, "AccessDenied");
  EXPECT_FALSE(reply_.question);
  caller_.peer_address = "127.0.0.1";
  (void)ask(nullptr, false, role_);
  EXPECT_TRUE(reply_.question);
}

TEST_F(LdapIdentityTest, PasswordsInUrlsAreNotLookedAt) {
  const s3::Response response = ask(nullptr, true, role_);
  EXPECT_EQ(response.error_code, "ValidationError");
  EXPECT_EQ(response.body.find("a secret"), std::string::npos);
  EXPECT_FALSE(reply_.question);
}

TEST_F(LdapIdentityTest, WhatTheDirectorySaysBecomesASession) {
  const DirectoryAnswer person = sign_in::Person{"alice", "uid=alice,o=x", {"cn=ops,o=x", "cn=dev,o=x"}};
  const s3::Response response = ask(&person, false, role_);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(reply_.who.principal->arn, "arn:aws:sts::000000000000:assumed-role/people/alice");
  const DirectoryAnswer other = sign_in::Person{"alice", "uid=alice,o=x", {"cn=ops,o=x"}};
  EXPECT_EQ(ask(&other, false, role_).error_code, "AccessDenied");
  const DirectoryAnswer wrong = std::unexpected(sign_in::Refusal{sign_in::Refusal::Kind::denied, "no"});
  EXPECT_EQ(ask(&wrong, false, role_).error_code, "AccessDenied");
  EXPECT_EQ(reply_.who.principal, nullptr);
}

TEST_F(LdapIdentityTest, WhoNamesNoRoleGetsTheConfiguredOneIfThereIsOne) {
  EXPECT_EQ(ask().error_code, "ValidationError");
  directory_.role = "arn:aws:iam::000000000000:role/people";
  (void)ask();
  EXPECT_TRUE(reply_.question);
}

TEST_F(LdapIdentityTest, OtherWaysInAreClosedWhereTheyAreNotConfigured) {
  for (const char* action : {"AssumeRoleWithWebIdentity", "AssumeRoleWithCertificate"}) {
    s3::Response response;
    const std::string form = std::string("Version=2011-06-15&Action=") + action;
    answer_federated({.store = *store_, .around = {clock_, "here"}, .directory = &directory_},
                     {.caller = caller_, .form = form}, response, reply_);
    EXPECT_EQ(response.error_code, "MissingAuthenticationToken") << action;
  }
}

// Calls of remote clients, through the service, to a directory that answers or does not.
class CallsToDirectoryTest : public LdapIdentityTest, protected FederatedCalls {
 protected:
  CallsToDirectoryTest() {
    sign_in::DirectorySettings settings = test_directory_.settings();
    settings.group_base = "ou=groups";
    settings.group_filter = "(member=%d)";
    auto opened = sign_in::Directory::open(std::move(settings), clock_);
    EXPECT_TRUE(opened);
    people_ = std::move(*opened);
    service_ = std::make_unique<Service>(
        *store_, buckets_, pool_, clock_, "here", [](const std::string&, const Result<void>&) {},
        SignInTools{.pool = pool_, .directory = people_.get(), .directory_pool = &people_pool_});
  }
  ~CallsToDirectoryTest() override {
    test_directory_.hold(false);
    run_until_all_are_answered();
  }
  void call(const std::string& peer, const std::string& password = "right") {
    FederatedCalls::call(*service_, peer, true,
                         "Action=AssumeRoleWithLDAPIdentity&Version=2011-06-15&LDAPUsername=u" +
                             std::to_string(asked_ % 100) + "&LDAPPassword=" + password +
                             "&RoleArn=arn:aws:iam::000000000000:role/people");
  }

  sign_in::TestDirectory test_directory_;
  std::unique_ptr<sign_in::Directory> people_;
  BlockingPool pool_{2, 256}, people_pool_{8, 64};
  std::unique_ptr<Service> service_;
};

TEST_F(CallsToDirectoryTest, FourOfOneAddressWaitForTheDirectoryAndOthersDoBeside) {
  test_directory_.hold(true);
  for (int i = 0; i < 10; ++i) call("192.0.2.1");
  run_until([this] { return answers_.size() == 6; });
  EXPECT_EQ(told("192.0.2.1", "SlowDown"), 6u);
  call("192.0.2.2");
  run_until([this] { return test_directory_.binds() == 5; });
  EXPECT_EQ(test_directory_.binds(), 5);
  test_directory_.hold(false);
  run_until_all_are_answered();
  EXPECT_EQ(told("192.0.2.1", ""), 4u);
  EXPECT_EQ(told("192.0.2.2", ""), 1u);
  call("192.0.2.1");
  run_until_all_are_answered();
  EXPECT_EQ(told("192.0.2.1", ""), 5u);
}

TEST_F(CallsToDirectoryTest, OneAddressHasSoManyWrongPasswordsAndRightOnesAreGivenBack) {
  for (int i = 0; i < 100; ++i) {
    call("192.0.2.1", i < 50 ? "right" : "wrong");
    run_until_all_are_answered();
  }
  EXPECT_EQ(told("192.0.2.1", ""), 50u);
  EXPECT_EQ(told("192.0.2.1", "AccessDenied"), 32u);
  EXPECT_EQ(told("192.0.2.1", "SlowDown"), 18u);
  call("192.0.2.2");
  run_until_all_are_answered();
  EXPECT_EQ(told("192.0.2.2", ""), 1u);
}

// They were copied for every unsigned call, before it was known whether there is room for one more.
TEST_F(CallsToDirectoryTest, NobodysCertificatesAreLookedAtForAPassword) {
  call("192.0.2.1");
  run_until_all_are_answered();
  EXPECT_EQ(told("192.0.2.1", ""), 1u);
  EXPECT_EQ(chains_looked_at_, 0);
}

}  // namespace
}  // namespace verbena::iam
