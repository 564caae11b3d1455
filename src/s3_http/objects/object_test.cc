// PUT, GET, HEAD and DELETE of objects.
#include "memory/budget.h"
#include "s3/objects/read.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

class Objects : public Rig {
 protected:
  void SetUp() override { make_bucket(); }
};

TEST_F(Objects, WhatIsPutIsGot) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{4096}, size_t{1 * MiB}, size_t{1 * MiB + 1}, size_t{7 * MiB}}) {
    const std::string data = pattern(size);
    const Reply stored = put("k", data, {{"content-type", "text/plain"}, {"x-amz-meta-color", "green"}});
    ASSERT_EQ(stored.status, 200) << stored.body;
    EXPECT_EQ(stored.header("etag"), "\"" + hex_md5(data) + "\"");
    const Reply got = call("GET", "/bucket/k");
    EXPECT_EQ(got.status, 200);
    EXPECT_TRUE(got.whole);
    EXPECT_EQ(got.content_length, size);
    EXPECT_TRUE(got.body == data);
    EXPECT_EQ(got.header("etag"), stored.header("etag"));
    EXPECT_EQ(got.header("content-type"), "text/plain");
    EXPECT_EQ(got.header("x-amz-meta-color"), "green");
    EXPECT_EQ(got.header("accept-ranges"), "bytes");
    EXPECT_EQ(got.header("x-amz-request-id"), "0123456789ABCDEF");
    const Reply head = call("HEAD", "/bucket/k");
    EXPECT_EQ(head.status, 200);
    EXPECT_TRUE(head.no_body);
    EXPECT_EQ(head.content_length, size);
    EXPECT_EQ(head.header("etag"), stored.header("etag"));
  }
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Objects, ABodyOfUnknownLengthIsStored) {
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/k";
  c.body = pattern(3 * MiB + 5);
  c.declare_length = false;
  ASSERT_EQ(call(c).status, 200);
  EXPECT_TRUE(call("GET", "/bucket/k").body == c.body);
}

TEST_F(Objects, AMissingKeyOrBucketIs404WithItsName) {
  const Reply key = call("GET", "/bucket/none");
  EXPECT_EQ(key.status, 404);
  EXPECT_EQ(key.code, "NoSuchKey");
  EXPECT_EQ(key.element("Key"), "none");
  EXPECT_EQ(key.element("Resource"), "/bucket/none");
  EXPECT_EQ(key.header("content-type"), "application/xml");
  const Reply bucket = call("GET", "/nobucket/k");
  EXPECT_EQ(bucket.code, "NoSuchBucket");
  EXPECT_EQ(bucket.element("BucketName"), "nobucket");
  const Reply head = call("HEAD", "/bucket/none");
  EXPECT_EQ(head.status, 404);
  EXPECT_TRUE(head.no_body);
  EXPECT_EQ(call("PUT", "/nobucket/k", {}, "x").code, "NoSuchBucket");
}

TEST_F(Objects, ABrokenBodyStoresNothing) {
  for (const Errc error : {Errc::content_sha256_mismatch, Errc::incomplete_body, Errc::signature_does_not_match}) {
    TestCall c;
    c.method = "PUT";
    c.target = "/bucket/k";
    c.body = pattern(2 * MiB);
    c.source_error = error;
    EXPECT_NE(call(c).status, 200);
    EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  }
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Objects, AStoreThatIsFullSaysSo) {
  store.append_error = Errc::insufficient_storage;
  EXPECT_EQ(put("k", "data").status, 507);
  store.append_error = Errc::slow_down;
  const Reply slow = put("k", "data");
  EXPECT_EQ(slow.status, 503);
  EXPECT_EQ(slow.code, "SlowDown");
  EXPECT_TRUE(slow.has("retry-after"));
}

TEST_F(Objects, AFullArenaAnswersSlowDown) {
  auto limits = arena->budget().limits();
  limits.wait_max = std::chrono::milliseconds(100);
  arena->budget().set_limits(limits);
  std::vector<memory::Lease> all;
  for (auto lease = arena->lease(4 * MiB); lease; lease = arena->lease(4 * MiB)) all.push_back(std::move(*lease));
  for (auto lease = arena->lease(4096); lease; lease = arena->lease(4096)) all.push_back(std::move(*lease));
  EXPECT_EQ(put("k", "data").code, "SlowDown");
  all.clear();
  EXPECT_EQ(put("k", "data").status, 200);
}

TEST_F(Objects, RotInTheFirstChunkIsAnErrorAndLaterCutsTheBody) {
  put("k", pattern(5 * MiB));
  store.rot_at = 10;
  const Reply first = call("GET", "/bucket/k");
  EXPECT_TRUE(first.whole);
  EXPECT_EQ(first.status, 500);
  EXPECT_EQ(first.code, "InternalError");
  store.rot_at = 3 * MiB;
  const Reply later = call("GET", "/bucket/k");
  EXPECT_FALSE(later.whole);
  EXPECT_LT(later.body.size(), 5 * MiB);
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

TEST_F(Objects, RangesAreServed) {
  const std::string data = pattern(3 * MiB);
  put("k", data);
  Reply r = call("GET", "/bucket/k", {{"range", "bytes=1048570-1048590"}});
  EXPECT_EQ(r.status, 206);
  EXPECT_EQ(r.header("content-range"), "bytes 1048570-1048590/3145728");
  EXPECT_TRUE(r.body == data.substr(1048570, 21));
  r = call("GET", "/bucket/k", {{"range", "bytes=-10"}});
  EXPECT_EQ(r.status, 206);
  EXPECT_TRUE(r.body == data.substr(data.size() - 10));
  r = call("GET", "/bucket/k", {{"range", "bytes=1048576-"}});
  EXPECT_TRUE(r.body == data.substr(1 * MiB));
  r = call("GET", "/bucket/k", {{"range", "bytes=0-1,5-6"}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.body.size(), data.size());
  r = call("GET", "/bucket/k", {{"range", "bytes=9999999-"}});
  EXPECT_EQ(r.status, 416);
  EXPECT_EQ(r.code, "InvalidRange");
  EXPECT_EQ(r.header("content-range"), "bytes */3145728");
  EXPECT_EQ(r.element("ActualObjectSize"), "3145728");
  r = call("HEAD", "/bucket/k", {{"range", "bytes=0-9"}});
  EXPECT_EQ(r.status, 206);
  EXPECT_EQ(r.content_length, 10u);
}

TEST_F(Objects, ConditionsDecide) {
  const Reply stored = put("k", "data", {{"cache-control", "max-age=60"}});
  const std::string etag = stored.header("etag");
  EXPECT_EQ(call("GET", "/bucket/k", {{"if-match", etag}}).status, 200);
  const Reply failed = call("GET", "/bucket/k", {{"if-match", "\"other\""}});
  EXPECT_EQ(failed.status, 412);
  EXPECT_EQ(failed.element("Condition"), "If-Match");
  const Reply same = call("GET", "/bucket/k", {{"if-none-match", etag}});
  EXPECT_EQ(same.status, 304);
  EXPECT_TRUE(same.no_body);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(same.header("etag"), etag);
  EXPECT_EQ(same.header("cache-control"), "max-age=60");
  EXPECT_FALSE(same.has("content-type"));
  const std::string modified = call("HEAD", "/bucket/k").header("last-modified");
  EXPECT_EQ(call("GET", "/bucket/k", {{"if-modified-since", modified}}).status, 304);
  EXPECT_EQ(call("GET", "/bucket/k", {{"if-unmodified-since", modified}}).status, 200);
  EXPECT_EQ(call("GET", "/bucket/k", {{"if-modified-since", "garbage"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/bucket/k", {{"if-none-match", "*"}}).status, 304);
}

TEST_F(Objects, IfRangeFallsBackToTheWholeObject) {
  const std::string etag = put("k", "0123456789").header("etag");
  EXPECT_EQ(call("GET", "/bucket/k", {{"range", "bytes=0-1"}, {"if-range", etag}}).status, 206);
  EXPECT_EQ(call("GET", "/bucket/k", {{"range", "bytes=0-1"}, {"if-range", "\"old\""}}).status, 200);
  EXPECT_EQ(call("GET", "/bucket/k", {{"range", "bytes=0-1"}, {"if-range", "Sun, 06 Nov 1994 08:49:37 GMT"}}).status,
            200);
}

TEST_F(Objects, ConditionalWritesAreDecidedAtTheCommit) {
  EXPECT_EQ(put("k", "one", {{"if-none-match", "*"}}).status, 200);
  EXPECT_EQ(put("k", "two", {{"if-none-match", "*"}}).status, 412);
  EXPECT_EQ(call("GET", "/bucket/k").body, "one");
  const std::string etag = call("HEAD", "/bucket/k").header("etag");
  EXPECT_EQ(put("k", "two", {{"if-match", "\"wrong\""}}).status, 412);
  EXPECT_EQ(put("k", "two", {{"if-match", etag}}).status, 200);
  EXPECT_EQ(put("new", "x", {{"if-match", etag}}).status, 404);
  EXPECT_EQ(put("k", "x", {{"if-none-match", call("HEAD", "/bucket/k").header("etag")}}).status, 412);
  EXPECT_EQ(put("k", "two", {{"if-none-match", etag}}).status, 200) << "an entity tag of something older";
  EXPECT_EQ(put("k", "x", {{"if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"}}).status, 501);
  EXPECT_EQ(call("DELETE", "/bucket/k", {{"if-match", "\"wrong\""}}).status, 412);
  EXPECT_EQ(call("GET", "/bucket/k").body, "two");
}

TEST_F(Objects, HeadersComeBackAsTheyCame) {
  put("k", "x",
      {{"cache-control", "no-cache"},
       {"content-disposition", "attachment; filename=\"a.txt\""},
       {"content-encoding", "aws-chunked, gzip"},
       {"content-language", "de"},
       {"expires", "tomorrow"},
       {"x-amz-meta-a", "1"},
       {"x-amz-meta-a", "2"},
       {"x-amz-storage-class", "STANDARD"}});
  const Reply r = call("GET", "/bucket/k");
  EXPECT_EQ(r.header("cache-control"), "no-cache");
  EXPECT_EQ(r.header("content-disposition"), "attachment; filename=\"a.txt\"");
  EXPECT_EQ(r.header("content-encoding"), "gzip");
  EXPECT_EQ(r.header("content-language"), "de");
  EXPECT_EQ(r.header("expires"), "tomorrow");
  EXPECT_EQ(r.header("x-amz-meta-a"), "1,2");
  EXPECT_EQ(r.header("content-type"), "binary/octet-stream");
  EXPECT_FALSE(r.has("x-amz-storage-class"));
  put("plain", "x", {{"content-encoding", "aws-chunked"}});
  EXPECT_FALSE(call("GET", "/bucket/plain").has("content-encoding"));
  put("upper", "x", {{"content-encoding", "AWS-Chunked"}});
  EXPECT_FALSE(call("GET", "/bucket/upper").has("content-encoding")) << "codings have no case";
  put("mixed", "x", {{"content-encoding", "Aws-Chunked,\tGZip"}});
  EXPECT_EQ(call("GET", "/bucket/mixed").header("content-encoding"), "GZip");
}

TEST_F(Objects, MetadataIsBounded) {
  EXPECT_EQ(put("k", "x", {{"x-amz-meta-a", std::string(2047, 'v')}}).status, 200);
  EXPECT_EQ(put("k", "x", {{"x-amz-meta-a", std::string(2048, 'v')}}).code, "MetadataTooLarge");
  EXPECT_EQ(put("k", "x", {{"x-amz-meta-a", "line\r\nset-cookie: x"}}).code, "InvalidArgument");
  EXPECT_EQ(put("k", "x", {{"content-type", std::string(9000, 'v')}}).code, "RequestHeaderSectionTooLarge");
}

TEST_F(Objects, ResponseOverridesReplaceHeaders) {
  put("k", "x", {{"content-type", "text/plain"}});
  Reply r = call("GET", "/bucket/k?response-content-type=image%2Fpng&response-content-disposition=inline");
  EXPECT_EQ(r.header("content-type"), "image/png");
  EXPECT_EQ(r.header("content-disposition"), "inline");
  r = call("GET", "/bucket/k?response-content-type=a%0d%0aset-cookie:x");
  EXPECT_EQ(r.status, 400);
}

TEST_F(Objects, KeysMayHoldAnyUtf8) {
  for (const std::string key :
       {"a%20b", "a+b", "%E2%82%AC/%F0%9F%8C%BF", "%01%02%0A", "..", "a/../b", "//", "%25", "?"}) {
    const std::string target = "/bucket/" + (key == "?" ? "%3F" : key);
    ASSERT_EQ(call("PUT", target, {}, key).status, 200) << key;
    EXPECT_EQ(call("GET", target).body, key);
  }
  const std::string longest = "/bucket/" + std::string(1024, 'k');
  EXPECT_EQ(call("PUT", longest, {}, "x").status, 200);
  EXPECT_EQ(call("PUT", longest + "k", {}, "x").code, "KeyTooLongError");
  EXPECT_EQ(call("PUT", "/bucket/%ff", {}, "x").code, "InvalidURI");
  EXPECT_EQ(call("PUT", "/bucket/%zz", {}, "x").code, "InvalidURI");
}

TEST_F(Objects, DeleteSucceedsWhetherThereOrNot) {
  put("k", "x");
  Reply r = call("DELETE", "/bucket/k");
  EXPECT_EQ(r.status, 204);
  EXPECT_TRUE(r.no_body);
  EXPECT_EQ(call("DELETE", "/bucket/k").status, 204);
  EXPECT_EQ(call("DELETE", "/nobucket/k").status, 404);
}

TEST_F(Objects, ManyAreDeletedAtOnce) {
  std::string xml = "<Delete>";
  for (int i = 0; i < 100; ++i) {
    put(fmt::format("k{}", i), "x");
    xml += fmt::format("<Object><Key>k{}</Key></Object>", i);
  }
  xml += "<Object><Key>missing</Key></Object>";
  xml += "<Object><Key>v</Key><VersionId>" + nobodys_version() + "</VersionId></Object>";
  xml += "<Object><Key>w</Key><VersionId>abc</VersionId></Object></Delete>";
  Reply r = call("POST", "/bucket?delete", {{"content-md5", base64_digest(Algorithm::md5, xml)}}, xml);
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.count("<Deleted>"), 102u);
  EXPECT_EQ(r.count("<Error>"), 1u);
  EXPECT_EQ(r.element("VersionId"), nobodys_version());
  EXPECT_EQ(call("GET", "/bucket/k5").status, 404);
  xml = "<Delete><Quiet>true</Quiet><Object><Key>a</Key></Object></Delete>";
  const auto digest = [](const std::string& text) {
    return Headers{{"content-md5", base64_digest(Algorithm::md5, text)}};
  };
  EXPECT_EQ(call("POST", "/bucket?delete", digest(xml), xml).count("Deleted"), 0u);
  EXPECT_EQ(call("POST", "/bucket?delete", {}, xml).code, "InvalidRequest") << "no digest";
  EXPECT_EQ(call("POST", "/bucket?delete", {{"content-md5", base64_digest(Algorithm::md5, "other")}}, xml).code,
            "BadDigest");
  EXPECT_EQ(call("POST", "/bucket?delete", {{"x-amz-checksum-crc32", "AAAAAA=="}}, xml).code, "BadDigest");
  EXPECT_EQ(call("POST", "/nobucket?delete", digest(xml), xml).code, "NoSuchBucket");
  EXPECT_EQ(call("POST", "/bucket?delete", digest("<Delete/>"), "<Delete/>").code, "MalformedXML");
}

TEST_F(Objects, AttributesAclAndTagsTellTheTruth) {
  put("k", "data", {{"x-amz-checksum-crc32", base64_digest(Algorithm::crc32, "data")}});
  Reply r =
      call("GET", "/bucket/k?attributes", {{"x-amz-object-attributes", "ETag,Checksum, ObjectSize,StorageClass"}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.element("ETag"), hex_md5("data"));
  EXPECT_EQ(r.element("ObjectSize"), "4");
  EXPECT_EQ(r.element("ChecksumCRC32"), base64_digest(Algorithm::crc32, "data"));
  EXPECT_EQ(call("GET", "/bucket/k?attributes").status, 400);
  r = call("GET", "/bucket/k?attributes&X-Amz-Object-Attributes=ETag%2CObjectSize");
  EXPECT_EQ(r.element("ObjectSize"), "4") << "in the query of a presigned URL: " << r.body;
  EXPECT_EQ(r.count("StorageClass"), 0u) << r.body;
  r = call("GET", "/bucket/k?acl");
  EXPECT_EQ(r.element("Permission"), "FULL_CONTROL");
  EXPECT_EQ(call("GET", "/bucket/none?acl").code, "NoSuchKey");
  EXPECT_NE(call("GET", "/bucket/k?tagging").body.find("<TagSet></TagSet>"), std::string::npos);
}

TEST_F(Objects, OnlyTheNullVersionExists) {
  put("k", "x");
  EXPECT_EQ(call("GET", "/bucket/k?versionId=null").status, 200);
  EXPECT_EQ(call("GET", "/bucket/k?versionId=" + nobodys_version()).code, "NoSuchVersion");
  EXPECT_EQ(call("DELETE", "/bucket/k?versionId=" + nobodys_version()).status, 204);
  EXPECT_EQ(call("GET", "/bucket/k?versionId=abc").code, "InvalidArgument");
  EXPECT_EQ(call("DELETE", "/bucket/k?versionId=abc").code, "InvalidArgument");
  EXPECT_EQ(call("DELETE", "/bucket/k?versionId=").code, "InvalidArgument");
  EXPECT_EQ(call("PUT", "/bucket/k?versionId=null", {}, "y").code, "InvalidArgument");
}

TEST_F(Objects, APutWithoutAnMd5EtagLooksLikeNone) {
  PutRequest request;
  request.bucket = "bucket";
  request.key = "native";
  request.md5_etag = false;
  Call caller;
  caller.identity.anonymous = false;
  TextSource body("data", 4);
  const auto stored = run(put_object(service, caller, request, body));
  ASSERT_TRUE(stored);
  EXPECT_NE(stored->info.etag.find('-'), std::string::npos);
  EXPECT_EQ(call("GET", "/bucket/native").body, "data");
}

TEST_F(Objects, TypedVerbsCheckWhatAnyDoorGivesThem) {
  Call caller;
  caller.identity.anonymous = false;
  TextSource body("data", 4);
  PutRequest request;
  request.bucket = "bucket";
  request.key = "k";
  request.headers = {{"transfer-encoding", "chunked"}};
  EXPECT_EQ(run(put_object(service, caller, request, body)).error(), Errc::invalid_argument);
  request.headers = {{"x-amz-meta-a\r\nb", "x"}};
  EXPECT_EQ(run(put_object(service, caller, request, body)).error(), Errc::invalid_argument);
  request.headers = {};
  request.bucket = "../etc";
  EXPECT_EQ(run(put_object(service, caller, request, body)).error(), Errc::invalid_bucket_name);
  caller.identity.anonymous = true;
  request.bucket = "bucket";
  EXPECT_EQ(run(put_object(service, caller, request, body)).error(), Errc::access_denied);
  EXPECT_EQ(run(delete_object(service, caller, "bucket", "k", {})).error(), Errc::access_denied);
  EXPECT_EQ(run(list_objects(service, caller, "bucket", {})).error(), Errc::access_denied);
  GetRequest get;
  get.bucket = "bucket";
  get.key = "k";
  EXPECT_EQ(run(open_object(service, caller, get)).error(), Errc::access_denied);
  EXPECT_EQ(run(head_object(service, caller, get)).error(), Errc::access_denied);
}

}  // namespace
}  // namespace verbena::s3::test
