// Checksums of objects. Source: AWS "Checking object integrity in Amazon S3".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "s3/service.h"

namespace verbena::s3 {

inline constexpr std::string_view checksum_header_prefix = "x-amz-checksum-";
// "x-amz-checksum-crc32".
std::string checksum_header(Algorithm algorithm);
// "ChecksumCRC32", the element of XML answers.
std::string checksum_element(Algorithm algorithm);
// Base64, with "-n" when composite.
std::string format_checksum(const store::Checksum& checksum);
// "FULL_OBJECT" or "COMPOSITE": of all checksums of an object.
std::string_view checksum_type(const std::vector<store::Checksum>& checksums);
std::string_view checksum_type(bool composite);
// Base64 of exactly the digest's size, "-n" allowed. invalid_checksum.
Result<store::Checksum> parse_checksum(Algorithm algorithm, std::string_view text);

// The checksum that S3 stores for a body without one (since December 2024).
inline constexpr Algorithm default_checksum = Algorithm::crc64nvme;
// For an HTTP body. Native PUTs get none unless the client asks for one, PUTs by RDMA what their answer tells.
void add_default_checksum(PutRequest& put);

// The raw digest of a text.
std::string digest_text(Algorithm algorithm, std::string_view text);

// Whether the object's checksum can be computed from those of its parts: only for CRCs.
bool can_be_combined(Algorithm algorithm);
// Object checksums of a completed upload from those of its parts. `full_object`: by combining CRCs; else composite.
// nullopt if a part has none of that algorithm, or it cannot be combined.
std::optional<store::Checksum> combine_checksums(Algorithm algorithm, bool full_object,
                                                 const std::vector<store::PartInfo>& parts);

}  // namespace verbena::s3
