#include "native/endpoint.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>

#include "call/request_id.h"
#include "native/read_batch.h"
#include "native/wire/trace.h"
#include "native/wire/watch.h"
#include "native/write_batch.h"
#include "s3/access/quota.h"

namespace verbena::native {
namespace {

constexpr size_t spare_ops_max = 256;
constexpr uint32_t listings_max = 4;  // with values, of a stream at once
constexpr uint32_t questions_max =
    2 * wire::stream_watches_max;  // likewise: for each watch a parked request and the next

// Parses a message with a trace's context behind its body; messages without one take another path and pay nothing for
// it.
bool load_traced(Op& op, Bytes body) {
  if (body.size() < wire::trace_context_size) return false;
  const Bytes rest = body.first(body.size() - wire::trace_context_size);
  if (observe::requests_are_observed())
    op.noted.of_caller = observe::read_trace_context(body.last(wire::trace_context_size));
  switch (static_cast<wire::Type>(op.header.type)) {
    case wire::Type::get:
    case wire::Type::head:
      return load_get(op, rest);
    case wire::Type::put:
      return load_put(op, rest);
    case wire::Type::append:
      return load_append(op, rest);
    case wire::Type::rename:
      return load_rename(op, rest);
    case wire::Type::del:
      return load_delete(op, rest);
    case wire::Type::list:
      return load_list(op, rest);
    case wire::Type::list_values:
      return load_list_values(op, rest);
    case wire::Type::watch:
      return load_watch(op, rest);
    case wire::Type::watch_next:
      return load_watch_next(op, rest);
    case wire::Type::watch_end:
      return load_watch_end(op, rest);
    case wire::Type::match:
      return load_match(op, rest);
    case wire::Type::lease_end:
      return load_lease_end(op, rest);
    case wire::Type::device:
      return load_device(op, rest);
    case wire::Type::device_end:
      return load_device_end(op, rest);
    default:
      return false;
  }
}

bool is_change(uint8_t type) {
  switch (static_cast<wire::Type>(type)) {
    case wire::Type::put:
    case wire::Type::append:
    case wire::Type::rename:
    case wire::Type::del:
    case wire::Type::put_many:
    case wire::Type::delete_many:
      return true;
    default:
      return false;
  }
}

// The number of requests for each bucket.
std::vector<s3::BucketRequests> requests_of(const Op& op) {
  const bool reads = op.header.type == static_cast<uint8_t>(wire::Type::get) ||
                     op.header.type == static_cast<uint8_t>(wire::Type::head);
  return {{reads ? op.get.bucket : op.bucket, 1}};
}

// `body`: of a checked batch.
std::vector<s3::BucketRequests> requests_of(const Op& op, Bytes body) {
  auto reader = wire::BatchReader::open(body, static_cast<wire::Type>(op.header.type));
  std::vector<s3::BucketRequests> requests;
  for (const std::string_view bucket : reader->head().buckets) requests.emplace_back(bucket, 0);
  for (wire::BatchItem item; reader->left() != 0;) {
    reader->next(item);
    ++requests[item.bucket].second;
  }
  return requests;
}

}  // namespace

Endpoint::Endpoint(std::shared_ptr<DoorState> door, Core& core, fabric::Port& port, uint16_t index)
    : door_(std::move(door)), core_(core), port_(port), index_(index), leases_(door_->lease_book(info().core)) {
  fill_random(std::as_writable_bytes(std::span(&request_ids_, 1)));
}

Endpoint::~Endpoint() = default;

void Endpoint::start() {
  watches_ = std::make_shared<KeyWatches>(*this, door_);
  at_once_ = info().provider == "local" || info().provider == "tcp";
  // The port may outlive the door, hence the shared pointers.
  port_.on_message([self = shared_from_this()](fabric::PeerId from, Bytes message) { self->receive(from, message); });
  port_.on_gone([self = shared_from_this()](fabric::PeerId peer) { self->gone(peer); });
  // Owns its timer, so that the loop and this may end in any order.
  boost::asio::co_spawn(core_.io(), sweep_forever(weak_from_this()), boost::asio::detached);
}

void Endpoint::abandon() {
  watches_->close();
  streams_.each([](const std::shared_ptr<SessionStream>& stream) { stream->leases.reset(); });
  while (leases_->work(SteadyClock::now())) {
  }
  // Each of them holds this endpoint.
  auto waiting = std::move(waiting_);
  waiting_.clear();
  auto turns = std::move(turns_);
  turns_.clear();
}

// Checks, the cheapest first. A failed one is counted and not answered, so that a hostile sender learns nothing.
void Endpoint::receive(fabric::PeerId from, Bytes message) {
  received_ = ticks();
  Metrics& metrics = door_->metrics;
  const auto header = wire::parse_header(message, info().message_size_max);
  if (!header) return metrics.drop(header.error());
  SessionStream* stream = streams_.find(header->session);
  if (stream == nullptr) {
    if (header->type != static_cast<uint8_t>(wire::Type::hello)) return metrics.drop(wire::Drop::unknown_session);
    return hello(from, *header, message);
  }
  if (stream->closed) return metrics.drop(wire::Drop::stream_closed);
  if (from != 0 && from != stream->peer) return metrics.drop(wire::Drop::wrong_peer);
  if (stream->sealed && port_.sealed_session() != header->session) return metrics.drop(wire::Drop::wrong_peer);
  if (!wire::mac_matches(stream->keys.to_server, message)) return metrics.drop(wire::Drop::bad_mac);
  if (!stream->seen.accept(header->sequence)) return metrics.drop(wire::Drop::replayed);
  stream->touched = true;
  dispatch(*stream, *header, wire::body_of(message));
}

void Endpoint::dispatch(SessionStream& stream, const wire::Header& header, Bytes body) {
  Metrics& metrics = door_->metrics;
  if (header.type >= std::size(metrics.requests) || metrics.requests[header.type] == nullptr) {
    return metrics.drop(wire::Drop::bad_type);
  }
  metrics.requests[header.type]->add();
  if (stream.session->version < wire::version_of(header.type)) {
    return metrics.drop(wire::Drop::bad_type);
  }
  switch (static_cast<wire::Type>(header.type)) {
    case wire::Type::hello:  // a repeated one changes nothing
    case wire::Type::ping:
      return answer(stream, header, Errc::ok);
    case wire::Type::bye:
      return close(stream);
    default:
      break;
  }
  // slow_down, not service_unavailable, because nothing has begun: the latter leaves open whether a change has
  // happened.
  if (door_->stopping.load(std::memory_order_relaxed)) return answer(stream, header, Errc::slow_down);
  if (!still_known(stream)) return answer(stream, header, Errc::access_denied);
  const Deadline until = is_change(header.type) ? waits_until(header) : Deadline::max();
  if (until != Deadline::max() && SteadyClock::now() >= until) return answer(stream, header, Errc::slow_down);
  if (!has_credit(stream, header.type)) {
    metrics.drop(wire::Drop::no_credit);
    return answer(stream, header, Errc::slow_down);
  }
  start_verb(stream, header, body, until);
}

// From when a message may have come: one that a core was kept from reading may be of a client that has given up, and
// has made the change another way since. When it was sent is not known here, so a change that is under way at this time
// may be of such a client by the time that its message travelled.
Deadline Endpoint::waits_until(const wire::Header& header) const {
  if (header.timeout_ms == 0) return Deadline::max();
  return core_.arrived_after() + std::chrono::milliseconds(header.timeout_ms);
}

bool Endpoint::has_credit(const SessionStream& stream, uint8_t type) const {
  if (takes_no_credit(type)) return stream.questions < questions_max;
  const bool lists_values = type == static_cast<uint8_t>(wire::Type::list_values);
  return stream.in_flight < door_->options.credits && (!lists_values || stream.listings < listings_max) &&
         stream.client->units + load_of(type) <= ClientLoad::units_max;
}

// Keys and policies may change while sessions are open. One load shows whether they did.
bool Endpoint::still_known(SessionStream& stream) {
  const uint64_t generation = door_->credentials.generation();
  const int64_t expires_s = stream.session->key->expires_s;
  if (stream.generation == generation && (expires_s == 0 || door_->service.clock.now_s() < expires_s)) return true;
  const auth::Credentials& opened_with = stream.session->key->credentials;
  const auto key =
      door_->credentials.find(opened_with.access_key, opened_with.session_token, door_->service.clock.now_s());
  // A key that was recreated under the same id has another secret than the one the session was derived from.
  if (!key || (*key)->credentials.secret_key != opened_with.secret_key) {
    door_->sessions.end(stream.session->id);  // the next sweep sends BYE
    return false;
  }
  stream.caller.identity.principal = (*key)->principal;
  stream.caller.identity.key = *key;
  stream.caller.identity.generation = generation;
  // The key may be of another account now.
  const auth::NetworkRules* const networks = door_->options.networks;
  if (networks != nullptr && !networks->check_caller(stream.caller.peer_address, stream.caller.identity)) {
    door_->sessions.end(stream.session->id);
    return false;
  }
  stream.generation = generation;
  return true;
}

void Endpoint::start_verb(SessionStream& stream, const wire::Header& header, Bytes body, Deadline until) {
  OpPtr op = take_op(stream, header);
  op->until = until;
  if (wire::is_batch(static_cast<wire::Type>(header.type))) return start_batch(std::move(op), body);
  bool loaded = false;
  Task<void> (*serve)(OpPtr) = nullptr;
  switch (static_cast<wire::Type>(header.type)) {
    case wire::Type::get:
      loaded = load_get(*op, body), serve = serve_get;
      break;
    case wire::Type::head:
      loaded = load_get(*op, body), serve = serve_head;
      break;
    case wire::Type::put:
      loaded = load_put(*op, body), serve = serve_put;
      break;
    case wire::Type::append:
      loaded = load_append(*op, body), serve = serve_put;
      break;
    case wire::Type::rename:
      loaded = load_rename(*op, body), serve = serve_rename;
      break;
    case wire::Type::del:
      loaded = load_delete(*op, body), serve = serve_delete;
      break;
    case wire::Type::list:
      loaded = load_list(*op, body), serve = serve_list;
      break;
    case wire::Type::list_values:
      loaded = load_list_values(*op, body), serve = serve_list_values;
      break;
    case wire::Type::watch:
      loaded = load_watch(*op, body), serve = serve_watch;
      break;
    case wire::Type::watch_next:
      loaded = load_watch_next(*op, body), serve = serve_watch_next;
      break;
    case wire::Type::watch_end:
      loaded = load_watch_end(*op, body), serve = serve_watch_end;
      break;
    case wire::Type::match:
      loaded = load_match(*op, body), serve = serve_match;
      break;
    case wire::Type::lease_end:
      loaded = load_lease_end(*op, body), serve = serve_lease_end;
      break;
    case wire::Type::device:
      loaded = load_device(*op, body), serve = serve_device;
      break;
    case wire::Type::device_end:
      loaded = load_device_end(*op, body), serve = serve_device_end;
      break;
    default:
      return;
  }
  if (!loaded && (op->header.flags & wire::flag_trace) != 0) [[unlikely]]
    loaded = load_traced(*op, body);
  if (!loaded) [[unlikely]]
    op->forget_target();
  if (observe::requests_are_observed()) begin_note(*op);
  if (!loaded) {
    door_->metrics.drop(wire::Drop::malformed);
    op->fail(Errc::invalid_request);
    return reply(std::move(op));
  }
  if (auth::rates_are_in_use() || buckets_have_logs()) {
    auto requests = requests_of(*op);
    return start_admitted(std::move(requests), std::move(op), [serve](OpPtr admitted) {
      if (serve == serve_get && serve_hot_get(*admitted)) return admitted->endpoint->reply(std::move(admitted));
      boost::asio::io_context& io = admitted->endpoint->core().io();
      boost::asio::co_spawn(io, serve(std::move(admitted)), boost::asio::detached);
    });
  }
  // Objects in memory are answered at once, without a coroutine.
  if (serve == serve_get && serve_hot_get(*op)) return reply(std::move(op));
  if (at_once_) {
    boost::asio::co_spawn(core_.io(), serve(std::move(op)), boost::asio::detached);
    return;
  }
  // Providers do not like operations that begin while they hand over a message.
  boost::asio::post(core_.io(), [this, self = shared_from_this(), serve, op = std::move(op)]() mutable {
    boost::asio::co_spawn(core_.io(), serve(std::move(op)), boost::asio::detached);
  });
}

// Only called if rates are limited or buckets have logs.
void Endpoint::start_admitted(Requests requests, OpPtr op, std::function<void(OpPtr)> start) {
  auto held = std::make_shared<OpPtr>(std::move(op));  // std::function and a handler of asio copy what they hold
  boost::asio::post(core_.io(), [held, requests = std::move(requests), start = std::move(start)] {
    boost::asio::co_spawn((*held)->endpoint->core().io(), admit(held, requests, start), boost::asio::detached);
  });
}

Task<void> Endpoint::admit(std::shared_ptr<OpPtr> held, Requests requests, std::function<void(OpPtr)> start) {
  OpPtr op = std::move(*held);
  const std::shared_ptr<Endpoint> endpoint = op->endpoint;
  if (endpoint->buckets_have_logs()) co_await begin_logs(*op, requests);
  s3::RateRefusal refusal;
  Result<void> admitted;
  if (auth::rates_are_in_use()) {
    admitted = co_await s3::admit_requests(endpoint->door().service, op->caller, requests, refusal);
  }
  if (admitted) {
    start(std::move(op));
    co_return;
  }
  op->bucket = refusal.bucket;  // of a batch, which has others perhaps: that a log names one
  op->fail(admitted.error().code);
  endpoint->reply(std::move(op));
}

template <class Batch>
static void take_spare(std::vector<std::unique_ptr<Batch>>& spare, std::unique_ptr<Batch>& into) {
  if (spare.empty()) {
    into = std::make_unique<Batch>();
  } else {
    into = std::move(spare.back());
    spare.pop_back();
  }
}

ReadBatch& Endpoint::take_read_batch(Op& op) {
  take_spare(spare_reads_, op.read);
  return *op.read;
}

void Endpoint::start_batch(OpPtr op, Bytes body) {
  const auto type = static_cast<wire::Type>(op->header.type);
  const bool reads = type == wire::Type::get_many || type == wire::Type::head_many;
  if (observe::requests_are_observed()) begin_note(*op);
  Result<void> begun;
  if (reads) {
    begun = take_read_batch(*op).begin(*op, body);
  } else {
    take_spare(spare_writes_, op->write);
    begun = op->write->begin(*op, body);
  }
  if (!begun) {
    if (begun.error() == Errc::invalid_request) door_->metrics.drop(wire::Drop::malformed);
    op->forget_target();
    op->fail(begun.error().code);
    return reply(std::move(op));
  }
  const auto start = reads ? &ReadBatch::start : &WriteBatch::start;
  if (auth::rates_are_in_use() || buckets_have_logs()) {
    auto requests = requests_of(*op, body);
    return start_admitted(std::move(requests), std::move(op), start);
  }
  if (reads && may_serve_at_once() && op->read->serve_at_once()) return reply(std::move(op));
  if (at_once_) return start(std::move(op));
  // Providers do not like operations that begin while they hand over a message.
  boost::asio::post(core_.io(),
                    [self = shared_from_this(), start, op = std::move(op)]() mutable { start(std::move(op)); });
}

void Endpoint::renew(call::Caller& caller, const SessionStream& stream) {
  const auth::Identity& now = stream.caller.identity;
  caller.identity.principal = now.principal;
  caller.identity.key = now.key;
  caller.identity.generation = now.generation;
}

OpPtr Endpoint::take_op(SessionStream& stream, const wire::Header& header) {
  OpPtr op;
  if (spare_ops_.empty()) {
    op.reset(new Op);
  } else {
    op.reset(spare_ops_.back().release());
    spare_ops_.pop_back();
  }
  op->endpoint = shared_from_this();
  op->stream = streams_.share(stream.session->id);
  op->header = header;
  op->outcome = Errc::ok;
  op->body_size = 0;
  op->began = received_;
  op->moved = {};
  op->partial = false;
  if (!op->object_version.empty()) op->object_version.clear();
  op->object_size.reset();
  if (op->reply.size() < stream.message_size_max) op->reply.resize(stream.message_size_max);
  static_cast<call::Caller&>(op->caller) = stream.caller;
  op->caller.trace = nullptr;
  op->caller.observed = nullptr;
  op->caller.request_id.resize(call::request_id_size);
  call::write_request_id(++request_ids_, op->caller.request_id.data());
  ++(takes_no_credit(header.type) ? stream.questions : stream.in_flight);
  stream.client->units += load_of(header.type);
  if (header.type == static_cast<uint8_t>(wire::Type::list_values)) ++stream.listings;
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // one writer
  return op;
}

void Endpoint::recycle(Op* op) {
  std::unique_ptr<Op> owned(op);
  --(takes_no_credit(owned->header.type) ? owned->stream->questions : owned->stream->in_flight);
  owned->stream->client->units -= load_of(owned->header.type);
  owned->page.release();
  if (owned->header.type == static_cast<uint8_t>(wire::Type::list_values)) --owned->stream->listings;
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  const auto keep = [](auto& batch, auto& spare) {
    if (batch == nullptr) return;
    batch->end();
    if (spare.size() < spare_batches_max) spare.push_back(std::move(batch));
    batch.reset();
  };
  keep(owned->read, spare_reads_);
  keep(owned->write, spare_writes_);
  owned->stream.reset();
  owned->opened.reset();
  owned->sink.reset();
  owned->caller.records.clear();
  if (spare_ops_.size() < spare_ops_max) spare_ops_.push_back(std::move(owned));
}

void Endpoint::answer(SessionStream& stream, const wire::Header& header, Errc code) {
  if (code != Errc::ok && observe::requests_are_observed()) note_refusal(stream, header, code);
  std::array<std::byte, wire::frame_size + 2> message;
  wire::Writer body(MutableBytes(message).subspan(wire::header_size, 2));
  wire::encode_error(body, code);
  const wire::Header out{.type = static_cast<uint8_t>(header.type | wire::reply_bit),
                         .session = stream.session->id,
                         .sequence = ++stream.last_sequence,
                         .request = header.request,
                         .body_length = 2};
  wire::seal(stream.keys.to_client, out, message);
  // A peer whose queue is full gets no more refusals.
  if (!port_.send(stream.peer, message)) door_->metrics.drop(wire::Drop::undeliverable);
}

void Endpoint::reply(OpPtr op) {
  SessionStream& stream = *op->stream;
  if (op->outcome != Errc::ok) door_->metrics.failed[op->header.type]->add();
  if (stream.closed) {
    if (op->is_told()) account(*op);
    return;
  }
  const wire::Header header{.type = static_cast<uint8_t>(op->header.type | wire::reply_bit),
                            .session = stream.session->id,
                            .sequence = ++stream.last_sequence,
                            .request = op->header.request,
                            .body_length = static_cast<uint32_t>(op->body_size)};
  wire::seal(stream.keys.to_client, header, op->reply);
  if (op->is_told()) account(*op);
  auto sent = send(*op);
  if (sent) return;
  if (sent.error() != Errc::would_block) {
    door_->metrics.drop(wire::Drop::undeliverable);
    return close(stream);
  }
  op->reply_by = deadline_in(door_->options.reply_deadline);
  waiting_.push_back(std::move(op));
  want_polls();
}

void Endpoint::want_polls() {
  if (!polled_) core_.add(this);
  polled_ = true;
}

void Endpoint::took_turn(size_t items, uint64_t bytes) {
  turn_cost_ += items + bytes / KiB;
  want_polls();
}

Task<void> Endpoint::turn() {
  auto initiate = [this](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));  // std::function copies what it holds
    turns_.push_back([shared] { (*shared)(); });
    want_polls();
  };
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(std::move(initiate),
                                                                                      boost::asio::use_awaitable);
}

Result<void> Endpoint::send(Op& op) {
  auto sent = port_.send(op.stream->peer, Bytes(op.reply).first(op.body_size + wire::frame_size));
  if (sent) measure(op);
  return sent;
}

size_t Endpoint::poll() {
  auto self = shared_from_this();  // the last op may hold the last reference
  size_t progress = 0;
  turn_cost_ = 0;
  ++polls_;
  for (size_t left = waiting_.size(); left > 0; --left) {
    OpPtr op = std::move(waiting_.front());
    waiting_.pop_front();
    SessionStream& stream = *op->stream;
    if (stream.closed) continue;
    // Of a peer whose queue is full only the first reply is tried: a client may have hundreds.
    const Result<void> sent = stream.full_at == polls_ ? fail(Errc::would_block) : send(*op);
    if (sent) {
      ++progress;
    } else if (sent.error() == Errc::would_block && SteadyClock::now() < op->reply_by) {
      stream.full_at = polls_;
      waiting_.push_back(std::move(op));
    } else {
      door_->metrics.drop(wire::Drop::undeliverable);
      close(*op->stream);
    }
  }
  if (!turns_.empty()) {
    auto next = std::move(turns_.front());
    turns_.pop_front();
    next();
    ++progress;
  }
  if (watches_->busy()) {
    watches_->pump();
    ++progress;
  }
  if (!busy() && polled_) {
    core_.remove(this);
    polled_ = false;
  }
  return progress;
}

}  // namespace verbena::native
