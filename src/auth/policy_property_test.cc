// The evaluator against a slow, literal reading of AWS's "Policy evaluation logic" (test_literal_policy.h), which a
// fuzzer compares it with as well (fuzz/policy_twin_fuzz.cc).
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "auth/test_literal_policy.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;
using namespace literal;

// ---- Random worlds, small enough for coincidences.

const std::vector<std::string> accounts = {"111111111111", "222222222222"};
const std::vector<std::string> actions = {"s3:GetObject", "s3:PutObject", "s3:ListBucket"};
const std::vector<std::string> action_patterns = {"s3:GetObject", "s3:Get*",     "s3:*", "*",
                                                  "s3:PutObject", "s3:?etObject"};
const std::vector<std::string> resources = {"arn:aws:s3:::b", "arn:aws:s3:::b/a", "arn:aws:s3:::b/a/b"};
const std::vector<std::string> resource_patterns = {"*", "arn:aws:s3:::b/*", "arn:aws:s3:::b", "arn:aws:s3:::b/a?b",
                                                    "arn:aws:s3:::*a"};

template <class T>
T one(const std::vector<T>& from) {
  return *rc::gen::elementOf(from);
}
// At its nominal size: small ranges would be drawn from their beginning.
bool chance(int percent) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 100)) < percent; }

Json some(const std::vector<std::string>& from) {
  Json list = Json::array({one(from)});
  if (chance(30)) list.push_back(one(from));
  return list;
}

Json random_principals() {
  const std::string account = one(accounts);
  const std::vector<std::string> forms = {"*",
                                          account,
                                          "arn:aws:iam::" + account + ":root",
                                          "arn:aws:iam::" + account + ":user/ann",
                                          "arn:aws:iam::" + account + ":role/reader",
                                          "arn:aws:sts::" + account + ":assumed-role/reader/job"};
  return {{"AWS", some(forms)}};
}

Json random_statement(bool of_bucket) {
  Json statement;
  statement["Effect"] = chance(70) ? "Allow" : "Deny";
  statement[chance(85) ? "Action" : "NotAction"] = some(action_patterns);
  statement[chance(85) ? "Resource" : "NotResource"] = some(resource_patterns);
  if (of_bucket) {
    const bool negated = statement["Effect"] == "Deny" && chance(30);
    statement[negated ? "NotPrincipal" : "Principal"] = random_principals();
  }
  if (chance(40)) {
    const std::vector<std::string> text_ops = {"StringEquals",  "StringNotEquals",      "StringLike",
                                               "StringNotLike", "StringEqualsIfExists", "StringNotLikeIfExists"};
    statement["Condition"][one(text_ops)]["s3:prefix"] = some({"home", "h*", "x?"});
  }
  if (chance(20)) {
    const std::vector<std::string> ip_ops = {"IpAddress", "NotIpAddress", "IpAddressIfExists"};
    statement["Condition"][one(ip_ops)]["aws:SourceIp"] = some({"10.0.0.0/8", "192.0.2.0/24"});
  }
  if (chance(10)) statement["Condition"]["Null"]["s3:prefix"] = Json::array({chance(50) ? "true" : "false"});
  return statement;
}

Json random_policy(bool of_bucket) {
  Json policy = {{"Version", "2012-10-17"}, {"Statement", Json::array()}};
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) policy["Statement"].push_back(random_statement(of_bucket));
  return policy;
}

World random_world() {
  World world;
  world.bucket_owner = one(accounts);
  world.asker.kind = one<std::string>({"", "root", "user", "role"});
  world.asker.account = one(accounts);
  world.asker.name = world.asker.kind == "role" ? "reader" : one<std::string>({"ann", "bob"});
  world.asker.session = one<std::string>({"job", "other"});
  world.action = one(actions);
  world.resource = one(resources);
  if (chance(60)) world.facts["s3:prefix"] = {one<std::string>({"home", "xy", ""})};
  if (chance(70)) world.facts["aws:SourceIp"] = {one<std::string>({"10.1.2.3", "192.0.2.9", "203.0.113.1"})};
  if (chance(80)) world.bucket = random_policy(true);
  const bool has_policies = world.asker.kind == "user" || world.asker.kind == "role";
  if (has_policies && chance(75)) world.identity.push_back(random_policy(false));
  if (has_policies && chance(20)) world.identity.push_back(random_policy(false));
  if (world.asker.kind == "role" && chance(40)) world.session.push_back(random_policy(false));
  return world;
}

TEST(PolicyProperty, TheEvaluatorDecidesAsALiteralReadingOfAwsDoes) {
  std::map<Decision, int> seen;
  ASSERT_TRUE(rc::check("decide() is the literal reading", [&] {
    for (int i = 0; i < 40; ++i) {
      const World world = random_world();
      const Decision expected = decide_literally(world);
      ++seen[expected];
      RC_LOG() << (world.bucket ? world.bucket->dump() : "no bucket policy") << " " << Json(world.identity).dump()
               << " " << Json(world.session).dump() << " asker " << world.asker.kind << " " << world.asker.account
               << " of " << world.bucket_owner << " " << world.action << " " << world.resource << "\n";
      const auto judged = judge_by_evaluator(world);
      RC_ASSERT(judged.has_value());
      RC_ASSERT(judged->decision == expected);
      if (expected == Decision::allowed && world.resource != "arn:aws:s3:::b") RC_ASSERT(judged->could_be_allowed);
    }
  }));
  // A generator that produces only refusals would prove nothing.
  EXPECT_GT(seen[Decision::allowed], 200);
  EXPECT_GT(seen[Decision::refused], 200);
  EXPECT_GT(seen[Decision::denied], 200);
}

}  // namespace
}  // namespace verbena::auth
