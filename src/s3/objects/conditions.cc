#include "s3/objects/conditions.h"

#include <algorithm>

#include "base/date.h"
#include "base/text.h"

namespace verbena::s3 {
namespace {

constexpr size_t etags_max = 64;

// Strong comparison: a weak tag never matches.
bool matches_strongly(const std::vector<std::string>& tags, const std::string& etag) {
  return std::ranges::any_of(tags, [&](const std::string& tag) { return tag == "*" || tag == etag; });
}

bool matches_weakly(const std::vector<std::string>& tags, const std::string& etag) {
  return std::ranges::any_of(tags, [&](std::string_view tag) {
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    return tag == "*" || tag == etag;
  });
}

}  // namespace

std::string strip_quotes(std::string_view etag) {
  etag = trim(etag);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

std::vector<std::string> parse_etag_list(std::string_view header) {
  std::vector<std::string> tags;
  while (tags.size() < etags_max) {
    header = trim(header);
    if (header.starts_with(',')) {
      header.remove_prefix(1);
      continue;
    }
    if (header.empty()) break;
    std::string prefix;
    if (header.starts_with("W/")) {
      prefix = "W/";
      header.remove_prefix(2);
    }
    // A comma may be inside quotes.
    const bool quoted = header.starts_with('"');
    const size_t end = quoted ? header.find('"', 1) : header.find(',');
    if (quoted && end == std::string_view::npos) {
      tags.push_back(prefix + std::string(header.substr(1)));
      break;
    }
    const std::string_view tag = quoted ? header.substr(1, end - 1) : trim(header.substr(0, end));
    tags.push_back(prefix + std::string(tag));
    if (end == std::string_view::npos) break;
    header.remove_prefix(end + (quoted ? 1 : 0));
  }
  return tags;
}

Result<void> check_preconditions(const Preconditions& conditions, const store::ObjectInfo& info) {
  const int64_t modified_s = info.modified_us / 1'000'000;  // HTTP dates have whole seconds
  if (!conditions.if_match.empty()) {
    if (!matches_strongly(conditions.if_match, info.etag)) return fail(Errc::precondition_failed, "If-Match");
  } else if (conditions.if_unmodified_since_s && modified_s > *conditions.if_unmodified_since_s) {
    return fail(Errc::precondition_failed, "If-Unmodified-Since");
  }
  if (!conditions.if_none_match.empty()) {
    if (matches_weakly(conditions.if_none_match, info.etag)) return fail(Errc::not_modified, "If-None-Match");
  } else if (conditions.if_modified_since_s && modified_s <= *conditions.if_modified_since_s) {
    return fail(Errc::not_modified, "If-Modified-Since");
  }
  return {};
}

bool range_applies(const Preconditions& conditions, const store::ObjectInfo& info) {
  if (!conditions.if_range) return true;
  const std::string_view value = trim(*conditions.if_range);
  if (value.starts_with("W/")) return false;
  if (const auto date = parse_http_date(value)) return info.modified_us / 1'000'000 == *date;
  return strip_quotes(value) == info.etag;
}

}  // namespace verbena::s3
