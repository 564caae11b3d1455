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

  // From here on everything is TLS. handshake() until it says true.
  Result<void> start_tls(Side side, const Sha256& key);
  Result<bool> handshake();

  // Fills the places one after the other. `drained`: there is nothing more until the socket says so. 0 bytes with
  // drained: nothing was there. closed: the peer left, or the socket broke. malformed: what it sends is no TLS.
  struct Got {
    size_t size = 0;
    bool drained = true;
  };
  Result<Got> read(std::span<const iovec> into);
  // How many bytes were taken (0: it would block). The bytes are free again: they are in the kernel or sealed.
  // `more`: something follows at once.
  Result<size_t> write(std::span<const iovec> from, bool more = false);
  // Sealed bytes wait for the socket. Then write() takes none until flush() has brought them out.
  bool backlogged() const { return waiting() != 0; }
  size_t waiting() const { return backlog_.size() - sent_; }
  // Memory is short: no more is sealed ahead of the socket than one record.
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
