// Conditional requests: RFC 9110 section 13, with S3's differences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "s3/context.h"
#include "s3/service.h"

namespace verbena::s3 {

std::string strip_quotes(std::string_view etag);

// The members of an If-Match or If-None-Match header, without quotes; a weak tag keeps its "W/". S3 also takes bare
// tags.
std::vector<std::string> parse_etag_list(std::string_view header);

// If-Match and its siblings; with `prefix` "x-amz-copy-source-" those of a copy's source. Invalid dates are ignored.
Preconditions read_preconditions(const Context& context, std::string_view prefix);

// In RFC 9110's order (section 13.2.2), which is S3's too: precondition_failed, not_modified.
Result<void> check_preconditions(const Preconditions& conditions, const store::ObjectInfo& info);

// False: the object has changed, so Range must be ignored (RFC 9110 section 13.1.5).
bool range_applies(const Preconditions& conditions, const store::ObjectInfo& info);

// If-Match and If-None-Match of a write, one entity tag or * each (AWS takes only * in If-None-Match; a tag does as in
// RFC 9110). not_implemented for lists of them.
Result<store::CommitConditions> read_commit_conditions(const Context& context);

}  // namespace verbena::s3
