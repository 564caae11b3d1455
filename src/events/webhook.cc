#include "events/webhook.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <atomic>
#include <optional>
#include <utility>

#include "events/client_tls.h"
#include "events/complaints.h"
#include "events/network_guard.h"
#include "net/name_lookup.h"

namespace verbena::events {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using Tcp = asio::ip::tcp;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr uint64_t answer_bytes_max = 64 * KiB;
constexpr uint32_t answer_head_max = 16 * KiB;
constexpr int early_answers_max = 4;  // 1xx

std::unexpected<Error> hook_error(const boost::system::error_code& ec, const char* what) {
  if (ec == beast::error::timeout) return fail(Errc::timed_out, what);
  if (ec == asio::error::operation_aborted) return fail(Errc::cancelled, what);
  return fail(Errc::connection_failed, what, ec.category() == boost::system::system_category() ? ec.value() : 0);
}

const char* kind_of(int status) {
  switch (status / 100) {
    case 3:
      return "webhook: it answers with a redirection (3xx)";
    case 4:
      return "webhook: it refuses (4xx)";
    default:
      return "webhook: it fails (5xx)";
  }
}

class Webhook final : public Target {
 public:
  Webhook(asio::io_context& io, asio::ssl::context tls, TargetSettings settings)
      : io_(io), tls_(std::move(tls)), settings_(std::move(settings)), complaints_(settings_.name) {
    const bool v6 = settings_.host.find(':') != std::string::npos;
    host_ = v6 ? "[" + settings_.host + "]" : settings_.host;
    if (settings_.port != (settings_.tls ? 443 : 80)) host_ += ":" + std::to_string(settings_.port);
  }

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    for (const std::string& message : messages) {
      const bool reused = stream_.has_value();
      auto done = co_await post(message);
      // A connection that rested may have been closed by the other side meanwhile.
      if (!done && reused && done.error() == Errc::connection_failed) done = co_await post(message);
      if (!done) co_return done;
      complaints_.forget();
      ++delivered;
    }
    co_return Result<void>();
  }

  std::string said() const override { return complaints_.said(); }
  void cancel() override {
    if (stream_) beast::get_lowest_layer(*stream_).close();
  }
  void cut() override { cut_ = true; }

 private:
  Task<Result<void>> post(const std::string& message) {
    if (!stream_) {
      auto connected = co_await connect();
      if (!connected) {
        stream_.reset();
        co_return connected;
      }
    }
    auto done = co_await exchange(message);
    if (!done) stream_.reset();
    co_return done;
  }

  Task<Result<void>> connect() {
    VB_CO_ASSIGN(const TcpEndpoints all,
                 net::look_up_name(settings_.host, settings_.port, deadline_in(settings_.timeout), cut_));
    VB_CO_ASSIGN(const TcpEndpoints endpoints, allowed_endpoints(all, settings_.allow_private));
    stream_.emplace(io_, tls_);
    beast::tcp_stream& tcp = beast::get_lowest_layer(*stream_);
    tcp.expires_after(settings_.timeout);
    const auto [connecting, chosen] = co_await tcp.async_connect(endpoints, as_result);
    if (connecting) co_return hook_error(connecting, "webhook: no connection");
    boost::system::error_code ignored;
    tcp.socket().set_option(Tcp::no_delay(true), ignored);
    if (!settings_.tls) co_return Result<void>();
    asio::ip::make_address(settings_.host, ignored);
    if (ignored) SSL_set_tlsext_host_name(stream_->native_handle(), settings_.host.c_str());
    stream_->set_verify_callback(asio::ssl::host_name_verification(settings_.host));
    const auto [shaking] = co_await stream_->async_handshake(asio::ssl::stream_base::client, as_result);
    if (shaking) co_return hook_error(shaking, "webhook: TLS, or its certificate");
    co_return Result<void>();
  }

  Task<Result<void>> exchange(const std::string& message) {
    bhttp::request<bhttp::string_body> request(bhttp::verb::post, settings_.path, 11, message);
    request.set(bhttp::field::host, host_);
    request.set(bhttp::field::user_agent, "verbena");
    request.set(bhttp::field::content_type, "application/json");
    if (!settings_.secret.empty()) request.set(bhttp::field::authorization, "Bearer " + settings_.secret);
    request.prepare_payload();
    beast::get_lowest_layer(*stream_).expires_after(settings_.timeout);
    Answer answer;
    boost::system::error_code ec;
    VB_CO_TRY(may_send());
    if (settings_.tls) {
      ec = co_await send(*stream_, request, answer);
    } else {
      ec = co_await send(beast::get_lowest_layer(*stream_), request, answer);
    }
    if (ec) co_return hook_error(ec, "webhook: no answer");
    if (!answer.keep) stream_.reset();
    if (answer.status / 100 == 2) co_return Result<void>();
    complaints_.say("status " + std::to_string(answer.status));
    co_return fail(Errc::invalid_request, kind_of(answer.status));
  }

  struct Answer {
    int status = 0;
    bool keep = false;  // the connection is good for another one
  };

  // The status decides; of the body only so much is read that the connection can be kept.
  template <class Stream, class Request>
  Task<boost::system::error_code> send(Stream& stream, Request& request, Answer& answer) {
    const auto [writing, written] = co_await bhttp::async_write(stream, request, as_result);
    if (writing) co_return writing;
    beast::flat_buffer buffer(answer_head_max + answer_bytes_max);
    for (int early = 0; early < early_answers_max; ++early) {
      bhttp::response_parser<bhttp::string_body> parser;
      parser.body_limit(answer_bytes_max);
      parser.header_limit(answer_head_max);
      const auto [heading, head] = co_await bhttp::async_read_header(stream, buffer, parser, as_result);
      if (heading) co_return heading;
      answer.status = static_cast<int>(parser.get().result_int());
      if (answer.status / 100 == 1) continue;  // another one follows
      const auto [reading, read] = co_await bhttp::async_read(stream, buffer, parser, as_result);
      answer.keep = !reading && parser.keep_alive();
      co_return boost::system::error_code();
    }
    co_return bhttp::error::bad_status;
  }

  asio::io_context& io_;
  asio::ssl::context tls_;
  const TargetSettings settings_;
  Complaints complaints_;
  std::string host_;
  std::optional<TlsStream> stream_;
  std::atomic<bool> cut_{false};
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_webhook(asio::io_context& io, const TargetSettings& settings) {
  auto tls = make_client_tls(settings);
  if (!tls) return std::unexpected(tls.error());
  return std::make_unique<Webhook>(io, std::move(*tls), settings);
}

}  // namespace verbena::events
