// What a call came with: a form ("Action=CreateUser&UserName=alice"), checked against IAM's rules of names and sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3/query.h"

namespace verbena::iam {

inline constexpr size_t form_bytes_max = 64 * 1024;

class Parameters {
 public:
  // validation_error: not a form, too many parameters, one of them twice.
  static Result<Parameters> parse(std::string_view form);

  std::optional<std::string_view> get(std::string_view name) const { return query_.get(name); }
  std::string_view get_or_empty(std::string_view name) const { return query_.get_or_empty(name); }
  // "PolicyArns.member.1.arn", "PolicyArns.member.2.arn", ...: counted from 1 without a gap. At most `max`.
  Result<std::vector<std::string>> members(std::string_view list, std::string_view field, size_t max) const;
  // The first parameter that is not one of `known` (names between spaces; "Tags.*" stands for all that begin so).
  std::optional<std::string_view> stranger(std::string_view known) const;

 private:
  s3::Query query_;
};

// [\w+=,.@-]+
bool is_name(std::string_view text, size_t size_max);
// "/" or "/a/b/", of printable ASCII.
bool is_path(std::string_view text);
// Valid UTF-8 without control characters.
bool is_text(std::string_view text, size_t size_max);
// For messages, which are XML: the text, cut where it is long; something in its place where it is no text.
std::string shown(std::string_view untrusted);

}  // namespace verbena::iam
