// Conditional requests: RFC 9110 section 13, with S3's differences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"

namespace verbena::s3 {

std::string strip_quotes(std::string_view etag);

// The members of an If-Match or If-None-Match header, without quotes; a weak tag keeps its "W/". S3 also takes bare
// tags.
std::vector<std::string> parse_etag_list(std::string_view header);

// In RFC 9110's order (section 13.2.2), which is S3's too: precondition_failed, not_modified.
Result<void> check_preconditions(const Preconditions& conditions, const store::ObjectInfo& info);

// False: the object has changed, so Range must be ignored (RFC 9110 section 13.1.5).
bool range_applies(const Preconditions& conditions, const store::ObjectInfo& info);

}  // namespace verbena::s3
