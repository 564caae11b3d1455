// The text that Signature Version 4 signs: the canonical request and the string to sign. Internal to auth/.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/auth.h"
#include "base/hmac.h"

namespace verbena::auth {

inline constexpr std::string_view algorithm_name = "AWS4-HMAC-SHA256";
inline constexpr std::string_view unsigned_payload_name = "UNSIGNED-PAYLOAD";
inline constexpr std::string_view empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// The characters that AWS's UriEncode does not encode, except '/'.
inline bool unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

struct QueryArgument {
  std::string name, value;  // decoded
};

// Splits and decodes a query. Empty pieces ("a&&b") are dropped. invalid_uri for a broken percent sequence,
// invalid_request for more than query_arguments_max arguments.
Result<std::vector<QueryArgument>> parse_query(std::string_view query);

// Encoded once, sorted by name, then value; arguments called `leave_out` are skipped.
std::string canonical_query(std::span<const QueryArgument> arguments, std::string_view leave_out = {});

// Rejects repeated arguments. The canonical query sorts arguments of one name by value, while the request's handler
// uses the first one received: one signature would cover two requests. Only `tagKeys` (UntagResource) may repeat, since
// all count, in any order. access_denied.
Result<void> check_one_reading(std::span<const QueryArgument> arguments);

// S3 does not normalise a path and encodes it once. nullopt for a broken percent sequence.
std::optional<std::string> canonical_path(std::string_view raw_path);
// Whether the path is canonical already: nothing in it is encoded or would be.
bool is_canonical_path(std::string_view raw_path);

bool equal_ignoring_case(std::string_view a, std::string_view b);

// Appends "name:value\n" for a header of the request, values of repeated headers joined by commas, runs of blanks
// collapsed. False when the request has no such header. `name` is lower case.
bool append_canonical_header(std::string& out, std::string_view name, std::span<const HeaderView> headers);

// Calls `use` with each name of "a;b;c", until it returns false. False: it did.
template <class Use>
bool for_each_name(std::string_view names, Use use) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(';'), names.size());
    if (!use(names.substr(0, end))) return false;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return true;
}

// A request to be signed, its parts already canonical.
struct CanonicalRequest {
  std::string_view method, path, query;
  std::string_view header_lines;  // as append_canonical_header() writes them
  std::string_view signed_names;  // "a;b;c"
  std::string_view payload_hash;
};

// The signature, in hexadecimal digits.
using Signature = std::array<char, 64>;
Signature signature_of(const HmacSha256& key, std::string_view text);
// The signature of a request sent at `amz_date`, for `scope`.
Signature signature_of(const HmacSha256& key, const CanonicalRequest& request, std::string_view amz_date,
                       std::string_view scope);
inline std::string_view text_of(const Signature& signature) { return {signature.data(), signature.size()}; }

// Appends "20260102/us-east-1/s3/aws4_request".
void append_scope(std::string& out, std::string_view date, std::string_view region, std::string_view service);
std::string scope_of(std::string_view date, std::string_view region, std::string_view service);

}  // namespace verbena::auth
