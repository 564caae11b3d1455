#include "s3/objects/checksums.h"

#include "s3/test_rig.h"

namespace verbena::s3::test {
namespace {

class Checksums : public Rig {
 protected:
  void SetUp() override { make_bucket(); }
};

constexpr Algorithm all[] = {Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme, Algorithm::sha1,
                             Algorithm::sha256};

TEST_F(Checksums, FromHeadersAreVerifiedStoredAndGivenBack) {
  for (const Algorithm algorithm : all) {
    const std::string name = checksum_header(algorithm);
    const std::string good = base64_digest(algorithm, "data");
    const Reply stored =
        put("k", "data", {{name, good}, {"x-amz-sdk-checksum-algorithm", std::string(to_string(algorithm))}});
    ASSERT_EQ(stored.status, 200) << name << stored.body;
    EXPECT_EQ(stored.header(name), good);
    EXPECT_EQ(stored.header("x-amz-checksum-type"), "FULL_OBJECT");
    EXPECT_FALSE(call("GET", "/bucket/k").has(name));
    EXPECT_EQ(call("GET", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}}).header(name), good);
    EXPECT_EQ(call("HEAD", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}}).header(name), good);
    EXPECT_FALSE(call("GET", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}, {"range", "bytes=0-1"}}).has(name));
    const Reply bad = put("bad", "other", {{name, good}});
    EXPECT_EQ(bad.status, 400);
    EXPECT_EQ(bad.code, "BadDigest");
    EXPECT_EQ(call("GET", "/bucket/bad").status, 404);
  }
}

TEST_F(Checksums, FromTrailersAreVerified) {
  for (const Algorithm algorithm : all) {
    const std::string name = checksum_header(algorithm);
    Call c;
    c.method = "PUT";
    c.target = "/bucket/k";
    c.body = pattern(2 * MiB + 3);
    c.headers = {{"x-amz-trailer", name}, {"x-amz-sdk-checksum-algorithm", std::string(to_string(algorithm))}};
    c.trailers = {{name, base64_digest(algorithm, c.body)}};
    const Reply stored = call(c);
    ASSERT_EQ(stored.status, 200) << name << stored.body;
    EXPECT_EQ(stored.header(name), c.trailers[0].second);
    c.target = "/bucket/bad";
    c.trailers = {{name, base64_digest(algorithm, "other")}};
    EXPECT_EQ(call(c).code, "BadDigest");
    c.trailers = {};
    EXPECT_EQ(call(c).code, "MalformedTrailerError");
    c.trailers = {{name, "not base64"}};
    EXPECT_EQ(call(c).status, 400);
    EXPECT_EQ(call("HEAD", "/bucket/bad").status, 404);
  }
}

TEST_F(Checksums, ContentMd5IsVerified) {
  EXPECT_EQ(put("k", "data", {{"content-md5", base64_digest(Algorithm::md5, "data")}}).status, 200);
  EXPECT_EQ(put("k", "data", {{"content-md5", base64_digest(Algorithm::md5, "tada")}}).code, "BadDigest");
  EXPECT_EQ(put("k", "data", {{"content-md5", "short"}}).code, "InvalidDigest");
  EXPECT_EQ(put("k", "data", {{"content-md5", "AAAA"}}).code, "InvalidDigest");
}

TEST_F(Checksums, ContradictionsAreRefused) {
  const std::string crc = base64_digest(Algorithm::crc32, "data");
  const std::string sha = base64_digest(Algorithm::sha256, "data");
  EXPECT_EQ(put("k", "data", {{"x-amz-checksum-crc32", crc}, {"x-amz-checksum-sha256", sha}}).code, "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-checksum-crc32", sha}}).code, "BadDigest");
  EXPECT_EQ(put("k", "data", {{"x-amz-checksum-crc32", crc + "-2"}}).code, "BadDigest");
  EXPECT_EQ(put("k", "data", {{"x-amz-sdk-checksum-algorithm", "CRC32"}}).code, "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-sdk-checksum-algorithm", "SHA256"}, {"x-amz-checksum-crc32", crc}}).code,
            "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-trailer", "x-amz-meta-a"}}).code, "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-trailer", "x-amz-checksum-crc32"}, {"x-amz-checksum-crc32", crc}}).code,
            "InvalidRequest");
}

TEST_F(Checksums, OfAPresignedUrlsQueryAreNotTheBodys) {
  // SDKs hoist the CRC32 of the empty body they sign with.
  EXPECT_EQ(
      call("PUT", "/bucket/k?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32", {}, "x").status,
      200);
}

TEST(CombineChecksums, FullObjectCrcsEqualThoseOfTheWhole) {
  const std::string a = pattern(100'000), b = pattern(70'001), c = pattern(3);
  for (const Algorithm algorithm : {Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme}) {
    std::vector<store::PartInfo> parts;
    for (const std::string* text : {&a, &b, &c}) {
      Digest digest(algorithm);
      digest.update(as_bytes(*text));
      parts.push_back({static_cast<int>(parts.size()) + 1, text->size(), "", 0, {{algorithm, digest.finish(), 0}}});
    }
    const auto combined = combine_checksums(algorithm, true, parts);
    ASSERT_TRUE(combined);
    EXPECT_EQ(format_checksum(*combined), base64_digest(algorithm, a + b + c));
    const auto composite = combine_checksums(algorithm, false, parts);
    ASSERT_TRUE(composite);
    EXPECT_EQ(composite->parts, 3);
    std::string values;
    for (const auto& part : parts) values += part.checksums[0].value;
    EXPECT_EQ(format_checksum(*composite), base64_digest(algorithm, values) + "-3");
  }
  EXPECT_FALSE(combine_checksums(Algorithm::crc32, true, {{1, 1, "", 0, {}}}));
}

TEST(ParseChecksum, TakesOnlyTheDigestsSize) {
  EXPECT_TRUE(parse_checksum(Algorithm::crc32, "AAAAAA=="));
  EXPECT_EQ(parse_checksum(Algorithm::crc32, "AAAAAA==-12")->parts, 12);
  for (const char* bad :
       {"", "AAAA", "AAAAAA", "AAAAAA==-", "AAAAAA==-0", "AAAAAA==-10001", "AAAAAA==-x", "!!!!!!=="}) {
    EXPECT_EQ(parse_checksum(Algorithm::crc32, bad).error(), Errc::invalid_checksum) << bad;
  }
}

}  // namespace
}  // namespace verbena::s3::test
