// What the files of multipart uploads share.
#pragma once

#include "s3/context.h"

namespace verbena::s3 {

// ?partNumber=, 1 to 10,000. invalid_argument.
Result<int> read_part_number(const Context& context);

}  // namespace verbena::s3
