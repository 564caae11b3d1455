// The <Grant> elements of access control lists and logging configurations.
#pragma once

#include <pugixml.hpp>
#include <vector>

#include "s3/access/acl.h"

namespace verbena::s3 {

// The <Grant> children of `list`. Accounts must exist; without a service they are accepted as stored. malformed_acl,
// invalid_grantee, unresolvable_email, invalid_argument.
Result<std::vector<Grant>> parse_grants(const Service* service, const pugi::xml_node& list);
void write_grants(XmlWriter& xml, const Service& service, const std::vector<Grant>& grants);

}  // namespace verbena::s3
