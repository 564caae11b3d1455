// Begin and end of streams.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/client_counts.h"
#include "base/log_limit.h"
#include "native/endpoint.h"

namespace verbena::native {

// The first message of a session on this endpoint. Nothing is allocated before its MAC was checked.
void Endpoint::hello(fabric::PeerId from, const wire::Header& header, Bytes message) {
  Metrics& metrics = door_->metrics;
  auto session = door_->sessions.find(header.session);
  if (session == nullptr) return metrics.drop(wire::Drop::unknown_session);
  const Protection protection = protection_of(info(), *session);
  const bool sealed = protection == Protection::sealed;
  // An envelope belongs to one session: what it holds is of that one, and a session that is not sealed comes without.
  if (port_.sealed_session() != (sealed ? header.session : 0)) return metrics.drop(wire::Drop::wrong_peer);
  if (protection == Protection::refused) return metrics.drop(wire::Drop::wrong_peer);
  const wire::StreamKeys keys = wire::derive_stream(session->master, index_, sealed);
  if (!wire::mac_matches(keys.to_server, message)) return metrics.drop(wire::Drop::bad_mac);
  const auto hello = wire::decode_hello(wire::body_of(message));
  if (!hello || hello->message_size_max < wire::message_size_min) return metrics.drop(wire::Drop::malformed);

  auto stream = std::make_shared<SessionStream>();
  if (!stream->seen.accept(header.sequence)) return metrics.drop(wire::Drop::replayed);
  // A connection belongs to the session whose key opened it: it is encrypted under that key, and counted and closed
  // with that session. An admitted peer has a stream, with which its place ends.
  if (from != 0 && !port_.admit(from, header.session)) return metrics.drop(wire::Drop::wrong_peer);
  stream->peer = from;
  if (from == 0) {
    auto peer = dial(*session, hello->address);
    if (!peer) {
      static log::Limit limit;
      limit.warn("native: cannot answer a session's address provider={} peer={} reason=\"{}\"", info().provider,
                 session->peer_address, describe(peer.error()));
      return metrics.drop(wire::Drop::wrong_peer);
    }
    stream->peer = *peer;
  }
  stream->session = session;
  stream->client = load_of_client(session->peer_address);
  stream->keys = keys;
  stream->sealed = sealed;
  stream->touched = true;
  stream->message_size_max =
      std::min({size_t{info().message_size_max}, size_t{hello->message_size_max}, wire::reply_size_max});
  stream->caller.identity = session->identity;
  stream->caller.door = call::Door::native;
  stream->caller.secure = port_.encrypted() || sealed;  // RDMA is outside TLS
  stream->caller.peer_address = session->peer_address;
  if (!session->user_agent.empty()) stream->caller.user_agent = &session->user_agent;  // the stream holds the session
  session->claimed = true;
  session->told.endpoints.fetch_or(uint64_t{1} << std::min<unsigned>(index_, 63));
  session->streams_open.fetch_add(1);
  streams_.add(stream);
  ++streams_of_peer_[stream->peer];
  metrics.requests[header.type]->add();
  // Through an op, because a connection that is still being made may not accept a message at once.
  OpPtr op = take_op(*stream, header);
  op->forget_target();
  op->fail(Errc::ok);
  reply(std::move(op));
}

std::shared_ptr<ClientLoad> Endpoint::load_of_client(std::string_view address) {
  std::erase_if(loads_, [](const auto& load) { return load.second.expired(); });
  auto& known = loads_[client_of(address)];
  auto load = known.lock();
  if (load == nullptr) known = load = std::make_shared<ClientLoad>();
  return load;
}

Result<fabric::PeerId> Endpoint::dial(const Session& session, std::string_view address) {
  const auto& may_dial = door_->options.may_dial;
  const bool allowed = may_dial ? may_dial(info().provider, address, session.peer_address)
                                : may_dial_peer(info().provider, address, session.peer_address);
  if (names_own_port(address, door_->own_ports)) {
    return fail(Errc::access_denied, "native: the address is the server's own");
  }
  if (!allowed) return fail(Errc::access_denied, "native: the address is not the session's own");
  return port_.add_peer(address);
}

void Endpoint::gone(fabric::PeerId peer) {
  streams_.each([&](const std::shared_ptr<SessionStream>& stream) {
    if (stream->peer == peer && !stream->closed) close(*stream);
  });
}

// Requests of the stream that are being served end by themselves, and their replies are not sent: changes that are not
// made yet are not made any more (store::Wanted), their windows fail once the peer is gone (over tcp when what was
// accepted for sending is out), unless another stream has the same peer.
void Endpoint::close(SessionStream& stream) {
  if (stream.closed) return;
  stream.closed = true;
  stream.withdrawn->store(true, std::memory_order_release);
  watches_->forget(stream);
  stream.leases.reset();
  if (const auto count = streams_of_peer_.find(stream.peer); --count->second == 0) {
    streams_of_peer_.erase(count);
    port_.remove_peer(stream.peer);
  }
  if (stream.session->streams_open.fetch_sub(1) == 1) {
    door_->sessions.end(stream.session->id);
    door_->metrics.sessions.set(static_cast<int64_t>(door_->sessions.size()));
  }
}

// Streams count without atomics; their counts are added to the session once a second.
void Endpoint::tell_moved(SessionStream& stream) {
  stream.moved.requests = stream.last_sequence;  // of the server's answers
  stream.moved.in_flight = stream.in_flight;
  const SessionStream::Moved &now = stream.moved, &before = stream.told;
  const uint64_t requests = now.requests - before.requests;
  const uint64_t in = now.bytes_in - before.bytes_in, out = now.bytes_out - before.bytes_out;
  const auto add = [](std::atomic<uint64_t>& to, uint64_t n) { to.fetch_add(n, std::memory_order_relaxed); };
  add(stream.session->told.requests, requests);
  add(stream.session->told.bytes_in, in);
  add(stream.session->told.bytes_out, out);
  add(stream.session->told.windows, now.windows - before.windows);
  stream.session->told.in_flight.fetch_add(int64_t{now.in_flight} - int64_t{before.in_flight},
                                           std::memory_order_relaxed);
  add(moved_requests_, requests);
  add(moved_in_, in);
  add(moved_out_, out);
  stream.told = stream.moved;
}

void Endpoint::sweep() {
  const auto now = SteadyClock::now();
  bool dead = false;
  streams_.each([&](const std::shared_ptr<SessionStream>& stream) {
    if (stream->touched || stream->in_flight > 0) stream->session->used(now);
    stream->touched = false;
    tell_moved(*stream);
    // Ends sessions whose key is gone: otherwise a client that only sends PINGs would keep its place for ever.
    if (!stream->closed && !stream->session->ended) (void)still_known(*stream);
    if (!stream->session->ended) return;
    if (!stream->closed) {
      answer(*stream, {.type = static_cast<uint8_t>(wire::Type::bye)}, Errc::closed);
      close(*stream);
    }
    dead = true;
  });
  // An ended session's id is not in the table any more, so no recorded message of it can be replayed.
  if (dead) streams_.keep_if([](const SessionStream& stream) { return !stream.session->ended; });
  release_leases();
  watches_->sweep();
  if (index_ == 0) {
    door_->sessions.sweep(now);
    door_->metrics.sessions.set(static_cast<int64_t>(door_->sessions.size()));
  }
}

void Endpoint::release_leases() {
  if (releasing_ || !leases_->work(SteadyClock::now())) return;
  releasing_ = true;
  boost::asio::co_spawn(core_.io(), release_leases_by_turns(shared_from_this()), boost::asio::detached);
}

Task<void> Endpoint::release_leases_by_turns(std::shared_ptr<Endpoint> self) {
  do {
    co_await self->turn();
  } while (self->leases_->work(SteadyClock::now()));
  self->releasing_ = false;
}

Task<void> Endpoint::sweep_forever(std::weak_ptr<Endpoint> endpoint) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (;;) {
    if (auto self = endpoint.lock()) {
      self->sweep();
    } else {
      co_return;
    }
    timer.expires_after(std::chrono::seconds(1));
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

}  // namespace verbena::native
