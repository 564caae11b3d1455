#include "auth/chunk_signature.h"

#include <initializer_list>

#include "auth/canonical_request.h"

namespace verbena::auth {
namespace {

std::string joined(std::initializer_list<std::string_view> lines) {
  std::string text;
  for (std::string_view line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

std::string sign(const ChunkContext& context, std::string_view text) {
  return std::string(text_of(signature_of(HmacSha256(context.key), text)));
}

}  // namespace

std::string chunk_signature(const ChunkContext& context, std::string_view previous, std::string_view chunk_sha256) {
  return sign(context, joined({"AWS4-HMAC-SHA256-PAYLOAD", context.amz_date, context.scope, previous, empty_sha256,
                               chunk_sha256}));
}

std::string trailer_signature(const ChunkContext& context, std::string_view previous, std::string_view trailer_sha256) {
  return sign(context, joined({"AWS4-HMAC-SHA256-TRAILER", context.amz_date, context.scope, previous, trailer_sha256}));
}

}  // namespace verbena::auth
