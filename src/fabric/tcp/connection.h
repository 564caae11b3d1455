// The server's end of an authenticated connection: frames in, frames out, transfers in progress. On its core's thread
// alone.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/tcp/frame_reader.h"
#include "fabric/tcp/outbox.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/tcp.h"
#include "fabric/tcp/transfer.h"

namespace verbena::fabric::tcp {

class Connection;

// State that the connections of a port share with it. Outlives the port, since windows hold their connection.
struct PortShared {
  Options options;
  std::vector<std::byte> scratch;
  // Small frames of one connection that more frames follow at once: they are sent together, in one record or a few
  // (Connection).
  Connection* held_by = nullptr;
  std::vector<std::byte> held;
  bool in_turn = false;  // during a turn of the port, at whose end held frames are sent
  Port::OnMessage on_message;
  std::vector<Transfer*> done;                    // to be resumed by the port's next poll
  std::vector<std::weak_ptr<Connection>> closed;  // to be removed from the list by it
  std::vector<std::weak_ptr<Connection>> timed;   // that have a deadline
  size_t queued = 0;                              // bytes, copied or sealed, that wait for all peers' sockets
  uint64_t operations = 0;                        // the last id given to a read
  size_t messages_left = SIZE_MAX;                // of all connections, in this turn of the port
  bool gone = false;                              // the port was destroyed
};

class Connection final : public std::enable_shared_from_this<Connection>, private FrameReceiver {
 public:
  // `tls_key`: null without encryption.
  Connection(std::shared_ptr<PortShared> shared, PeerId peer, uint64_t session, Fd socket);
  ~Connection();

  Result<void> start_tls(const Sha256& key) { return stream_.start_tls(Side::server, key); }

  bool hot = false;  // in the port's list of recently active connections

  PeerId peer() const { return peer_; }
  uint64_t session() const { return session_; }
  int fd() const { return stream_.fd(); }
  bool open() const { return open_; }
  bool ready() const { return ready_; }

  // Called when the socket is, or may be, readable or writable. Returns the amount of progress.
  size_t progress();
  size_t receive();
  // Records that the peer has closed its side: epoll does not report it twice.
  void peer_left() { left_ = true; }
  // There may be more to receive than one turn allows.
  bool has_more() const { return has_more_; }
  // Has input, but others go first.
  void postpone() { has_more_ = true; }

  // Sends a small frame. Without an error the message is sent, unless the connection ends before.
  Result<void> send(Bytes first, Bytes second);
  // Sends the held frames of the port's connections, at the latest at the end of the port's turn.
  static void send_held(PortShared& shared);
  bool may_write_now() const { return open_ && outbox_.empty() && !stream_.backlogged() && ready_ && !crowded(); }
  Result<void> write_now(std::span<const Window::Write> writes, uint64_t window);

  // May be done when this returns.
  void start(Transfer& write);
  void start(Transfer& read, Frame frame);

  // Checks deadlines. Closes the connection when one has passed. False: it has none until be_timed() is called again.
  bool look_at_clock(SteadyClock::time_point now);
  // Makes the port check its deadlines from now on.
  void be_timed() {
    if (!std::exchange(timed_, true)) shared_->timed.push_back(weak_from_this());
  }
  bool busy() const { return !transfers_.empty() || !outbox_.empty() || stream_.backlogged() || !ready_; }

  // Ends it: closes the socket, then fails the transfers with `why`.
  void close(const Error& why);
  // The same because its session has ended, once what was accepted for sending has gone out, an acknowledgement say: a
  // second later at the latest.
  void end();
  // Drops everything in progress: waiting coroutines are destroyed.
  void drop();

 private:
  Result<void> message(Bytes message) override;
  Result<std::byte*> landing(const Frame& frame) override;
  Result<void> landed(const Frame& frame) override;
  Result<void> control(const Frame& frame) override;
  bool may_go_on() override { return messages_left_ != 0 && shared_->messages_left != 0; }

  Result<size_t> read();
  using Payload = std::array<Bytes, 2>;  // of a small frame, in its order; either may be empty
  Result<void> queue(const Frame& frame, const Payload& payload, bool more);
  bool holds() const { return shared_->held_by == this; }
  Result<void> write_together(std::span<const Window::Write> writes, uint64_t window);
  bool hold(const Frame& frame, const Payload& payload);
  Result<void> send_held();
  Result<void> send_behind_held(std::span<iovec> places, bool more);
  void let_go_of_held();
  Result<void> was_sent(Result<void> sent);
  void flush();
  void close_if_late(SteadyClock::time_point now);
  bool is_sending() const { return open_ && (!outbox_.empty() || stream_.backlogged()); }
  void complete(Transfer& transfer, const Result<void>& outcome);
  Transfer* find(uint64_t operation);
  // True when peers that do not read hold half of the bytes that all may hold: from here on only messages are copied or
  // sealed ahead of the socket. Payload waits in its lease, which is charged to its client.
  bool crowded() const { return shared_->queued >= shared_->options.queued_max / 2; }
  void count_queued();
  void note_violation(const Error& what);
  Result<void> shake_hands();

  std::shared_ptr<PortShared> shared_;
  const PeerId peer_;
  const uint64_t session_;
  Stream stream_;
  FrameReader reader_;
  Outbox outbox_;
  std::vector<Transfer*> transfers_;
  std::vector<Outgoing*> sent_;
  size_t queued_ = 0;         // of PortShared::queued
  size_t messages_left_ = 0;  // of this connection, in this receive()
  Deadline ready_by_;
  std::optional<Deadline> ends_by_;  // end()
  bool open_ = true;
  bool timed_ = false;  // in the port's list of those with deadlines
  bool ready_ = false;  // TLS, if used, is done
  bool left_ = false;
  bool drained_ = false;  // the last read() emptied the socket
  bool has_more_ = true;  // input may have arrived before the connection was taken over
};

}  // namespace verbena::fabric::tcp
