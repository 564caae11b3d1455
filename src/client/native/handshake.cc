#include "client/native/handshake.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "auth/bucket_token.h"
#include "base/aead_available.h"
#include "base/checksum.h"
#include "client/native/session_request.h"
#include "fabric/sealing_names.h"
#include "native/wire/message.h"
#include "net/http_client.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;
using Json = nlohmann::json;

constexpr size_t answer_size_max = 1 * MiB;
constexpr size_t endpoints_max = 4096;

// The value of an unsigned member, or nullopt.
std::optional<uint64_t> number(const Json& object, const char* name, uint64_t max) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
  const uint64_t value = it->get<uint64_t>();
  return value <= max ? std::optional(value) : std::nullopt;
}

std::optional<std::string> text(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string()) return std::nullopt;
  return it->get<std::string>();
}

std::optional<NativeEndpoint> endpoint(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto index = number(json, "index", 0xffff), core = number(json, "core", 0xffff);
  const auto inline_max = number(json, "inline_max_bytes", 0xffffffff);
  const auto message_max = number(json, "message_size_max", 0xffffffff);
  const auto provider = text(json, "provider"), address = text(json, "address");
  if (!index || !core || !inline_max || !message_max || !provider || !address) return std::nullopt;
  const auto raw = from_hex(*address);
  if (!raw || *message_max < wire::message_size_min) return std::nullopt;
  const auto encrypted = json.find("encrypted");
  const auto sealed = text(json, "sealed");
  const auto sealing = fabric::usable_sealing_of(sealed.value_or(""));
  if (sealed && sealing == fabric::Sealing::none) return std::nullopt;
  return NativeEndpoint{.index = static_cast<uint16_t>(*index),
                        .core = static_cast<uint32_t>(*core),
                        .provider = *provider,
                        .address = std::string(as_text(*raw)),
                        .inline_max_bytes = static_cast<uint32_t>(*inline_max),
                        .message_size_max = static_cast<uint32_t>(*message_max),
                        .encrypted = encrypted != json.end() && encrypted->is_boolean() && encrypted->get<bool>(),
                        .sealing = sealing};
}

Error refusal(const net::HttpReply& reply) {
  if (const auto code = reply.header("x-verbena-error")) {
    uint16_t number = 0;
    const auto [end, ec] = std::from_chars(code->data(), code->data() + code->size(), number);
    if (ec == std::errc() && end == code->data() + code->size() && number != 0) {
      return {.code = static_cast<Errc>(number), .context = "native: the server refused the session"};
    }
  }
  return {.code = Errc::unsupported, .sys = 0, .context = "native: no native door answers there"};
}

net::HttpRequest session_request(const NativeOptions& options, const std::string& host, const std::string& body) {
  net::HttpRequest request;
  request.method = "POST";
  request.target = "/-/session";
  request.headers = {{"host", host}, {"content-type", "application/json"}};
  // The session of a directory bucket opens a native session, too: its signature holds for both doors.
  const bool in_session = auth::is_bucket_token(options.credentials.session_token);
  auth::sign(options.credentials, options.region, in_session ? "s3express" : "s3", *options.clock, request.method,
             request.target, "", to_hex(as_bytes(sha256(as_bytes(body)))), request.headers);
  request.body = as_bytes(body);
  request.collected_body_max = answer_size_max;
  request.deadline = deadline_in(options.connect_timeout);
  return request;
}

AskForSession& asks_by() {
  static AskForSession ask;
  return ask;
}

Result<net::HttpReply> ask(const NativeOptions& options, const std::string& body, const std::stop_token& stop,
                           std::string& server_ip) {
  if (asks_by()) return asks_by()(options, session_request(options, options.host, body));
  VB_ASSIGN(auto http, net::HttpClient::create({.host = options.host,
                                                .port = options.port,
                                                .tls = options.tls,
                                                .ca_file = options.ca_file,
                                                .insecure = options.insecure,
                                                .connect_timeout = options.connect_timeout,
                                                .stall_timeout = options.connect_timeout}));
  net::HttpRequest request = session_request(options, http->host_header(), body);
  request.stop = stop;
  VB_ASSIGN(net::HttpReply reply, http->request(request));
  server_ip = http->peer_address();
  return reply;
}

}  // namespace

void ask_for_sessions_by(AskForSession ask) { asks_by() = std::move(ask); }

Result<NativeAnswer> parse_session_answer(std::string_view body) {
  const Error bad{.code = Errc::malformed, .sys = 0, .context = "native: session answer"};
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::unexpected(bad);
  const auto version = number(json, "version", 0xff), credits = number(json, "credits", 1 << 16);
  const auto idle_s = number(json, "idle_timeout_s", 1u << 31), cores = number(json, "cores", 0xffff);
  const auto session = text(json, "session"), nonce = text(json, "server_nonce"), hash = text(json, "key_hash");
  if (!version || !credits || *credits == 0 || !idle_s || !cores || !session || !nonce) return std::unexpected(bad);
  if (*version == 0 || *version > wire::protocol_version_max || hash != "crc32c")
    return fail(Errc::unsupported, "native: protocol version");

  NativeAnswer answer;
  answer.terms.version = static_cast<unsigned>(*version);
  const auto [end, ec] = std::from_chars(session->data(), session->data() + session->size(), answer.terms.session, 16);
  if (ec != std::errc() || end != session->data() + session->size()) return std::unexpected(bad);
  if (!wire::read_hex(*nonce, answer.server_nonce)) return std::unexpected(bad);
  if (answer.terms.has_forward_secrecy()) {
    const auto key = text(json, "server_key");
    if (!key || !wire::read_hex(*key, answer.server_key)) return std::unexpected(bad);
  }
  answer.terms.credits = static_cast<uint32_t>(*credits);
  answer.terms.cores = static_cast<uint32_t>(*cores);
  answer.terms.idle_timeout = std::chrono::seconds(*idle_s);
  const auto traces = json.find("trace_context");
  answer.terms.trace_context = traces != json.end() && traces->is_boolean() && traces->get<bool>();
  if (const auto kinds = json.find("device_memory"); kinds != json.end() && kinds->is_array()) {
    const auto has = [&](const char* kind) { return std::ranges::find(*kinds, kind) != kinds->end(); };
    answer.terms.cuda = {has("cuda"), has("cuda-descriptors")};
    answer.terms.rocm = {has("rocm"), has("rocm-descriptors")};
  }
  const auto list = json.find("endpoints");
  if (list == json.end() || !list->is_array() || list->size() > endpoints_max) return std::unexpected(bad);
  for (const Json& item : *list) {
    const auto parsed = endpoint(item);
    if (!parsed) return std::unexpected(bad);
    answer.terms.endpoints.push_back(*parsed);
  }
  return answer;
}

// The ciphers that this client has, the fastest here first.
static Json sealings() {
  Json names = Json::array();
  for (const auto sealing : fabric::usable_sealings()) names.push_back(fabric::name_of(sealing));
  return names;
}

// The session's master key. malformed: no secret comes out of the server's key.
static Result<wire::MasterKey> master_of(std::string_view secret_key, const wire::SessionNumbers& numbers,
                                         const NativeAnswer& answer, wire::KeyExchange exchange, EphemeralKey own) {
  if (!answer.terms.has_forward_secrecy()) return wire::derive_master(secret_key, numbers);
  exchange.server = answer.server_key;
  const auto shared = own.agree(exchange.server);
  if (!shared) return fail(Errc::malformed, "native: the server's key");
  return wire::derive_master(secret_key, numbers, exchange, *shared);
}

Result<SessionTerms> request_session(const NativeOptions& options, const std::stop_token& stop) {
  wire::SessionNumbers numbers;
  fill_random(numbers.client);
  const unsigned newest = wire::newest_version();
  // Servers from before version 2 read "version" alone.
  Json wanted = {{"version", 1},
                 {"version_max", newest},
                 {"client_nonce", to_hex(numbers.client)},
                 {"user_agent", net::client_name},
                 {"providers", options.providers}};
  if (options.seals) wanted["sealing"] = sealings();
  // The private key of this request alone: it is erased when this returns, or before.
  EphemeralKey own;
  if (newest >= wire::version_of_key_exchange) {
    VB_ASSIGN(own, EphemeralKey::make());
    wanted["client_key"] = to_hex(own.public_key());
  }
  const std::string body = wanted.dump();
  const wire::KeyExchange exchange{.request = sha256_of(as_bytes(body)), .client = own.public_key(), .server = {}};
  std::string server_ip;
  VB_ASSIGN(const net::HttpReply reply, ask(options, body, stop, server_ip));
  if (reply.status != 200) return std::unexpected(refusal(reply));

  VB_ASSIGN(NativeAnswer answer, parse_session_answer(reply.body));
  SessionTerms& terms = answer.terms;
  if (terms.version > newest) return fail(Errc::unsupported, "native: protocol version");
  numbers.server = answer.server_nonce;
  numbers.session = terms.session;
  VB_ASSIGN(terms.master, master_of(options.credentials.secret_key, numbers, answer, exchange, std::move(own)));
  // An answer of an older version is proved, too: by a server that knows the secret key, for this request.
  const auto proof = reply.header("x-verbena-proof");
  if (!proof || !equal_constant_time(as_bytes(*proof), as_bytes(wire::answer_proof(terms.master, reply.body)))) {
    return fail(Errc::malformed, "native: the session answer's proof does not fit the secret key");
  }
  terms.server_ip = std::move(server_ip);
  return std::move(terms);
}

}  // namespace verbena::client
