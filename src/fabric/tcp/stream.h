// A connected socket, with or without TLS. Never blocks.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "fabric/tcp/tls.h"

namespace verbena::fabric::tcp {

class Stream {
 public:
  explicit Stream(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool encrypted() const { return tls_ != nullptr; }
  void close();

  // Switches to TLS. Call handshake() until it is complete.
  Result<void> start_tls(Side side, const Sha256& key);
  Result<HandshakeState> handshake();

  // Fills the buffers in order. `drained`: nothing more until the socket is readable again. 0 bytes with drained:
  // nothing was there. closed: the peer left, or the socket broke. malformed: its input is not TLS.
  struct Got {
    size_t size = 0;
    bool drained = true;
  };
  Result<Got> read(std::span<const iovec> into);
  // The number of bytes taken (0: it would block). The caller may reuse the bytes: they are in the kernel or sealed.
  // `more`: more follows at once.
  Result<size_t> write(std::span<const iovec> from, bool more = false);
  // Whether sealed bytes wait for the socket. Then write() takes none until flush() has sent them.
  bool backlogged() const { return waiting() != 0; }
  size_t waiting() const { return backlog_.size() - sent_; }
  // Memory is short: at most one record is sealed ahead of the socket.
  void seal_little(bool little) { little_ = little; }
  Result<void> flush();

 private:
  Result<Got> read_plain(std::span<const iovec> into);
  Result<Got> read_sealed(std::span<const iovec> into);
  Result<size_t> write_plain(std::span<const iovec> from, bool more);
  Result<size_t> write_sealed(std::span<const iovec> from);
  Result<void> send_cipher_text();

  Fd socket_;
  std::unique_ptr<Tls> tls_;
  std::vector<std::byte> backlog_;
  size_t sent_ = 0;  // of it
  bool little_ = false;
};

}  // namespace verbena::fabric::tcp
