#include "native/session_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/aead.h"
#include "fabric/sealing_names.h"
#include "native/wire/message.h"

namespace verbena::native {
namespace {

using Json = nlohmann::json;

constexpr size_t user_agent_size_max = 256;
constexpr size_t sealings_max = 8;

// The client's name and version, optional: printable ASCII, as a User-Agent header has it.
Result<std::string> parse_user_agent(const Json& json) {
  const auto found = json.find("user_agent");
  if (found == json.end()) return std::string();
  const auto* const text = found->get_ptr<const std::string*>();
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text == nullptr || text->size() > user_agent_size_max || !std::ranges::all_of(*text, printable)) {
    return fail(Errc::invalid_request, "native: user agent");
  }
  return *text;
}

// The cipher for a client that lists those that it has, the one that is fastest there first: AES unless one of the two
// machines is faster with the other. A client without a list wants no sealing.
Result<fabric::Sealing> choose_sealing(const Json& json) {
  using fabric::Sealing;
  const auto found = json.find("sealing");
  if (found == json.end()) return Sealing::none;
  if (!found->is_array() || found->empty() || found->size() > sealings_max) {
    return fail(Errc::invalid_request, "native: sealing");
  }
  bool aes = false, chacha = false, aes_first = fastest_aead() == AeadKind::aes_256_gcm;
  for (const Json& name : *found) {
    const auto* const text = name.get_ptr<const std::string*>();
    if (text == nullptr) return fail(Errc::invalid_request, "native: sealing");
    const auto sealing = fabric::usable_sealing_of(*text);
    if (sealing == Sealing::chacha20_poly1305 && !aes) aes_first = false;
    aes = aes || sealing == Sealing::aes_256_gcm;
    chacha = chacha || sealing == Sealing::chacha20_poly1305;
  }
  if (!aes && !chacha) return fail(Errc::not_implemented, "native: this server has none of the client's ciphers");
  return aes && (aes_first || !chacha) ? Sealing::aes_256_gcm : Sealing::chacha20_poly1305;
}

// False: there is no such member, or it is no hexadecimal text of that many bytes.
bool read_hex(const Json& json, const char* name, MutableBytes into) {
  const auto found = json.find(name);
  const auto* const text = found == json.end() ? nullptr : found->get_ptr<const std::string*>();
  return text != nullptr && wire::read_hex(*text, into);
}

}  // namespace

Result<SessionRequest> parse_session_request(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(Errc::invalid_request, "native: session request is no JSON object");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer() || *version != wire::version) {
    return fail(Errc::not_implemented, "native: protocol version");
  }
  // The client's newest version. Servers of version 1 ignore it.
  const auto newest = json.find("version_max");
  unsigned version_max = 1;
  if (newest != json.end()) {
    if (!newest->is_number_unsigned()) return fail(Errc::invalid_request, "native: version_max");
    version_max = static_cast<unsigned>(std::min<uint64_t>(newest->get<uint64_t>(), wire::newest_version()));
  }
  SessionRequest wanted;
  wanted.version = std::max(version_max, 1u);
  if (!read_hex(json, "client_nonce", wanted.nonce)) return fail(Errc::invalid_request, "native: client nonce");
  // There is no way back to a session without: a client that knows the version sends its key.
  if (wanted.version >= wire::version_of_key_exchange && !read_hex(json, "client_key", wanted.key)) {
    return fail(Errc::invalid_request, "native: client key");
  }
  VB_ASSIGN(wanted.user_agent, parse_user_agent(json));
  VB_ASSIGN(wanted.sealing, choose_sealing(json));
  if (const auto providers = json.find("providers"); providers != json.end()) {
    if (!providers->is_array() || providers->size() > 16) return fail(Errc::invalid_request, "native: providers");
    for (const Json& name : *providers) {
      if (!name.is_string()) return fail(Errc::invalid_request, "native: providers");
      wanted.providers.push_back(name.get<std::string>());
    }
  }
  return wanted;
}

SessionKeyMaker::SessionKeyMaker(const SessionRequest& request, const Sha256& body_sha256, std::string_view secret_key)
    : version_(request.version), secret_key_(secret_key) {
  numbers_.client = request.nonce;
  fill_random(numbers_.server);
  exchange_.request = body_sha256;
  exchange_.client = request.key;
}

Result<wire::MasterKey> SessionKeyMaker::master(uint64_t session) {
  numbers_.session = session;
  if (!exchanges()) return wire::derive_master(secret_key_, numbers_);
  if (shared_.empty()) {
    VB_ASSIGN(EphemeralKey own, EphemeralKey::make());
    exchange_.server = own.public_key();
    VB_ASSIGN(shared_, own.agree(exchange_.client));
  }
  return wire::derive_master(secret_key_, numbers_, exchange_, shared_);
}

std::optional<EphemeralKey::Public> SessionKeyMaker::server_key() const {
  return exchanges() ? std::optional(exchange_.server) : std::nullopt;
}

}  // namespace verbena::native
