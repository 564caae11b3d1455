// Appends to objects that are encrypted, as requests ask for them.
#include "auth/keyring.h"
#include "s3/objects/encryption.h"
#include "s3_http/test_rig.h"

namespace verbena::s3 {
namespace {

using test::pattern;
using test::Reply;
using test::TestCall;

const std::string sealed_directory = "sealed--local1-az1--x-s3";
const std::string sealed_location =
    "<CreateBucketConfiguration><Location><Name>local1-az1</Name><Type>AvailabilityZone</Type></Location><Bucket>"
    "<DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>"
    "</CreateBucketConfiguration>";

Headers customer_headers(char c) {
  const std::string raw(32, c);
  return {{"x-amz-server-side-encryption-customer-algorithm", "AES256"},
          {"x-amz-server-side-encryption-customer-key", to_base64(as_bytes(raw))},
          {"x-amz-server-side-encryption-customer-key-md5", test::base64_digest(Algorithm::md5, raw)}};
}
Headers both(Headers a, const Headers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
const Headers by_s3 = {{"x-amz-server-side-encryption", "AES256"}};
Headers by_kms(const std::string& id) {
  return {{"x-amz-server-side-encryption", "aws:kms"}, {"x-amz-server-side-encryption-aws-kms-key-id", id}};
}

class SealedAppend : public test::Rig {
 protected:
  SealedAppend() {
    service.encryption.keys = ring.get();
    EXPECT_EQ(call("PUT", "/" + sealed_directory, {}, sealed_location).status, 200);
    EXPECT_EQ(call("PUT", "/logs", {{"x-verbena-append", "enabled"}}).status, 200);
  }
  Reply append(const std::string& path, uint64_t offset, const std::string& bytes, Headers headers = {}) {
    headers.emplace_back("x-amz-write-offset-bytes", std::to_string(offset));
    return call("PUT", path, std::move(headers), bytes);
  }

  std::unique_ptr<auth::KeyRing> ring = auth::KeyRing::in_memory();
};

TEST_F(SealedAppend, EveryMethodGivesBackWhatWasAppended) {
  struct Case {
    std::string path;
    Headers put, get;
  };
  for (const Case& c :
       {Case{"/" + sealed_directory + "/s3", by_s3, {}}, Case{"/" + sealed_directory + "/kms", by_kms("blue"), {}},
        Case{"/logs/c", customer_headers('a'), customer_headers('a')}}) {
    std::string all;
    for (const size_t size : {size_t{5}, size_t{200}, size_t{200}, size_t{70'000}, size_t{300'000}, size_t{1},
                              size_t{1'500'000}, size_t{65'536}}) {
      const std::string bytes = pattern(size);
      const Reply stored = append(c.path, all.size(), bytes, c.put);
      ASSERT_EQ(stored.status, 200) << c.path << size << stored.body;
      all += bytes;
      EXPECT_EQ(stored.header("x-amz-object-size"), std::to_string(all.size()));
      const bool own_key = !c.get.empty();
      EXPECT_EQ(
          stored.header(own_key ? "x-amz-server-side-encryption-customer-algorithm" : "x-amz-server-side-encryption"),
          own_key ? "AES256" : c.put.front().second);
      const Reply whole = call("GET", c.path, c.get);
      ASSERT_EQ(whole.status, 200) << whole.body;
      ASSERT_TRUE(whole.body == all) << c.path << size;
      EXPECT_EQ(whole.header("etag"), stored.header("etag"));
    }
    EXPECT_EQ(call("HEAD", c.path, c.get).content_length, all.size());
    for (const auto& [first, last] :
         {std::pair<size_t, size_t>{0, 4}, {4, 405}, {70'400, 370'500}, {371'000, 9'999'999}}) {
      const Reply part = call("GET", c.path, both(c.get, {{"range", fmt::format("bytes={}-{}", first, last)}}));
      ASSERT_EQ(part.status, 206);
      ASSERT_TRUE(part.body == all.substr(first, last - first + 1)) << c.path << first;
    }
    EXPECT_EQ(
        call("HEAD", c.path, both(c.get, {{"x-amz-checksum-mode", "ENABLED"}})).header("x-amz-checksum-crc64nvme"),
        test::base64_digest(Algorithm::crc64nvme, all));
    const size_t slash = c.path.rfind('/');
    const auto kept = store.object(c.path.substr(1, slash - 1), c.path.substr(slash + 1));
    EXPECT_EQ(kept.data.find(all.substr(1'000, 32)), std::string::npos);
    EXPECT_GT(kept.data.size(), all.size());
  }
}

TEST_F(SealedAppend, AnotherEncryptionThanTheObjectsIsRefused) {
  const std::string k = "/logs/k";
  const std::string large = pattern(300'000);
  const std::vector<Headers> all = {{}, by_s3, by_kms("blue"), by_kms("green"), customer_headers('a')};
  for (size_t made = 0; made < all.size(); ++made) {
    ASSERT_EQ(call("PUT", k, all[made], "four").status, 200);
    for (size_t sent = 0; sent < all.size(); ++sent) {
      if (sent == made) continue;
      for (const std::string& bytes : {std::string("x"), large}) {
        const Reply refused = append(k, 4, bytes, all[sent]);
        EXPECT_EQ(refused.status, 400) << made << " " << sent;
        EXPECT_EQ(refused.code, "EncryptionTypeMismatch") << made << " " << sent;
      }
    }
    EXPECT_EQ(call("GET", k, made == 4 ? all[made] : Headers()).body, "four");
  }
  for (const std::string& bytes : {std::string("x"), large}) {
    EXPECT_EQ(append(k, 4, bytes, customer_headers('b')).code, "InvalidRequest") << "another customer's key";
  }
  EXPECT_EQ(append(k, 3, "x", customer_headers('a')).code, "InvalidWriteOffset");
  EXPECT_EQ(append(k, 4, "x", customer_headers('a')).status, 200);
  EXPECT_EQ(call("GET", k, customer_headers('a')).body, "fourx");
  EXPECT_EQ(call("GET", k).status, 400) << "without the key";
}

TEST_F(SealedAppend, TheBucketsDefaultAndTheServersSealAppends) {
  const std::string path = "/" + sealed_directory + "/log";
  service.encryption.by_default = true;
  EXPECT_EQ(append(path, 0, "one ").header("x-amz-server-side-encryption"), "AES256");
  EXPECT_EQ(append(path, 4, "two ").status, 200);
  service.encryption.by_default = false;
  EXPECT_EQ(append(path, 8, "three").code, "EncryptionTypeMismatch");
  EXPECT_EQ(call("PUT", "/" + sealed_directory + "?encryption", {},
                 "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256"
                 "</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>")
                .status,
            200);
  EXPECT_EQ(append(path, 8, "three").status, 200);
  EXPECT_EQ(call("GET", path).body, "one two three");
  EXPECT_EQ(append(path, 13, "", {}).code, "InvalidRequest") << "empty";
}

TEST_F(SealedAppend, GoOnBehindWhatWasUploadedRenamedAndCopied) {
  const std::string at = "/" + sealed_directory;
  const std::string part = pattern(5 * MiB);
  const std::string id = call("POST", at + "/up?uploads", by_s3).element("UploadId");
  std::string document = "<CompleteMultipartUpload>";
  for (int n = 1; n <= 2; ++n) {
    const Reply sent = call("PUT", at + "/up?partNumber=" + std::to_string(n) + "&uploadId=" + id, {},
                            n == 1 ? part : std::string("end of it"));
    document += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", n, sent.header("etag"));
  }
  ASSERT_EQ(call("POST", at + "/up?uploadId=" + id, {}, document + "</CompleteMultipartUpload>").status, 200);
  std::string all = part + "end of it";
  ASSERT_EQ(append(at + "/up", all.size(), "more", by_s3).status, 200);
  all += "more";
  ASSERT_EQ(call("PUT", at + "/moved?renameObject", {{"x-amz-rename-source", "up"}}).status, 200);
  ASSERT_EQ(append(at + "/moved", all.size(), part, by_s3).status, 200);
  all += part;
  ASSERT_TRUE(call("GET", at + "/moved").body == all);
  EXPECT_EQ(call("GET", at + "/moved?partNumber=2").body, "end of it");
  ASSERT_EQ(
      call("PUT", at + "/copy", both(by_kms("blue"), {{"x-amz-copy-source", sealed_directory + "/moved"}})).status,
      200);
  ASSERT_EQ(append(at + "/copy", all.size(), "!", by_kms("blue")).status, 200);
  EXPECT_TRUE(call("GET", at + "/copy").body == all + "!");
  ASSERT_EQ(append(at + "/empty", 0, "x", by_s3).status, 200);
  ASSERT_EQ(call("PUT", at + "/empty", by_s3, "").status, 200);
  ASSERT_EQ(append(at + "/empty", 0, "first", by_s3).status, 200);
  EXPECT_EQ(call("GET", at + "/empty").body, "first");
}

TEST_F(SealedAppend, AKeyThatIsGoneOpensNothingMore) {
  const std::string path = "/" + sealed_directory + "/k";
  ASSERT_EQ(call("PUT", path, by_kms("blue"), "data").status, 200);
  service.encryption.kms_keys = {"green"};
  EXPECT_EQ(append(path, 4, "x", by_kms("blue")).status, 400);
  service.encryption.kms_keys = {};
  EXPECT_EQ(append(path, 4, "x", by_kms("blue")).status, 200);
  service.encryption.keys = nullptr;
  EXPECT_EQ(append(path, 5, "x").code, "EncryptionTypeMismatch");
  EXPECT_EQ(append(path, 5, "x", by_s3).status, 501) << "nothing can be encrypted";
  service.encryption.keys = ring.get();
  EXPECT_EQ(call("GET", path).body, "datax");
}

TEST_F(SealedAppend, ABodyThatIsNotWhatWasSaidAddsNothing) {
  const std::string path = "/" + sealed_directory + "/k";
  ASSERT_EQ(append(path, 0, "data", by_s3).status, 200);
  for (const size_t size : {size_t{10}, size_t{300'000}}) {
    const std::string bytes = pattern(size);
    EXPECT_EQ(
        append(path, 4, bytes, both(by_s3, {{"x-amz-checksum-crc32", test::base64_digest(Algorithm::crc32, "other")}}))
            .code,
        "BadDigest");
  }
  EXPECT_EQ(call("GET", path).body, "data");
  EXPECT_EQ(arena->leased_bytes(), 0u);
}

}  // namespace
}  // namespace verbena::s3
