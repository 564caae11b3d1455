#include "iam/query.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>

#include "call/request_facts.h"
#include "iam/admin.h"
#include "iam/operate.h"
#include "iam/parameters.h"
#include "iam/service.h"
#include "store/memory/test_store.h"

namespace verbena::iam {
namespace {

class FixedClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  int64_t now_s = 1'767'323'045;
};

class QueryTest : public testing::Test {
 protected:
  QueryTest() {
    char pattern[] = "/tmp/verbena-iam-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    auto opened = auth::IdentityStore::open(folder_ / "identities.json", *keys_, {"ROOT", "root secret", ""});
    EXPECT_TRUE(opened);
    store_ = std::move(*opened);
    caller_.request_id = "0123456789ABCDEF";
    caller_.peer_address = "192.0.2.1";
  }
  ~QueryTest() override { std::filesystem::remove_all(folder_); }

  auth::AccessKeyPtr key(const std::string& access_key, const std::string& token = "") {
    auto found = store_->find(access_key, token, clock_.now_s);
    EXPECT_TRUE(found) << access_key;
    return found ? *found : nullptr;
  }
  s3::Response ask(const std::string& form, const std::string& access_key = "ROOT", const std::string& token = "") {
    s3::Response response;
    const bool sts = form.starts_with("AssumeRole") || form.starts_with("GetSession") || form.starts_with("GetCaller");
    answer_query(*store_, {clock_, "here"}, caller_, *key(access_key, token),
                 Parameters::parse("Version=" + std::string(sts ? "2011-06-15" : "2010-05-08") + "&Action=" + form),
                 response);
    return response;
  }
  std::string code(const s3::Response& response) { return response.status == 200 ? "" : response.error_code; }
  static std::string element(const s3::Response& response, const std::string& name) {
    const size_t at = response.body.find("<" + name + ">");
    if (at == std::string::npos) return {};
    const size_t from = at + name.size() + 2;
    return response.body.substr(from, response.body.find('<', from) - from);
  }
  nlohmann::json admin(std::string_view call, const nlohmann::json& in, int status = 200) {
    s3::Response response;
    const auto marked = answer_admin(*store_, clock_, call, in.dump(), owners_, response);
    if (marked != nullptr) end_removal(*store_, marked, owners_, response);
    EXPECT_EQ(response.status, status) << response.body;
    return nlohmann::json::parse(response.body);
  }

  s3::Response serve_as_root(Service& service, Api api, const std::string& path, const std::string& query,
                             const std::string& body) {
    s3::Call of;
    s3::Request request{of};
    request.method = "POST";
    request.raw_path = path;
    request.raw_query = query;
    const auto root = key("ROOT");
    s3::Response response;
    boost::asio::io_context io;
    auto served =
        boost::asio::co_spawn(io, service.serve(api, request, *root, body, response), boost::asio::use_future);
    io.run();
    served.get();
    return response;
  }

  std::filesystem::path folder_;
  FixedClock clock_;
  std::unique_ptr<auth::KeyRing> keys_ = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> store_;
  s3::Call caller_;
  std::set<std::string> owners_;
};

TEST(Api, FormsPostedToTheRootAreCallsAndNothingElseIs) {
  const char* form = "application/x-www-form-urlencoded; charset=utf-8";
  EXPECT_EQ(api_of("POST", "/", form), Api::query);
  EXPECT_EQ(api_of("POST", "/", "Application/X-WWW-Form-Urlencoded"), Api::query);
  EXPECT_EQ(api_of("POST", "/bucket", form), Api::none);
  EXPECT_EQ(api_of("GET", "/", form), Api::none);
  EXPECT_EQ(api_of("POST", "/", "multipart/form-data; boundary=x"), Api::none);
  EXPECT_EQ(api_of("POST", "/", ""), Api::none);
  EXPECT_EQ(api_of("POST", "/-/admin/user-add", ""), Api::admin);
  EXPECT_EQ(api_of("GET", "/-/admin/", ""), Api::admin);
}

// A name with an escape was served, and logged as "iam:".
TEST(Api, ACallIsLoggedByTheNameByWhichItIsServed) {
  EXPECT_EQ(operation_of(Api::query, "/", "Action=CreateUser&UserName=a"), "iam:CreateUser");
  EXPECT_EQ(operation_of(Api::query, "/", "UserName=a&%41ction=%43reateAccessKey"), "iam:CreateAccessKey");
  EXPECT_EQ(operation_of(Api::query, "/", "UserName=a%26Action=DeleteUser&Action=CreateUser"), "iam:CreateUser");
  EXPECT_EQ(operation_of(Api::query, "/", "XAction=CreateUser&action=DeleteUser"), "iam:");
  EXPECT_EQ(operation_of(Api::query, "/", "Action=A%0AB"), "iam:A");
  EXPECT_EQ(operation_of(Api::query, "/", "Action=" + std::string(100, 'a')), "iam:" + std::string(64, 'a'));
  EXPECT_EQ(operation_of(Api::query, "/", "Action=A&Action=B"), "iam:") << "refused";
  EXPECT_EQ(operation_of(Api::admin, "/-/admin/user-add", "Action=A"), "admin:user-add");
  EXPECT_EQ(operation_of(Api::admin, "/-/admin/none/user-add", ""), "admin:none");
}

TEST(ParametersTest, NamesPathsAndTextsAreIams) {
  EXPECT_TRUE(is_name("a_B+=,.@-9", 64));
  for (const char* bad : {"", "a b", "a/b", "a:b", "\xc3\xa4"}) EXPECT_FALSE(is_name(bad, 64)) << bad;
  EXPECT_FALSE(is_name("abc", 2));
  EXPECT_TRUE(is_path("/") && is_path("/a/b/"));
  for (const char* bad : {"", "a", "/a", "a/", "/a b/"}) EXPECT_FALSE(is_path(bad)) << bad;
  EXPECT_TRUE(is_text("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 16));
  for (const char* bad : {"a\nb", "\xc3", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(is_text(bad, 16)) << bad;
  }
}

TEST(ParametersTest, UnknownParametersAndListsAreReported) {
  const auto parameters = Parameters::parse("A=1&L.member.1.x=a&L.member.2.x=b");
  ASSERT_TRUE(parameters);
  EXPECT_FALSE(parameters->find_fault(" A L.*.x "));
  EXPECT_FALSE(Parameters::parse("L=")->find_fault(" L.*.x ")) << "an empty list";
  EXPECT_FALSE(Parameters::parse("Action=a&Version=b")->find_fault(" "));
  const auto fault = [](const char* form, const char* known) { return Parameters::parse(form)->find_fault(known); };
  EXPECT_EQ(fault("L=a", " L.*.x "), "The parameter L is not served here.");
  EXPECT_EQ(fault("A=1&L.member.1.x=a", " A "), "The parameter L.member.1.x is not served here.");
  EXPECT_EQ(fault("A=1", " L.*.x "), "The parameter A is not served here.");
  EXPECT_EQ(*parameters->members("L", "x", 10), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(parameters->members("L", "x", 1));
  EXPECT_FALSE(Parameters::parse("A=1&A=2"));
}

// They were accepted and not read: AssumeRole gave credentials without the policies that were to limit them.
TEST(ParametersTest, MembersThatNobodyReadsAreRefused) {
  constexpr const char* known = " A L.*.x M.*.Key|Value V.* ";
  for (const char* form : {"L.member.2.x=b",
                           "L.member.0.x=a",
                           "L.member.1.x=a&L.member.3.x=b",
                           "L.member.1.X=a",
                           "L.member.1.y=a",
                           "L.member.1=a",
                           "L.member.1.=a",
                           "L.member.01.x=a",
                           "L.member.+1.x=a",
                           "L.member.1.x.y=a",
                           "L.member..x=a",
                           "L.member.x=a",
                           "L.x.1=a",
                           "L.1.x=a",
                           "L.member=a",
                           "l.member.1.x=a",
                           "L.member.99999999999999999999.x=a",
                           "L.%2A.x=a",
                           "L.%2A=a",
                           "L.=a",
                           "=a",
                           "V.member.1.x=a",
                           "V.member.1.=a",
                           "V.%2A=a",
                           "V.member.2=a",
                           "M.member.1.Key|Value=a",
                           "M.member.1.Key=a&M.member.3.Value=a",
                           "Lx=",
                           "L.member.1=",
                           "L.=",
                           "%2A="}) {
    const auto parameters = Parameters::parse(form);
    ASSERT_TRUE(parameters) << form;
    EXPECT_TRUE(parameters->find_fault(known)) << form;
  }
  for (const char* form : {"V.member.2=b&V.member.1=a", "M.member.1.Value=a&M.member.1.Key=b",
                           "M=&L=&V=&A=", "L.member.2.x=&L.member.1.x=&L.member.3.x="}) {
    EXPECT_FALSE(Parameters::parse(form)->find_fault(known)) << form;
  }
}

// The answer was not XML: it repeated invalid UTF-8.
TEST_F(QueryTest, WhatIsNotServedIsNamedInPrintableText) {
  for (const char* form : {"CreateUser&UserName=a&%FF%FE=1", "%FF%FE%01"}) {
    const s3::Response response = ask(form);
    EXPECT_NE(code(response), "");
    for (const char c : response.body) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << response.body;
  }
}

TEST_F(QueryTest, APolicysSizeIsWhatIsKept) {
  ask("CreateUser&UserName=a");
  const std::string put = "PutUserPolicy&UserName=a&PolicyName=p&PolicyDocument=";
  const auto document = [](const std::string& between, const std::string& resource) {
    return auth::uri_encode(
        "{" + between + R"("Statement": {"Effect":"Allow","Action":"s3:*","Resource":")" + resource + R"("}})", true);
  };
  EXPECT_EQ(code(ask(put + document(std::string(5000, ' '), R"(arn:aws:s3:::a b\"\\)"))), "");
  const auto kept = store_->account("000000000000")->users.find("a")->second.policy_set.inline_policies;
  EXPECT_EQ(kept.find("p")->second.text,
            R"({"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"arn:aws:s3:::a b\"\\"}})");
  EXPECT_EQ(code(ask(put + document("", "arn:aws:s3:::" + std::string(5000, ' ')))), "LimitExceeded");
}

TEST_F(QueryTest, AUserIsMovedOnlyToWhereTheCallerMayChangeUsers) {
  ask("CreateUser&UserName=boss");
  ask("CreateUser&UserName=a&Path=%2Fdev%2F");
  const std::string document =
      R"({"Statement":{"Effect":"Allow","Action":"iam:UpdateUser","Resource":"arn:aws:iam::*:user/dev/*"}})";
  EXPECT_EQ(code(ask("PutUserPolicy&UserName=boss&PolicyName=p&PolicyDocument=" + auth::uri_encode(document, true))),
            "");
  const std::string boss = element(ask("CreateAccessKey&UserName=boss"), "AccessKeyId");
  EXPECT_EQ(code(ask("UpdateUser&UserName=a&NewPath=%2Fadmin%2F", boss)), "AccessDenied");
  EXPECT_EQ(code(ask("UpdateUser&UserName=a&NewPath=%2F&NewUserName=b", boss)), "AccessDenied");
  EXPECT_EQ(code(ask("UpdateUser&UserName=a&NewPath=%2Fdev%2Fx%2F&NewUserName=b", boss)), "");
  EXPECT_EQ(element(ask("GetUser&UserName=b"), "Arn"), "arn:aws:iam::000000000000:user/dev/x/b");
}

TEST_F(QueryTest, AUserIsMadeShownAndGone) {
  EXPECT_EQ(element(ask("CreateUser&UserName=alice&Path=%2Fa%2F"), "Arn"), "arn:aws:iam::000000000000:user/a/alice");
  const auto shown = ask("GetUser&UserName=alice");
  EXPECT_EQ(element(shown, "CreateDate"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(element(shown, "RequestId"), "0123456789ABCDEF");
  EXPECT_NE(shown.body.find("<GetUserResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><GetUserResult>"),
            std::string::npos);
  EXPECT_EQ(code(ask("CreateUser&UserName=ALICE")), "EntityAlreadyExists");
  EXPECT_EQ(code(ask("DeleteUser&UserName=alice")), "");
  const auto gone = ask("GetUser&UserName=alice");
  EXPECT_EQ(code(gone), "NoSuchEntity");
  EXPECT_EQ(element(gone, "Message"), "The user with name alice cannot be found.");
  EXPECT_EQ(element(gone, "Type"), "Sender");
}

TEST_F(QueryTest, ASecretIsShownOnceAndNeverAgain) {
  ask("CreateUser&UserName=alice");
  const auto made = ask("CreateAccessKey&UserName=alice");
  const std::string secret = element(made, "SecretAccessKey");
  EXPECT_EQ(secret.size(), 40u);
  EXPECT_EQ(ask("ListAccessKeys&UserName=alice").body.find(secret), std::string::npos);
  EXPECT_EQ(key(element(made, "AccessKeyId"))->credentials.secret_key, secret);
}

TEST_F(QueryTest, WhatACallDoesNotKnowIsRefusedAndNotIgnored) {
  EXPECT_EQ(code(ask("CreateUser&UserName=a&PermissionsBoundary=x")), "ValidationError");
  EXPECT_EQ(code(ask("CreateUser&UserName=a&Tags.member.1.Key=x")), "ValidationError");
  EXPECT_EQ(code(ask("CreateUser")), "ValidationError");
  EXPECT_EQ(code(ask("DeleteGroup")), "ValidationError");
  EXPECT_EQ(code(ask("AssumeNothing")), "InvalidAction");
}

TEST_F(QueryTest, ASessionEndsWithItsHour) {
  const auto made = ask("GetSessionToken");  // of a root: an hour at most
  EXPECT_EQ(element(made, "Expiration"), "2026-01-02T04:04:05Z");
  const std::string id = element(made, "AccessKeyId"), token = element(made, "SessionToken");
  EXPECT_EQ(element(ask("GetCallerIdentity", id, token), "Arn"), "arn:aws:iam::000000000000:root");
  EXPECT_EQ(code(ask("CreateUser&UserName=a", id, token)), "AccessDenied");
  clock_.now_s += 3600;
  EXPECT_EQ(store_->find(id, token, clock_.now_s).error().code, Errc::expired_token);
}

TEST_F(QueryTest, ASessionsPoliciesAreReadOrTheCallIsRefused) {
  const std::string document =
      R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}})";
  ask("CreateRole&RoleName=r&AssumeRolePolicyDocument=" + auth::uri_encode(document, true));
  const std::string call = "AssumeRole&RoleArn=arn:aws:iam::000000000000:role/r&RoleSessionName=job";
  const std::string arn = "=arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess";
  EXPECT_EQ(code(ask(call + "&PolicyArns.member.1.arn" + arn)), "");
  for (const char* name : {"member.2.arn", "member.0.arn", "member.1.Arn", "member.1", "arn.1"}) {
    EXPECT_EQ(code(ask(call + "&PolicyArns." + name + arn)), "ValidationError") << name;
  }
  ask("CreateUser&UserName=u");
  EXPECT_EQ(code(ask("UntagUser&UserName=u&TagKeys.member.2=a")), "ValidationError");
  EXPECT_EQ(code(ask("TagUser&UserName=u&Tags.member.2.Key=a&Tags.member.2.Value=b")), "ValidationError");
}

TEST_F(QueryTest, AConditionOnTheExternalIdHolds) {
  ask("CreateRole&RoleName=r&AssumeRolePolicyDocument=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%7B%"
      "22Effect%22%3A"
      "%22Allow%22%2C%22Principal%22%3A%22%2A%22%2C%22Action%22%3A%22sts%3AAssumeRole%22%2C%22Condition%22%3A%7B%"
      "22StringEquals"
      "%22%3A%7B%22sts%3AExternalId%22%3A%22me%22%7D%7D%7D%7D");
  const std::string call = "AssumeRole&RoleArn=arn:aws:iam::000000000000:role/r&RoleSessionName=job";
  EXPECT_EQ(code(ask(call)), "AccessDenied");
  EXPECT_EQ(code(ask(call + "&ExternalId=you")), "AccessDenied");
  EXPECT_EQ(element(ask(call + "&ExternalId=me"), "Arn"), "arn:aws:sts::000000000000:assumed-role/r/job");
}

TEST_F(QueryTest, TheAdminApiMakesAccountsAndKeepsThoseWithBuckets) {
  const auto made = admin("user-add", {{"name", "acme"}, {"id", "testid"}});
  EXPECT_EQ(made["id"], "testid");
  const std::string longest(128, 'i');  // as RGW's tenant$id may be
  EXPECT_EQ(admin("user-add", {{"name", "tenant"}, {"id", longest}})["id"], longest);
  EXPECT_EQ(key(made["access_key"])->principal->account->canonical_id, "testid");
  owners_ = {"testid"};
  EXPECT_EQ(admin("user-rm", {{"name", "acme"}}, 409)["error"]["code"], "DeleteConflict");
  owners_.clear();
  admin("user-rm", {{"name", "acme"}});
  EXPECT_EQ(admin("user-rm", {{"name", "acme"}}, 404)["error"]["code"], "NoSuchEntity");
  EXPECT_FALSE(store_->find(made["access_key"].get<std::string>(), "", clock_.now_s));
}

TEST_F(QueryTest, TheAdminApiTakesNoNonsense) {
  for (const nlohmann::json& in :
       {nlohmann::json::array(), nlohmann::json(1), nlohmann::json::object(), nlohmann::json{{"name", 1}},
        nlohmann::json{{"name", ""}}, nlohmann::json{{"name", "a/"}}, nlohmann::json{{"name", "/a"}},
        nlohmann::json{{"name", "a/b/c"}}, nlohmann::json{{"name", "acme"}, {"id", "a\nb"}},
        nlohmann::json{{"name", "toolong"}, {"id", std::string(129, 'i')}},
        nlohmann::json{{"name", "acme"}, {"access_key", "AKONLY"}},
        nlohmann::json{{"name", "acme"}, {"access_key", "AK\xc3\xa4"}, {"secret_key", "12345678"}},
        nlohmann::json{{"name", "acme"}, {"email", 1}}}) {
    EXPECT_EQ(admin("user-add", in, 400)["error"]["code"], "ValidationError") << in;
  }
  EXPECT_EQ(admin("nothing", nlohmann::json::object(), 400)["error"]["code"], "InvalidAction");
  EXPECT_EQ(store_->accounts()->size(), 1u);
}

// A denial by the user agent held at S3 and not here.
TEST_F(QueryTest, ARequestHasTheSameConditionKeysAsAtS3) {
  const s3::Headers headers = {{"user-agent", "tool/1"}, {"referer", "https://page"}};
  caller_.facts = {.http = true, .headers = headers};
  EXPECT_EQ(code(ask("CreateUser&UserName=u")), "");
  const std::string access_key = element(ask("CreateAccessKey&UserName=u"), "AccessKeyId");
  const auto deny = [&](const std::string& condition) {
    const std::string document =
        R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},)"
        R"({"Effect":"Deny","Action":"*","Resource":"*","Condition":)" +
        condition + "}]}";
    EXPECT_EQ(code(ask("PutUserPolicy&UserName=u&PolicyName=p&PolicyDocument=" + auth::uri_encode(document, false))),
              "")
        << condition;
  };
  const auto may = [&] {
    const bool operates = may_operate(caller_, *key(access_key), "admin:ServerInfo", {clock_, "here"}).has_value();
    EXPECT_EQ(code(ask("ListUsers", access_key)), operates ? "" : "AccessDenied");
    return operates;
  };
  for (const std::string_view name : call::request_keys()) {
    for (const bool denied_without : {false, true}) {
      deny(R"({"Null":{")" + std::string(name) + R"(":")" + (denied_without ? "true" : "false") + "\"}}");
      EXPECT_EQ(may(), denied_without) << name;
    }
  }
  for (const char* equal : {R"("aws:UserAgent":"tool/1")", R"("aws:Referer":"https://page")",
                            R"("aws:RequestedRegion":"here")", R"("aws:ResourceAccount":"000000000000")"}) {
    deny(R"({"StringEquals":{)" + std::string(equal) + "}}");
    EXPECT_FALSE(may()) << equal;
    deny(R"({"StringNotEquals":{)" + std::string(equal) + "}}");
    EXPECT_TRUE(may()) << equal;
  }
}

// A Deny by a tag did not match: calls of IAM had no tags among their condition keys.
TEST_F(QueryTest, PoliciesAskForTheTagsOfACallAndOfItsItem) {
  ask("CreateUser&UserName=boss");
  const std::string boss = element(ask("CreateAccessKey&UserName=boss"), "AccessKeyId");
  const auto deny_if = [&](const std::string& condition) {
    const std::string document =
        R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["iam:*","sts:*"],"Resource":"*"},)"
        R"({"Effect":"Deny","Action":["iam:*","sts:*"],"Resource":"*","Condition":{)" +
        condition + "}}]}";
    EXPECT_EQ(code(ask("PutUserPolicy&UserName=boss&PolicyName=p&PolicyDocument=" + auth::uri_encode(document, false))),
              "")
        << condition;
  };
  const std::string trust = "&AssumeRolePolicyDocument=" +
                            auth::uri_encode(R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":)"
                                             R"({"AWS":"000000000000"},"Action":"sts:AssumeRole"}})",
                                             true);
  const std::string document =
      "&PolicyDocument=" + auth::uri_encode(R"({"Version":"2012-10-17","Statement":)"
                                            R"({"Effect":"Allow","Action":"*","Resource":"*"}})",
                                            true);
  const auto tags = [](const std::string& key, const std::string& value) {
    return "&Tags.member.1.Key=" + key + "&Tags.member.1.Value=" + value;
  };
  for (const std::string call :
       {"CreateUser&UserName=u", "CreateRole&RoleName=r", "CreatePolicy&PolicyName=p", "TagUser&UserName=u",
        "TagRole&RoleName=r", "TagPolicy&PolicyArn=arn:aws:iam::000000000000:policy/p",
        "CreateOpenIDConnectProvider&Url=https://idp.example.org/a",
        "TagOpenIDConnectProvider&OpenIDConnectProviderArn=arn:aws:iam::000000000000:oidc-provider/idp.example.org/"
        "a"}) {
    const std::string more = call.starts_with("CreateRole") ? trust : call.starts_with("CreatePolicy") ? document : "";
    deny_if(R"("StringEquals":{"aws:RequestTag/Team":"red"})");
    EXPECT_EQ(code(ask(call + more + tags("team", "red"), boss)), "AccessDenied") << call;
    deny_if(R"("ForAnyValue:StringEquals":{"aws:TagKeys":"team"})");
    EXPECT_EQ(code(ask(call + more + tags("team", "blue"), boss)), "AccessDenied") << call;
    EXPECT_EQ(code(ask(call + more + tags("cost", "red"), boss)), "") << call;
  }
  ask("TagUser&UserName=u" + tags("team", "red"));
  ask("TagRole&RoleName=r" + tags("team", "red"));
  ask("TagPolicy&PolicyArn=arn:aws:iam::000000000000:policy/p" + tags("team", "red"));
  ask("TagOpenIDConnectProvider&OpenIDConnectProviderArn=arn:aws:iam::000000000000:oidc-provider/idp.example.org/a" +
      tags("team", "red"));
  const std::vector<std::string> of_items = {
      "GetUser&UserName=u",
      "CreateAccessKey&UserName=u",
      "UntagUser&UserName=u&TagKeys.member.1=team",
      "GetRole&RoleName=r",
      "AssumeRole&RoleArn=arn:aws:iam::000000000000:role/r&RoleSessionName=job",
      "GetPolicy&PolicyArn=arn:aws:iam::000000000000:policy/p",
      "GetOpenIDConnectProvider&OpenIDConnectProviderArn=arn:aws:iam::000000000000:oidc-provider/idp.example.org/a",
      "UpdateUser&UserName=u&NewUserName=w"};
  for (const std::string key : {"aws:ResourceTag/team", "iam:ResourceTag/team"}) {
    deny_if(R"("StringEquals":{")" + key + R"(":"red"})");
    for (const std::string& call : of_items) EXPECT_EQ(code(ask(call, boss)), "AccessDenied") << key << call;
    EXPECT_EQ(code(ask("GetUser", boss)), "") << key;
    ask("TagUser&UserName=boss" + tags("team", "red"));
    EXPECT_EQ(code(ask("GetUser", boss)), "AccessDenied") << key;
    ask("UntagUser&UserName=boss&TagKeys.member.1=team");
  }
  deny_if(R"("ForAnyValue:StringEquals":{"aws:TagKeys":"team"})");
  EXPECT_EQ(code(ask("UntagUser&UserName=u&TagKeys.member.1=team", boss)), "AccessDenied");
  deny_if(R"("StringEquals":{"aws:ResourceTag/team":"blue"})");
  for (const std::string& call : of_items) EXPECT_EQ(code(ask(call, boss)), "") << call;
}

// A store in which an account's bucket appears between one list of all buckets and the next one.
class LateBucket final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  std::string owner;  // of that bucket; empty: none appears
  std::optional<Errc> later_error;
  std::function<void(const boost::asio::any_io_executor&)> before_second_list;
  int lists = 0;

  Task<Result<std::vector<store::BucketInfo>>> buckets() override {
    if (lists == 1 && before_second_list) before_second_list(co_await boost::asio::this_coro::executor);
    if (++lists > 1 && later_error) co_return fail(*later_error, "buckets");
    auto now = co_await TestStore::buckets();
    if (owner.empty()) co_return now;
    store::BucketInfo late;
    late.name = "late";
    late.owner = std::exchange(owner, "");
    (void)co_await create_bucket(std::move(late));
    co_return now;
  }
};

// The bucket stayed, of an account that was gone.
TEST_F(QueryTest, AnAccountWhoseBucketComesWhileItIsRemovedStays) {
  const auto arena = memory::Arena::create(16 * MiB).value();
  LateBucket buckets(*arena);
  BlockingPool changes(1, 256);
  Service service(*store_, buckets, changes, clock_, "here");
  const auto ask_service = [&](const std::string& call, const nlohmann::json& in) {
    return serve_as_root(service, Api::admin, "/-/admin/" + call, "", in.dump());
  };
  const auto made = admin("user-add", {{"name", "acme"}, {"id", "acme-id"}});
  admin("user-add", {{"name", "acme/ann"}});
  const auto before = auth::encode_accounts(*store_->accounts());
  buckets.owner = "acme-id";
  EXPECT_EQ(code(ask_service("user-rm", {{"name", "acme"}})), "DeleteConflict");
  EXPECT_EQ(auth::encode_accounts(*store_->accounts()), before) << "with all that is in it";
  EXPECT_EQ(key(made["access_key"])->principal->account->canonical_id, "acme-id");
  EXPECT_EQ(code(ask_service("user-rm", {{"name", "acme"}})), "DeleteConflict");
  admin("user-add", {{"name", "other"}});
  buckets.lists = 0;
  buckets.later_error = Errc::io_error;
  EXPECT_EQ(code(ask_service("user-rm", {{"name", "other"}})), "InternalError") << "whether it is removed is unknown";
  EXPECT_NE(store_->account_named("other"), nullptr);
  buckets.later_error.reset();
  EXPECT_EQ(code(ask_service("user-rm", {{"name", "other"}})), "");
  EXPECT_EQ(store_->account_named("other"), nullptr);
}

// The account was erased, and what should have put it back was refused.
TEST_F(QueryTest, AnAccountWhoseBucketComesStaysWhileThePoolIsFull) {
  const auto arena = memory::Arena::create(16 * MiB).value();
  LateBucket buckets(*arena);
  BlockingPool changes(1, 2);
  Service service(*store_, buckets, changes, clock_, "here");
  const auto made = admin("user-add", {{"name", "acme"}, {"id", "acme-id"}});
  buckets.owner = "acme-id";
  std::promise<void> gate, begun;
  const auto opened = gate.get_future().share();
  buckets.before_second_list = [&](const auto& executor) {
    const auto hold = [&begun, opened] {
      begun.set_value();
      opened.wait();
    };
    EXPECT_TRUE(changes.submit("test", hold));
    begun.get_future().wait();
    while (changes.submit("test", [] {})) {
    }
    boost::asio::post(executor, [&gate] { gate.set_value(); });
  };
  const std::string in = nlohmann::json{{"name", "acme"}}.dump();
  EXPECT_EQ(code(serve_as_root(service, Api::admin, "/-/admin/user-rm", "", in)), "DeleteConflict");
  EXPECT_EQ(key(made["access_key"])->principal->account->canonical_id, "acme-id");
}

// A server that died between the two changes lost it.
TEST_F(QueryTest, AnAccountThatIsBeingRemovedIsGoneForCallersAndKeptByAStart) {
  const auto made = admin("user-add", {{"name", "acme"}, {"id", "acme-id"}, {"email", "a@example.org"}});
  const std::string access_key = made["access_key"];
  const auto before = auth::encode_accounts(*store_->accounts());
  s3::Response response;
  const auto marked = answer_admin(*store_, clock_, "user-rm", R"({"name":"acme"})", {}, response);
  ASSERT_NE(marked, nullptr);
  const auto refused = [&] {
    return !store_->find(access_key, "", clock_.now_s) && store_->by_canonical_id("acme-id") == nullptr &&
           store_->by_email("a@example.org") == nullptr && store_->by_id(marked->account->id) == nullptr;
  };
  EXPECT_TRUE(refused());
  admin("user-add", {{"name", "acme"}}, 409);
  admin("user-add", {{"name", "b"}, {"id", "acme-id"}}, 409);
  store_ = auth::IdentityStore::open(folder_ / "identities.json", *keys_, {"ROOT", "root secret", ""}).value();
  EXPECT_TRUE(refused()) << "the mark is in the file";
  EXPECT_EQ(store_->end_removals().value(), 1U);
  EXPECT_FALSE(refused());
  EXPECT_EQ(auth::encode_accounts(*store_->accounts()), before);
  end_removal(*store_, marked, std::set<std::string>(), response);
  EXPECT_EQ(code(response), "DeleteConflict") << "its mark is gone, and a bucket may have come";
  EXPECT_NE(store_->account_named("acme"), nullptr);
  EXPECT_EQ(store_->end_removals().value(), 0U);
}

TEST_F(QueryTest, OfTwoRemovalsOfAnAccountTheLaterOneEndsIt) {
  admin("user-add", {{"name", "acme"}});
  s3::Response first, second;
  const auto one = answer_admin(*store_, clock_, "user-rm", R"({"name":"acme"})", {}, first);
  const auto two = answer_admin(*store_, clock_, "user-rm", R"({"name":"acme"})", {}, second);
  end_removal(*store_, one, std::set<std::string>(), first);
  EXPECT_EQ(code(first), "DeleteConflict");
  EXPECT_NE(store_->account_named("acme"), nullptr);
  end_removal(*store_, two, std::set<std::string>(), second);
  EXPECT_EQ(code(second), "");
  EXPECT_EQ(store_->account_named("acme"), nullptr);
}

// Accounts that other servers change, too.
class BusyText final : public auth::SharedText {
 public:
  Result<std::optional<std::string>> read() override { return text_; }
  Result<bool> replace(const std::optional<std::string>&, const std::string& text) override {
    if (lost > 0) {
      --lost;
      return false;
    }
    text_ = text;
    if (store == nullptr) return true;
    EXPECT_TRUE(store->take(text_));
    return true;
  }
  int lost = 0;  // so many changes are still to lose to another server's
  auth::IdentityStore* store = nullptr;

 private:
  std::optional<std::string> text_;
};

TEST_F(QueryTest, AnAccountStaysThoughOtherServersChangeTheAccounts) {
  BusyText text;
  store_ = auth::IdentityStore::open(text, *keys_, {"ROOT", "root secret", ""}).value();
  text.store = store_.get();
  const auto arena = memory::Arena::create(16 * MiB).value();
  LateBucket buckets(*arena);
  BlockingPool changes(1, 256);
  Service service(*store_, buckets, changes, clock_, "here");
  const std::string in = nlohmann::json{{"name", "acme"}}.dump();
  const auto remove = [&](int lost) {
    buckets.lists = 0;
    buckets.before_second_list = [&text, lost](const auto&) { text.lost = lost; };
    return code(serve_as_root(service, Api::admin, "/-/admin/user-rm", "", in));
  };
  const auto made = admin("user-add", {{"name", "acme"}, {"id", "acme-id"}});
  buckets.owner = "acme-id";
  EXPECT_EQ(remove(3), "DeleteConflict");
  EXPECT_EQ(key(made["access_key"])->principal->account->canonical_id, "acme-id");
  s3::Response response;
  const auto marked = answer_admin(*store_, clock_, "user-rm", in, {}, response);
  text.lost = 1000;
  end_removal(*store_, marked, std::set<std::string>(), response);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(text.lost, 1000 - 8) << "tries are bounded";
  text.lost = 0;
  EXPECT_NE(store_->account_named("acme"), nullptr);
  EXPECT_EQ(store_->end_removals().value(), 1U);
  EXPECT_NE(store_->by_canonical_id("acme-id"), nullptr);
}

// Those in the URL were ignored, and could be limits.
TEST_F(QueryTest, ParametersAreInTheFormOrTheCallIsRefused) {
  const auto arena = memory::Arena::create(16 * MiB).value();
  store::in_memory::TestStore buckets(*arena);
  BlockingPool changes(1, 256);
  Service service(*store_, buckets, changes, clock_, "here");
  const std::string form = "Version=2010-05-08&Action=CreateUser&UserName=a";
  const auto refused = serve_as_root(service, Api::query, "/", "Path=/x/", form);
  EXPECT_EQ(code(refused), "ValidationError");
  EXPECT_NE(element(refused, "Message").find("URL"), std::string::npos);
  EXPECT_EQ(code(serve_as_root(service, Api::query, "/", "", form)), "");
  const std::string in_url = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260102T030405Z&X-Amz-Signature=ab";
  const std::string other = "Version=2010-05-08&Action=CreateUser&UserName=b";
  EXPECT_EQ(code(serve_as_root(service, Api::query, "/", in_url + "&Path=/x/", other)), "ValidationError");
  EXPECT_EQ(code(serve_as_root(service, Api::query, "/", in_url + "&a=%", other)), "ValidationError");
  EXPECT_EQ(code(serve_as_root(service, Api::query, "/", in_url, other)), "") << "a signature";
}

// Changes are made one after the other. One account's must not be all that others wait for, and what changes nothing
// does not wait for them at all.
TEST_F(QueryTest, OneAccountsChangesLeaveOthersTheirTurns) {
  const auto evil = key(admin("user-add", {{"name", "evil"}})["access_key"]);
  const auto good = key(admin("user-add", {{"name", "good"}})["access_key"]);
  const auto arena = memory::Arena::create(16 * MiB).value();
  store::in_memory::TestStore buckets(*arena);
  BlockingPool changes(1, 256);
  Service service(*store_, buckets, changes, clock_, "here");
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  struct Answer {
    s3::Response response{};
    bool there = false;
  };
  std::deque<Answer> answers;
  boost::asio::io_context io;
  s3::Call of;
  of.request_id = "0123456789ABCDEF";
  const s3::Request request{of};
  const auto serve = [&](auth::AccessKeyPtr by, std::string form, Answer& answer) -> Task<void> {
    co_await service.serve(Api::query, request, *by, form, answer.response);
    answer.there = true;
  };
  const auto send = [&](const auth::AccessKeyPtr& by, const std::string& call) -> const Answer& {
    Answer& answer = answers.emplace_back();
    boost::asio::co_spawn(io, serve(by, "Version=" + call, answer), boost::asio::detached);
    return answer;
  };
  const auto succeeded = [](const Answer& answer) { return answer.there && answer.response.status == 200; };
  const auto run_until = [&](const std::function<bool()>& done) {
    for (int i = 0; i < 10'000 && !done(); ++i) {
      io.run_for(std::chrono::milliseconds(1));
      io.restart();
    }
    return done();
  };
  const auto block = [&]() -> Task<void> {
    auto wait = [opened]() -> Result<bool> {
      opened.wait();
      return true;
    };
    (void)co_await changes.run("test", std::move(wait));
  };
  boost::asio::co_spawn(io, block(), boost::asio::detached);

  std::vector<const Answer*> made;
  for (size_t i = 0; i < 2 * calls_of_account_max; ++i) {
    made.push_back(&send(evil, "2010-05-08&Action=CreateUser&UserName=u" + std::to_string(i)));
  }
  const auto refused = [&] {
    return std::ranges::count_if(made, [](auto* one) { return one->there && one->response.status == 503; });
  };
  EXPECT_TRUE(run_until([&] { return refused() == static_cast<ptrdiff_t>(calls_of_account_max); }));
  const auto& who = send(good, "2011-06-15&Action=GetCallerIdentity");
  const auto& all = send(good, "2010-05-08&Action=ListUsers");
  EXPECT_TRUE(run_until([&] { return succeeded(who) && succeeded(all); })) << "behind the changes";
  const auto& change = send(good, "2010-05-08&Action=CreateUser&UserName=ann");
  gate.set_value();
  EXPECT_TRUE(run_until([&] { return std::ranges::all_of(answers, &Answer::there); }));
  EXPECT_TRUE(succeeded(change));
  EXPECT_EQ(refused(), static_cast<ptrdiff_t>(calls_of_account_max));
}

}  // namespace
}  // namespace verbena::iam
