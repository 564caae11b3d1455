// Begin and end of lanes.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/client_counts.h"
#include "base/log.h"
#include "native/endpoint.h"

namespace verbena::native {

// The first message of a session on this endpoint. Nothing is allocated before its MAC was checked.
void Endpoint::hello(fabric::PeerId from, const wire::Header& header, Bytes message) {
  Metrics& metrics = door_->metrics;
  auto session = door_->sessions.find(header.session);
  if (session == nullptr) return metrics.drop(wire::Drop::unknown_session);
  const wire::LaneKeys keys = wire::derive_lane(session->master, index_);
  if (!wire::mac_matches(keys.to_server, message)) return metrics.drop(wire::Drop::bad_mac);
  const auto hello = wire::decode_hello(wire::body_of(message));
  if (!hello || hello->message_size_max < wire::message_size_min) return metrics.drop(wire::Drop::malformed);

  // A connection belongs to the session whose key opened it: it is encrypted under that key, and counted and closed
  // with that session.
  if (from != 0 && !port_.admit(from, header.session)) return metrics.drop(wire::Drop::wrong_peer);
  auto lane = std::make_shared<Lane>();
  if (!lane->seen.accept(header.sequence)) return metrics.drop(wire::Drop::replayed);
  lane->peer = from;
  if (from == 0) {
    auto peer = dial(*session, hello->address);
    if (!peer) {
      log::warn("native: cannot answer a session's address provider={} peer={} reason=\"{}\"", info().provider,
                session->peer_address, describe(peer.error()));
      return metrics.drop(wire::Drop::wrong_peer);
    }
    lane->peer = *peer;
    lane->dialled = true;
  }
  lane->session = session;
  lane->client = load_of_client(session->peer_address);
  lane->keys = keys;
  lane->touched = true;
  lane->message_size_max =
      std::min({size_t{info().message_size_max}, size_t{hello->message_size_max}, wire::reply_size_max});
  lane->caller.identity = session->identity;
  lane->caller.door = call::Door::native;
  lane->caller.secure = port_.encrypted();  // RDMA is outside TLS
  lane->caller.peer_address = session->peer_address;
  if (!session->user_agent.empty()) lane->caller.user_agent = &session->user_agent;  // the lane holds the session
  session->claimed = true;
  session->told.endpoints.fetch_or(uint64_t{1} << std::min<unsigned>(index_, 63));
  session->lanes_open.fetch_add(1);
  lanes_.add(lane);
  metrics.requests[header.type]->add();
  // Through an op, because a connection that is still being made may not accept a message at once.
  OpPtr op = take_op(*lane, header);
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
  lanes_.each([&](const std::shared_ptr<Lane>& lane) {
    if (lane->peer == peer && !lane->closed) close(*lane);
  });
}

// Requests of the lane that are being served end by themselves: their windows fail now, and their replies are not sent.
void Endpoint::close(Lane& lane) {
  if (lane.closed) return;
  lane.closed = true;
  watches_->forget(lane);
  if (lane.dialled) port_.remove_peer(lane.peer);
  if (lane.session->lanes_open.fetch_sub(1) == 1) {
    door_->sessions.end(lane.session->id);
    door_->metrics.sessions.set(static_cast<int64_t>(door_->sessions.size()));
  }
}

// Lanes count without atomics; their counts are added to the session once a second.
void Endpoint::tell_moved(Lane& lane) {
  lane.moved.requests = lane.last_sequence;  // of the server's answers
  lane.moved.in_flight = lane.in_flight;
  const Lane::Moved &now = lane.moved, &before = lane.told;
  const uint64_t requests = now.requests - before.requests;
  const uint64_t in = now.bytes_in - before.bytes_in, out = now.bytes_out - before.bytes_out;
  const auto add = [](std::atomic<uint64_t>& to, uint64_t n) { to.fetch_add(n, std::memory_order_relaxed); };
  add(lane.session->told.requests, requests);
  add(lane.session->told.bytes_in, in);
  add(lane.session->told.bytes_out, out);
  add(lane.session->told.windows, now.windows - before.windows);
  lane.session->told.in_flight.fetch_add(int64_t{now.in_flight} - int64_t{before.in_flight}, std::memory_order_relaxed);
  add(moved_requests_, requests);
  add(moved_in_, in);
  add(moved_out_, out);
  lane.told = lane.moved;
}

void Endpoint::sweep() {
  const auto now = SteadyClock::now();
  bool dead = false;
  lanes_.each([&](const std::shared_ptr<Lane>& lane) {
    if (lane->touched || lane->in_flight > 0) lane->session->used(now);
    lane->touched = false;
    tell_moved(*lane);
    // Ends sessions whose key is gone: otherwise a client that only sends PINGs would keep its place for ever.
    if (!lane->closed && !lane->session->ended) (void)still_known(*lane);
    if (!lane->session->ended) return;
    if (!lane->closed) {
      answer(*lane, {.type = static_cast<uint8_t>(wire::Type::bye)}, Errc::closed);
      close(*lane);
    }
    dead = true;
  });
  // An ended session's id is not in the table any more, so no recorded message of it can be replayed.
  if (dead) lanes_.keep_if([](const Lane& lane) { return !lane.session->ended; });
  watches_->sweep();
  if (index_ == 0) {
    door_->sessions.sweep(now);
    door_->metrics.sessions.set(static_cast<int64_t>(door_->sessions.size()));
  }
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
