// The policy document of a browser form: its signer limits what may be posted with it. Source: AWS, "Creating a POST
// policy".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "s3_http/objects/form.h"

namespace verbena::s3 {

struct PostPolicy {
  struct Condition {
    enum class Kind : uint8_t { equal, starts_with } kind = Kind::equal;
    std::string field;  // lower case, without '$'
    std::string value;
  };
  int64_t expiration_s = 0;  // seconds since the epoch
  std::vector<Condition> conditions;
  uint64_t length_min = 0, length_max = UINT64_MAX;  // content-length-range, bytes
};

// Parses JSON, already base64-decoded. invalid_policy_document.
Result<PostPolicy> parse_post_policy(std::string_view json);

// access_denied: expired, a failed condition, a field without a condition, or a field `bucket` that names another
// bucket than the request. `form` has ${filename} filled in; `bucket` is the request's.
Result<void> check_post_policy(const PostPolicy& policy, const Form& form, std::string_view bucket, int64_t now_s);

}  // namespace verbena::s3
