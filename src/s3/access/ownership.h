// Object ownership of a bucket: who owns what is written into it, and whether access control lists count.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "s3/access/access.h"

namespace verbena::s3 {

std::optional<Ownership> named_ownership(std::string_view name);
// <OwnershipControls>. malformed_xml.
Result<Ownership> parse_ownership(std::string_view xml);
std::string ownership_xml(Ownership ownership);

}  // namespace verbena::s3
