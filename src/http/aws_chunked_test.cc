#include "http/aws_chunked.h"

#include <gtest/gtest.h>

#include "auth/chunk_signature.h"
#include "http/sha256_source.h"
#include "http/test_drain.h"
#include "memory/text_source.h"

namespace verbena::http {
namespace {

// The request of AWS's examples: 66560 bytes 'a' in chunks of 65536 and 1024.
auth::Verified example(std::string_view seed) {
  auth::Verified verified;
  verified.seed_signature = seed;
  verified.amz_date = "20130524T000000Z";
  verified.scope = "20130524/us-east-1/s3/aws4_request";
  verified.signing_key = auth::signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524", "us-east-1", "s3");
  return verified;
}

std::string signed_chunk(size_t size, std::string_view hex, std::string_view signature) {
  return std::string(hex) + ";chunk-signature=" + std::string(signature) + "\r\n" + std::string(size, 'a') + "\r\n";
}

std::string example_body() {
  return signed_chunk(65536, "10000", "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648") +
         signed_chunk(1024, "400", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497") +
         signed_chunk(0, "0", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
}

const auth::Verified plain_example = example("4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
const auth::Verified trailer_example = example("106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");

std::string trailer_body(std::string_view between = "\n\r\n") {
  std::string body = signed_chunk(65536, "10000", "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2") +
                     signed_chunk(1024, "400", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7") +
                     "0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n";
  body += "x-amz-checksum-crc32c:sOO8/Q==";
  body += between;
  body += "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n";
  return body;
}

struct Outcome {
  Errc error = Errc::ok;
  std::string bytes;
  s3::Headers trailers;
};

Outcome decode(std::string_view body, AwsChunkedSource::Options options, size_t step = 10'000) {
  Outcome outcome;
  memory::TextSource wire(body);
  AwsChunkedSource source(wire, std::move(options));
  outcome.error = drain(source, step, outcome.bytes);
  outcome.trailers = source.trailers();
  return outcome;
}

AwsChunkedSource::Options signed_options() { return {66560, false, {}, &plain_example}; }
AwsChunkedSource::Options trailer_options() { return {66560, true, {"x-amz-checksum-crc32c"}, &trailer_example}; }
AwsChunkedSource::Options unsigned_options(uint64_t length, std::vector<std::string> names = {"x-amz-checksum-crc32"}) {
  return {length, true, std::move(names), nullptr};
}

TEST(AwsChunked, TheStreamingExampleDecodesWhateverTheReaderAsksFor) {
  for (size_t step : {1, 7, 1000, 1024, 65536, 66560, 66561, 1 << 20}) {
    const auto outcome = decode(example_body(), signed_options(), step);
    EXPECT_EQ(outcome.error, Errc::ok) << step;
    EXPECT_TRUE(outcome.bytes == std::string(66560, 'a')) << step;
  }
}

TEST(AwsChunked, TheTrailerExampleDecodesWithItsOddLineEndAndWithProperOnes) {
  for (const char* between : {"\n\r\n", "\r\n"}) {
    const auto outcome = decode(trailer_body(between), trailer_options());
    EXPECT_EQ(outcome.error, Errc::ok);
    EXPECT_EQ(outcome.bytes.size(), 66560u);
    EXPECT_EQ(outcome.trailers, (s3::Headers{{"x-amz-checksum-crc32c", "sOO8/Q=="}}));
  }
}

TEST(AwsChunked, AChangedByteAnywhereInTheDataDoesNotMatch) {
  for (size_t at : {90u, 40'000u, 66'000u}) {
    auto body = example_body();
    body[at] = 'b';
    EXPECT_EQ(decode(body, signed_options()).error, Errc::signature_does_not_match) << at;
  }
}

TEST(AwsChunked, AReaderOfExactlyTheDecodedLengthHearsOfABadEnd) {
  auto body = example_body();
  body[body.size() - 10] ^= 1;  // in the final chunk's signature
  EXPECT_EQ(decode(body, signed_options(), 66560).error, Errc::signature_does_not_match);
  EXPECT_EQ(decode(body.substr(0, body.size() - 90), signed_options(), 66560).error, Errc::incomplete_body);
}

TEST(AwsChunked, ChunksCannotBeDroppedSwappedOrLeftUnsigned) {
  const auto body = example_body();
  const auto first = body.substr(0, 85 + 65536 + 4 + 1);
  EXPECT_EQ(decode(body.substr(first.size()), signed_options()).error, Errc::signature_does_not_match);
  std::string bare = "10000\r\n" + std::string(65536, 'a') + "\r\n";
  EXPECT_EQ(decode(bare, signed_options()).error, Errc::signature_does_not_match);
  EXPECT_EQ(decode("10000;chunk-signature=abc\r\n", signed_options()).error, Errc::signature_does_not_match);
}

TEST(AwsChunked, AForgedOrMissingTrailerSignatureDoesNotMatch) {
  auto body = trailer_body();
  body[body.size() - 10] ^= 1;
  EXPECT_EQ(decode(body, trailer_options()).error, Errc::signature_does_not_match);
  body = trailer_body();
  body[body.find("sOO8")] = 't';
  EXPECT_EQ(decode(body, trailer_options()).error, Errc::signature_does_not_match);
  body = trailer_body();
  body.erase(body.find("x-amz-trailer-signature"));
  EXPECT_EQ(decode(body, trailer_options()).error, Errc::signature_does_not_match);
}

TEST(AwsChunked, ABodyThatEndsEarlyIsIncompleteWhereverItEnds) {
  const std::string body = "5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
  const size_t trailer = body.find("x-amz");
  for (size_t size = 0; size < trailer; ++size) {
    const auto error = decode(body.substr(0, size), unsigned_options(11)).error;
    EXPECT_TRUE(error == Errc::incomplete_body || (size + 3 >= trailer && error == Errc::malformed_trailer)) << size;
  }
  EXPECT_EQ(decode(body.substr(0, trailer), unsigned_options(11)).error, Errc::malformed_trailer);
  EXPECT_EQ(decode(body, unsigned_options(11)).error, Errc::ok);
  EXPECT_EQ(decode(body, unsigned_options(11)).bytes, "hello world");
  EXPECT_EQ(decode(body.substr(0, body.size() - 2), unsigned_options(11)).error, Errc::ok);
}

TEST(AwsChunked, TheDecodedLengthMustBeThatOfTheChunks) {
  const std::string body = "5\r\nhello\r\n0\r\n\r\n";
  EXPECT_EQ(decode(body, unsigned_options(5, {})).error, Errc::ok);
  EXPECT_EQ(decode(body, unsigned_options(6, {})).error, Errc::incomplete_body);
  EXPECT_EQ(decode(body, unsigned_options(4, {})).error, Errc::incomplete_body);
  EXPECT_EQ(decode(body, unsigned_options(0, {})).error, Errc::incomplete_body);
  EXPECT_EQ(decode("0\r\n\r\n", unsigned_options(0, {})).error, Errc::ok);
}

TEST(AwsChunked, BrokenFramingIsAnInvalidRequest) {
  for (const char* body : {"x\r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n",
                           "5\r\nhelloX\r\n0\r\n\r\n", "1000000000000000\r\n", "5 \r\nhello\r\n0\r\n\r\n"}) {
    EXPECT_EQ(decode(body, unsigned_options(5, {})).error, Errc::invalid_request) << body;
  }
  EXPECT_EQ(decode("5;" + std::string(5000, 'x') + "\r\n", unsigned_options(5, {})).error, Errc::invalid_request);
  EXPECT_EQ(decode("5\r\nhello\r\n0\r\n\r\nGET /", unsigned_options(5, {})).error, Errc::invalid_request);
}

TEST(AwsChunked, TrailersAreThoseAnnouncedOnceEach) {
  const std::string start = "5\r\nhello\r\n0\r\n";
  const auto error = [&](std::string_view rest, std::vector<std::string> names) {
    return decode(start + std::string(rest), unsigned_options(5, std::move(names))).error;
  };
  EXPECT_EQ(error("A:1\r\nb: 2 \r\n\r\n", {"a", "b"}), Errc::ok);
  EXPECT_EQ(error("a:1\r\n\r\n", {"a", "b"}), Errc::malformed_trailer);
  EXPECT_EQ(error("a:1\r\nc:1\r\n\r\n", {"a"}), Errc::malformed_trailer);
  EXPECT_EQ(error("a:1\r\na:2\r\n\r\n", {"a"}), Errc::malformed_trailer);
  EXPECT_EQ(error("a\r\n\r\n", {"a"}), Errc::malformed_trailer);
  EXPECT_EQ(error(":1\r\n\r\n", {"a"}), Errc::malformed_trailer);
  EXPECT_EQ(error("x-amz-trailer-signature:" + std::string(64, '0') + "\r\n\r\n", {}), Errc::malformed_trailer);
  const AwsChunkedSource::Options none{5, false, {}, nullptr};
  EXPECT_EQ(decode(start + "a:1\r\n\r\n", none).error, Errc::malformed_trailer);
}

TEST(AwsChunked, AnErrorStays) {
  memory::TextSource wire("x\r\n");
  AwsChunkedSource source(wire, unsigned_options(5, {}));
  std::string out;
  EXPECT_EQ(drain(source, 10, out), Errc::invalid_request);
  EXPECT_EQ(drain(source, 10, out), Errc::invalid_request);
}

TEST(Sha256Source, TheSignedHashMustBeThatOfTheBody) {
  const std::string body(100'000, 'x');
  const auto hash = sha256_of(as_bytes(body));
  for (size_t step : {1000, 100'000, 200'000}) {
    std::string out;
    memory::TextSource right(body), wrong(std::string_view(body).substr(1));
    Sha256Source good(right, hash), bad(wrong, hash);
    EXPECT_EQ(drain(good, step, out), Errc::ok);
    EXPECT_EQ(out, body);
    EXPECT_EQ(drain(bad, step, out), Errc::content_sha256_mismatch);
    EXPECT_EQ(drain(bad, step, out), Errc::content_sha256_mismatch);
  }
}

TEST(Sha256Source, AReaderOfExactlyTheSizeHearsOfAMismatch) {
  memory::TextSource wire("hello");
  Sha256Source source(wire, Sha256{});
  std::string out;
  EXPECT_EQ(drain(source, 5, out), Errc::content_sha256_mismatch);
  EXPECT_EQ(out, "");
}

TEST(Sha256Source, HashesAlongWhatItReturns) {
  const std::string body(100'001, 'y');
  for (size_t step : {1000, 4096, 200'000}) {
    std::string out;
    memory::TextSource wire(body);
    Sha256Source source(wire, sha256_of(as_bytes(body)));
    Md5 along, alone;
    source.hash_along(along);
    EXPECT_EQ(drain(source, step, out), Errc::ok);
    alone.update(as_bytes(body));
    EXPECT_EQ(along.finish(), alone.finish()) << step;
  }
}

}  // namespace
}  // namespace verbena::http
