// The host that a request names.
#pragma once

#include <string>
#include <string_view>

namespace verbena::auth {

// The name in a Host header's value: lower case, without the port, and without the dot that ends a fully qualified name
// (RFC 3986 section 3.2.2). "Bucket.S3.Example.com.:9000" -> "bucket.s3.example.com"; "[::1]:9000" -> "[::1]".
std::string host_name(std::string_view header);

}  // namespace verbena::auth
