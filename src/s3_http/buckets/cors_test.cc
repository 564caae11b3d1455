#include "s3_http/buckets/cors.h"

#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

std::string configuration(const std::string& rules) { return "<CORSConfiguration>" + rules + "</CORSConfiguration>"; }
std::string allow(const std::string& method, const std::string& origin, const std::string& more = "") {
  return "<CORSRule><AllowedMethod>" + method + "</AllowedMethod><AllowedOrigin>" + origin + "</AllowedOrigin>" + more +
         "</CORSRule>";
}

class CorsTest : public Rig {
 protected:
  CorsTest() { make_bucket(); }
  Reply configure(const std::string& xml) {
    return call("PUT", "/bucket?cors", {{"content-md5", base64_digest(Algorithm::md5, xml)}}, xml);
  }
  Reply preflight(Headers headers, const std::string& target = "/bucket/k") {
    TestCall c;
    c.method = "OPTIONS";
    c.target = target;
    c.headers = std::move(headers);
    c.anonymous = true;
    return call(std::move(c));
  }
};

TEST_F(CorsTest, AConfigurationIsKeptGivenBackAndDeleted) {
  EXPECT_EQ(call("GET", "/bucket?cors").code, "NoSuchCORSConfiguration");
  const std::string xml = configuration(allow("GET", "https://*.example.org",
                                              "<ID>one</ID><AllowedHeader>x-*</AllowedHeader><ExposeHeader>ETag"
                                              "</ExposeHeader><MaxAgeSeconds>30</MaxAgeSeconds>"));
  EXPECT_EQ(configure(xml).status, 200);
  const Reply r = call("GET", "/bucket?cors");
  EXPECT_EQ(r.element("AllowedOrigin"), "https://*.example.org");
  EXPECT_EQ(r.element("AllowedHeader"), "x-*");
  EXPECT_EQ(r.element("ExposeHeader"), "ETag");
  EXPECT_EQ(r.element("MaxAgeSeconds"), "30");
  EXPECT_EQ(r.element("ID"), "one");
  EXPECT_EQ(call("DELETE", "/bucket?cors").status, 204);
  EXPECT_EQ(call("GET", "/bucket?cors").status, 404);
  EXPECT_EQ(call("GET", "/nobucket?cors").code, "NoSuchBucket");
}

TEST_F(CorsTest, AConfigurationThatAwsDoesNotTakeIsRefused) {
  EXPECT_EQ(configure("<CORSConfiguration/>").code, "MalformedXML");
  EXPECT_EQ(configure(configuration("<CORSRule/>")).code, "MalformedXML");
  EXPECT_EQ(configure(configuration(allow("PATCH", "*"))).code, "InvalidRequest");
  EXPECT_EQ(configure(configuration(allow("GET", "*.a.*"))).code, "InvalidRequest");
  EXPECT_EQ(configure(configuration(allow("GET", "*", "<ExposeHeader>*</ExposeHeader>"))).code, "InvalidRequest");
  EXPECT_EQ(configure(configuration(allow("GET", "*", "<MaxAgeSeconds>-1</MaxAgeSeconds>"))).code, "MalformedXML");
  EXPECT_EQ(configure(configuration(allow("GET", "*", "<Unknown/>"))).code, "MalformedXML");
  std::string many;
  for (int i = 0; i < 101; ++i) many += allow("GET", "*");
  EXPECT_EQ(configure(configuration(many)).code, "MalformedXML");
  EXPECT_EQ(call("PUT", "/bucket?cors", {}, configuration(allow("GET", "*"))).code, "InvalidRequest") << "no digest";
}

TEST_F(CorsTest, APreflightIsAnsweredByTheFirstRuleThatFits) {
  EXPECT_EQ(preflight({}).status, 400);
  EXPECT_EQ(preflight({{"origin", "a"}}).status, 400);
  const Headers ask = {{"origin", "http://a.test"}, {"access-control-request-method", "GET"}};
  EXPECT_EQ(preflight(ask).status, 403) << "no configuration";
  configure(configuration(allow("GET", "http://a.*", "<AllowedHeader>X-Amz-*</AllowedHeader>") + allow("PUT", "*")));

  Reply r = preflight({{"origin", "http://a.test"},
                       {"access-control-request-method", "GET"},
                       {"access-control-request-headers", "x-amz-date, X-Amz-Meta-A"}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("access-control-allow-origin"), "http://a.test");
  EXPECT_EQ(r.header("access-control-allow-methods"), "GET");
  EXPECT_EQ(r.header("access-control-allow-headers"), "x-amz-date, x-amz-meta-a");
  EXPECT_EQ(r.header("access-control-allow-credentials"), "true");
  EXPECT_EQ(r.header("vary"), "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");

  r = preflight({{"origin", "http://b.test"}, {"access-control-request-method", "PUT"}}, "/bucket?uploads&x=y");
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("access-control-allow-origin"), "*");
  EXPECT_FALSE(r.has("access-control-allow-credentials"));

  r = preflight({{"origin", "http://b.test"}, {"access-control-request-method", "GET"}});
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(r.code, "AccessForbidden");
  EXPECT_FALSE(r.has("access-control-allow-origin"));
  EXPECT_EQ(preflight({{"origin", "http://a.test"},
                       {"access-control-request-method", "GET"},
                       {"access-control-request-headers", "authorization"}})
                .status,
            403);
  EXPECT_EQ(preflight(ask, "/nobucket").code, "NoSuchBucket");
}

TEST_F(CorsTest, OtherAnswersCarryTheHeadersTooAlsoErrors) {
  configure(configuration(allow("GET", "http://a.test", "<ExposeHeader>ETag</ExposeHeader>")));
  put("k", "x");
  Reply r = call("GET", "/bucket/k", {{"origin", "http://a.test"}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("access-control-allow-origin"), "http://a.test");
  EXPECT_EQ(r.header("access-control-expose-headers"), "ETag");
  EXPECT_FALSE(call("GET", "/bucket/k", {{"origin", "http://b.test"}}).has("access-control-allow-origin"));
  EXPECT_FALSE(call("GET", "/bucket/k").has("vary"));
  EXPECT_EQ(call("GET", "/bucket/none", {{"origin", "http://a.test"}}).header("access-control-allow-origin"),
            "http://a.test");
  TestCall anonymous;
  anonymous.target = "/bucket/k";
  anonymous.headers = {{"origin", "http://a.test"}};
  anonymous.anonymous = true;
  r = call(anonymous);
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(r.header("access-control-allow-origin"), "http://a.test");
}

TEST(CorsRules, AQuestionWithoutEndIsNotAnswered) {
  const auto rules = parse_cors(configuration(allow("GET", "*", "<AllowedHeader>*</AllowedHeader>"))).value();
  std::string names = "x";
  for (int i = 1; i < 100; ++i) names += ",x";
  EXPECT_NE(find_cors_rule(rules, {"o", "GET", names}), nullptr);
  names += ",x";
  EXPECT_EQ(find_cors_rule(rules, {"o", "GET", names}), nullptr);
}

TEST(CorsRules, HeadersAreFoundAmongAnyNumberOfPatternsWithoutCase) {
  std::string patterns;
  for (int i = 0; i < 500; ++i) patterns += "<AllowedHeader>X-A-" + std::to_string(i) + "</AllowedHeader>";
  for (int i = 0; i < 500; ++i) patterns += "<AllowedHeader>Y-" + std::to_string(i) + "-*-End</AllowedHeader>";
  const auto rules = parse_cors(configuration(allow("GET", "*", patterns))).value();
  const auto fit = [&](std::string_view names) { return find_cors_rule(rules, {"o", "GET", names}) != nullptr; };
  EXPECT_TRUE(fit("x-a-0, X-A-499,x-A-77,x-a-77"));
  EXPECT_TRUE(fit("y-499--end, Y-0-any-END"));
  EXPECT_FALSE(fit("x-a-0, x-a-500"));
  EXPECT_FALSE(fit("x-a-"));
  EXPECT_FALSE(fit("y-499-end"));
  EXPECT_FALSE(fit("y-1-a-en"));
  EXPECT_EQ(rules.front().headers.front(), "X-A-0") << "shown as written";
}

TEST(CorsRules, AWildcardStandsForAnyText) {
  const auto rules = parse_cors(configuration(allow("GET", "start*end"))).value();
  const auto fits = [&](std::string_view origin) { return find_cors_rule(rules, {origin, "GET", {}}) != nullptr; };
  EXPECT_TRUE(fits("startend"));
  EXPECT_TRUE(fits("start12end"));
  EXPECT_FALSE(fits("0start12end"));
  EXPECT_FALSE(fits("starten"));
  EXPECT_FALSE(fits("start"));
}

}  // namespace
}  // namespace verbena::s3::test
