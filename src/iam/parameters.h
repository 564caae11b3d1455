// A call's parameters: a form ("Action=CreateUser&UserName=alice"), checked against IAM's rules of names and sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3_http/query.h"

namespace verbena::iam {

inline constexpr size_t form_bytes_max = 64 * 1024;

class Parameters {
 public:
  // validation_error: not a form, too many parameters, a repeated one.
  static Result<Parameters> parse(std::string_view form);

  std::optional<std::string_view> get(std::string_view name) const { return query_.get(name); }
  std::string_view get_or_empty(std::string_view name) const { return query_.get_or_empty(name); }
  // "PolicyArns.member.1.arn", "PolicyArns.member.2.arn", ...: numbered from 1 without a gap. At most `max`.
  Result<std::vector<std::string>> members(std::string_view list, std::string_view field, size_t max) const;
  // A sentence about the first parameter that is not among `known`, Action and Version, or that belongs to a list with
  // a gap; nullopt: there is none. `known`: names between spaces; "TagKeys.*" stands for TagKeys.member.1 and so on,
  // "Tags.*.Key|Value" for Tags.member.1.Key, Tags.member.1.Value and so on.
  std::optional<std::string> find_fault(std::string_view known) const;

 private:
  s3::Query query_;
};

// [\w+=,.@-]+
bool is_name(std::string_view text, size_t size_max);
// "/" or "/a/b/", of printable ASCII.
bool is_path(std::string_view text);
// Valid UTF-8 without control characters.
bool is_text(std::string_view text, size_t size_max);
// The text for messages, which are XML: cut if long, replaced if it is not valid text.
std::string shown(std::string_view untrusted);

}  // namespace verbena::iam
