#include "fabric/sealed/port_state.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace verbena::fabric::sealed {
namespace {

constexpr std::chrono::microseconds retry_after{200};

Channel::Transmit below_of(PortState& state, Peer& peer) {
  return [&state, &peer](Bytes envelope) -> Result<void> {
    if (state.below == nullptr || peer.gone || peer.id == 0) return fail(Errc::closed, "sealed: the peer is gone");
    return state.below->send(peer.id, envelope);
  };
}

void flush_all(const PortStatePtr& state) {
  state->flush_posted = false;
  if (state->below == nullptr) return;
  std::vector<std::shared_ptr<Peer>> blocked;
  for (auto& peer : std::exchange(state->to_flush, {})) {
    if (peer->gone) continue;
    const auto flushed = flush(*state, *peer);
    if (flushed) continue;
    if (flushed.error() == Errc::would_block) {
      blocked.push_back(peer);
    } else {
      state->leave(*peer);
    }
  }
  state->line.wake_all();  // there is room in a queue, perhaps
  for (auto& peer : blocked) state->to_flush.push_back(std::move(peer));
  if (state->to_flush.empty() || state->retrying) return;
  state->retrying = true;
  state->retry.expires_after(retry_after);
  state->retry.async_wait([state](const boost::system::error_code&) {
    state->retrying = false;
    flush_all(state);
  });
}

}  // namespace

Task<bool> WaitingLine::wait(Core& core, Deadline deadline) {
  boost::asio::steady_timer timer(core.io(), deadline);
  const Place place(*this, timer);
  const auto [error] = co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return error == boost::asio::error::operation_aborted;
}

void WaitingLine::wake_all() {
  for (auto* timer : std::exchange(waiting_, {})) timer->cancel();
}

void PortState::leave(Peer& peer) {
  if (std::exchange(peer.gone, true)) return;
  peer.records = {};
  peer.channel.close();
  for (auto& [id, wanted] : std::exchange(peer.wanted, {})) wanted->line.wake_all();
  line.wake_all();
}

Result<void> flush(PortState& state, Peer& peer) {
  if (!peer.records.empty()) peer.channel.queue(Kind::records, std::exchange(peer.records, {}));
  return peer.channel.flush(below_of(state, peer));
}

void flush_soon(const PortStatePtr& state, const std::shared_ptr<Peer>& peer) {
  if (std::ranges::find(state->to_flush, peer) == state->to_flush.end()) state->to_flush.push_back(peer);
  if (std::exchange(state->flush_posted, true)) return;
  boost::asio::post(state->core.io(), [state] { flush_all(state); });
}

void give_back_segment(const PortStatePtr& state, const std::shared_ptr<Peer>& peer, const Ready& ready) {
  if (ready.refused || ready.inside) return;
  std::vector<std::byte> body;
  encode_segment(ready.segment, body);
  peer->channel.queue(Kind::taken, std::move(body));
  flush_soon(state, peer);
}

}  // namespace verbena::fabric::sealed
