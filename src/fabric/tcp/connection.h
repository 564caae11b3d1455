// An authenticated connection, as the server sees it: frames in, frames out, transfers under way. On its core's thread
// alone.
#pragma once

#include <memory>
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

// What the connections of a port share with it. Outlives the port, since windows hold their connection.
struct PortShared {
  Options options;
  std::vector<std::byte> scratch;
  // Small frames of one connection that others follow at once: they go out together, in one record or a few
  // (Connection).
  Connection* held_by = nullptr;
  std::vector<std::byte> held;
  bool in_turn = false;  // the port has its turn: what is held goes out at its end
  Port::OnMessage on_message;
  std::vector<Transfer*> done;                    // to be resumed by the port's next poll
  std::vector<std::weak_ptr<Connection>> closed;  // to be taken off the list by it
  std::vector<std::weak_ptr<Connection>> timed;   // that have something to be done in time
  size_t queued = 0;                              // bytes, copied or sealed, that wait for all peers' sockets
  uint64_t operations = 0;                        // ids of reads given out
  size_t messages_left = SIZE_MAX;                // of all connections, in this turn of the port
  bool gone = false;                              // the port was destroyed
};

class Connection final : public std::enable_shared_from_this<Connection>, private FrameReceiver {
 public:
  // `tls_key`: null where nothing is encrypted.
  Connection(std::shared_ptr<PortShared> shared, PeerId peer, uint64_t session, Fd socket);
  ~Connection();

  Result<void> start_tls(const Sha256& key) { return stream_.start_tls(Side::server, key); }

  bool hot = false;  // on the port's list of those that were heard of lately

  PeerId peer() const { return peer_; }
  uint64_t session() const { return session_; }
  int fd() const { return stream_.fd(); }
  bool open() const { return open_; }
  bool ready() const { return ready_; }

  // The socket has something, or takes something, or perhaps so. Returns how much happened.
  size_t progress();
  size_t receive();
  // The peer has said all it will say: epoll does not tell it twice.
  void peer_left() { left_ = true; }
  // There may be more than one turn's worth to receive.
  bool has_more() const { return has_more_; }
  // It has something and others have their turn first.
  void postpone() { has_more_ = true; }

  // Small frames. Without an error the message goes out, unless the connection ends before.
  Result<void> send(Bytes first, Bytes second);
  // What is held back of the port's connections. At the latest when the port has had its turn.
  static void send_held(PortShared& shared);
  bool may_write_now() const { return open_ && outbox_.empty() && !stream_.backlogged() && ready_ && !crowded(); }
  Result<void> write_now(std::span<const Window::Write> writes, uint64_t window);

  // May be done when this returns.
  void start(Transfer& write);
  void start(Transfer& read, Frame frame);

  // Deadlines. Closes the connection when one has passed. False: it has none, until it asks to be looked at again.
  bool look_at_clock(SteadyClock::time_point now);
  // From now on the port looks at its deadlines.
  void be_timed() {
    if (!std::exchange(timed_, true)) shared_->timed.push_back(weak_from_this());
  }
  bool busy() const { return !transfers_.empty() || !outbox_.empty() || stream_.backlogged() || !ready_; }

  // Ends it: transfers fail with `why`, the socket is closed before they are told.
  void close(const Error& why);
  // Everything that was under way is forgotten: the coroutines that waited are destroyed.
  void drop();

 private:
  Result<void> message(Bytes message) override;
  Result<std::byte*> landing(const Frame& frame) override;
  Result<void> landed(const Frame& frame) override;
  Result<void> control(const Frame& frame) override;
  bool may_go_on() override { return messages_left_ != 0 && shared_->messages_left != 0; }

  Result<size_t> read();
  Result<void> queue(const Frame& frame, std::span<const Bytes> pieces, bool more);
  bool holds() const { return shared_->held_by == this; }
  Result<void> write_together(std::span<const Window::Write> writes, uint64_t window);
  bool hold(const Frame& frame, std::span<const Bytes> pieces);
  Result<void> send_held();
  void let_go_of_held();
  Result<void> was_sent(Result<void> sent);
  void flush();
  void close_if_late(SteadyClock::time_point now);
  void complete(Transfer& transfer, const Result<void>& outcome);
  Transfer* find(uint64_t operation);
  // Peers that take nothing hold half of what they may all together: from here on nobody's bytes are copied or sealed
  // ahead of the socket but those of messages. Payload waits in its lease, which is charged to its client.
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
  bool open_ = true;
  bool timed_ = false;  // on the port's list of those that have deadlines
  bool ready_ = false;  // TLS, where there is some, is done
  bool left_ = false;
  bool drained_ = false;  // the last read() brought all there was
  bool has_more_ = true;  // it may have spoken before it was ours
};

}  // namespace verbena::fabric::tcp
