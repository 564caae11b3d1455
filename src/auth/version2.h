// Signature Version 2, which boto3 still makes for presigned URLs of us-east-1. HMAC-SHA1 over a few headers and the
// resource; the body is not covered. Source: AWS, "Signing and authenticating REST requests". Internal to auth/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "auth/canonical_request.h"

namespace verbena::auth {

struct Version2Claim {
  bool presigned = false;
  std::string access_key, signature;  // base64
  std::string session_token;          // empty for none
  std::string date;                   // as in the string to sign
  int64_t time_s = 0;                 // seconds since the epoch: of the request, or the end of a presigned one
};

// nullopt for a request without such a signature. invalid_argument (malformed, or two mechanisms), access_denied (no
// date, or a presigned request that lacks a part).
Result<std::optional<Version2Claim>> parse_version2(const RequestView& request,
                                                    std::span<const QueryArgument> arguments);

// A path-style "/bucket". Clients sign it with or without a final slash: both name the bucket.
bool names_bucket_alone(const RequestView& request, std::string_view domain);

// Rejects ambiguous requests. A version 2 signature covers values unencoded, so that one text may belong to two
// requests: by an '&' in a value that begins another argument, or a line end in a value that begins another header.
// Such a request is access_denied, on either side of the pair. Remaining: consecutive `response-*` arguments, which
// clients use together; a value with "&response-" and the name of another one is refused.
Result<void> check_one_reading(const RequestView& request, std::span<const QueryArgument> arguments,
                               const Version2Claim& claim);

// Covers everything that changes the meaning: all x-amz-* of headers and query, the resource with the bucket of a
// virtual host, and all query arguments except those that only shape a listing or are ignored.
std::string version2_string_to_sign(const RequestView& request, std::span<const QueryArgument> arguments,
                                    const Version2Claim& claim, std::string_view domain);

}  // namespace verbena::auth
