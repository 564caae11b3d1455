// Files that lie compressed in the program, for clients that take them so and for those that do not.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::admin {

// Whether gzip is what a client with that Accept-Encoding wants (RFC 9110 section 12.5.3): not without the header, not
// with a weight of 0, not where it likes the file as it is better. Several fields of that name are joined by commas.
bool wants_gzip(std::string_view accept_encoding);

// The file in a gzip. `bytes_max`: of the file. malformed.
Result<std::string> gunzip(std::string_view gzip, size_t bytes_max);

}  // namespace verbena::admin
