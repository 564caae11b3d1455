// Policies of buckets and users, tested through the router.
#include "s3/access/access.h"
#include "s3/access/test_access.h"
#include "s3/documents/bucket_document.h"

namespace verbena::s3 {
namespace {

using test::alice;
using test::bob;
using test::user_of;

class BucketPolicyTest : public test::AccessRig {
 protected:
  static std::string denies(const std::string& action) {
    return R"({"Effect":"Deny","Principal":"*","Action":")" + action + R"(","Resource":"arn:aws:s3:::bucket"})";
  }
  const Headers confirmed = {{"x-amz-confirm-remove-self-bucket-access", "true"}};
};

TEST_F(BucketPolicyTest, APolicyHoldsAtOnce) {
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject")).status, 204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(nobody_, "GET", "/bucket"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policyStatus").element("IsPublic"), "true");
  EXPECT_EQ(
      policy(allow(R"({"AWS":"222222222222"})", "s3:ListBucket", R"(,"Condition":{"StringLike":{"s3:prefix":"a*"}})"))
          .status,
      204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket?prefix=ab"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policyStatus").element("IsPublic"), "false");
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(bob_, "GET", "/bucket?prefix=ab"), 403);
  EXPECT_EQ(as(alice_, "GET", "/bucket?policy").code, "NoSuchBucketPolicy");
}

TEST_F(BucketPolicyTest, RefusesPoliciesThatAreNotTheBuckets) {
  EXPECT_EQ(as(alice_, "PUT", "/bucket?policy", "{").code, "MalformedPolicy");
  EXPECT_EQ(policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::other/*"})").code,
            "MalformedPolicy");
  EXPECT_EQ(policy(R"({"Effect":"Allow","Principal":"*","Action":"s3:Fly","Resource":"arn:aws:s3:::bucket/*"})").code,
            "MalformedPolicy");
  EXPECT_EQ(as(alice_, "PUT", "/bucket?policy", std::string(30 * KiB, ' ')).code, "MalformedPolicy");
}

TEST_F(BucketPolicyTest, TheOwnersRootIsDeniedButNotLockedOut) {
  const std::string deny = R"({"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket",)"
                           R"("arn:aws:s3:::bucket/*"]})";
  EXPECT_EQ(policy(deny).status, 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(auth::superuser(), "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket?policy"), 403);
  EXPECT_EQ(policy(deny, {{"x-amz-confirm-remove-self-bucket-access", "true"}}).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 403);
  EXPECT_EQ(status(auth::superuser(), "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket/key"), 200);
}

// The policy and its binding were two changes in the wrong order: one request's policy got the other's binding.
TEST_F(BucketPolicyTest, AConfirmationBindsTheRootToNoOtherPolicy) {
  const std::string locks = denies("s3:DeleteBucketPolicy"), also_locks = denies("s3:*");
  store.before_replacement = [&] { EXPECT_EQ(policy(locks).status, 204); };
  EXPECT_EQ(policy(also_locks, confirmed).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 204) << "the last one was not confirmed";
  store.before_replacement = [&] { EXPECT_EQ(policy(locks, confirmed).status, 204); };
  EXPECT_EQ(policy(also_locks, confirmed).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 403) << "both were";
  EXPECT_EQ(status(alice_, "HEAD", "/bucket"), 403) << "the one that was answered last holds";
  const std::string same = R"({"Version":"2012-10-17","Statement":)" + also_locks + "}";
  EXPECT_EQ(as(auth::superuser(), "PUT", "/bucket?policy", same).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 204) << "the same text as before, and not confirmed";
}

// The binding of one policy was set for another, because it was as it had been before.
TEST_F(BucketPolicyTest, TheSameConfirmedPolicyAgainKeepsTheRootBound) {
  const std::string locks = denies("s3:DeleteBucketPolicy"), also_locks = denies("s3:*");
  EXPECT_EQ(policy(locks, confirmed).status, 204);
  store.before_replacement = [&] { EXPECT_EQ(policy(locks, confirmed).status, 204); };
  EXPECT_EQ(policy(also_locks, confirmed).status, 204);
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 403) << "both were confirmed";
  EXPECT_EQ(status(alice_, "HEAD", "/bucket"), 403) << "the one that was answered last holds";
}

TEST_F(BucketPolicyTest, NoRequestTakesTheBindingOfAPolicyThatItDoesNotReplace) {
  const std::string locks = denies("s3:DeleteBucketPolicy"), other = allow("\"*\"", "s3:GetObject");
  EXPECT_EQ(policy(locks, confirmed).status, 204);
  store.before_replacement = [&] { EXPECT_EQ(policy(locks, confirmed).status, 204); };
  EXPECT_EQ(policy(other).status, 204);
  EXPECT_EQ(status(nobody_, "GET", "/bucket/key"), 200) << "the one that was answered last holds";
  EXPECT_EQ(policy(locks, confirmed).status, 204);
  store.before_replacement = [&] { EXPECT_EQ(policy(locks, confirmed).status, 204); };
  EXPECT_EQ(status(auth::superuser(), "DELETE", "/bucket?policy"), 204);
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 404);
}

// The binding of the policy in force was removed before the next one was refused.
TEST_F(BucketPolicyTest, ARefusedPolicyLeavesTheRootBoundToTheOneInForce) {
  EXPECT_EQ(policy(denies("s3:DeleteBucketPolicy"), confirmed).status, 204);
  for (size_t size = store::document_size_max, documents = 0; size > 0;) {
    const std::string name = "filler-" + std::to_string(documents);
    const bool fits = run(store.set_document("bucket", name, std::string(size, 'x'))).has_value();
    documents += fits ? 1 : 0;
    size = fits ? size : size / 2;
  }
  const std::string longer = R"(,"Sid":")" + std::string(300, 'a') + '"';
  EXPECT_EQ(policy(allow("\"*\"", "s3:GetObject", longer)).status, 409) << "the owner's documents are too large";
  EXPECT_EQ(status(alice_, "DELETE", "/bucket?policy"), 403);
}

// As after a crash between the two changes of a request.
TEST_F(BucketPolicyTest, ABindingHoldsForThePolicyThatItNames) {
  const std::string deny = R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*",)"
                           R"("Action":"s3:*","Resource":"arn:aws:s3:::bucket"}})";
  EXPECT_NE(policy_binding(deny), policy_binding(deny)) << "each request has its own";
  store.document("bucket", "policy", deny);
  store.document("bucket", "policy-binding", policy_binding("another"));
  service.access->changed("bucket");
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 200);
  store.document("bucket", "policy-binding", policy_binding(deny));
  service.access->changed("bucket");
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 403);
  store.document("bucket", "policy-binding", "root");  // by an earlier version
  service.access->changed("bucket");
  EXPECT_EQ(status(alice_, "GET", "/bucket?policy"), 403);
}

TEST_F(BucketPolicyTest, UsersHaveWhatTheirPoliciesAllow) {
  const auto none = user_of(alice, "none", "");
  const auto reader =
      user_of(alice, "reader", R"({"Effect":"Allow","Action":"s3:Get*","Resource":"arn:aws:s3:::bucket/k*"})");
  const auto abroad = user_of(bob, "abroad", R"({"Effect":"Allow","Action":"s3:*","Resource":"*"})");
  EXPECT_EQ(status(none, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(reader, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(reader, "GET", "/bucket/other"), 403);
  EXPECT_EQ(status(reader, "PUT", "/bucket/key"), 403);
  EXPECT_EQ(status(abroad, "GET", "/bucket/key"), 403);
  EXPECT_EQ(policy(allow(R"({"AWS":["222222222222","arn:aws:iam::111111111111:user/none"]})", "s3:GetObject")).status,
            204);
  EXPECT_EQ(status(abroad, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(none, "GET", "/bucket/key"), 200);
  EXPECT_EQ(status(abroad, "PUT", "/bucket/key"), 403);
  EXPECT_EQ(status(none, "GET", "/"), 403);
  EXPECT_EQ(status(abroad, "GET", "/"), 200);
}

TEST_F(BucketPolicyTest, ConditionsLookAtTheRequest) {
  const auto only_if = [&](const std::string& condition) {
    EXPECT_EQ(policy(allow("\"*\"", "s3:*", R"(,"Condition":)" + condition)).status, 204) << condition;
  };
  only_if(R"({"StringEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}})");
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new"), 403);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-acl", "bucket-owner-full-control"}}), 200);
  EXPECT_EQ(status(alice_, "GET", "/bucket/new"), 200);
  only_if(R"({"StringEquals":{"s3:RequestObjectTag/team":"red"}})");
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-tagging", "team=blue"}}), 403);
  EXPECT_EQ(status(bob_, "PUT", "/bucket/new", {{"x-amz-tagging", "team=red"}}), 200);
  only_if(R"({"StringEquals":{"s3:ExistingObjectTag/open":"yes"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/key", {{"x-amz-tagging", "open=yes"}}), 200);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 200);
  only_if(R"({"IpAddress":{"aws:SourceIp":"127.0.0.0/8"},"StringLike":{"aws:Referer":"http://a/*"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket/key", {{"referer", "http://a/b"}}), 200);
  only_if(R"({"NumericLessThanEquals":{"s3:max-keys":"5"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket"), 403);
  EXPECT_EQ(status(bob_, "GET", "/bucket?max-keys=5"), 200);
  only_if(R"({"Bool":{"aws:SecureTransport":"true"}})");
  EXPECT_EQ(status(bob_, "GET", "/bucket/key"), 403);
}

TEST_F(BucketPolicyTest, ThePayloadsHashIsTheOneThatWasVerified) {
  EXPECT_EQ(policy(R"({"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*",)"
                   R"("Condition":{"StringEquals":{"s3:x-amz-content-sha256":"UNSIGNED-PAYLOAD"}}})")
                .status,
            204);
  const std::string hash(64, 'a');
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}}), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new", {{"x-amz-content-sha256", hash}}), 200);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s"), 403);
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s&X-Amz-Content-Sha256=" + hash), 200);
  // The signed URL's parameters count.
  EXPECT_EQ(status(alice_, "PUT", "/bucket/new?X-Amz-Signature=s&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD",
                   {{"x-amz-content-sha256", hash}}),
            403);
}

}  // namespace
}  // namespace verbena::s3
