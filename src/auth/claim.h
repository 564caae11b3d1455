// A request's claimed signature, parsed and checked for shape but not yet verified. Internal to auth/.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "auth/auth.h"
#include "auth/canonical_request.h"

namespace verbena::auth {

// Its views are into the request and the arguments that it was parsed from.
struct Claim {
  bool presigned = false;  // in the query instead of the Authorization header
  std::string_view access_key;
  std::string_view date, region, service;  // of the credential scope
  std::string_view signed_headers;         // "a;b;c": lower case, sorted, without repetition, host among them
  std::string_view signature;              // 64 lower-case hexadecimal digits
  std::array<char, 16> amz_date{};         // "20260102T030405Z"
  int64_t time_s = 0;                      // the same in seconds since the epoch
  int64_t expires_s = 0;                   // presigned only
  std::string_view payload_hash;           // as in the canonical request
  std::string_view session_token;          // empty for none
  bool bucket_session = false;             // the token was in x-amz-s3session-token
  std::string_view date_text() const { return {amz_date.data(), amz_date.size()}; }
};

// nullopt for an anonymous request. Errors: authorization_header_malformed, authorization_query_error, invalid_argument
// (two mechanisms, an unknown one), access_denied (no date), missing_security_header (no x-amz-content-sha256, unless
// `body_sha256` replaces it).
Result<std::optional<Claim>> parse_claim(const RequestView& request, std::span<const QueryArgument> arguments,
                                         std::string_view body_sha256 = {});

// "<access key>/20260102/us-east-1/s3/aws4_request" into access_key, date, region and service. Split from the end: an
// access key may contain a slash. The region may be empty, as some SDKs sign without a configured region. False when it
// has another shape.
bool parse_credential(std::string_view text, Claim& claim);

// A Date or x-amz-date header: "20260102T030405Z" or a date of HTTP. Seconds since the epoch.
std::optional<int64_t> parse_signed_date(std::string_view value);

// The only header of that (lower-case) name; nullptr when absent. invalid_request when it is repeated.
Result<const HeaderView*> single_header(const RequestView& request, std::string_view name);

}  // namespace verbena::auth
