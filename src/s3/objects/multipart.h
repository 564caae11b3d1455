// What the files of multipart uploads share.
#pragma once

#include "s3/access/actions.h"
#include "s3/context.h"

namespace verbena::s3 {

// ?partNumber=, 1 to 10,000. invalid_argument.
Result<int> read_part_number(const Context& context);

// For what is done with an upload of the request's key. access_denied, no_such_bucket.
Task<Result<void>> authorize_upload(Context& context, const Action& action);

}  // namespace verbena::s3
