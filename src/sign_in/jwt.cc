#include "sign_in/jwt.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "sign_in/strict_json.h"

namespace verbena::sign_in {
namespace {

constexpr int header_depth_max = 4, claims_depth_max = 8;
constexpr size_t key_id_bytes_max = 512;

struct NamedAlgorithm {
  std::string_view name;
  Algorithm algorithm;
};
constexpr std::array algorithms = {
    NamedAlgorithm{"RS256", Algorithm::rs256}, NamedAlgorithm{"RS384", Algorithm::rs384},
    NamedAlgorithm{"RS512", Algorithm::rs512}, NamedAlgorithm{"PS256", Algorithm::ps256},
    NamedAlgorithm{"PS384", Algorithm::ps384}, NamedAlgorithm{"PS512", Algorithm::ps512},
    NamedAlgorithm{"ES256", Algorithm::es256}, NamedAlgorithm{"ES384", Algorithm::es384},
    NamedAlgorithm{"ES512", Algorithm::es512}, NamedAlgorithm{"EdDSA", Algorithm::eddsa},
};

std::unexpected<Error> malformed_token(const char* why) { return fail(Errc::malformed, why); }

Result<void> read_header(std::string_view encoded, Jwt& out) {
  const auto bytes = from_base64url(encoded);
  const auto json = bytes ? read_strict_object(as_text(*bytes), header_depth_max) : std::nullopt;
  if (!json) return malformed_token("token: header");
  if (json->contains("crit")) return malformed_token("token: extensions that must be understood");
  const auto name = json->find("alg");
  if (name == json->end() || !name->is_string()) return malformed_token("token: no algorithm");
  const auto algorithm = parse_algorithm(name->get_ref<const std::string&>());
  if (!algorithm) return malformed_token("token: algorithm");
  out.algorithm = *algorithm;
  const auto id = json->find("kid");
  if (id == json->end()) return {};
  if (!id->is_string() || id->get_ref<const std::string&>().size() > key_id_bytes_max) {
    return malformed_token("token: key id");
  }
  out.key_id = id->get<std::string>();
  return {};
}

}  // namespace

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  const auto found = std::ranges::find(algorithms, name, &NamedAlgorithm::name);
  return found == algorithms.end() ? std::nullopt : std::optional(found->algorithm);
}

std::optional<std::vector<std::byte>> from_base64url(std::string_view text) {
  std::string standard(text);
  for (char& c : standard) {
    if (c == '+' || c == '/' || c == '=') return std::nullopt;
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  if (standard.size() % 4 == 1) return std::nullopt;
  standard.append((4 - standard.size() % 4) % 4, '=');
  return from_base64(standard);
}

Result<Jwt> Jwt::parse(std::string_view text) {
  if (text.size() > token_bytes_max) return malformed_token("token: too long");
  const size_t first = text.find('.');
  const size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  // A third dot: five parts, an encrypted token.
  if (second == std::string_view::npos || text.find('.', second + 1) != std::string_view::npos) {
    return malformed_token("token: not three parts");
  }
  Jwt out;
  VB_TRY(read_header(text.substr(0, first), out));
  const auto claims = from_base64url(text.substr(first + 1, second - first - 1));
  auto json = claims ? read_strict_object(as_text(*claims), claims_depth_max) : std::nullopt;
  if (!json) return malformed_token("token: claims");
  out.claims = std::move(*json);
  auto signature = from_base64url(text.substr(second + 1));
  if (!signature || signature->empty()) return malformed_token("token: signature");
  out.signature = std::move(*signature);
  out.signed_part = text.substr(0, second);
  return out;
}

}  // namespace verbena::sign_in
