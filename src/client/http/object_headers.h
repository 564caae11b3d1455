// Conversion between HTTP headers and object properties, including checksums.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "client/outcome.h"
#include "net/http_client.h"

namespace verbena::client {

// invalid_argument when a name or value cannot stand in a header (line breaks, other control characters).
Outcome<net::HttpHeaders> put_headers(const PutOptions& options);
// Whether PutOptions::headers may have it.
bool is_stored_header(std::string_view name);
net::HttpHeaders get_headers(const GetOptions& options);

// A server that names a larger object is wrong: S3's have 50 TB at most. Callers allocate what a HEAD names.
inline constexpr uint64_t size_believed_max = uint64_t{1} << 47;

// Properties of the object in a reply to GET, HEAD or ranged GET. `key` is copied into it.
ObjectInfo object_info(const net::HttpReply& reply, std::string_view key);

// Object properties in the reply to a PUT: PutReply::headers.
std::map<std::string, std::string> said_headers(const net::HttpReply& reply);

struct KnownChecksum {
  Algorithm algorithm = Algorithm::crc32c;
  std::string base64;
};
// The full-object checksum among the reply's headers that is cheapest to check; composite ones ("...-4") are skipped.
std::optional<KnownChecksum> checksum_of(const net::HttpReply& reply);
// False only when `known` is set and `bytes` do not match it.
bool matches(const std::optional<KnownChecksum>& known, Bytes bytes);

// Parses "CRC32C:yZRlqg==". invalid_argument for anything else.
Outcome<KnownChecksum> parse_checksum(std::string_view text);

std::string crc32c_base64(uint32_t crc);
// "x-amz-checksum-crc32c"
std::string checksum_header(Algorithm algorithm);

}  // namespace verbena::client
