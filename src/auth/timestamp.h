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
// A Date header: "Fri, 24 May 2013 00:00:00 GMT" (RFC 9110's IMF-fixdate) or the form above.
std::optional<int64_t> parse_http_date(std::string_view text);

}  // namespace verbena::auth
