// Policies see the same request by the native door as over HTTP.
#include "native/test_door.h"
#include "s3/access/access.h"

namespace verbena::native {
namespace {

class RightsTest : public DoorTest {
 protected:
  void policy(const std::string& condition) {
    store_.document("bucket", "policy",
                    R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":["s3:PutObject",)"
                    R"("s3:ListBucket","s3:DeleteObject"],"Resource":"arn:aws:s3:::bucket*","Condition":)" +
                        condition + "}}");
    service_.access->all_changed();
  }
  Errc put(FakePeer& peer, std::string_view key, std::string_view if_none_match, std::string_view if_match = "") {
    wire::Put put;
    put.bucket = "bucket";
    put.key = key;
    put.size = 5;
    put.if_none_match = if_none_match;
    put.if_match = if_match;
    deliver(peer, peer.seal(wire::Type::put, ++request_, put, 0, "hello"));
    return wire::decode_error(reply_body(peer)).value_or(Errc::ok);
  }
  Errc put_headers(FakePeer& peer, std::initializer_list<wire::HeaderPair> headers) {
    wire::Put put;
    put.bucket = "bucket";
    put.key = "of-headers";
    put.size = 5;
    for (const auto& header : headers) put.headers.add(header);
    deliver(peer, peer.seal(wire::Type::put, ++request_, put, 0, "hello"));
    return wire::decode_error(reply_body(peer)).value_or(Errc::ok);
  }
  Errc list(FakePeer& peer, std::string_view prefix) {
    wire::List list;
    list.bucket = "bucket";
    list.prefix = prefix;
    list.max_keys = 10;
    deliver(peer, peer.seal(wire::Type::list, ++request_, list));
    return wire::decode_error(reply_body(peer)).value_or(Errc::ok);
  }

  uint64_t request_ = 10;
};

// Refused although it met the condition that the policy requires; stored although it had the one that is denied.
TEST_F(RightsTest, TheConditionsOfAPutAreThoseOfItsMessage) {
  FakePeer peer = hello();
  policy(R"({"Null":{"s3:if-none-match":"true"}})");
  EXPECT_EQ(put(peer, "a", "*"), Errc::ok);
  EXPECT_EQ(put(peer, "b", ""), Errc::access_denied);
  policy(R"({"StringEquals":{"s3:if-none-match":"*"}})");
  EXPECT_EQ(put(peer, "c", "*"), Errc::access_denied);
  EXPECT_EQ(put(peer, "c", ""), Errc::ok);
  policy(R"({"StringEquals":{"s3:if-match":"\"abc\""}})");
  EXPECT_EQ(put(peer, "c", "", "abc"), Errc::access_denied);
  EXPECT_EQ(put(peer, "c", "", "other"), Errc::precondition_failed);
}

TEST_F(RightsTest, AClientHasTheNameThatItSaidWhenItSignedIn) {
  policy(R"({"StringLike":{"aws:UserAgent":"*"}})");
  FakePeer silent = hello();
  EXPECT_EQ(put(silent, "a", ""), Errc::ok);
  user_agent_ = "verbena-client/1.2.3";
  FakePeer named = hello(2);
  EXPECT_EQ(put(named, "a", ""), Errc::access_denied);
  policy(R"({"StringNotLike":{"aws:UserAgent":"verbena-client/*"}})");
  EXPECT_EQ(put(named, "a", ""), Errc::ok);
  EXPECT_EQ(put(silent, "a", ""), Errc::access_denied);
}

TEST_F(RightsTest, AListingHasAPrefixWhereItsMessageHasOne) {
  FakePeer peer = hello();
  policy(R"({"Null":{"s3:prefix":"true"}})");
  EXPECT_EQ(list(peer, ""), Errc::access_denied);
  EXPECT_EQ(list(peer, "a/"), Errc::ok);
  policy(R"({"Null":{"s3:prefix":"false"}})");
  EXPECT_EQ(list(peer, ""), Errc::ok);
  EXPECT_EQ(list(peer, "a/"), Errc::access_denied);
}

// Over HTTP the class is a fact also where it is STANDARD, which is not kept.
TEST_F(RightsTest, TheClassOfAPutIsTheOneThatItsMessageNames) {
  FakePeer peer = hello();
  policy(R"({"StringEquals":{"s3:x-amz-storage-class":"STANDARD"}})");
  EXPECT_EQ(put_headers(peer, {{"x-amz-storage-class", "STANDARD"}}), Errc::access_denied);
  EXPECT_EQ(put_headers(peer, {{"x-amz-storage-class", "STANDARD_IA"}}), Errc::ok);
  EXPECT_EQ(put_headers(peer, {}), Errc::ok);
  policy(R"({"Null":{"s3:x-amz-storage-class":"true"}})");
  EXPECT_EQ(put_headers(peer, {{"x-amz-storage-class", "STANDARD"}}), Errc::ok);
  EXPECT_EQ(put_headers(peer, {}), Errc::access_denied);
}

// The policy judged the first of them, and both were stored and answered.
TEST_F(RightsTest, AHeaderOfOneValueIsNotThereTwice) {
  FakePeer peer = hello();
  policy(R"({"StringNotEquals":{"s3:x-amz-website-redirect-location":"/allowed"}})");
  const wire::HeaderPair allowed{"x-amz-website-redirect-location", "/allowed"};
  EXPECT_EQ(put_headers(peer, {allowed}), Errc::ok);
  EXPECT_EQ(put_headers(peer, {allowed, {"x-amz-website-redirect-location", "https://other.example"}}),
            Errc::invalid_argument);
  EXPECT_EQ(put_headers(peer, {allowed, {"content-type", "text/plain"}, {"content-type", "text/html"}}),
            Errc::invalid_argument);
  EXPECT_EQ(put_headers(peer, {allowed, {"x-amz-meta-a", "1"}, {"x-amz-meta-b", "1"}}), Errc::ok);
}

}  // namespace
}  // namespace verbena::native
