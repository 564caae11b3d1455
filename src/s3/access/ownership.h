// Object ownership of a bucket: the owner of new objects, and whether access control lists apply.
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
