#include "s3_http/objects/condition_headers.h"

#include <algorithm>

#include "base/date.h"
#include "s3/objects/conditions.h"

namespace verbena::s3 {

Preconditions read_preconditions(const Context& context, std::string_view prefix) {
  const auto value = [&](std::string_view name) {
    return prefix.empty() ? context.header(name) : context.header(std::string(prefix).append(name));
  };
  Preconditions conditions;
  if (auto header = value("if-match")) conditions.if_match = parse_etag_list(*header);
  if (auto header = value("if-none-match")) conditions.if_none_match = parse_etag_list(*header);
  if (auto header = value("if-modified-since")) conditions.if_modified_since_s = parse_http_date(*header);
  if (auto header = value("if-unmodified-since")) conditions.if_unmodified_since_s = parse_http_date(*header);
  if (prefix.empty()) {
    if (auto header = value("if-range")) conditions.if_range = std::string(*header);
  }
  return conditions;
}

Result<store::CommitConditions> read_commit_conditions(const Context& context) {
  store::CommitConditions conditions;
  if (const auto header = context.header("if-match")) {
    const auto tags = parse_etag_list(*header);
    if (tags.size() != 1) return fail(Errc::not_implemented, "If-Match takes one entity tag.");
    conditions.if_match = tags.front();
  }
  if (const auto header = context.header("if-none-match")) {
    const auto tags = parse_etag_list(*header);
    if (tags.size() != 1) return fail(Errc::not_implemented, "If-None-Match takes one entity tag, or *.");
    conditions.if_none_match = tags.front();
  }
  return conditions;
}

}  // namespace verbena::s3
