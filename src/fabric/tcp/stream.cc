#include "fabric/tcp/stream.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fabric/fabric.h"
#include "fabric/tcp/window.h"

namespace verbena::fabric::tcp {
namespace {

// Plain bytes that one write() takes: writes of a window within a call, with their frames' heads.
constexpr size_t sealed_at_once_max = TcpWindow::at_once_max + record_size;
constexpr size_t sealed_little = record_size;  // likewise, where memory is short
constexpr size_t backlog_kept_max = 32 * KiB;  // of capacity, once it is empty
constexpr size_t places_max = 1 + 2 * Window::writes_max;

// The socket's answer to a write: bytes, 0 if it would block.
Result<size_t> taken(ssize_t sent) {
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS) return size_t{0};
  return fail(Errc::closed, "tcp: send", errno);
}

// Walks over places, gathering records.
class Gather {
 public:
  explicit Gather(std::span<const iovec> from) : from_(from) {}

  // The next bytes, at most a record: in place if they are contiguous, else copied.
  Bytes next(size_t limit) {
    skip_empty();
    limit = std::min(limit, record_size);
    if (from_.empty()) return {};
    if (here().size() >= limit) return advance(limit);
    size_t filled = 0;
    for (; filled < limit; skip_empty()) {
      if (from_.empty()) break;
      const Bytes piece = advance(std::min(limit - filled, here().size()));
      std::memcpy(record_.data() + filled, piece.data(), piece.size());
      filled += piece.size();
    }
    return Bytes(record_).first(filled);
  }

 private:
  Bytes here() const { return Bytes(static_cast<const std::byte*>(from_[0].iov_base), from_[0].iov_len).subspan(at_); }
  Bytes advance(size_t size) {
    const Bytes piece = here().first(size);
    at_ += size;
    return piece;
  }
  void skip_empty() {
    while (!from_.empty() && at_ == from_[0].iov_len) {
      from_ = from_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> from_;
  size_t at_ = 0;  // in the first
  std::array<std::byte, record_size> record_;
};

}  // namespace

void Stream::close() {
  tls_.reset();
  socket_ = Fd();
  backlog_ = {};
  sent_ = 0;
}

Result<void> Stream::start_tls(Side side, const Sha256& key) {
  VB_ASSIGN(tls_, Tls::make(side, socket_.get(), key));
  return {};
}

Result<HandshakeState> Stream::handshake() {
  auto state = tls_->handshake();
  VB_TRY(send_cipher_text());  // also carries the reason for its failure
  return state;
}

// TLS answers some input by itself: key updates, malformed records. The answer is in this thread's shared seal buffer,
// and must be removed before another connection seals.
Result<Stream::Got> Stream::read(std::span<const iovec> into) {
  if (tls_ == nullptr) return read_plain(into);
  auto got = read_sealed(into);
  auto sent = send_cipher_text();
  if (got && !sent) return std::unexpected(sent.error());
  return got;
}

Result<Stream::Got> Stream::read_plain(std::span<const iovec> into) {
  size_t room = 0;
  for (const iovec& place : into) room += place.iov_len;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(into.data());
  message.msg_iovlen = into.size();
  const ssize_t size = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  if (size == 0) return fail(Errc::closed, "tcp: the peer left");
  if (size < 0 && errno != EAGAIN && errno != EINTR) return fail(Errc::closed, "tcp: receive", errno);
  Got got{.size = static_cast<size_t>(std::max<ssize_t>(size, 0))};
  got.drained = got.size < room;
  return got;
}

Result<Stream::Got> Stream::read_sealed(std::span<const iovec> into) {
  Got got;
  for (const iovec& place : into) {
    const auto opened = tls_->open({static_cast<std::byte*>(place.iov_base), place.iov_len});
    if (!opened && got.size == 0) return std::unexpected(opened.error());
    got.drained = opened && opened->drained;  // an error is reported by the next call
    if (!opened) break;
    got.size += opened->size;
    if (opened->size < place.iov_len) break;
  }
  return got;
}

Result<size_t> Stream::write(std::span<const iovec> from, bool more) {
  if (backlogged()) return size_t{0};
  if (tls_ == nullptr) return write_plain(from, more);
  return write_sealed(from);
}

Result<size_t> Stream::write_plain(std::span<const iovec> from, bool more) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from.data());
  message.msg_iovlen = std::min(from.size(), places_max);
  return taken(::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0)));
}

Result<size_t> Stream::write_sealed(std::span<const iovec> from) {
  Gather gather(from);
  size_t size = 0;
  const size_t most = little_ ? sealed_little : sealed_at_once_max;
  while (size < most) {
    const Bytes plain = gather.next(most - size);
    if (plain.empty()) break;
    if (auto sealed = tls_->seal(plain); !sealed) {
      clear_cipher_text();
      return std::unexpected(sealed.error());
    }
    size += plain.size();
  }
  VB_TRY(send_cipher_text());
  return size;
}

// Bytes that the socket does not take at once wait in this connection's own buffer.
Result<void> Stream::send_cipher_text() {
  const Bytes bytes = cipher_text();
  if (bytes.empty()) return {};
  Result<size_t> sent = size_t{0};
  if (!backlogged()) sent = taken(::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  if (sent) backlog_.insert(backlog_.end(), bytes.begin() + static_cast<ptrdiff_t>(*sent), bytes.end());
  clear_cipher_text();
  if (!sent) return std::unexpected(sent.error());
  return {};
}

Result<void> Stream::flush() {
  while (backlogged()) {
    VB_ASSIGN(const size_t size, taken(::send(socket_.get(), backlog_.data() + sent_, backlog_.size() - sent_,
                                              MSG_DONTWAIT | MSG_NOSIGNAL)));
    if (size == 0) return {};
    sent_ += size;
  }
  if (backlog_.capacity() > backlog_kept_max) backlog_ = {};
  backlog_.clear();
  sent_ = 0;
  return {};
}

}  // namespace verbena::fabric::tcp
