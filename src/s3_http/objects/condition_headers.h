// Conditions as headers ask for them (s3/objects/conditions.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// If-Match and friends; with `prefix` "x-amz-copy-source-" those of a copy's source. Dates that are no dates are
// ignored.
Preconditions read_preconditions(const Context& context, std::string_view prefix);

// If-Match and If-None-Match of a write, one entity tag or * each (AWS takes only * in If-None-Match; a tag does as in
// RFC 9110). not_implemented for lists of them.
Result<store::CommitConditions> read_commit_conditions(const Context& context);

}  // namespace verbena::s3
