// The public access block of a bucket: <PublicAccessBlockConfiguration>.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "s3/access/access.h"

namespace verbena::s3 {

// The flags; absent ones are false. malformed_xml.
Result<PublicAccessBlock> parse_public_access(std::string_view xml);
std::string public_access_xml(const PublicAccessBlock& block);

}  // namespace verbena::s3
