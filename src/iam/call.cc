#include "iam/call.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/date.h"
#include "base/decimal.h"
#include "base/log.h"

namespace verbena::iam {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

std::unexpected<Error> Call::missing(std::string_view kind, std::string_view name) const {
  return refuse(Errc::no_such_entity, fmt::format("The {} with name {} cannot be found.", kind, log::printable(name)));
}

std::unexpected<Error> Call::exists(std::string_view kind, std::string_view name) const {
  return refuse(Errc::entity_already_exists,
                fmt::format("{} with name {} already exists.", kind, log::printable(name)));
}

std::unexpected<Error> Call::too_many(std::string_view what, size_t max) const {
  return refuse(Errc::limit_exceeded, fmt::format("Cannot exceed quota for {}: {}", what, max));
}

Result<std::string> Call::name(std::string_view parameter, size_t size_max) const {
  const std::string_view value = get(parameter);
  if (is_name(value, size_max)) return std::string(value);
  return refuse(Errc::validation_error,
                fmt::format("{} must have 1 to {} characters of letters, digits and _+=,.@-", parameter, size_max));
}

Result<std::string> Call::path() const {
  const std::string_view value = parameters.get("Path").value_or("/");
  if (is_path(value)) return std::string(value);
  return refuse(Errc::validation_error, "Path must begin and end with a slash.");
}

Result<int64_t> Call::number(std::string_view parameter, int64_t min, int64_t max, int64_t fallback) const {
  const auto value = parameters.get(parameter);
  if (!value) return fallback;
  const auto number = parse_decimal(*value);
  if (number && *number >= static_cast<uint64_t>(min) && *number <= static_cast<uint64_t>(max)) {
    return static_cast<int64_t>(*number);
  }
  return refuse(Errc::validation_error, fmt::format("{} must be a number from {} to {}.", parameter, min, max));
}

Result<auth::PolicyDocument> Call::document(std::string_view parameter, auth::PolicyKind kind, size_t bytes_max) const {
  auth::PolicyDocument out{std::string(get(parameter)), nullptr};
  if (out.text.empty()) return refuse(Errc::validation_error, fmt::format("{} is missing.", parameter));
  std::string kept = without_blanks(out.text);
  if (kept.size() > bytes_max) return too_many(parameter, bytes_max);
  auto parsed = auth::parse_policy(out.text, kind);
  if (!parsed) return refuse(Errc::malformed_policy_document, parsed.error().context);
  out.policy = std::move(*parsed);
  out.text = std::move(kept);
  return out;
}

Result<std::string> Call::description() const {
  const std::string_view value = get("Description");
  if (is_text(value, 1000)) return std::string(value);
  return refuse(Errc::validation_error, "Description must be printable text of at most 1000 bytes.");
}

std::string_view Call::target_name() const {
  switch (action.target) {
    case Target::user:
    case Target::own_user:
      return get("UserName");
    case Target::group:
      return get("GroupName");
    case Target::role:
      return get("RoleName");
    default:
      return {};
  }
}

std::string without_blanks(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool inside = false;  // of a string
  for (size_t i = 0; i < json.size(); ++i) {
    if (!inside && is_blank(json[i])) continue;
    out += json[i];
    if (json[i] == '"') inside = !inside;
    if (inside && json[i] == '\\' && i + 1 < json.size()) out += json[++i];
  }
  return out;
}

void write_date(s3::XmlWriter& xml, std::string_view element, int64_t seconds) {
  xml.element(element, format_iso8601_seconds(seconds));
}

}  // namespace verbena::iam
