// The one access control list there is: the owner may do everything.
#pragma once

#include <string>

namespace verbena::s3 {

std::string owner_acl_xml();

}  // namespace verbena::s3
