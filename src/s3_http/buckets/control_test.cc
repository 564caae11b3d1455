// S3 Control at the endpoint of S3.
#include "s3_http/buckets/control.h"

#include <pugixml.hpp>

#include "base/utf8.h"
#include "s3/access/test_access.h"

namespace verbena::s3::test {
namespace {

class ControlTest : public AccessRig {
 protected:
  static std::string tags(const Headers& of) {
    std::string xml = "<TagResourceRequest xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\"><Tags>";
    for (const auto& [key, value] : of) xml += "<Tag><Key>" + key + "</Key><Value>" + value + "</Value></Tag>";
    return xml + "</Tags></TagResourceRequest>";
  }
  Reply control(const std::string& method, const std::string& path, const std::string& body = {},
                const auth::PrincipalPtr& who = root_of(alice), const std::string& account = "111111111111") {
    TestCall c;
    c.method = method;
    c.target = "/v20180820/" + path;
    c.headers = {{"x-amz-account-id", account}};
    c.body = body;
    c.principal = who;
    c.anonymous = who == nullptr;
    return call(std::move(c));
  }
  const std::string resource_ = "tags/arn%3Aaws%3As3%3A%3A%3Abucket";  // as botocore writes it
};

TEST_F(ControlTest, TagsOfABucketAreListedAddedAndTakenAway) {
  Reply r = control("GET", resource_);
  EXPECT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.count("<ListTagsForResourceResult xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\"><Tags>"),
            1u);
  EXPECT_EQ(r.count("<Tag>"), 0u);
  EXPECT_EQ(control("POST", resource_, tags({{"a", "1"}, {"b", "2"}})).status, 204);
  EXPECT_EQ(control("POST", resource_, tags({{"b", "3"}, {"c", "4"}})).status, 204);
  r = control("GET", "tags/arn:aws:s3:::bucket");
  EXPECT_EQ(r.count("<Tag>"), 3u) << "what is there is kept";
  EXPECT_EQ(r.count("<Tag><Key>b</Key><Value>3</Value></Tag>"), 1u);
  EXPECT_EQ(as(root_of(alice), "GET", "/bucket?tagging").count("<Tag>"), 3u) << "the same tags";
  EXPECT_EQ(control("DELETE", resource_ + "?tagKeys=a&tagKeys=c&tagKeys=none").status, 204);
  EXPECT_EQ(control("GET", resource_).element("Key"), "b");
  EXPECT_EQ(control("DELETE", resource_ + "?tagKeys=b").status, 204);
  EXPECT_EQ(control("GET", resource_).count("<Tag>"), 0u);
  EXPECT_EQ(as(root_of(alice), "GET", "/bucket?tagging").code, "NoSuchTagSet");
  EXPECT_EQ(control("POST", resource_, tags({{"d", "5"}})).status, 204);
  EXPECT_EQ(control("GET", resource_).element("Value"), "5");
}

TEST_F(ControlTest, WhatIsNoTagOrNoBucketIsSaidInTheApisOwnForm) {
  const auto code = [&](const Reply& r) {
    EXPECT_EQ(r.count("<ErrorResponse xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\"><Error><Code>"), 1u)
        << r.body;
    EXPECT_EQ(r.count("</Error><RequestId>"), 1u) << r.body;
    return r.code;
  };
  EXPECT_EQ(code(control("POST", resource_, tags({{"aws:a", "1"}}))), "InvalidTag");
  EXPECT_EQ(code(control("POST", resource_, tags({{"a", "1"}, {"a", "2"}}))), "InvalidTag");
  EXPECT_EQ(code(control("POST", resource_, "<TagResourceRequest/>")), "MalformedXML");
  EXPECT_EQ(code(control("POST", resource_, "<Tagging/>")), "MalformedXML");
  EXPECT_EQ(code(control("DELETE", resource_)), "InvalidRequest");
  Headers many;
  for (int i = 0; i < 50; ++i) many.emplace_back("k" + std::to_string(i), "v");
  EXPECT_EQ(control("POST", resource_, tags(many)).status, 204);
  EXPECT_EQ(code(control("POST", resource_, tags({{"one-more", "v"}}))), "InvalidTag");
  const Reply none = control("GET", "tags/arn%3Aaws%3As3%3A%3A%3Anowhere");
  EXPECT_EQ(code(none), "NoSuchBucket");
  EXPECT_EQ(none.element("BucketName"), "nowhere");
  EXPECT_EQ(code(control("GET", "tags/bucket")), "InvalidArgument");
  EXPECT_EQ(code(control("GET", "tags/")), "InvalidArgument");
  EXPECT_EQ(code(control("GET", "tags/%zz")), "InvalidURI");
  EXPECT_EQ(code(control("GET", "tags/arn:aws:s3:::a/b")), "InvalidBucketName");
  EXPECT_EQ(code(control("GET", "tags/arn:aws:s3:us-east-1:111111111111:accesspoint/a")), "NotImplemented");
  EXPECT_EQ(code(control("GET", "tags/arn:aws:s3:::b--local1-az1--x-s3")), "InvalidArgument");
}

TEST_F(ControlTest, OtherCallsAreNotImplementedAndNameNoBucket) {
  for (const char* path : {"configuration/publicAccessBlock", "accesspoint", "jobs", "bucket", "", "tags"}) {
    for (const char* method : {"GET", "PUT", "POST", "DELETE"}) {
      if (std::string(path) == "tags" && std::string(method) != "PUT") continue;
      const Reply r = control(method, path);
      EXPECT_EQ(r.status, 501) << method << path;
      EXPECT_EQ(r.code, "NotImplemented");
      EXPECT_EQ(r.count("<ErrorResponse "), 1u);
    }
  }
  EXPECT_EQ(control("GET", "jobs", "", nullptr).code, "AccessDenied");
  EXPECT_EQ(as(root_of(alice), "HEAD", "/v20180820").status, 404) << "no such bucket was made";
}

// AWS allows the name, and without the header that all calls of S3 Control have it is a bucket like any other.
TEST_F(ControlTest, ABucketMayBeCalledLikeThePath) {
  EXPECT_EQ(as(root_of(alice), "PUT", "/v20180820").status, 200);
  EXPECT_EQ(as(root_of(alice), "PUT", "/v20180820/tags/k", "x").status, 200);
  EXPECT_EQ(as(root_of(alice), "GET", "/v20180820/tags/k").body, "x");
  EXPECT_EQ(control("GET", "tags/k").code, "InvalidArgument");
}

TEST_F(ControlTest, AnAccountMayStandInTheHost) {
  options.domain = "s3.test";
  const auto at = [&](const std::string& host) {
    TestCall c;
    c.target = "/v20180820/" + resource_;
    c.headers = {{"x-amz-account-id", "111111111111"}};
    c.principal = root_of(alice);
    c.host = host;
    return call(std::move(c));
  };
  EXPECT_EQ(at("111111111111.s3.test").count("<ListTagsForResourceResult "), 1u);
  EXPECT_EQ(at("bucket.s3.test").code, "NoSuchKey") << "a key of that bucket";
}

TEST_F(ControlTest, EachCallHasARightOfItsOwn) {
  const auto may = [](const std::string& action) {
    return user_of(alice, "u", R"({"Effect":"Allow","Action":")" + action + R"(","Resource":"arn:aws:s3:::bucket"})");
  };
  const auto all = [&](const auth::PrincipalPtr& who) {
    return std::vector<int>{control("GET", resource_, "", who).status,
                            control("POST", resource_, tags({{"a", "1"}}), who).status,
                            control("DELETE", resource_ + "?tagKeys=a", "", who).status};
  };
  EXPECT_EQ(all(may("s3:ListTagsForResource")), (std::vector<int>{200, 403, 403}));
  EXPECT_EQ(all(may("s3:TagResource")), (std::vector<int>{403, 204, 403}));
  EXPECT_EQ(all(may("s3:UntagResource")), (std::vector<int>{403, 403, 204}));
  EXPECT_EQ(all(may("s3:PutBucketTagging")), (std::vector<int>{403, 403, 403}));
  EXPECT_EQ(all(root_of(bob)), (std::vector<int>{403, 403, 403}));
  EXPECT_EQ(all(nullptr), (std::vector<int>{403, 403, 403}));
  EXPECT_EQ(control("GET", resource_, "", root_of(alice), "222222222222").status, 403) << "another account is meant";
}

TEST_F(ControlTest, AHeaderThatIsNotObeyedIsRefused) {
  const auto with = [&](const std::string& method, const std::string& header, const std::string& value) {
    TestCall c;
    c.method = method;
    c.target = "/v20180820/" + resource_ + (method == "DELETE" ? "?tagKeys=a" : "");
    c.headers = {{"x-amz-account-id", "111111111111"}, {header, value}};
    c.body = method == "POST" ? tags({{"a", "1"}}) : "";
    c.principal = root_of(alice);
    return call(std::move(c));
  };
  for (const char* method : {"GET", "POST", "DELETE"}) {
    EXPECT_EQ(with(method, "x-amz-foo", "1").code, "NotImplemented") << method;
    EXPECT_EQ(with(method, "if-match", "*").code, "NotImplemented") << method;
    EXPECT_EQ(with(method, "x-amz-expected-bucket-owner", "222222222222").code, "AccessDenied") << method;
    EXPECT_LT(with(method, "x-amz-expected-bucket-owner", "111111111111").status, 300) << method;
  }
  EXPECT_EQ(with("POST", "x-amz-checksum-md5", "AAAAAAAAAAAAAAAAAAAAAA==").code, "BadDigest");
}

TEST_F(ControlTest, AnErrorIsXmlWhateverTheRequestHolds) {
  const std::string text =
      control_error_xml({Errc::access_denied, 0, ""}, "id", {{"CanonicalRequest", std::string("a\x01\xff") + "b"}});
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(text.c_str()));
  EXPECT_EQ(text.find("&#x"), std::string::npos) << "a reference that XML 1.0 forbids";
  EXPECT_TRUE(valid_utf8(text));
  EXPECT_NE(text.find("a\xef\xbf\xbd"), std::string::npos) << text;
}

// Another request changes the tags between reading and writing them.
TEST_F(ControlTest, NoTagOfAnotherRequestIsLost) {
  store.before_replacement = [&] { EXPECT_EQ(control("POST", resource_, tags({{"theirs", "1"}})).status, 204); };
  EXPECT_EQ(control("POST", resource_, tags({{"mine", "2"}})).status, 204);
  const Reply r = control("GET", resource_);
  EXPECT_EQ(r.count("<Key>theirs</Key>") + r.count("<Key>mine</Key>"), 2u) << r.body;
}

TEST_F(ControlTest, ADirectoryBucketHasTagsToo) {
  const std::string name = "b--local1-az1--x-s3";
  ASSERT_EQ(as(root_of(alice), "PUT", "/" + name,
               "<CreateBucketConfiguration><Location><Name>local1-az1</Name><Type>AvailabilityZone</Type></Location>"
               "<Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>"
               "<Tags><Tag><Key>a</Key><Value>1</Value></Tag></Tags></CreateBucketConfiguration>")
                .status,
            200);
  const std::string arn = "tags/arn:aws:s3express:us-east-1:111111111111:bucket/" + name;
  EXPECT_EQ(control("GET", arn).element("Key"), "a");
  EXPECT_EQ(control("POST", arn, tags({{"b", "2"}})).status, 204);
  EXPECT_EQ(control("GET", arn).count("<Tag>"), 2u);
  const auto express =
      user_of(alice, "u", R"({"Effect":"Allow","Action":"s3express:ListTagsForResource","Resource":"*"})");
  EXPECT_EQ(control("GET", arn, "", express).status, 200);
  EXPECT_EQ(control("POST", arn, tags({{"c", "3"}}), express).status, 403);
}

}  // namespace
}  // namespace verbena::s3::test
