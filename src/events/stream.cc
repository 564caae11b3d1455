#include "events/stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <utility>

#include "events/network_guard.h"
#include "net/name_lookup.h"

namespace verbena::events {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;

constexpr auto stream_result = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view line_end = "\r\n";

std::unexpected<Error> stream_error(const boost::system::error_code& ec, const char* what) {
  if (ec == beast::error::timeout) return fail(Errc::timed_out, what);
  if (ec == asio::error::operation_aborted) return fail(Errc::cancelled, what);
  if (ec == asio::error::not_found) return fail(Errc::invalid_request, "the target's answer is too long");
  return fail(Errc::connection_failed, what, ec.category() == boost::system::system_category() ? ec.value() : 0);
}

}  // namespace

Task<Result<void>> Stream::connect() {
  close();
  VB_CO_ASSIGN(const TcpEndpoints all,
               net::look_up_name(settings_.host, settings_.port, deadline_in(settings_.timeout), cut_));
  VB_CO_ASSIGN(const TcpEndpoints endpoints, allowed_endpoints(all, settings_.allow_private));
  stream_.emplace(io_, tls_);
  begin();
  beast::tcp_stream& tcp = beast::get_lowest_layer(*stream_);
  const auto [connecting, chosen] = co_await tcp.async_connect(endpoints, stream_result);
  if (connecting) {
    close();
    co_return stream_error(connecting, "no connection to the target");
  }
  boost::system::error_code ignored;
  tcp.socket().set_option(Tcp::no_delay(true), ignored);
  co_return Result<void>();
}

Task<Result<void>> Stream::start_tls() {
  // What came before is not protected: it must not be taken for what comes after.
  if (!in_.empty()) co_return fail(Errc::connection_failed, "the target spoke before TLS began");
  boost::system::error_code no_address;
  asio::ip::make_address(settings_.host, no_address);
  if (no_address) SSL_set_tlsext_host_name(stream_->native_handle(), settings_.host.c_str());
  stream_->set_verify_callback(asio::ssl::host_name_verification(settings_.host));
  const auto [shaking] = co_await stream_->async_handshake(asio::ssl::stream_base::client, stream_result);
  if (shaking) co_return stream_error(shaking, "the target's TLS, or its certificate");
  encrypted_ = true;
  co_return Result<void>();
}

void Stream::begin() { beast::get_lowest_layer(*stream_).expires_after(settings_.timeout); }

Task<Result<void>> Stream::write(std::string_view text) {
  const auto buffer = asio::buffer(text);
  beast::tcp_stream& plain = beast::get_lowest_layer(*stream_);
  const auto [ec, written] = encrypted_ ? co_await asio::async_write(*stream_, buffer, stream_result)
                                        : co_await asio::async_write(plain, buffer, stream_result);
  if (ec) co_return stream_error(ec, "the target takes nothing");
  co_return Result<void>();
}

Task<Result<std::string>> Stream::read_line(size_t most) {
  auto into = asio::dynamic_buffer(in_, most);
  beast::tcp_stream& plain = beast::get_lowest_layer(*stream_);
  const auto [ec, size] = encrypted_ ? co_await asio::async_read_until(*stream_, into, line_end, stream_result)
                                     : co_await asio::async_read_until(plain, into, line_end, stream_result);
  if (ec) co_return stream_error(ec, "no answer of the target");
  std::string line = in_.substr(0, size - line_end.size());
  in_.erase(0, size);
  co_return line;
}

Task<Result<std::string>> Stream::read_bytes(size_t size) {
  if (in_.size() < size) {
    auto into = asio::dynamic_buffer(in_, size);
    const auto all = asio::transfer_exactly(size - in_.size());
    beast::tcp_stream& plain = beast::get_lowest_layer(*stream_);
    const auto [ec, read] = encrypted_ ? co_await asio::async_read(*stream_, into, all, stream_result)
                                       : co_await asio::async_read(plain, into, all, stream_result);
    if (ec) co_return stream_error(ec, "no answer of the target");
  }
  std::string bytes = in_.substr(0, size);
  in_.erase(0, size);
  co_return bytes;
}

void Stream::close() {
  stream_.reset();
  encrypted_ = false;
  in_.clear();
}

void Stream::cancel() {
  if (stream_) beast::get_lowest_layer(*stream_).close();
}

}  // namespace verbena::events
