// Conditions in headers (s3/objects/conditions.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// If-Match and its siblings; with `prefix` "x-amz-copy-source-" those of a copy's source. Invalid dates are ignored.
Preconditions read_preconditions(const Context& context, std::string_view prefix);

// If-Match and If-None-Match of a write, one entity tag or * each (AWS takes only * in If-None-Match; here a tag has
// its meaning of RFC 9110). not_implemented for lists of them.
Result<store::CommitConditions> read_commit_conditions(const Context& context);

}  // namespace verbena::s3
