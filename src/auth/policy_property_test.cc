// The evaluator against a slow, literal reading of AWS's "Policy evaluation logic": policies as JSON values, text
// compared by recursion, one question at a time.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "auth/policy.h"
#include "auth/principal.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

struct Person {
  std::string account, kind, name, session;  // kind: root, user, role; empty: anonymous
};

struct World {
  std::string bucket_owner;
  Person asker;
  std::string action, resource;
  std::map<std::string, std::string> facts;  // s3:prefix, aws:sourceip
  std::vector<Json> identity, session;
  std::optional<Json> bucket;
};

// ---- The literal reading.

bool like(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return like(pattern.substr(1), text) || (!text.empty() && like(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && like(pattern.substr(1), text.substr(1));
}

bool any_like(const Json& list, std::string_view text) {
  for (const auto& pattern : list) {
    if (like(pattern.get<std::string>(), text)) return true;
  }
  return false;
}

bool condition_holds(const World& world, const std::string& op, const std::string& key, const Json& values) {
  const auto fact = world.facts.find(key);
  const bool present = fact != world.facts.end();
  if (op == "Null") return (values[0] == "true") != present;
  const bool if_exists = op.ends_with("IfExists");
  const std::string test = if_exists ? op.substr(0, op.size() - 8) : op;
  const bool negated = test.find("Not") != std::string::npos;
  if (!present) return if_exists || negated;
  bool matched = false;
  for (const auto& value : values) {
    const auto text = value.get<std::string>();
    if (test.ends_with("Equals")) matched = matched || text == fact->second;
    if (test.ends_with("Like")) matched = matched || like(text, fact->second);
    // The only ranges here are 10.0.0.0/8 and 192.0.2.0/24.
    if (test.ends_with("IpAddress")) {
      matched = matched || fact->second.starts_with(text == "10.0.0.0/8" ? "10." : "192.0.2.");
    }
  }
  return matched != negated;
}

bool concerns(const World& world, const Json& statement) {
  const bool action = statement.contains("Action") ? any_like(statement["Action"], world.action)
                                                   : !any_like(statement["NotAction"], world.action);
  const bool resource = statement.contains("Resource") ? any_like(statement["Resource"], world.resource)
                                                       : !any_like(statement["NotResource"], world.resource);
  if (!action || !resource) return false;
  if (!statement.contains("Condition")) return true;
  for (const auto& [op, keys] : statement["Condition"].items()) {
    for (const auto& [key, values] : keys.items()) {
      if (!condition_holds(world, op, key, values)) return false;
    }
  }
  return true;
}

// Whether this string of a Principal element names the caller, or its account, or the session itself.
bool names_him(const World& world, const std::string& text) {
  const Person& he = world.asker;
  if (text == "*") return true;
  if (he.kind == "root") return text == he.account || text == "arn:aws:iam::" + he.account + ":root";
  if (he.kind == "user") return text == "arn:aws:iam::" + he.account + ":user/" + he.name;
  if (he.kind == "role") return text == "arn:aws:iam::" + he.account + ":role/" + he.name;
  return false;
}
bool names_his_account(const World& world, const std::string& text) {
  const Person& he = world.asker;
  return !he.kind.empty() && (text == he.account || text == "arn:aws:iam::" + he.account + ":root");
}
bool names_his_session(const World& world, const std::string& text) {
  const Person& he = world.asker;
  return he.kind == "role" && text == "arn:aws:sts::" + he.account + ":assumed-role/" + he.name + "/" + he.session;
}

struct Given {
  bool denied = false, to_account = false, to_him = false, to_session = false;
};

Given read_bucket_policy(const World& world) {
  Given given;
  if (!world.bucket) return given;
  for (const auto& statement : (*world.bucket)["Statement"]) {
    if (!concerns(world, statement)) continue;
    bool account = false, him = false, session = false;
    const bool negated = statement.contains("NotPrincipal");
    for (const auto& item : statement[negated ? "NotPrincipal" : "Principal"]["AWS"]) {
      const auto text = item.get<std::string>();
      account = account || names_his_account(world, text);
      him = him || names_him(world, text);
      session = session || names_his_session(world, text);
    }
    if (negated) {
      if (!him && !session) given.denied = true;  // NotPrincipal occurs only with Deny
    } else if (statement["Effect"] == "Deny") {
      if (account || him || session) given.denied = true;
    } else {
      given.to_account = given.to_account || account;
      given.to_him = given.to_him || him;
      given.to_session = given.to_session || session;
    }
  }
  return given;
}

struct Own {
  bool denied = false, allowed = false;
};
Own read_own(const World& world, const std::vector<Json>& policies) {
  Own own;
  for (const auto& policy : policies) {
    for (const auto& statement : policy["Statement"]) {
      if (!concerns(world, statement)) continue;
      (statement["Effect"] == "Deny" ? own.denied : own.allowed) = true;
    }
  }
  return own;
}

Decision literally(const World& world) {
  const Given given = read_bucket_policy(world);
  const Own identity = read_own(world, world.identity), session = read_own(world, world.session);
  const bool anonymous = world.asker.kind.empty();
  // 1. An explicit denial in any policy.
  if (given.denied) return Decision::denied;
  if (!anonymous && (identity.denied || session.denied)) return Decision::denied;
  // 2. Anonymous callers have only the bucket's policy.
  if (anonymous) return given.to_him ? Decision::allowed : Decision::refused;
  const bool same_account = world.asker.account == world.bucket_owner;
  const bool root = world.asker.kind == "root";
  const bool own_side = root || identity.allowed;
  const bool in_session = world.session.empty() || session.allowed;
  if (same_account) {
    // 3. A bucket policy that names the session itself is not limited by session policies.
    if (given.to_session) return Decision::allowed;
    // 4. Within an account either side is enough, as far as the session policy goes.
    return (own_side || given.to_him) && in_session ? Decision::allowed : Decision::refused;
  }
  // 5. Across accounts both sides must allow.
  const bool their_side = given.to_him || given.to_account || given.to_session;
  return their_side && own_side && in_session ? Decision::allowed : Decision::refused;
}

// ---- The same by the evaluator.

class WorldFacts : public Facts {
 public:
  explicit WorldFacts(const World& world) : world_(world) {}
  bool find(std::string_view key, FactValues& values) const override {
    for (const auto& [name, value] : world_.facts) {
      std::string low;
      for (const char c : name) low += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      if (low != key) continue;
      values.push_back(value);
      return true;
    }
    return false;
  }

 private:
  const World& world_;
};

PolicyPtr compiled(const Json& json, PolicyKind kind) {
  auto policy = parse_policy(json.dump(), kind);
  if (!policy) RC_FAIL(std::string(policy.error().context) + ": " + json.dump());
  return *policy;
}

Decision by_evaluator(const World& world) {
  const WorldFacts facts(world);
  Principal principal;
  const Person& he = world.asker;
  principal.account = std::make_shared<Account>(Account{he.account, "canonical-" + he.account, "", ""});
  principal.name = he.kind == "user" ? he.name : "";
  if (he.kind == "root") principal.arn = "arn:aws:iam::" + he.account + ":root";
  if (he.kind == "user") {
    principal.kind = Principal::Kind::user;
    principal.arn = "arn:aws:iam::" + he.account + ":user/" + he.name;
  }
  if (he.kind == "role") {
    principal.kind = Principal::Kind::assumed_role;
    principal.arn = "arn:aws:sts::" + he.account + ":assumed-role/" + he.name + "/" + he.session;
  }
  for (const auto& json : world.identity) principal.policies.push_back(compiled(json, PolicyKind::identity));
  for (const auto& json : world.session) principal.session.push_back(compiled(json, PolicyKind::identity));
  PolicyPtr bucket;
  if (world.bucket) bucket = compiled(*world.bucket, PolicyKind::resource);
  const std::string owner = "canonical-" + world.bucket_owner;
  const Question question{he.kind.empty() ? nullptr : &principal, world.action, world.resource, &facts};
  return decide(question, {.policy = bucket.get(), .owner = owner});
}

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
  if (chance(60)) world.facts["s3:prefix"] = one<std::string>({"home", "xy", ""});
  if (chance(70)) world.facts["aws:SourceIp"] = one<std::string>({"10.1.2.3", "192.0.2.9", "203.0.113.1"});
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
      const Decision expected = literally(world);
      ++seen[expected];
      RC_LOG() << (world.bucket ? world.bucket->dump() : "no bucket policy") << " " << Json(world.identity).dump()
               << " " << Json(world.session).dump() << " asker " << world.asker.kind << " " << world.asker.account
               << " of " << world.bucket_owner << " " << world.action << " " << world.resource << "\n";
      RC_ASSERT(by_evaluator(world) == expected);
    }
  }));
  // A generator that produces only refusals would prove nothing.
  EXPECT_GT(seen[Decision::allowed], 200);
  EXPECT_GT(seen[Decision::refused], 200);
  EXPECT_GT(seen[Decision::denied], 200);
}

}  // namespace
}  // namespace verbena::auth
