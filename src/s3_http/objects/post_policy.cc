#include "s3_http/objects/post_policy.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>

#include "base/date.h"
#include "base/decimal.h"
#include "base/text.h"

namespace verbena::s3 {
namespace {

using Json = nlohmann::json;

constexpr size_t conditions_max = 256;

// A bound of content-length-range: a number, or one written as a string.
std::optional<uint64_t> read_bound(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_string()) return parse_decimal(value.get_ref<const std::string&>());
  return std::nullopt;
}

// ["eq", "$key", "user/"], ["starts-with", "$key", ""], ["content-length-range", 0, 1024].
Result<void> read_list(const Json& list, PostPolicy& policy) {
  constexpr auto code = Errc::invalid_policy_document;
  if (list.size() != 3 || !list[0].is_string()) return fail(code, "Invalid Policy: a condition needs three elements.");
  const std::string kind = lower(list[0].get_ref<const std::string&>());
  if (kind == "content-length-range") {
    const auto min = read_bound(list[1]), max = read_bound(list[2]);
    if (!min || !max || *min > *max) return fail(code, "Invalid Policy: Invalid content-length-range.");
    policy.length_min = std::max(policy.length_min, *min);
    policy.length_max = std::min(policy.length_max, *max);
    return {};
  }
  if (kind != "eq" && kind != "starts-with") return fail(code, "Invalid Policy: Unknown condition operator.");
  if (!list[1].is_string() || !list[2].is_string()) return fail(code, "Invalid Policy: Invalid Condition.");
  const std::string& name = list[1].get_ref<const std::string&>();
  if (!name.starts_with('$')) return fail(code, "Invalid Policy: a condition's field must begin with $.");
  const auto type = kind == "eq" ? PostPolicy::Condition::Kind::equal : PostPolicy::Condition::Kind::starts_with;
  policy.conditions.push_back({type, lower(std::string_view(name).substr(1)), list[2].get<std::string>()});
  return {};
}

// {"acl": "private"}: exactly one field, which must be equal.
Result<void> read_object(const Json& object, PostPolicy& policy) {
  if (object.size() != 1 || !object.begin().value().is_string()) {
    return fail(
        Errc::invalid_policy_document,
        "Invalid Policy: Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.");
  }
  policy.conditions.push_back(
      {PostPolicy::Condition::Kind::equal, lower(object.begin().key()), object.begin().value().get<std::string>()});
  return {};
}

// Each value of a comma-separated list: a list that starts with "image/" must not continue with another type (AWS,
// "Creating a POST policy": Content-Type values of a starts-with condition are lists).
bool all_start_with(std::string_view list, std::string_view prefix) {
  for (;;) {
    const size_t comma = list.find(',');
    if (!trim(list.substr(0, comma)).starts_with(prefix)) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

// The bucket of the request: check_post_policy() has compared the form's field, if any.
bool holds(const PostPolicy::Condition& condition, const Form& form, std::string_view bucket) {
  const auto value = condition.field == "bucket" ? std::optional(bucket) : form.get(condition.field);
  if (condition.kind == PostPolicy::Condition::Kind::equal) return value && *value == condition.value;
  // "Anything" also matches a missing field, as in Ceph RGW.
  const std::string_view text = value.value_or("");
  return condition.field == "content-type" ? all_start_with(text, condition.value) : text.starts_with(condition.value);
}

// Fields that need no condition: the signature itself, fields to be ignored (x-ignore-*), and checksums, which can only
// refuse more.
bool is_exempt(std::string_view field) {
  constexpr std::array<std::string_view, 4> exempt = {"awsaccesskeyid", "signature", "policy", "x-amz-signature"};
  return std::ranges::find(exempt, field) != exempt.end() || field.starts_with("x-ignore-") ||
         field.starts_with("x-amz-checksum-");
}

}  // namespace

Result<PostPolicy> parse_post_policy(std::string_view json) {
  constexpr auto code = Errc::invalid_policy_document;
  const Json document = Json::parse(json.begin(), json.end(), nullptr, false);
  if (!document.is_object()) return fail(code, "Invalid Policy: Invalid JSON.");
  const auto expiration = document.find("expiration");
  if (expiration == document.end() || !expiration->is_string()) {
    return fail(code, "Invalid Policy: Policy missing expiration.");
  }
  PostPolicy policy;
  const auto expires = parse_iso8601_utc(expiration->get_ref<const std::string&>());
  if (!expires) return fail(code, "Invalid Policy: Invalid 'expiration' value.");
  policy.expiration_s = *expires / 1'000'000;
  const auto conditions = document.find("conditions");
  if (conditions == document.end() || !conditions->is_array()) {
    return fail(code, "Invalid Policy: Policy missing conditions.");
  }
  if (conditions->size() > conditions_max) return fail(code, "Invalid Policy: too many conditions.");
  for (const Json& condition : *conditions) {
    if (condition.is_array()) {
      VB_TRY(read_list(condition, policy));
    } else if (condition.is_object()) {
      VB_TRY(read_object(condition, policy));
    } else {
      return fail(code, "Invalid Policy: Invalid Condition.");
    }
  }
  return policy;
}

Result<void> check_post_policy(const PostPolicy& policy, const Form& form, std::string_view bucket, int64_t now_s) {
  if (now_s >= policy.expiration_s) {
    return fail(Errc::access_denied, "Invalid according to Policy: Policy expired.");
  }
  const auto named = form.get("bucket");
  if (named && *named != bucket) {
    return fail(Errc::access_denied, "Invalid according to Policy: the field bucket is not the bucket of the request.");
  }
  for (const auto& condition : policy.conditions) {
    if (!holds(condition, form, bucket)) {
      return fail(Errc::access_denied, "Invalid according to Policy: Policy Condition failed.");
    }
  }
  // A condition applies to its field's header, under both names of it.
  const auto covered = [&](std::string_view field) {
    return std::ranges::any_of(policy.conditions, [&](const auto& condition) {
      return header_of_field(condition.field) == header_of_field(field);
    });
  };
  bool all = covered("bucket");
  for (const auto& [name, value] : form.fields) {
    const std::string field = lower(name);
    all = all && (is_exempt(field) || covered(field));
  }
  if (!all) return fail(Errc::access_denied, "Invalid according to Policy: Extra input fields.");
  return {};
}

}  // namespace verbena::s3
