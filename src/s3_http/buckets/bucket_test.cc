// Buckets, and what the router refuses.
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

using Buckets = Rig;

TEST_F(Buckets, AreMadeListedAndRemoved) {
  const Reply made = call("PUT", "/one");
  EXPECT_EQ(made.status, 200);
  EXPECT_EQ(made.header("location"), "/one");
  make_bucket("two");
  Reply r = call("GET", "/");
  EXPECT_EQ(r.count("<Bucket>"), 2u);
  EXPECT_EQ(r.element("Name"), "one");
  EXPECT_EQ(call("HEAD", "/one").status, 200);
  EXPECT_EQ(call("HEAD", "/one").header("x-amz-bucket-region"), "us-east-1");
  EXPECT_EQ(call("HEAD", "/none").status, 404);
  EXPECT_TRUE(call("HEAD", "/none").no_body);
  call("PUT", "/one/k", {}, "x");
  EXPECT_EQ(call("DELETE", "/one").code, "BucketNotEmpty");
  call("DELETE", "/one/k");
  EXPECT_EQ(call("DELETE", "/one").status, 204);
  EXPECT_EQ(call("DELETE", "/one").code, "NoSuchBucket");
  EXPECT_EQ(call("PUT", "/Bad_Name").code, "InvalidBucketName");
}

TEST_F(Buckets, ListingIsPaged) {
  for (const char* name : {"aaa", "bbb", "bcc", "ddd"}) make_bucket(name);
  Reply r = call("GET", "/?max-buckets=2");
  EXPECT_EQ(r.count("<Bucket>"), 2u);
  EXPECT_EQ(r.element("ContinuationToken"), "bbb");
  r = call("GET", "/?max-buckets=2&continuation-token=bbb");
  EXPECT_EQ(r.element("Name"), "bcc");
  EXPECT_EQ(r.element("ContinuationToken"), "(none)");
  EXPECT_EQ(call("GET", "/?prefix=b").count("<Bucket>"), 2u);
  EXPECT_EQ(call("GET", "/?max-buckets=0").code, "InvalidArgument");
}

// Each request copied the buckets of all accounts under the lock of all.
TEST_F(Buckets, ListingTakesNoMoreThanItsPage) {
  for (const char* name : {"aaa", "bbb", "bcc", "ddd"}) make_bucket(name);
  store.listed = 0;
  EXPECT_EQ(call("GET", "/?max-buckets=2").count("<Bucket>"), 2u);
  EXPECT_LE(store.listed.load(), 3u) << "one more shows that there are more";
  store.listed = 0;
  EXPECT_EQ(call("GET", "/?prefix=b").count("<Bucket>"), 2u);
  EXPECT_EQ(store.listed.load(), 2u);
}

// Kinds that are not listed may lie between those that are.
TEST_F(Buckets, ListingGoesOnBehindBucketsOfTheOtherKind) {
  service.express.enabled = true;
  const auto make = [&](const std::string& name) {
    ASSERT_TRUE(run(store.create_bucket({.name = name, .created_us = 0, .owner = "root"})));
  };
  for (int i = 0; i < 5; ++i) make("m" + std::to_string(i) + "--local1-az1--x-s3");
  make("zzz");
  Reply r = call("GET", "/?max-buckets=1");
  EXPECT_EQ(r.element("Name"), "zzz");
  EXPECT_EQ(r.element("ContinuationToken"), "(none)");
  make("aaa");
  r = call("GET", "/?max-buckets=1");
  EXPECT_EQ(r.element("Name"), "aaa");
  EXPECT_EQ(r.element("ContinuationToken"), "aaa");
  EXPECT_EQ(call("GET", "/?max-buckets=1&continuation-token=aaa").element("Name"), "zzz");
}

TEST_F(Buckets, AnAccountHasAsManyAsItMay) {
  service.buckets_max = 2;
  EXPECT_EQ(call("PUT", "/one").status, 200);
  EXPECT_EQ(call("PUT", "/two").status, 200);
  const Reply refused = call("PUT", "/three");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.code, "TooManyBuckets");
  EXPECT_EQ(call("HEAD", "/three").status, 404);
  EXPECT_EQ(call("PUT", "/one").status, 200) << "made again by its owner";
  EXPECT_EQ(call("DELETE", "/two").status, 204);
  EXPECT_EQ(call("PUT", "/three").status, 200);
}

TEST_F(Buckets, MadeAgainByTheOwnerIs200InUsEast1And409Elsewhere) {
  make_bucket("one");
  EXPECT_EQ(call("PUT", "/one").status, 200);
  service.region = "eu-west-1";
  const Reply again = call("PUT", "/one");
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(again.code, "BucketAlreadyOwnedByYou");
  EXPECT_EQ(again.element("BucketName"), "one");
}

// It was answered as if the bucket had got one.
TEST_F(Buckets, MadeAgainWithObjectLockIsRefusedWhereThereIsNone) {
  const Headers with_lock = {{"x-amz-bucket-object-lock-enabled", "true"}, {"x-verbena-durability", "memory"}};
  make_bucket();
  const Reply refused = call("PUT", "/bucket", with_lock);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.code, "InvalidBucketState");
  EXPECT_EQ(call("HEAD", "/bucket").header("x-verbena-durability"), "sync") << "nothing was changed";
  EXPECT_EQ(call("PUT", "/locked", {{"x-amz-bucket-object-lock-enabled", "true"}}).status, 200);
  EXPECT_EQ(call("PUT", "/locked", with_lock).status, 200);
  EXPECT_EQ(call("HEAD", "/locked").header("x-verbena-durability"), "memory");
}

TEST_F(Buckets, TheLocationConstraintMustBeOurRegion) {
  const auto body = [](const std::string& region) {
    return "<CreateBucketConfiguration><LocationConstraint>" + region +
           "</LocationConstraint></CreateBucketConfiguration>";
  };
  EXPECT_EQ(call("PUT", "/one", {}, body("us-east-1")).status, 200);
  EXPECT_EQ(call("PUT", "/two", {}, body("eu-west-1")).code, "InvalidLocationConstraint");
  EXPECT_EQ(call("PUT", "/two", {}, "<x>").code, "MalformedXML");
  EXPECT_EQ(call("HEAD", "/two").status, 404);
  Reply r = call("GET", "/one?location");
  EXPECT_NE(r.body.find("\"></LocationConstraint>"), std::string::npos);
  service.region = "eu-west-1";
  EXPECT_NE(call("GET", "/one?location").body.find(">eu-west-1<"), std::string::npos);
}

TEST_F(Buckets, DurabilityIsABucketsProperty) {
  EXPECT_EQ(call("PUT", "/fast", {{"x-verbena-durability", "memory"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/fast").header("x-verbena-durability"), "memory");
  make_bucket("safe");
  EXPECT_EQ(call("HEAD", "/safe").header("x-verbena-durability"), "sync");
  EXPECT_EQ(call("PUT", "/odd", {{"x-verbena-durability", "maybe"}}).code, "InvalidArgument");
  // Made again without the header it stays; with it, it changes.
  EXPECT_EQ(call("PUT", "/fast").status, 200);
  EXPECT_EQ(call("HEAD", "/fast").header("x-verbena-durability"), "memory");
  EXPECT_EQ(call("PUT", "/fast", {{"x-verbena-durability", "sync"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/fast").header("x-verbena-durability"), "sync");
}

TEST_F(Buckets, EntityTagsAreMd5sUnlessTheBucketSaysFast) {
  const std::string md5 = "\"900150983cd24fb0d6963f7d28e17f72\"";  // of "abc"
  EXPECT_EQ(call("PUT", "/plain").status, 200);
  EXPECT_FALSE(call("HEAD", "/plain").has("x-verbena-etag"));
  EXPECT_EQ(call("PUT", "/plain/k", {}, "abc").header("etag"), md5);
  EXPECT_EQ(call("PUT", "/odd", {{"x-verbena-etag", "sha"}}).code, "InvalidArgument");
  EXPECT_EQ(call("PUT", "/quick", {{"x-verbena-etag", "fast"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/quick").header("x-verbena-etag"), "fast");
  const auto first = call("PUT", "/quick/k", {}, "abc");
  const std::string tag(first.header("etag"));
  EXPECT_NE(tag.find('-'), std::string::npos) << "no client takes it for an MD5";
  EXPECT_EQ(call("HEAD", "/quick/k").header("etag"), tag);
  EXPECT_EQ(call("PUT", "/quick/k", {{"if-match", tag}}, "abc").status, 200);
  EXPECT_EQ(call("PUT", "/quick/k", {{"if-match", tag}}, "abc").code, "PreconditionFailed");
  EXPECT_EQ(call("PUT", "/quick/k", {{"content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="}}, "abc").code, "BadDigest");
  // Copies as well as bodies, also of parts.
  const Headers of_plain = {{"x-amz-copy-source", "/plain/k"}};
  const Reply copied = call("PUT", "/quick/copy", of_plain);
  EXPECT_NE(copied.element("ETag").find('-'), std::string::npos) << copied.body;
  EXPECT_EQ(call("HEAD", "/quick/copy").header("etag").substr(1, 34), copied.element("ETag").substr(6, 34));
  const std::string upload = call("POST", "/quick/parts?uploads").element("UploadId");
  const Reply part = call("PUT", "/quick/parts?partNumber=1&uploadId=" + upload, of_plain);
  EXPECT_NE(part.element("ETag").find('-'), std::string::npos) << part.body;
  EXPECT_EQ(call("PUT", "/plain/copy", of_plain).element("ETag"), "&quot;900150983cd24fb0d6963f7d28e17f72&quot;");
  EXPECT_EQ(call("PUT", "/plain/copy", {{"x-amz-copy-source", "/quick/k"}}).element("ETag"),
            "&quot;900150983cd24fb0d6963f7d28e17f72&quot;");
  // Sent again it changes the bucket.
  EXPECT_EQ(call("PUT", "/quick", {{"x-verbena-etag", "md5"}}).status, 200);
  EXPECT_EQ(call("PUT", "/quick/k", {}, "abc").header("etag"), md5);
}

TEST_F(Buckets, CheapQuestionsAreAnswered) {
  make_bucket();
  EXPECT_NE(call("GET", "/bucket?versioning").body.find("<VersioningConfiguration"), std::string::npos);
  EXPECT_EQ(call("GET", "/bucket?acl").element("Permission"), "FULL_CONTROL");
  for (const char* what : {"versioning", "acl", "location", "uploads"}) {
    EXPECT_EQ(call("GET", std::string("/none?") + what).code, "NoSuchBucket") << what;
  }
}

TEST_F(Buckets, AnonymousCallersMayDoNothing) {
  make_bucket();
  put("k", "x");
  for (const char* method : {"GET", "PUT", "HEAD", "DELETE", "POST"}) {
    for (const char* target : {"/", "/bucket", "/bucket/k", "/bucket/k?uploads", "/none"}) {
      TestCall c;
      c.method = method;
      c.target = target;
      c.anonymous = true;
      // A browser's form names its signer itself; this body is not a form.
      const bool form = c.method == "POST" && (c.target == "/bucket" || c.target == "/none");
      // Anonymous callers learn whether a bucket exists, as at AWS.
      const bool told = c.target == "/none" && c.method != "PUT";
      EXPECT_EQ(call(c).status, form ? 412 : told ? 404 : 403) << method << target;
    }
  }
  EXPECT_EQ(call("GET", "/bucket/k").body, "x");
}

TEST_F(Buckets, WhatDoesNotExistIsRefusedAndNeverIgnored) {
  make_bucket();
  put("k", "old");
  for (const char* sub : {"acl", "torrent", "restore", "select", "renameObject", "append&position=0", "encryption",
                          "annotation", "versioning", "x=y&lifecycle"}) {
    for (const char* method : {"GET", "PUT", "POST", "DELETE"}) {
      const bool known = std::string_view(sub) == "acl" && (method[0] == 'G' || method == std::string_view("PUT"));
      if (known) continue;
      const Reply r = call(method, std::string("/bucket/k?") + sub, {}, "new");
      EXPECT_EQ(r.status, 501) << method << " " << sub;
      EXPECT_EQ(r.code, "NotImplemented");
    }
  }
  for (const char* sub :
       {"policyStatus", "inventory", "analytics", "metrics", "intelligent-tiering", "session", "uploads=x"}) {
    for (const char* method : {"PUT", "DELETE", "POST"}) {
      EXPECT_EQ(call(method, std::string("/bucket?") + sub, {}, "<x/>").status, 501) << method << " " << sub;
    }
  }
  EXPECT_EQ(call("GET", "/bucket?inventory").status, 501);
  for (const char* method : {"PUT", "DELETE"}) {
    EXPECT_EQ(call(method, "/bucket/k?partNumber=1", {}, "new").code, "InvalidArgument") << "a part is no object";
  }
  EXPECT_EQ(call("POST", "/bucket/k?partNumber=1", {}, "new").status, 501);
  EXPECT_EQ(call("GET", "/bucket/k").body, "old");
  EXPECT_EQ(call("HEAD", "/bucket").status, 200);
}

// Web pages, presigning SDKs and proxies add parameters of their own; AWS does not look at them.
TEST_F(Buckets, AParameterThatNobodyKnowsIsIgnored) {
  make_bucket();
  EXPECT_EQ(call("PUT", "/bucket/k?Content-Type=image%2Fpng&Content-MD5=x&Cache-Control=no-store", {}, "text").status,
            200);
  for (const char* query : {"v=3", "unheard-of", "Version=2006-03-01", "prefix%20delimiter", "restore%20select", "=x",
                            "bucket=b&key=k&etag=%22e%22"}) {
    EXPECT_EQ(call("GET", std::string("/bucket/k?") + query).body, "text") << query;
    EXPECT_EQ(call("GET", std::string("/bucket?list-type=2&") + query).element("KeyCount"), "1") << query;
    EXPECT_EQ(call("GET", std::string("/?") + query).status, 200) << query;
  }
  const Reply overridden = call("GET", "/bucket/k?response-content-type=a%2Fb&response-x-evil=1&response-set-cookie=c");
  EXPECT_EQ(overridden.header("content-type"), "a/b");
  EXPECT_FALSE(overridden.has("x-evil") || overridden.has("set-cookie"));
  EXPECT_EQ(call("HEAD", "/bucket?utm_source=x").status, 200);
  EXPECT_EQ(call("DELETE", "/bucket/k?bucket=b&key=k&etag=%22e%22").status, 204);
}

TEST_F(Buckets, ANewBucketMayHaveTags) {
  const auto document = [](const std::string& tags) {
    return "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + tags +
           "</CreateBucketConfiguration>";
  };
  const std::string tags = "<Tags><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value/></Tag></Tags>";
  EXPECT_EQ(call("PUT", "/one", {}, document(tags)).status, 200);
  EXPECT_EQ(call("GET", "/one?tagging").count("<Tag>"), 2u);
  EXPECT_EQ(call("PUT", "/two", {}, document("<Tags/>")).status, 200);
  EXPECT_EQ(call("GET", "/two?tagging").code, "NoSuchTagSet");
  EXPECT_EQ(call("PUT", "/three", {}, document("<Tags><Tag><Key>aws:a</Key><Value/></Tag></Tags>")).code, "InvalidTag");
  EXPECT_EQ(call("HEAD", "/three").status, 404);
  // Made again by its owner: what the document asks for is done.
  EXPECT_EQ(call("PUT", "/two", {}, document(tags)).status, 200);
  EXPECT_EQ(call("GET", "/two?tagging").element("Key"), "a");
}

TEST_F(Buckets, ErrorsTellWhatAwsTells) {
  make_bucket();
  for (const char* name : {"policy", "lifecycle", "cors", "tagging", "website", "replication", "encryption",
                           "ownershipControls", "publicAccessBlock", "object-lock"}) {
    const Reply r = call("GET", std::string("/bucket?") + name);
    EXPECT_EQ(r.status, 404) << name;
    EXPECT_EQ(r.element("BucketName"), "bucket") << name;
  }
  const Reply digest = put("k", "x", {{"content-md5", "nonsense"}});
  EXPECT_EQ(digest.code, "InvalidDigest");
  EXPECT_EQ(digest.element("Content-MD5"), "nonsense");
  EXPECT_EQ(put("k", "x", {{"x-amz-storage-class", "NONE"}}).element("StorageClassRequested"), "NONE");
  const Reply long_key = put(std::string(1025, 'k'), "x");
  EXPECT_EQ(long_key.element("Size"), "1025");
  EXPECT_EQ(long_key.element("MaxSizeAllowed"), "1024");
  put("k", "x");
  const Reply version = call("GET", "/bucket/k?versionId=" + nobodys_version());
  EXPECT_EQ(version.element("Key"), "k");
  EXPECT_EQ(version.element("VersionId"), nobodys_version());
}

// A signature that is wrong is refused before the request is looked at.
TEST_F(Buckets, ARefusedSignatureSaysWhoseItWasAndAHeadTheRegion) {
  service.region = "eu-west-1";
  const auto refused = [&](const std::string& method, Errc code, const Headers& headers,
                           const std::string& query = {}) {
    Call of;
    Request request{of};
    request.method = method;
    request.raw_path = "/bucket";
    request.raw_query = query;
    request.headers = headers;
    TextSource body("", 0);
    TextSink sink;
    Response response;
    Router router(service, nullptr, options);
    const auto refuse = [&]() -> Task<bool> {
      co_await router.refuse(request, Error{code, 0, "auth"}, body, response, sink);
      co_return true;
    };
    run(refuse());
    Reply reply;
    reply.status = response.status;
    for (const auto& [name, value] : response.headers) reply.headers.emplace_back(name, value);
    reply.body = response.no_body ? "" : response.body;
    return reply;
  };
  const Headers v4 = {{"authorization",
                       "AWS4-HMAC-SHA256 Credential=AKID/20260102/us-east-1/s3/aws4_request, SignedHeaders=host, "
                       "Signature=abc"},
                      {"x-amz-date", "20260102T000000Z"}};
  Reply r = refused("HEAD", Errc::signature_does_not_match, v4);
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(r.header("x-amz-bucket-region"), "eu-west-1");
  EXPECT_EQ(refused("HEAD", Errc::invalid_access_key_id, v4).header("x-amz-bucket-region"), "eu-west-1");
  r = refused("GET", Errc::signature_does_not_match, v4);
  EXPECT_EQ(r.element("AWSAccessKeyId"), "AKID");
  EXPECT_EQ(r.element("SignatureProvided"), "abc");
  EXPECT_EQ(
      refused("GET", Errc::invalid_access_key_id, {{"authorization", "AWS AKID2:sig="}}).element("AWSAccessKeyId"),
      "AKID2");
  r = refused("GET", Errc::signature_does_not_match, {}, "X-Amz-Credential=AK%2F20260102&X-Amz-Signature=def");
  EXPECT_EQ(r.element("AWSAccessKeyId") + r.element("SignatureProvided"), "AKdef");
  r = refused("GET", Errc::request_time_too_skewed, v4);
  EXPECT_EQ(r.element("RequestTime"), "20260102T000000Z");
  EXPECT_EQ(r.element("MaxAllowedSkewMilliseconds"), "900000");
  EXPECT_TRUE(r.element("ServerTime").ends_with("Z"));
  Headers more = v4;
  const std::string signature(64, 'a');  // what names the headers that it signs is read as a signature is
  more.front().second.replace(more.front().second.find("abc"), 3, signature);
  more.insert(more.end(), {{"x-amz-acl", "public-read"}, {"x-verbena-append", "enabled"}, {"range", "bytes=0-1"}});
  EXPECT_EQ(refused("PUT", Errc::missing_signed_header, more).element("HeadersNotSigned"),
            "x-amz-acl, x-verbena-append");
  for (const char* odd : {"AWS ", "AWS :", "AWS", "Credential=", ""}) {
    EXPECT_EQ(refused("GET", Errc::signature_does_not_match, {{"authorization", odd}}).status, 403) << odd;
  }
}

TEST_F(Buckets, TagsAreSetWithoutAnAnswer) {
  make_bucket();
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  EXPECT_EQ(call("PUT", "/bucket?tagging", {}, tags).status, 204);
  EXPECT_EQ(call("GET", "/bucket?tagging").element("Value"), "b");
}

TEST_F(Buckets, HeadersThatAskForWhatDoesNotExistAreRefused) {
  make_bucket();
  const Headers refused = {{"x-amz-server-side-encryption-context", "e30="},
                           {"x-amz-storage-class", "GLACIER"},
                           {"x-amz-write-offset-bytes", "0"}};
  for (const auto& header : refused) {
    const Reply r = put("k", "x", {header});
    EXPECT_EQ(r.status, 501) << header.first;
    EXPECT_EQ(r.element("Header"), header.first);
  }
  EXPECT_EQ(call("GET", "/bucket/k").status, 404);
  EXPECT_EQ(put("k", "x", {{"x-amz-acl", "private"}, {"x-amz-storage-class", "STANDARD"}}).status, 200);
  EXPECT_EQ(put("k", "x", {{"x-amz-acl", "nonsense"}}).code, "InvalidArgument");
  EXPECT_EQ(put("k", "x", {{"x-amz-storage-class", "NONSENSE"}}).code, "InvalidStorageClass");
  // In a presigned URL they stand in the query.
  EXPECT_EQ(call("PUT", "/bucket/k?X-Amz-Signature=a&x-amz-storage-class=GLACIER", {}, "x").status, 501);
  EXPECT_EQ(call("PUT", "/bucket/k?X-Amz-Signature=a&x-amz-meta-a=1&x-id=PutObject", {}, "x").status, 200);
  EXPECT_EQ(call("HEAD", "/bucket/k").header("x-amz-meta-a"), "1");
  EXPECT_EQ(call("PUT", "/bucket/k?X-Amz-Signature=a&x-amz-meta-a=1", {{"x-amz-meta-a", "1"}}, "x").status, 200);
  EXPECT_EQ(call("HEAD", "/bucket/k").header("x-amz-meta-a"), "1") << "in the URL and in a header: counts once";
  EXPECT_EQ(call("DELETE", "/bucket/k?AWSAccessKeyId=a&Expires=1&Signature=b").status, 204);
  EXPECT_EQ(call("PUT", "/bucket/k?x-amz-meta-a=1%0d%0ax:y", {}, "x").status, 400);
}

TEST_F(Buckets, OtherMethodsAreNotAllowed) {
  make_bucket();
  const Reply r = call("PATCH", "/bucket/k");
  EXPECT_EQ(r.status, 405);
  EXPECT_EQ(r.element("Method"), "PATCH");
  EXPECT_EQ(call("POST", "/").status, 405);
}

TEST_F(Buckets, VirtualHostsReachTheSameObjects) {
  make_bucket("my.bucket");
  options.domain = "s3.test";
  TestCall c;
  c.method = "PUT";
  c.target = "/a/b";
  c.host = "my.bucket.s3.test";
  c.body = "data";
  EXPECT_EQ(call(c).status, 200);
  EXPECT_EQ(call("GET", "/my.bucket/a/b").body, "data");
  c.method = "GET";
  c.target = "/?list-type=2";
  c.host = "my.bucket.localhost";
  c.body = "";
  EXPECT_EQ(call(c).element("Key"), "a/b");
}

}  // namespace
}  // namespace verbena::s3::test
