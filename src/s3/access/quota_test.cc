#include "s3/access/quota.h"

#include "s3/access/test_access.h"

namespace verbena::s3::test {
namespace {

class WithLimits final : public TwoAccounts {
 public:
  auth::LimitsPtr limits_of(std::string_view canonical_id) const override {
    return canonical_id == "alice" ? of_alice : nullptr;
  }
  auth::LimitsPtr of_alice;
};

class QuotaTest : public AccessRig {
 protected:
  QuotaTest() { service.accounts = &accounts_; }
  void set_bucket_quota(const auth::Quota& quota) {
    store.document("bucket", std::string(quota_document), auth::quota_text(quota));
    service.access->all_changed();
  }
  void set_account_quota(const auth::Quota& quota) {
    accounts_.of_alice = auth::make_limits(quota);
    service.access->all_changed();
  }
  Reply put_as_alice(const std::string& key, size_t size) { return as(alice_, "PUT", "/bucket/" + key, pattern(size)); }
  void expect_refused(const Reply& reply) {
    EXPECT_EQ(reply.status, 403);
    EXPECT_EQ(reply.code, "QuotaExceeded");
  }
  uint64_t kept_bytes() { return run(store.bucket_usage("bucket")).value().all_bytes(); }

  WithLimits accounts_;
};

// The bucket has one object of four bytes.
TEST_F(QuotaTest, ABucketHoldsNoMoreBytesThanItsQuota) {
  set_bucket_quota({.bytes = 1000});
  EXPECT_EQ(put_as_alice("a", 900).status, 200);
  expect_refused(put_as_alice("b", 97));
  EXPECT_EQ(put_as_alice("b", 96).status, 200);
  expect_refused(put_as_alice("b", 1));
  EXPECT_EQ(put_as_alice("empty", 0).status, 200) << "which takes no byte";
  EXPECT_EQ(kept_bytes(), 1000u);
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a").status, 204);
  EXPECT_EQ(put_as_alice("c", 500).status, 200);
}

TEST_F(QuotaTest, ABucketHoldsNoMoreObjectsThanItsQuota) {
  set_bucket_quota({.objects = 2});
  EXPECT_EQ(put_as_alice("a", 1).status, 200);
  expect_refused(put_as_alice("b", 1));
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a").status, 204);
  EXPECT_EQ(put_as_alice("b", 1).status, 200);
}

// Another request stores its object, completely, while this one learns what is held.
class StoredMeanwhile final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  Result<store::UsageNow> usage_now(std::string_view) override {
    const store::UsageNow now = held;
    if (const auto happens = std::exchange(meanwhile, nullptr)) happens();
    return now;
  }
  store::UsageNow held{.bucket = {}, .owner = {}, .bucket_counted = true, .owner_counted = true};
  std::function<void()> meanwhile;
};

TEST_F(QuotaTest, WhatIsStoredWhileUsageIsReadCounts) {
  StoredMeanwhile counted(*arena);
  Service of_it{.store = counted, .arena = *arena, .clock = system_clock()};
  BucketAccess access;
  access.name = "bucket";
  access.limits = auth::make_limits({.bytes = 100});
  counted.meanwhile = [&] {
    if (Reservation::make(of_it, access, 60, 1)) counted.held.bucket.bytes += 60;
  };
  const auto mine = Reservation::make(of_it, access, 60, 1);
  EXPECT_LE(counted.held.bucket.bytes + (mine ? 60 : 0), 100u);
}

TEST_F(QuotaTest, WhoeverBringsItTheBucketsOwnerPays) {
  set_account_quota({.bytes = 100});
  policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"})");
  EXPECT_EQ(as(bob_, "PUT", "/bucket/of-bob", pattern(90)).status, 200);
  expect_refused(as(bob_, "PUT", "/bucket/more", pattern(90)));
  expect_refused(as(nullptr, "PUT", "/bucket/more", pattern(90)));
  as(alice_, "PUT", "/other");
  expect_refused(as(alice_, "PUT", "/other/key", pattern(90)));
  as(bob_, "PUT", "/bobs");
  EXPECT_EQ(as(bob_, "PUT", "/bobs/key", pattern(9000)).status, 200);
}

TEST_F(QuotaTest, TheRefusalComesBeforeTheBody) {
  set_bucket_quota({.bytes = 1000});
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/big";
  c.body = pattern(100'000);
  c.principal = alice_;
  bool read = false;
  c.meanwhile = [&read]() -> Task<> {
    read = true;
    co_return;
  };
  expect_refused(call(std::move(c)));
  EXPECT_FALSE(read);
}

TEST_F(QuotaTest, ABodyOfNoDeclaredLengthEndsAtTheQuota) {
  set_bucket_quota({.bytes = 200'000});
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/big";
  c.body = pattern(3'000'000);
  c.principal = alice_;
  c.declare_length = false;
  expect_refused(call(std::move(c)));
  EXPECT_EQ(kept_bytes(), 4u);
  EXPECT_EQ(put_as_alice("fits", 199'996).status, 200) << "what was set aside is given back";
}

TEST_F(QuotaTest, PartsCountWhenTheyComeAndCompletionIsFree) {
  set_bucket_quota({.bytes = 1000, .objects = 2});
  const Reply begun = as(alice_, "POST", "/bucket/multi?uploads");
  ASSERT_EQ(begun.status, 200);
  const std::string upload = begun.element("UploadId");
  expect_refused(as(alice_, "POST", "/bucket/other?uploads"));
  const std::string part = "/bucket/multi?uploadId=" + upload + "&partNumber=";
  const Reply first = as(alice_, "PUT", part + "1", pattern(996));
  ASSERT_EQ(first.status, 200);
  expect_refused(as(alice_, "PUT", part + "2", pattern(1)));
  const std::string xml = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + first.header("etag") +
                          "</ETag></Part></CompleteMultipartUpload>";
  EXPECT_EQ(as(alice_, "POST", "/bucket/multi?uploadId=" + upload, xml).status, 200);
  EXPECT_EQ(kept_bytes(), 1000u);
  expect_refused(put_as_alice("more", 1));
}

TEST_F(QuotaTest, AnAbortedUploadGivesItsRoomBack) {
  set_bucket_quota({.bytes = 1000});
  const std::string upload = as(alice_, "POST", "/bucket/multi?uploads").element("UploadId");
  ASSERT_EQ(as(alice_, "PUT", "/bucket/multi?uploadId=" + upload + "&partNumber=1", pattern(900)).status, 200);
  expect_refused(put_as_alice("a", 500));
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/multi?uploadId=" + upload).status, 204);
  EXPECT_EQ(put_as_alice("a", 500).status, 200);
}

TEST_F(QuotaTest, CopiesTakeRoom) {
  put_as_alice("source", 600);
  set_bucket_quota({.bytes = 1000});
  expect_refused(as(alice_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bucket/source"}}));
  const std::string upload = as(alice_, "POST", "/bucket/multi?uploads").element("UploadId");
  expect_refused(as(alice_, "PUT", "/bucket/multi?uploadId=" + upload + "&partNumber=1", "",
                    {{"x-amz-copy-source", "/bucket/source"}}));
  set_bucket_quota({.bytes = 2000});
  EXPECT_EQ(as(alice_, "PUT", "/bucket/copy", "", {{"x-amz-copy-source", "/bucket/source"}}).status, 200);
}

TEST_F(QuotaTest, AnAppendNeedsRoomForItsBytesAndForAnObjectOnlyWhereThereIsNone) {
  ASSERT_EQ(as(alice_, "PUT", "/appends", "", {{"x-verbena-append", "enabled"}}).status, 200);
  const auto append = [&](const std::string& key, uint64_t offset, size_t size) {
    return as(alice_, "PUT", "/appends/" + key, pattern(size), {{"x-amz-write-offset-bytes", std::to_string(offset)}});
  };
  ASSERT_EQ(append("log", 0, 100).status, 200);
  store.document("appends", std::string(quota_document), auth::quota_text({.bytes = 300, .objects = 1}));
  service.access->all_changed();
  EXPECT_EQ(append("log", 100, 100).status, 200);
  expect_refused(append("new", 0, 10));
  expect_refused(append("log", 200, 101));
  EXPECT_EQ(append("log", 200, 100).status, 200);
}

TEST_F(QuotaTest, AnAppendWhoseObjectIsRemovedMeanwhileMakesNoneBeyondTheQuota) {
  ASSERT_EQ(as(alice_, "PUT", "/appends", "", {{"x-verbena-append", "enabled"}}).status, 200);
  ASSERT_EQ(as(alice_, "PUT", "/appends/log", "").status, 200);
  store.document("appends", std::string(quota_document), auth::quota_text({.objects = 1}));
  service.access->changed("appends");
  for (const size_t size :
       {size_t{10}, size_t{1} << 20}) {  // one that may share a change with others, and one of its own
    TestCall late;
    late.method = "PUT";
    late.target = "/appends/log";
    late.headers = {{"x-amz-write-offset-bytes", "0"}};
    late.body = pattern(size);
    late.principal = alice_;
    late.meanwhile = [this]() -> Task<> {
      const std::string bucket = "appends", log = "log", other = "other";
      store::RemoveRequest removal;
      const auto removed = co_await store.remove(bucket, log, std::move(removal));
      EXPECT_TRUE(removed);
      auto writer = co_await store.create(bucket, other, 0);
      store::ObjectInfo info;
      store::CommitConditions conditions;
      const auto stored = co_await (*writer)->commit(std::move(info), std::move(conditions));
      EXPECT_TRUE(stored);
    };
    expect_refused(call(std::move(late)));
    EXPECT_EQ(run(store.bucket_usage("appends")).value().all_objects(), 1u);
    ASSERT_TRUE(run(store.remove("appends", "other", {})));
    ASSERT_EQ(as(alice_, "PUT", "/appends/log", "").status, 200);
  }
}

TEST_F(QuotaTest, DeletesAlwaysWork) {
  as(alice_, "PUT", "/bucket?versioning",
     "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  put_as_alice("a", 100);
  set_bucket_quota({.bytes = 0, .objects = 0});
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a").status, 204) << "it makes a delete marker";
  EXPECT_EQ(as(alice_, "POST", "/bucket?delete",
               "<Delete><Object><Key>key</Key></Object><Object><Key>a</Key></Object></Delete>",
               {{"content-md5", base64_digest(Algorithm::md5,
                                              "<Delete><Object><Key>key</Key></Object><Object><Key>a</Key></Object>"
                                              "</Delete>")}})
                .status,
            200);
}

// A tenant with a quota of one object had 100,000 delete markers made, of names that never were.
TEST_F(QuotaTest, AMarkerWhereNothingWasTakesRoomLikeAnObject) {
  as(alice_, "PUT", "/bucket?versioning",
     "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  set_bucket_quota({.objects = 3});  // one of them is there
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/never-1").status, 204);
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/never-2").status, 204);
  expect_refused(as(alice_, "DELETE", "/bucket/never-3"));
  expect_refused(as(alice_, "DELETE", "/bucket/never-1"));  // a second marker over the first
  const std::string body =
      "<Delete><Object><Key>never-4</Key></Object><Object><Key>key</Key></Object><Object><Key>key</Key></Object>"
      "</Delete>";
  const Reply batch =
      as(alice_, "POST", "/bucket?delete", body, {{"content-md5", base64_digest(Algorithm::md5, body)}});
  EXPECT_EQ(batch.status, 200);
  EXPECT_GE(batch.count("<Code>QuotaExceeded</Code>"), 2u) << batch.body;
  EXPECT_EQ(batch.count("<Deleted><Key>key</Key>"), 1u) << "removing is never refused: " << batch.body;
  const store::Usage usage = run(store.bucket_usage("bucket")).value();
  EXPECT_EQ(usage.delete_markers, 3u);
  // What gives room back does so.
  const std::string marker = as(alice_, "GET", "/bucket?versions&prefix=never-1").element("VersionId");
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/never-1?versionId=" + marker).status, 204);
}

TEST_F(QuotaTest, AMarkerThatTakesThePlaceOfTheNullVersionNeedsNoRoom) {
  as(alice_, "PUT", "/bucket?versioning",
     "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>");
  set_bucket_quota({.objects = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(as(alice_, "DELETE", "/bucket/key").status, 204);
  EXPECT_EQ(run(store.bucket_usage("bucket")).value().all_objects(), 1u);
  expect_refused(as(alice_, "DELETE", "/bucket/never"));
}

TEST_F(QuotaTest, AnAccountsQuotaBoundsMarkersOfAllItsBuckets) {
  as(alice_, "PUT", "/bucket?versioning",
     "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
  set_account_quota({.objects = 2});
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/never-1").status, 204);
  expect_refused(as(alice_, "DELETE", "/bucket/never-2"));
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/key").status, 204);
}

TEST_F(QuotaTest, PromisesWithoutBytesHoldNothingWhenTheyEnd) {
  set_bucket_quota({.bytes = 1000});
  for (int i = 0; i < 20; ++i) {
    TestCall c;
    c.method = "PUT";
    c.target = "/bucket/promised";
    c.body = pattern(990);
    c.principal = alice_;
    c.source_error = Errc::incomplete_body;
    EXPECT_EQ(call(std::move(c)).status, 400);
  }
  EXPECT_EQ(put_as_alice("real", 990).status, 200);
}

TEST_F(QuotaTest, UploadsAtTheSameTimeDoNotGoBeyondTheQuota) {
  set_bucket_quota({.bytes = 1000});
  int inner_status = 0;
  std::string inner_code;
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/first";
  c.body = pattern(600);
  c.principal = alice_;
  // While the first one's body is on its way.
  c.meanwhile = [&]() -> Task<> {
    Call of;
    Request request{of};
    request.call.identity.principal = alice_;
    request.call.identity.anonymous = false;
    request.method = "PUT";
    request.host = "127.0.0.1";
    request.raw_path = "/bucket/second";
    request.content_length = 600;
    TextSource source(pattern(600), 600);
    TextSink sink;
    Response response;
    Router router(service, windows, options);
    std::function<Headers()> none = [] { return Headers(); };
    (void)co_await router.handle(request, source, none, response, sink);
    inner_status = response.status;
    inner_code = response.error_code;
  };
  EXPECT_EQ(call(std::move(c)).status, 200);
  EXPECT_EQ(inner_status, 403);
  EXPECT_EQ(inner_code, "QuotaExceeded");
}

TEST_F(QuotaTest, ABucketsRateHoldsForEverybodyAndSaysWhenToComeBack) {
  set_bucket_quota({.bytes_per_s = 1024});
  policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"})");
  ASSERT_EQ(put_as_alice("big", 100 * 1024).status, 200) << "an admitted request is served";
  const Reply refused = as(nullptr, "GET", "/bucket/key");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.code, "SlowDown");
  EXPECT_GE(std::stoi(refused.header("retry-after")), 90);
  EXPECT_EQ(refused.count("<Code>SlowDown</Code>"), 1u);
  EXPECT_EQ(as(alice_, "GET", "/bucket?location").status, 503) << "requests about the bucket, too";
  // No change of the bucket makes it forget, and another quota begins anew.
  store.document("bucket", "tagging", "<Tagging><TagSet/></Tagging>");
  service.access->all_changed();
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 503);
  set_bucket_quota({.bytes_per_s = 1'000'000});
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 200);
}

// Each request is looked at for rates as long as there are some.
TEST_F(QuotaTest, RatesAreNotAskedForOnceTheLastBucketThatHasOneIsGone) {
  ASSERT_FALSE(auth::rates_are_in_use());
  const auto add = [&] {
    EXPECT_EQ(as(alice_, "PUT", "/rated").status, 200);
    store.document("rated", std::string(quota_document), R"({"requests_per_second":100})");
    service.access->all_changed();
    EXPECT_EQ(as(alice_, "GET", "/rated").status, 200);
    EXPECT_TRUE(auth::rates_are_in_use());
  };
  add();
  EXPECT_EQ(as(alice_, "DELETE", "/rated").status, 204);
  EXPECT_FALSE(auth::rates_are_in_use());
  add();
  EXPECT_TRUE(run(store.remove_bucket("rated"))) << "as another server does";
  service.access->all_changed();
  EXPECT_EQ(as(alice_, "GET", "/rated").status, 404);
  EXPECT_FALSE(auth::rates_are_in_use());
}

TEST_F(QuotaTest, RatesAreNotAskedForBecauseOfWhatAThreadKeepsOfBefore) {
  set_bucket_quota({.requests_per_s = 100});
  const BucketAccessPtr kept = run(bucket_access(service, "bucket")).value();
  EXPECT_TRUE(auth::rates_are_in_use());
  set_bucket_quota({.requests_per_s = 200});
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 200);
  EXPECT_TRUE(auth::rates_are_in_use());
  set_bucket_quota({.objects = 100});
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 200);
  EXPECT_FALSE(auth::rates_are_in_use());
  EXPECT_EQ(kept->limits->quota().requests_per_s, 100u);
}

// Two threads that read the documents, of which the one that began before the change is done after the other.
TEST_F(QuotaTest, WhatAnOlderReadingSaysEndsNoRate) {
  const auto text = [](const auth::Quota& quota) {
    return std::make_shared<const std::string>(auth::quota_text(quota));
  };
  BucketLimits limits;
  const auto now = limits.of("b", 1, text({.requests_per_s = 7}), 5).value();
  EXPECT_EQ(limits.of("b", 1, nullptr, 4).value(), nullptr);
  EXPECT_TRUE(auth::rates_are_in_use());
  EXPECT_EQ(limits.of("b", 1, text({.objects = 1}), 4).value(), now);
  EXPECT_TRUE(auth::rates_are_in_use());
  EXPECT_EQ(limits.of("b", 1, text({.requests_per_s = 7}), 6).value(), now) << "the same, not one that begins anew";
  EXPECT_NE(limits.of("b", 2, text({.requests_per_s = 7}), 6).value(), now) << "another bucket of the name";
  limits.forget("b", 6);
  EXPECT_FALSE(auth::rates_are_in_use());
}

TEST_F(QuotaTest, AGetPaysForItsBytes) {
  put_as_alice("big", 100 * 1024);
  set_bucket_quota({.bytes_per_s = 1024});
  EXPECT_EQ(as(alice_, "GET", "/bucket/big").status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 503);
}

TEST_F(QuotaTest, WhatDidNotMoveIsNotPaidFor) {
  put_as_alice("big", 100 * 1024);
  set_bucket_quota({.bytes_per_s = 1024});
  EXPECT_EQ(as(alice_, "HEAD", "/bucket/big").status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/none").status, 404);
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/promised";
  c.body = pattern(100 * 1024);
  c.principal = alice_;
  c.source_error = Errc::incomplete_body;
  EXPECT_EQ(call(std::move(c)).status, 400);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 200) << "four bytes";
  EXPECT_EQ(as(alice_, "GET", "/bucket/big").status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 503);
}

// A body whose SHA-256 is wrong fails with its last byte, and one that is cut with the chunk that it was cut in.
TEST_F(QuotaTest, WhatCameOfABodyThatFailedIsPaidFor) {
  set_bucket_quota({.bytes_per_s = 1024});
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/promised";
  c.body = pattern(100 * 1024);
  c.principal = alice_;
  c.source_error = Errc::content_sha256_mismatch;
  c.arrived_before_error = 90 * 1024;
  EXPECT_EQ(call(std::move(c)).status, 400);
  const Reply refused = as(alice_, "GET", "/bucket/key");
  EXPECT_EQ(refused.status, 503);
  EXPECT_GE(std::stoi(refused.header("retry-after")), 80);
}

// The next request waits, although nothing of the first has moved yet.
TEST_F(QuotaTest, ATransferIsChargedWhenItBegins) {
  set_bucket_quota({.bytes_per_s = 1024});
  int meanwhile = 0;
  TestCall c;
  c.method = "PUT";
  c.target = "/bucket/big";
  c.body = pattern(100 * 1024);
  c.principal = alice_;
  c.meanwhile = [&]() -> Task<> {
    Call of;
    Request request{of};
    request.call.identity.principal = alice_;
    request.call.identity.anonymous = false;
    request.method = "GET";
    request.host = "127.0.0.1";
    request.raw_path = "/bucket/key";
    TextSource source("", 0);
    TextSink sink;
    Response response;
    Router router(service, windows, options);
    std::function<Headers()> none = [] { return Headers(); };
    (void)co_await router.handle(request, source, none, response, sink);
    meanwhile = response.status;
  };
  EXPECT_EQ(call(std::move(c)).status, 200);
  EXPECT_EQ(meanwhile, 503);
}

TEST_F(QuotaTest, RequestsASecondAreTheCallersAndTheRootKeysAreNotCounted) {
  auth::Principal limited = *alice_;
  limited.limits = auth::make_limits({.requests_per_s = 1});
  const auto user = std::make_shared<const auth::Principal>(limited);
  EXPECT_EQ(as(user, "GET", "/bucket/key").status, 200);
  int refused = 0;
  for (int i = 0; i < 100; ++i) refused += as(user, "GET", "/bucket/key").status == 503 ? 1 : 0;
  EXPECT_GT(refused, 0);
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 200) << "others are not held up";
  set_bucket_quota({.requests_per_s = 1});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(call("GET", "/bucket/key").status, 200);
}

TEST_F(QuotaTest, WhatIsNoQuotaDoesNotOpenTheBucket) {
  store.document("bucket", std::string(quota_document), "{\"bytes\":-1}");
  service.access->all_changed();
  EXPECT_EQ(as(alice_, "GET", "/bucket/key").status, 500);
}

TEST_F(QuotaTest, WhoMayListABucketLearnsWhatItHolds) {
  const Reply head = as(alice_, "HEAD", "/bucket");
  EXPECT_EQ(head.header("x-verbena-objects"), "1");
  EXPECT_EQ(head.header("x-verbena-bytes"), "4");
  EXPECT_EQ(head.header("x-verbena-uploads"), "0");
}

}  // namespace
}  // namespace verbena::s3::test
