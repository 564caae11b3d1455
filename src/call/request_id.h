// The value of x-amz-request-id.
#pragma once

#include <string>

namespace verbena::call {

// A new id: 16 upper-case hexadecimal digits.
std::string make_request_id();

}  // namespace verbena::call
