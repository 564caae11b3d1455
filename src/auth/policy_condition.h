// One line of a policy's Condition element. Internal to auth/.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "auth/ip_range.h"
#include "auth/policy.h"
#include "auth/policy_pattern.h"
#include "base/result.h"

namespace verbena::auth {

// An operator like "ForAllValues:StringNotLikeIfExists", split into its parts.
struct ConditionOperator {
  enum class Test : uint8_t { equal, equal_any_case, like, less, less_equal, greater, greater_equal, is_null };
  enum class Type : uint8_t { string, number, date, boolean, binary, ip, arn, null };
  enum class Set : uint8_t { single, any_value, all_values };
  Type type = Type::string;
  Test test = Test::equal;
  Set set = Set::single;
  bool negated = false;
  bool if_exists = false;
};

std::optional<ConditionOperator> parse_operator(std::string_view name);

class Condition {
 public:
  // Errors: malformed_policy. `values` as in the policy, numbers and booleans as text.
  static Result<Condition> parse(ConditionOperator op, std::string_view key, const std::vector<std::string>& values,
                                 bool variables);
  bool holds(Inquiry& inquiry) const;

  const std::string& key() const { return key_; }
  // Whether it holds only for a few fixed values, which makes a policy non-public.
  bool fixes_values() const;

 private:
  using ArnPattern = std::array<Pattern, 6>;  // its six components
  using Operand = std::variant<Pattern, double, bool, IpRange, ArnPattern>;
  static std::optional<Operand> parse_operand(ConditionOperator op, std::string_view text, bool variables);
  static std::optional<ArnPattern> parse_arn(std::string_view text, bool variables);
  bool value_equals(std::string_view value, Inquiry& inquiry) const;
  bool holds_for(const FactValues& values, Inquiry& inquiry) const;

  ConditionOperator op_;
  std::string key_;
  std::vector<Operand> operands_;
};

// Seconds since the epoch: ISO 8601 ("2026-01-02", "2026-01-02T03:04:05Z", with a fraction or an offset), or a number.
std::optional<double> parse_policy_date(std::string_view text);

}  // namespace verbena::auth
