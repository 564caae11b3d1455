// Dates as Signature Version 4 writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::auth {

// "20260102T030405Z" from seconds since the epoch, UTC.
std::string format_amz_date(int64_t seconds);
// Strict: exactly that form and a date that exists. Seconds since the epoch.
std::optional<int64_t> parse_amz_date(std::string_view text);
// A Date header: the three forms of RFC 9110 ("Fri, 24 May 2013 00:00:00 GMT", where the zone may also be UTC or
// +0000; "Friday, 24-May-13 00:00:00 GMT"; "Fri May 24 00:00:00 2013"), or the form above.
std::optional<int64_t> parse_http_date(std::string_view text);

}  // namespace verbena::auth
