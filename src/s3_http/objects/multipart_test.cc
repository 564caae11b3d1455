#include <fmt/format.h>

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class Multipart : public Rig {
 protected:
  void SetUp() override { make_bucket(); }

  std::string create(Headers headers = {}) {
    const Reply r = call("POST", "/bucket/k?uploads", std::move(headers));
    EXPECT_EQ(r.status, 200) << r.body;
    return r.element("UploadId");
  }
  Reply upload(const std::string& id, int number, const std::string& data, Headers headers = {}) {
    return call("PUT", fmt::format("/bucket/k?partNumber={}&uploadId={}", number, id), std::move(headers), data);
  }
  static std::string part_xml(int number, const std::string& etag, const std::string& extra = {}) {
    return fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>{}</Part>", number, etag, extra);
  }
  Reply complete(const std::string& id, const std::string& parts, Headers headers = {}) {
    return call("POST", "/bucket/k?uploadId=" + id, std::move(headers),
                "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>");
  }
};

TEST_F(Multipart, PartsBecomeOneObject) {
  const std::string a = pattern(5 * MiB), b = pattern(5 * MiB + 7), c = "tail";
  const std::string id = create({{"content-type", "x/y"}, {"x-amz-meta-a", "1"}});
  const std::string ea = upload(id, 1, a).header("etag"), eb = upload(id, 3, b).header("etag"),
                    ec = upload(id, 7, c).header("etag");
  EXPECT_EQ(ea, "\"" + hex_md5(a) + "\"");
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  const Reply done = complete(id, part_xml(1, ea) + part_xml(3, eb) + part_xml(7, ec));
  ASSERT_EQ(done.status, 200) << done.body;
  std::string raw;
  for (const std::string* text : {&a, &b, &c}) {
    Digest digest(Algorithm::md5);
    digest.update(as_bytes(*text));
    raw += digest.finish();
  }
  const std::string etag = hex_md5(raw) + "-3";
  EXPECT_EQ(done.element("ETag"), "&quot;" + etag + "&quot;");
  const Reply got = call("GET", "/bucket/k");
  EXPECT_TRUE(got.body == a + b + c);
  EXPECT_EQ(got.header("etag"), "\"" + etag + "\"");
  EXPECT_EQ(got.header("content-type"), "x/y");
  EXPECT_EQ(got.header("x-amz-meta-a"), "1");
  // A client that lost the answer gets it again; with another list of parts nothing was completed.
  const Reply again = complete(id, part_xml(1, ea) + part_xml(3, eb) + part_xml(7, ec));
  EXPECT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(again.element("ETag"), done.element("ETag"));
  EXPECT_EQ(complete(id, part_xml(1, ea)).code, "NoSuchUpload");

  const Reply second = call("GET", "/bucket/k?partNumber=3");
  EXPECT_EQ(second.status, 206);
  EXPECT_TRUE(second.body == b);
  EXPECT_EQ(second.header("x-amz-mp-parts-count"), "3");
  EXPECT_EQ(second.header("content-range"),
            fmt::format("bytes {}-{}/{}", a.size(), a.size() + b.size() - 1, a.size() + b.size() + c.size()));
  for (const char* left_out : {"2", "4", "8"}) {
    const Reply none = call("GET", std::string("/bucket/k?partNumber=") + left_out);
    EXPECT_EQ(none.status, 416) << left_out;
    EXPECT_EQ(none.element("ActualPartCount"), "3");
  }
  EXPECT_EQ(call("GET", "/bucket/k?partNumber=0").code, "InvalidArgument");
  EXPECT_EQ(call("GET", "/bucket/k?partNumber=1", {{"range", "bytes=0-1"}}).code, "InvalidRequest");
  EXPECT_EQ(call("HEAD", "/bucket/k?partNumber=7").content_length, 4u);
}

TEST_F(Multipart, AnObjectsPartsKeepTheirNumbers) {
  const std::string big = pattern(5 * MiB);
  const std::string id = create({{"x-amz-checksum-algorithm", "CRC32"}});
  std::string parts;
  for (const int number : {1, 3, 9'999}) parts += part_xml(number, upload(id, number, big).header("etag"));
  parts += part_xml(10'000, upload(id, 10'000, "tail").header("etag"));
  ASSERT_EQ(complete(id, parts).status, 200);
  const auto attributes = [&](Headers headers) {
    headers.emplace_back("x-amz-object-attributes", "ObjectParts");
    return call("GET", "/bucket/k?attributes", headers);
  };
  Reply r = attributes({});
  EXPECT_EQ(r.element("PartsCount"), "4");
  EXPECT_EQ(r.count("<PartNumber>1</PartNumber>") + r.count("<PartNumber>3</PartNumber>") +
                r.count("<PartNumber>9999</PartNumber>") + r.count("<PartNumber>10000</PartNumber>"),
            4u)
      << r.body;
  EXPECT_EQ(r.element("NextPartNumberMarker"), "10000");
  r = attributes({{"x-amz-max-parts", "2"}});
  EXPECT_EQ(r.element("IsTruncated"), "true");
  EXPECT_EQ(r.element("NextPartNumberMarker"), "3");
  r = attributes({{"x-amz-max-parts", "2"}, {"x-amz-part-number-marker", "3"}});
  EXPECT_EQ(r.element("IsTruncated"), "false");
  EXPECT_EQ(r.element("PartNumber"), "9999");
  EXPECT_EQ(r.count("<Part>"), 2u);
  r = attributes({{"x-amz-part-number-marker", "10000"}});
  EXPECT_EQ(r.count("<Part>"), 0u);
  EXPECT_EQ(r.element("NextPartNumberMarker"), "0");
  const Reply last = call("HEAD", "/bucket/k?partNumber=10000", {{"x-amz-checksum-mode", "ENABLED"}});
  EXPECT_EQ(last.header("x-amz-checksum-crc32"), base64_digest(Algorithm::crc32, "tail"));
  EXPECT_EQ(last.header("x-amz-mp-parts-count"), "4");
}

// A retry that overtakes: the same document comes while the first request is still at work.
TEST_F(Multipart, CompletionsAtOnceGetOneAnswer) {
  for (const Headers& headers : {Headers{}, Headers{{"if-none-match", "*"}}}) {
    for (auto* hook : {&store.before_parts, &store.before_completion}) {
      call("DELETE", "/bucket/k");
      const std::string id = create();
      const std::string parts = part_xml(1, upload(id, 1, "small").header("etag"));
      Reply first;
      *hook = [&] { first = complete(id, parts, headers); };
      const Reply second = complete(id, parts, headers);
      EXPECT_EQ(first.status, 200) << first.body;
      EXPECT_EQ(second.status, 200) << second.body;
      EXPECT_EQ(second.body, first.body);
      EXPECT_EQ(second.header("x-amz-version-id"), first.header("x-amz-version-id"));
    }
  }
}

TEST_F(Multipart, ACompletionThatMeetsAnotherEndOfItsUploadSaysSo) {
  const std::string big = pattern(5 * MiB);
  for (auto* hook : {&store.before_parts, &store.before_completion}) {
    std::string id = create();
    std::string one = part_xml(1, upload(id, 1, big).header("etag"));
    *hook = [&] { EXPECT_EQ(call("DELETE", "/bucket/k?uploadId=" + id).status, 204); };
    EXPECT_EQ(complete(id, one).code, "NoSuchUpload") << "aborted";
    id = create();
    one = part_xml(1, upload(id, 1, big).header("etag"));
    const std::string both = one + part_xml(2, upload(id, 2, "x").header("etag"));
    *hook = [&] { EXPECT_EQ(complete(id, one).status, 200); };
    EXPECT_EQ(complete(id, both).code, "NoSuchUpload") << "of other parts";
    // An upload that goes on is not taken for one that is over.
    id = create();
    one = part_xml(1, upload(id, 1, big).header("etag"));
    *hook = [&] { upload(id, 1, "another"); };
    EXPECT_EQ(complete(id, one).code, "InvalidPart");
    EXPECT_EQ(call("DELETE", "/bucket/k?uploadId=" + id).status, 204);
  }
}

// The store did not say what became of it. It was made, and its object was replaced before that was looked up.
TEST_F(Multipart, ACompletionOfUnknownOutcomeWhoseObjectWasReplacedDoesNotSayThatThereWasNoUpload) {
  const std::string id = create();
  const std::string parts = part_xml(1, upload(id, 1, "small").header("etag"));
  store.before_completion = [&] {
    EXPECT_EQ(complete(id, parts).status, 200);
    EXPECT_EQ(call("PUT", "/bucket/k", {}, "another").status, 200);
    store.completion_error = Errc::service_unavailable;
  };
  EXPECT_EQ(complete(id, parts).code, "ServiceUnavailable");
  EXPECT_EQ(complete(id, parts).code, "NoSuchUpload");
}

TEST_F(Multipart, CompletionChecksThePartsItNames) {
  const std::string id = create();
  const std::string big = pattern(5 * MiB);
  const std::string e1 = upload(id, 1, "small").header("etag"), e2 = upload(id, 2, big).header("etag");
  const Reply small = complete(id, part_xml(1, e1) + part_xml(2, e2));
  EXPECT_EQ(small.code, "EntityTooSmall");
  EXPECT_EQ(small.element("PartNumber"), "1");
  EXPECT_EQ(complete(id, part_xml(2, e2) + part_xml(1, e1)).code, "InvalidPartOrder");
  EXPECT_EQ(complete(id, part_xml(2, e2) + part_xml(2, e2)).code, "InvalidPartOrder");
  EXPECT_EQ(complete(id, part_xml(3, e2)).code, "InvalidPart");
  EXPECT_EQ(complete(id, part_xml(2, e1)).code, "InvalidPart");
  EXPECT_EQ(complete(id, "").code, "MalformedXML");
  EXPECT_EQ(complete("nope", part_xml(1, e1)).code, "NoSuchUpload");
  EXPECT_EQ(complete(id, part_xml(2, e2) + part_xml(1, e1), {{"x-amz-mp-object-size", "1"}}).code, "InvalidPartOrder");
  EXPECT_EQ(complete(id, part_xml(2, e2), {{"x-amz-mp-object-size", "1"}}).code, "InvalidRequest");
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  EXPECT_EQ(complete(id, part_xml(1, e1), {{"x-amz-mp-object-size", "5"}}).status, 200);
}

TEST_F(Multipart, CompletionIsConditionalToo) {
  put("k", "first");
  const std::string id = create();
  const std::string e = upload(id, 1, "second").header("etag");
  EXPECT_EQ(complete(id, part_xml(1, e), {{"if-none-match", "*"}}).status, 412);
  EXPECT_EQ(call("GET", "/bucket/k").body, "first");
}

TEST_F(Multipart, PartNumbersAreBounded) {
  const std::string id = create();
  for (const int number : {0, 10'001}) EXPECT_EQ(upload(id, number, "x").code, "InvalidArgument");
  EXPECT_EQ(call("PUT", "/bucket/k?uploadId=" + id, {}, "x").code, "InvalidArgument");
  EXPECT_EQ(upload("nope", 1, "x").code, "NoSuchUpload");
  EXPECT_EQ(call("PUT", "/bucket/k?partNumber=1", {}, "x").code, "InvalidArgument");
}

TEST_F(Multipart, PartsAndUploadsAreListed) {
  const std::string id = create();
  for (int i = 1; i <= 5; ++i) upload(id, i * 2, "x");
  Reply r = call("GET", "/bucket/k?uploadId=" + id + "&max-parts=2");
  EXPECT_EQ(r.count("<Part>"), 2u);
  EXPECT_EQ(r.element("IsTruncated"), "true");
  EXPECT_EQ(r.element("NextPartNumberMarker"), "4");
  r = call("GET", "/bucket/k?uploadId=" + id + "&part-number-marker=4");
  EXPECT_EQ(r.count("<Part>"), 3u);
  EXPECT_EQ(r.element("IsTruncated"), "false");
  EXPECT_EQ(r.element("NextPartNumberMarker"), "10");
  r = call("GET", "/bucket/k?uploadId=" + id + "&part-number-marker=10");
  EXPECT_EQ(r.element("NextPartNumberMarker"), "0") << "no parts";
  const std::string empty = create();
  EXPECT_EQ(call("GET", "/bucket/k?uploadId=" + empty).element("NextPartNumberMarker"), "0");
  EXPECT_EQ(call("DELETE", "/bucket/k?uploadId=" + empty).status, 204);
  EXPECT_EQ(call("GET", "/bucket/k?uploadId=none").code, "NoSuchUpload");

  call("POST", "/bucket/other?uploads");
  r = call("GET", "/bucket?uploads");
  EXPECT_EQ(r.count("<Upload>"), 2u);
  r = call("GET", "/bucket?uploads&max-uploads=1");
  EXPECT_EQ(r.element("NextKeyMarker"), "k");
  r = call("GET", "/bucket?uploads&key-marker=k&upload-id-marker=" + id);
  EXPECT_EQ(r.element("Key"), "other");
  EXPECT_EQ(call("GET", "/bucket?uploads&prefix=o").count("<Upload>"), 1u);
}

TEST_F(Multipart, AnAbortForgetsTheUpload) {
  const std::string id = create();
  upload(id, 1, "x");
  EXPECT_EQ(call("DELETE", "/bucket/k?uploadId=" + id).status, 204);
  EXPECT_EQ(call("DELETE", "/bucket/k?uploadId=" + id).code, "NoSuchUpload");
  EXPECT_EQ(upload(id, 1, "x").code, "NoSuchUpload");
  EXPECT_EQ(call("POST", "/none/k?uploads").code, "NoSuchBucket");
}

TEST_F(Multipart, FullObjectChecksumsAreThoseOfTheWhole) {
  const std::string a = pattern(5 * MiB), b = "tail";
  for (const Algorithm algorithm : {Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme}) {
    const std::string name(to_string(algorithm));
    const std::string id = create({{"x-amz-checksum-algorithm", name}, {"x-amz-checksum-type", "FULL_OBJECT"}});
    const std::string ea = upload(id, 1, a).header("etag");
    const std::string eb = upload(id, 2, b).header("etag");
    const std::string whole = base64_digest(algorithm, a + b);
    const std::string header = "x-amz-checksum-" + std::string(algorithm == Algorithm::crc32    ? "crc32"
                                                               : algorithm == Algorithm::crc32c ? "crc32c"
                                                                                                : "crc64nvme");
    EXPECT_EQ(complete(id, part_xml(1, ea) + part_xml(2, eb), {{header, base64_digest(algorithm, "no")}}).code,
              "BadDigest");
    const Reply done = complete(id, part_xml(1, ea) + part_xml(2, eb), {{header, whole}});
    ASSERT_EQ(done.status, 200) << done.body;
    EXPECT_EQ(done.element("Checksum" + name), whole);
    EXPECT_EQ(done.element("ChecksumType"), "FULL_OBJECT");
    EXPECT_EQ(call("HEAD", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}}).header(header), whole);
  }
}

TEST_F(Multipart, CompositeChecksumsCountTheirParts) {
  const std::string a = pattern(5 * MiB), b = "tail";
  const std::string id = create({{"x-amz-checksum-algorithm", "SHA256"}});
  const std::string sa = base64_digest(Algorithm::sha256, a), sb = base64_digest(Algorithm::sha256, b);
  const Reply ra = upload(id, 1, a, {{"x-amz-checksum-sha256", sa}});
  EXPECT_EQ(ra.header("x-amz-checksum-sha256"), sa);
  const std::string eb = upload(id, 2, b).header("etag");  // the server sums it itself
  EXPECT_EQ(upload(id, 3, b, {{"x-amz-checksum-crc32", base64_digest(Algorithm::crc32, b)}}).code, "InvalidRequest");
  EXPECT_EQ(complete(id, part_xml(1, ra.header("etag"), "<ChecksumSHA256>" + sb + "</ChecksumSHA256>")).code,
            "InvalidPart");
  const Reply done = complete(id, part_xml(1, ra.header("etag"), "<ChecksumSHA256>" + sa + "</ChecksumSHA256>") +
                                      part_xml(2, eb, "<ChecksumSHA256>" + sb + "</ChecksumSHA256>"));
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_TRUE(done.element("ChecksumSHA256").ends_with("-2"));
  EXPECT_EQ(done.element("ChecksumType"), "COMPOSITE");
  const Reply head = call("HEAD", "/bucket/k?partNumber=1", {{"x-amz-checksum-mode", "ENABLED"}});
  EXPECT_EQ(head.header("x-amz-checksum-sha256"), sa);
  const Reply attributes = call("GET", "/bucket/k?attributes", {{"x-amz-object-attributes", "ObjectParts"}});
  EXPECT_EQ(attributes.element("PartsCount"), "2");
}

// As minio-go has it since 7.0.46, and with it mc, Velero, Thanos, Loki and Terraform.
TEST_F(Multipart, ACompositeChecksumMayComeWithoutItsNumberOfParts) {
  const std::string a = pattern(5 * MiB), b = "tail";
  const auto raw = [](std::string_view text) {
    Digest digest(Algorithm::crc32c);
    digest.update(as_bytes(text));
    return digest.finish();
  };
  const std::string composite = base64_digest(Algorithm::crc32c, raw(a) + raw(b));
  const auto upload_both = [&](Headers headers) {
    const std::string id = create(std::move(headers));
    const auto etag = [&](int number, const std::string& text) {
      return upload(id, number, text, {{"x-amz-checksum-crc32c", base64_digest(Algorithm::crc32c, text)}})
          .header("etag");
    };
    return std::pair(id, part_xml(1, etag(1, a)) + part_xml(2, etag(2, b)));
  };
  for (const Headers& created : {Headers{{"x-amz-checksum-algorithm", "CRC32C"}}, Headers{}}) {
    for (const std::string& given : {composite, composite + "-2"}) {
      const auto [id, parts] = upload_both(created);
      const Reply done = complete(id, parts, {{"x-amz-checksum-crc32c", given}});
      EXPECT_EQ(done.status, 200) << done.body;
      EXPECT_EQ(done.element("ChecksumCRC32C"), composite + "-2");
    }
    const auto [id, parts] = upload_both(created);
    const std::string wrong = base64_digest(Algorithm::crc32c, "wrong");
    EXPECT_EQ(complete(id, parts, {{"x-amz-checksum-crc32c", wrong}}).code, "BadDigest");
    EXPECT_EQ(complete(id, parts, {{"x-amz-checksum-crc32c", composite + "-3"}}).code, "BadDigest");
  }
  const auto [id, parts] =
      upload_both({{"x-amz-checksum-algorithm", "CRC32C"}, {"x-amz-checksum-type", "FULL_OBJECT"}});
  EXPECT_EQ(complete(id, parts, {{"x-amz-checksum-crc32c", composite}}).code, "BadDigest") << "not the full object's";
  EXPECT_EQ(complete(id, parts, {{"x-amz-checksum-crc32c", base64_digest(Algorithm::crc32c, a + b)}}).status, 200);
}

TEST_F(Multipart, APartSaysTheTypeOfItsObjectsChecksum) {
  const std::string a = pattern(5 * MiB), b = "tail";
  for (const char* type : {"COMPOSITE", "FULL_OBJECT"}) {
    const std::string id = create({{"x-amz-checksum-algorithm", "CRC32"}, {"x-amz-checksum-type", type}});
    const std::string ea = upload(id, 1, a).header("etag"), eb = upload(id, 2, b).header("etag");
    ASSERT_EQ(complete(id, part_xml(1, ea) + part_xml(2, eb)).status, 200);
    for (const char* method : {"GET", "HEAD"}) {
      const Reply part = call(method, "/bucket/k?partNumber=2", {{"x-amz-checksum-mode", "ENABLED"}});
      EXPECT_EQ(part.header("x-amz-checksum-crc32"), base64_digest(Algorithm::crc32, b));
      EXPECT_EQ(part.header("x-amz-checksum-type"), type) << method;
    }
  }
}

TEST_F(Multipart, ChecksumKindsThatCannotBeAreRefused) {
  const auto make = [&](const char* algorithm, const char* type) {
    return call("POST", "/bucket/k?uploads", {{"x-amz-checksum-algorithm", algorithm}, {"x-amz-checksum-type", type}});
  };
  EXPECT_EQ(make("SHA256", "FULL_OBJECT").code, "InvalidRequest");
  EXPECT_EQ(make("CRC64NVME", "COMPOSITE").code, "InvalidRequest");
  EXPECT_EQ(make("MD5", "FULL_OBJECT").code, "InvalidRequest");
  EXPECT_EQ(make("CRC16", "COMPOSITE").code, "InvalidRequest");
  EXPECT_EQ(make("CRC32", "HALF").code, "InvalidRequest");
  EXPECT_EQ(make("CRC64NVME", "FULL_OBJECT").header("x-amz-checksum-type"), "FULL_OBJECT");
}

}  // namespace
}  // namespace verbena::s3::test
