#include <fmt/format.h>

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class Copies : public Rig {
 protected:
  void SetUp() override {
    make_bucket();
    make_bucket("other");
  }
  Reply copy(const std::string& target, const std::string& source, Headers headers = {}) {
    headers.emplace_back("x-amz-copy-source", source);
    return call("PUT", target, std::move(headers));
  }
};

TEST_F(Copies, TheObjectAndItsHeadersAreTheSame) {
  const std::string data = pattern(3 * MiB + 1);
  const std::string crc = base64_digest(Algorithm::crc32c, data);
  put("a%20b", data, {{"content-type", "x/y"}, {"x-amz-meta-a", "1"}, {"x-amz-checksum-crc32c", crc}});
  const Reply r = copy("/other/c", "/bucket/a%20b");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.element("ETag"), "&quot;" + hex_md5(data) + "&quot;");
  EXPECT_EQ(r.element("ChecksumCRC32C"), crc);
  const Reply got = call("GET", "/other/c", {{"x-amz-checksum-mode", "ENABLED"}});
  EXPECT_TRUE(got.body == data);
  EXPECT_EQ(got.header("content-type"), "x/y");
  EXPECT_EQ(got.header("x-amz-meta-a"), "1");
  EXPECT_EQ(got.header("x-amz-checksum-crc32c"), crc);
}

TEST_F(Copies, ReplaceTakesTheRequestsHeaders) {
  put("k", "data", {{"content-type", "x/y"}, {"x-amz-meta-a", "1"}});
  EXPECT_EQ(copy("/bucket/k", "bucket/k", {{"x-amz-metadata-directive", "REPLACE"}, {"x-amz-meta-b", "2"}}).status,
            200);
  const Reply got = call("GET", "/bucket/k");
  EXPECT_EQ(got.body, "data");
  EXPECT_FALSE(got.has("x-amz-meta-a"));
  EXPECT_EQ(got.header("x-amz-meta-b"), "2");
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"x-amz-metadata-directive", "MERGE"}}).code, "InvalidArgument");
}

// An object from before a header of one value was refused twice could not be copied with a redirect.
TEST_F(Copies, ARedirectIsJudgedWithoutTheHeadersThatAreStored) {
  put("k", "data", {{"content-type", "x/y"}});
  store.tamper("bucket", "k").info.headers.emplace_back("content-type", "x/z");
  const auto redirected = [&](const char* to) {
    return copy("/bucket/c", "/bucket/k", {{"x-amz-website-redirect-location", to}});
  };
  EXPECT_EQ(redirected("nowhere").code, "InvalidArgument");
  EXPECT_EQ(redirected("/there").status, 200);
  EXPECT_EQ(call("GET", "/bucket/c").header("x-amz-website-redirect-location"), "/there");
}

TEST_F(Copies, OntoItselfNeedsAChange) {
  put("k", "data");
  EXPECT_EQ(copy("/bucket/k", "/bucket/k").code, "InvalidRequest");
  EXPECT_EQ(call("GET", "/bucket/k").body, "data");
}

TEST_F(Copies, ConditionsOnTheSourceAre412) {
  const std::string etag = put("k", "data").header("etag");
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"x-amz-copy-source-if-match", etag}}).status, 200);
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"x-amz-copy-source-if-match", "x"}}).status, 412);
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"x-amz-copy-source-if-none-match", etag}}).status, 412);
  EXPECT_EQ(
      copy("/bucket/c", "bucket/k", {{"x-amz-copy-source-if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT"}}).status,
      412);
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"if-none-match", "*"}}).status, 412);
}

TEST_F(Copies, BadSourcesAreNamed) {
  put("k", "data");
  for (const char* bad : {"", "/", "bucket", "bucket/", "/bucket", "%zz/k"}) {
    EXPECT_EQ(copy("/bucket/c", bad).code, "InvalidArgument") << bad;
  }
  EXPECT_EQ(copy("/bucket/c", "bucket/none").code, "NoSuchKey");
  EXPECT_EQ(copy("/bucket/c", "nobucket/k").code, "NoSuchBucket");
  EXPECT_EQ(copy("/none/c", "bucket/k").code, "NoSuchBucket");
  EXPECT_EQ(copy("/bucket/c", "bucket/k?versionId=abc").code, "InvalidArgument");
  EXPECT_EQ(copy("/bucket/c", "bucket/k?versionId=" + nobodys_version()).code, "NoSuchVersion");
  EXPECT_EQ(copy("/bucket/c", "bucket/k?versionId=null").status, 200);
}

TEST_F(Copies, AnErrorAboutTheSourceNamesTheSource) {
  for (const std::string& target : {std::string("/bucket/t"), [&] {
                                      const std::string id = call("POST", "/bucket/t?uploads").element("UploadId");
                                      return "/bucket/t?partNumber=1&uploadId=" + id;
                                    }()}) {
    Reply r = copy(target, "/other/source");
    EXPECT_EQ(r.code, "NoSuchKey");
    EXPECT_EQ(r.element("Key"), "source") << target;
    r = copy(target, "/nowhere/source");
    EXPECT_EQ(r.code, "NoSuchBucket");
    EXPECT_EQ(r.element("BucketName"), "nowhere") << target;
    put("k", "x");
    r = copy(target, "/bucket/k?versionId=" + nobodys_version());
    EXPECT_EQ(r.element("Key") + r.element("VersionId"), "k" + nobodys_version()) << r.body;
  }
  put("k", "x");
  EXPECT_EQ(copy("/nowhere/t", "/bucket/k").element("BucketName"), "nowhere");
}

TEST_F(Copies, RotIsNotCopied) {
  put("k", pattern(5 * MiB));
  store.rot_at = 4 * MiB;
  EXPECT_EQ(copy("/bucket/c", "bucket/k").status, 500);
  EXPECT_EQ(call("HEAD", "/bucket/c").status, 404);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Copies, AskedForAChecksumItIsComputed) {
  put("k", "data");
  const Reply r = copy("/bucket/c", "bucket/k", {{"x-amz-checksum-algorithm", "SHA256"}});
  EXPECT_EQ(r.element("ChecksumSHA256"), base64_digest(Algorithm::sha256, "data"));
  EXPECT_EQ(copy("/bucket/c", "bucket/k", {{"x-amz-checksum-algorithm", "SHA3"}}).code, "InvalidRequest");
}

TEST_F(Copies, PartsAreCopiedByRange) {
  const std::string data = pattern(6 * MiB);
  put("k", data);
  const std::string id = call("POST", "/bucket/m?uploads").element("UploadId");
  const std::string target = "/bucket/m?uploadId=" + id + "&partNumber=";
  const Reply one = copy(target + "1", "bucket/k", {{"x-amz-copy-source-range", "bytes=0-5242879"}});
  ASSERT_EQ(one.status, 200) << one.body;
  EXPECT_EQ(one.element("ETag"), "&quot;" + hex_md5(data.substr(0, 5242880)) + "&quot;");
  const Reply two = copy(target + "2", "bucket/k");
  for (const char* bad : {"bytes=5-", "bytes=-5", "0-5", "bytes=0", "bytes=0-2,3-5"}) {
    EXPECT_EQ(copy(target + "3", "bucket/k", {{"x-amz-copy-source-range", bad}}).code, "InvalidArgument") << bad;
  }
  for (const char* outside : {"bytes=0-99999999", "bytes=6291456-6291457"}) {
    EXPECT_EQ(copy(target + "3", "bucket/k", {{"x-amz-copy-source-range", outside}}).code, "InvalidRange") << outside;
  }
  const auto part = [](int n, const Reply& r) {
    return fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", n, r.element("ETag"));
  };
  ASSERT_EQ(call("POST", "/bucket/m?uploadId=" + id, {},
                 "<CompleteMultipartUpload>" + part(1, one) + part(2, two) + "</CompleteMultipartUpload>")
                .status,
            200);
  EXPECT_TRUE(call("GET", "/bucket/m").body == data.substr(0, 5242880) + data);
  // Of a multipart object the copy gets an MD5 of its own.
  const Reply single = copy("/bucket/single", "bucket/m");
  EXPECT_EQ(single.element("ETag"), "&quot;" + hex_md5(data.substr(0, 5242880) + data) + "&quot;");
}

}  // namespace
}  // namespace verbena::s3::test
