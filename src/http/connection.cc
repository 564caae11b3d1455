#include "http/connection.h"

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "base/socket_events.h"
#include "call/request_id.h"
#include "http/response_head.h"
#include "s3_http/error_response.h"

namespace verbena::http {
namespace {

// A client that is still sending when it is refused would lose the answer to a reset: its bytes are read and dropped
// for a while after the answer (RFC 9112 section 9.6).
constexpr std::chrono::seconds linger_total{30};
constexpr std::chrono::seconds linger_silence{5};
constexpr std::chrono::seconds fresh_for{1};

Errc code_of(int status) {
  switch (status) {
    case 408:
      return Errc::request_timeout;
    case 431:
      return Errc::request_header_too_large;
    case 501:
      return Errc::not_implemented;
    case 503:
      return Errc::slow_down;
    default:
      return Errc::bad_request;
  }
}

constexpr size_t small_body_max = 16 * KiB;  // copied behind the head: one write, one TLS record

}  // namespace

Connection::Connection(std::shared_ptr<ListenerState> listener, Wire::tcp::socket socket, std::string peer_address,
                       ConnectionRoom::Place room)
    : listener_(std::move(listener)),
      room_(std::move(room)),
      place_(listener_->add(this)),
      wire_(std::move(socket), listener_->tls()),
      input_(wire_),
      body_(wire_, input_),
      sink_(*this),
      peer_address_(std::move(peer_address)) {}

Connection::~Connection() { listener_->remove(place_); }

Task<void> serve_whole(const Handler& handler, Exchange& exchange) {
  if (auto rest = handler(exchange)) co_await std::move(*rest);
}

Task<void> Connection::serve(std::shared_ptr<Connection> self) {
  self->wire_.set_owner(std::static_pointer_cast<void>(self));
  if (self->secure()) {
    if (!co_await self->wire_.handshake(self->listener_->limits().header_timeout)) co_return;
  }
  const Next last = co_await self->exchanges();
  if (last == Next::linger) co_await self->linger();
  self->wire_.close();
}

// Requests served from memory use no coroutine but this one, which waits for the next request.
Task<Connection::Next> Connection::exchanges() {
  Next next = Next::keep;
  while (next == Next::keep && !listener_->stopping()) {
    begin_exchange();
    HeadState head = look_for_head();
    while (head.kind == HeadState::Kind::incomplete) {
      const MutableBytes room = input_.room(listener_->limits().header_bytes_max);
      if (room.empty()) {
        head = {HeadState::Kind::refused, 431};
        break;
      }
      const auto timeout = head_timeout();
      idle_ = input_.empty();
      const Wire::Read read = co_await wire_.start_read(room, timeout);
      idle_ = false;
      head = take_input(wire_.end_read(read));
    }
    reading_.large.reset();
    if (head.kind == HeadState::Kind::closed) co_return Next::close;
    exchanging_ = head.kind == HeadState::Kind::parsed;
    std::optional<Task<Next>> rest = exchanging_ ? exchange() : refuse(head.status);
    if (rest) next = co_await std::move(*rest);
    note_socket_event();  // pipelined requests need no read
  }
  co_return next;
}

void Connection::begin_exchange() {
  response_ = nullptr;
  declared_ = bytes_out_ = 0;
  begun_ = finished_ = close_requested_ = keep_alive_ = false;
  served_ = served_ || exchanging_;
  exchanging_ = false;
  reading_ = {};
  wire_.hold_to_rate(0, {});
}

Connection::HeadState Connection::look_for_head() {
  using Kind = HeadState::Kind;
  const Limits& limits = listener_->limits();
  if (reading_.nothing_yet) {
    // Some clients end a body with a line too many (RFC 9112 section 2.2: ignore it).
    while (input_.view().starts_with("\r\n")) input_.consume(2);
    reading_.nothing_yet = input_.empty() || input_.view() == "\r";
    if (reading_.nothing_yet) return {Kind::incomplete};
  }
  HeadScanner& scanner = reading_.scanner;
  const auto status = scanner.scan(input_.view());
  if (status == HeadScanner::Status::complete && scanner.size() <= limits.header_bytes_max) {
    const int refusal = parse_head(input_.view().substr(0, scanner.size()), head_);
    if (refusal != 0) return {Kind::refused, refusal};
    input_.consume(scanner.size());
    return {Kind::parsed};
  }
  if (status == HeadScanner::Status::bad) return {Kind::refused, 400};
  if (input_.view().size() >= limits.header_bytes_max) return {Kind::refused, 431};
  if (!reading_.deadline) reading_.deadline = deadline_in(limits.header_timeout);
  if (input_.view().size() >= ListenerState::usual_head_bytes && reading_.large == nullptr) {
    reading_.large = listener_->large_head(peer_address_);
    if (reading_.large == nullptr) return {Kind::refused, 503};
  }
  return {Kind::incomplete};
}

std::chrono::nanoseconds Connection::head_timeout() const {
  if (reading_.deadline) return *reading_.deadline - SteadyClock::now();
  const Limits& limits = listener_->limits();
  return input_.empty() ? limits.idle_timeout : limits.header_timeout;
}

Connection::HeadState Connection::take_input(const Result<size_t>& n) {
  if (n) input_.added(*n);
  if (!n && n.error() == Errc::timed_out && !input_.empty()) return {HeadState::Kind::refused, 408};
  if (!n || *n == 0) return {HeadState::Kind::closed};
  return look_for_head();
}

std::optional<Task<Connection::Next>> Connection::exchange() {
  const Limits& limits = listener_->limits();
  wire_.hold_to_rate(limits.body_rate_min, limits.body_stall_timeout);
  body_.start(head_, limits.body_stall_timeout, &begun_);
  std::optional<Task<void>> rest;
  bool ran = false;
  try {
    rest = listener_->handler()(*this);
    ran = true;
  } catch (const std::exception& e) {
    log::error("http: a handler threw: {}", e.what());
  }
  if (rest || !finished_ || !keep_alive_ || !body_.complete()) return go_on(std::move(rest), ran);
  input_.shrink();
  return std::nullopt;
}

Task<Connection::Next> Connection::go_on(std::optional<Task<void>> rest, bool ran) {
  if (rest) {
    ran = false;
    try {
      co_await std::move(*rest);
      ran = true;
    } catch (const std::exception& e) {
      log::error("http: a handler threw: {}", e.what());
    }
  }
  if (begun_ && !finished_) co_return Next::close;  // truncated: the declared bytes were not sent
  if (!begun_) {
    if (ran) log::error("http: a handler gave no answer, method={}", log::printable(head_.method));
    s3::Response failed;
    failed.status = 500;
    close_requested_ = true;
    (void)co_await reply(failed);
    co_return Next::linger;
  }
  if (!keep_alive_) co_return body_.complete() ? Next::close : Next::linger;
  if (!body_.complete() && !co_await body_.drain()) co_return Next::linger;
  input_.shrink();
  co_return Next::keep;
}

// A head that cannot be trusted: nothing after it on this connection can be either.
Task<Connection::Next> Connection::refuse(int status) {
  log::debug("http: refused a request head, peer={} status={}", peer_address_, status);
  head_.method.clear();
  body_.start(RequestHead{}, listener_->limits().body_stall_timeout, &begun_);
  s3::Response response;
  const Errc code = code_of(status);
  const char* why = code == Errc::bad_request ? "An error occurred when parsing the HTTP request." : "";
  if (head_.refusal != nullptr) why = head_.refusal;
  s3::fill_error(response, Error{code, 0, why}, "", call::make_request_id());
  response.status = status;
  close_requested_ = true;
  if (!co_await reply(response)) co_return Next::close;
  co_return Next::linger;
}

// The deadline of a wait for the client shows when the wait began.
Connection::Standing Connection::standing(Deadline now) const {
  if (leaving_) return {Shown::signed_busy, arrived_};
  if (lingers_) return {Shown::nothing, arrived_};
  if (exchanging_) return {signed_ ? Shown::signed_busy : Shown::busy, arrived_};
  const Limits& limits = listener_->limits();
  Standing standing{Shown::nothing, arrived_};
  if (reading_.deadline) {
    standing.since = *reading_.deadline - limits.header_timeout;
  } else if (served_) {
    if (const Deadline until = wire_.deadline(); until != Deadline::max()) standing.since = until - limits.idle_timeout;
    standing.shown = Shown::idle;
  }
  if (signed_) {
    standing.shown = Shown::signed_idle;
  } else if (now - standing.since < fresh_for) {
    standing.shown = Shown::fresh;
  }
  return standing;
}

void Connection::leave() {
  leaving_ = true;
  wire_.cancel();
}

Task<void> Connection::linger() {
  lingers_ = true;
  wire_.shutdown_send();
  wire_.hold_to_rate(0, {});  // it may be here because it was slow
  const Deadline end = deadline_in(linger_total);
  while (SteadyClock::now() < end && !listener_->stopping()) {
    auto n = co_await wire_.read_some(listener_->scratch(), linger_silence);
    if (!n || *n == 0) co_return;
  }
}

void Connection::write_head(s3::Response& response, std::optional<uint64_t> content_length) {
  begun_ = true;
  response_ = &response;
  keep_alive_ = head_.keep_alive && !close_requested_ && !listener_->stopping() && body_.can_drain();
  ResponseHead head;
  head.status = response.status;
  head.headers = &response.headers;
  head.content_length = content_length;
  head.close = !keep_alive_;
  head.keep_alive_1_0 = keep_alive_ && head_.http_1_0;
  append_response_head(wire_.head(), head);
}

memory::Sink& Connection::sink(s3::Response& response) {
  response_ = &response;
  return sink_;
}

Task<Result<void>> Connection::reply(s3::Response& response) {
  if (begun_) co_return fail(Errc::internal, "http: a second answer to one request");
  const bool bodyless = response.status == 204 || response.status == 304;
  const bool send_body = !bodyless && !response.no_body && head_.method != "HEAD";
  std::optional<uint64_t> length;
  if (send_body) {
    length = response.body.size();
  } else if (!bodyless) {
    length = response.content_length.value_or(response.no_body ? 0 : response.body.size());
  }
  write_head(response, length);
  const auto timeout = listener_->limits().body_stall_timeout;
  if (send_body) {
    bytes_out_ = response.body.size();
    if (response.body.size() <= small_body_max) {
      wire_.head() += response.body;
    } else {
      // Borrowed: flush() does not return before the wire is done with it.
      memory::Chunk borrowed{memory::Lease(), as_bytes(response.body)};
      (void)co_await wire_.send(std::move(borrowed), timeout);
    }
  }
  const auto out = wire_.send_at_once({}, timeout);
  if (!out || !*out) VB_CO_TRY(co_await wire_.flush(timeout));
  finished_ = true;
  co_return Result<void>{};
}

Task<Result<void>> Connection::ResponseSink::begin(uint64_t length) {
  Connection& c = connection_;
  if (c.begun_) co_return fail(Errc::internal, "http: a second answer to one request");
  c.declared_ = length;
  c.write_head(*c.response_, c.head_length(length));  // goes out with the first chunk
  co_return Result<void>{};
}

Result<memory::AtOnce> Connection::ResponseSink::send_at_once(uint64_t length, memory::Pieces& pieces) {
  Connection& c = connection_;
  const bool head_alone = length == 0 && c.response_->no_body;
  if ((length == 0 && !head_alone) || c.begun_ || c.wire_.secure()) return memory::AtOnce::unsupported;
  memory::Chunk whole = head_alone ? memory::Chunk() : pieces.next();
  if (whole.bytes.size() != length) return memory::AtOnce::unsupported;
  c.declared_ = c.bytes_out_ = length;
  c.write_head(*c.response_, c.head_length(length));
  const auto out = c.wire_.send_at_once(std::move(whole), c.listener_->limits().body_stall_timeout);
  if (!out) return std::unexpected(out.error());
  c.finished_ = *out;
  return *out ? memory::AtOnce::sent : memory::AtOnce::unfinished;
}

Task<Result<void>> Connection::ResponseSink::push(memory::Chunk chunk) {
  Connection& c = connection_;
  if (!c.begun_ || chunk.bytes.size() > c.declared_ - c.bytes_out_) {
    co_return fail(Errc::internal, "http: more bytes than the answer's head promised");
  }
  c.bytes_out_ += chunk.bytes.size();
  co_return co_await c.wire_.send(std::move(chunk), c.listener_->limits().body_stall_timeout);
}

Task<Result<void>> Connection::ResponseSink::drained() {
  return connection_.wire_.flush(connection_.listener_->limits().body_stall_timeout);
}

Task<Result<void>> Connection::ResponseSink::finish() {
  Connection& c = connection_;
  if (!c.begun_ || c.bytes_out_ != c.declared_) {
    co_return fail(Errc::internal, "http: fewer bytes than the answer's head promised");
  }
  VB_CO_TRY(co_await c.wire_.flush(c.listener_->limits().body_stall_timeout));
  c.finished_ = true;
  co_return Result<void>{};
}

}  // namespace verbena::http
