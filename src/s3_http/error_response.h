// Errors (s3/errors.h) as answers over HTTP.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "s3_http/request.h"

namespace verbena::s3 {

// <Error> as AWS writes it. `fields` are the extra elements that some codes carry (BucketName, Key, ...).
std::string error_xml(const Error& error, std::string_view resource, std::string_view request_id,
                      const Headers& fields = {});

// Replaces the contents of `response` by an error as AWS writes it.
void fill_error(Response& response, const Error& error, std::string_view resource, std::string_view request_id);
// The same with extra elements.
void fill_error_with(Response& response, const Error& error, std::string_view resource, std::string_view request_id,
                     const Headers& fields);

// x-amz-request-id and x-amz-id-2, which every response carries.
void add_request_ids(Response& response, std::string_view request_id);

}  // namespace verbena::s3
