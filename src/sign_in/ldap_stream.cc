#include "sign_in/ldap_stream.h"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <cerrno>

namespace verbena::sign_in {
namespace {

constexpr size_t directory_addresses_max = 4;

// The result of a call that moved nothing: 0 for the end of the stream.
ssize_t no_bytes(const net::error_code& ec) {
  if (ec == boost::asio::error::eof) return 0;
  const bool ended = ec == boost::asio::error::timed_out || ec == boost::asio::error::operation_aborted;
  errno = ended ? ETIMEDOUT : ECONNRESET;
  return -1;
}

}  // namespace

Result<std::unique_ptr<LdapStream>> LdapStream::connect(const std::string& host, uint16_t port, Deadline until,
                                                        const std::atomic<bool>& stop) {
  VB_ASSIGN(auto found, net::look_up_name(host, port, until, stop));
  found.resize(std::min(found.size(), directory_addresses_max));
  std::unique_ptr<LdapStream> made(new LdapStream(until, stop));
  VB_ASSIGN(made->stream_, net::Stream::connect(made->io_, found, until, stop));
  made->stream_->limit(std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now()), until);
  return made;
}

Result<void> LdapStream::start_tls(boost::asio::ssl::context& tls, const std::string& host) {
  auto begun = stream_->start_tls(tls, host);
  if (begun || begun.error() == Errc::timed_out || begun.error() == Errc::cancelled) return begun;
  return fail(Errc::connection_failed, "ldap: TLS, or the directory's certificate is not trusted", begun.error().sys);
}

ssize_t LdapStream::read(void* into, size_t size) {
  net::error_code ec;
  const size_t n = stream_->read_some(boost::asio::buffer(into, size), ec);
  if (n == 0) return no_bytes(ec);
  read_bytes_ += n;
  const bool is_long = read_bytes_ > read_bytes_max;
  if (!is_long && frames_.accept({static_cast<const std::byte*>(into), n})) return static_cast<ssize_t>(n);
  errno = is_long ? EMSGSIZE : EPROTO;
  return -1;
}

ssize_t LdapStream::write(const void* from, size_t size) {
  net::error_code ec;
  const size_t n = stream_->write_some(boost::asio::buffer(from, size), ec);
  return n == 0 ? no_bytes(ec) : static_cast<ssize_t>(n);
}

}  // namespace verbena::sign_in
