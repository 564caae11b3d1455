// What may be stored at once, and what put_object() has to look at.
#include "s3/objects/put_now.h"

#include <gtest/gtest.h>

#include "auth/keyring.h"
#include "s3/access/access.h"
#include "s3/access/quota.h"
#include "s3/access/test_access.h"

namespace verbena::s3::test {
namespace {

class PutNowTest : public AccessRig {
 protected:
  Call caller_of(auth::PrincipalPtr principal) {
    Call caller;
    caller.identity.principal = std::move(principal);
    caller.identity.anonymous = caller.identity.principal == nullptr;
    caller.door = Door::native;
    caller.peer_address = "127.0.0.1";
    return caller;
  }
  memory::Chunk chunk(std::string_view text) {
    auto lease = arena->lease(std::max<size_t>(text.size(), 1)).value();
    std::memcpy(lease.data(), text.data(), text.size());
    const Bytes bytes = Bytes(lease.bytes()).first(text.size());
    return {std::move(lease), bytes};
  }
  PutNowOutcome outcome(PutNow put, auth::PrincipalPtr who, std::string_view text = "bytes") {
    put.bucket = "bucket";
    if (put.key.empty()) put.key = "new";
    put.bytes = chunk(text);
    put.then = [this](Result<store::ObjectInfo> stored) { told_ = std::move(stored); };
    told_.reset();
    const PutNowOutcome outcome = put_now(service, caller_of(std::move(who)), put);
    EXPECT_EQ(outcome != PutNowOutcome::wait, told_.has_value());
    if (outcome == PutNowOutcome::wait) {
      EXPECT_EQ(as_text(put.bytes.bytes), text) << "they are still there";
    }
    return outcome;
  }
  bool put(PutNow put, auth::PrincipalPtr who, std::string_view text = "bytes") {
    return outcome(std::move(put), std::move(who), text) == PutNowOutcome::done;
  }
  bool waits(PutNow put, auth::PrincipalPtr who, std::string_view text = "bytes") {
    return outcome(std::move(put), std::move(who), text) == PutNowOutcome::wait;
  }
  // The error that it is refused with at once, which is put_object()'s.
  Errc refusal(PutNow put, auth::PrincipalPtr who) {
    PutRequest request;
    request.bucket = "bucket";
    request.key = put.key.empty() ? "new" : put.key;
    request.headers = put.headers;
    request.expected = put.expected;
    request.md5_etag = false;
    TextSource body("bytes", 5);
    const auto waited = run(put_object(service, caller_of(who), std::move(request), body));
    EXPECT_EQ(outcome(std::move(put), std::move(who)), PutNowOutcome::refused);
    if (!told_ || *told_ || waited) return Errc::ok;
    EXPECT_EQ(told_->error().code, waited.error().code);
    return told_->error().code;
  }
  // The bucket's access is known on this thread from here on.
  void look() { (void)run(bucket_access(service, "bucket")); }

  std::optional<Result<store::ObjectInfo>> told_;
};

TEST_F(PutNowTest, AnObjectOfTheBucketsOwnerKeepsNoList) {
  service.access->all_changed();
  EXPECT_TRUE(waits({}, alice_)) << "what the bucket says about access is not at hand";
  look();
  ASSERT_TRUE(put({.headers = {{"x-amz-meta-a", "1"}}}, alice_));
  ASSERT_TRUE(*told_);
  const auto stored = store.object("bucket", "new");
  EXPECT_EQ(stored.data, "bytes");
  EXPECT_EQ(stored.info.etag, (*told_)->etag);
  EXPECT_TRUE(stored.info.etag.ends_with("-r")) << stored.info.etag;
  EXPECT_TRUE(stored.info.attributes.empty());
  EXPECT_EQ(stored.info.headers, (Headers{{"x-amz-meta-a", "1"}}));
}

TEST_F(PutNowTest, AnotherWritersObjectIsTheWritersAsByPutObject) {
  policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*"})");
  look();
  ASSERT_TRUE(put({}, bob_));
  ASSERT_EQ(as(bob_, "PUT", "/bucket/long-way", "bytes").status, 200);
  EXPECT_FALSE(store.object("bucket", "new").info.attributes.empty());
  EXPECT_EQ(store.object("bucket", "new").info.attributes, store.object("bucket", "long-way").info.attributes);
}

TEST_F(PutNowTest, WhoMayNotStoresNothing) {
  look();
  EXPECT_EQ(refusal({}, bob_), Errc::access_denied);
  EXPECT_EQ(refusal({}, nullptr), Errc::access_denied);
  EXPECT_FALSE(store.contains("bucket", "new"));
  policy(R"({"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/secret"})");
  look();
  EXPECT_EQ(refusal({.key = "secret"}, alice_), Errc::access_denied);
  EXPECT_TRUE(put({.key = "other"}, alice_));
}

TEST_F(PutNowTest, AChecksumIsVerifiedAndKept) {
  look();
  Digest right(Algorithm::crc32c), wrong(Algorithm::crc32c);
  right.update(as_bytes(std::string_view("bytes")));
  wrong.update(as_bytes(std::string_view("other")));
  const store::Checksum of_bytes{Algorithm::crc32c, right.finish(), 0}, of_others{Algorithm::crc32c, wrong.finish(), 0};
  EXPECT_EQ(refusal({.expected = {of_others}}, alice_), Errc::bad_digest);
  EXPECT_FALSE(store.contains("bucket", "new"));
  ASSERT_TRUE(put({.expected = {of_bytes}}, alice_));
  EXPECT_EQ(store.object("bucket", "new").info.checksums, std::vector{of_bytes});
}

TEST_F(PutNowTest, WhatIsLargeOrEmptyIsLeftToPutObject) {
  look();
  EXPECT_TRUE(put({}, alice_, std::string(put_now_max, 'x')));
  EXPECT_TRUE(waits({}, alice_, std::string(put_now_max + 1, 'x')));
  EXPECT_TRUE(waits({.key = "empty"}, alice_, ""));
}

TEST_F(PutNowTest, WhatTheRequestSaysWronglyIsRefusedAtOnceAndAsPutObjectDoes) {
  look();
  const std::string long_key(1025, 'k');
  EXPECT_NE(refusal({.key = long_key}, alice_), Errc::ok);
  EXPECT_NE(refusal({.key = "not\xffutf8"}, alice_), Errc::ok);
  EXPECT_EQ(refusal({.headers = {{"x-amz-storage-class", "EXPRESS_ONEZONE"}}}, alice_), Errc::invalid_storage_class);
  EXPECT_NE(refusal({.headers = {{"not-an-objects", "1"}}}, alice_), Errc::ok);
  EXPECT_FALSE(store.contains("bucket", "new"));
}

TEST_F(PutNowTest, WhatIsEncryptedIsLeftToPutObject) {
  const auto keys = auth::KeyRing::in_memory();
  service.encryption.keys = keys.get();
  look();
  EXPECT_TRUE(put({}, alice_));
  service.encryption.by_default = true;
  EXPECT_TRUE(waits({}, alice_));
  service.encryption.by_default = false;
  const std::string rule =
      "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256"
      "</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
  ASSERT_EQ(as(alice_, "PUT", "/bucket?encryption", rule).status, 200);
  EXPECT_TRUE(waits({}, alice_)) << "from the moment on that the rule was acknowledged";
  look();
  EXPECT_TRUE(waits({}, alice_));
  ASSERT_EQ(as(alice_, "DELETE", "/bucket?encryption").status, 204);
  look();
  EXPECT_TRUE(put({}, alice_));
}

TEST_F(PutNowTest, AQuotaIsLeftToPutObject) {
  look();
  EXPECT_TRUE(put({}, alice_));
  store.document("bucket", std::string(quota_document), auth::quota_text({.bytes = 1000}));
  service.access->all_changed();
  look();
  EXPECT_TRUE(waits({}, alice_));
}

}  // namespace
}  // namespace verbena::s3::test
