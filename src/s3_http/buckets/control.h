// S3 Control: AWS's API for an account's resources in S3, served at the same endpoint. Only the calls on a bucket's
// tags are implemented. Source: AWS's API reference, "AWS S3 Control".
#pragma once

#include <string>
#include <string_view>

#include "s3_http/context.h"

namespace verbena::s3 {

// Whether a request belongs to that API: by its path and the header x-amz-account-id, which all its calls have and no
// call of S3 has. So a bucket may have the path's name. `domain`: as for resolve_address(); the account may be a
// virtual host under it.
bool is_control_request(const Request& request, std::string_view domain);

// The kind of resource in the path, behind the API's version: "tags".
std::string_view control_subject(const Request& request);

// The bucket whose ARN is in the path of a call on tags. not_implemented: an ARN of another resource; invalid_argument:
// no ARN.
Result<std::string> control_bucket(const Request& request);

// access_denied if x-amz-account-id is neither the caller's account nor the bucket's.
Task<Result<void>> check_control_account(const Context& context);

// <ErrorResponse>, which this API has instead of <Error>.
std::string control_error_xml(const Error& error, std::string_view request_id, const Headers& fields);

}  // namespace verbena::s3
