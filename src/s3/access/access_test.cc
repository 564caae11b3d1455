// Who may do what, asked through the router: lists, policies, ownership, the public access block.
#include "s3/access/access.h"

#include "auth/auth.h"
#include "s3/access/authorize.h"
#include "s3/test_rig.h"

namespace verbena::s3 {
namespace {

using test::base64_digest;
using test::Call;
using test::Reply;

auth::AccountPtr make_account(std::string id, std::string canonical_id) {
  return std::make_shared<auth::Account>(
      auth::Account{std::move(id), canonical_id, canonical_id + "-name", canonical_id + "@example.com"});
}
const auth::AccountPtr alice = make_account("111111111111", "alice"), bob = make_account("222222222222", "bob");

class Directory : public auth::AccountDirectory {
 public:
  auth::AccountPtr by_canonical_id(std::string_view id) const override {
    return find(&auth::Account::canonical_id, id);
  }
  auth::AccountPtr by_email(std::string_view email) const override { return find(&auth::Account::email, email); }
  auth::AccountPtr by_id(std::string_view id) const override { return find(&auth::Account::id, id); }

 private:
  static auth::AccountPtr find(std::string auth::Account::* field, std::string_view value) {
    for (const auto& account : {alice, bob}) {
      if (account.get()->*field == value) return account;
    }
    return nullptr;
  }
};

auth::PrincipalPtr root_of(const auth::AccountPtr& account) {
  auth::Principal principal;
  principal.account = account;
  principal.arn = "arn:aws:iam::" + account->id + ":root";
  principal.user_id = account->id;
  return std::make_shared<auth::Principal>(principal);
}

auth::PrincipalPtr user_of(const auth::AccountPtr& account, const std::string& name, const std::string& statement) {
  auth::Principal principal;
  principal.kind = auth::Principal::Kind::user;
  principal.account = account;
  principal.arn = "arn:aws:iam::" + account->id + ":user/" + name;
  principal.user_id = "AIDA" + name;
  principal.name = name;
  if (!statement.empty()) {
    auto policy =
        auth::parse_policy(R"({"Version":"2012-10-17","Statement":)" + statement + "}", auth::PolicyKind::identity);
    EXPECT_TRUE(policy) << (policy ? "" : policy.error().context);
    principal.policies.push_back(*policy);
  }
  return std::make_shared<auth::Principal>(principal);
}

class AccessTest : public test::Rig {
 protected:
  AccessTest() {
    service.accounts = &directory_;
    as(alice_, "PUT", "/bucket");
    as(alice_, "PUT", "/bucket/key", "text");
  }
  Reply as(const auth::PrincipalPtr& who, const std::string& method, const std::string& target, std::string body = {},
           Headers headers = {}) {
    Call c;
    c.method = method;
    c.target = target;
    c.body = std::move(body);
    c.headers = std::move(headers);
    c.anonymous = who == nullptr;
    c.principal = who;
    return call(std::move(c));
  }
  int status(const auth::PrincipalPtr& who, const std::string& method, const std::string& target,
             Headers headers = {}) {
    return as(who, method, target, method == "PUT" ? "body" : "", std::move(headers)).status;
  }
  Reply policy(const std::string& statement, Headers headers = {}) {
    return as(alice_, "PUT", "/bucket?policy", R"({"Version":"2012-10-17","Statement":)" + statement + "}",
              std::move(headers));
  }
  static std::string allow(const std::string& principal, const std::string& action, const std::string& rest = "") {
    return R"({"Effect":"Allow","Principal":)" + principal + R"(,"Action":")" + action +
           R"(","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"])" + rest + "}";
  }
  static std::string acl(const std::string& owner, const std::string& grants) {
    return "<AccessControlPolicy><Owner><ID>" + owner + "</ID></Owner><AccessControlList>" + grants +
           "</AccessControlList></AccessControlPolicy>";
  }
  static std::string grant_to(const std::string& id, const std::string& permission) {
    return "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>" +
           id + "</ID></Grantee><Permission>" + permission + "</Permission></Grant>";
  }

  Directory directory_;
  const auth::PrincipalPtr alice_ = root_of(alice), bob_ = root_of(bob), nobody_ = nullptr;
};

TEST_F(AccessTest, ABucketIsItsOwnersAlone) {
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(auth::superuser(), "GET", "/bucket/key"), 200);
  for (const auto& who : {bob_, nobody_}) {
    for (const char* target : {"/bucket", "/bucket?acl", "/bucket?versions", "/bucket?uploads", "/bucket?policy",
                               "/bucket?location", "/bucket?lifecycle", "/bucket/key", "/bucket/key?acl",
                               "/bucket/key?tagging", "/bucket/none", "/bucket/none?tagging"}) {
      EXPECT_EQ(status(who, "GET", target), 403) << target;
    }
    for (const char* target :
         {"/bucket/key", "/bucket/new", "/bucket?acl", "/bucket/key?acl", "/bucket?policy", "/bucket?versioning"}) {
      EXPECT_EQ(status(who, "PUT", target), 403) << target;
    }
    const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    EXPECT_EQ(as(who, "PUT", "/bucket/key?tagging", tags).status, 403);
    EXPECT_EQ(as(who, "PUT", "/bucket/none?tagging", tags).status, 403);
    EXPECT_EQ(as(who, "PUT", "/bucket/key?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>").status, 403);
    for (const char* target : {"/bucket", "/bucket/key", "/bucket/none", "/bucket?policy"}) {
      EXPECT_EQ(status(who, "DELETE", target), 403) << target;
    }
    EXPECT_EQ(status(who, "HEAD", "/bucket/key"), 403);
    EXPECT_EQ(as(who, "POST", "/bucket/new?uploads").code, "AccessDenied");
  }
  EXPECT_EQ(status(bob_, "GET", "/no-bucket/key"), 404);
}

TEST_F(AccessTest, BucketsAreListedToTheirOwner) {
  EXPECT_EQ(as(alice_, "GET", "/").count("<Bucket>"), 1u);
  EXPECT_EQ(as(alice_, "GET", "/").element("DisplayName"), "alice-name");
  EXPECT_EQ(as(bob_, "GET", "/").count("<Bucket>"), 0u);
  EXPECT_EQ(status(nobody_, "GET", "/"), 403);
  EXPECT_EQ(as(bob_, "PUT", "/bucket").code, "BucketAlreadyExists");
  EXPECT_EQ(as(alice_, "PUT", "/bucket").status, 200);
}

TEST_F(AccessTest, CannedListsOpenABucketAndItsObjects) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/none"), 404);  // who may list may know
  EXPECT_EQ(status(nobody_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "authenticated-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key?acl"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read-write"}}), 200);
  EXPECT_EQ(status(nobody_, "PUT", "/bucket/new"), 200);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/bobs"), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/bobs"), 403);  // its writer owns it
  EXPECT_EQ(status(bob_, "GET", "/bucket/bobs"), 200);
  EXPECT_EQ(as(bob_, "GET", "/bucket/bobs?acl").element("ID"), "bob");
  EXPECT_EQ(as(alice_, "GET", "/bucket").count("<ID>bob</ID>"), 1u);
  EXPECT_EQ(status(bob_, "DELETE", "/bucket/bobs"), 204);
}

TEST_F(AccessTest, GrantsOfHeadersAndDocuments) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-grant-read", "id=bob"}}), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 200);
  EXPECT_EQ(
      as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("bob", "READ_ACP") + grant_to("alice", "FULL_CONTROL")))
          .status,
      200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  const Reply read = as(bob_, "GET", "/bucket?acl");
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(read.count("<Grant>"), 2u);
  EXPECT_EQ(read.count("<DisplayName>bob-name</DisplayName>"), 1u);
  EXPECT_EQ(
      status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-grant-full-control", "emailAddress=\"Bob@example.com\""}}),
      200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?acl", acl("alice", grant_to("bob", "READ_ACP"))).status, 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key?acl"), 200);
}

TEST_F(AccessTest, RefusesListsThatNameNoOne) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("_foo", "READ"))).code, "InvalidArgument");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-grant-read", "emailAddress=x@y"}}).code,
            "UnresolvableGrantByEmailAddress");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("bob", grant_to("bob", "READ"))).code, "AccessDenied");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "<x/>").code, "MalformedACLError");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", grant_to("bob", "EVERYTHING"))).code, "MalformedACLError");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-acl", "private"}, {"x-amz-grant-read", "id=bob"}}).code,
            "InvalidRequest");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-grant-read", "uri=http://example.com/x"}}).code,
            "InvalidArgument");
}

TEST_F(AccessTest, AnOwnerWhoTakesItsOwnGrantsKeepsTheList) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", acl("alice", "")).status, 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket?acl"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new"), 200);
}

TEST_F(AccessTest, APolicyHoldsAtOnce) {
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policyStatus").element("IsPublic"), "true");
  EXPECT_EQ(
      policy(allow(R"({"AWS":"222222222222"})", "s3:ListBucket", R"(,"Condition":{"StringLike":{"s3:prefix":"a*"}})"))
          .status,
      204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket?prefix=ab"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policyStatus").element("IsPublic"), "false");
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(bob_, "GET", "/bucket?prefix=ab"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policy").code, "NoSuchBucketPolicy");
}

TEST_F(AccessTest, RefusesPoliciesThatAreNotTheBuckets) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?policy", "{").code, "MalformedPolicy");
  EXPECT_EQ(policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::other/*"})").code,
            "MalformedPolicy");
  EXPECT_EQ(policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:Fly","Resource":"arn:aws:s3:::bucket/*"})").code,
            "MalformedPolicy");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?policy", std::string(30 * KiB, ' ')).code, "MalformedPolicy");
}

TEST_F(AccessTest, TheOwnersRootIsDeniedButNotLockedOut) {
  const std::string deny = R"({"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket",)"
                           R"("arn:aws:s3:::bucket/*"]})";
  EXPECT_EQ(policy(deny).status, 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(auth::superuser(), "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket?policy"), 403);
  EXPECT_EQ(policy(deny, {{"x-amz-confirm-remove-self-bucket-access", "true"}}).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 403);
  EXPECT_EQ(status(auth::superuser(), "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
}

TEST_F(AccessTest, UsersHaveWhatTheirPoliciesAllow) {
  const auto none = user_of(alice, "none", "");
  const auto reader =
      user_of(alice, "reader", R"({"Effect":"Allow","Action":"s3:Get*","Resource":"arn:aws:s3:::bucket/k*"})");
  const auto abroad = user_of(bob, "abroad", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  EXPECT_EQ(status(none, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(reader, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(reader, "GET", "/bucket/other"), 403);
  EXPECT_EQ(status(reader, "PUT", "/bucket/key"), 403);
  EXPECT_EQ(status(abroad, "GET", "/bucket/key"), 403);
  EXPECT_EQ(policy(allow(R"({"AWS":["222222222222","arn:aws:iam::111111111111:user/none"]})", "s3:GetObject")).status,
            204);
  EXPECT_EQ(status(abroad, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(none, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(abroad, "PUT", "/bucket/key"), 403);
  EXPECT_EQ(status(none, "GET", "/"), 403);
  EXPECT_EQ(status(abroad, "GET", "/"), 200);
}

TEST_F(AccessTest, AWriterNeedsTheRightToWhatComesWithTheObject) {
  const auto writer = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:PutObject","Resource":"*"})");
  EXPECT_EQ(status(writer, "PUT", "/bucket/new"), 200);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(writer, "PUT", "/bucket/new", {{"x-amz-tagging", "a=b"}}), 403);
}

TEST_F(AccessTest, ConditionsLookAtTheRequest) {
  const auto only_if = [&](const std::string& condition) {
    EXPECT_EQ(policy(allow("\"*\"", "s3:*", R"(,"Condition":)" + condition)).status, 204) << condition;
  };
  only_if(R"({"StringEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}})");
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/new"), 200);
  only_if(R"({"StringEquals":{"s3:RequestObjectTag/team":"red"}})");
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-tagging", "team=blue"}}), 403);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-tagging", "team=red"}}), 200);
  only_if(R"({"StringEquals":{"s3:ExistingObjectTag/open":"yes"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-tagging", "open=yes"}}), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  only_if(R"({"IpAddress":{"aws:SourceIp":"127.0.0.0/8"},"StringLike":{"aws:Referer":"http://a/*"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key", {{"referer", "http://a/b"}}), 200);
  only_if(R"({"NumericLessThanEquals":{"s3:max-keys":"5"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket?max-keys=5"), 200);
  only_if(R"({"Bool":{"aws:SecureTransport":"true"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
}

TEST_F(AccessTest, ThePayloadsHashIsTheOneThatWasVerified) {
  EXPECT_EQ(policy(R"({"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*",)"
                   R"("Condition":{"StringEquals":{"s3:x-amz-content-sha256":"UNSIGNED-PAYLOAD"}}})")
                .status,
            204);
  const std::string hash(64, 'a');
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-content-sha256", hash}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s&X-Amz-Content-Sha256=" + hash), 200);
  // What the URL says is what was signed.
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD",
                   {{"x-amz-content-sha256", hash}}),
            403);
}

TEST_F(AccessTest, AChangeIsOfTheVersionThatWasAskedAbout) {
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:PutObjectTagging",
                         R"(,"Condition":{"StringEquals":{"s3:ExistingObjectTag/open":"yes"}})"))
                .status,
            204);
  const Headers open = {{"x-amz-tagging", "open=yes"}};
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", open), 200);
  const std::string tags = "<Tagging><TagSet><Tag><Key>open</Key><Value>bob</Value></Tag></TagSet></Tagging>";
  store::Tags written;
  store.before_update = [&]() -> Task<> {
    auto writer = co_await store.create("bucket", "key", 0);
    store::ObjectInfo info;
    info.tags = written;
    store::CommitConditions none;
    EXPECT_TRUE(co_await (*writer)->commit(std::move(info), std::move(none)));
  };
  const auto replace = store.before_update;
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?tagging", tags).code, "AccessDenied");
  EXPECT_EQ(as(alice_, "GET", "/bucket/key?tagging").count("<Tag>"), 0U);
  // Where the version that came in between may be changed by the caller, the change goes through.
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", open), 200);
  written = {{"open", "yes"}};
  store.before_update = replace;
  EXPECT_EQ(as(bob_, "PUT", "/bucket/key?tagging", tags).status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key?tagging").element("Value"), "bob");
  store.before_update = replace;
  EXPECT_EQ(as(alice_, "PUT", "/bucket/key?acl", acl("alice", grant_to("bob", "READ"))).code,
            "ConditionalRequestConflict");
}

TEST_F(AccessTest, EnforcedOwnershipKnowsNoLists) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read-write"}}), 200);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/bobs"), 200);
  const std::string enforced =
      "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>";
  EXPECT_EQ(as(alice_, "PUT", "/bucket?ownershipControls", enforced).code, "InvalidBucketAclWithObjectOwnership");
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "private"}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(as(alice_, "PUT", "/bucket?ownershipControls", enforced).status, 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/bobs"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/bobs"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(as(alice_, "PUT", "/bucket?acl", "", {{"x-amz-acl", "public-read"}}).code, "AccessControlListNotSupported");
  EXPECT_EQ(as(alice_, "PUT", "/bucket/new", "x", {{"x-amz-acl", "public-read"}}).code,
            "AccessControlListNotSupported");
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
}

TEST_F(AccessTest, PreferredOwnershipTakesWhatIsGiven) {
  EXPECT_EQ(as(alice_, "PUT", "/mine", "",
               {{"x-amz-object-ownership", "BucketOwnerPreferred"}, {"x-amz-acl", "public-read-write"}})
                .status,
            200);
  EXPECT_EQ(status(bob_, "PUT", "/mine/given", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
  EXPECT_EQ(status(bob_, "PUT", "/mine/kept"), 200);
  EXPECT_EQ(as(alice_, "GET", "/mine/given?acl").element("ID"), "alice");
  EXPECT_EQ(status(bob_, "GET", "/mine/given"), 403);
  EXPECT_EQ(status(alice_, "GET", "/mine/kept"), 403);
}

TEST_F(AccessTest, ThePublicAccessBlockHolds) {
  const auto block = [&](const std::string& flag) {
    return as(alice_, "PUT", "/bucket?publicAccessBlock",
              "<PublicAccessBlockConfiguration><" + flag + ">true</" + flag + "></PublicAccessBlockConfiguration>")
        .status;
  };
  EXPECT_EQ(block("BlockPublicAcls"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-acl", "public-read"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key?acl", {{"x-amz-acl", "authenticated-read"}}), 403);
  EXPECT_EQ(block("BlockPublicPolicy"), 200);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).code, "AccessDenied");
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 200);
  EXPECT_EQ(block("IgnorePublicAcls"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 403);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(block("RestrictPublicBuckets"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?publicAccessBlock"), 204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 200);
}

TEST_F(AccessTest, CreatingABucketTakesTheRightsToWhatItIsGiven) {
  const auto create = [](const std::string& more) {
    return R"({"Effect":"Allow","Action":["s3:CreateBucket")" + more + R"(],"Resource":"*"})";
  };
  const auto maker = user_of(alice, "maker", create(""));
  const auto keeper = user_of(alice, "keeper",
                              create(R"(,"s3:PutBucketAcl","s3:PutBucketOwnershipControls",)"
                                     R"("s3:PutBucketObjectLockConfiguration","s3:PutBucketVersioning")"));
  const std::vector<Headers> gifts = {{{"x-amz-acl", "public-read"}},
                                      {{"x-amz-object-ownership", "BucketOwnerPreferred"}},
                                      {{"x-amz-bucket-object-lock-enabled", "true"}}};
  for (const Headers& gift : gifts) {
    EXPECT_EQ(as(maker, "PUT", "/given", "", gift).code, "AccessDenied") << gift[0].first;
    EXPECT_EQ(as(keeper, "PUT", "/given", "", gift).status, 200) << gift[0].first;
    EXPECT_EQ(as(alice_, "DELETE", "/given").status, 204);
  }
  EXPECT_EQ(as(maker, "PUT", "/given").status, 200);
}

TEST_F(AccessTest, CreatingABucketAgainIsNoWayAroundItsSettings) {
  const auto again = [&](const auth::PrincipalPtr& who, const std::string& name, const std::string& value) {
    return as(who, "PUT", "/bucket", "", {{name, value}}).code;
  };
  const auto lister =
      user_of(alice, "lister", R"({"Effect":"Allow","Action":["s3:CreateBucket","s3:PutBucketAcl"],"Resource":"*"})");
  EXPECT_EQ(again(lister, "x-amz-object-ownership", "BucketOwnerEnforced"), "AccessDenied");
  EXPECT_EQ(again(lister, "x-verbena-durability", "memory"), "AccessDenied");
  EXPECT_EQ(again(lister, "x-verbena-durability", "sync"), "");  // as it is
  EXPECT_EQ(as(alice_, "PUT", "/bucket?publicAccessBlock",
               "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>"
               "</PublicAccessBlockConfiguration>")
                .status,
            200);
  EXPECT_EQ(again(alice_, "x-amz-acl", "public-read"), "AccessDenied");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "BucketOwnerEnforced"), "");
  EXPECT_EQ(again(alice_, "x-amz-grant-read", "id=bob"), "AccessControlListNotSupported");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "ObjectWriter"), "");
  EXPECT_EQ(again(lister, "x-amz-grant-read", "id=bob"), "");
  EXPECT_EQ(again(alice_, "x-amz-object-ownership", "BucketOwnerEnforced"), "InvalidBucketAclWithObjectOwnership");
  EXPECT_EQ(again(alice_, "x-verbena-durability", "memory"), "");
  EXPECT_EQ(as(auth::superuser(), "HEAD", "/bucket").header("x-verbena-durability"), "memory");
}

TEST_F(AccessTest, DeletesAreRefusedKeyByKey) {
  EXPECT_EQ(
      policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::bucket/a*"})")
          .status,
      204);
  const std::string text = "<Delete><Object><Key>a1</Key></Object><Object><Key>key</Key></Object></Delete>";
  const Reply reply =
      as(bob_, "POST", "/bucket?delete", text, {{"content-md5", test::base64_digest(Algorithm::md5, text)}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.count("<Deleted><Key>a1</Key></Deleted>"), 1u) << reply.body;
  EXPECT_EQ(reply.count("<Error><Key>key</Key><Code>AccessDenied</Code>"), 1u) << reply.body;
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
}

TEST_F(AccessTest, ACopyAsksAtBothEnds) {
  as(bob_, "PUT", "/bobs-bucket");
  const Headers from_alice = {{"x-amz-copy-source", "/bucket/key"}};
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", from_alice).status, 403);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bobs-bucket/none"}}).status, 404);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", from_alice).status, 200);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bobs-bucket/copy"}}).status, 403);
}

TEST_F(AccessTest, ACopyTakesTagsFromWhoMayReadThem) {
  as(bob_, "PUT", "/bobs-bucket");
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-tagging", "team=red"}}), 200);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject")).status, 204);
  Headers copy = {{"x-amz-copy-source", "/bucket/key"}};
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).code, "AccessDenied");
  copy.emplace_back("x-amz-tagging-directive", "REPLACE");
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).status, 200);
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:GetObject*")).status, 204);
  copy.pop_back();
  EXPECT_EQ(as(bob_, "PUT", "/bobs-bucket/copy", "", copy).status, 200);
  EXPECT_THAT(as(bob_, "GET", "/bobs-bucket/copy?tagging").body, ::testing::HasSubstr("red"));
}

TEST_F(AccessTest, UploadsBelongToWhoBeganThem) {
  EXPECT_EQ(policy(allow(R"({"AWS":"222222222222"})", "s3:PutObject")).status, 204);
  const Reply begun = as(bob_, "POST", "/bucket/big?uploads", "", {{"x-amz-acl", "public-read"}});
  ASSERT_EQ(begun.status, 200);
  const std::string id = begun.element("UploadId");
  EXPECT_EQ(as(nobody_, "PUT", "/bucket/big?partNumber=1&uploadId=" + id, "x").status, 403);
  const Reply part = as(bob_, "PUT", "/bucket/big?partNumber=1&uploadId=" + id, "x");
  ASSERT_EQ(part.status, 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/big?uploadId=" + id), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?uploads").count("<ID>bob</ID>"), 2u);
  EXPECT_EQ(status(bob_, "DELETE", "/bucket/big?uploadId=" + id), 403);
  const std::string text = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header("etag") +
                           "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(as(nobody_, "POST", "/bucket/big?uploadId=" + id, text).status, 403);
  EXPECT_EQ(as(bob_, "POST", "/bucket/big?uploadId=" + id, text).status, 200);
  EXPECT_EQ(as(bob_, "GET", "/bucket/big?acl").element("ID"), "bob");
  EXPECT_EQ(status(nobody_, "GET", "/bucket/big"), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/big?acl", {{"x-amz-acl", "private"}}), 403);
}

TEST_F(AccessTest, OnlyWhoMayBypassesGovernance) {
  EXPECT_EQ(as(alice_, "PUT", "/locked", "", {{"x-amz-bucket-object-lock-enabled", "true"}}).status, 200);
  const Reply put =
      as(alice_, "PUT", "/locked/key", "x",
         {{"x-amz-object-lock-mode", "GOVERNANCE"}, {"x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"}});
  ASSERT_EQ(put.status, 200);
  const std::string version = "/locked/key?versionId=" + put.header("x-amz-version-id");
  const auto deleter = user_of(alice, "deleter", R"({"Effect":"Allow","Action":"s3:Delete*","Resource":"*"})");
  const auto auditor =
      user_of(alice, "auditor", R"({"Effect":"Allow","Action":["s3:Delete*","s3:Bypass*"],"Resource":"*"})");
  const Headers bypass = {{"x-amz-bypass-governance-retention", "true"}};
  EXPECT_EQ(status(deleter, "DELETE", version, bypass), 403);
  EXPECT_EQ(status(auditor, "DELETE", version), 403);
  EXPECT_EQ(status(auditor, "DELETE", version, bypass), 204);
}

TEST_F(AccessTest, ABodyThatComesLateFindsWhatHoldsThen) {
  as(alice_, "PUT", "/logs");
  Call late;
  late.method = "PUT";
  late.principal = alice_;
  late.meanwhile = [this]() -> Task<> {
    EXPECT_TRUE(co_await store.remove_bucket("logs"));
    store::BucketInfo bobs;
    bobs.name = "logs";
    bobs.owner = "bob";
    EXPECT_TRUE(co_await store.create_bucket(std::move(bobs)));
    service.access->changed();
  };
  late.target = "/logs?policy";
  late.body = R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",)"
              R"("Resource":"arn:aws:s3:::logs/*"}})";
  EXPECT_EQ(call(late).code, "NoSuchBucket");
  EXPECT_EQ(as(bob_, "GET", "/logs?policy").code, "NoSuchBucketPolicy");

  // The same where the verb authorizes by itself, and where the bucket of that name still has the same owner.
  as(alice_, "PUT", "/bucket/tagged", "text");
  const auto user = user_of(alice, "late", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const std::string denial = R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*",)"
                             R"("Action":["s3:PutBucket*","s3:PutObject*","s3:DeleteObject"],)"
                             R"("Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}})";
  late.principal = user;
  late.meanwhile = [&]() -> Task<> {
    EXPECT_TRUE(co_await store.set_document("bucket", "policy", denial));
    service.access->changed();
  };
  const std::string tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";
  const std::vector<std::pair<std::string, std::string>> documents = {
      {"/bucket?tagging", tags},
      {"/bucket/key?tagging", tags},
      {"/bucket?acl", acl("alice", grant_to("bob", "READ"))},
      {"/bucket/key?acl", acl("alice", grant_to("bob", "READ"))},
      {"/bucket?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"}};
  for (const auto& [target, body] : documents) {
    as(alice_, "DELETE", "/bucket?policy");
    late.target = target;
    late.body = body;
    EXPECT_EQ(call(late).code, "AccessDenied") << target;
  }
  as(alice_, "DELETE", "/bucket?policy");
  EXPECT_EQ(as(alice_, "GET", "/bucket?tagging").code, "NoSuchTagSet");
  EXPECT_EQ(as(bob_, "GET", "/bucket/key").code, "AccessDenied");
}

// 300 strangers' DeleteObjects held 1.2 GB: the document was taken before anybody asked who sends it.
TEST_F(AccessTest, TheDocumentOfWhoMayDoNothingWithItIsNotRead) {
  const auto reader = user_of(alice, "reader", R"({"Effect":"Allow","Action":"s3:GetObject","Resource":"*"})");
  const auto elsewhere =
      user_of(alice, "elsewhere",
              R"({"Effect":"Allow","Action":"s3:*","Resource":["arn:aws:s3:::other*","arn:aws:s3:::b/*"]})");
  const auto limited = std::make_shared<auth::Principal>(*alice_);
  limited->session = reader->policies;
  const std::string id = as(alice_, "POST", "/bucket/big?uploads").element("UploadId");
  std::vector<std::pair<std::string, std::string>> verbs = {
      {"POST", "/bucket?delete"}, {"POST", "/bucket/big?uploadId=" + id}, {"PUT", "/fresh"}, {"PUT", "/bucket/key"}};
  for (const char* target :
       {"?policy", "?acl", "?cors", "?lifecycle", "?logging", "?tagging", "?versioning", "?encryption", "?object-lock",
        "?ownershipControls", "?publicAccessBlock", "?notification", "?accelerate", "?requestPayment", "/key?acl",
        "/key?tagging", "/none?tagging", "/key?retention", "/key?legal-hold"}) {
    verbs.emplace_back("PUT", std::string("/bucket") + target);
  }
  verbs.emplace_back("PUT", "/bucket/big?partNumber=1&uploadId=" + id);
  for (const auth::PrincipalPtr& who : {nobody_, bob_, reader, elsewhere, auth::PrincipalPtr(limited)}) {
    for (const auto& [method, target] : verbs) {
      if (who == bob_ && target == "/fresh") continue;  // which it may make
      bool read = false;
      Call c;
      c.method = method;
      c.target = target;
      c.anonymous = who == nullptr;
      c.principal = who;
      c.body = "<x/>";
      c.headers = {{"content-md5", base64_digest(Algorithm::md5, c.body)}};
      c.meanwhile = [&read]() -> Task<> {
        read = true;
        co_return;
      };
      const Reply reply = call(c);
      EXPECT_EQ(reply.code, "AccessDenied") << method << " " << target;
      EXPECT_FALSE(read) << method << " " << target;
    }
  }
}

TEST_F(AccessTest, ADocumentIsReadOfWhoMayDoSomethingThatItCouldNameByACondition) {
  const auto deletes = [](const std::string& key) {
    return "<Delete><Object><Key>" + key + "</Key></Object></Delete>";
  };
  const auto remove = [&](const auth::PrincipalPtr& who, const std::string& key) {
    const std::string body = deletes(key);
    return as(who, "POST", "/bucket?delete", body, {{"content-md5", base64_digest(Algorithm::md5, body)}});
  };
  for (const char* resource :
       {"arn:aws:s3:::bucket/mine/*", "arn:aws:s3:::buck*", "arn:aws:s3:::*/mine/*", "*", "arn:aws:s3:::bucke?/mine/*",
        "arn:aws:s3:::b*y/mine/a", "arn:aws:s3:::${aws:username}/*"}) {
    const auto user =
        user_of(alice, "bucket",
                R"({"Effect":"Allow","Action":"s3:DeleteObject*","Resource":")" + std::string(resource) + "\"}");
    EXPECT_EQ(remove(user, "mine/a").status, 200) << resource;
  }
  EXPECT_EQ(policy(allow("\"*\"", "s3:DeleteObjectVersion")).status, 204);
  EXPECT_EQ(remove(nobody_, "a").count("AccessDenied"), 1u) << "each key by itself";
  EXPECT_EQ(
      policy(allow("\"*\"", "s3:PutObjectTagging", R"(,"Condition":{"StringEquals":{"s3:RequestObjectTag/a":"b"}})"))
          .status,
      204);
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  EXPECT_EQ(as(nobody_, "PUT", "/bucket/key?tagging", tags).status, 200);
  EXPECT_EQ(remove(nobody_, "a").code, "AccessDenied");
}

// The difference between 404 and 412 showed callers with no right to read which keys exist.
TEST_F(AccessTest, AConditionOnWhatIsThereNeedsTheRightToReadIt) {
  const auto writer =
      user_of(alice, "writer", R"({"Effect":"Allow","Action":["s3:PutObject","s3:DeleteObject"],"Resource":"*"})");
  const auto both = user_of(
      alice, "both", R"({"Effect":"Allow","Action":["s3:PutObject","s3:DeleteObject","s3:GetObject"],"Resource":"*"})");
  as(alice_, "PUT", "/bucket/from", "text");
  const std::string tag = as(alice_, "GET", "/bucket/key").header("etag");
  const Headers copy = {{"x-amz-copy-source", "/bucket/from"}};
  const auto with = [](Headers headers, const char* name, const std::string& value) {
    headers.emplace_back(name, value);
    return headers;
  };
  for (const char* key : {"/bucket/key", "/bucket/none"}) {
    const std::string target = key;
    for (const std::string& value : {std::string("\"x\""), std::string("*"), tag}) {
      EXPECT_EQ(as(writer, "PUT", target, "x", {{"if-match", value}}).code, "AccessDenied") << key << value;
      EXPECT_EQ(as(writer, "DELETE", target, "", {{"if-match", value}}).code, "AccessDenied") << key << value;
    }
    EXPECT_EQ(as(writer, "PUT", target, "x", {{"if-none-match", tag}}).code, "AccessDenied") << key;
    EXPECT_EQ(as(writer, "PUT", target, "", with(copy, "if-match", "*")).code, "AccessDenied") << key;
    EXPECT_EQ(as(writer, "DELETE", target, "", {{"x-amz-if-match-size", "1"}}).code, "AccessDenied") << key;
    const std::string id = as(alice_, "POST", target + "?uploads").element("UploadId");
    EXPECT_EQ(as(writer, "POST", target + "?uploadId=" + id, "<x/>", {{"if-match", "*"}}).code, "AccessDenied") << key;
    const std::string text = "<Delete><Object><Key>" + target.substr(8) + "</Key><ETag>x</ETag></Object></Delete>";
    const Headers digest = {{"content-md5", base64_digest(Algorithm::md5, text)}};
    EXPECT_EQ(as(writer, "POST", "/bucket?delete", text, digest).element("Code"), "AccessDenied") << key;
  }
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").body, "text");
  EXPECT_EQ(as(writer, "PUT", "/bucket/key", "x", {{"if-none-match", "*"}}).status, 412) << "as AWS";
  EXPECT_EQ(as(both, "PUT", "/bucket/key", "x", {{"if-match", "\"x\""}}).status, 412);
  EXPECT_EQ(as(both, "PUT", "/bucket/key", "new", {{"if-match", tag}}).status, 200);
  EXPECT_EQ(as(both, "PUT", "/bucket/none", "x", {{"if-match", tag}}).code, "AccessDenied") << "may not list";
  EXPECT_EQ(as(alice_, "PUT", "/bucket/none", "x", {{"if-match", tag}}).code, "NoSuchKey");
}

// One key, which can be taken away or made anew.
class OneKey : public auth::CredentialStore {
 public:
  explicit OneKey(auth::AccessKey key) : key_(std::make_shared<const auth::AccessKey>(std::move(key))) {}
  Result<auth::AccessKeyPtr> find(std::string_view, std::string_view, int64_t) const override {
    if (key_ == nullptr) return fail(Errc::invalid_access_key_id, "test");
    return key_;
  }
  auth::AccessKeyPtr key() const { return key_; }
  void replace(auth::AccessKeyPtr key) {
    key_ = std::move(key);
    changed();
  }

 private:
  auth::AccessKeyPtr key_;
};

TEST_F(AccessTest, WhoMayNotWriteAnyMoreWhenTheBodyHasComeStoresNothing) {
  const auto writer = user_of(alice, "writer", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const auth::AccessKey first{{"AKID", "SECRET", ""}, writer};
  const auto changes = std::to_array<std::pair<const char*, std::function<void(OneKey&)>>>(
      {{"InvalidAccessKeyId", [](OneKey& keys) { keys.replace(nullptr); }},
       {"InvalidAccessKeyId",
        [&](OneKey& keys) {
          keys.replace(std::make_shared<auth::AccessKey>(auth::AccessKey{{"AKID", "OTHER", ""}, writer}));
        }},
       {"AccessDenied",
        [&](OneKey& keys) {
          keys.replace(std::make_shared<auth::AccessKey>(auth::AccessKey{first.credentials, user_of(alice, "no", "")}));
        }},
       {"", [&](OneKey& keys) { keys.replace(std::make_shared<auth::AccessKey>(first)); }}});
  for (const auto& [code, change] : changes) {
    OneKey keys(first);
    service.credentials = &keys;
    Call late;
    late.method = "PUT";
    late.target = "/bucket/late";
    late.principal = writer;
    late.key = keys.key();
    late.body = "text";
    late.meanwhile = [&keys, happens = &change]() -> Task<> {
      (*happens)(keys);
      co_return;
    };
    EXPECT_EQ(call(late).code, code);
    service.credentials = nullptr;
    EXPECT_EQ(status(alice_, "GET", "/bucket/late"), *code == '\0' ? 200 : 404);
  }
  // A policy that came meanwhile holds, too.
  Call late;
  late.method = "PUT";
  late.target = "/bucket/denied";
  late.principal = writer;
  late.body = "text";
  late.meanwhile = [this]() -> Task<> {
    const std::string denial = R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*",)"
                               R"("Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"}})";
    EXPECT_TRUE(co_await store.set_document("bucket", "policy", denial));
    service.access->changed();
  };
  EXPECT_EQ(call(late).code, "AccessDenied");
  EXPECT_EQ(status(alice_, "GET", "/bucket/denied"), 404);
}

TEST_F(AccessTest, WhoMayNotWriteIsNotToldWhatElseIsWrong) {
  const Headers wrong = {{"x-amz-tagging", "%"}};
  EXPECT_EQ(as(alice_, "PUT", "/bucket/new", "x", wrong).status, 400);
  EXPECT_EQ(as(bob_, "PUT", "/bucket/new", "x", wrong).status, 403);
}

TEST_F(AccessTest, TheOwnersGrantComesFirstInACannedList) {
  EXPECT_EQ(status(alice_, "PUT", "/bucket?acl", {{"x-amz-acl", "public-read"}}), 200);
  const std::string body = as(alice_, "GET", "/bucket?acl").body;
  EXPECT_LT(body.find("FULL_CONTROL"), body.find("AllUsers"));
}

TEST_F(AccessTest, AnUploadIsWhosTheObjectWillBe) {
  const std::string full = "bucket-owner-full-control";
  const std::string everybody = "\"*\"";
  const std::pair<const char*, const char*> cases[] = {
      {"BucketOwnerEnforced", "alice"}, {"BucketOwnerPreferred", "alice"}, {"ObjectWriter", "bob"}};
  for (const auto& [ownership, owner] : cases) {
    ASSERT_EQ(as(alice_, "PUT", "/bucket?ownershipControls",
                 std::string("<OwnershipControls><Rule><ObjectOwnership>") + ownership +
                     "</ObjectOwnership></Rule></OwnershipControls>")
                  .status,
              200);
    ASSERT_EQ(policy(allow(everybody, "s3:*")).status, 204);
    const std::string id = as(bob_, "POST", "/bucket/up?uploads", "", {{"x-amz-acl", full}}).element("UploadId");
    const auto told = [](const Reply& r, const std::string& element) {
      const size_t at = r.body.find("<" + element + "><ID>");
      return at == std::string::npos ? r.body : r.body.substr(at + element.size() + 6, 5);
    };
    for (const Reply& r : {as(alice_, "GET", "/bucket/up?uploadId=" + id), as(alice_, "GET", "/bucket?uploads")}) {
      EXPECT_EQ(told(r, "Initiator").substr(0, 3), "bob") << ownership;
      EXPECT_EQ(told(r, "Owner").substr(0, std::strlen(owner)), owner) << ownership;
    }
    ASSERT_EQ(status(alice_, "DELETE", "/bucket/up?uploadId=" + id), 204);
  }
}

TEST_F(AccessTest, AnotherOwnerThanExpectedIsRefused) {
  EXPECT_EQ(status(alice_, "GET", "/bucket/key", {{"x-amz-expected-bucket-owner", "111111111111"}}), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key", {{"x-amz-expected-bucket-owner", "222222222222"}}), 403);
}

TEST(AclTest, KeptTextComesBackAndForeignTextDoesNot) {
  const Acl acl{"alice",
                {{Grant::To::account, "bob", Permission::write_acp},
                 {Grant::To::all_users, "", Permission::read},
                 {Grant::To::authenticated_users, "", Permission::write},
                 {Grant::To::log_delivery, "", Permission::read_acp}}};
  EXPECT_EQ(decode_acl(encode_acl(acl)), acl);
  EXPECT_EQ(encoded_owner(encode_acl(acl)), "alice");
  for (const char* text : {"", "\nrA", "alice\n", "alice\nr", "alice\nxA", "alice\nrX", "alice\n\n"}) {
    EXPECT_FALSE(decode_acl(text)) << text;
  }
}

}  // namespace
}  // namespace verbena::s3
