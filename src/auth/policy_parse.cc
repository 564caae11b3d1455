// Parses JSON into statements. Strict: refuses everything that AWS refuses.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>

#include "auth/policy_actions.h"
#include "auth/policy_statement.h"

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

constexpr int depth_max = 16;

std::unexpected<Error> malformed(const char* why) { return fail(Errc::malformed_policy, why); }

// A repeated name in an object, or a NUL, would let two readers see two policies.
Result<Json> read_json(std::string_view text) {
  const char* wrong = nullptr;
  std::vector<std::set<std::string>> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > depth_max) wrong = "Policy is nested too deeply.";
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second) {
      wrong = "Policy has a field twice.";
    }
    const bool has_text = event == Json::parse_event_t::key || event == Json::parse_event_t::value;
    if (has_text && parsed.is_string() && parsed.get_ref<const std::string&>().find('\0') != std::string::npos) {
      wrong = "Policy holds a NUL character.";
    }
    return true;
  };
  Json json = Json::parse(text, watch, false);
  if (json.is_discarded() || !json.is_object()) {
    return malformed("Policies must be valid JSON and the first byte must be '{'");
  }
  if (wrong != nullptr) return malformed(wrong);
  return json;
}

// A string, or a non-empty list of strings.
Result<std::vector<std::string>> read_strings(const Json& value, const char* why) {
  std::vector<std::string> strings;
  if (value.is_string()) {
    strings.push_back(value.get<std::string>());
  } else if (value.is_array()) {
    for (const Json& item : value) {
      if (!item.is_string()) return malformed(why);
      strings.push_back(item.get<std::string>());
    }
  }
  if (strings.empty()) return malformed(why);
  return strings;
}

// read_strings() for the values of a condition: numbers and booleans, too.
Result<std::vector<std::string>> read_condition_values(const Json& value) {
  std::vector<std::string> strings;
  const auto add = [&](const Json& item) {
    if (item.is_string()) {
      strings.push_back(item.get<std::string>());
    } else if (item.is_number() || item.is_boolean()) {
      strings.push_back(item.dump());
    } else {
      return false;
    }
    return true;
  };
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!add(item)) return malformed("Policy has an invalid condition value.");
    }
  } else if (!add(value)) {
    return malformed("Policy has an invalid condition value.");
  }
  return strings;
}

class StatementReader {
 public:
  StatementReader(PolicyKind kind, bool variables) : kind_(kind), variables_(variables) {}

  Result<Statement> read(const Json& json) {
    if (!json.is_object()) return malformed("A statement must be an object.");
    constexpr std::array<std::string_view, 9> fields = {
        "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"};
    for (const auto& [name, value] : json.items()) {
      if (std::ranges::find(fields, name) == fields.end()) return malformed("A statement has an unknown field.");
    }
    Statement statement;
    VB_TRY(read_effect(json, statement));
    VB_TRY(read_principals(json, statement));
    VB_TRY(read_actions(json, statement));
    VB_TRY(read_resources(json, statement));
    VB_TRY(read_conditions(json, statement));
    return statement;
  }

 private:
  // The element or its Not form; nullptr for neither.
  static Result<const Json*> one_of(const Json& json, const char* name, const char* not_name, bool& is_not,
                                    const char* why_both) {
    const auto plain = json.find(name), negated = json.find(not_name);
    if (plain != json.end() && negated != json.end()) return malformed(why_both);
    is_not = negated != json.end();
    if (is_not) return &*negated;
    return plain == json.end() ? nullptr : &*plain;
  }

  static Result<void> read_effect(const Json& json, Statement& statement) {
    const auto effect = json.find("Effect");
    if (effect == json.end()) return malformed("Missing required field Effect.");
    if (*effect != "Allow" && *effect != "Deny") return malformed("Invalid effect: it must be Allow or Deny.");
    statement.allow = *effect == "Allow";
    if (const auto sid = json.find("Sid"); sid != json.end() && !sid->is_string()) {
      return malformed("A statement's Sid must be a string.");
    }
    return {};
  }

  Result<void> read_principals(const Json& json, Statement& statement) {
    VB_ASSIGN(const Json* const value, one_of(json, "Principal", "NotPrincipal", statement.not_principals,
                                              "A statement cannot have both Principal and NotPrincipal."));
    if (kind_ == PolicyKind::identity) {
      if (value != nullptr) return malformed("An identity policy cannot have the element Principal.");
      return {};
    }
    if (value == nullptr) return malformed("Missing required field Principal.");
    if (statement.not_principals && statement.allow) {
      return malformed("Allow with NotPrincipal is not supported.");
    }
    if (*value == "*") {
      statement.principals.push_back({PrincipalName::Kind::everyone, {}, {}});
      return {};
    }
    if (!value->is_object() || value->empty()) return malformed("Invalid principal in policy.");
    for (const auto& [type, names] : value->items()) VB_TRY(read_principal_names(type, names, statement));
    return {};
  }

  static Result<void> read_principal_names(const std::string& type, const Json& names, Statement& statement) {
    VB_ASSIGN(const auto texts, read_strings(names, "Invalid principal in policy."));
    for (const std::string& text : texts) {
      if (type == "AWS") {
        auto name = parse_aws_principal(text);
        if (!name) return malformed("Invalid principal in policy.");
        statement.principals.push_back(std::move(*name));
      } else if (type == "CanonicalUser") {
        if (text.empty() || text == "*") return malformed("Invalid principal in policy.");
        statement.principals.push_back({PrincipalName::Kind::account, text, {}});
      } else if (type == "Federated") {
        statement.principals.push_back(parse_federated_principal(text));
      } else if (type == "Service") {
        statement.principals.push_back({});
      } else {
        return malformed("Invalid principal in policy.");
      }
    }
    return {};
  }

  Result<void> read_actions(const Json& json, Statement& statement) {
    VB_ASSIGN(const Json* const value, one_of(json, "Action", "NotAction", statement.not_actions,
                                              "A statement cannot have both Action and NotAction."));
    if (value == nullptr) return malformed("Missing required field Action.");
    VB_ASSIGN(const auto texts, read_strings(*value, "Policy has invalid action."));
    for (const std::string& text : texts) {
      if (!is_action_pattern(text, kind_)) return malformed("Policy has invalid action.");
      statement.actions.push_back(*Pattern::parse(text, {.wildcards = true, .variables = false}));
    }
    return {};
  }

  Result<void> read_resources(const Json& json, Statement& statement) {
    VB_ASSIGN(const Json* const value, one_of(json, "Resource", "NotResource", statement.not_resources,
                                              "A statement cannot have both Resource and NotResource."));
    if (kind_ == PolicyKind::trust) {
      if (value != nullptr) return malformed("A trust policy cannot have the element Resource.");
      return {};
    }
    if (value == nullptr) return malformed("Missing required field Resource.");
    VB_ASSIGN(statement.resource_texts, read_strings(*value, "Policy has invalid resource."));
    for (const std::string& text : statement.resource_texts) {
      auto pattern = Pattern::parse(text, {.wildcards = true, .variables = variables_});
      const auto colons = std::ranges::count(text, ':');
      constexpr int colons_of_arn = 5;
      const bool arn = text.starts_with("arn:") && colons >= colons_of_arn;
      if (!pattern || (text != "*" && !arn)) return malformed("Policy has invalid resource.");
      statement.resources.push_back(std::move(*pattern));
    }
    return {};
  }

  Result<void> read_conditions(const Json& json, Statement& statement) {
    const auto block = json.find("Condition");
    if (block == json.end()) return {};
    if (!block->is_object()) return malformed("A statement's Condition must be an object.");
    for (const auto& [name, keys] : block->items()) {
      const auto op = parse_operator(name);
      if (!op) return malformed("Policy has an invalid condition operator.");
      if (!keys.is_object()) return malformed("A condition operator must have an object.");
      for (const auto& [key, values] : keys.items()) {
        if (!is_condition_key(key, kind_)) return malformed("Policy has an invalid condition key.");
        VB_ASSIGN(const auto texts, read_condition_values(values));
        VB_ASSIGN(auto condition, Condition::parse(*op, key, texts, variables_));
        statement.conditions.push_back(std::move(condition));
      }
    }
    return {};
  }

  PolicyKind kind_;
  bool variables_;  // of version 2012-10-17
};

Result<bool> read_version(const Json& json) {
  const auto version = json.find("Version");
  if (version == json.end() || *version == "2008-10-17") return false;
  if (*version != "2012-10-17") return malformed("The policy must contain a valid version string.");
  return true;
}

Result<void> read_statements(const Json& json, bool variables, Policy& policy) {
  const auto list = json.find("Statement");
  if (list == json.end()) return malformed("Missing required field Statement.");
  std::vector<const Json*> items;
  if (list->is_array()) {
    for (const Json& item : *list) items.push_back(&item);
  } else {
    items.push_back(&*list);
  }
  if (items.empty()) return malformed("A policy must have a statement.");
  StatementReader reader(policy.kind, variables);
  std::set<std::string> sids;
  for (const Json* item : items) {
    VB_ASSIGN(auto statement, reader.read(*item));
    if (const auto sid = item->find("Sid"); sid != item->end() && !sids.insert(sid->get<std::string>()).second) {
      return malformed("Statement IDs (SID) in a single policy must be unique.");
    }
    policy.statements.push_back(std::move(statement));
  }
  return {};
}

}  // namespace

Result<PolicyPtr> parse_policy(std::string_view json_text, PolicyKind kind) {
  if (json_text.size() > policy_bytes_max) return fail(Errc::too_large, "policy");
  VB_ASSIGN(const Json json, read_json(json_text));
  for (const auto& [name, value] : json.items()) {
    if (name != "Version" && name != "Id" && name != "Statement") return malformed("The policy has an unknown field.");
  }
  if (const auto id = json.find("Id"); id != json.end() && !id->is_string()) return malformed("Id must be a string.");
  auto policy = std::make_shared<Policy>();
  policy->kind = kind;
  policy->text = json_text;
  VB_ASSIGN(const bool variables, read_version(json));
  VB_TRY(read_statements(json, variables, *policy));
  return PolicyPtr(std::move(policy));
}

}  // namespace verbena::auth
