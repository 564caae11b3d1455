// Dates of wire formats and documents, always UTC. The formats of HTTP, Signature Version 4, XML and JSON are defined
// here only.
//
// All of them have four digits for the year: parsed dates are in the years 0 to 9999, and a time outside of them is
// written as the first or the last representable second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena {

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7). Seconds since the epoch.
std::string format_http_date(int64_t seconds);
// Parses the three forms of RFC 9110: that one, RFC 850's ("Sunday, 06-Nov-94 08:49:37 GMT") and asctime's ("Sun Nov  6
// 08:49:37 1994"). The zone may also be UTC (Go's time.RFC1123), +0000 (AWS's own examples) or -0000.
std::optional<int64_t> parse_http_date(std::string_view text);

// "20260102T030405Z", the form of Signature Version 4. Seconds since the epoch.
std::string format_amz_date(int64_t seconds);
std::optional<int64_t> parse_amz_date(std::string_view text);

// "2026-01-02T03:04:05.678Z", the form of S3's XML. Microseconds since the epoch.
std::string format_iso8601(int64_t microseconds);
void append_iso8601(std::string& out, int64_t microseconds);
// "2026-01-02T03:04:05Z", the form of IAM's XML. Seconds since the epoch.
std::string format_iso8601_seconds(int64_t seconds);

// Microseconds since the epoch, from all forms that clients use in documents: "2026-01-02", or with a time "T12:00"
// that may have seconds, a fraction of them (rounded down) and a zone, "Z", "+01:30" or "+0130"; no zone is UTC.
std::optional<int64_t> parse_iso8601(std::string_view text);
// Only with a time after a 'T' and with a 'Z', as required in documents that grant access.
std::optional<int64_t> parse_iso8601_utc(std::string_view text);

}  // namespace verbena
