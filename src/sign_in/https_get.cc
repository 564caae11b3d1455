#include "sign_in/https_get.h"

#include <openssl/ssl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <charconv>
#include <exception>

#include "base/bytes.h"
#include "base/name_lookup.h"
#include "base/task.h"
#include "base/text.h"
#include "sign_in/tls_peer.h"

namespace verbena::sign_in {
namespace {

namespace asio = boost::asio;
namespace bhttp = boost::beast::http;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;
using ErrorCode = boost::system::error_code;

constexpr size_t url_bytes_max = 2048, host_bytes_max = 253, header_bytes_max = 16 * 1024;
constexpr size_t addresses_tried_max = 4;

struct Thumbprints {
  const std::vector<std::string>& list;  // lower or upper case
};

bool is_pinned(X509* certificate, const Thumbprints& pinned) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(certificate, EVP_sha1(), digest, &size) != 1) return false;
  const std::string text = to_hex(std::as_bytes(std::span(digest, size)));
  return std::ranges::any_of(pinned.list, [&](const std::string& one) { return lower(one) == text; });
}

// A certificate of the peer's chain whose thumbprint was named is trusted as if it were an authority's. Everything else
// is checked as always: signatures down to the peer's own, its name, its time.
int verify_chain(X509_STORE_CTX* context, void* pinned) {
  const auto& thumbprints = *static_cast<const Thumbprints*>(pinned);
  X509_STORE* const trusted = X509_STORE_CTX_get0_store(context);
  STACK_OF(X509)* const shown = X509_STORE_CTX_get0_untrusted(context);
  for (int i = 0; i < sk_X509_num(shown); ++i) {
    X509* const certificate = sk_X509_value(shown, i);
    if (!is_pinned(certificate, thumbprints)) continue;
    X509_STORE_add_cert(trusted, certificate);  // of this one connection
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  }
  return X509_verify_cert(context);
}

Result<asio::ssl::context> make_context(const std::string& ca_file, Thumbprints& thumbprints) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX* const native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  ErrorCode ec;
  context.set_verify_mode(asio::ssl::verify_peer, ec);
  if (!ec) context.set_default_verify_paths(ec);
  if (!ec && !ca_file.empty()) context.load_verify_file(ca_file, ec);
  if (ec) return fail(Errc::bad_config, "https: certificates of authorities");
  SSL_CTX_set_cert_verify_callback(native, verify_chain, &thumbprints);
  return context;
}

std::string host_field(const HttpsUrl& url) {
  constexpr uint16_t https_port = 443;
  const bool v6 = url.host.find(':') != std::string::npos;
  std::string text = v6 ? "[" + url.host + "]" : url.host;
  return url.port == https_port ? text : text + ":" + std::to_string(url.port);
}

// To the first of the host's addresses that is allowed and answers: what was looked up is what is connected to.
Task<Result<void>> connect(Tcp::socket& socket, const std::vector<Tcp::endpoint>& found, const HttpsRules& rules) {
  ErrorCode ec;
  size_t tried = 0;
  for (const Tcp::endpoint& endpoint : found) {
    if (!rules.networks.allow(endpoint.address().to_string())) continue;
    if (++tried > addresses_tried_max) break;
    ErrorCode closed;
    socket.close(closed);
    co_await socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, ec));
    if (!ec) co_return Result<void>();
  }
  if (tried == 0) co_return fail(Errc::access_denied, "https: no address of the host is public or allowed");
  co_return fail(Errc::connection_failed, "https: connect", ec.value());
}

Task<Result<std::string>> get(const HttpsUrl& url, const std::vector<Tcp::endpoint>& found, const HttpsRules& rules,
                              asio::ssl::context& context) {
  const auto executor = co_await asio::this_coro::executor;
  TlsStream stream(executor, context);
  if (!name_peer(stream.native_handle(), url.host)) co_return fail(Errc::internal, "https: the peer's name");
  VB_CO_TRY(co_await connect(stream.next_layer(), found, rules));
  ErrorCode ec;
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, ec));
  if (ec) co_return fail(Errc::connection_failed, "https: TLS, or its certificate is not trusted");
  constexpr unsigned http_11 = 11;
  bhttp::request<bhttp::empty_body> request(bhttp::verb::get, url.target, http_11);
  request.set(bhttp::field::host, host_field(url));
  request.set(bhttp::field::accept, "application/json");
  request.set(bhttp::field::user_agent, "verbena");
  request.set(bhttp::field::connection, "close");
  co_await bhttp::async_write(stream, request, asio::redirect_error(asio::use_awaitable, ec));
  if (ec) co_return fail(Errc::connection_failed, "https: write", ec.value());
  boost::beast::flat_buffer buffer(header_bytes_max + 1024);
  bhttp::response_parser<bhttp::string_body> parser;
  parser.header_limit(header_bytes_max);
  parser.body_limit(rules.body_bytes_max);
  co_await bhttp::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, ec));
  if (ec == bhttp::error::body_limit || ec == bhttp::error::header_limit || ec == bhttp::error::buffer_overflow) {
    co_return fail(Errc::too_large, "https: the answer is too large");
  }
  if (ec) co_return fail(Errc::malformed, "https: the answer is cut off, or none");
  if (parser.get().result() != bhttp::status::ok) co_return fail(Errc::malformed, "https: the answer is not 200");
  co_return std::move(parser.get().body());
}

std::optional<uint16_t> parse_port(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > 65'535) return std::nullopt;
  return static_cast<uint16_t>(value);
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= host_bytes_max && std::ranges::all_of(host, [](char c) {
    const char low = lower(c);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

bool is_target(std::string_view target) {
  return std::ranges::all_of(target, [](char c) {
    return c > 0x20 && c < 0x7f && std::string_view("\"<>\\^`{|}#").find(c) == std::string_view::npos;
  });
}

}  // namespace

Result<void> check_authorities(const std::string& ca_file) {
  const std::vector<std::string> none;
  Thumbprints thumbprints{none};
  VB_TRY(make_context(ca_file, thumbprints));
  return {};
}

std::optional<HttpsUrl> parse_https_url(std::string_view text) {
  constexpr std::string_view scheme = "https://";
  if (text.size() > url_bytes_max || !text.starts_with(scheme)) return std::nullopt;
  text.remove_prefix(scheme.size());
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end);
  HttpsUrl url;
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, 1, '/');
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    url.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (url.host.find(':') == std::string::npos || !auth::parse_ip(url.host)) return std::nullopt;
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    authority.remove_prefix(colon);
    if (!is_host(url.host)) return std::nullopt;
  }
  if (!authority.empty()) {
    const auto port = authority.starts_with(':') ? parse_port(authority.substr(1)) : std::nullopt;
    if (!port) return std::nullopt;
    url.port = *port;
  }
  return is_target(url.target) ? std::optional(std::move(url)) : std::nullopt;
}

Result<std::string> https_get(const HttpsUrl& url, const std::vector<std::string>& thumbprints, const HttpsRules& rules,
                              Deadline until, const std::atomic<bool>& stop) {
  Thumbprints pinned{thumbprints};
  VB_ASSIGN(asio::ssl::context context, make_context(rules.ca_file, pinned));
  VB_ASSIGN(const auto found, look_up_name(url.host, url.port, until, stop));
  std::optional<Result<std::string>> out;
  // The loop goes first, and with it the coroutine and all that it holds.
  asio::io_context loop(1);
  const auto done = [&out](std::exception_ptr thrown, Result<std::string> result) {
    out = thrown ? Result<std::string>(fail(Errc::internal, "https: thrown")) : std::move(result);
  };
  asio::co_spawn(loop, get(url, found, rules, context), done);
  constexpr std::chrono::milliseconds slice{100};
  while (!out) {
    if (stop.load()) return fail(Errc::cancelled, "https: the server ends");
    if (SteadyClock::now() >= until) return fail(Errc::timed_out, "https: no whole answer in time");
    loop.run_one_until(std::min(until, SteadyClock::now() + slice));
  }
  return std::move(*out);
}

}  // namespace verbena::sign_in
