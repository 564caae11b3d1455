// Which requests directory buckets (S3 Express One Zone) accept. Source: Amazon S3 User Guide, "Differences for
// directory buckets", and the API reference of each call.
#pragma once

#include <string>
#include <string_view>

#include "s3_http/context.h"

namespace verbena::s3 {

// Whether AWS has the call for directory buckets. `object`: on an object. `selector`: the query parameter that selects
// it; empty: none.
bool serves_directory(bool object, std::string_view method, std::string_view selector);

// Checks a request to a directory bucket: not_implemented for headers and arguments that AWS has for other buckets
// only, invalid_argument and invalid_storage_class for values. `selector` as above.
Result<void> check_directory_request(Context& context, std::string_view selector);

// x-amz-bucket-location-type and -name, of HeadBucket.
void add_location_headers(Context& context);

}  // namespace verbena::s3
