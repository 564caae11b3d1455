#include "s3_http/test_rig.h"

#include "base/checksum.h"
#include "base/text.h"

namespace verbena::s3::test {
namespace {

// What of a form's policy a test changes.
struct Policy {
  std::string expiration = "2099-01-01T00:00:00Z";
  std::string conditions =
      R"({"bucket": "bucket"}, ["starts-with", "$key", "user/"], ["content-length-range", 0, 100])";
};

class PostTest : public Rig {
 protected:
  PostTest() { make_bucket(); }

  static std::string base64(const std::string& text) { return to_base64(as_bytes(text)); }
  static std::string document(const Policy& policy) {
    return base64("{\"expiration\": \"" + policy.expiration + "\", \"conditions\": [" + policy.conditions + "]}");
  }
  // Fields of a version 2 signature over `policy`.
  static Headers sign(const std::string& policy) {
    return {{"AWSAccessKeyId", "AKID"},
            {"policy", policy},
            {"signature", to_base64(as_bytes(hmac_sha1(as_bytes("SECRET"), as_bytes(policy))))}};
  }
  static std::string body(const Headers& fields, const std::string& file = "content",
                          const std::string& file_name = "my file.txt") {
    std::string out;
    for (const auto& [name, value] : fields) {
      out += "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n";
    }
    return out + "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + file_name + "\"\r\n\r\n" +
           file + "\r\n--XX--\r\n";
  }
  Reply post(const std::string& text, const std::string& type = "multipart/form-data; boundary=XX",
             const Headers& more = {}) {
    TestCall c;
    c.method = "POST";
    c.target = "/bucket";
    c.headers = {{"host", "s3.test:9000"}, {"content-type", type}};
    c.headers.insert(c.headers.end(), more.begin(), more.end());
    c.body = text;
    c.anonymous = true;
    return call(std::move(c));
  }
  Reply post_signed(Headers fields, const Policy& policy = {}, const std::string& file = "content") {
    for (auto& field : sign(document(policy))) fields.push_back(field);
    return post(body(fields, file));
  }
};

// As at RGW: a form's author allows anything of a field, and that is also nothing.
TEST_F(PostTest, AnEmptyPrefixIsMetByAFieldThatIsNotThere) {
  Policy policy;
  policy.conditions += R"(, ["starts-with", "$Content-Type", ""], ["starts-with", "$x-amz-meta-a", ""])";
  EXPECT_EQ(post_signed({{"key", "user/a"}}, policy).status, 204);
  EXPECT_EQ(post_signed({{"key", "user/a"}, {"x-amz-meta-a", "b"}}, policy).status, 204);
  policy.conditions += R"(, ["eq", "$x-amz-meta-b", ""])";
  EXPECT_EQ(post_signed({{"key", "user/a"}}, policy).code, "AccessDenied");
}

TEST_F(PostTest, AFormWithAFittingPolicyStoresItsFile) {
  Policy policy;
  policy.conditions += R"(, {"x-amz-meta-colour": "red"}, ["starts-with", "$Content-Type", "text/"])";
  const Reply r = post_signed(
      {{"key", "user/${filename}"}, {"Content-Type", "text/plain"}, {"x-amz-meta-colour", "red"}, {"x-ignore-me", "1"}},
      policy);
  EXPECT_EQ(r.status, 204) << r.body;
  EXPECT_EQ(r.header("etag"), "\"" + hex_md5("content") + "\"");
  EXPECT_EQ(r.header("location"), "http://s3.test:9000/bucket/user/my%20file.txt");
  const Reply got = call("GET", "/bucket/user/my%20file.txt");
  EXPECT_EQ(got.body, "content");
  EXPECT_EQ(got.header("content-type"), "text/plain");
  EXPECT_EQ(got.header("x-amz-meta-colour"), "red");
}

// Its memory is charged by what was sent.
TEST_F(PostTest, AFileNameInManyPlacesDoesNotBlowAFormUp) {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "${filename}";
  for (const size_t size : {10u, 1000u}) {
    Headers fields = {{"key", "user/${filename}"}, {"x-ignore-a", many}};
    for (auto& field : sign(document({}))) fields.push_back(field);
    const Reply r = post(body(fields, "content", std::string(size, 'n')));
    EXPECT_EQ(r.status, size == 10 ? 204 : 400) << r.body;
    EXPECT_EQ(r.code, size == 10 ? "" : "MaxPostPreDataLengthExceeded");
  }
}

TEST_F(PostTest, AFormsChecksumsAndRedirectAreThoseOfItsFile) {
  for (const Algorithm algorithm : all_algorithms) {
    const std::string name = "x-amz-checksum-" + lower(to_string(algorithm));
    EXPECT_EQ(post_signed({{"key", "user/a"}, {name, base64_digest(algorithm, "other")}}).code, "BadDigest") << name;
    const Reply r = post_signed({{"key", "user/a"}, {name, base64_digest(algorithm, "content")}});
    EXPECT_EQ(r.status, 204) << name << r.body;
    EXPECT_EQ(r.header(name), base64_digest(algorithm, "content"));
  }
  EXPECT_EQ(post_signed({{"key", "user/a"}, {"x-amz-checksum-crc16", "AAA="}}).code, "InvalidRequest");
  Policy policy;
  policy.conditions +=
      R"(, ["starts-with", "$x-amz-website-redirect-location", ""], ["starts-with", "$x-amz-foo", ""])";
  EXPECT_EQ(post_signed({{"key", "user/a"}, {"x-amz-website-redirect-location", "/there"}}, policy).status, 204);
  EXPECT_EQ(call("HEAD", "/bucket/user/a").header("x-amz-website-redirect-location"), "/there");
  EXPECT_EQ(post_signed({{"key", "user/b"}, {"x-amz-foo", "1"}}, policy).status, 501);
  // What a form says stands in its fields: in the head it would not be looked at.
  Headers fields = {{"key", "user/b"}};
  for (auto& field : sign(document({}))) fields.push_back(field);
  for (const Headers& head : {Headers{{"x-amz-checksum-sha256", base64_digest(Algorithm::sha256, "other")}},
                              Headers{{"if-none-match", "*"}}, Headers{{"x-amz-acl", "private"}}}) {
    EXPECT_EQ(post(body(fields), "multipart/form-data; boundary=XX", head).status, 501) << head.front().first;
  }
  EXPECT_EQ(call("HEAD", "/bucket/user/b").status, 404);
}

TEST_F(PostTest, TagsComeAsADocument) {
  Policy policy;
  policy.conditions += R"(, ["starts-with", "$tagging", ""])";
  const std::string tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
  const Reply r = post_signed({{"key", "user/tagged"}, {"tagging", tags}}, policy);
  EXPECT_EQ(r.status, 204) << r.body;
  const Reply got = call("GET", "/bucket/user/tagged?tagging");
  EXPECT_EQ(got.element("Key"), "a");
  EXPECT_EQ(got.element("Value"), "1");
  EXPECT_EQ(post_signed({{"key", "user/none"}, {"tagging", "<Tagging>"}}, policy).code, "MalformedXML");
  EXPECT_EQ(call("GET", "/bucket/user/none").status, 404);
}

TEST_F(PostTest, TheAnswerIsTheOneThatTheFormAsksFor) {
  Policy policy;
  policy.conditions +=
      R"(, ["starts-with", "$success_action_status", ""], ["starts-with", "$success_action_redirect", ""])";
  Reply r = post_signed(
      {{"key", "user/a b"}, {"success_action_status", "201"}},
      {policy.expiration,
       policy.conditions.substr(0, policy.conditions.rfind(", [\"starts-with\", \"$success_action_redirect"))});
  EXPECT_EQ(r.status, 201);
  EXPECT_EQ(r.element("Key"), "user/a b");
  EXPECT_EQ(r.element("Bucket"), "bucket");
  EXPECT_EQ(r.element("Location"), "http://s3.test:9000/bucket/user/a%20b");

  const auto redirected = [&](const std::string& to) {
    return post_signed({{"key", "user/a b"}, {"success_action_redirect", to}, {"success_action_status", "200"}},
                       policy);
  };
  r = redirected("https://example.org/done?x=1");
  EXPECT_EQ(r.status, 303);
  EXPECT_EQ(r.header("location"),
            "https://example.org/done?x=1&bucket=bucket&key=user%2Fa%20b&etag=%22" + hex_md5("content") + "%22");
  // The parameters were behind the fragment, which browsers do not send.
  const std::string stored = "bucket=bucket&key=user%2Fa%20b&etag=%22" + hex_md5("content") + "%22";
  EXPECT_EQ(redirected("https://example.org/done#there").header("location"),
            "https://example.org/done?" + stored + "#there");
  EXPECT_EQ(redirected("https://example.org/done?x=1#there?").header("location"),
            "https://example.org/done?x=1&" + stored + "#there?");
  EXPECT_EQ(redirected("https://example.org/#a?b#c").header("location"), "https://example.org/?" + stored + "#a?b#c");
  // A redirect to something that is not an http address is ignored.
  for (const char* bad : {"nowhere", "https://example.org/\r\nset-cookie: a=b", "javascript:alert(1)", ""}) {
    r = redirected(bad);
    EXPECT_EQ(r.status, 200) << bad;
    EXPECT_FALSE(r.header("location").starts_with("https")) << bad;
  }
}

TEST_F(PostTest, WhatThePolicyDoesNotAllowIsDenied) {
  const auto status = [&](const Headers& fields, const std::string& conditions) {
    return post_signed(fields, {"2099-01-01T00:00:00.000Z", conditions}).code;
  };
  const std::string base = R"({"bucket": "bucket"}, ["starts-with", "$key", "user/"])";
  EXPECT_EQ(status({{"key", "user/a"}}, base), "");
  EXPECT_EQ(status({{"key", "other/a"}}, base), "AccessDenied");
  EXPECT_EQ(status({{"key", "user/a"}}, R"({"bucket": "other"}, ["starts-with", "$key", ""])"), "AccessDenied");
  EXPECT_EQ(status({{"key", "user/a"}}, R"(["starts-with", "$key", ""])"), "AccessDenied") << "bucket not covered";
  EXPECT_EQ(status({{"key", "user/a"}, {"x-amz-meta-a", "b"}}, base), "AccessDenied") << "a field not covered";
  EXPECT_EQ(status({{"key", "user/a"}}, base + R"(, ["eq", "$x-amz-meta-a", "b"])"), "AccessDenied")
      << "a field lacking";
  EXPECT_EQ(status({{"KEY", "user/a"}}, R"({"BucKet": "bucket"}, ["Starts-With", "$kEy", "user/"])"), "");
  EXPECT_EQ(post_signed({{"key", "user/a"}}, {"2020-01-01T00:00:00Z", base}).code, "AccessDenied") << "expired";
}

TEST_F(PostTest, AStartOfContentTypesHoldsForEachOfAList) {
  const auto status = [&](const std::string& type, const std::string& prefix = "image/") {
    Policy policy;
    policy.conditions += R"(, ["starts-with", "$Content-Type", ")" + prefix + "\"]";
    return post_signed({{"key", "user/a"}, {"Content-Type", type}}, policy).status;
  };
  EXPECT_EQ(status("image/png"), 204);
  EXPECT_EQ(status("image/png,image/jpeg"), 204);
  EXPECT_EQ(status("image/png , image/jpeg"), 204);
  EXPECT_EQ(status("image/png,text/html", ""), 204);
  for (const char* type : {"image/png,text/html", "image/png, text/html", "image/png,", ",image/png", "image/png,,"}) {
    EXPECT_EQ(status(type), 403) << type;
  }
  Policy other;
  other.conditions += R"(, ["starts-with", "$x-amz-meta-a", "b"])";
  EXPECT_EQ(post_signed({{"key", "user/a"}, {"x-amz-meta-a", "b,c"}}, other).status, 204) << "no list";
}

TEST_F(PostTest, TheFieldBucketIsTheRequestsBucket) {
  const auto status = [&](const std::string& field, const std::string& condition) {
    const std::string conditions = condition + R"(, ["starts-with", "$key", ""])";
    return post_signed({{"key", "user/a"}, {"bucket", field}}, {"2099-01-01T00:00:00Z", conditions}).status;
  };
  EXPECT_EQ(status("bucket", R"({"bucket": "bucket"})"), 204);
  EXPECT_EQ(status("other", R"({"bucket": "bucket"})"), 403);
  EXPECT_EQ(status("other", R"({"bucket": "other"})"), 403);
  EXPECT_EQ(status("buckets", R"(["starts-with", "$bucket", "bucket"])"), 403);
}

// The policy speaks of "acl", the form says "x-amz-acl", or the other way about.
TEST_F(PostTest, AConditionCoversAHeaderUnderBothOfItsNames) {
  const auto status = [&](const std::string& field, const std::string& value, const std::string& condition) {
    Policy policy;
    policy.conditions += ", " + condition;
    return post_signed({{"key", "user/a"}, {field, value}}, policy).status;
  };
  for (const char* field : {"acl", "x-amz-acl"}) {
    for (const char* condition : {R"({"acl": "private"})", R"(["eq", "$x-amz-acl", "private"])"}) {
      EXPECT_EQ(status(field, "private", condition), 204) << field << condition;
      EXPECT_EQ(status(field, "public-read", condition), 403) << field << condition;
    }
  }
}

TEST_F(PostTest, SizesBeyondThePolicysRangeStoreNothing) {
  const auto sized = [&](const std::string& range) {
    return post_signed({{"key", "user/a"}},
                       {"2099-01-01T00:00:00Z",
                        R"({"bucket": "bucket"}, {"key": "user/a"}, ["content-length-range", )" + range + "]"})
        .code;
  };
  EXPECT_EQ(sized("0, 6"), "EntityTooLarge");
  EXPECT_EQ(sized("8, 100"), "EntityTooSmall");
  EXPECT_EQ(call("HEAD", "/bucket/user/a").status, 404);
  EXPECT_EQ(sized("7, 7"), "");
  EXPECT_EQ(call("HEAD", "/bucket/user/a").status, 200);
}

TEST_F(PostTest, APolicyThatCannotBeReadIsSaidSo) {
  const auto code = [&](const std::string& json) {
    Headers fields = {{"key", "user/a"}};
    for (auto& field : sign(base64(json))) fields.push_back(field);
    return post(body(fields)).code;
  };
  const std::string date = R"("expiration": "2099-01-01T00:00:00Z")";
  const std::vector<std::string> bad = {std::string("no json"),
                                        std::string("[]"),
                                        std::string(R"({"conditions": []})"),
                                        R"({"expiration": "2099-01-01 00:00:00", "conditions": []})",
                                        "{" + date + "}",
                                        "{" + date + R"(, "conditions": {}})",
                                        "{" + date + R"(, "conditions": [{}]})",
                                        "{" + date + R"(, "conditions": [["eq", "$key"]]})",
                                        "{" + date + R"(, "conditions": [["eq", "key", "a"]]})",
                                        "{" + date + R"(, "conditions": [["like", "$key", "a"]]})",
                                        "{" + date + R"(, "conditions": [["content-length-range", 0]]})",
                                        "{" + date + R"(, "conditions": [["content-length-range", -1, 0]]})",
                                        std::string(10'000, '[')};
  for (const std::string& json : bad) {
    EXPECT_EQ(code(json), "InvalidPolicyDocument") << json.substr(0, 100);
  }
}

TEST_F(PostTest, TheSignatureIsWhatLetsAFormIn) {
  const std::string policy = document({});
  Headers fields = {{"key", "user/a"}};
  EXPECT_EQ(post(body(fields)).code, "AccessDenied") << "no policy: anonymous";
  fields.emplace_back("policy", policy);
  EXPECT_EQ(post(body(fields)).code, "InvalidArgument") << "a policy, and no signature";
  fields.emplace_back("AWSAccessKeyId", "AKID");
  EXPECT_EQ(post(body(fields)).code, "InvalidArgument");
  fields.emplace_back("signature", base64("01234567890123456789"));
  EXPECT_EQ(post(body(fields)).code, "SignatureDoesNotMatch");
  fields[2].second = "NOBODY";
  EXPECT_EQ(post(body(fields)).code, "InvalidAccessKeyId");
  EXPECT_EQ(call("HEAD", "/bucket/user/a").status, 404);
}

TEST_F(PostTest, AVersion4SignatureIsOfThePolicyToo) {
  Policy allowed;
  allowed.conditions += R"(, ["starts-with", "$x-amz-credential", ""], ["starts-with", "$x-amz-date", ""], )"
                        R"({"x-amz-algorithm": "AWS4-HMAC-SHA256"})";
  const std::string policy = document(allowed);
  const auto key = auth::signing_key("SECRET", "20260102", "us-east-1", "s3");
  Headers fields = {{"key", "user/a"},
                    {"policy", policy},
                    {"x-amz-credential", "AKID/20260102/us-east-1/s3/aws4_request"},
                    {"x-amz-algorithm", "AWS4-HMAC-SHA256"},
                    {"x-amz-date", "20260102T000000Z"},
                    {"x-amz-signature", to_hex(as_bytes(hmac_sha256(key, as_bytes(policy))))}};
  EXPECT_EQ(post(body(fields)).status, 204);
  auto wrong = fields;
  wrong.back().second[0] = wrong.back().second[0] == 'a' ? 'b' : 'a';
  EXPECT_EQ(post(body(wrong)).code, "SignatureDoesNotMatch");
  wrong = fields;
  wrong[4].second = "20260103T000000Z";
  EXPECT_EQ(post(body(wrong)).code, "InvalidArgument");
  wrong = fields;
  wrong[2].second = "AKID/20260102/us-east-1/sts/aws4_request";
  EXPECT_EQ(post(body(wrong)).code, "InvalidArgument");
}

TEST_F(PostTest, PoliciesSeeTheRequestThatBroughtTheForm) {
  const auto denied_if = [&](const std::string& condition) {
    const std::string text =
        R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:PutObject",)"
        R"("Resource":"arn:aws:s3:::bucket/*","Condition":)" +
        condition + "}}";
    EXPECT_EQ(call("PUT", "/bucket?policy", {}, text).status, 204) << condition;
  };
  const std::string type = "multipart/form-data; boundary=XX";
  Policy allowed;
  allowed.conditions += R"(, ["starts-with", "$referer", ""], ["starts-with", "$x-amz-content-sha256", ""])";
  Headers fields = {{"key", "user/a"}, {"referer", "http://good/"}, {"x-amz-content-sha256", "x"}};
  for (auto& field : sign(document(allowed))) fields.push_back(field);
  const std::string form = body(fields);
  EXPECT_EQ(post(form).status, 204);
  denied_if(R"({"StringNotEquals":{"aws:Referer":"http://good/"}})");
  EXPECT_EQ(post(form).code, "AccessDenied");
  EXPECT_EQ(post(form, type, {{"referer", "http://good/"}}).status, 204);
  denied_if(R"({"StringNotEquals":{"s3:authType":"POST"}})");
  EXPECT_EQ(post(form).status, 204);
  denied_if(R"({"StringEquals":{"s3:signatureversion":"AWS"}})");
  EXPECT_EQ(post(form).code, "AccessDenied");
  denied_if(R"({"StringEquals":{"s3:x-amz-content-sha256":"x"}})");
  EXPECT_EQ(post(form).status, 204);
}

TEST_F(PostTest, AFormThatIsNoneIsAnsweredAsAwsDoes) {
  EXPECT_EQ(post("x", "text/plain").status, 412);
  EXPECT_EQ(post("x", "multipart/form-data").status, 412);
  EXPECT_EQ(post("not a form").code, "MalformedPOSTRequest");
  EXPECT_EQ(post_signed({}, {"2099-01-01T00:00:00Z", R"({"bucket": "bucket"})"}).code, "InvalidArgument") << "no key";
}

TEST_F(PostTest, ADigestThatIsNoneIsNamed) {
  Policy policy;
  policy.conditions += R"(, ["starts-with", "$content-md5", ""])";
  const Reply r = post_signed({{"key", "user/a"}, {"Content-MD5", "nonsense"}}, policy);
  EXPECT_EQ(r.code, "InvalidDigest");
  EXPECT_EQ(r.element("Content-MD5"), "nonsense");
}

TEST_F(PostTest, ChecksumsOfAFormAreVerified) {
  Policy policy;
  policy.conditions += R"(, ["starts-with", "$x-amz-checksum-sha256", ""])";
  const auto with = [&](const std::string& digest) {
    return post_signed({{"key", "user/a"}, {"x-amz-checksum-sha256", digest}}, policy);
  };
  EXPECT_EQ(with(base64_digest(Algorithm::sha256, "other")).code, "BadDigest");
  const Reply r = with(base64_digest(Algorithm::sha256, "content"));
  EXPECT_EQ(r.status, 204);
  EXPECT_EQ(r.header("x-amz-checksum-sha256"), base64_digest(Algorithm::sha256, "content"));
}

}  // namespace
}  // namespace verbena::s3::test
