#include "sign_in/claims.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::sign_in {
namespace {

using nlohmann::json;
using Reason = Refusal::Kind;

constexpr int64_t now = 1'767'323'045;
const std::vector<std::string> clients = {"app", "other"};

json good_claims() {
  return {{"iss", "https://idp.example.org/r"}, {"sub", "alice"}, {"aud", "app"}, {"iat", now}, {"exp", now + 600}};
}
json with(json claims, const char* name, json value) {
  claims[name] = std::move(value);
  return claims;
}
std::optional<Reason> refused(const json& claims) {
  const auto checked = check_claims(claims, clients, now);
  return checked ? std::nullopt : std::optional(checked.error().kind);
}

TEST(ClaimsTest, ATokenIsGoodForItsAudienceAndItsTime) {
  const auto checked = check_claims(good_claims(), clients, now);
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->name, "alice");
  EXPECT_EQ(checked->audience, "app");
  EXPECT_EQ(issuer_of(good_claims()), "idp.example.org/r");
  EXPECT_FALSE(refused(with(good_claims(), "exp", now - clock_leeway_s + 1))) << "clocks differ a little";
  EXPECT_EQ(refused(with(good_claims(), "exp", now - clock_leeway_s)), Reason::expired_token);
  EXPECT_EQ(refused(with(good_claims(), "nbf", now + clock_leeway_s + 1)), Reason::invalid_token);
  EXPECT_EQ(refused(with(good_claims(), "iat", now + clock_leeway_s + 1)), Reason::invalid_token);
  EXPECT_FALSE(refused(with(good_claims(), "nbf", now + 1.5)));
}

TEST(ClaimsTest, ATokenForSomebodyElseIsRefused) {
  EXPECT_EQ(refused(with(good_claims(), "aud", "stranger")), Reason::invalid_token);
  EXPECT_EQ(refused(with(good_claims(), "aud", "APP")), Reason::invalid_token);
  EXPECT_EQ(refused(with(good_claims(), "aud", json::array())), Reason::invalid_token);
  EXPECT_EQ(refused(with(good_claims(), "aud", json::array({"app", 7}))), Reason::invalid_token);
  // For several audiences: it must name its authorized party.
  EXPECT_EQ(refused(with(good_claims(), "aud", json::array({"app", "stranger"}))), Reason::invalid_token);
  EXPECT_EQ(refused(with(with(good_claims(), "aud", json::array({"app", "stranger"})), "azp", "stranger")),
            Reason::invalid_token);
  EXPECT_FALSE(refused(with(with(good_claims(), "aud", json::array({"stranger", "app"})), "azp", "app")));
  EXPECT_EQ(refused(with(good_claims(), "azp", "stranger")), Reason::invalid_token);
  EXPECT_EQ(refused(with(good_claims(), "azp", 7)), Reason::invalid_token);
  EXPECT_EQ(check_claims(good_claims(), {}, now).error().kind, Reason::invalid_token) << "a provider without clients";
}

// A role that trusted tokens for "stranger" also admitted those for "app" that "stranger" may read.
TEST(ClaimsTest, OfSeveralAudiencesPoliciesSeeTheOneThatItWasMadeFor) {
  const std::vector<std::string> both{"other", "app"};
  const json claims = with(with(good_claims(), "aud", json::array({"stranger", "other", "app"})), "azp", "app");
  const auto checked = check_claims(claims, both, now);
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->audience, "app");
  for (const char* issuer : {"idp.example.org/r", "idp.example.org"}) {
    auth::FactValues values;
    EXPECT_TRUE(find_claim(claims, issuer, *checked, std::string(issuer) + ":aud", values));
    EXPECT_EQ(values, auth::FactValues{"app"});
  }
}

TEST(ClaimsTest, ClaimsThatAreMissingOrNotWhatTheyShouldBeAreRefused) {
  for (const char* name : {"sub", "aud", "exp", "iat"}) {
    json claims = good_claims();
    claims.erase(name);
    EXPECT_EQ(refused(claims), Reason::invalid_token) << name;
    for (const json& bad : {json(nullptr), json(true), json::object(), json("-1"), json(-5), json(1e300)}) {
      if (std::string_view(name) == "sub" && bad.is_string()) continue;
      EXPECT_TRUE(refused(with(good_claims(), name, bad))) << name << bad;
    }
  }
  EXPECT_TRUE(refused(with(good_claims(), "sub", std::string(256, 'a'))));
  EXPECT_TRUE(refused(with(good_claims(), "sub", "a\nb")));
  EXPECT_TRUE(refused(with(good_claims(), "nbf", "soon")));
  EXPECT_FALSE(issuer_of(with(good_claims(), "iss", "http://idp.example.org")));
  EXPECT_FALSE(issuer_of(with(good_claims(), "iss", 7)));
}

TEST(ClaimsTest, TagsAreReadAsAwsHasThemInEitherForm) {
  const Subject subject{"alice", "app"};
  const json nested = {{"principal_tags", {{"Team", {"red"}}, {"Cost", "7"}}}, {"transitive_tag_keys", {"team"}}};
  auto read = read_attributes(with(good_claims(), "https://aws.amazon.com/tags", nested), "idp.example.org/r", subject);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tags.at("team"), "red");
  EXPECT_EQ(read->tags.at("Cost"), "7");
  EXPECT_EQ(read->transitive, std::vector<std::string>{"team"});
  EXPECT_EQ(read->claims.at("idp.example.org/r:sub"), std::vector<std::string>{"alice"});
  EXPECT_EQ(read->claims.at("idp.example.org/r:aud"), std::vector<std::string>{"app"});
  json flat = with(good_claims(), "https://aws.amazon.com/tags/principal_tags/Team", {"red"});
  flat["https://aws.amazon.com/tags/transitive_tag_keys"] = {"Team"};
  flat["https://aws.amazon.com/source_identity"] = "alice@example.org";
  read = read_attributes(flat, "IDP.example.org/R", subject);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tags.at("Team"), "red");
  EXPECT_EQ(read->source_identity, "alice@example.org");
  EXPECT_TRUE(read->claims.contains("idp.example.org/R:sub")) << "as condition keys are compared";
}

TEST(ClaimsTest, TagsThatAreNotAsAwsHasThemAreRefused) {
  const Subject subject{"alice", "app"};
  const auto tags = [&](const json& value) {
    const auto read =
        read_attributes(with(good_claims(), "https://aws.amazon.com/tags", value), "idp.example.org/r", subject);
    return read.has_value() || read.error().kind != Reason::rejected_claim;
  };
  json many = json::object();
  for (int i = 0; i < 51; ++i) many["k" + std::to_string(i)] = {"v"};
  for (const json& bad :
       {json(7), json::array(), json{{"principal_tags", 7}}, json{{"principal_tags", {{"a", {"b", "c"}}}}},
        json{{"principal_tags", {{"a", json::array()}}}}, json{{"principal_tags", {{"", {"b"}}}}},
        json{{"principal_tags", {{"aws:a", {"b"}}}}}, json{{"principal_tags", {{"AWS:a", {"b"}}}}},
        json{{"principal_tags", {{"a", {"b"}}, {"A", {"c"}}}}}, json{{"principal_tags", many}},
        json{{"principal_tags", {{std::string(129, 'k'), {"b"}}}}}, json{{"something", 7}},
        json{{"principal_tags", {{"a", {std::string(257, 'v')}}}}}, json{{"principal_tags", {{"a", {"b\n"}}}}},
        json{{"transitive_tag_keys", {"a"}}}, json{{"transitive_tag_keys", {7}}}}) {
    EXPECT_FALSE(tags(bad)) << bad.dump().substr(0, 100);
  }
  for (const json& bad : {json(7), json("a"), json("a b"), json("aws:me"), json(std::string(65, 'a'))}) {
    EXPECT_FALSE(
        read_attributes(with(good_claims(), "https://aws.amazon.com/source_identity", bad), "i.example/r", subject))
        << bad;
  }
}

TEST(ClaimsTest, ConditionsFindClaimsOfTheirProviderAlone) {
  json claims = good_claims();
  claims.update({{"groups", {"dev", "ops"}}, {"admin", true}, {"level", 7}, {"nested", {{"a", 1}}}, {"Repo", "x"}});
  const Subject subject{"alice", "app"};
  const auto find = [&](std::string_view issuer, std::string_view key) {
    auth::FactValues values;
    return find_claim(claims, issuer, subject, key, values) ? values : auth::FactValues{"-"};
  };
  EXPECT_EQ(find("idp.example.org/r", "idp.example.org/r:sub"), auth::FactValues{"alice"});
  EXPECT_EQ(find("idp.example.org/r", "idp.example.org/r:groups"), (auth::FactValues{"dev", "ops"}));
  EXPECT_EQ(find("idp.example.org/r", "idp.example.org/r:admin"), auth::FactValues{"true"});
  EXPECT_EQ(find("idp.example.org/r", "idp.example.org/r:level"), auth::FactValues{"7"});
  for (const char* other :
       {"idp.example.org/r:nested", "idp.example.org/r:none", "idp.example.org:sub", "idp.example.org/other:sub",
        "idp.example.org/r", "idp.example.org/r:", "sub", "aws:sub", "idp.example.org/r:Sub"}) {
    EXPECT_EQ(find("idp.example.org/r", other), auth::FactValues{"-"}) << other;
  }
  // A bare host: such a key is entirely in lower case at look-up.
  EXPECT_EQ(find("idp.example.org", "idp.example.org:repo"), auth::FactValues{"x"});
  claims["REPO"] = "y";
  EXPECT_EQ(find("idp.example.org", "idp.example.org:repo"), auth::FactValues{"-"}) << "which of the two?";
  // No provider can claim the address of a request, or an AWS identity.
  claims["sourceip"] = "10.0.0.1";
  EXPECT_EQ(find("aws", "aws:sourceip"), auth::FactValues{"-"});
  EXPECT_TRUE(read_attributes(claims, "aws", {"alice", "app"})->claims.empty());
}

}  // namespace
}  // namespace verbena::sign_in
