// A slow, literal reading of AWS's "Policy evaluation logic", for tests and a fuzzer: policies as JSON values, text
// compared by recursion, one question at a time. The evaluator must decide as it does.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "auth/policy.h"

namespace verbena::auth::literal {

struct Asker {
  std::string account, kind, name, session;  // kind: root, user, role; empty: anonymous
};

// A question, and all that decides it. Of the language it has: wildcards, the variable ${aws:username}, the operators
// of text, numbers, dates, booleans and ARNs, addresses in 10.0.0.0/8 and 192.0.2.0/24, IfExists, sets, and Null.
struct World {
  std::string bucket_owner;
  Asker asker;
  std::string action, resource;
  std::map<std::string, std::vector<std::string>> facts;  // by condition key, as policies here spell it
  std::vector<nlohmann::json> identity, session;
  std::optional<nlohmann::json> bucket;
};

Decision decide_literally(const World& world);

// By the evaluator under test; and could_allow(), of the resource and of any object of the bucket "b" that it lies in:
// what it excludes must not be allowed. nullopt: a policy is refused.
struct Judged {
  Decision decision = Decision::refused;
  bool could_be_allowed = false;
};
std::optional<Judged> judge_by_evaluator(const World& world);

}  // namespace verbena::auth::literal
