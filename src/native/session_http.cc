#include "native/session_http.h"

#include <nlohmann/json.hpp>

#include "base/aead.h"
#include "base/hmac.h"
#include "base/log_limit.h"
#include "call/account.h"
#include "call/request_id.h"
#include "fabric/sealing_names.h"
#include "http/signed_exchange.h"
#include "memory/cuda_devices.h"
#include "memory/whole_body.h"
#include "native/wire/device.h"
#include "s3_http/error_response.h"

namespace verbena::native {
namespace {

using Json = nlohmann::json;

constexpr size_t body_size_max = 16 * KiB;

Task<Result<memory::WholeBody>> read_body(DoorState& door, http::Exchange& exchange) {
  const auto length = exchange.content_length();
  if (!length) co_return fail(Errc::missing_content_length, "native: session request");
  auto body = co_await memory::read_whole(exchange.body(), door.service.arena, exchange.peer_address(), body_size_max);
  if (!body && body.error() == Errc::too_large) co_return fail(Errc::entity_too_large, "native: session request");
  if (!body) co_return std::unexpected(body.error());
  if (body->text.size() != *length) co_return fail(Errc::incomplete_body, "native: session request");
  co_return body;
}

struct Wanted {
  wire::Nonce nonce;
  std::vector<std::string> providers;  // none: all
  unsigned version = 1;
  std::string user_agent;
  fabric::Sealing sealing = fabric::Sealing::none;
};

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

Result<Wanted> parse_wanted(const std::string& body) {
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
    version_max = static_cast<unsigned>(std::min<uint64_t>(newest->get<uint64_t>(), wire::protocol_version_max));
  }
  const auto nonce = json.find("client_nonce");
  if (nonce == json.end() || !nonce->is_string()) return fail(Errc::invalid_request, "native: client nonce");
  const auto raw = from_hex(nonce->get_ref<const std::string&>());
  Wanted wanted;
  wanted.version = std::max(version_max, 1u);
  VB_ASSIGN(wanted.user_agent, parse_user_agent(json));
  VB_ASSIGN(wanted.sealing, choose_sealing(json));
  if (!raw || raw->size() != wanted.nonce.size()) return fail(Errc::invalid_request, "native: client nonce");
  std::ranges::copy(*raw, wanted.nonce.begin());
  if (const auto providers = json.find("providers"); providers != json.end()) {
    if (!providers->is_array() || providers->size() > 16) return fail(Errc::invalid_request, "native: providers");
    for (const Json& name : *providers) {
      if (!name.is_string()) return fail(Errc::invalid_request, "native: providers");
      wanted.providers.push_back(name.get<std::string>());
    }
  }
  return wanted;
}

// "verbs" wants "verbs;ofi_rxm" too: the part before ';' is the core provider.
bool wants(const Wanted& wanted, std::string_view provider) {
  if (wanted.providers.empty()) return true;
  return std::ranges::any_of(wanted.providers, [&](std::string_view name) {
    return name == provider || name == provider.substr(0, provider.find(';'));
  });
}

Json endpoints_json(const DoorState& door, const Session& session, const Wanted& wanted) {
  Json list = Json::array();
  for (size_t i = 0; i < door.endpoints.size(); ++i) {
    const EndpointInfo& endpoint = door.endpoints[i];
    if (!wants(wanted, endpoint.provider)) continue;
    const Protection protection = protection_of(endpoint, session);
    if (protection == Protection::refused) continue;
    const bool sealed = protection == Protection::sealed;
    list.push_back({{"index", i},
                    {"core", endpoint.core},
                    {"provider", endpoint.provider},
                    {"address", to_hex(as_bytes(endpoint.address))},
                    {"inline_max_bytes", endpoint.inline_max_bytes},
                    {"message_size_max", endpoint.message_size_max},
                    {"encrypted", endpoint.encrypted || sealed}});
    if (sealed) list.back()["sealed"] = fabric::name_of(session.sealing);
  }
  return list;
}

Task<Result<void>> make_session(DoorState& door, http::Exchange& exchange, s3::Response& response,
                                auth::Identity& who) {
  // The signature covers the body's hash, so the nonce and the options are the signer's.
  VB_CO_ASSIGN(const auto verified,
               http::verify_signed(door.verifier, exchange, door.options.auth_failures, door.options.networks));
  who = verified.identity;
  exchange.vouch();
  if (verified.payload != auth::Payload::sha256) {
    co_return fail(Errc::missing_signed_header, "native: a session request needs x-amz-content-sha256 of its body");
  }
  VB_CO_ASSIGN(const memory::WholeBody whole, co_await read_body(door, exchange));
  const std::string& body = whole.text;
  if (sha256_of(as_bytes(body)) != verified.payload_sha256) {
    co_return fail(Errc::content_sha256_mismatch, "native: session request");
  }
  VB_CO_ASSIGN(Wanted wanted, parse_wanted(body));
  if (door.stopping) co_return fail(Errc::service_unavailable, "native: stopping");
  if (!door.nonces.fresh(wanted.nonce, SteadyClock::now())) {
    co_return fail(Errc::access_denied, "native: this session request was used before");
  }

  auto session = std::make_shared<Session>();
  session->version = wanted.version;
  session->key = verified.key;
  session->identity = verified.identity;
  session->identity.signed_headers.clear();  // of the HTTP request; messages have none, and copy this
  session->peer_address = exchange.peer_address();
  session->user_agent = std::move(wanted.user_agent);
  session->sealing = wanted.sealing;
  if (door.options.networks != nullptr) session->encryption = door.options.networks->encryption(session->peer_address);
  if (session->encryption == RdmaEncryption::off) session->sealing = fabric::Sealing::none;
  session->secure = exchange.secure();
  session->opened_us = door.service.clock.now_us();
  wire::Nonce server_nonce;
  fill_random(server_nonce);
  VB_CO_TRY(door.sessions.add(session, wanted.nonce, server_nonce, verified.key->credentials.secret_key));
  door.metrics.sessions_made.add();
  door.metrics.sessions.set(static_cast<int64_t>(door.sessions.size()));

  unsigned cores = 0;
  for (const EndpointInfo& endpoint : door.endpoints) cores = std::max(cores, endpoint.core + 1);
  Json answer = {{"version", session->version},
                 {"session", fmt::format("{:016x}", session->id)},
                 {"server_nonce", to_hex(server_nonce)},
                 {"credits", door.options.credits},
                 {"idle_timeout_s", door.options.idle_timeout.count()},
                 {"cores", cores},
                 {"key_hash", "crc32c"},
                 {"trace_context", true},
                 {"endpoints", endpoints_json(door, *session, wanted)}};
  if (const auto devices = door.devices(); session->version >= wire::version_of_devices && devices != nullptr) {
    Json kinds = Json::array();
    for (const auto platform : memory::cuda::platforms) {
      if (devices->has(platform)) kinds.push_back(to_string(platform));
    }
    if (devices->maps_pieces()) kinds.push_back("cuda-descriptors");
    answer["device_memory"] = std::move(kinds);
  }
  response.body = answer.dump();
  response.headers.emplace_back("content-type", "application/json");
  response.headers.emplace_back("cache-control", "no-store");
  response.headers.emplace_back("x-verbena-proof", wire::answer_proof(session->master, response.body));
  static log::Limit limit;
  limit.info("native: session opened access_key={} peer={}", log::printable(verified.identity.access_key),
             session->peer_address);
  co_return Result<void>{};
}

void note_session(DoorState& door, const http::Exchange& exchange, const s3::Response& response,
                  const auth::Identity& who, const std::string& request_id, SteadyClock::time_point began) {
  const int64_t taken_us = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - began).count();
  call::Observed observed{.by = &door.observers, .time_us = door.service.clock.now_us() - taken_us};
  call::Call call;
  call.identity = who;
  call.request_id = request_id;
  call.peer_address = exchange.peer_address();
  call.observed = &observed;
  call::tell(call, {.door = call::Door::native, .status = response.status},
             {.action = "POST session", .error_code = response.error_code, .duration_us = taken_us});
}

}  // namespace

Task<void> serve_http(std::shared_ptr<DoorState> door, http::Exchange& exchange) {
  const auto began = SteadyClock::now();
  s3::Response response;
  auth::Identity who;
  const std::string request_id = call::make_request_id();
  Result<void> done;
  const std::string_view path = exchange.path(), method = exchange.method();
  if (path == "/-/session" && method == "POST") {
    done = co_await make_session(*door, exchange, response, who);
    if (!done) door->metrics.sessions_refused.add();
  } else {
    done = fail(Errc::method_not_allowed, "native: no such resource");
  }
  if (!done) {
    response = {};
    s3::fill_error(response, done.error(), path, request_id);
    // The native client reads this number instead of XML.
    response.headers.emplace_back("x-verbena-error", std::to_string(static_cast<unsigned>(done.error().code)));
    exchange.close_after();  // the body may not have been read
  }
  if (path == "/-/session" && observe::requests_are_observed())
    note_session(*door, exchange, response, who, request_id, began);
  (void)co_await exchange.reply(response);
}

}  // namespace verbena::native
