// S3 Control: AWS's API of what an account has in S3, at the endpoint of S3. Of its calls those on the tags of a bucket
// are served. Source: AWS's API reference, "AWS S3 Control".
#pragma once

#include <string>
#include <string_view>

#include "s3_http/context.h"

namespace verbena::s3 {

// Whether a request is of that API: by its path and its header x-amz-account-id, which all its calls have and none of
// S3's. So a bucket may be called like the path. `domain`: as resolve_address() takes it; the account may be a virtual
// host under it.
bool is_control_request(const Request& request, std::string_view domain);

// The path's first word behind the API's version, which says what a call is about: "tags".
std::string_view control_subject(const Request& request);

// Of a call on tags: the bucket that its path names by ARN. not_implemented: an ARN of something else;
// invalid_argument: none.
Result<std::string> control_bucket(const Request& request);

// access_denied where x-amz-account-id is neither the caller's account nor the bucket's.
Task<Result<void>> check_control_account(const Context& context);

// <ErrorResponse>, which this API has instead of <Error>.
std::string control_error_xml(const Error& error, std::string_view request_id, const Headers& fields);

}  // namespace verbena::s3
