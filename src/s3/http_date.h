// Dates as HTTP (RFC 9110 section 5.6.7) and S3's XML write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::s3 {

// "Sun, 06 Nov 1994 08:49:37 GMT". Seconds since the epoch.
std::string format_http_date(int64_t seconds);
// All three forms of RFC 9110: IMF-fixdate, RFC 850, asctime. nullopt for anything else.
std::optional<int64_t> parse_http_date(std::string_view text);
// "2026-01-02T03:04:05.678Z". Microseconds since the epoch.
std::string format_iso8601(int64_t microseconds);
// The same form, with or without a fraction, which is dropped. Seconds since the epoch; nullopt for anything else.
std::optional<int64_t> parse_iso8601(std::string_view text);
// All that clients send in request documents: "2026-01-02", or with a time to the second, a fraction of up to nine
// digits, and Z or +hh:mm (no zone is UTC). Microseconds since the epoch; nullopt for anything else.
std::optional<int64_t> parse_timestamp_us(std::string_view text);

}  // namespace verbena::s3
