// One connection to a directory, below the protocol library: TCP, and TLS by OpenSSL as everywhere else here. One
// deadline covers all of it, which libldap's own connection lacks once it has begun to read.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace verbena::sign_in {

class LdapStream {
 public:
  // Blocks, like all functions here. `stop` outlives the stream. connection_failed, timed_out, cancelled, slow_down.
  static Result<std::unique_ptr<LdapStream>> connect(const std::string& host, uint16_t port, Deadline until,
                                                     const std::atomic<bool>& stop);
  ~LdapStream();
  LdapStream(const LdapStream&) = delete;

  // connection_failed also when the certificate is not trusted, or not of `host`.
  Result<void> start_tls(SSL_CTX* context, const std::string& host);
  bool secure() const { return ssl_ != nullptr; }

  // As recv() and send(): -1 with errno also past the deadline, and for input longer than any valid answer.
  ssize_t read(void* into, size_t size);
  ssize_t write(const void* from, size_t size);
  bool has_decrypted() const;  // buffered bytes, invisible to poll()
  int fd() const { return fd_.get(); }
  Deadline until() const { return until_; }
  bool stopped() const { return stop_.load(); }

 private:
  LdapStream(Fd fd, Deadline until, const std::atomic<bool>& stop) : fd_(std::move(fd)), until_(until), stop_(stop) {}
  bool wait(short events) const;
  bool wait_for(int tls_result) const;  // waits for what TLS needs; false: it has failed

  static constexpr size_t read_bytes_max = 4 * 1024 * 1024;
  Fd fd_;
  const Deadline until_;
  const std::atomic<bool>& stop_;
  SSL* ssl_ = nullptr;
  size_t read_bytes_ = 0;
};

}  // namespace verbena::sign_in
