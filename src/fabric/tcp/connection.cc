#include "fabric/tcp/connection.h"

#include <algorithm>

#include "base/log_limit.h"
#include "fabric/tcp/counters.h"

namespace verbena::fabric::tcp {
namespace {

// Of one connection per turn. A client that keeps to a session's credits has fewer messages in flight.
constexpr size_t receives_per_turn = 2;
constexpr size_t messages_per_turn = 64;
// Frames up to this size are held back: a record and a system call cost more than copying so much.
constexpr size_t held_frame_max = 16 * KiB;
constexpr size_t held_max = 64 * KiB;

Frame write_frame(uint64_t window, uint64_t at, size_t size) {
  return {.type = FrameType::write, .payload = static_cast<uint32_t>(size), .id = window, .offset = at};
}

}  // namespace

Connection::Connection(std::shared_ptr<PortShared> shared, PeerId peer, uint64_t session, Fd socket)
    : shared_(std::move(shared)),
      peer_(peer),
      session_(session),
      stream_(std::move(socket)),
      reader_(Side::server, shared_->options.message_size_max),
      outbox_(shared_->options.queued_per_peer_max),
      ready_by_(deadline_in(shared_->options.arrival_timeout)),
      ready_(!shared_->options.encrypt) {
  Counters::get().connections.add(1);
}

Connection::~Connection() {
  let_go_of_held();
  if (open_) Counters::get().connections.add(-1);
  shared_->queued -= queued_;
  Counters::get().queued.add(-static_cast<int64_t>(queued_));
}

// --- Receiving -------------------------------------------------------------------------------------------------------

size_t Connection::progress() {
  if (!open_) return 0;
  const size_t before = transfers_.size() + outbox_.copied();
  if (!outbox_.empty() || stream_.backlogged()) flush();
  return receive() + (before != transfers_.size() + outbox_.copied() ? 1 : 0);
}

Result<void> Connection::shake_hands() {
  VB_ASSIGN(const HandshakeState state, stream_.handshake());
  ready_ = state == HandshakeState::complete;
  return {};
}

size_t Connection::receive() {
  size_t total = 0;
  has_more_ = false;
  messages_left_ = messages_per_turn;
  const auto self = shared_from_this();  // a message may end this connection
  for (size_t turn = 0; open_; ++turn) {
    if (!ready_) {
      if (auto done = shake_hands(); !done) {
        Counters::get().refused.add();
        close(done.error());
        return 1;
      }
      if (!ready_) return total;
    }
    if (turn == receives_per_turn || !may_go_on()) {
      has_more_ = true;
      break;
    }
    const auto got = read();
    if (!got) {
      if (open_ && got.error().code != Errc::closed) note_violation(got.error());
      close(got.error());
      return total + 1;
    }
    total += *got;
    if (drained_ && !left_) break;
  }
  return total;
}

// Processes the rest of the last turn, or else newly received bytes. Returns how many.
Result<size_t> Connection::read() {
  if (reader_.paused()) {
    VB_TRY(reader_.resume(shared_->scratch, *this));
    drained_ = false;
    return size_t{1};
  }
  VB_ASSIGN(const Stream::Got got, stream_.read(reader_.targets(shared_->scratch)));
  drained_ = got.drained;
  if (got.size != 0) VB_TRY(reader_.received(got.size, shared_->scratch, *this));
  if (reader_.paused()) drained_ = false;
  return got.size;
}

void Connection::note_violation(const Error& what) {
  Counters::get().violations.add();
  static log::Limit limit;
  limit.warn("tcp: a peer broke the protocol session={:016x} what=\"{}\"", session_, what.context);
}

Result<void> Connection::message(Bytes message) {
  --messages_left_;
  --shared_->messages_left;
  if (shared_->on_message) shared_->on_message(peer_, message);
  if (!open_) return fail(Errc::closed, "tcp: closed");
  return {};
}

Transfer* Connection::find(uint64_t operation) {
  for (Transfer* transfer : transfers_) {
    if (!transfer->is_write && transfer->operation == operation) return transfer;
  }
  return nullptr;
}

// Pieces of an answer must arrive in order and not exceed the request.
Result<std::byte*> Connection::landing(const Frame& frame) {
  Transfer* transfer = find(frame.id);
  if (transfer == nullptr) return fail(Errc::malformed, "tcp: data that was not requested");
  if (frame.offset != transfer->received || frame.payload > transfer->size - transfer->received) {
    return fail(Errc::malformed, "tcp: data outside of the request");
  }
  return transfer->into + transfer->received;
}

Result<void> Connection::landed(const Frame& frame) {
  Transfer* transfer = find(frame.id);
  if (transfer == nullptr) return fail(Errc::malformed, "tcp: data that was not requested");
  transfer->received += frame.payload;
  if (transfer->received == transfer->size) complete(*transfer, {});
  return {};
}

Result<void> Connection::control(const Frame& frame) {
  Transfer* transfer = find(frame.id);
  if (transfer == nullptr) return fail(Errc::malformed, "tcp: a refusal of something that was not requested");
  complete(*transfer, fail(Errc::rdma_transfer_failed, "tcp: the client does not lend that window"));
  return {};
}

// --- Sending ---------------------------------------------------------------------------------------------------------

Result<void> Connection::queue(const Frame& frame, const Payload& payload, bool more) {
  if (!open_) return fail(Errc::closed, "tcp: the peer is gone");
  if (!outbox_.empty() && shared_->queued > shared_->options.queued_max) {
    return fail(Errc::would_block, "tcp: too much waits for slow peers");
  }
  if (more || holds()) {
    if (hold(frame, payload)) return more ? Result<void>() : send_held();
  }
  FrameHead head;
  std::array<iovec, 2 + std::tuple_size_v<Payload>> places;
  size_t count = 1;  // behind the held frames
  places[count++] = {head.data(), encode(frame, head)};
  for (const Bytes& piece : payload) places[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  // After a frame without payload nothing follows that the kernel could wait for.
  return send_behind_held(std::span(places).first(count), more && frame.payload != 0);
}

// Copies a small frame behind the held ones. False: it must be sent by itself.
bool Connection::hold(const Frame& frame, const Payload& payload) {
  FrameHead head;
  const size_t head_size = encode(frame, head);
  std::vector<std::byte>& held = shared_->held;
  if (frame.payload > held_frame_max) return false;
  if (shared_->held_by != nullptr && (!holds() || held.size() + head_size + frame.payload > held_max)) {
    send_held(*shared_);
  }
  if (!may_write_now()) return false;
  shared_->held_by = this;
  held.insert(held.end(), head.begin(), head.begin() + static_cast<ptrdiff_t>(head_size));
  for (const Bytes& piece : payload) held.insert(held.end(), piece.begin(), piece.end());
  return true;
}

void Connection::send_held(PortShared& shared) {
  // An error has closed it.
  if (shared.held_by != nullptr) (void)shared.held_by->send_held();
}

Result<void> Connection::send_held() {
  iovec none;
  return send_behind_held(std::span(&none, 1), false);
}

// Sends whole frames by one call, the held ones ahead of them: in the first of the places, which is left free. Held
// frames are never refused: as long as there are some, the outbox is empty.
Result<void> Connection::send_behind_held(std::span<iovec> places, bool more) {
  const bool held = holds();
  places[0] = {};
  if (held) {
    places[0] = {shared_->held.data(), shared_->held.size()};
    shared_->held_by = nullptr;
  }
  stream_.seal_little(crowded());
  auto sent = outbox_.send_frames(stream_, places, more);
  if (held) shared_->held.clear();
  return was_sent(std::move(sent));
}

void Connection::let_go_of_held() {
  if (!holds()) return;
  shared_->held_by = nullptr;
  shared_->held.clear();
}

Result<void> Connection::was_sent(Result<void> sent) {
  count_queued();
  if (!outbox_.empty()) be_timed();
  if (!sent && sent.error().code != Errc::would_block) close(sent.error());
  // The limit of sealing at once was reached while the socket still has room: it will not signal again.
  if (sent && stream_.encrypted() && !outbox_.empty() && !stream_.backlogged()) flush();
  return sent;
}

void Connection::count_queued() {
  const size_t now = outbox_.copied() + stream_.waiting();
  shared_->queued += now - queued_;
  Counters::get().queued.add(static_cast<int64_t>(now) - static_cast<int64_t>(queued_));
  queued_ = now;
}

Result<void> Connection::send(Bytes first, Bytes second) {
  const size_t size = first.size() + second.size();
  if (size == 0 || size > shared_->options.message_size_max) return fail(Errc::too_large, "tcp: message size");
  const Frame frame{.type = FrameType::message, .payload = static_cast<uint32_t>(size)};
  return queue(frame, {first, second}, false);
}

Result<void> Connection::write_now(std::span<const Window::Write> writes, uint64_t window) {
  if (!ready_) return fail(Errc::would_block, "tcp: not encrypted yet");
  size_t size = 0;
  bool none_empty = true;
  for (const Window::Write& write : writes) {
    size += write.from.size();
    none_empty = none_empty && !write.from.empty();
  }
  if (size > held_frame_max && writes.size() > 1 && none_empty) return write_together(writes, window);
  for (const Window::Write& write : writes) {
    if (write.from.empty()) continue;
    const Frame frame = write_frame(window, write.at, write.from.size());
    // The reply follows at once.
    VB_TRY(queue(frame, {write.from}, true));
  }
  return {};
}

// One system call, directly from the bytes. Adjacent ones in the window become one frame.
Result<void> Connection::write_together(std::span<const Window::Write> writes, uint64_t window) {
  if (!may_write_now()) return fail(Errc::would_block, "tcp: the peer's queue is full");
  std::array<FrameHead, Window::writes_max> heads;
  std::array<iovec, 1 + 2 * Window::writes_max> places;
  size_t frames = 0, count = 1;  // behind the held frames
  for (size_t i = 0; i < writes.size();) {
    const size_t head = count++;
    const uint64_t at = writes[i].at;
    uint64_t end = at;
    for (; i < writes.size() && writes[i].at == end && end - at <= payload_size_max - writes[i].from.size(); ++i) {
      const Bytes from = writes[i].from;
      places[count++] = {const_cast<std::byte*>(from.data()), from.size()};
      end += from.size();
    }
    places[head] = {heads[frames].data(), encode(write_frame(window, at, end - at), heads[frames])};
    ++frames;
  }
  return send_behind_held(std::span(places).first(count), true);
}

void Connection::start(Transfer& write) {
  if (holds()) (void)send_held();  // may end the connection
  if (!open_) {
    write.outcome = fail(Errc::closed, "tcp: the peer is gone");
    write.done = true;
    return;
  }
  be_timed();
  transfers_.push_back(&write);
  outbox_.add(write.out);
  flush();
}

void Connection::start(Transfer& read, Frame frame) {
  read.operation = ++shared_->operations;
  frame.size = read.size;
  frame.operation = read.operation;
  be_timed();
  transfers_.push_back(&read);
  // A batch has many of these. Between two turns of the port held frames would not be sent.
  if (auto asked = queue(frame, {}, shared_->in_turn); !asked && !read.done) complete(read, asked);
}

void Connection::flush() {
  stream_.seal_little(crowded());
  auto flushed = outbox_.flush(stream_, sent_);
  count_queued();
  for (Outgoing* out : sent_) {
    const auto of = [out](Transfer* transfer) { return &transfer->out == out; };
    const auto found = std::ranges::find_if(transfers_, of);
    if (found != transfers_.end()) complete(**found, {});
  }
  sent_.clear();
  if (!flushed) close(flushed.error());
}

// --- The end ---------------------------------------------------------------------------------------------------------

void Connection::complete(Transfer& transfer, const Result<void>& outcome) {
  std::erase(transfers_, &transfer);
  transfer.outcome = outcome;
  transfer.done = true;
  if (transfer.handler) shared_->done.push_back(&transfer);
}

bool Connection::look_at_clock(SteadyClock::time_point now) {
  close_if_late(now);
  timed_ = open_ && (!ready_ || !transfers_.empty() || !outbox_.empty() || ends_by_);
  return timed_;
}

constexpr Error session_ended{.code = Errc::closed, .sys = 0, .context = "tcp: the session ended"};

void Connection::end() {
  if (!is_sending()) return close(session_ended);
  if (!ends_by_) ends_by_ = deadline_in(std::chrono::seconds(1));
  be_timed();
}

void Connection::close_if_late(SteadyClock::time_point now) {
  if (!open_) return;
  if (ends_by_ && (*ends_by_ <= now || !is_sending())) return close(session_ended);
  if (!ready_ && ready_by_ <= now) {
    Counters::get().refused.add();
    return close({.code = Errc::timed_out, .sys = 0, .context = "tcp: TLS handshake"});
  }
  for (Transfer* transfer : transfers_) {
    if (transfer->deadline > now) continue;
    Counters::get().stalled.add();
    static log::Limit limit;
    limit.info("tcp: a transfer ran out of time session={:016x}", session_);
    return close({.code = Errc::timed_out, .sys = 0, .context = "tcp: a transfer's deadline"});
  }
  if (outbox_.stalled_since(now - shared_->options.send_deadline)) {
    Counters::get().stalled.add();
    static log::Limit limit;
    limit.info("tcp: a peer takes nothing session={:016x}", session_);
    close({.code = Errc::timed_out, .sys = 0, .context = "tcp: the peer takes nothing"});
  }
}

void Connection::close(const Error& why) {
  if (!open_) return;
  open_ = false;
  let_go_of_held();
  Counters::get().connections.add(-1);
  stream_.close();  // from here on the transfers' memory is not used
  while (!transfers_.empty()) complete(*transfers_.back(), std::unexpected(why));
  shared_->closed.push_back(weak_from_this());
}

void Connection::drop() {
  if (open_) close({.code = Errc::closed, .sys = 0, .context = "tcp: the port is gone"});
}

}  // namespace verbena::fabric::tcp
