// Which headers requests may have: the table, and requests of every kind held against it.
#include "s3_http/header_table.h"

#include "base/date.h"
#include "base/text.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

constexpr const char* directory = "logs--local1-az1--x-s3";
constexpr const char* past = "Sun, 06 Nov 1994 08:49:37 GMT";

TEST(HeaderTable, SaysWhyWhatHasNoEffectHasNone) {
  for (const HeaderRule& rule : header_table()) {
    const bool refused = rule.obeyed == 0 && rule.no_effect == 0;
    EXPECT_EQ(rule.why.empty(), rule.no_effect == 0 && !refused) << rule.name;
    EXPECT_TRUE(is_in_table(rule.name)) << rule.name;
  }
}

TEST(HeaderTable, HasAllChecksums) {
  for (const Algorithm algorithm : all_algorithms) {
    const std::string name = "x-amz-checksum-" + lower(to_string(algorithm));
    EXPECT_FALSE(is_unknown_checksum(name)) << name;
    EXPECT_TRUE(may_have_header(RequestKind::put_object, false, name, "")) << name;
    EXPECT_TRUE(may_have_header(RequestKind::put_lifecycle, true, name, "")) << name;
    EXPECT_FALSE(may_have_header(RequestKind::get_object, false, name, "")) << name;
  }
  EXPECT_TRUE(is_unknown_checksum("x-amz-checksum-crc16"));
}

class RequestHeaders : public Rig {
 protected:
  void SetUp() override { make_bucket(); }

  void make_directory() {
    const std::string text =
        "<CreateBucketConfiguration><Location><Name>local1-az1</Name><Type>AvailabilityZone</Type></Location><Bucket>"
        "<DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>"
        "</CreateBucketConfiguration>";
    ASSERT_EQ(call("PUT", std::string("/") + directory, {}, text).status, 200);
  }
  std::string begin(const std::string& bucket, Headers headers = {}) {
    return call("POST", "/" + bucket + "/k?uploads", std::move(headers)).element("UploadId");
  }
  // Refused, and by that header's name.
  void expect_refused(const std::string& method, const std::string& target, const std::string& header,
                      const std::string& value) {
    const Reply r = call(method, target, {{header, value}}, method == "PUT" ? "data" : "");
    EXPECT_EQ(r.status, 501) << method << " " << target << " " << header << " " << r.body;
    EXPECT_TRUE(method == "HEAD" || r.element("Header") == header) << method << " " << target << " " << r.body;
  }
};

constexpr std::pair<const char*, const char*> requests[] = {
    {"GET", "/"},
    {"PUT", "/other"},
    {"HEAD", "/bucket"},
    {"GET", "/bucket"},
    {"GET", "/bucket?list-type=2"},
    {"GET", "/bucket?versions"},
    {"GET", "/bucket?tagging"},
    {"PUT", "/bucket?tagging"},
    {"PUT", "/bucket?acl"},
    {"PUT", "/bucket?lifecycle"},
    {"DELETE", "/bucket?tagging"},
    {"DELETE", "/bucket"},
    {"POST", "/bucket?delete"},
    {"GET", "/bucket/k"},
    {"HEAD", "/bucket/k"},
    {"GET", "/bucket/k?attributes"},
    {"GET", "/bucket/k?tagging"},
    {"GET", "/bucket/k?uploadId=x"},
    {"PUT", "/bucket/k"},
    {"PUT", "/bucket/k?uploadId=x&partNumber=1"},
    {"PUT", "/bucket/k?acl"},
    {"PUT", "/bucket/k?tagging"},
    {"PUT", "/bucket/k?retention"},
    {"POST", "/bucket/k?uploads"},
    {"POST", "/bucket/k?uploadId=x"},
    {"DELETE", "/bucket/k?uploadId=x"},
    {"DELETE", "/bucket/k?tagging"},
    {"DELETE", "/bucket/k"},
};

TEST_F(RequestHeaders, OnesThatNobodyKnowsAreRefusedOnEveryRequest) {
  put("k", "x");
  for (const auto& [method, target] : requests) {
    expect_refused(method, target, "x-amz-foo", "1");
    expect_refused(method, target, "x-verbena-foo", "1");
    expect_refused(method, target, "x-amz-mfa", "serial 1");
    expect_refused(method, target, "x-amz-object-if-match", "\"x\"");
  }
  EXPECT_EQ(call("GET", "/bucket/k").body, "x") << "nothing of that was done";
  EXPECT_EQ(call("HEAD", "/other").status, 404);
}

TEST_F(RequestHeaders, WhatSdksSayOnEveryRequestIsTaken) {
  put("k", "x");
  Headers said = {{"x-amz-date", "20260101T000000Z"},   {"x-amz-user-agent", "aws-sdk-js/3"},
                  {"x-amzn-trace-id", "Root=1"},        {"amz-sdk-invocation-id", "1"},
                  {"x-amz-api-version", "2006-03-01"},  {"x-amz-te", "append-md5"},
                  {"x-amz-request-payer", "requester"}, {"x-amz-meta-a", "b"},
                  {"x-forwarded-for", "1.2.3.4"},       {"x-amz-cf-id", "abc"}};
  for (const auto& [method, target] : requests) {
    EXPECT_NE(call(method, target, said).status, 501) << method << " " << target;
    if (std::string(target) == "/bucket" && std::string(method) == "DELETE") make_bucket();
  }
}

// s3cmd modify copies an object onto itself with all headers of HEAD's answer.
TEST_F(RequestHeaders, AnObjectsOwnMayBeSentBack) {
  put("k", "x", {{"x-amz-tagging", "a=b"}, {"x-amz-meta-a", "b"}, {"content-type", "a/b"}});
  Headers again = {{"x-amz-copy-source", "/bucket/k"}, {"x-amz-metadata-directive", "REPLACE"}};
  for (const auto& header : call("HEAD", "/bucket/k").headers) {
    if (header.first.starts_with("x-amz-")) again.push_back(header);
  }
  EXPECT_EQ(call("PUT", "/bucket/k", again).status, 200);
}

TEST_F(RequestHeaders, OfOtherOperationsAreRefused) {
  const std::string id = begin("bucket");
  put("k", "x");
  expect_refused("GET", "/bucket/k", "x-amz-acl", "private");
  expect_refused("GET", "/bucket/k", "x-amz-copy-source", "/bucket/k");
  expect_refused("GET", "/bucket/k", "x-amz-checksum-sha256", "x");
  expect_refused("GET", "/bucket/k", "x-amz-write-offset-bytes", "0");
  expect_refused("PUT", "/bucket/k?tagging", "x-amz-tagging", "a=b");
  expect_refused("PUT", "/bucket/k?uploadId=" + id + "&partNumber=1", "x-amz-storage-class", "STANDARD_IA");
  expect_refused("POST", "/bucket/k?uploadId=" + id, "x-amz-tagging", "a=b");
  expect_refused("DELETE", "/bucket/k", "x-amz-copy-source", "/bucket/k");
  expect_refused("PUT", "/bucket?policy", "x-amz-bypass-governance-retention", "true");
  expect_refused("PUT", "/bucket/k", "x-verbena-durability", "memory");
  expect_refused("PUT", "/bucket/k", "x-amz-bucket-object-lock-enabled", "true");
  EXPECT_EQ(call("GET", "/bucket/k").body, "x");
}

TEST_F(RequestHeaders, ConditionsThatAreNotLookedAtAreRefused) {
  put("k", "x");
  const std::string id = begin("bucket");
  const std::string part = "/bucket/k?uploadId=" + id + "&partNumber=1", upload = "/bucket/k?uploadId=" + id;
  expect_refused("DELETE", upload, "x-amz-if-match-initiated-time", past);
  for (const char* condition : {"if-match", "if-none-match", "if-unmodified-since", "if-modified-since"}) {
    const std::string value = std::string(condition).ends_with("since") ? past : "*";
    expect_refused("PUT", part, condition, value);
    expect_refused("DELETE", upload, condition, value);
    expect_refused("PUT", "/bucket/k?tagging", condition, value);
    expect_refused("DELETE", "/bucket/k?tagging", condition, value);
    expect_refused("PUT", "/bucket?cors", condition, value);
    expect_refused("POST", "/bucket?delete", condition, value);
    expect_refused("DELETE", "/bucket", condition, value);
    expect_refused("PUT", "/other", condition, value);
  }
  for (const char* condition : {"x-amz-if-match-size", "x-amz-if-match-last-modified-time"}) {
    expect_refused("PUT", "/bucket/k", condition, "1");
    expect_refused("POST", "/bucket?delete", condition, "1");
  }
  expect_refused("DELETE", "/bucket/k", "if-none-match", "*");
  expect_refused("DELETE", "/bucket/k", "if-unmodified-since", past);
  expect_refused("PUT", "/bucket/k", "x-amz-copy-source-if-match", "\"x\"");
  expect_refused("GET", "/bucket/k?tagging", "if-match", "*");
  expect_refused("GET", "/bucket?list-type=2", "if-unmodified-since", past);
  EXPECT_EQ(call("GET", upload).status, 200) << "the upload is there";
  EXPECT_EQ(call("GET", "/bucket/k").body, "x");
  // A browser that has an answer asks so for a newer one: the answer is whole.
  EXPECT_EQ(call("GET", "/bucket?list-type=2", {{"if-none-match", "\"x\""}, {"if-modified-since", past}}).status, 200);
}

TEST_F(RequestHeaders, AnUploadIsAbortedIfItWasBegunThen) {
  make_directory();
  const std::string at = std::string("/") + directory;
  const std::string id = begin(directory);
  const std::string upload = at + "/k?uploadId=" + id;
  const Reply other = call("DELETE", upload, {{"x-amz-if-match-initiated-time", past}});
  EXPECT_EQ(other.status, 412) << other.body;
  EXPECT_EQ(other.element("Condition"), "x-amz-if-match-initiated-time");
  EXPECT_EQ(call("DELETE", upload, {{"x-amz-if-match-initiated-time", "yesterday"}}).status, 400);
  ASSERT_EQ(call("GET", upload).status, 200) << "the upload is there";
  const int64_t begun_s = run(store.upload(directory, "k", id))->created_us / 1'000'000;
  const Headers then = {{"x-amz-if-match-initiated-time", format_http_date(begun_s)}};
  EXPECT_EQ(call("DELETE", upload, then).status, 204);
  EXPECT_EQ(call("GET", upload).code, "NoSuchUpload");
  EXPECT_EQ(call("DELETE", upload, then).status, 204) << "it is gone, as was wanted";
}

TEST_F(RequestHeaders, AnUploadIsBegunUnderItsConditions) {
  const Headers fresh = {{"if-none-match", "*"}};
  EXPECT_NE(begin("bucket", fresh), "(none)");
  const std::string etag = put("k", "x").header("etag");
  EXPECT_EQ(call("POST", "/bucket/k?uploads", fresh).status, 412);
  EXPECT_EQ(call("POST", "/bucket/k?uploads", {{"if-none-match", etag}}).status, 412);
  EXPECT_EQ(call("POST", "/bucket/k?uploads", {{"if-match", "\"other\""}}).status, 412);
  EXPECT_EQ(call("POST", "/bucket/k?uploads", {{"if-match", etag}}).status, 200);
  EXPECT_EQ(call("POST", "/bucket/new?uploads", {{"if-match", etag}}).status, 404);
  // What came into being meanwhile counts, too.
  const std::string id = call("POST", "/bucket/late?uploads", fresh).element("UploadId");
  const std::string at = "/bucket/late?uploadId=" + id;
  const std::string part = call("PUT", at + "&partNumber=1", {}, "x").header("etag");
  const std::string document = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part +
                               "</ETag></Part></CompleteMultipartUpload>";
  put("late", "other");
  EXPECT_EQ(call("POST", at, {}, document).status, 412);
  EXPECT_EQ(call("GET", "/bucket/late").body, "other");
  ASSERT_EQ(call("DELETE", "/bucket/late").status, 204);
  EXPECT_EQ(call("POST", at, {}, document).status, 200);
  EXPECT_EQ(call("GET", "/bucket/late").body, "x");
  const auto made = run(store.stat("bucket", "late", ""));
  ASSERT_TRUE(made);
  for (const auto& [name, value] : made->attributes) {
    EXPECT_FALSE(name.starts_with("begun-")) << "a condition is no attribute of the object";
  }
}

TEST_F(RequestHeaders, ABucketOfAnAccountsRegionalNamespaceIsNotServed) {
  expect_refused("PUT", "/other", "x-amz-bucket-namespace", "account-regional");
  EXPECT_EQ(call("HEAD", "/other").status, 404);
  EXPECT_EQ(call("PUT", "/other", {{"x-amz-bucket-namespace", "nonsense"}}).code, "InvalidArgument");
  EXPECT_EQ(call("PUT", "/other", {{"x-amz-bucket-namespace", "global"}}).status, 200);
}

TEST_F(RequestHeaders, APartNumberWithoutAnUploadIsAMistake) {
  put("k", "x");
  for (const auto& [method, target] : {std::pair("PUT", "/bucket/k?partNumber=1"),
                                       {"DELETE", "/bucket/k?partNumber=1"},
                                       {"PUT", "/bucket/k?tagging&partNumber=1"}}) {
    const Reply r = call(method, target, {}, "other");
    EXPECT_EQ(r.status, 400) << method << " " << target;
    EXPECT_EQ(r.code, "InvalidArgument");
    EXPECT_EQ(r.element("ArgumentName"), "partNumber");
  }
  EXPECT_EQ(call("PUT", "/bucket/k?uploadId=x", {}, "other").code, "InvalidArgument")
      << "an upload without a part number";
  EXPECT_EQ(call("GET", "/bucket/k").body, "x");
}

TEST_F(RequestHeaders, ARedirectIsKeptWithItsObject) {
  constexpr const char* header = "x-amz-website-redirect-location";
  const std::string longest = "/" + std::string(2047, 'a');
  for (const std::string& location : {std::string("/x"), std::string("https://example.com/?a=b"), longest}) {
    ASSERT_EQ(put("k", "x", {{header, location}}).status, 200) << location;
    EXPECT_EQ(call("GET", "/bucket/k").header(header), location);
    EXPECT_EQ(call("HEAD", "/bucket/k").header(header), location);
  }
  for (const std::string& location : {std::string("x"), std::string("ftp://x"), std::string(), longest + "a"}) {
    EXPECT_EQ(put("bad", "x", {{header, location}}).code, "InvalidArgument") << location.substr(0, 10);
  }
  // A copy has the redirect that it is given, never its source's.
  const std::string source = "/bucket/k";
  ASSERT_EQ(call("PUT", "/bucket/copy", {{"x-amz-copy-source", source}}).status, 200);
  EXPECT_FALSE(call("HEAD", "/bucket/copy").has(header));
  ASSERT_EQ(call("PUT", "/bucket/copy", {{"x-amz-copy-source", source}, {header, "/y"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/bucket/copy").header(header), "/y");
  ASSERT_EQ(call("PUT", source, {{"x-amz-copy-source", source}, {header, "/z"}}).status, 200) << "onto itself";
  EXPECT_EQ(call("HEAD", source).header(header), "/z");
  const Headers replaced = {{"x-amz-copy-source", source}, {"x-amz-metadata-directive", "REPLACE"}, {header, "/r"}};
  ASSERT_EQ(call("PUT", "/bucket/copy", replaced).status, 200);
  EXPECT_EQ(call("HEAD", "/bucket/copy").header(header), "/r");
  EXPECT_EQ(call("PUT", "/bucket/copy", {{"x-amz-copy-source", source}, {header, "y"}}).code, "InvalidArgument");
  const std::string id = begin("bucket", {{header, "/m"}});
  const std::string etag = call("PUT", "/bucket/k?partNumber=1&uploadId=" + id, {}, "x").header("etag");
  ASSERT_EQ(call("POST", "/bucket/k?uploadId=" + id, {},
                 "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + etag +
                     "</ETag></Part></CompleteMultipartUpload>")
                .status,
            200);
  EXPECT_EQ(call("HEAD", "/bucket/k").header(header), "/m");
}

}  // namespace
}  // namespace verbena::s3::test
