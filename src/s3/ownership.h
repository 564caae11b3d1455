// Object ownership of a bucket: BucketOwnerEnforced, BucketOwnerPreferred or ObjectWriter. With one account all three
// mean the same; they are kept for those who set and read them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

// <OwnershipControls> with that rule. malformed_xml for anything else.
Result<std::string> ownership_xml(std::string_view ownership);

}  // namespace verbena::s3
