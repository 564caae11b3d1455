// AWS's published examples ("Signature Calculations for the Authorization Header", "Authenticating Requests: Using
// Query Parameters", Amazon S3 API Reference). The key pair is the one of the documentation.
#include <gtest/gtest.h>

#include "auth/auth.h"
#include "auth/canonical_request.h"
#include "auth/chunk_signature.h"
#include "auth/test_clock.h"
#include "base/bytes.h"
#include "base/checksum.h"

namespace verbena::auth {
namespace {

const Credentials example{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::string authorization(std::string_view names, std::string_view signature) {
  return "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=" +
         std::string(names) + ",Signature=" + std::string(signature);
}

class AwsExamples : public testing::Test {
 protected:
  Result<Verified> verify(std::string_view method, std::string_view path, std::string_view query,
                          std::vector<HeaderView> headers) {
    return verifier_.verify({method, path, query, headers});
  }

  FixedClock clock_{example_day};
  RootCredentials store_{example};
  Verifier verifier_{store_, clock_, {}};
};

TEST_F(AwsExamples, GetObjectWithARangeVerifies) {
  const auto value = authorization("host;range;x-amz-content-sha256;x-amz-date",
                                   "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  const auto verified = verify("GET", "/test.txt", "",
                               {{"Host", "examplebucket.s3.amazonaws.com"},
                                {"Authorization", value},
                                {"Range", "bytes=0-9"},
                                {"x-amz-content-sha256", empty_sha256},
                                {"x-amz-date", "20130524T000000Z"}});
  ASSERT_TRUE(verified) << describe(verified.error());
  EXPECT_EQ(verified->identity.access_key, "AKIAIOSFODNN7EXAMPLE");
  EXPECT_FALSE(verified->identity.anonymous);
  EXPECT_TRUE(verified->identity.signs("Range"));
  EXPECT_FALSE(verified->identity.signs("x-amz-rdma-token"));
  EXPECT_EQ(verified->payload, Payload::sha256);
  EXPECT_EQ(to_hex(verified->payload_sha256), empty_sha256);
}

TEST_F(AwsExamples, PutObjectWhosePathHasADollarVerifiesEncodedOrNot) {
  const auto value = authorization("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                                   "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  for (const char* path : {"/test%24file.text", "/test$file.text"}) {
    const auto verified =
        verify("PUT", path, "",
               {{"Host", "examplebucket.s3.amazonaws.com"},
                {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                {"Authorization", value},
                {"x-amz-date", "20130524T000000Z"},
                {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                {"x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}});
    ASSERT_TRUE(verified) << describe(verified.error());
    EXPECT_EQ(to_hex(verified->payload_sha256), "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  }
}

TEST_F(AwsExamples, GetBucketLifecycleVerifies) {
  const auto value = authorization("host;x-amz-content-sha256;x-amz-date",
                                   "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  const auto verified = verify("GET", "/", "lifecycle",
                               {{"Host", "examplebucket.s3.amazonaws.com"},
                                {"Authorization", value},
                                {"x-amz-date", "20130524T000000Z"},
                                {"x-amz-content-sha256", empty_sha256}});
  ASSERT_TRUE(verified) << describe(verified.error());
}

TEST_F(AwsExamples, ListObjectsVerifiesInAnyOrderOfItsArguments) {
  const auto value = authorization("host;x-amz-content-sha256;x-amz-date",
                                   "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  for (const char* query : {"max-keys=2&prefix=J", "prefix=J&max-keys=2"}) {
    const auto verified = verify("GET", "/", query,
                                 {{"Host", "examplebucket.s3.amazonaws.com"},
                                  {"Authorization", value},
                                  {"x-amz-date", "20130524T000000Z"},
                                  {"x-amz-content-sha256", empty_sha256}});
    ASSERT_TRUE(verified) << describe(verified.error());
  }
}

TEST_F(AwsExamples, PresignedGetVerifies) {
  const std::string query =
      "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
      "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
      "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
  const auto verified = verify("GET", "/test.txt", query, {{"Host", "examplebucket.s3.amazonaws.com"}});
  ASSERT_TRUE(verified) << describe(verified.error());
  EXPECT_EQ(verified->payload, Payload::unsigned_payload);
  EXPECT_EQ(presign(example, "us-east-1", clock_, "GET", "examplebucket.s3.amazonaws.com", "/test.txt", "", 86400),
            query);
}

TEST_F(AwsExamples, ChunksOfTheStreamingExampleHaveThePublishedSignatures) {
  const auto value = authorization(
      "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-"
      "class",
      "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
  const auto verified = verify("PUT", "/examplebucket/chunkObject.txt", "",
                               {{"Host", "s3.amazonaws.com"},
                                {"x-amz-date", "20130524T000000Z"},
                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                {"Authorization", value},
                                {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
                                {"Content-Encoding", "aws-chunked"},
                                {"x-amz-decoded-content-length", "66560"},
                                {"Content-Length", "66824"}});
  ASSERT_TRUE(verified) << describe(verified.error());
  EXPECT_EQ(verified->payload, Payload::chunked_signed);
  const ChunkContext context{verified->amz_date, verified->scope, verified->signing_key};
  const auto hash = [](size_t n) { return to_hex(as_bytes(sha256(as_bytes(std::string(n, 'a'))))); };
  const auto first = chunk_signature(context, verified->seed_signature, hash(65536));
  EXPECT_EQ(first, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
  const auto second = chunk_signature(context, first, hash(1024));
  EXPECT_EQ(second, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
  EXPECT_EQ(chunk_signature(context, second, empty_sha256),
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
}

TEST_F(AwsExamples, TheTrailerExampleHasThePublishedSignatures) {
  const auto value = authorization(
      "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-"
      "trailer",
      "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
  const auto verified = verify("PUT", "/examplebucket/chunkObject.txt", "",
                               {{"Host", "s3.amazonaws.com"},
                                {"x-amz-date", "20130524T000000Z"},
                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                {"Authorization", value},
                                {"x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"},
                                {"Content-Encoding", "aws-chunked"},
                                {"x-amz-decoded-content-length", "66560"},
                                {"x-amz-trailer", "x-amz-checksum-crc32c"},
                                {"Content-Length", "66824"}});
  ASSERT_TRUE(verified) << describe(verified.error());
  EXPECT_EQ(verified->payload, Payload::chunked_signed_trailer);
  const ChunkContext context{verified->amz_date, verified->scope, verified->signing_key};
  const std::string_view last = "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992";
  const auto hash = to_hex(as_bytes(sha256(as_bytes("x-amz-checksum-crc32c:sOO8/Q==\n"))));
  EXPECT_EQ(trailer_signature(context, last, hash), "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435");
}

}  // namespace
}  // namespace verbena::auth
