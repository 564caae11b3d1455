#include "s3/objects/checksums.h"

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class Checksums : public Rig {
 protected:
  void SetUp() override { make_bucket(); }
};

constexpr auto& all = all_algorithms;

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
    TestCall c;
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

TEST_F(Checksums, OfAnUploadAreThoseOfItsPartsAndComposite) {
  const std::string one = pattern(5 * MiB), two = "tail";
  for (const Algorithm algorithm : all) {
    if (algorithm == Algorithm::crc64nvme) continue;  // has no composite form
    const std::string name = checksum_header(algorithm), element = checksum_element(algorithm);
    const std::string text(to_string(algorithm));
    const Reply begun = call("POST", "/bucket/k?uploads", {{"x-amz-checksum-algorithm", text}});
    ASSERT_EQ(begun.status, 200) << begun.body;
    EXPECT_EQ(begun.header("x-amz-checksum-type"), "COMPOSITE");
    const std::string at = "/bucket/k?uploadId=" + begun.element("UploadId");
    std::string parts, values;
    int number = 0;
    for (const std::string* body : {&one, &two}) {
      const std::string sum = base64_digest(algorithm, *body);
      const std::string part = at + "&partNumber=" + std::to_string(++number);
      EXPECT_EQ(call("PUT", part, {{name, base64_digest(algorithm, "other")}}, *body).code, "BadDigest") << text;
      const Reply sent = call("PUT", part, {{name, sum}}, *body);
      ASSERT_EQ(sent.header(name), sum) << sent.body;
      parts += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>" + sent.header("etag") +
               "</ETag><" + element + ">" + sum + "</" + element + "></Part>";
      Digest digest(algorithm);
      digest.update(as_bytes(*body));
      values += digest.finish();
    }
    const Reply listed = call("GET", at);
    EXPECT_EQ(listed.element("ChecksumAlgorithm"), text);
    EXPECT_EQ(listed.element(element), base64_digest(algorithm, one));
    EXPECT_EQ(call("GET", "/bucket?uploads").element("ChecksumAlgorithm"), text);
    const std::string document = "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>";
    const std::string whole = base64_digest(algorithm, values) + "-2";
    EXPECT_EQ(call("POST", at, {{name, base64_digest(algorithm, "other") + "-2"}}, document).code, "BadDigest") << text;
    const Reply done = call("POST", at, {{name, whole}, {"x-amz-checksum-type", "COMPOSITE"}}, document);
    ASSERT_EQ(done.status, 200) << done.body;
    EXPECT_EQ(done.element(element), whole);
    EXPECT_EQ(call("HEAD", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}}).header(name), whole);
    const Reply told = call("GET", "/bucket/k?attributes", {{"x-amz-object-attributes", "Checksum,ObjectParts"}});
    EXPECT_EQ(told.element(element), whole);
    EXPECT_EQ(told.count(base64_digest(algorithm, two)), 1u) << told.body;
    EXPECT_EQ(told.element("ChecksumType"), "COMPOSITE");
  }
}

TEST_F(Checksums, OfAFullObjectAreCrcsAlone) {
  for (const Algorithm algorithm : all) {
    const bool crc =
        algorithm == Algorithm::crc32 || algorithm == Algorithm::crc32c || algorithm == Algorithm::crc64nvme;
    const Reply r =
        call("POST", "/bucket/k?uploads",
             {{"x-amz-checksum-algorithm", std::string(to_string(algorithm))}, {"x-amz-checksum-type", "FULL_OBJECT"}});
    EXPECT_EQ(r.status, crc ? 200 : 400) << to_string(algorithm);
  }
}

TEST_F(Checksums, OfACopyAreTheAskedFor) {
  put("source", "data", {{"x-amz-checksum-sha512", base64_digest(Algorithm::sha512, "data")}});
  const Reply plain = call("PUT", "/bucket/copy", {{"x-amz-copy-source", "/bucket/source"}});
  EXPECT_EQ(plain.element("ChecksumSHA512"), base64_digest(Algorithm::sha512, "data"));
  EXPECT_EQ(plain.element("ChecksumType"), "FULL_OBJECT");
  for (const Algorithm algorithm : all) {
    const Headers asked = {{"x-amz-copy-source", "/bucket/source"},
                           {"x-amz-checksum-algorithm", std::string(to_string(algorithm))}};
    const Reply copied = call("PUT", "/bucket/copy", asked);
    EXPECT_EQ(copied.element(checksum_element(algorithm)), base64_digest(algorithm, "data")) << copied.body;
    EXPECT_EQ(copied.element("ChecksumType"), "FULL_OBJECT");
    const Reply listed = call("GET", "/bucket?list-type=2&prefix=copy");
    EXPECT_EQ(listed.element("ChecksumAlgorithm"), to_string(algorithm));
    const std::string name = checksum_header(algorithm);
    EXPECT_EQ(call("HEAD", "/bucket/copy", {{"x-amz-checksum-mode", "ENABLED"}}).header(name),
              base64_digest(algorithm, "data"));
  }
  const Headers unknown = {{"x-amz-copy-source", "/bucket/source"}, {"x-amz-checksum-algorithm", "CRC16"}};
  EXPECT_EQ(call("PUT", "/bucket/copy", unknown).code, "InvalidRequest");
}

// A copy of an object of parts got the source's algorithm, too.
TEST_F(Checksums, ACopyThatNamesAnAlgorithmHasNoOther) {
  const std::string at =
      "/bucket/source?uploadId=" +
      call("POST", "/bucket/source?uploads", {{"x-amz-checksum-algorithm", "SHA256"}}).element("UploadId");
  const Reply part =
      call("PUT", at + "&partNumber=1", {{"x-amz-checksum-sha256", base64_digest(Algorithm::sha256, "data")}}, "data");
  ASSERT_EQ(call("POST", at, {},
                 "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header("etag") +
                     "</ETag><ChecksumSHA256>" + base64_digest(Algorithm::sha256, "data") +
                     "</ChecksumSHA256></Part></CompleteMultipartUpload>")
                .status,
            200);
  for (const Algorithm algorithm : {Algorithm::crc32, Algorithm::sha256}) {
    const Reply copied = call(
        "PUT", "/bucket/copy",
        {{"x-amz-copy-source", "/bucket/source"}, {"x-amz-checksum-algorithm", std::string(to_string(algorithm))}});
    EXPECT_EQ(copied.element(checksum_element(algorithm)), base64_digest(algorithm, "data")) << copied.body;
    EXPECT_EQ(copied.count("<Checksum"), 2u) << copied.body;
    const Reply listed = call("GET", "/bucket?list-type=2&prefix=copy");
    EXPECT_EQ(listed.element("ChecksumAlgorithm"), to_string(algorithm));
    EXPECT_EQ(listed.count("<ChecksumAlgorithm>"), 1u) << listed.body;
  }
}

TEST_F(Checksums, OfSeveralOneTypeIsListed) {
  auto writer = run(store.create("bucket", "k", 0)).value();
  store::ObjectInfo info;
  info.etag = hex_md5("");
  for (const Algorithm algorithm : {Algorithm::crc32, Algorithm::sha256}) {
    info.checksums.push_back({algorithm, digest_text(algorithm, ""), 0});
  }
  ASSERT_TRUE(run(writer->commit(std::move(info), store::CommitConditions())));
  for (const char* list : {"/bucket?list-type=2", "/bucket?versions"}) {
    const Reply listed = call("GET", list);
    EXPECT_EQ(listed.count("<ChecksumAlgorithm>"), 2u) << listed.body;
    EXPECT_EQ(listed.count("<ChecksumType>"), 1u) << listed.body;
  }
}

TEST_F(Checksums, OfDocumentsAreVerified) {
  put("k", "x");
  const std::string text = "<Delete><Object><Key>k</Key></Object></Delete>";
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  for (const Algorithm algorithm : all) {
    const std::string name = checksum_header(algorithm), named(to_string(algorithm));
    EXPECT_EQ(call("POST", "/bucket?delete", {{name, base64_digest(algorithm, "other")}}, text).code, "BadDigest");
    EXPECT_EQ(call("PUT", "/bucket?tagging", {{name, base64_digest(algorithm, "other")}}, tags).code, "BadDigest");
    EXPECT_EQ(call("GET", "/bucket/k").status, 200) << named;
    const Headers good = {{name, base64_digest(algorithm, tags)}, {"x-amz-sdk-checksum-algorithm", named}};
    EXPECT_EQ(call("PUT", "/bucket?tagging", good, tags).status, 204) << named;
    EXPECT_EQ(call("PUT", "/bucket/k?tagging", good, tags).status, 200) << named;
  }
  const Headers differs = {{"x-amz-checksum-sha1", base64_digest(Algorithm::sha1, tags)},
                           {"x-amz-sdk-checksum-algorithm", "SHA512"}};
  EXPECT_EQ(call("PUT", "/bucket?tagging", differs, tags).code, "InvalidRequest");
  const Headers both = {{"x-amz-checksum-sha1", base64_digest(Algorithm::sha1, tags)},
                        {"x-amz-checksum-xxhash3", base64_digest(Algorithm::xxhash3, tags)}};
  EXPECT_EQ(call("PUT", "/bucket?tagging", both, tags).code, "InvalidRequest");
  EXPECT_EQ(call("PUT", "/bucket?tagging", {{"x-amz-checksum-crc16", "AAA="}}, tags).code, "InvalidRequest");
  EXPECT_EQ(
      call("POST", "/bucket?delete", {{"x-amz-checksum-sha512", base64_digest(Algorithm::sha512, text)}}, text).status,
      200);
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
}

TEST_F(Checksums, OfAnAlgorithmThatS3HasNotAreRefused) {
  const Reply r = put("k", "data", {{"x-amz-checksum-xxhash32", "AAAAAA=="}});
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.code, "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-trailer", "x-amz-checksum-xxhash32"}}).code, "InvalidRequest");
  EXPECT_EQ(call("HEAD", "/bucket/k").status, 404);
}

// As an upload's, it says what the body is to be summed with.
TEST_F(Checksums, AreMadeWithTheAlgorithmThatAPutNames) {
  const Reply r = put("k", "data", {{"x-amz-checksum-algorithm", "XXHASH128"}});
  EXPECT_EQ(r.header("x-amz-checksum-xxhash128"), base64_digest(Algorithm::xxhash128, "data"));
  EXPECT_EQ(put("k", "data", {{"x-amz-checksum-algorithm", "NONE"}}).code, "InvalidRequest");
  const Headers differs = {{"x-amz-checksum-sha1", base64_digest(Algorithm::sha1, "data")},
                           {"x-amz-checksum-algorithm", "SHA512"}};
  EXPECT_EQ(put("k", "data", differs).code, "InvalidRequest");
  EXPECT_EQ(put("k", "data", {{"x-amz-checksum-type", "COMPOSITE"}}).code, "InvalidRequest");
  for (const char* target : {"/bucket/k?uploads", "/bucket/k?uploadId=x"}) {
    EXPECT_EQ(call("POST", target, {{"x-amz-checksum-algorithm", "CRC32"}, {"x-amz-checksum-type", "WHOLE"}}).code,
              "InvalidRequest");
  }
}

// The entity tag of a body is an MD5 too: one hash, returned twice.
TEST_F(Checksums, AnMd5IsAChecksumBesideTheEntityTag) {
  const std::string sum = base64_digest(Algorithm::md5, "data");
  const Reply r = put("k", "data", {{"x-amz-checksum-md5", sum}, {"content-md5", sum}});
  EXPECT_EQ(r.header("x-amz-checksum-md5"), sum);
  EXPECT_EQ(r.header("etag"), "\"" + hex_md5("data") + "\"");
  const Reply plain = put("k", "data", {{"content-md5", sum}});
  EXPECT_FALSE(plain.has("x-amz-checksum-md5")) << "Content-MD5 is no checksum that is kept";
  EXPECT_TRUE(plain.has("x-amz-checksum-crc64nvme"));
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

TEST_F(Checksums, APresignedUrlsQueryMayNameTheirAlgorithm) {
  const Reply begun = call("POST", "/bucket/k?uploads&X-Amz-Signature=a&x-amz-checksum-algorithm=SHA512");
  EXPECT_EQ(begun.header("x-amz-checksum-algorithm"), "SHA512");
  EXPECT_EQ(call("PUT", "/bucket/k?X-Amz-Signature=a&x-amz-checksum-algorithm=NONE", {}, "x").code, "InvalidRequest");
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
  // Of a single part, too: it is no full object's checksum by S3's rules.
  for (const Algorithm algorithm : {Algorithm::sha256, Algorithm::sha512, Algorithm::md5, Algorithm::xxhash64}) {
    const std::string digest(digest_size(algorithm), 'x');
    EXPECT_FALSE(combine_checksums(algorithm, true, {{1, 1, "", 0, {{algorithm, digest, 0}}}})) << to_string(algorithm);
  }
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
