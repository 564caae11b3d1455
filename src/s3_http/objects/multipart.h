// Common parts of multipart uploads.
#pragma once

#include <string_view>

#include "s3/access/actions.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// Attributes that store the conditions of an upload; the object does not get them.
inline constexpr std::string_view begun_if_match = "begun-if-match", begun_if_none_match = "begun-if-none-match";

// ?partNumber=, 1 to 10,000. invalid_argument.
Result<int> read_part_number(const Context& context);

// Authorizes an action on an upload of the request's key. access_denied, no_such_bucket.
Task<Result<void>> authorize_upload(Context& context, const Action& action);

}  // namespace verbena::s3
