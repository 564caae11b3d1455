#include "s3/objects/encryption.h"

#include <set>

#include "s3_http/test_rig.h"

namespace verbena::s3 {
namespace {

using test::pattern;
using test::Reply;

struct TestKey {
  std::string key, md5;
  explicit TestKey(char c) {
    const std::string raw(32, c);
    key = to_base64(as_bytes(raw));
    md5 = test::base64_digest(Algorithm::md5, raw);
  }
  Headers headers(const std::string& prefix = "x-amz-") const {
    return {{prefix + "server-side-encryption-customer-algorithm", "AES256"},
            {prefix + "server-side-encryption-customer-key", key},
            {prefix + "server-side-encryption-customer-key-md5", md5}};
  }
};

Headers joined(Headers a, const Headers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Headers sse_s3 = {{"x-amz-server-side-encryption", "AES256"}};
const Headers sse_kms = {{"x-amz-server-side-encryption", "aws:kms"},
                         {"x-amz-server-side-encryption-aws-kms-key-id", "blue"}};

class EncryptionTest : public test::Rig {
 protected:
  EncryptionTest() {
    service.encryption.keys = ring.get();
    make_bucket();
  }
  Reply get(const std::string& key, Headers headers = {}, const std::string& method = "GET") {
    return call(method, "/bucket/" + key, std::move(headers));
  }
  // What the store holds of the current object.
  test::MemoryStore::Stored kept(const std::string& key) { return store.object("bucket", key); }
  test::MemoryStore::Stored& tampered(const std::string& key) { return store.tamper("bucket", key); }

  std::string start(const std::string& key, Headers headers) {
    return call("POST", "/bucket/" + key + "?uploads", std::move(headers)).element("UploadId");
  }
  Reply upload(const std::string& key, const std::string& id, int number, const std::string& data,
               Headers headers = {}) {
    return call("PUT", "/bucket/" + key + "?partNumber=" + std::to_string(number) + "&uploadId=" + id,
                std::move(headers), data);
  }
  Reply complete(const std::string& key, const std::string& id, const std::vector<std::string>& etags) {
    std::string xml = "<CompleteMultipartUpload>";
    for (size_t i = 0; i < etags.size(); ++i) {
      xml += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etags[i] + "</ETag></Part>";
    }
    return call("POST", "/bucket/" + key + "?uploadId=" + id, {}, xml + "</CompleteMultipartUpload>");
  }

  std::unique_ptr<auth::KeyRing> ring = auth::KeyRing::in_memory();
  const TestKey key_a{'a'}, key_b{'b'};
};

TEST_F(EncryptionTest, ACopyOntoItselfMayTakeTheCustomersKeyAway) {
  ASSERT_EQ(call("PUT", "/bucket/k", key_a.headers(), "text").status, 200);
  const Headers onto_itself = {{"x-amz-copy-source", "/bucket/k"}};
  const Headers from_a = joined(onto_itself, key_a.headers("x-amz-copy-source-"));
  EXPECT_EQ(call("PUT", "/bucket/k", joined(from_a, key_b.headers())).status, 200) << "another key";
  EXPECT_EQ(get("k", key_b.headers()).body, "text");
  EXPECT_EQ(call("PUT", "/bucket/k", joined(onto_itself, key_b.headers("x-amz-copy-source-"))).status, 200) << "none";
  EXPECT_EQ(get("k").body, "text");
  EXPECT_EQ(call("PUT", "/bucket/k", onto_itself).code, "InvalidRequest") << "nothing would change";
}

// Clients that upload a part again compare its ETag with the first one's.
TEST_F(EncryptionTest, APartSentAgainHasTheSameEtag) {
  const Headers customer = key_a.headers();
  const std::string text = pattern(1000);
  for (const auto& [create, send] : {std::pair(sse_kms, Headers()), std::pair(customer, customer)}) {
    const std::string id = start("k", create);
    const std::string first = upload("k", id, 1, text, send).header("etag");
    EXPECT_EQ(upload("k", id, 1, text, send).header("etag"), first);
    EXPECT_NE(upload("k", id, 1, text + "x", send).header("etag"), first);
    EXPECT_NE(upload("k", id, 2, text, send).header("etag"), first) << "equal parts must not be recognizable";
    EXPECT_NE(upload("k", start("k", create), 1, text, send).header("etag"), first) << "another object's key";
    EXPECT_NE(first.find('-'), std::string::npos) << "no MD5";
    ASSERT_EQ(put("source", text).status, 200);
    Headers copy = joined(send, {{"x-amz-copy-source", "/bucket/source"}});
    EXPECT_NE(upload("k", id, 1, "", copy).body.find(first.substr(1, 32)), std::string::npos) << "copied, likewise";
    EXPECT_EQ(complete("k", id, {upload("k", id, 1, text, send).header("etag")}).status, 200);
    EXPECT_EQ(get("k", send).body, text);
  }
}

TEST_F(EncryptionTest, EveryMethodGivesBackWhatCameInAndKeepsSomethingElse) {
  struct Case {
    std::string name;
    Headers put, get;
  };
  for (const Case& c :
       {Case{"s3", sse_s3, {}}, Case{"kms", sse_kms, {}}, Case{"c", key_a.headers(), key_a.headers()}}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{65'536}, size_t{2'500'000}}) {
      const std::string body = pattern(size);
      const Reply stored = put("k", body, c.put);
      ASSERT_EQ(stored.status, 200) << c.name << stored.body;
      const Reply whole = get("k", c.get);
      ASSERT_EQ(whole.status, 200) << c.name << " " << size << whole.body;
      ASSERT_TRUE(whole.body == body) << c.name << " " << size;
      EXPECT_EQ(whole.header("etag"), stored.header("etag"));
      EXPECT_EQ(get("k", c.get, "HEAD").content_length, size);
      EXPECT_EQ(kept("k").data.size(), store::sealed_size(size));
      if (size >= 65'536) {
        EXPECT_EQ(kept("k").data.find(body.substr(100, 32)), std::string::npos);
      }
      if (size < 2'500'000) continue;
      for (const auto& [first, last] :
           {std::pair{0, 0}, {65'535, 65'536}, {1'000'000, 2'200'000}, {2'499'999, 9'999'999}}) {
        const Reply part = get("k", joined(c.get, {{"range", fmt::format("bytes={}-{}", first, last)}}));
        ASSERT_EQ(part.status, 206);
        ASSERT_TRUE(part.body == body.substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1)));
        EXPECT_EQ(part.header("content-range").substr(part.header("content-range").find('/')), "/2500000");
      }
    }
  }
}

TEST_F(EncryptionTest, RepliesSayHowItIsKept) {
  const Reply by_s3 = put("s3", "x", sse_s3);
  EXPECT_EQ(by_s3.header("x-amz-server-side-encryption"), "AES256");
  EXPECT_EQ(get("s3").header("x-amz-server-side-encryption"), "AES256");
  EXPECT_EQ(by_s3.header("etag"), "\"" + test::hex_md5("x") + "\"");
  put("kms", "x", joined(sse_kms, {{"x-amz-server-side-encryption-bucket-key-enabled", "true"}}));
  const Reply by_kms = get("kms", {}, "HEAD");
  EXPECT_EQ(by_kms.header("x-amz-server-side-encryption"), "aws:kms");
  EXPECT_EQ(by_kms.header("x-amz-server-side-encryption-aws-kms-key-id"), "blue");
  EXPECT_EQ(by_kms.header("x-amz-server-side-encryption-bucket-key-enabled"), "true");
  EXPECT_NE(by_kms.header("etag").find('-'), std::string::npos);
  const Reply by_c = put("c", "x", key_a.headers());
  EXPECT_EQ(by_c.header("x-amz-server-side-encryption"), "(none)");
  EXPECT_EQ(by_c.header("x-amz-server-side-encryption-customer-algorithm"), "AES256");
  EXPECT_EQ(by_c.header("x-amz-server-side-encryption-customer-key-MD5"), key_a.md5);
  EXPECT_EQ(get("c", key_a.headers()).header("x-amz-server-side-encryption-customer-key-MD5"), key_a.md5);
  put("plain", "x");
  EXPECT_EQ(get("plain").header("x-amz-server-side-encryption"), "(none)");
}

TEST_F(EncryptionTest, ACustomersObjectNeedsTheCustomersKey) {
  put("c", "secret", key_a.headers());
  put("plain", "open");
  for (const char* method : {"GET", "HEAD"}) {
    EXPECT_EQ(get("c", {}, method).status, 400);
    EXPECT_EQ(get("c", {}, method).code, "InvalidRequest");
    EXPECT_EQ(get("c", key_b.headers(), method).status, 400);
    EXPECT_EQ(get("plain", key_a.headers(), method).code, "InvalidRequest");
  }
  EXPECT_EQ(call("GET", "/bucket/c?attributes", {{"x-amz-object-attributes", "ObjectSize"}}).status, 400);
  EXPECT_EQ(call("GET", "/bucket/c?attributes", joined({{"x-amz-object-attributes", "ObjectSize"}}, key_a.headers()))
                .element("ObjectSize"),
            "6");
  EXPECT_EQ(call("DELETE", "/bucket/c").status, 204);  // as AWS
}

TEST_F(EncryptionTest, NothingThatIsKeptHoldsTheCustomersKey) {
  put("c", "secret", key_a.headers());
  const std::string raw(32, 'a');
  for (const auto& [name, value] : kept("c").info.attributes) {
    EXPECT_EQ(value.find(raw), std::string::npos) << name;
    EXPECT_EQ(value.find(key_a.key), std::string::npos) << name;
    EXPECT_EQ(value.find(key_a.md5), std::string::npos) << name;
  }
}

TEST_F(EncryptionTest, WhatIsMissingOrWrongOfAKeyIsRefused) {
  const auto with = [&](Headers headers) { return put("k", "x", std::move(headers)); };
  const Headers all = key_a.headers();
  EXPECT_EQ(with({all[0]}).code, "InvalidArgument");
  EXPECT_EQ(with({all[0], all[1]}).code, "InvalidArgument");
  EXPECT_EQ(with({all[1], all[2]}).code, "InvalidArgument");
  EXPECT_EQ(with({{all[0].first, "AES128"}, all[1], all[2]}).code, "InvalidEncryptionAlgorithmError");
  EXPECT_EQ(with({all[0], all[1], {all[2].first, "AAAAAAAAAAAAAAAAAAAAAA=="}}).code, "InvalidArgument");
  EXPECT_EQ(with({all[0], {all[1].first, "c2hvcnQ="}, all[2]}).code, "InvalidArgument");
  EXPECT_EQ(with({all[0], {all[1].first, "not base64"}, all[2]}).code, "InvalidArgument");
  EXPECT_EQ(with(joined(all, sse_s3)).code, "InvalidArgument");
  EXPECT_EQ(with({{"x-amz-server-side-encryption", "ROT13"}}).code, "InvalidArgument");
  EXPECT_EQ(with({sse_kms[1]}).code, "InvalidArgument");
  EXPECT_EQ(with({sse_s3[0], sse_kms[1]}).code, "InvalidArgument");
  EXPECT_EQ(with({sse_kms[0]}).code, "InvalidArgument");  // there is no default KMS key
  EXPECT_EQ(get("k").status, 404);
  put("k", "x", sse_s3);
  EXPECT_EQ(get("k", sse_s3).code, "InvalidArgument");
  EXPECT_EQ(get("k", sse_s3, "HEAD").status, 400);
}

TEST_F(EncryptionTest, CustomersKeysCanBeHeldToTls) {
  service.encryption.customer_keys_need_tls = true;
  EXPECT_EQ(put("k", "x", key_a.headers()).code, "InvalidRequest");
  EXPECT_EQ(put("k", "x", sse_s3).status, 200);
}

TEST_F(EncryptionTest, KmsKeysAreThoseThatThereAre) {
  const auto with = [&](const std::string& id) {
    return put("k", "x", {sse_kms[0], {"x-amz-server-side-encryption-aws-kms-key-id", id}});
  };
  EXPECT_EQ(with("alias/made-on-demand").status, 200);
  EXPECT_EQ(with("arn:aws:kms:us-east-1:1:key/x").code, "KMS.NotFoundException");
  EXPECT_EQ(with("12345678-1234-1234-1234-123456789abc").code, "KMS.NotFoundException");
  EXPECT_EQ(with("a b").code, "InvalidArgument");
  EXPECT_EQ(with(std::string(300, 'x')).code, "InvalidArgument");
  EXPECT_EQ(with("red").status, 200);
  service.encryption.kms_keys = {"blue", "arn:aws:kms:us-east-1:1:key/x"};
  EXPECT_EQ(get("k").code, "KMS.NotFoundException");  // taken away: it opens nothing
  EXPECT_EQ(with("red").code, "KMS.NotFoundException");
  EXPECT_EQ(with("arn:aws:kms:us-east-1:1:key/x").status, 200);
  service.encryption.kms_default_key = "blue";
  EXPECT_EQ(put("d", "x", {sse_kms[0]}).header("x-amz-server-side-encryption-aws-kms-key-id"), "blue");
  EXPECT_EQ(get("d").body, "x");
}

TEST_F(EncryptionTest, AMultipartObjectIsOneObject) {
  for (const Headers& headers : {sse_s3, sse_kms, key_a.headers()}) {
    const bool customer = headers.size() == 3;
    const Headers key = customer ? headers : Headers{};
    const std::string id = start("m", headers);
    const std::string a = pattern(5 * MiB + 77), b = pattern(100'000);
    const Reply first = upload("m", id, 1, a, key), second = upload("m", id, 2, b, key);
    ASSERT_EQ(first.status, 200) << first.body;
    EXPECT_EQ(first.header("x-amz-server-side-encryption") == "(none)", customer);
    const Reply done = complete("m", id, {first.header("etag"), second.header("etag")});
    ASSERT_EQ(done.status, 200) << done.body;
    EXPECT_TRUE(get("m", key).body == a + b);
    EXPECT_EQ(get("m", key, "HEAD").content_length, a.size() + b.size());
    const Reply across = get("m", joined(key, {{"range", fmt::format("bytes={}-{}", a.size() - 10, a.size() + 9)}}));
    EXPECT_EQ(across.body, a.substr(a.size() - 10) + b.substr(0, 10));
    const Reply part = call("GET", "/bucket/m?partNumber=2", key);
    EXPECT_EQ(part.status, 206);
    EXPECT_TRUE(part.body == b);
    EXPECT_EQ(part.header("x-amz-mp-parts-count"), "2");
    EXPECT_EQ(call("GET", "/bucket?list-type=2").element("Size"), std::to_string(a.size() + b.size()));
  }
}

TEST_F(EncryptionTest, APartNeedsTheUploadsKey) {
  const std::string id = start("m", key_a.headers());
  EXPECT_EQ(upload("m", id, 1, "x").code, "InvalidRequest");
  EXPECT_EQ(upload("m", id, 1, "x", key_b.headers()).code, "InvalidRequest");
  EXPECT_EQ(upload("m", id, 1, "x", key_a.headers()).status, 200);
  EXPECT_EQ(upload("p", start("p", {}), 1, "x", key_a.headers()).code, "InvalidRequest");
}

TEST_F(EncryptionTest, ACopyIsEncryptedAnew) {
  const std::string body = pattern(300'000);
  put("c", body, key_a.headers());
  const Headers from_c = joined({{"x-amz-copy-source", "/bucket/c"}}, key_a.headers("x-amz-copy-source-"));
  EXPECT_EQ(call("PUT", "/bucket/x", {{"x-amz-copy-source", "/bucket/c"}}).status, 400);
  EXPECT_EQ(call("PUT", "/bucket/x", from_c).status, 200);
  EXPECT_EQ(get("x").body, body);
  EXPECT_EQ(get("x").header("etag"), "\"" + test::hex_md5(body) + "\"");
  EXPECT_EQ(call("PUT", "/bucket/x", joined(from_c, key_b.headers())).status, 200);
  EXPECT_EQ(get("x", key_b.headers()).body, body);
  EXPECT_EQ(get("x", key_a.headers()).status, 400);
  EXPECT_EQ(call("PUT", "/bucket/y", joined(from_c, sse_s3)).header("x-amz-server-side-encryption"), "AES256");
  EXPECT_NE(kept("y").data, kept("c").data);
  EXPECT_EQ(get("y").body, body);
  // Onto itself, to change how it is encrypted.
  EXPECT_EQ(call("PUT", "/bucket/y", {{"x-amz-copy-source", "/bucket/y"}}).status, 400);
  EXPECT_EQ(call("PUT", "/bucket/y", joined({{"x-amz-copy-source", "/bucket/y"}}, sse_kms)).status, 200);
  EXPECT_EQ(get("y").header("x-amz-server-side-encryption"), "aws:kms");
  EXPECT_EQ(get("y").body, body);
  // A part out of a part of it.
  const std::string id = start("m", sse_s3);
  const Reply part = call("PUT", "/bucket/m?partNumber=1&uploadId=" + id,
                          joined(from_c, {{"x-amz-copy-source-range", "bytes=65000-200000"}}));
  ASSERT_EQ(part.status, 200) << part.body;
  EXPECT_EQ(complete("m", id, {part.element("ETag")}).status, 200);
  EXPECT_TRUE(get("m").body == body.substr(65'000, 135'001));
}

TEST_F(EncryptionTest, ABucketsDefaultIsForWhatAsksForNothing) {
  const auto configure = [&](const std::string& rule) {
    return call("PUT", "/bucket?encryption", {},
                "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>" + rule +
                    "</ServerSideEncryptionConfiguration>");
  };
  EXPECT_EQ(call("GET", "/bucket?encryption").code, "ServerSideEncryptionConfigurationNotFoundError");
  const std::string end = "</ApplyServerSideEncryptionByDefault></Rule>";
  EXPECT_EQ(configure("<SSEAlgorithm>AES256</SSEAlgorithm>" + end).status, 200);
  EXPECT_EQ(call("GET", "/bucket?encryption").element("SSEAlgorithm"), "AES256");
  EXPECT_EQ(put("k", "x").header("x-amz-server-side-encryption"), "AES256");
  EXPECT_EQ(put("k", "x", sse_kms).header("x-amz-server-side-encryption"), "aws:kms");
  EXPECT_EQ(configure("<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>green</KMSMasterKeyID>"
                      "</ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled></Rule>")
                .status,
            200);
  EXPECT_EQ(call("GET", "/bucket?encryption").element("KMSMasterKeyID"), "green");
  EXPECT_EQ(call("GET", "/bucket?encryption").element("BucketKeyEnabled"), "true");
  EXPECT_EQ(put("k", "x").header("x-amz-server-side-encryption-aws-kms-key-id"), "green");
  EXPECT_EQ(get("k").body, "x");
  const std::string id = start("m", {});
  const std::string etag = upload("m", id, 1, "part").header("etag");
  EXPECT_EQ(complete("m", id, {etag}).header("x-amz-server-side-encryption-aws-kms-key-id"), "green");
  EXPECT_EQ(call("DELETE", "/bucket?encryption").status, 204);
  EXPECT_EQ(put("k", "x").header("x-amz-server-side-encryption"), "(none)");
  EXPECT_EQ(get("m").body, "part");  // stays as it was put
  for (const std::string& bad : {std::string("</ApplyServerSideEncryptionByDefault></Rule>"),
                                 "<SSEAlgorithm>DES</SSEAlgorithm>" + end, "<Other/>" + end, std::string("</Rule>")}) {
    EXPECT_EQ(configure(bad).code, "MalformedXML") << bad;
  }
  EXPECT_EQ(configure("<SSEAlgorithm>AES256</SSEAlgorithm><KMSMasterKeyID>x</KMSMasterKeyID>" + end).status, 400);
  EXPECT_EQ(configure("<SSEAlgorithm>aws:kms</SSEAlgorithm>" + end).status, 400);
}

TEST_F(EncryptionTest, TheServersDefaultIsToldAsABucketsOwn) {
  service.encryption.by_default = true;
  EXPECT_EQ(put("k", "x").header("x-amz-server-side-encryption"), "AES256");
  EXPECT_EQ(call("GET", "/bucket?encryption").element("SSEAlgorithm"), "AES256");
  EXPECT_NE(kept("k").data.substr(0, 1), "");
}

TEST_F(EncryptionTest, WithoutAKeyRingNothingSeemsEncrypted) {
  service.encryption.keys = nullptr;
  EXPECT_EQ(put("k", "x", sse_s3).status, 501);
  EXPECT_EQ(put("k", "x", key_a.headers()).status, 501);
  EXPECT_EQ(put("k", "x").status, 200);
}

// Whatever is changed of what is kept, what comes out is the object or an error.
TEST_F(EncryptionTest, WhatWasTamperedWithIsAnErrorAndNeverOtherBytes) {
  for (const Headers& headers : {sse_s3, sse_kms, key_a.headers()}) {
    const Headers key = headers.size() == 3 ? headers : Headers{};
    const std::string body = pattern(70'000);
    put("k", body, headers);
    for (auto& [name, value] : tampered("k").info.attributes) {
      if (name == "sse-bucket-key") continue;
      const std::string good = value;
      for (size_t at = 0; at < good.size(); ++at) {
        value[at] = static_cast<char>(value[at] ^ 0x40);
        const Reply r = get("k", key);
        EXPECT_NE(r.status, 200) << name << " " << at;
        value = good;
      }
    }
    ASSERT_TRUE(get("k", key).body == body);
    tampered("k").data[66'000] ^= 1;
    EXPECT_NE(get("k", key).body, body);
    EXPECT_FALSE(get("k", key).whole && get("k", key).status == 200);
  }
}

TEST_F(EncryptionTest, AnotherObjectsBytesOrRecordDoNotPassForAnObject) {
  put("one", "first", sse_s3);
  put("two", "other", sse_s3);
  const test::MemoryStore::Stored one = kept("one");
  tampered("one").data = kept("two").data;
  EXPECT_NE(get("one").status, 200);
  tampered("one") = kept("two");  // bytes and record together: they are bound to the other's name
  EXPECT_NE(get("one").status, 200);
  tampered("one") = one;
  EXPECT_EQ(get("one").body, "first");
}

TEST_F(EncryptionTest, PartsThatWereLeftOutOrMovedAreSeen) {
  const std::string id = start("m", sse_s3);
  std::vector<std::string> etags;
  for (int i = 1; i <= 3; ++i)
    etags.push_back(upload("m", id, i, std::string(5 * MiB, static_cast<char>('a' + i))).header("etag"));
  ASSERT_EQ(complete("m", id, etags).status, 200);
  const test::MemoryStore::Stored good = kept("m");
  const size_t each = good.data.size() / 3;
  test::MemoryStore::Stored& bad = tampered("m");
  bad.info.parts.pop_back();
  bad.data.resize(2 * each);
  bad.info.size = 10 * MiB;
  bad.info.stored_size = bad.data.size();
  EXPECT_NE(get("m").status, 200);
  bad = good;
  std::swap(bad.info.parts[0], bad.info.parts[1]);
  bad.data = good.data.substr(each, each) + good.data.substr(0, each) + good.data.substr(2 * each);
  EXPECT_NE(get("m").status, 200);
  bad = good;
  EXPECT_EQ(get("m").status, 200);
}

TEST_F(EncryptionTest, AfterARotationOldObjectsReadAndNewOnesUseTheNewKey) {
  char name[] = "/tmp/verbena-encryption-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::filesystem::path folder = name;
  auto files = *auth::KeyRing::open(folder / "keys", folder / "ids");
  service.encryption.keys = files.get();
  put("old", "before", sse_s3);
  const std::string id = start("m", sse_kms);
  const auto added = auth::KeyRing::rotate(folder / "keys");
  ASSERT_TRUE(added && files->reload());
  put("new", "after", sse_s3);
  const std::string etag = upload("m", id, 1, "part").header("etag");
  EXPECT_EQ(complete("m", id, {etag}).status, 200);
  EXPECT_EQ(get("old").body, "before");
  EXPECT_EQ(get("new").body, "after");
  EXPECT_EQ(get("m").body, "part");
  const auto key_id = [&](const std::string& key) {
    return to_hex(as_bytes(*store::find_attribute(kept(key).info.attributes, "sse-key")).subspan(1, 8));
  };
  EXPECT_EQ(key_id("new"), *added);
  EXPECT_NE(key_id("old"), *added);
  service.encryption.keys = ring.get();  // other keys altogether
  EXPECT_EQ(get("new").status, 500);
  std::filesystem::remove_all(folder);
}

TEST_F(EncryptionTest, SealingTheSameObjectTwiceSharesNothing) {
  put("a", std::string(200'000, 'x'), sse_s3);
  put("b", std::string(200'000, 'x'), sse_s3);
  std::set<std::string> blocks;
  for (const char* key : {"a", "b"}) {
    for (size_t at = 0; at < 3 * 65'536; at += 65'536) EXPECT_TRUE(blocks.insert(kept(key).data.substr(at, 16)).second);
  }
}

}  // namespace
}  // namespace verbena::s3
