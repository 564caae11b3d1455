// Files stored compressed in the program, for clients that accept that and for those that do not.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::admin {

// Whether a client with that Accept-Encoding prefers gzip (RFC 9110 section 12.5.3): not without the header, not with a
// weight of 0, not if it prefers the identity. Several fields of that name are joined by commas.
bool wants_gzip(std::string_view accept_encoding);

// Decompresses a gzip. `bytes_max`: of the result. malformed.
Result<std::string> gunzip(std::string_view gzip, size_t bytes_max);

}  // namespace verbena::admin
