#include "observe/post_client.h"

#include <openssl/ssl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "base/host_port.h"
#include "base/name_lookup.h"
#include "base/task.h"

namespace verbena::observe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using PostRequest = beast::http::request<beast::http::string_body>;
constexpr size_t answer_bytes_max = 64 * KiB;

}  // namespace

struct PostClient::State {
  std::string host, path, host_header;
  uint16_t port = 0;
  std::mutex mutex;  // guards changes of these members: cut() is called by another thread
  bool posting = false;
  std::atomic<bool> stopped = false;  // the call in progress
  std::unique_ptr<asio::io_context> io = std::make_unique<asio::io_context>(1);
  std::optional<asio::ssl::context> tls;
  // At most one of these exists: the kept connection.
  std::optional<beast::tcp_stream> plain;
  std::optional<asio::ssl::stream<beast::tcp_stream>> secure;
  beast::flat_buffer buffer{answer_bytes_max};

  void drop() {
    plain.reset();
    secure.reset();
    buffer.clear();
  }
  beast::tcp_stream& bottom() { return secure ? secure->next_layer() : *plain; }
  Task<void> connect(const std::vector<asio::ip::tcp::endpoint>& found, std::chrono::milliseconds timeout);
  template <class Stream>
  Task<int> exchange(Stream& stream, const PostRequest& request);
  Task<int> post(const PostRequest& request, const std::vector<asio::ip::tcp::endpoint>& found,
                 std::chrono::milliseconds timeout);
};

// Coroutines of use_awaitable report errors by exceptions; post() below turns these into results.
Task<void> PostClient::State::connect(const std::vector<asio::ip::tcp::endpoint>& found,
                                      std::chrono::milliseconds timeout) {
  if (tls) {
    secure.emplace(*io, *tls);
  } else {
    plain.emplace(*io);
  }
  bottom().expires_after(timeout);
  co_await bottom().async_connect(found, asio::use_awaitable);
  if (!secure) co_return;
  SSL_set_tlsext_host_name(secure->native_handle(), host.c_str());
  secure->set_verify_callback(asio::ssl::host_name_verification(host));
  co_await secure->async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
}

template <class Stream>
Task<int> PostClient::State::exchange(Stream& stream, const PostRequest& request) {
  co_await beast::http::async_write(stream, request, asio::use_awaitable);
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(answer_bytes_max);
  co_await beast::http::async_read(stream, buffer, parser, asio::use_awaitable);
  const int status = static_cast<int>(parser.get().result_int());
  if (!parser.get().keep_alive()) drop();
  co_return status;
}

Task<int> PostClient::State::post(const PostRequest& request, const std::vector<asio::ip::tcp::endpoint>& found,
                                  std::chrono::milliseconds timeout) {
  if (!plain && !secure) co_await connect(found, timeout);
  bottom().expires_after(timeout);
  if (secure) {
    co_return co_await exchange(*secure, request);
  }
  co_return co_await exchange(*plain, request);
}

PostClient::PostClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
PostClient::~PostClient() = default;

Result<std::unique_ptr<PostClient>> PostClient::create(std::string_view url, std::string_view path) {
  const bool tls = url.starts_with("https://");
  if (!tls && !url.starts_with("http://")) return fail(Errc::invalid_argument, "not an http or https address");
  url.remove_prefix(tls ? 8 : 7);
  const std::string_view authority = url.substr(0, url.find('/'));
  const std::string_view own_path = url.substr(authority.size());
  const auto plain = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!std::ranges::all_of(url, plain) || url.find_first_of("?#") != std::string_view::npos) {
    return fail(Errc::invalid_argument, "an address without query, blanks and other characters than ASCII's");
  }
  auto state = std::make_unique<State>();
  auto place = parse_host_port(authority);
  if (!place) return fail(Errc::invalid_argument, "an address like http://HOST:PORT");
  state->host = std::move(place->host);
  const uint16_t usual = tls ? 443 : 80;
  state->port = place->port != 0 ? place->port : usual;
  state->host_header = authority;
  state->path = own_path.empty() || own_path == "/" ? path : own_path;
  if (tls) {
    state->tls.emplace(asio::ssl::context::tls_client);
    boost::system::error_code ec;
    SSL_CTX_set_min_proto_version(state->tls->native_handle(), TLS1_2_VERSION);
    state->tls->set_default_verify_paths(ec);
    state->tls->set_verify_mode(asio::ssl::verify_peer, ec);
    if (ec) return fail(Errc::bad_config, "TLS cannot be set up", ec.value());
  }
  return std::unique_ptr<PostClient>(new PostClient(std::move(state)));
}

void PostClient::cut() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->posting) return;
  state_->stopped = true;
  state_->io->stop();
}

Result<int> PostClient::post(std::string_view content_type, const std::string& body, const Headers& headers,
                             std::chrono::milliseconds timeout) {
  State& state = *state_;
  PostRequest request(beast::http::verb::post, state.path, 11);
  request.set(beast::http::field::host, state.host_header);
  request.set(beast::http::field::content_type, content_type);
  request.set(beast::http::field::user_agent, "verbena/" VERBENA_VERSION);
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  const bool kept = state.plain || state.secure;
  std::optional<Result<int>> outcome;
  const auto done = [&outcome](std::exception_ptr error, int status) {
    try {
      if (error) std::rethrow_exception(error);
      outcome = status;
    } catch (const boost::system::system_error& e) {
      const bool late = e.code() == beast::error::timeout;
      outcome = fail(late ? Errc::timed_out : Errc::connection_failed, "post", e.code().value());
    } catch (const std::exception&) {
      outcome = fail(Errc::malformed, "post");
    }
  };
  {
    const std::lock_guard lock(state.mutex);
    state.posting = true;
    state.stopped = false;
  }
  Result<std::vector<asio::ip::tcp::endpoint>> found{};
  if (!kept) found = look_up_name(state.host, state.port, deadline_in(timeout), state.stopped);
  if (found) {
    asio::co_spawn(*state.io, state.post(request, *found, timeout), done);
    state.io->run_for(timeout + std::chrono::seconds(1));  // each step has its own limit
  } else {
    outcome = fail(found.error() == Errc::cancelled ? Errc::timed_out : found.error().code, "post");
  }
  {
    const std::lock_guard lock(state.mutex);
    state.posting = false;
    if (outcome) {
      state.io->restart();
    } else {
      state.drop();
      state.io = std::make_unique<asio::io_context>(1);  // the old one releases pending operations
      outcome = fail(Errc::timed_out, "post");
    }
  }
  if (*outcome) return *outcome;
  state.drop();
  // The kept connection may have been closed by the server: tries once more with a new one.
  if (kept && outcome->error() != Errc::timed_out) return post(content_type, body, headers, timeout);
  return *outcome;
}

}  // namespace verbena::observe
