#include "auth/policy_condition.h"

#include <algorithm>
#include <charconv>

#include "base/bytes.h"
#include "base/date.h"

namespace verbena::auth {
namespace {

using Test = ConditionOperator::Test;
using Type = ConditionOperator::Type;
using Set = ConditionOperator::Set;

struct NamedOperator {
  std::string_view name;
  Type type;
  Test test;
  bool negated = false;
};

constexpr std::array operators = {
    NamedOperator{"StringEquals", Type::string, Test::equal},
    NamedOperator{"StringNotEquals", Type::string, Test::equal, true},
    NamedOperator{"StringEqualsIgnoreCase", Type::string, Test::equal_any_case},
    NamedOperator{"StringNotEqualsIgnoreCase", Type::string, Test::equal_any_case, true},
    NamedOperator{"StringLike", Type::string, Test::like},
    NamedOperator{"StringNotLike", Type::string, Test::like, true},
    NamedOperator{"NumericEquals", Type::number, Test::equal},
    NamedOperator{"NumericNotEquals", Type::number, Test::equal, true},
    NamedOperator{"NumericLessThan", Type::number, Test::less},
    NamedOperator{"NumericLessThanEquals", Type::number, Test::less_equal},
    NamedOperator{"NumericGreaterThan", Type::number, Test::greater},
    NamedOperator{"NumericGreaterThanEquals", Type::number, Test::greater_equal},
    NamedOperator{"DateEquals", Type::date, Test::equal},
    NamedOperator{"DateNotEquals", Type::date, Test::equal, true},
    NamedOperator{"DateLessThan", Type::date, Test::less},
    NamedOperator{"DateLessThanEquals", Type::date, Test::less_equal},
    NamedOperator{"DateGreaterThan", Type::date, Test::greater},
    NamedOperator{"DateGreaterThanEquals", Type::date, Test::greater_equal},
    NamedOperator{"Bool", Type::boolean, Test::equal},
    NamedOperator{"BinaryEquals", Type::binary, Test::equal},
    NamedOperator{"IpAddress", Type::ip, Test::equal},
    NamedOperator{"NotIpAddress", Type::ip, Test::equal, true},
    NamedOperator{"ArnEquals", Type::arn, Test::like},
    NamedOperator{"ArnLike", Type::arn, Test::like},
    NamedOperator{"ArnNotEquals", Type::arn, Test::like, true},
    NamedOperator{"ArnNotLike", Type::arn, Test::like, true},
    NamedOperator{"Null", Type::null, Test::is_null},
};

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value != value) return std::nullopt;
  return value;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string low = lower(text);
  if (low == "true") return true;
  if (low == "false") return false;
  return std::nullopt;
}

bool compare(Test test, double value, double operand) {
  switch (test) {
    case Test::less:
      return value < operand;
    case Test::less_equal:
      return value <= operand;
    case Test::greater:
      return value > operand;
    case Test::greater_equal:
      return value >= operand;
    default:
      return value == operand;
  }
}

// The first five components end at a colon, the sixth is the rest. Colons inside of ${...} do not count.
std::optional<std::array<std::string_view, 6>> split_arn(std::string_view text) {
  std::array<std::string_view, 6> parts;
  size_t begin = 0;
  for (size_t part = 0; part < 5; ++part) {
    size_t end = begin;
    for (bool inside = false; end < text.size() && (inside || text[end] != ':'); ++end) {
      if (text.substr(end, 2) == "${") inside = true;
      if (text[end] == '}') inside = false;
    }
    if (end >= text.size()) return std::nullopt;
    parts[part] = text.substr(begin, end - begin);
    begin = end + 1;
  }
  parts[5] = text.substr(begin);
  return parts;
}

// Keys that make a statement non-public if their values are fixed (Amazon S3 User Guide, "The meaning of public").
constexpr std::array<std::string_view, 12> narrowing_keys = {"aws:sourceip",
                                                             "aws:sourcearn",
                                                             "aws:sourcevpc",
                                                             "aws:sourcevpce",
                                                             "aws:sourceowner",
                                                             "aws:sourceaccount",
                                                             "aws:userid",
                                                             "aws:principalarn",
                                                             "aws:principalorgid",
                                                             "aws:principalaccount",
                                                             "s3:x-amz-server-side-encryption-aws-kms-key-id",
                                                             "s3:dataaccesspointarn"};

}  // namespace

std::optional<double> parse_policy_date(std::string_view text) {
  if (const auto number = parse_number(text)) return number;
  const auto time_us = parse_iso8601(text);
  return time_us ? std::optional(static_cast<double>(*time_us) / 1e6) : std::nullopt;
}

std::optional<ConditionOperator> parse_operator(std::string_view name) {
  ConditionOperator op;
  constexpr std::string_view any = "ForAnyValue:", all = "ForAllValues:", if_exists = "IfExists";
  if (name.starts_with(any)) {
    op.set = Set::any_value;
    name.remove_prefix(any.size());
  } else if (name.starts_with(all)) {
    op.set = Set::all_values;
    name.remove_prefix(all.size());
  }
  if (name.ends_with(if_exists)) {
    op.if_exists = true;
    name.remove_suffix(if_exists.size());
  }
  const auto it = std::ranges::find(operators, name, &NamedOperator::name);
  if (it == operators.end()) return std::nullopt;
  if (it->type == Type::null && (op.if_exists || op.set != Set::single)) return std::nullopt;
  op.type = it->type;
  op.test = it->test;
  op.negated = it->negated;
  return op;
}

std::optional<Condition::ArnPattern> Condition::parse_arn(std::string_view text, bool variables) {
  const auto parts = split_arn(text);
  if (!parts || (*parts)[0] != "arn") return std::nullopt;
  ArnPattern patterns;
  for (size_t i = 0; i < patterns.size(); ++i) {
    auto pattern = Pattern::parse((*parts)[i], {.wildcards = true, .variables = variables});
    if (!pattern) return std::nullopt;
    patterns[i] = std::move(*pattern);
  }
  return patterns;
}

std::optional<Condition::Operand> Condition::parse_operand(ConditionOperator op, std::string_view text,
                                                           bool variables) {
  switch (op.type) {
    case Type::string:
      return Pattern::parse(text, {.wildcards = op.test == Test::like, .variables = variables});
    case Type::arn: {
      if (text == "*") text = "arn:*:*:*:*:*";
      return parse_arn(text, variables);
    }
    case Type::binary: {
      const auto bytes = from_base64(text);
      if (!bytes) return std::nullopt;
      return Pattern::parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, {});
    }
    case Type::number:
      return parse_number(text);
    case Type::date:
      return parse_policy_date(text);
    case Type::ip:
      return parse_ip_range(text);
    case Type::boolean:
    case Type::null:
      return parse_bool(text);
  }
  return std::nullopt;
}

Result<Condition> Condition::parse(ConditionOperator op, std::string_view key, const std::vector<std::string>& values,
                                   bool variables) {
  Condition condition;
  condition.op_ = op;
  condition.key_ = normal_key(key);
  for (const std::string& value : values) {
    auto operand = parse_operand(op, value, variables);
    if (!operand) return fail(Errc::malformed_policy, "Policy has an invalid condition value.");
    condition.operands_.push_back(std::move(*operand));
  }
  return condition;
}

// Whether the value passes the operator's test, before its negation, against any of the operands.
bool Condition::value_equals(std::string_view value, Inquiry& inquiry) const {
  switch (op_.type) {
    case Type::string: {
      const Letters letters = op_.test == Test::equal_any_case ? Letters::any_case : Letters::exact;
      return std::ranges::any_of(
          operands_, [&](const Operand& o) { return std::get<Pattern>(o).matches(value, inquiry, letters); });
    }
    case Type::binary: {
      const auto bytes = from_base64(value);
      if (!bytes) return false;
      const std::string_view raw(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      return std::ranges::any_of(operands_,
                                 [&](const Operand& o) { return std::get<Pattern>(o).matches(raw, inquiry); });
    }
    case Type::number:
    case Type::date: {
      const auto number = op_.type == Type::date ? parse_policy_date(value) : parse_number(value);
      return number && std::ranges::any_of(operands_, [&](const Operand& o) {
               return compare(op_.test, *number, std::get<double>(o));
             });
    }
    case Type::boolean: {
      const auto flag = parse_bool(value);
      return flag && std::ranges::any_of(operands_, [&](const Operand& o) { return std::get<bool>(o) == *flag; });
    }
    case Type::ip: {
      const auto address = parse_ip(value);
      return address &&
             std::ranges::any_of(operands_, [&](const Operand& o) { return std::get<IpRange>(o).contains(*address); });
    }
    case Type::arn: {
      const auto parts = split_arn(value);
      return parts && std::ranges::any_of(operands_, [&](const Operand& o) {
               const auto& patterns = std::get<ArnPattern>(o);
               for (size_t i = 0; i < patterns.size(); ++i) {
                 if (!patterns[i].matches((*parts)[i], inquiry)) return false;
               }
               return true;
             });
    }
    case Type::null:
      return false;
  }
  return false;
}

bool Condition::holds_for(const FactValues& values, Inquiry& inquiry) const {
  const auto passes = [&](const std::string& value) {
    // Reading a long value also counts against the question's bound of work.
    return inquiry.spend(value.size()) && value_equals(value, inquiry) != op_.negated;
  };
  // A key with several values and a single-value operator: none of them may match a negated one.
  const bool all = op_.set == Set::all_values || (op_.set == Set::single && op_.negated);
  return all ? std::ranges::all_of(values, passes) : std::ranges::any_of(values, passes);
}

bool Condition::holds(Inquiry& inquiry) const {
  FactValues values;
  const bool present = find_fact(inquiry.question, key_, values);
  if (op_.type == Type::null) {
    return std::ranges::any_of(operands_, [&](const Operand& o) { return std::get<bool>(o) != present; });
  }
  if (!present || values.empty()) {
    if (op_.if_exists || op_.set == Set::all_values) return true;
    return op_.negated && op_.set == Set::single;
  }
  return holds_for(values, inquiry);
}

bool Condition::fixes_values() const {
  if (op_.negated || op_.if_exists || op_.set == Set::all_values || operands_.empty()) return false;
  if (std::ranges::find(narrowing_keys, key_) == narrowing_keys.end()) return false;
  if (op_.type == Type::string) {
    // Anonymous callers have this user id, so a condition that accepts it admits everyone.
    const Question none;
    Inquiry inquiry(none);
    if (key_ == "aws:userid" && value_equals("anonymous", inquiry)) return false;
    return std::ranges::all_of(operands_, [](const Operand& o) { return std::get<Pattern>(o).fixed(); });
  }
  if (op_.type == Type::arn) {
    return std::ranges::all_of(operands_, [](const Operand& o) {
      return std::ranges::all_of(std::get<ArnPattern>(o), [](const Pattern& part) { return part.fixed(); });
    });
  }
  constexpr int widest_v4 = 8, widest_v6 = 32;
  return op_.type == Type::ip && std::ranges::all_of(operands_, [](const Operand& o) {
           const auto& range = std::get<IpRange>(o);
           return range.bits >= (range.base.v6 ? widest_v6 : widest_v4);
         });
}

}  // namespace verbena::auth
