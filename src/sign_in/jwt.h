// A JSON Web Token, signed (RFC 7515 and 7519, compact form). Parsing returns its claims; none may be trusted before a
// key of its issuer (jwk.h) has verified it and its claims were checked (claims.h).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::sign_in {

// Signatures by a private key (RFC 7518 section 3.1, RFC 8037). Signatures by a shared secret (HS256 ...) and `none`
// are excluded: the former could be made with a public key, the latter by anyone.
enum class Algorithm : uint8_t { rs256, rs384, rs512, ps256, ps384, ps512, es256, es384, es512, eddsa };
std::optional<Algorithm> parse_algorithm(std::string_view name);

inline constexpr size_t token_bytes_max = 20'000;  // AWS's limit

struct Jwt {
  Algorithm algorithm = Algorithm::rs256;
  std::optional<std::string> key_id;
  nlohmann::json claims;         // an object
  std::string_view signed_part;  // of the parsed text
  std::vector<std::byte> signature;

  // malformed: not such a token. Header fields that would name a key or its location (jwk, jku, x5c, x5u) are ignored,
  // and a header with mandatory extensions (crit) is refused. `text` outlives the result.
  static Result<Jwt> parse(std::string_view text);
};

// RFC 4648 section 5 without padding. nullopt for anything else.
std::optional<std::vector<std::byte>> from_base64url(std::string_view text);

}  // namespace verbena::sign_in
