#include "native/session_http.h"

#include <nlohmann/json.hpp>

#include "base/hmac.h"
#include "base/log_limit.h"
#include "call/account.h"
#include "call/request_id.h"
#include "fabric/sealing_names.h"
#include "http/signed_exchange.h"
#include "memory/cuda_devices.h"
#include "memory/whole_body.h"
#include "native/session_request.h"
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

// "verbs" wants "verbs;ofi_rxm" too: the part before ';' is the core provider.
bool wants(const SessionRequest& wanted, std::string_view provider) {
  if (wanted.providers.empty()) return true;
  return std::ranges::any_of(wanted.providers, [&](std::string_view name) {
    return name == provider || name == provider.substr(0, provider.find(';'));
  });
}

Json endpoints_json(const DoorState& door, const Session& session, const SessionRequest& wanted) {
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

// A session's own line in the log says what protects it, for clients that could do better.
void note_opened(DoorState& door, const Session& session, const SessionRequest& wanted) {
  door.metrics.sessions_made.add();
  door.metrics.sessions.set(static_cast<int64_t>(door.sessions.size()));
  const auto cipher = cipher_among(door, session, [&](size_t i) { return wants(wanted, door.endpoints[i].provider); });
  static log::Limit limit, old_limit;
  limit.info("native: session opened access_key={} peer={} sealed={}", log::printable(session.identity.access_key),
             session.peer_address, cipher == fabric::Sealing::none ? "none" : fabric::name_of(cipher));
  if (session.has_forward_secrecy()) return;
  door.metrics.sessions_without_secrecy.add();
  if (session.sealing == fabric::Sealing::none) return;
  old_limit.warn(
      "native: a client's version has no forward secrecy: what its session seals can be opened later by its secret key "
      "(where encryption is required it gets no RDMA) version={} access_key={} peer={}",
      session.version, log::printable(session.identity.access_key), session.peer_address);
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
  VB_CO_ASSIGN(SessionRequest wanted, parse_session_request(body));
  if (door.stopping) co_return fail(Errc::service_unavailable, "native: stopping");
  VB_CO_TRY(door.nonces.take(wanted.nonce, verified.identity, SteadyClock::now()));

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
  // The first public-key work, and the last: for a signer, once, and only where a place is free.
  SessionKeyMaker keys(wanted, verified.payload_sha256, verified.key->credentials.secret_key);
  const auto make_master = [&keys](uint64_t id) { return keys.master(id); };
  VB_CO_TRY(door.sessions.add(session, make_master));
  note_opened(door, *session, wanted);

  unsigned cores = 0;
  for (const EndpointInfo& endpoint : door.endpoints) cores = std::max(cores, endpoint.core + 1);
  Json answer = {{"version", session->version},
                 {"session", fmt::format("{:016x}", session->id)},
                 {"credits", door.options.credits},
                 {"idle_timeout_s", door.options.idle_timeout.count()},
                 {"cores", cores},
                 {"key_hash", "crc32c"},
                 {"trace_context", true},
                 {"endpoints", endpoints_json(door, *session, wanted)}};
  answer["server_nonce"] = to_hex(keys.server_nonce());
  if (const auto key = keys.server_key()) answer["server_key"] = to_hex(*key);
  if (const auto devices = door.devices(); session->version >= wire::version_of_devices && devices != nullptr) {
    Json kinds = Json::array();
    for (const auto platform : memory::cuda::platforms) {
      if (devices->takes_handles(platform)) kinds.push_back(to_string(platform));
      if (devices->maps_pieces(platform)) kinds.push_back(std::string(to_string(platform)) + "-descriptors");
    }
    answer["device_memory"] = std::move(kinds);
  }
  response.body = answer.dump();
  response.headers.emplace_back("content-type", "application/json");
  response.headers.emplace_back("cache-control", "no-store");
  response.headers.emplace_back("x-verbena-proof", wire::answer_proof(session->master, response.body));
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
