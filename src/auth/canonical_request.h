// What Signature Version 4 signs: the canonical request and the string to sign. Internal to auth/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"

namespace verbena::auth {

inline constexpr std::string_view algorithm_name = "AWS4-HMAC-SHA256";
inline constexpr std::string_view unsigned_payload_name = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct QueryArgument {
  std::string name, value;  // decoded
};

// Splits and decodes a query. nullopt for a broken percent sequence. Empty pieces ("a&&b") are dropped.
std::optional<std::vector<QueryArgument>> parse_query(std::string_view query);

// Encoded once, sorted by name, then value; arguments called `leave_out` are skipped.
std::string canonical_query(std::span<const QueryArgument> arguments, std::string_view leave_out = {});

// S3 does not normalise a path and encodes it once. nullopt for a broken percent sequence.
std::optional<std::string> canonical_path(std::string_view raw_path);

bool equal_ignoring_case(std::string_view a, std::string_view b);

// Appends "name:value\n" for a header of the request, values of repeated headers joined by commas, runs of blanks
// collapsed. False when the request has no such header. `name` is lower case.
bool append_canonical_header(std::string& out, std::string_view name, std::span<const HeaderView> headers);

// "a;b;c" of names that are lower case and sorted.
std::string join_names(std::span<const std::string> names);

// The hex digest of the canonical request whose parts are given, each already canonical.
std::string canonical_request_hash(std::string_view method, std::string_view path, std::string_view query,
                                   std::string_view header_lines, std::string_view signed_names,
                                   std::string_view payload_hash);

std::string string_to_sign(std::string_view amz_date, std::string_view scope, std::string_view request_hash);

// hex(HMAC(key, text))
std::string signature_of(const std::array<std::byte, 32>& key, std::string_view text);

// "20260102/us-east-1/s3/aws4_request"
std::string scope_of(std::string_view date, std::string_view region, std::string_view service);

}  // namespace verbena::auth
