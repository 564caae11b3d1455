#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>

#include "auth/auth.h"
#include "auth/canonical_request.h"
#include "auth/query_limit.h"
#include "auth/test_clock.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/date.h"

namespace verbena::auth {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

const Credentials root{"AKIAVERBENA", "a secret/with+odd characters", ""};

class VerifierTest : public testing::Test {
 protected:
  HeaderList signed_headers(std::string_view method = "GET", std::string_view path = "/bucket/key",
                            std::string_view query = "", HeaderList headers = {{"host", "localhost:9000"}},
                            std::string_view hash = unsigned_payload_name) {
    sign(root, "us-east-1", "s3", clock_, method, path, query, hash, headers);
    return headers;
  }
  Result<Verified> verify(const HeaderList& headers, std::string_view method = "GET",
                          std::string_view path = "/bucket/key", std::string_view query = "") {
    std::vector<HeaderView> views;
    for (const auto& [name, value] : headers) views.push_back({name, value});
    return verifier_.verify({method, path, query, views});
  }
  Errc error_of(const HeaderList& headers, std::string_view method = "GET", std::string_view path = "/bucket/key",
                std::string_view query = "") {
    const auto verified = verify(headers, method, path, query);
    return verified ? Errc::ok : verified.error().code;
  }
  std::string presigned(std::string_view query = "", int64_t expires_s = 600) {
    return presign(root, "us-east-1", clock_, "GET", "localhost:9000", "/bucket/key", query, expires_s).value();
  }
  static std::string& value_of(HeaderList& headers, std::string_view name) {
    for (auto& header : headers) {
      if (header.first == name) return header.second;
    }
    headers.emplace_back(name, "");
    return headers.back().second;
  }
  static void replace(std::string& text, std::string_view from, std::string_view to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }

  const HeaderList host_{{"host", "localhost:9000"}};
  FixedClock clock_{1'767'323'045};
  RootCredentials store_{root};
  Verifier verifier_{store_, clock_, {}};
};

TEST_F(VerifierTest, ARequestWithoutASignatureIsAnonymous) {
  const auto verified = verify(host_);
  ASSERT_TRUE(verified);
  EXPECT_TRUE(verified->identity.anonymous);
  EXPECT_EQ(verified->payload, Payload::none);
}

TEST_F(VerifierTest, AnonymousUploadsMayStreamWithoutSignaturesButNotWithThem) {
  auto headers = host_;
  value_of(headers, "x-amz-content-sha256") = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  ASSERT_TRUE(verify(headers));
  EXPECT_EQ(verify(headers)->payload, Payload::chunked_unsigned_trailer);
  value_of(headers, "x-amz-content-sha256") = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
  EXPECT_EQ(error_of(headers), Errc::invalid_request);
}

// Used to check a request again whose body arrives late.
TEST_F(VerifierTest, AnIdentitySaysWhichKeySignedAndOfWhen) {
  auto headers = host_;
  sign(root, "us-east-1", "s3", clock_, "GET", "/bucket/key", "", unsigned_payload_name, headers);
  const auto by_header = verify(headers);
  ASSERT_TRUE(by_header);
  const auto by_query = verify(host_, "GET", "/bucket/key", presigned());
  ASSERT_TRUE(by_query);
  for (const auto& verified : {*by_header, *by_query}) {
    ASSERT_NE(verified.identity.key, nullptr);
    EXPECT_EQ(verified.identity.key, verified.key);
    EXPECT_EQ(verified.identity.key->credentials.access_key, root.access_key);
    EXPECT_EQ(verified.identity.generation, store_.generation());
  }
  EXPECT_EQ(verify(host_)->identity.key, nullptr);
}

TEST_F(VerifierTest, WhatWasSignedCannotBeChanged) {
  const auto headers = signed_headers("GET", "/bucket/key", "prefix=a%20b");
  EXPECT_EQ(error_of(headers, "GET", "/bucket/key", "prefix=a%20b"), Errc::ok);
  EXPECT_EQ(error_of(headers, "PUT", "/bucket/key", "prefix=a%20b"), Errc::signature_does_not_match);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/kez", "prefix=a%20b"), Errc::signature_does_not_match);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/key", "prefix=a%20c"), Errc::signature_does_not_match);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/key", "prefix=a%20b&x="), Errc::signature_does_not_match);
  for (const char* name : {"host", "x-amz-content-sha256"}) {
    auto changed = headers;
    value_of(changed, name) = std::string(name) == "host" ? "elsewhere" : std::string(64, '0');
    EXPECT_EQ(error_of(changed, "GET", "/bucket/key", "prefix=a%20b"), Errc::signature_does_not_match) << name;
  }
}

TEST_F(VerifierTest, ACallIsSignedForItsServiceAndItsBody) {
  const std::string body = to_hex(as_bytes(sha256(as_bytes("Action=ListUsers"))));
  const std::string other = to_hex(as_bytes(sha256(as_bytes("Action=ListRoles"))));
  const auto call = [&](std::string_view service, std::string_view signed_hash, std::string_view came, bool say) {
    HeaderList headers = host_;
    sign(root, "us-east-1", service, clock_, "POST", "/", "", signed_hash, headers);
    // IAM's clients sign the hash without sending it; then it is not among the signed headers either.
    if (!say) {
      headers = host_;
      value_of(headers, "x-amz-date") = format_amz_date(clock_.now_s());
      const std::string lines = "host:localhost:9000\nx-amz-date:" + format_amz_date(clock_.now_s()) + "\n";
      const std::string date = format_amz_date(clock_.now_s()).substr(0, 8);
      const std::string scope = scope_of(date, "us-east-1", service);
      const CanonicalRequest request{"POST", "/", "", lines, "host;x-amz-date", signed_hash};
      const HmacSha256 key(signing_key(root.secret_key, date, "us-east-1", service));
      const Signature signature = signature_of(key, request, format_amz_date(clock_.now_s()), scope);
      value_of(headers, "authorization") =
          "AWS4-HMAC-SHA256 Credential=" + root.access_key + "/" + scope +
          ", SignedHeaders=host;x-amz-date, Signature=" + std::string(text_of(signature));
    }
    std::vector<HeaderView> views;
    for (const auto& [name, value] : headers) views.push_back({name, value});
    const auto verified = verifier_.verify_call({"POST", "/", "", views}, came);
    EXPECT_TRUE(!verified || verified->key->principal->superuser);
    return verified ? Errc::ok : verified.error().code;
  };
  for (const bool say : {true, false}) {
    for (const char* service : {"iam", "sts", "s3"}) EXPECT_EQ(call(service, body, body, say), Errc::ok) << service;
    EXPECT_EQ(call("ec2", body, body, say), Errc::authorization_header_malformed);
  }
  EXPECT_EQ(call("iam", body, other, true), Errc::content_sha256_mismatch);
  EXPECT_EQ(call("iam", body, other, false), Errc::signature_does_not_match);
  EXPECT_EQ(call("iam", unsigned_payload_name, body, true), Errc::content_sha256_mismatch);
  std::vector<HeaderView> none = {{"host", "localhost:9000"}};
  EXPECT_EQ(verifier_.verify_call({"POST", "/", "", none}, body).error().code, Errc::missing_authentication);
  EXPECT_EQ(verifier_.verify_call({"POST", "/", presigned(), none}, body).error().code,
            Errc::authorization_query_error);
}

// boto3's signatures with region_name='' and with the global endpoint of a partition.
TEST_F(VerifierTest, ACallMayBeSignedForNoRegionOrTheGlobalOne) {
  const std::string body = to_hex(as_bytes(sha256(as_bytes("Action=ListUsers"))));
  const std::pair<std::string, std::string> scopes[] = {
      {"", "iam"}, {"aws-global", "iam"}, {"", "sts"}, {"aws-global", "sts"}};
  for (const auto& [region, service] : scopes) {
    HeaderList headers = host_;
    sign(root, region, service, clock_, "POST", "/", "", body, headers);
    const auto verify_call = [&] {
      std::vector<HeaderView> views;
      for (const auto& [name, value] : headers) views.push_back({name, value});
      const auto verified = verifier_.verify_call({"POST", "/", "", views}, body);
      return verified ? Errc::ok : verified.error().code;
    };
    EXPECT_EQ(verify_call(), Errc::ok) << region;
    replace(value_of(headers, "authorization"), "/" + region + "/" + service + "/", "/us-east-1/" + service + "/");
    EXPECT_EQ(verify_call(), Errc::signature_does_not_match) << "the signature decides";
  }
}

// Thousands of arguments were decoded, sorted and hashed for a request that names a key, and then refused.
TEST_F(VerifierTest, AQueryWithTooManyArgumentsIsRefusedBeforeItIsHashed) {
  std::string query = "a0=";
  for (int i = 1; i < 256; ++i) query += "&a" + std::to_string(i) + "=";
  EXPECT_EQ(error_of(signed_headers("GET", "/bucket/key", query), "GET", "/bucket/key", query + "&&"), Errc::ok);
  const std::string more = query + "&one=";
  const auto headers = signed_headers("GET", "/bucket/key", more);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/key", more), Errc::invalid_request);
  EXPECT_EQ(error_of(signed_headers(), "GET", "/bucket/key", more), Errc::invalid_request) << "whatever is signed";
  EXPECT_EQ(error_of(headers, "GET", "/bucket/key", "%zz"), Errc::invalid_uri);
  EXPECT_EQ(error_of({{"host", "localhost:9000"}}, "GET", "/bucket/key", more), Errc::invalid_request);
}

TEST_F(VerifierTest, APlusInAQueryIsASpaceAndNotAPlus) {
  const auto headers = signed_headers("GET", "/bucket/", "prefix=a%20b");
  EXPECT_EQ(error_of(headers, "GET", "/bucket/", "prefix=a+b"), Errc::ok);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/", "prefix=a%2Bb"), Errc::signature_does_not_match);
}

TEST_F(VerifierTest, SlashesAndDotsInAPathAreNotNormalised) {
  const auto headers = signed_headers("GET", "/bucket//a/../b/./c/");
  EXPECT_EQ(error_of(headers, "GET", "/bucket//a/../b/./c/"), Errc::ok);
  EXPECT_EQ(error_of(headers, "GET", "/bucket/b/c/"), Errc::signature_does_not_match);
}

TEST_F(VerifierTest, BlanksAroundAndInsideValuesDoNotMatter) {
  auto headers = signed_headers("GET", "/bucket/key", "", {{"host", "h"}, {"x-amz-meta-a", "one two"}});
  value_of(headers, "x-amz-meta-a") = "  one \t  two ";
  EXPECT_EQ(error_of(headers), Errc::ok);
  value_of(headers, "x-amz-meta-a") = "onetwo";
  EXPECT_EQ(error_of(headers), Errc::signature_does_not_match);
}

TEST_F(VerifierTest, RepeatedHeadersAreJoinedInOrder) {
  auto headers =
      signed_headers("GET", "/bucket/key", "", {{"host", "h"}, {"x-amz-meta-a", "1"}, {"X-Amz-Meta-A", "2"}});
  EXPECT_EQ(error_of(headers), Errc::ok);
  std::swap(headers[1].second, headers[2].second);
  EXPECT_EQ(error_of(headers), Errc::signature_does_not_match);
}

TEST_F(VerifierTest, AnUnknownKeyIsNamedAsSuch) {
  auto headers = signed_headers();
  replace(value_of(headers, "authorization"), "AKIAVERBENA", "AKIASOMEONE");
  EXPECT_EQ(error_of(headers), Errc::invalid_access_key_id);
}

TEST_F(VerifierTest, AClockOffByMoreThanAQuarterHourIsSkewed) {
  const auto headers = signed_headers();
  const int64_t now = clock_.now_s();
  for (int64_t offset : {-900, 0, 900}) {
    clock_.set(now + offset);
    EXPECT_EQ(error_of(headers), Errc::ok) << offset;
  }
  for (int64_t offset : {-901, 901, 86400 * 365}) {
    clock_.set(now + offset);
    EXPECT_EQ(error_of(headers), Errc::request_time_too_skewed) << offset;
  }
}

TEST_F(VerifierTest, AnAmzHeaderThatIsNotSignedIsRefused) {
  auto headers = signed_headers();
  value_of(headers, "X-Amz-Copy-Source") = "/other/key";
  EXPECT_EQ(error_of(headers), Errc::missing_signed_header);
  EXPECT_EQ(error_of({{"host", "localhost:9000"}, {"x-amz-rdma-token", "t"}}, "GET", "/bucket/key", presigned()),
            Errc::missing_signed_header);
}

// A header added in transit, or to a presigned request, made its bucket lose `sync`.
TEST_F(VerifierTest, AHeaderOfOurOwnThatIsNotSignedIsRefused) {
  auto headers = signed_headers();
  headers.emplace_back("X-Verbena-Durability", "memory");
  EXPECT_EQ(error_of(headers), Errc::missing_signed_header);
  EXPECT_EQ(error_of({{"host", "localhost:9000"}, {"x-verbena-append", "enabled"}}, "GET", "/bucket/key", presigned()),
            Errc::missing_signed_header);
  EXPECT_EQ(error_of(signed_headers("GET", "/bucket/key", "", {{"host", "h"}, {"x-verbena-etag", "MD5"}})), Errc::ok);
  EXPECT_EQ(error_of({{"host", "h"}, {"x-verbena-durability", "memory"}}), Errc::ok) << "unsigned";
}

TEST_F(VerifierTest, TheHeadersThatAreNotSignedAreNamed) {
  const auto named = [](const HeaderList& headers, std::string_view query) {
    std::vector<HeaderView> views;
    for (const auto& [name, value] : headers) views.push_back({name, value});
    return Verifier::headers_not_signed({"GET", "/bucket/key", query, views});
  };
  auto headers = signed_headers();
  headers.emplace_back("X-Amz-Acl", "private");
  headers.emplace_back("x-verbena-append", "enabled");
  headers.emplace_back("range", "bytes=0-1");
  EXPECT_EQ(named(headers, ""), "x-amz-acl, x-verbena-append");
  EXPECT_EQ(named({{"host", "localhost:9000"}, {"x-amz-acl", "private"}}, presigned()), "x-amz-acl");
  EXPECT_EQ(named({{"host", "h"}, {"x-amz-acl", "private"}}, ""), "");
  EXPECT_EQ(named({{"authorization", "AWS a:b"}, {"date", "20070327T193642Z"}, {"x-verbena-etag", "MD5"}}, ""),
            "x-verbena-etag");
}

// Arguments are signed in the order of their values, and processed in the order received.
TEST_F(VerifierTest, AnArgumentThatIsThereTwiceIsRefused) {
  const auto signed_query = [&](std::string_view query) {
    return error_of(signed_headers("GET", "/bucket/key", query), "GET", "/bucket/key", query);
  };
  EXPECT_EQ(signed_query("versionId=a&versionId=b"), Errc::access_denied);
  EXPECT_EQ(signed_query("x-amz-acl=private&X-Amz-Acl=public-read"), Errc::access_denied);
  EXPECT_EQ(signed_query("prefix=a&prefix=a"), Errc::access_denied);
  EXPECT_EQ(signed_query("tagKeys=a&tagKeys=b"), Errc::ok) << "a set";
  EXPECT_EQ(signed_query("a=1&A=2&b=1"), Errc::ok);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", "versionId=a&versionId=b"), Errc::ok) << "unsigned";
}

TEST_F(VerifierTest, ASignedHeaderThatIsNotThereDoesNotMatch) {
  auto headers = signed_headers("GET", "/bucket/key", "", {{"host", "h"}, {"range", "bytes=0-1"}});
  std::erase_if(headers, [](const auto& h) { return h.first == "range"; });
  EXPECT_EQ(error_of(headers), Errc::signature_does_not_match);
}

TEST_F(VerifierTest, WithoutAPayloadHashTheRequestIsRefused) {
  auto headers = signed_headers();
  std::erase_if(headers, [](const auto& h) { return h.first == "x-amz-content-sha256"; });
  EXPECT_EQ(error_of(headers), Errc::missing_security_header);
}

TEST_F(VerifierTest, APayloadHashOfUnknownKindIsRefused) {
  EXPECT_EQ(error_of(signed_headers("GET", "/bucket/key", "", host_, "STREAMING-SOMETHING")), Errc::invalid_request);
  EXPECT_EQ(error_of(signed_headers("GET", "/bucket/key", "", host_, std::string(64, 'G'))), Errc::invalid_request);
}

TEST_F(VerifierTest, ForeignMechanismsAreRefusedClearly) {
  auto headers = host_;
  value_of(headers, "authorization") = "Bearer abc";
  EXPECT_EQ(error_of(headers), Errc::invalid_argument);
}

TEST_F(VerifierTest, TwoMechanismsAtOnceAreRefused) {
  EXPECT_EQ(error_of(signed_headers(), "GET", "/bucket/key", presigned()), Errc::invalid_argument);
  auto headers = signed_headers();
  headers.emplace_back("Authorization", value_of(headers, "authorization"));
  EXPECT_EQ(error_of(headers), Errc::invalid_request);
}

TEST_F(VerifierTest, AMalformedAuthorizationHeaderIsNamedAsSuch) {
  const auto good = value_of(*std::make_unique<HeaderList>(signed_headers()), "authorization");
  const std::pair<std::string_view, std::string_view> edits[] = {{"Credential=", "Credentiel="},
                                                                 {"/aws4_request", "/aws5_request"},
                                                                 {"/aws4_request", ""},
                                                                 {"/s3/", "/ec2/"},
                                                                 {"/20260102/", "/2026010/"},
                                                                 {"/20260102/", "/20260103/"},
                                                                 {"host;", "Host;"},
                                                                 {"host;", ""},
                                                                 {"host;", "host;host;"},
                                                                 {"host;", "host;;"},
                                                                 {", Signature=", ", Signature=g"},
                                                                 {", Signature=", ", Signatur="},
                                                                 {", Signature=", ", x, Signature="},
                                                                 {"SignedHeaders=", "SignedHeaders=zz;"}};
  for (const auto& [from, to] : edits) {
    auto headers = signed_headers();
    replace(value_of(headers, "authorization"), from, to);
    EXPECT_EQ(error_of(headers), Errc::authorization_header_malformed) << from << " -> " << to;
  }
  for (size_t cut = 18; cut < good.size(); cut += 7) {
    auto headers = signed_headers();
    value_of(headers, "authorization") = good.substr(0, cut);
    EXPECT_EQ(error_of(headers), Errc::authorization_header_malformed) << good.substr(0, cut);
  }
}

TEST_F(VerifierTest, APresignedRequestIsValidUntilItExpires) {
  const auto query = presigned("response-content-type=text%2Fplain", 60);
  const int64_t now = clock_.now_s();
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", query), Errc::ok);
  EXPECT_EQ(error_of(host_, "PUT", "/bucket/key", query), Errc::signature_does_not_match);
  clock_.set(now + 60);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", query), Errc::ok);
  clock_.set(now + 61);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", query), Errc::access_denied);
  clock_.set(now - 901);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", query), Errc::access_denied);
}

TEST_F(VerifierTest, APresignedRequestLivesAtMostAWeek) {
  for (int64_t expires : {-1L, 604801L, 9'000'000'000'000'000'000L}) {
    EXPECT_EQ(error_of(host_, "GET", "/bucket/key", presigned("", expires)), Errc::authorization_query_error);
  }
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", presigned("", 604800)), Errc::ok);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", presigned("", 0)), Errc::access_denied);
}

TEST_F(VerifierTest, APresignedQueryThatLacksOrRepeatsAnArgumentIsMalformed) {
  const auto good = presigned();
  for (std::string_view name : {"X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Date=", "X-Amz-Expires=600",
                                "X-Amz-SignedHeaders=host", "X-Amz-Signature="}) {
    auto query = good;
    replace(query, name, "x=");
    EXPECT_EQ(error_of(host_, "GET", "/bucket/key", query), Errc::authorization_query_error) << name;
  }
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", good + "&X-Amz-Expires=600"), Errc::authorization_query_error);
  EXPECT_EQ(error_of(host_, "GET", "/bucket/key", good + "&x=%zz"), Errc::invalid_uri);
}

TEST_F(VerifierTest, ASessionTokenMustBelongToTheKey) {
  auto headers = signed_headers("GET", "/bucket/key", "", {{"host", "h"}, {"x-amz-security-token", "stolen"}});
  EXPECT_EQ(error_of(headers), Errc::invalid_token);

  const Credentials temporary{"AKIATEMP", "secret", "token"};
  RootCredentials store(temporary);
  Verifier verifier(store, clock_, {});
  const auto query = presign(temporary, "us-east-1", clock_, "GET", "h", "/b/k", "", 60).value();
  const HeaderView host{"host", "h"};
  EXPECT_TRUE(verifier.verify({"GET", "/b/k", query, {&host, 1}}));
}

TEST_F(VerifierTest, OtherRegionsAreAccepted) {
  auto headers = host_;
  sign(root, "eu-central-1", "s3", clock_, "GET", "/bucket/key", "", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", headers);
  const auto verified = verify(headers);
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->scope, "20260102/eu-central-1/s3/aws4_request");
}

TEST_F(VerifierTest, ManyKeysRegionsAndThreadsOverflowTheKeyCaches) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        HeaderList headers{{"host", "h"}};
        sign(root, "region-" + std::to_string((i * 7 + t) % 100), "s3", clock_, "GET", "/b/k", "",
             unsigned_payload_name, headers);
        if (!verify(headers, "GET", "/b/k")) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(VerifierTest, WhatIsSignedVerifiesWhateverTheBytes) {
  EXPECT_TRUE(rc::check([&](const std::string& key, const std::string& argument, const std::string& value) {
    const std::string path = "/bucket/" + uri_encode(key, true);
    const std::string query = "prefix=" + uri_encode(argument, false);
    std::string clean;
    for (char c : value) {
      if (c >= ' ' && c < 127) clean += c;
    }
    auto headers = signed_headers("PUT", path, query, {{"host", "localhost"}, {"x-amz-meta-v", clean}});
    RC_ASSERT(verify(headers, "PUT", path, query).has_value());
    RC_ASSERT(!verify(headers, "PUT", path + "x", query).has_value());
    const auto url = presign(root, "us-east-1", clock_, "GET", "localhost", path, query, 60).value();
    RC_ASSERT(verify({{"host", "localhost"}}, "GET", path, url).has_value());
  }));
}

// A URL was signed without any of them.
TEST_F(VerifierTest, AQueryThatNoServerReadsIsNotSigned) {
  std::string query = "a=1";
  for (size_t i = 0; i < query_arguments_max; ++i) query += "&b=2";
  for (const std::string& unreadable : {query, std::string("a=%zz")}) {
    EXPECT_FALSE(presign(root, "us-east-1", clock_, "GET", "h", "/b/k", unreadable, 60));
    HeaderList headers{{"host", "h"}};
    EXPECT_FALSE(sign(root, "us-east-1", "s3", clock_, "GET", "/b/k", unreadable, unsigned_payload_name, headers));
    EXPECT_EQ(headers.size(), 1U);
  }
}

TEST(Uri, EncodingAndDecodingAreInverse) {
  EXPECT_TRUE(rc::check([](const std::string& text) {
    RC_ASSERT(uri_decode(uri_encode(text, false)) == text);
    RC_ASSERT(uri_decode(uri_encode(text, true)) == text);
  }));
  EXPECT_EQ(uri_encode("a/b c~*'", true), "a/b%20c~%2A%27");
  EXPECT_EQ(uri_encode("/", false), "%2F");
}

TEST(Uri, ABrokenPercentSequenceIsNoText) {
  for (const char* text : {"%", "%2", "a%", "%zz", "%2g", "%%20"}) EXPECT_FALSE(uri_decode(text)) << text;
  EXPECT_EQ(uri_decode("%41%2f+"), "A/+");
}

TEST_F(VerifierTest, AFormIsSignedByItsPolicy) {
  const std::string policy = to_base64(as_bytes("{}"));
  FormClaim old;
  old.policy = policy;
  old.access_key = root.access_key;
  const std::string mac = to_base64(as_bytes(hmac_sha1(as_bytes(root.secret_key), as_bytes(policy))));
  old.signature = mac;
  const auto identity = verifier_.verify_form(old);
  ASSERT_TRUE(identity);
  EXPECT_FALSE(identity->anonymous);
  EXPECT_EQ(identity->access_key, root.access_key);
  const auto error = [&](const FormClaim& form) { return verifier_.verify_form(form).error().code; };
  auto wrong = old;
  wrong.policy = "e30g";
  EXPECT_EQ(error(wrong), Errc::signature_does_not_match);
  wrong = old;
  wrong.access_key = "nobody";
  EXPECT_EQ(error(wrong), Errc::invalid_access_key_id);
  wrong = old;
  wrong.session_token = "token";
  EXPECT_EQ(error(wrong), Errc::invalid_token);

  FormClaim form;
  form.policy = policy;
  form.algorithm = algorithm_name;
  const std::string credential = root.access_key + "/20260102/us-east-1/s3/aws4_request";
  form.credential = credential;
  form.date = "20260102T000000Z";
  const auto key = signing_key(root.secret_key, "20260102", "us-east-1", "s3");
  const std::string signature = to_hex(as_bytes(hmac_sha256(key, as_bytes(policy))));
  form.signature = signature;
  EXPECT_TRUE(verifier_.verify_form(form));
  wrong = form;
  wrong.algorithm = "AWS4-HMAC-SHA1";
  EXPECT_EQ(error(wrong), Errc::invalid_argument);
  wrong = form;
  wrong.date = "20260103T000000Z";
  EXPECT_EQ(error(wrong), Errc::invalid_argument);
  wrong = form;
  wrong.credential = "nonsense";
  EXPECT_EQ(error(wrong), Errc::invalid_argument);
  wrong = form;
  wrong.signature = mac;
  EXPECT_EQ(error(wrong), Errc::signature_does_not_match);
}

}  // namespace
}  // namespace verbena::auth
