// One connection to a directory, below the protocol library: TCP, and TLS by OpenSSL as everywhere else here. One
// deadline covers all of it, which libldap's own connection lacks once it has begun to read.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <memory>
#include <string>

#include "net/stream.h"
#include "sign_in/ldap_frames.h"

namespace verbena::sign_in {

class LdapStream {
 public:
  // Blocks, like all functions here. `stop` outlives the stream. connection_failed, timed_out, cancelled, slow_down.
  static Result<std::unique_ptr<LdapStream>> connect(const std::string& host, uint16_t port, Deadline until,
                                                     const std::atomic<bool>& stop);
  LdapStream(const LdapStream&) = delete;

  // connection_failed also when the certificate is not trusted, or not of `host`. `tls` outlives the stream.
  Result<void> start_tls(boost::asio::ssl::context& tls, const std::string& host);

  // As recv() and send(): -1 with errno also past the deadline, and for input that is longer than any valid answer, no
  // message or an unsolicited one.
  ssize_t read(void* into, size_t size);
  ssize_t write(const void* from, size_t size);
  bool has_received() const { return stream_->has_received(); }  // bytes that are invisible to poll()
  int fd() const { return stream_->fd(); }
  Deadline until() const { return until_; }
  bool stopped() const { return stop_.load(); }

 private:
  LdapStream(Deadline until, const std::atomic<bool>& stop) : until_(until), stop_(stop) {}

  static constexpr size_t read_bytes_max = 4 * 1024 * 1024;
  boost::asio::io_context io_{1};
  std::unique_ptr<net::Stream> stream_;
  const Deadline until_;
  const std::atomic<bool>& stop_;
  size_t read_bytes_ = 0;
  LdapFrames frames_;
};

}  // namespace verbena::sign_in
