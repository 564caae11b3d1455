#include "sign_in/jwt.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "base/bytes.h"
#include "sign_in/jwk.h"
#include "sign_in/strict_json.h"
#include "sign_in/test_key.h"

namespace verbena::sign_in {
namespace {

Verdict judge(const std::string& keys, const std::string& token) {
  const auto set = parse_key_set(keys);
  EXPECT_TRUE(set) << keys;
  const auto parsed = Jwt::parse(token);
  EXPECT_TRUE(parsed) << token;
  return set && parsed ? verify(*set, *parsed) : Verdict::unknown_key;
}

// RFC 7515 appendix A.3: a signature made by another implementation.
TEST(JwtTest, TheSignatureOfTheStandardsExampleIsVerified) {
  const std::string keys = R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                           R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";
  const std::string token =
      "eyJhbGciOiJFUzI1NiJ9."
      "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVl"
      "fQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
  EXPECT_EQ(judge(keys, token), Verdict::good);
  std::string other = token;
  other[40] = other[40] == 'A' ? 'B' : 'A';
  const auto set = parse_key_set(keys);
  const auto changed = Jwt::parse(other);
  EXPECT_FALSE(changed && verify(*set, *changed) == Verdict::good);
}

TEST(JwtTest, EachAlgorithmVerifiesItsOwnSignaturesAndNothingElse) {
  for (const char* name : {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}) {
    const TestKey key(name);
    const std::string token = key.sign(R"({"alg":")" + std::string(name) + R"(","kid":"k"})", R"({"sub":"a"})");
    EXPECT_EQ(judge(key.set("k"), token), Verdict::good) << name;
    EXPECT_EQ(judge(key.set("other"), token), Verdict::unknown_key) << name;
    EXPECT_EQ(judge(TestKey(name).set("k"), token), Verdict::bad) << name;
    // Another claim under the same signature; a shortened or lengthened signature.
    const size_t first = token.find('.'), second = token.rfind('.');
    const std::string claim = base64url(R"({"sub":"b"})");
    EXPECT_EQ(judge(key.set("k"), token.substr(0, first + 1) + claim + token.substr(second)), Verdict::bad) << name;
    for (const std::string& other : {token.substr(0, token.size() - 4), token + "AAAA"}) {
      const auto parsed = Jwt::parse(other);
      const auto set = parse_key_set(key.set("k"));
      EXPECT_FALSE(parsed && verify(*set, *parsed) == Verdict::good) << name;
    }
  }
}

TEST(JwtTest, TheKeyDecidesWhichAlgorithmItIsFor) {
  const TestKey key("RS256");
  // The same key, correctly signed under another algorithm of its kind than the published one.
  const std::string token = key.sign_as("RS512", R"({"alg":"RS512","kid":"k"})", R"({"sub":"a"})");
  EXPECT_EQ(judge(key.set("k"), token), Verdict::unknown_key);
  EXPECT_EQ(judge(key.set("k", /*algorithm=*/""), token), Verdict::good);
  const std::string curve = TestKey("ES256").sign(R"({"alg":"ES256","kid":"k"})", R"({"sub":"a"})");
  EXPECT_EQ(judge(key.set("k", ""), curve), Verdict::unknown_key);
}

TEST(JwtTest, WhatNeedsNoPrivateKeyIsNoToken) {
  const TestKey key("RS256");
  for (const char* name : {"none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "rs256", "A128KW", "dir"}) {
    const std::string header = R"({"alg":")" + std::string(name) + R"(","kid":"k"})";
    EXPECT_FALSE(Jwt::parse(key.sign(header, R"({"sub":"a"})"))) << name;
    EXPECT_FALSE(Jwt::parse(base64url(header) + "." + base64url(R"({"sub":"a"})") + ".")) << name;
  }
  for (const char* header : {R"({"kid":"k"})", R"({"alg":7})", R"({"alg":["RS256"]})", R"({"alg":null})", "[]", "7", "",
                             R"({"alg":"RS256","alg":"none"})", R"({"alg":"none","alg":"RS256"})",
                             R"({"alg":"RS256","crit":["b64"],"b64":false})", R"({"alg":"RS256","crit":[]})",
                             R"({"alg":"RS256","kid":7})", R"({"alg":"RS256","a":[[[[[1]]]]]})"}) {
    EXPECT_FALSE(Jwt::parse(key.sign(header, R"({"sub":"a"})"))) << header;
  }
}

TEST(JwtTest, KeysThatATokenBringsAlongAreNotLookedAt) {
  const TestKey ours("RS256"), theirs("RS256");
  const std::string header = R"({"alg":"RS256","kid":"k","jwk":)" + theirs.jwk("k") +
                             R"(,"jku":"https://evil.example/keys","x5u":"https://evil.example/c"})";
  EXPECT_EQ(judge(ours.set("k"), theirs.sign(header, R"({"sub":"a"})")), Verdict::bad);
  EXPECT_EQ(judge(ours.set("k"), ours.sign(header, R"({"sub":"a"})")), Verdict::good);
}

TEST(JwtTest, TextsThatAreNoTokenAreRefused) {
  const TestKey key("RS256");
  const std::string good = key.sign(R"({"alg":"RS256"})", R"({"sub":"a"})");
  ASSERT_TRUE(Jwt::parse(good));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("..."), good + ".", good + ".a.b", "." + good,
        good.substr(0, good.rfind('.')), good.substr(0, good.rfind('.') + 1), good + "=", good + "+", good + "/",
        good + "\n", " " + good, good + std::string(token_bytes_max, 'A'), std::string(1000, '.')}) {
    EXPECT_FALSE(Jwt::parse(bad)) << bad.substr(0, 80);
  }
  for (const std::string& claims :
       {std::string("[]"), std::string("7"), std::string("{}x"), std::string(R"({"a":1,"a":2})"),
        std::string(R"({"a":"\u0000"})"), std::string("{\"a\":\"\xff\"}"),
        R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}"}) {
    EXPECT_FALSE(Jwt::parse(key.sign(R"({"alg":"RS256"})", claims))) << claims.substr(0, 80);
  }
}

TEST(JwkTest, KeysThatAreOfNoUseAreLeftOut) {
  const TestKey rsa("RS256"), curve("ES256");
  const auto count = [](const std::string& key) {
    const auto set = parse_key_set(R"({"keys":[)" + key + "]}");
    EXPECT_TRUE(set) << key;
    return set ? set->keys.size() : 0;
  };
  const auto with = [](std::string jwk, const std::string& more) { return jwk.replace(0, 1, "{" + more + ","); };
  EXPECT_EQ(count(rsa.jwk("k")), 1u);
  EXPECT_EQ(count(curve.jwk("k")), 1u);
  EXPECT_EQ(count(with(rsa.jwk("k", ""), R"("use":"sig","key_ops":["verify"])")), 1u);
  EXPECT_EQ(count(with(rsa.jwk("k", ""), R"("use":"enc")")), 0u);
  EXPECT_EQ(count(with(rsa.jwk("k", ""), R"("key_ops":["encrypt"])")), 0u);
  EXPECT_EQ(count(with(rsa.jwk("k", ""), R"("alg":"RSA-OAEP")")), 0u);
  EXPECT_EQ(count(with(rsa.jwk("k", ""), R"("alg":"HS256")")), 0u);
  EXPECT_EQ(count(R"({"kty":"oct","k":"AAAA"})"), 0u);
  EXPECT_EQ(count(R"({"kty":"RSA","n":"AQAB","e":"AQAB"})"), 0u) << "a short modulus";
  EXPECT_EQ(count(R"({"kty":"RSA","n":")" + base64url(std::string(256, '\xff')) + R"(","e":"AQ"})"), 0u)
      << "exponent 1";
  EXPECT_EQ(count(R"({"kty":"RSA","n":")" + base64url(std::string(256, '\xff')) + R"(","e":"Ag"})"), 0u)
      << "an even one";
  EXPECT_EQ(count(R"({"kty":"RSA","n":")" + base64url(std::string(4096, '\xff')) + R"(","e":"AQAB"})"), 0u) << "dear";
  const std::string zeros = base64url(std::string(32, '\0')), ones = base64url(std::string(32, '\1'));
  EXPECT_EQ(count(R"({"kty":"EC","crv":"P-256","x":")" + ones + R"(","y":")" + ones + R"("})"), 0u)
      << "not on the curve";
  EXPECT_EQ(count(R"({"kty":"EC","crv":"P-256","x":")" + zeros + R"(","y":")" + zeros + R"("})"), 0u);
  EXPECT_EQ(count(R"({"kty":"EC","crv":"secp256k1","x":")" + ones + R"(","y":")" + ones + R"("})"), 0u);
  EXPECT_EQ(count(R"({"kty":"OKP","crv":"Ed25519","x":"AAAA"})"), 0u);
  EXPECT_EQ(count("7, null, [], \"k\", {}"), 0u);
}

TEST(JwkTest, DocumentsThatAreNoKeySetAreRefused) {
  std::string many = "{}";
  for (size_t i = 0; i < keys_max; ++i) many += ",{}";
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("[]"), std::string(R"({"keys":{}})"),
        std::string(R"({"keys":7})"), std::string(R"({"keys":[],"keys":[]})"), R"({"keys":[)" + many + "]}",
        R"({"keys":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", std::string(200'000, '{'),
        R"({"keys":[],"x":")" + std::string(key_set_bytes_max, 'x') + R"("})"}) {
    EXPECT_FALSE(parse_key_set(bad)) << bad.substr(0, 60);
  }
}

}  // namespace
}  // namespace verbena::sign_in
