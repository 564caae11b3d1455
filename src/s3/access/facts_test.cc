// Which condition keys a request has: those that it brought, and no others.
#include "s3/access/facts.h"

#include "call/request_facts.h"
#include "s3/access/test_access.h"
#include "s3_http/context.h"

namespace verbena::s3 {
namespace {

using test::alice;
using test::base64_digest;
using test::bob;
using test::Reply;
using test::TestCall;
using test::user_of;

class FactsTest : public test::AccessRig {
 protected:
  int made_ = 0;
  // What becomes of a request where one with this key is denied, whatever its value, and where one without it is.
  struct Seen {
    int with_key_denied = 0, without_key_denied = 0;
  };
  Seen seen(const std::string& action, const std::string& key, const std::string& method, const std::string& target,
            const Headers& headers = {}, const std::string& body = "") {
    Seen out;
    for (const bool denied_without : {false, true}) {
      const std::string condition =
          R"(,"Condition":{"Null":{")" + key + R"(":")" + (denied_without ? "true" : "false") + "\"}}";
      EXPECT_EQ(deny(action, condition).status, 204) << key;
      (denied_without ? out.without_key_denied : out.with_key_denied) =
          as(alice_, method, target, body, headers).status;
    }
    as(alice_, "DELETE", "/bucket?policy");
    return out;
  }
  void expect_there(const std::string& action, const std::string& key, const std::string& method,
                    const std::string& target, const Headers& headers = {}, const std::string& body = "") {
    const Seen found = seen(action, key, method, target, headers, body);
    EXPECT_EQ(found.with_key_denied, 403) << key << " of " << method << " " << target;
    EXPECT_NE(found.without_key_denied, 403) << key << " of " << method << " " << target;
  }
  void expect_absent(const std::string& action, const std::string& key, const std::string& method,
                     const std::string& target, const Headers& headers = {}, const std::string& body = "") {
    const Seen found = seen(action, key, method, target, headers, body);
    EXPECT_NE(found.with_key_denied, 403) << key << " of " << method << " " << target;
    EXPECT_EQ(found.without_key_denied, 403) << key << " of " << method << " " << target;
  }
  Reply deny(const std::string& action, const std::string& condition) {
    const bool on_object = action.find("Object") != std::string::npos;
    return policy(R"({"Effect":"Deny","Principal":"*","Action":")" + action + R"(","Resource":"arn:aws:s3:::bucket)" +
                  (on_object ? "/*" : "") + "\"" + condition + "}");
  }
};

// GET of a bucket without a prefix passed where a request without one is denied.
TEST_F(FactsTest, AListingHasTheKeysOfTheParametersThatItBrought) {
  for (const char* target : {"/bucket", "/bucket?list-type=2"}) {
    const std::string more = std::string(target).find('?') == std::string::npos ? "?" : "&";
    for (const char* key : {"s3:prefix", "s3:delimiter", "s3:max-keys"}) {
      expect_absent("s3:ListBucket", key, "GET", target);
      const std::string name = std::string(key).substr(3);
      expect_there("s3:ListBucket", key, "GET", target + more + name + "=" + (name == "max-keys" ? "5" : "x"));
    }
    expect_there("s3:ListBucket", "s3:prefix", "GET", target + more + "prefix=");
  }
  expect_absent("s3:ListBucket", "s3:max-keys", "HEAD", "/bucket");
  expect_absent("s3:ListBucketVersions", "s3:prefix", "GET", "/bucket?versions");
  expect_there("s3:ListBucketVersions", "s3:prefix", "GET", "/bucket?versions&prefix=x");
  // As it was sent, and not as much of it as a page has.
  EXPECT_EQ(deny("s3:ListBucket", R"(,"Condition":{"NumericGreaterThan":{"s3:max-keys":"1000"}})").status, 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket?max-keys=1000"), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket?max-keys=5000"), 403);
}

TEST_F(FactsTest, ARequestHasTheKeysThatItHasAtEveryApi) {
  const Headers headers = {{"user-agent", "tool/1"}, {"referer", "https://page"}};
  for (const std::string_view key : call::request_keys()) {
    expect_there("s3:GetObject", std::string(key), "GET", "/bucket/key", headers);
  }
  for (const char* key : {"aws:useragent", "aws:referer"}) expect_absent("s3:GetObject", key, "GET", "/bucket/key");
}

TEST_F(FactsTest, AWriteHasTheKeysOfWhatItBrought) {
  const std::string put = "s3:PutObject";
  for (const char* key :
       {"s3:object-lock-legal-hold", "s3:object-lock-mode", "s3:object-lock-retain-until-date",
        "s3:x-amz-storage-class", "s3:if-match", "s3:if-none-match", "s3:x-amz-acl", "s3:x-amz-server-side-encryption",
        "s3:x-amz-copy-source", "s3:RequestObjectTagKeys", "s3:RequestObjectTag/a", "s3:versionid",
        "s3:locationconstraint", "s3:x-amz-metadata-directive", "s3:prefix", "s3:max-keys"}) {
    expect_absent(put, key, "PUT", "/bucket/new");
  }
  expect_there(put, "s3:object-lock-legal-hold", "PUT", "/bucket/new", {{"x-amz-object-lock-legal-hold", "OFF"}});
  expect_there(put, "s3:if-none-match", "PUT", "/bucket/fresh", {{"if-none-match", "*"}});
  expect_there(put, "s3:x-amz-storage-class", "PUT", "/bucket/new", {{"x-amz-storage-class", "STANDARD_IA"}});
  expect_there(put, "s3:RequestObjectTag/a", "PUT", "/bucket/new", {{"x-amz-tagging", "a=1"}});
  EXPECT_EQ(deny(put, R"(,"Condition":{"StringEquals":{"s3:if-match":"\"abc\""}})").status, 204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"if-match", "\"abc\""}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"if-match", "abc"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"if-match", "other"}}), 412);
}

// Signed by Date alone, a request passed where one of its age is denied.
TEST_F(FactsTest, ASignatureHasAnAgeWhicheverHeaderItsTimeIsIn) {
  const std::string put = "s3:PutObject", age = "s3:signatureAge";
  expect_there(put, age, "PUT", "/bucket/new", {{"x-amz-date", "20260102T030405Z"}});
  expect_there(put, age, "PUT", "/bucket/new", {{"date", "Fri, 02 Jan 2026 03:04:05 GMT"}});
  expect_there(put, age, "PUT", "/bucket/new", {{"date", "20260102T030405Z"}});
  expect_absent(put, age, "PUT", "/bucket/new", {{"date", "yesterday"}});
}

// What a copy takes along from its source, and what the server adds, no request has brought.
TEST_F(FactsTest, ACopyHasTheKeysOfItsOwnRequest) {
  as(alice_, "PUT", "/bucket/tagged", "text", {{"x-amz-tagging", "a=1"}, {"x-amz-storage-class", "STANDARD_IA"}});
  const Headers copy = {{"x-amz-copy-source", "/bucket/tagged"}};
  for (const char* key : {"s3:RequestObjectTagKeys", "s3:RequestObjectTag/a", "s3:x-amz-storage-class"}) {
    expect_absent("s3:PutObject", key, "PUT", "/bucket/copy", copy);
  }
  const Headers own = {
      {"x-amz-copy-source", "/bucket/tagged"}, {"x-amz-tagging-directive", "REPLACE"}, {"x-amz-tagging", "a=2"}};
  expect_there("s3:PutObject", "s3:RequestObjectTag/a", "PUT", "/bucket/copy", own);
  expect_there("s3:PutObject", "s3:x-amz-copy-source", "PUT", "/bucket/copy", copy);
  // The copy's tags are asked for by their own action all the same.
  EXPECT_EQ(deny("s3:PutObjectTagging", R"(,"Condition":{"StringEquals":{"s3:RequestObjectTag/a":"1"}})").status, 204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/copy", copy), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/copy", {{"x-amz-copy-source", "/bucket/key"}}), 200);
}

TEST_F(FactsTest, ACopysSourceIsTheSameHoweverItIsWritten) {
  EXPECT_EQ(deny("s3:PutObject", R"(,"Condition":{"StringLike":{"s3:x-amz-copy-source":"bucket/k*"}})").status, 204);
  for (const char* source : {"bucket/key", "/bucket/key", "/bucket/%6bey", "%62ucket%2Fkey"}) {
    EXPECT_EQ(status(alice_, "PUT", "/bucket/copy", {{"x-amz-copy-source", source}}), 403) << source;
  }
  EXPECT_EQ(deny("s3:PutObject", R"(,"Condition":{"StringNotLike":{"s3:x-amz-copy-source":"/bucket/k*"}})").status,
            204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/copy", {{"x-amz-copy-source", "bucket/key"}}), 200);
}

TEST_F(FactsTest, PartsOfAnUploadMakeNoObject) {
  EXPECT_EQ(policy(R"({"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*",)"
                   R"("Condition":{"Null":{"s3:if-none-match":"true"},"Bool":{"s3:ObjectCreationOperation":"true"}}})")
                .status,
            204);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/plain"), 403);
  const std::string id = as(alice_, "POST", "/bucket/big?uploads").element("UploadId");
  const std::string upload = "/bucket/big?uploadId=" + id;
  const Reply part = as(alice_, "PUT", upload + "&partNumber=1", "text");
  EXPECT_EQ(part.status, 200) << part.body;
  EXPECT_EQ(as(alice_, "PUT", upload + "&partNumber=2", "", {{"x-amz-copy-source", "/bucket/key"}}).status, 200);
  const std::string complete = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header("etag") +
                               "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(as(alice_, "POST", upload, complete).status, 403);
  EXPECT_EQ(as(alice_, "POST", upload, complete, {{"if-none-match", "*"}}).status, 200);
}

TEST_F(FactsTest, ANewBucketsPlaceIsTheOneThatItsRequestNames) {
  const auto make = [&](const std::string& condition, const std::string& body) {
    const auto user =
        user_of(alice, "maker",
                R"({"Effect":"Allow","Action":"s3:CreateBucket","Resource":"*","Condition":)" + condition + "}");
    return as(user, "PUT", "/made" + std::to_string(++made_), body).status;
  };
  const std::string here =
      "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint>"
      "</CreateBucketConfiguration>";
  const std::string named = R"({"StringEquals":{"s3:LocationConstraint":"us-east-1"}})";
  EXPECT_EQ(make(named, here), 200);
  EXPECT_EQ(make(named, ""), 403);
  EXPECT_EQ(make(R"({"Null":{"s3:LocationConstraint":"true"}})", ""), 200);
  EXPECT_EQ(make(R"({"Null":{"s3:LocationConstraint":"true"}})", here), 403);
}

// A bucket's policy is its owner's alone: AWS, PutBucketPolicy.
TEST_F(FactsTest, AnotherAccountGets405ForThePolicyWhateverThatAllows) {
  const auto abroad = user_of(bob, "abroad", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const auto clerk = user_of(alice, "clerk", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  const std::string open =
      R"({"Effect":"Allow","Principal":"*","Action":"s3:*BucketPolicy","Resource":"arn:aws:s3:::bucket"})";
  const std::string text = R"({"Version":"2012-10-17","Statement":)" + open + "}";
  for (const auto& who : {bob_, auth::PrincipalPtr(abroad), nobody_}) {
    as(alice_, "DELETE", "/bucket?policy");
    EXPECT_EQ(as(who, "GET", "/bucket?policy").code, "AccessDenied");
    EXPECT_EQ(policy(open).status, 204);
    for (const char* method : {"GET", "PUT", "DELETE"}) {
      const Reply reply = as(who, method, "/bucket?policy", method == std::string("PUT") ? text : "");
      EXPECT_EQ(reply.status, 405) << method;
      EXPECT_EQ(reply.code, "MethodNotAllowed") << method;
      EXPECT_EQ(reply.element("ResourceType"), "BUCKETPOLICY") << method;
    }
  }
  EXPECT_EQ(as(clerk, "GET", "/bucket?policy").status, 200);
  EXPECT_EQ(as(clerk, "PUT", "/bucket?policy", text).status, 204);
  EXPECT_EQ(as(clerk, "DELETE", "/bucket?policy").status, 204);
}

// s3:PutObject on the bucket's own ARN says nothing, and was taken.
TEST_F(FactsTest, APolicysActionsAreOnOneOfItsResources) {
  const auto set = [&](const std::string& action, const std::string& resource, const char* element = "Action") {
    return policy(R"({"Effect":"Allow","Principal":"*",")" + std::string(element) + "\":" + action + R"(,"Resource":)" +
                  resource + "}");
  };
  const std::string bucket = R"("arn:aws:s3:::bucket")", objects = R"("arn:aws:s3:::bucket/*")",
                    both = "[" + bucket + "," + objects + "]", wild = R"("arn:aws:s3:::bucket*")";
  const std::pair<std::string, std::string> refused[] = {
      {R"("s3:PutObject")", bucket},
      {R"("s3:GetObject*")", bucket},
      {R"("s3:ListBucket")", objects},
      {R"(["s3:GetObject","s3:ListBucket"])", objects},
      {R"(["s3:GetObject","s3:ListBucket"])", bucket},
      {R"("s3:PutBucket*")", R"("arn:aws:s3:::bucket/a:b/*")"},
      {R"("s3:ListAllMyBuckets")", both},
      {R"("s3express:CreateSession")", both},
  };
  for (const auto& [action, resource] : refused) {
    const Reply reply = set(action, resource);
    EXPECT_EQ(reply.code, "MalformedPolicy") << action << " " << resource;
    EXPECT_EQ(reply.element("Message"), "Action does not apply to any resource(s) in statement.") << action;
  }
  const std::pair<std::string, std::string> taken[] = {
      {R"("s3:PutObject")", objects},
      {R"("s3:GetObject")", R"("arn:aws:s3:::bucket/a:b")"},
      {R"("s3:ListBucket")", bucket},
      {R"(["s3:GetObject","s3:ListBucket"])", both},
      {R"("s3:GetObject")", wild},
      {R"("s3:ListBucket")", wild},
      {R"("s3:*")", bucket},
      {R"("s3:*")", objects},
      {R"("*")", objects},
      {R"("s3:Get*")", bucket},
      {R"("s3:Get*")", objects},
      {R"("s3:getobject")", objects},
      {R"("s3:*Object*")", objects},
      {R"("s3:PutObject*")", both},
  };
  for (const auto& [action, resource] : taken)
    EXPECT_EQ(set(action, resource).status, 204) << action << " " << resource;
  EXPECT_EQ(set(R"("s3:ListBucket")", objects, "NotAction").status, 204);
}

}  // namespace
}  // namespace verbena::s3
