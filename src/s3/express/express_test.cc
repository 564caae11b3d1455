// Directory buckets, sessions, appends and renames, as requests ask for them.
#include "s3/express/directory.h"

#include <set>

#include "auth/identifiers.h"
#include "auth/identity_store.h"
#include "base/text.h"
#include "s3/names.h"
#include "s3_http/test_rig.h"

namespace verbena::s3 {
namespace {

using test::Reply;
using test::TestCall;

const std::string bucket = "logs--local1-az1--x-s3";
const std::string at = "/" + bucket;

std::string location(const std::string& zone = "local1-az1") {
  return "<CreateBucketConfiguration><Location><Name>" + zone +
         "</Name><Type>AvailabilityZone</Type></Location><Bucket><DataRedundancy>SingleAvailabilityZone"
         "</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>";
}

class Express : public test::Rig {
 protected:
  Express() {
    accounts = std::move(*auth::IdentityStore::open("", *ring, {"ROOT", "root's secret", ""}));
    service.credentials = accounts.get();
    service.accounts = accounts.get();
    EXPECT_EQ(call("PUT", at, {}, location()).status, 200);
  }

  int64_t now_s() const { return service.clock.now_us() / 1'000'000; }

  // A user of the root's account with this policy.
  auth::AccessKeyPtr user(const std::string& name, const std::string& policy) {
    auth::User user;
    user.name = name;
    user.id = auth::make_id("AIDA");
    user.keys.push_back(accounts->make_key("AK" + name, "secret of " + name, now_s()));
    auto parsed = auth::parse_policy(policy, auth::PolicyKind::identity);
    EXPECT_TRUE(parsed);
    user.policy_set.inline_policies.emplace("own", auth::PolicyDocument{policy, *parsed});
    const auto edit = [&](auth::AccountEntry& entry) -> Result<void> {
      entry.users.insert_or_assign(name, user);
      return {};
    };
    EXPECT_TRUE(accounts->change_account(auth::root_account_id, edit));
    return key_of("AK" + name);
  }
  auth::AccessKeyPtr key_of(const std::string& access_key, const std::string& token = "") {
    auto key = accounts->find(access_key, token, now_s());
    return key ? *key : nullptr;
  }
  static std::string may_open(const std::string& condition = "") {
    return R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3express:CreateSession",)"
           R"("Resource":"arn:aws:s3express:us-east-1:000000000000:bucket/)" +
           bucket + "\"" + condition + "}]}";
  }

  Reply as(const auth::AccessKeyPtr& key, const std::string& method, const std::string& target, Headers headers = {},
           std::string body = {}) {
    TestCall c;
    c.method = method;
    c.target = target;
    c.headers = std::move(headers);
    c.body = std::move(body);
    c.key = key;
    c.principal = key->principal;
    return call(std::move(c));
  }
  auth::AccessKeyPtr session(const auth::AccessKeyPtr& by, const std::string& mode = "ReadWrite") {
    const Reply made = as(by, "GET", at + "?session", {{"x-amz-create-session-mode", mode}});
    EXPECT_EQ(made.status, 200) << made.body;
    return key_of(made.element("AccessKeyId"), made.element("SessionToken"));
  }
  Reply append(const std::string& key, uint64_t offset, const std::string& bytes, Headers headers = {}) {
    headers.emplace_back("x-amz-write-offset-bytes", std::to_string(offset));
    return call("PUT", at + "/" + key, std::move(headers), bytes);
  }

  std::unique_ptr<auth::KeyRing> ring = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> accounts;
};

TEST_F(Express, NamesHaveABaseAndTheServersZone) {
  for (const char* good : {"a--local1-az1--x-s3", "a-b-1--local1-az1--x-s3", "a--b--local1-az1--x-s3"}) {
    EXPECT_EQ(call("PUT", std::string("/") + good, {}, location()).status, 200) << good;
  }
  const std::string longest = std::string(63 - 18, 'a') + "--local1-az1--x-s3";
  EXPECT_EQ(call("PUT", "/" + longest, {}, location()).status, 200);
  for (const std::string& bad :
       {"a" + longest, std::string("--local1-az1--x-s3"), std::string("local1-az1--x-s3"), std::string("a--x-s3"),
        std::string("a.b--local1-az1--x-s3"), std::string("A--local1-az1--x-s3"), std::string("a---local1-az1--x-s3"),
        std::string("a--other-az1--x-s3")}) {
    EXPECT_EQ(call("PUT", "/" + bad, {}, location()).code, "InvalidBucketName") << bad;
  }
  EXPECT_EQ(call("PUT", "/z--local1-az1--x-s3", {}, location("use1-az4")).status, 400);
  EXPECT_EQ(call("PUT", "/z--local1-az1--x-s3").code, "InvalidBucketName") << "it does not say what it is";
  EXPECT_EQ(call("PUT", "/general", {}, location()).code, "InvalidBucketName");
}

TEST_F(Express, AreListedByACallOfTheirOwn) {
  make_bucket("general");
  EXPECT_EQ(call("GET", "/").count("<Name>"), 1u);
  const auto list = [&](const std::string& query) {
    TestCall c;
    c.target = "/" + query;
    c.express = true;
    return call(std::move(c));
  };
  EXPECT_EQ(call("PUT", "/more--local1-az1--x-s3", {}, location()).status, 200);
  const Reply all = list("?x-id=ListDirectoryBuckets");
  EXPECT_EQ(all.count("<Name>"), 2u);
  EXPECT_EQ(all.count("ListAllMyDirectoryBucketsResult"), 2u);
  const Reply first = list("?max-directory-buckets=1");
  EXPECT_EQ(first.element("Name"), bucket);
  EXPECT_EQ(list("?continuation-token=" + first.element("ContinuationToken")).element("Name"),
            "more--local1-az1--x-s3");
  const Reply head = call("HEAD", at);
  EXPECT_EQ(head.header("x-amz-bucket-location-type"), "AvailabilityZone");
  EXPECT_EQ(head.header("x-amz-bucket-location-name"), "local1-az1");
}

TEST_F(Express, WhatIsSignedForThemIsForThemAlone) {
  make_bucket("general");
  TestCall c;
  c.target = "/general?list-type=2";
  c.express = true;
  EXPECT_EQ(call(std::move(c)).code, "AuthorizationHeaderMalformed");
}

// Amazon S3 User Guide, "Directory bucket API operations": what is there is served, all else refused.
TEST_F(Express, EachCallIsServedOrRefusedAsDocumented) {
  struct Row {
    const char *method, *target;
    int status;
  };
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  const Row rows[] = {
      // Served: 2xx, or what the call answers where there is nothing yet.
      {"HEAD", "", 200},
      {"GET", "?list-type=2", 200},
      {"GET", "?uploads", 200},
      {"GET", "?policy", 404},
      {"GET", "?encryption", 404},
      {"GET", "?lifecycle", 404},
      {"DELETE", "?policy", 204},
      {"DELETE", "?encryption", 204},
      {"DELETE", "?lifecycle", 204},
      {"GET", "/k", 200},
      {"HEAD", "/k", 200},
      {"POST", "/m?uploads", 200},
      {"GET", "/k?versionId=null", 200},
      {"DELETE", "/none", 204},
      // Refused.
      {"GET", "", 501},
      {"GET", "?versions", 501},
      {"GET", "?versioning", 501},
      {"PUT", "?versioning", 501},
      {"GET", "?acl", 501},
      {"PUT", "?acl", 501},
      {"GET", "?cors", 501},
      {"PUT", "?cors", 501},
      {"DELETE", "?cors", 501},
      {"GET", "?tagging", 501},
      {"PUT", "?tagging", 501},
      {"GET", "?location", 501},
      {"GET", "?logging", 501},
      {"PUT", "?logging", 501},
      {"GET", "?notification", 501},
      {"PUT", "?notification", 501},
      {"GET", "?object-lock", 501},
      {"PUT", "?object-lock", 501},
      {"GET", "?ownershipControls", 501},
      {"PUT", "?ownershipControls", 501},
      {"GET", "?publicAccessBlock", 501},
      {"PUT", "?publicAccessBlock", 501},
      {"GET", "?policyStatus", 501},
      {"GET", "?replication", 501},
      {"GET", "?requestPayment", 501},
      {"PUT", "?requestPayment", 501},
      {"GET", "?website", 501},
      {"GET", "?accelerate", 501},
      {"PUT", "?accelerate", 501},
      {"GET", "?metrics", 501},
      {"POST", "", 501},
      {"GET", "/k?acl", 501},
      {"PUT", "/k?acl", 501},
      {"GET", "/k?tagging", 501},
      {"PUT", "/k?tagging", 501},
      {"DELETE", "/k?tagging", 501},
      {"GET", "/k?retention", 501},
      {"PUT", "/k?retention", 501},
      {"GET", "/k?legal-hold", 501},
      {"PUT", "/k?legal-hold", 501},
      {"GET", "/k?torrent", 501},
      {"POST", "/k?restore", 501},
      {"POST", "/k?select&select-type=2", 501},
      {"GET", "/k?versionId=00000000000000000000000000000000", 400},
  };
  for (const Row& row : rows) {
    const Reply r = call(row.method, at + row.target);
    EXPECT_EQ(r.status, row.status) << row.method << " " << row.target << " " << r.body;
    EXPECT_EQ(r.code == "NotImplemented", row.status == 501) << row.target << " " << r.code;
  }
}

TEST_F(Express, HeadersOfOtherBucketsAreRefused) {
  const Headers refused = {{"x-amz-acl", "private"},
                           {"x-amz-grant-read", "id=root"},
                           {"x-amz-tagging", "a=b"},
                           {"x-amz-object-lock-mode", "GOVERNANCE"},
                           {"x-amz-object-lock-legal-hold", "ON"},
                           {"x-amz-website-redirect-location", "/x"},
                           {"x-amz-server-side-encryption-customer-algorithm", "AES256"}};
  for (const auto& header : refused) {
    EXPECT_EQ(call("PUT", at + "/k", {header}, "x").status, 501) << header.first;
  }
  EXPECT_EQ(call("PUT", at + "/k", {{"x-amz-storage-class", "STANDARD"}}, "x").code, "InvalidStorageClass");
  EXPECT_EQ(call("PUT", at + "/k", {{"x-amz-storage-class", "EXPRESS_ONEZONE"}}, "x").status, 200);
  make_bucket("general");
  EXPECT_EQ(call("PUT", "/general/k", {{"x-amz-storage-class", "EXPRESS_ONEZONE"}}, "x").status, 501);
}

TEST_F(Express, ObjectsAreOfTheirClassAndHaveNoMd5) {
  const Reply put = call("PUT", at + "/a/k", {}, "data");
  EXPECT_EQ(put.status, 200);
  EXPECT_NE(put.header("etag").find('-'), std::string::npos);
  EXPECT_EQ(call("HEAD", at + "/a/k").header("x-amz-storage-class"), "EXPRESS_ONEZONE");
  EXPECT_EQ(call("GET", at + "?list-type=2").element("StorageClass"), "EXPRESS_ONEZONE");
  make_bucket("general");
  EXPECT_EQ(call("PUT", "/general/k", {{"x-amz-copy-source", bucket + "/a/k"}}).status, 200);
  EXPECT_FALSE(call("HEAD", "/general/k").has("x-amz-storage-class"));
  EXPECT_EQ(call("PUT", at + "/b", {{"x-amz-copy-source", "general/k"}}).status, 200);
  EXPECT_EQ(call("HEAD", at + "/b").header("x-amz-storage-class"), "EXPRESS_ONEZONE");
}

TEST_F(Express, AreOnDiskWhenAcknowledgedUnlessMadeOtherwise) {
  EXPECT_EQ(call("HEAD", at).header("x-verbena-durability"), "sync");
  const std::string fast = "/fast--local1-az1--x-s3";
  EXPECT_EQ(call("PUT", fast, {{"x-verbena-durability", "memory"}}, location()).status, 200);
  EXPECT_EQ(call("HEAD", fast).header("x-verbena-durability"), "memory");
}

TEST_F(Express, ListingsGroupBySlashAlone) {
  for (const char* key : {"/a/1", "/a/2", "/b"}) EXPECT_EQ(call("PUT", at + key, {}, "x").status, 200);
  EXPECT_EQ(call("GET", at + "?list-type=2&prefix=a/").count("<Key>"), 2u);
  EXPECT_EQ(call("GET", at + "?list-type=2&delimiter=/").count("<CommonPrefixes>"), 1u);
  for (const char* bad : {"?list-type=2&prefix=a", "?list-type=2&delimiter=-", "?uploads&prefix=a"}) {
    EXPECT_EQ(call("GET", at + bad).code, "InvalidArgument") << bad;
  }
  EXPECT_EQ(call("GET", at + "?list-type=2&start-after=a").status, 501);
}

TEST_F(Express, PartsOfAnUploadAreConsecutive) {
  const std::string id = call("POST", at + "/m?uploads").element("UploadId");
  std::string document = "<CompleteMultipartUpload>";
  for (const int number : {1, 3}) {
    const Reply part = call("PUT", at + "/m?partNumber=" + std::to_string(number) + "&uploadId=" + id, {},
                            std::string(number == 1 ? 5 * MiB : 3, 'x'));
    document +=
        "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>" + part.header("etag") + "</ETag></Part>";
  }
  document += "</CompleteMultipartUpload>";
  EXPECT_EQ(call("POST", at + "/m?uploadId=" + id, {}, document).status, 400);
}

TEST_F(Express, TurnedOffThereAreNone) {
  service.express.enabled = false;
  EXPECT_EQ(call("PUT", "/new--local1-az1--x-s3", {}, location()).code, "InvalidBucketName");
  EXPECT_EQ(call("GET", at + "?list-type=2").code, "InvalidBucketName");
  EXPECT_EQ(call("GET", at + "?session").code, "InvalidBucketName");
  make_bucket("general");
  EXPECT_EQ(call("GET", "/general?session").code, "NotImplemented");
}

// Sessions.

TEST_F(Express, ASessionIsOfItsBucketAndMode) {
  make_bucket("general");
  EXPECT_EQ(call("PUT", "/other--local1-az1--x-s3", {}, location()).status, 200);
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  const auto alice = user("alice", may_open());
  const auto writes = session(alice), reads = session(alice, "ReadOnly");
  ASSERT_TRUE(writes && reads);
  EXPECT_EQ(as(writes, "PUT", at + "/w", {}, "x").status, 200);
  EXPECT_EQ(as(writes, "GET", at + "/k").status, 200);
  EXPECT_EQ(as(writes, "DELETE", at + "/w").status, 204);
  EXPECT_EQ(as(reads, "GET", at + "/k").status, 200);
  EXPECT_EQ(as(reads, "GET", at + "?list-type=2").status, 200);
  EXPECT_EQ(as(reads, "HEAD", at).status, 200);
  for (const auto& [method, target] : {std::pair("PUT", "/w"), {"DELETE", "/k"}, {"POST", "/m?uploads"}}) {
    EXPECT_EQ(as(reads, method, at + target, {}, "x").code, "AccessDenied") << method;
  }
  EXPECT_EQ(as(reads, "PUT", at + "/w?renameObject", {{"x-amz-rename-source", "k"}}).code, "AccessDenied");
  for (const auto& one : {writes, reads}) {
    EXPECT_EQ(as(one, "GET", "/other--local1-az1--x-s3?list-type=2").code, "AccessDenied");
    EXPECT_EQ(as(one, "GET", "/general?list-type=2").code, "AccessDenied");
    EXPECT_EQ(as(one, "GET", "/").code, "AccessDenied");
    EXPECT_EQ(as(one, "PUT", "/new").code, "AccessDenied");
    EXPECT_EQ(as(one, "DELETE", at).code, "AccessDenied") << "not one of a session's calls";
    EXPECT_EQ(as(one, "GET", at + "?session").code, "AccessDenied") << "a session opens no other";
    EXPECT_EQ(as(one, "GET", at + "?policy").code, "AccessDenied");
  }
}

TEST_F(Express, WhatSdksSendBehindTwoSlashesIsTheKey) {
  EXPECT_EQ(as(key_of("ROOT"), "GET", at + "//?session").status, 200);
  EXPECT_EQ(call("PUT", at + "//a/b", {}, "x").status, 200);
  EXPECT_EQ(call("GET", at + "/a/b").body, "x");
}

TEST_F(Express, WhoMayOpenNoSessionMayNothing) {
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  const auto bob = user("bob", R"({"Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]})");
  EXPECT_EQ(as(bob, "GET", at + "?session").code, "AccessDenied") << "rights of general buckets are others";
  EXPECT_EQ(as(bob, "GET", at + "/k").code, "AccessDenied");
  const auto carol = user("carol", may_open(R"(,"Condition":{"StringEquals":{"s3express:SessionMode":"ReadOnly"}})"));
  EXPECT_EQ(as(carol, "GET", at + "?session").code, "AccessDenied") << "ReadWrite is asked for by default";
  ASSERT_TRUE(session(carol, "ReadOnly"));
  EXPECT_EQ(as(carol, "GET", at + "/k").status, 200) << "without a session, too";
  EXPECT_EQ(as(carol, "PUT", at + "/k", {}, "x").code, "AccessDenied");
  TestCall anonymous;
  anonymous.target = at + "/k";
  anonymous.anonymous = true;
  EXPECT_EQ(call(std::move(anonymous)).code, "AccessDenied");
}

TEST_F(Express, RightsThatAreTakenAwayEndASession) {
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  const auto alice = user("alice", may_open());
  const Reply made = as(alice, "GET", at + "?session");
  const std::string access_key = made.element("AccessKeyId"), token = made.element("SessionToken");
  ASSERT_TRUE(key_of(access_key, token));
  EXPECT_EQ(as(key_of(access_key, token), "GET", at + "/k").status, 200);
  // Her policy is another one now; her key is the same.
  const auto take_right = [&](auth::AccountEntry& entry) -> Result<void> {
    entry.users.find("alice")->second.policy_set.inline_policies.clear();
    return {};
  };
  ASSERT_TRUE(accounts->change_account(auth::root_account_id, take_right));
  ASSERT_TRUE(key_of(access_key, token));
  EXPECT_EQ(as(key_of(access_key, token), "GET", at + "/k").code, "AccessDenied");
  const auto take_key = [&](auth::AccountEntry& entry) -> Result<void> {
    entry.users.find("alice")->second.keys.clear();
    return {};
  };
  ASSERT_TRUE(accounts->change_account(auth::root_account_id, take_key));
  EXPECT_FALSE(key_of(access_key, token)) << "the session goes with the key that opened it";
}

TEST_F(Express, ASessionEndsAfterFiveMinutes) {
  const Reply made = as(key_of("ROOT"), "GET", at + "?session");
  const std::string access_key = made.element("AccessKeyId"), token = made.element("SessionToken");
  EXPECT_TRUE(accounts->find(access_key, token, now_s() + 290));
  EXPECT_EQ(accounts->find(access_key, token, now_s() + 301).error(), Errc::expired_token);
  EXPECT_EQ(accounts->find("ROOT", token, now_s()).error(), Errc::invalid_token);
  std::string forged = token;
  forged[forged.size() / 2] = forged[forged.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_EQ(accounts->find(access_key, forged, now_s()).error(), Errc::invalid_token);
  EXPECT_EQ(made.header("cache-control"), "no-store");
}

TEST_F(Express, ABucketPolicyNamesTheDirectoryBucket) {
  const std::string arn = "arn:aws:s3express:us-east-1:000000000000:bucket/" + bucket;
  const auto policy = [](const std::string& resource) {
    return R"({"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*",)"
           R"("Action":"s3express:CreateSession",)"
           R"("Resource":")" +
           resource + R"(","Condition":{"StringEquals":{"s3express:SessionMode":"ReadWrite"}}}]})";
  };
  EXPECT_EQ(call("PUT", at + "?policy", {}, policy("arn:aws:s3:::" + bucket + "x")).code, "MalformedPolicy");
  EXPECT_EQ(call("PUT", at + "?policy", {}, policy("arn:aws:s3express:us-east-1:000000000000:bucket/other")).code,
            "MalformedPolicy");
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  EXPECT_EQ(call("PUT", at + "?policy", {}, policy(arn)).status, 204);
  EXPECT_EQ(call("GET", at + "/k").status, 200);
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").code, "AccessDenied") << "a denial holds for the root, too";
}

TEST_F(Express, ASessionSaysHowItsObjectsAreEncrypted) {
  service.encryption.keys = ring.get();
  const Reply made =
      as(key_of("ROOT"), "GET", at + "?session",
         {{"x-amz-server-side-encryption", "aws:kms"}, {"x-amz-server-side-encryption-aws-kms-key-id", "blue"}});
  EXPECT_EQ(made.header("x-amz-server-side-encryption"), "aws:kms");
  const auto key = key_of(made.element("AccessKeyId"), made.element("SessionToken"));
  ASSERT_TRUE(key);
  EXPECT_EQ(as(key, "PUT", at + "/k", {}, "data").header("x-amz-server-side-encryption-aws-kms-key-id"), "blue");
  EXPECT_EQ(as(key, "PUT", at + "/k", {{"x-amz-server-side-encryption", "AES256"}}, "data").status, 400);
  EXPECT_EQ(as(key, "GET", at + "/k").body, "data");
  EXPECT_EQ(as(key, "PUT", at + "/k", {{"x-amz-write-offset-bytes", "4"}}, "more").status, 200);
  EXPECT_EQ(as(key, "GET", at + "/k").body, "datamore");
  EXPECT_EQ(append("k", 8, "x").code, "EncryptionTypeMismatch") << "without the session";
}

// Appends.

TEST_F(Express, AppendsGoToTheEndOfTheObject) {
  const Reply first = append("log", 0, "one ");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("x-amz-object-size"), "4");
  const Reply second = append("log", 4, "two");
  EXPECT_EQ(second.header("x-amz-object-size"), "7");
  EXPECT_NE(second.header("etag"), first.header("etag"));
  EXPECT_EQ(call("GET", at + "/log").body, "one two");
  EXPECT_EQ(call("GET", at + "/log", {{"range", "bytes=4-"}}).body, "two");
  EXPECT_EQ(append("log", 4, "x").code, "InvalidWriteOffset");
  EXPECT_EQ(append("log", 8, "x").code, "InvalidWriteOffset");
  EXPECT_EQ(append("new", 1, "x").code, "InvalidWriteOffset");
  EXPECT_EQ(append("log", 7, "").code, "InvalidRequest");
  EXPECT_EQ(append("log", 7, "x", {{"x-amz-meta-a", "1"}}).code, "InvalidRequest");
  for (const char* bad : {"-1", "x", "", "18446744073709551616"}) {
    EXPECT_EQ(call("PUT", at + "/log", {{"x-amz-write-offset-bytes", bad}}, "x").code, "InvalidArgument") << bad;
  }
  EXPECT_EQ(call("PUT", at + "/log", {{"x-amz-write-offset-bytes", "18446744073709551615"}}, "x").code,
            "InvalidWriteOffset");
  EXPECT_EQ(call("GET", at + "/log").body, "one two");
}

TEST_F(Express, AnAppendedObjectKeepsTheChecksumOfTheWhole) {
  const std::string one = test::pattern(1000), two = test::pattern(70'000);
  EXPECT_EQ(
      call("PUT", at + "/log", {{"x-amz-checksum-crc32", test::base64_digest(Algorithm::crc32, one)}}, one).status,
      200);
  EXPECT_EQ(append("log", 1000, two, {{"x-amz-checksum-crc32c", test::base64_digest(Algorithm::crc32c, one)}}).code,
            "BadDigest");
  EXPECT_EQ(append("log", 1000, two).status, 200);
  EXPECT_EQ(call("HEAD", at + "/log", {{"x-amz-checksum-mode", "ENABLED"}}).header("x-amz-checksum-crc32"),
            test::base64_digest(Algorithm::crc32, one + two));
}

TEST_F(Express, GeneralBucketsTakeAppendsWhereTheirOwnerSaysSo) {
  EXPECT_EQ(call("PUT", "/plain", {}).status, 200);
  EXPECT_EQ(call("PUT", "/plain/k", {{"x-amz-write-offset-bytes", "0"}}, "x").status, 501);
  EXPECT_EQ(call("PUT", "/set", {{"x-verbena-append", "enabled"}}).status, 200);
  EXPECT_EQ(call("HEAD", "/set").header("x-verbena-append"), "enabled");
  EXPECT_EQ(call("PUT", "/set/k", {{"x-amz-write-offset-bytes", "0"}}, "x").status, 200);
  EXPECT_EQ(call("PUT", "/set/k", {{"x-amz-write-offset-bytes", "1"}}, "y").status, 200);
  // A TTL is for the object that an append makes, not for one that is there.
  const Headers lasting = {{"x-amz-write-offset-bytes", "0"}, {"x-verbena-ttl", "9000"}};
  EXPECT_EQ(call("PUT", "/set/lasting", lasting, "x").status, 200);
  EXPECT_EQ(call("HEAD", "/set/lasting").header("x-verbena-ttl"), "9000");
  const Headers again = {{"x-amz-write-offset-bytes", "1"}, {"x-verbena-ttl", "5"}};
  EXPECT_EQ(call("PUT", "/set/lasting", again, "y").code, "InvalidRequest");
  EXPECT_EQ(call("PUT", "/set/lasting", {{"x-amz-write-offset-bytes", "1"}}, "y").status, 200);
  EXPECT_EQ(call("GET", "/set/k").body, "xy");
  EXPECT_EQ(call("PUT", "/plain", {{"x-verbena-append", "enabled"}}).status, 200) << "the owner, later";
  EXPECT_EQ(call("PUT", "/plain/k", {{"x-amz-write-offset-bytes", "0"}}, "x").status, 200);
  EXPECT_EQ(call("PUT", "/plain", {{"x-verbena-append", "disabled"}}).status, 200);
  EXPECT_EQ(call("PUT", "/plain/k", {{"x-amz-write-offset-bytes", "1"}}, "x").status, 501);
  EXPECT_EQ(call("PUT", "/set", {{"x-verbena-append", "sometimes"}}).code, "InvalidArgument");
  EXPECT_EQ(call("PUT", at, {{"x-verbena-append", "enabled"}}, location()).code, "InvalidArgument");
}

TEST_F(Express, AnOffsetBelongsToPutObjectAlone) {
  EXPECT_EQ(call("PUT", at + "/k", {}, "x").status, 200);
  const Headers offset = {{"x-amz-write-offset-bytes", "1"}};
  const std::string id = call("POST", at + "/m?uploads").element("UploadId");
  EXPECT_EQ(call("PUT", at + "/m?partNumber=1&uploadId=" + id, offset, "x").status, 501);
  EXPECT_EQ(call("POST", at + "/m?uploads", offset).status, 501);
  EXPECT_EQ(call("GET", at + "/k", offset).status, 501);
  EXPECT_EQ(call("PUT", at + "/k2", {{"x-amz-write-offset-bytes", "0"}, {"x-amz-copy-source", bucket + "/k"}}).status,
            501);
  EXPECT_EQ(call("PUT", at + "/k", {{"x-amz-rename-source", "k"}}, "x").status, 501);
}

// Renames.

// AWS writes "/key" and "bucket/key", mountpoint-s3 the bare key.
TEST_F(Express, TheSourceOfARenameMayBeWrittenInEachOfAwssWays) {
  const std::string full = bucket + "/";
  for (const std::string& source : {std::string("d/a%20b"), std::string("/d/a%20b"), full + "d/a%20b",
                                    "/" + full + "d%2Fa%20b", std::string("%2Fd%2Fa%20b")}) {
    EXPECT_EQ(call("PUT", at + "/d/a%20b", {}, "data").status, 200);
    EXPECT_EQ(call("PUT", at + "/target?renameObject", {{"x-amz-rename-source", source}}).status, 200) << source;
    EXPECT_EQ(call("GET", at + "/d/a%20b").code, "NoSuchKey") << source;
    EXPECT_EQ(call("GET", at + "/target").body, "data");
  }
  // A key that begins like the bucket's own name is named in full.
  EXPECT_EQ(call("PUT", at + "/" + full + "k", {}, "own").status, 200);
  EXPECT_EQ(call("PUT", at + "/moved?renameObject", {{"x-amz-rename-source", full + full + "k"}}).status, 200);
  EXPECT_EQ(call("GET", at + "/moved").body, "own");
  for (const std::string& wrong : {std::string("/"), full, "/" + full, std::string("%zz")}) {
    EXPECT_EQ(call("PUT", at + "/x?renameObject", {{"x-amz-rename-source", wrong}}).code, "InvalidArgument") << wrong;
  }
  EXPECT_EQ(call("PUT", at + "/x?renameObject", {{"x-amz-rename-source", "/other--local1-az1--x-s3/moved"}}).code,
            "NoSuchKey");
}

TEST_F(Express, ARenameMovesTheObject) {
  const Reply put = call("PUT", at + "/a%20b", {{"x-amz-meta-a", "1"}}, "data");
  EXPECT_EQ(call("PUT", at + "/target", {}, "old").status, 200);
  const Reply moved = call("PUT", at + "/target?renameObject", {{"x-amz-rename-source", "a%20b"}});
  EXPECT_EQ(moved.status, 200) << moved.body;
  EXPECT_EQ(moved.body, "");
  const Reply got = call("GET", at + "/target");
  EXPECT_EQ(got.body, "data");
  EXPECT_EQ(got.header("etag"), put.header("etag"));
  EXPECT_EQ(got.header("x-amz-meta-a"), "1");
  EXPECT_EQ(call("GET", at + "/a%20b").code, "NoSuchKey");
  const Reply none = call("PUT", at + "/x?renameObject", {{"x-amz-rename-source", "a%20b"}});
  EXPECT_EQ(none.code, "NoSuchKey");
  EXPECT_EQ(none.element("Key"), "a b") << "of the source";
  EXPECT_EQ(call("PUT", at + "/target?renameObject", {{"x-amz-rename-source", "target"}}).status, 200) << "onto itself";
  EXPECT_EQ(call("GET", at + "/target").body, "data");
}

TEST_F(Express, ARenameHasConditionsOnBothEnds) {
  const std::string a = call("PUT", at + "/a", {}, "1").header("etag");
  const std::string b = call("PUT", at + "/b", {}, "2").header("etag");
  const auto rename = [&](Headers headers, const std::string& to = "/b") {
    headers.emplace_back("x-amz-rename-source", "a");
    return call("PUT", at + to + "?renameObject", std::move(headers));
  };
  const std::string past = "Thu, 01 Jan 2015 00:00:00 GMT", future = "Fri, 01 Jan 2100 00:00:00 GMT";
  const Headers unmet = {{"if-none-match", "*"},
                         {"if-match", a},
                         {"if-unmodified-since", past},
                         {"if-modified-since", future},
                         {"x-amz-rename-source-if-match", b},
                         {"x-amz-rename-source-if-none-match", a},
                         {"x-amz-rename-source-if-unmodified-since", past},
                         {"x-amz-rename-source-if-modified-since", future}};
  for (const auto& header : unmet) {
    const Reply r = rename({header});
    EXPECT_EQ(r.code, "PreconditionFailed") << header.first;
    EXPECT_EQ(lower(r.element("Condition")), header.first);
  }
  EXPECT_EQ(rename({{"if-match", "*"}}, "/none").code, "PreconditionFailed");
  EXPECT_EQ(call("GET", at + "/a").body, "1");
  EXPECT_EQ(rename({{"if-none-match", "*"}}, "/c").status, 200);
  EXPECT_EQ(call("PUT", at + "/b?renameObject",
                 {{"x-amz-rename-source", "c"}, {"if-match", b}, {"x-amz-rename-source-if-match", a}})
                .status,
            200);
  EXPECT_EQ(call("GET", at + "/b").body, "1");
}

TEST_F(Express, ARenameUnderATokenIsDoneOnce) {
  EXPECT_EQ(call("PUT", at + "/a", {}, "1").status, 200);
  const Headers headers = {{"x-amz-rename-source", "a"}, {"x-amz-client-token", "once"}};
  EXPECT_EQ(call("PUT", at + "/b?renameObject", headers).status, 200);
  EXPECT_EQ(call("PUT", at + "/b?renameObject", headers).status, 200);
  EXPECT_EQ(call("PUT", at + "/c?renameObject", headers).code, "IdempotencyParameterMismatch");
  for (const std::string& bad : {std::string(), std::string(65, 'x'), std::string("a b"), std::string("\xc3\xa9")}) {
    EXPECT_EQ(call("PUT", at + "/c?renameObject", {{"x-amz-rename-source", "b"}, {"x-amz-client-token", bad}}).code,
              "InvalidArgument");
  }
}

TEST_F(Express, NamesThatARenameCannotHave) {
  EXPECT_EQ(call("PUT", at + "/a", {}, "1").status, 200);
  const auto rename = [&](const std::string& from, const std::string& to) {
    return call("PUT", at + "/" + to + "?renameObject", {{"x-amz-rename-source", from}}).code;
  };
  EXPECT_EQ(rename("a", "folder/"), "InvalidArgument");
  EXPECT_EQ(rename("folder/", "a"), "InvalidArgument");
  EXPECT_EQ(rename("", "b"), "InvalidArgument");
  EXPECT_EQ(rename("%zz", "b"), "InvalidArgument");
  EXPECT_EQ(rename("a", std::string(1025, 'x')), "KeyTooLongError");
  EXPECT_EQ(rename(std::string(1025, 'x'), "b"), "KeyTooLongError");
  EXPECT_EQ(rename("/other--local1-az1--x-s3/a", "b"), "NoSuchKey") << "a key, whatever it looks like";
  EXPECT_EQ(call("GET", at + "/a").body, "1");
  make_bucket("general");
  EXPECT_EQ(call("PUT", "/general/b?renameObject", {{"x-amz-rename-source", "a"}}).status, 501);
}

TEST_F(Express, AnEncryptedObjectIsReadableUnderItsNewName) {
  service.encryption.keys = ring.get();
  const Headers sealed = {{"x-amz-server-side-encryption", "AES256"}};
  const std::string data = test::pattern(200'000);
  EXPECT_EQ(call("PUT", at + "/a", sealed, data).status, 200);
  EXPECT_EQ(append("a", 200'000, "x").code, "EncryptionTypeMismatch");
  EXPECT_EQ(call("PUT", at + "/b?renameObject", {{"x-amz-rename-source", "a"}}).status, 200);
  EXPECT_EQ(call("GET", at + "/b").body, data);
  EXPECT_EQ(call("PUT", at + "/a?renameObject", {{"x-amz-rename-source", "b"}}).status, 200);
  EXPECT_EQ(call("GET", at + "/a").body, data);
}

}  // namespace
}  // namespace verbena::s3
