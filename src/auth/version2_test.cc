// The examples of AWS's "Signing and authenticating REST requests" and "query string request authentication", and
// requests that must be refused.
#include "auth/version2.h"

#include <gtest/gtest.h>

#include "auth/test_clock.h"
#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::auth {
namespace {

const Credentials example_v2{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

class Version2Test : public testing::Test {
 protected:
  struct Asked {
    std::string method = "GET", path = "/photos/puppy.jpg", query = "";
    std::vector<HeaderView> headers;
  };
  Errc error_of(const Asked& asked) {
    const auto verified = verifier_.verify({asked.method, asked.path, asked.query, asked.headers});
    return verified ? Errc::ok : verified.error().code;
  }
  static std::string sign(std::string_view text) {
    return to_base64(as_bytes(hmac_sha1(as_bytes(example_v2.secret_key), as_bytes(text))));
  }

  static constexpr HeaderView host_{"Host", "johnsmith.s3.amazonaws.com:80"};
  static constexpr HeaderView date_{"Date", "Tue, 27 Mar 2007 19:36:42 +0000"};
  static constexpr HeaderView signed_get_{"Authorization", "AWS AKIAIOSFODNN7EXAMPLE:bWq2s1WEIj+Ydj0vQ697zp+IXMU="};
  FixedClock clock_{1'175'024'202};
  RootCredentials store_{example_v2};
  Verifier verifier_{store_, clock_, {.region = "us-east-1", .domain = "s3.amazonaws.com"}};
};

TEST_F(Version2Test, AwssExamplesVerify) {
  EXPECT_EQ(error_of({.headers = {host_, date_, signed_get_}}), Errc::ok);
  clock_.set(1'175'030'145);
  EXPECT_EQ(error_of({.method = "PUT",
                      .headers = {host_,
                                  {"Date", "Tue, 27 Mar 2007 21:15:45 +0000"},
                                  {"Content-Type", "image/jpeg"},
                                  {"Content-Length", "94328"},
                                  {"Authorization", "AWS AKIAIOSFODNN7EXAMPLE:MyyxeRY7whkBe+bq8fHCL/2kKUg="}}}),
            Errc::ok);
  clock_.set(1'175'029'568);
  EXPECT_EQ(error_of({.method = "PUT",
                      .path = "/db-backup.dat.gz",
                      .headers = {{"Host", "static.johnsmith.net.s3.amazonaws.com"},
                                  {"Date", "Tue, 27 Mar 2007 21:06:08 +0000"},
                                  {"x-amz-acl", "public-read"},
                                  {"content-type", "application/x-download"},
                                  {"Content-MD5", "4gJE4saaMU4BqNR0kLY+lw=="},
                                  {"X-Amz-Meta-ReviewedBy", "joe@johnsmith.net"},
                                  {"X-Amz-Meta-ReviewedBy", "jane@johnsmith.net"},
                                  {"X-Amz-Meta-FileChecksum", "0x02661779"},
                                  {"X-Amz-Meta-ChecksumAlgorithm", "crc32"},
                                  {"Authorization", "AWS AKIAIOSFODNN7EXAMPLE:ilyl83RwaSoYIEdixDQcA4OnAnc="}}}),
            Errc::ok);
  const std::string presigned =
      "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=1175139620";
  EXPECT_EQ(error_of({.query = presigned, .headers = {host_}}), Errc::ok);
  clock_.set(1'175'139'621);
  EXPECT_EQ(error_of({.query = presigned, .headers = {host_}}), Errc::access_denied) << "expired";
}

TEST_F(Version2Test, WhatS3ActsUponIsCovered) {
  EXPECT_EQ(error_of({.method = "PUT", .headers = {host_, date_, signed_get_}}), Errc::signature_does_not_match);
  EXPECT_EQ(error_of({.path = "/photos/other.jpg", .headers = {host_, date_, signed_get_}}),
            Errc::signature_does_not_match);
  EXPECT_EQ(error_of({.headers = {host_, date_, signed_get_, {"x-amz-acl", "public-read"}}}),
            Errc::signature_does_not_match);
  EXPECT_EQ(error_of({.headers = {{"Host", "other.s3.amazonaws.com"}, date_, signed_get_}}),
            Errc::signature_does_not_match);
  // The same text as a path-style request for a bucket "photos" must not reach the other bucket's object.
  EXPECT_EQ(error_of({.headers = {{"Host", "s3.amazonaws.com"}, date_, signed_get_}}), Errc::signature_does_not_match);
  EXPECT_EQ(
      error_of({.path = "/johnsmith/photos/puppy.jpg", .headers = {{"Host", "s3.amazonaws.com"}, date_, signed_get_}}),
      Errc::ok)
      << "the same resource, path-style";
  for (const char* query : {"acl", "versionId=1", "partNumber=1&uploadId=u", "x-amz-acl=private", "X-Amz-Meta-A=b",
                            "response-content-type=text/html"}) {
    EXPECT_EQ(error_of({.query = query, .headers = {host_, date_, signed_get_}}), Errc::signature_does_not_match)
        << query;
  }
  // Arguments that S3 ignores, or that only shape a listing, are not covered.
  for (const char* query : {"prefix=a&max-keys=5", "v=3", "Content-Type=x&Cache-Control=y", "acl%20policy"}) {
    EXPECT_EQ(error_of({.query = query, .headers = {host_, date_, signed_get_}}), Errc::ok) << query;
  }
}

TEST_F(Version2Test, ABucketMayBeSignedWithASlashBehind) {
  const auto authorization = [](std::string_view resource) {
    return "AWS AKIAIOSFODNN7EXAMPLE:" + sign("GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n" + std::string(resource));
  };
  const auto error = [&](std::string_view host, std::string_view path, std::string_view resource) {
    const std::string value = authorization(resource);
    return error_of({.path = std::string(path), .headers = {{"Host", host}, date_, {"Authorization", value}}});
  };
  EXPECT_EQ(error("s3.amazonaws.com", "/johnsmith", "/johnsmith"), Errc::ok);
  EXPECT_EQ(error("s3.amazonaws.com", "/johnsmith", "/johnsmith/"), Errc::ok);
  EXPECT_EQ(error("johnsmith.s3.amazonaws.com", "/", "/johnsmith/"), Errc::ok);
  // A slash at the end of a key belongs to the key: leaving it out names another object.
  EXPECT_EQ(error("johnsmith.s3.amazonaws.com", "/key", "/johnsmith/key/"), Errc::signature_does_not_match);
  EXPECT_EQ(error("s3.amazonaws.com", "/johnsmith/key", "/johnsmith/key/"), Errc::signature_does_not_match);
}

TEST_F(Version2Test, AUrlsHeadersStandInItsQuery) {
  const std::string signature =
      sign("PUT\n\ntext/plain\n1175139620\nx-amz-meta-a:b\n/johnsmith/photos/puppy.jpg?uploadId=u");
  std::string query =
      "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&uploadId=u&Signature=" + uri_encode(signature, false);
  EXPECT_EQ(
      error_of({.method = "PUT", .query = query + "&x-amz-meta-a=b&content-type=text%2Fplain", .headers = {host_}}),
      Errc::ok);
  EXPECT_EQ(
      error_of(
          {.method = "PUT", .query = query, .headers = {host_, {"x-amz-meta-a", "b"}, {"content-type", "text/plain"}}}),
      Errc::ok);
  EXPECT_EQ(
      error_of({.method = "PUT", .query = query + "&x-amz-meta-a=c&content-type=text%2Fplain", .headers = {host_}}),
      Errc::signature_does_not_match);
}

// Correct clients also send values from the presigned URL's query in headers.
TEST_F(Version2Test, AValueInUrlAndHeaderCountsOnce) {
  const std::string signature = sign("PUT\n\n\n1175139620\nx-amz-acl:private\n/johnsmith/photos/puppy.jpg");
  const std::string query = "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&x-amz-acl=private&Signature=" +
                            uri_encode(signature, false);
  const auto with = [&](const char* value) {
    return error_of({.method = "PUT", .query = query, .headers = {host_, {"x-amz-acl", value}}});
  };
  EXPECT_EQ(error_of({.method = "PUT", .query = query, .headers = {host_}}), Errc::ok);
  EXPECT_EQ(with("private"), Errc::ok);
  EXPECT_EQ(with("public-read"), Errc::signature_does_not_match) << "the header is what S3 acts upon";
  EXPECT_EQ(error_of({.method = "PUT", .query = query + "&x-amz-acl=public-read", .headers = {host_}}),
            Errc::signature_does_not_match);
}

// A URL signed for "x&tagging" as a download's name returned the object's tags.
TEST_F(Version2Test, ATextThatIsThatOfTwoRequestsIsRefused) {
  const auto error = [&](const std::string& lines, const std::string& resource, const std::string& query) {
    const std::string text = "GET\n\n\n1175139620\n" + lines + "/johnsmith/photos/puppy.jpg" + resource;
    return error_of({.query = "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1175139620&" + query +
                              "&Signature=" + uri_encode(sign(text), false),
                     .headers = {host_}});
  };
  const std::string disposition = "?response-content-disposition=x";
  for (const char* other : {"tagging", "versionId=1", "uploadId=u", "torrent", "website"}) {
    const std::string text = disposition + "&" + other;
    const std::string name = "response-content-disposition=x";
    EXPECT_EQ(error("", text, name + "&" + other), Errc::access_denied) << other;
    EXPECT_EQ(error("", text, name + uri_encode(std::string("&") + other, false)), Errc::access_denied) << other;
  }
  EXPECT_EQ(error("", "?versionId=1&versions", "versionId=1%26versions"), Errc::access_denied);
  EXPECT_EQ(error("", "?acl&tagging", "acl%26tagging"), Errc::signature_does_not_match) << "no name of an argument";
  // A line end in a value begins another header.
  EXPECT_EQ(error("x-amz-meta-a:1\nx-amz-acl:private\n", "", "x-amz-meta-a=1%0Ax-amz-acl%3Aprivate"),
            Errc::access_denied);
  EXPECT_EQ(error("x-amz-meta-a:b:c\n", "", "x-amz-meta-a%3Ab=c"), Errc::access_denied);
  EXPECT_EQ(error("x-amz-meta-a:b\n", "", "x-amz-meta-a=%20b"), Errc::access_denied);
  EXPECT_EQ(error("x-amz-acl:private,public-read\n", "", "x-amz-acl=private&X-Amz-Acl=public-read"),
            Errc::access_denied);
  // Requests of real clients.
  EXPECT_EQ(error("", "?response-content-disposition=a=b&c.pdf", "response-content-disposition=a%3Db%26c.pdf"),
            Errc::ok);
  EXPECT_EQ(error("", "?response-content-disposition=x&response-content-type=text/plain",
                  "response-content-disposition=x&response-content-type=text%2Fplain"),
            Errc::ok);
  EXPECT_EQ(error("", "?partNumber=1&response-content-type=x", "partNumber=1&response-content-type=x"), Errc::ok);
  EXPECT_EQ(error("", "?partNumber=1&uploadId=u", "partNumber=1&uploadId=u"), Errc::ok);
  EXPECT_EQ(error("x-amz-meta-a:b\nx-amz-meta-c:d\n", "", "x-amz-meta-a=b&x-amz-meta-c=d"), Errc::ok);
}

// A header added in transit made its bucket lose `sync`.
TEST_F(Version2Test, AHeaderThatIsNoneOfAwssIsRefusedWhereItIsActedUpon) {
  EXPECT_EQ(error_of({.headers = {host_, date_, signed_get_, {"X-Verbena-Durability", "memory"}}}),
            Errc::missing_signed_header);
}

TEST_F(Version2Test, DatesAreOfAnyFormOfHttp) {
  for (const char* date :
       {"Tue, 27 Mar 2007 19:36:42 GMT", "Tue, 27 Mar 2007 19:36:42 UTC", "Tuesday, 27-Mar-07 19:36:42 GMT",
        "Tuesday, 27-Mar-07 19:36:42 UTC", "Tue Mar 27 19:36:42 2007", "20070327T193642Z"}) {
    const std::string signature = sign(std::string("GET\n\n\n") + date + "\n/johnsmith/photos/puppy.jpg");
    const std::string authorization = "AWS AKIAIOSFODNN7EXAMPLE:" + signature;
    EXPECT_EQ(error_of({.headers = {host_, {"Date", date}, {"Authorization", authorization}}}), Errc::ok) << date;
  }
}

TEST_F(Version2Test, WhatIsMalformedIsSaidSo) {
  const auto authorized = [&](std::string_view value) {
    return error_of({.headers = {host_, date_, {"Authorization", value}}});
  };
  EXPECT_EQ(authorized("AWS HAHAHA"), Errc::invalid_argument);
  EXPECT_EQ(authorized("AWS :x"), Errc::invalid_argument);
  EXPECT_EQ(authorized("AWS NOBODY:bWq2s1WEIj+Ydj0vQ697zp+IXMU="), Errc::invalid_access_key_id);
  const auto dated = [&](std::string_view date) {
    return error_of({.headers = {host_, {"x-amz-date", date}, signed_get_}});
  };
  EXPECT_EQ(dated(""), Errc::access_denied);
  EXPECT_EQ(dated("Bad Date"), Errc::access_denied);
  EXPECT_EQ(dated("Tue, 07 Jul 1950 21:53:04 GMT"), Errc::access_denied);
  EXPECT_EQ(dated("Tue, 07 Jul 2010 21:53:04 GMT"), Errc::request_time_too_skewed);
  EXPECT_EQ(dated("Tue, 07 Jul 9999 21:53:04 GMT"), Errc::request_time_too_skewed);
  EXPECT_EQ(error_of({.headers = {host_, signed_get_}}), Errc::access_denied) << "no date";
  EXPECT_EQ(error_of({.query = "AWSAccessKeyId=a&Expires=1175139620", .headers = {host_}}), Errc::access_denied);
  EXPECT_EQ(error_of({.query = "AWSAccessKeyId=a&Signature=b&Expires=soon", .headers = {host_}}), Errc::access_denied);
  EXPECT_EQ(error_of({.query = "Signature=b", .headers = {host_, date_, signed_get_}}), Errc::invalid_argument);
  EXPECT_EQ(error_of({.query = "X-Amz-Signature=b", .headers = {host_, date_, signed_get_}}), Errc::invalid_argument);
  EXPECT_EQ(
      error_of(
          {.headers = {host_, date_, signed_get_, {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}}}),
      Errc::invalid_request)
      << "nothing to chain the chunks' signatures to";
}

TEST(VirtualBucket, IsWhatStandsBeforeTheDomain) {
  EXPECT_EQ(virtual_bucket("photos.s3.test", "s3.test"), "photos");
  EXPECT_EQ(virtual_bucket("my.photos.s3.test", "s3.test"), "my.photos");
  EXPECT_EQ(virtual_bucket("photos.localhost", ""), "photos");
  EXPECT_EQ(virtual_bucket("s3.test", "s3.test"), "");
  EXPECT_EQ(virtual_bucket(".s3.test", "s3.test"), "");
  EXPECT_EQ(virtual_bucket("photoss3.test", "s3.test"), "");
  EXPECT_EQ(virtual_bucket("127.0.0.1", ""), "");
}

}  // namespace
}  // namespace verbena::auth
