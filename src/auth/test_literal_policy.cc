#include "auth/test_literal_policy.h"

#include "auth/principal.h"

namespace verbena::auth::literal {
namespace {

using Json = nlohmann::json;

// ---- The literal reading.

std::string low(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

bool like(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return like(pattern.substr(1), text) || (!text.empty() && like(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && like(pattern.substr(1), text.substr(1));
}

// The pattern with the caller's name for the variable. nullopt: the caller has none, so it matches nothing.
std::optional<std::string> filled(const World& world, std::string pattern) {
  constexpr std::string_view variable = "${aws:username}";
  for (size_t at = pattern.find(variable); at != std::string::npos; at = pattern.find(variable)) {
    if (world.asker.kind != "user") return std::nullopt;
    pattern.replace(at, variable.size(), world.asker.name);
  }
  return pattern;
}

// Actions are compared in any case, resources as they are.
bool any_action_like(const Json& list, std::string_view text) {
  for (const auto& pattern : list) {
    if (like(low(pattern.get<std::string>()), low(text))) return true;
  }
  return false;
}
bool any_resource_like(const World& world, const Json& list) {
  for (const auto& pattern : list) {
    const auto whole = filled(world, pattern.get<std::string>());
    if (whole && like(*whole, world.resource)) return true;
  }
  return false;
}

std::vector<std::string> components(const std::string& arn) {
  std::vector<std::string> out;
  size_t from = 0;
  for (int i = 0; i < 5; ++i) {
    const size_t colon = arn.find(':', from);
    if (colon == std::string::npos) return {};
    out.push_back(arn.substr(from, colon - from));
    from = colon + 1;
  }
  out.push_back(arn.substr(from));
  return out;
}

bool arn_like(const std::string& pattern, const std::string& value) {
  const auto wanted = components(pattern), have = components(value);
  if (wanted.empty() || have.empty()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!like(wanted[i], have[i])) return false;
  }
  return true;
}

// Texts of one form sort as their times do.
bool in_order(const std::string& test, auto value, auto operand) {
  if (test.ends_with("NotEquals")) return value == operand;  // before the negation
  if (test.ends_with("GreaterThanEquals")) return value >= operand;
  if (test.ends_with("LessThanEquals")) return value <= operand;
  if (test.ends_with("GreaterThan")) return value > operand;
  if (test.ends_with("LessThan")) return value < operand;
  return value == operand;
}

// Whether one value of the request passes the test, before its negation, against one operand.
bool passes(const World& world, const std::string& test, const std::string& value, const std::string& text) {
  if (test.starts_with("Numeric")) return in_order(test, std::stoll(value), std::stoll(text));
  if (test.starts_with("Date")) return in_order(test, value, text);
  if (test.starts_with("Bool")) return value == text;
  if (test.starts_with("Arn")) return arn_like(text, value);
  // The only ranges here are 10.0.0.0/8 and 192.0.2.0/24.
  if (test.ends_with("IpAddress")) return value.starts_with(text == "10.0.0.0/8" ? "10." : "192.0.2.");
  const auto operand = filled(world, text);
  if (!operand) return false;
  if (test.ends_with("IgnoreCase")) return low(*operand) == low(value);
  return test.ends_with("Like") ? like(*operand, value) : *operand == value;
}

bool condition_holds(const World& world, std::string op, const std::string& key, const Json& operands) {
  const auto fact = world.facts.find(key);
  const bool present = fact != world.facts.end();
  if (op == "Null") {
    for (const auto& operand : operands) {
      if ((operand == "true") != present) return true;
    }
    return false;
  }
  const bool all = op.starts_with("ForAllValues:"), any = op.starts_with("ForAnyValue:");
  if (all || any) op = op.substr(op.find(':') + 1);
  const bool if_exists = op.ends_with("IfExists");
  const std::string test = if_exists ? op.substr(0, op.size() - 8) : op;
  const bool negated = test.find("Not") != std::string::npos;
  if (!present) return if_exists || all || (negated && !any);
  // A single-value operator sees one value here.
  for (const auto& value : fact->second) {
    bool matched = false;
    for (const auto& operand : operands) matched = matched || passes(world, test, value, operand.get<std::string>());
    const bool holds = matched != negated;
    if (all && !holds) return false;
    if (!all && holds) return true;
  }
  return all;
}

bool concerns(const World& world, const Json& statement) {
  const bool action = statement.contains("Action") ? any_action_like(statement["Action"], world.action)
                                                   : !any_action_like(statement["NotAction"], world.action);
  const bool resource = statement.contains("Resource") ? any_resource_like(world, statement["Resource"])
                                                       : !any_resource_like(world, statement["NotResource"]);
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
bool names_caller(const World& world, const std::string& text) {
  const Asker& it = world.asker;
  if (text == "*") return true;
  if (it.kind == "root") return text == it.account || text == "arn:aws:iam::" + it.account + ":root";
  if (it.kind == "user") return text == "arn:aws:iam::" + it.account + ":user/" + it.name;
  if (it.kind == "role") return text == "arn:aws:iam::" + it.account + ":role/" + it.name;
  return false;
}
bool names_account(const World& world, const std::string& text) {
  const Asker& it = world.asker;
  return !it.kind.empty() && (text == it.account || text == "arn:aws:iam::" + it.account + ":root");
}
bool names_session(const World& world, const std::string& text) {
  const Asker& it = world.asker;
  return it.kind == "role" && text == "arn:aws:sts::" + it.account + ":assumed-role/" + it.name + "/" + it.session;
}

struct Given {
  bool denied = false, to_account = false, to_caller = false, to_session = false;
};

Given read_bucket_policy(const World& world) {
  Given given;
  if (!world.bucket) return given;
  for (const auto& statement : (*world.bucket)["Statement"]) {
    if (!concerns(world, statement)) continue;
    bool account = false, caller = false, session = false;
    const bool negated = statement.contains("NotPrincipal");
    for (const auto& item : statement[negated ? "NotPrincipal" : "Principal"]["AWS"]) {
      const auto text = item.get<std::string>();
      account = account || names_account(world, text);
      caller = caller || names_caller(world, text);
      session = session || names_session(world, text);
    }
    if (negated) {
      if (!caller && !session) given.denied = true;  // NotPrincipal occurs only with Deny
    } else if (statement["Effect"] == "Deny") {
      if (account || caller || session) given.denied = true;
    } else {
      given.to_account = given.to_account || account;
      given.to_caller = given.to_caller || caller;
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

// ---- The same by the evaluator.

class WorldFacts : public Facts {
 public:
  explicit WorldFacts(const World& world) : world_(world) {}
  bool find(std::string_view key, FactValues& values) const override {
    for (const auto& [name, found] : world_.facts) {
      if (low(name) != key) continue;
      values.insert(values.end(), found.begin(), found.end());
      return true;
    }
    return false;
  }

 private:
  const World& world_;
};

bool compile(const std::vector<Json>& texts, std::vector<PolicyPtr>& into) {
  for (const auto& json : texts) {
    auto policy = parse_policy(json.dump(), PolicyKind::identity);
    if (!policy) return false;
    into.push_back(*policy);
  }
  return true;
}

}  // namespace

Decision decide_literally(const World& world) {
  const Given given = read_bucket_policy(world);
  const Own identity = read_own(world, world.identity), session = read_own(world, world.session);
  const bool anonymous = world.asker.kind.empty();
  // 1. An explicit denial in any policy.
  if (given.denied) return Decision::denied;
  if (!anonymous && (identity.denied || session.denied)) return Decision::denied;
  // 2. Anonymous callers have only the bucket's policy.
  if (anonymous) return given.to_caller ? Decision::allowed : Decision::refused;
  const bool same_account = world.asker.account == world.bucket_owner;
  const bool root = world.asker.kind == "root";
  const bool own_side = root || identity.allowed;
  const bool in_session = world.session.empty() || session.allowed;
  if (same_account) {
    // 3. A bucket policy that names the session itself is not limited by session policies.
    if (given.to_session) return Decision::allowed;
    // 4. Within an account either side is enough, as far as the session policy goes.
    return (own_side || given.to_caller) && in_session ? Decision::allowed : Decision::refused;
  }
  // 5. Across accounts both sides must allow.
  const bool their_side = given.to_caller || given.to_account || given.to_session;
  return their_side && own_side && in_session ? Decision::allowed : Decision::refused;
}

std::optional<Judged> judge_by_evaluator(const World& world) {
  const WorldFacts facts(world);
  Principal principal;
  const Asker& it = world.asker;
  principal.account = std::make_shared<Account>(Account{it.account, "canonical-" + it.account, "", ""});
  principal.name = it.kind == "user" ? it.name : "";
  if (it.kind == "root") principal.arn = "arn:aws:iam::" + it.account + ":root";
  if (it.kind == "user") {
    principal.kind = Principal::Kind::user;
    principal.arn = "arn:aws:iam::" + it.account + ":user/" + it.name;
  }
  if (it.kind == "role") {
    principal.kind = Principal::Kind::assumed_role;
    principal.arn = "arn:aws:sts::" + it.account + ":assumed-role/" + it.name + "/" + it.session;
  }
  if (!compile(world.identity, principal.policies) || !compile(world.session, principal.session)) return std::nullopt;
  PolicyPtr bucket;
  if (world.bucket) {
    auto policy = parse_policy(world.bucket->dump(), PolicyKind::resource);
    if (!policy) return std::nullopt;
    bucket = *policy;
  }
  const std::string owner = "canonical-" + world.bucket_owner;
  const Question question{it.kind.empty() ? nullptr : &principal, world.action, world.resource, &facts};
  const Resource resource{.policy = bucket.get(), .owner = owner};
  return Judged{decide(question, resource),
                could_allow(question, resource, "") && could_allow(question, resource, "b")};
}

}  // namespace verbena::auth::literal
