// Signatures inside a streaming payload. Each covers the one before it, beginning with the request's own signature.
// Sources: AWS "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks" and
// "... Including Trailing Headers".
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace verbena::auth {

struct ChunkContext {
  std::string_view amz_date;
  std::string_view scope;
  const std::array<std::byte, 32>& key;
};

// The signature of a chunk with this hex SHA-256.
std::string chunk_signature(const ChunkContext& context, std::string_view previous, std::string_view chunk_sha256);

// The signature of the trailing headers; `trailer_sha256`: the hex SHA-256 of their canonical text ("name:value\n"
// each, names lower case).
std::string trailer_signature(const ChunkContext& context, std::string_view previous, std::string_view trailer_sha256);

}  // namespace verbena::auth
