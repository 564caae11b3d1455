#include "fabric/sealed/port_state.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace verbena::fabric::sealed {
namespace {

constexpr std::chrono::seconds spare_kept{1};

Channel::Transmit below_of(PortState& state, Peer& peer) {
  return [&state, &peer](Bytes envelope) -> Result<void> {
    if (state.below == nullptr || peer.gone || peer.id == 0) return fail(Errc::closed, "sealed: the peer is gone");
    return state.below->send(peer.id, envelope);
  };
}

void return_unused(const PortStatePtr& state) {
  state->spare_timer_runs = true;
  state->spare_unused = state->spare.size();
  state->spare_timer.expires_after(spare_kept);
  state->spare_timer.async_wait([state](const boost::system::error_code& cancelled) {
    state->spare_timer_runs = false;
    if (cancelled || state->below == nullptr) return;
    state->buffers -= state->spare_unused;
    state->spare.erase(state->spare.end() - static_cast<ptrdiff_t>(state->spare_unused), state->spare.end());
    if (!state->spare.empty()) return_unused(state);
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

void keep_spare(const PortStatePtr& state, memory::Lease lease) {
  if (state->below == nullptr) {
    --state->buffers;
    return;
  }
  state->spare.push_back(std::move(lease));
  if (!state->spare_timer_runs) return_unused(state);
}

void PortState::flush_all() {
  std::vector<std::shared_ptr<Peer>> still;
  auto peers = std::exchange(to_flush, {});
  for (auto& peer : peers) {
    if (peer->gone) continue;
    const auto flushed = flush(*this, *peer);
    if (flushed) continue;
    if (flushed.error() == Errc::would_block) {
      still.push_back(peer);
    } else {
      leave(*peer);
    }
  }
  if (still.size() != peers.size()) line.wake_all();  // there is room in a queue
  for (auto& peer : still) to_flush.push_back(std::move(peer));
  if (to_flush.empty()) {
    blocked.end();
  } else {
    blocked.begin();
  }
}

size_t PortState::Blocked::poll() {
  const size_t before = state_.to_flush.size();
  state_.flush_all();
  return before - state_.to_flush.size();
}

void PortState::Blocked::begin() {
  if (!std::exchange(added_, true)) state_.core.add(this);
}

void PortState::Blocked::end() {
  if (std::exchange(added_, false)) state_.core.remove(this);
}

void PortState::close() {
  below = nullptr;
  blocked.end();
  spare_timer.cancel();
  for (const auto& [session, peer] : std::exchange(by_session, {})) leave(*peer);
  buffers -= spare.size();
  spare.clear();
}

void PortState::leave(Peer& peer) {
  if (std::exchange(peer.gone, true)) return;
  peer.records = {};
  peer.channel.close();
  for (auto& [id, wanted] : std::exchange(peer.wanted, {})) wanted->line.wake_all();
  line.wake_all();
}

bool may_send(const PortState& state, const Peer& peer) {
  return state.below == nullptr || peer.id == 0 || state.below->may_send(peer.id);
}

Result<void> flush(PortState& state, Peer& peer) {
  if (!peer.records.empty()) peer.channel.queue(Kind::records, std::exchange(peer.records, {}));
  if (peer.channel.has_waiting() && !may_send(state, peer)) return fail(Errc::would_block, "sealed: the peer's queue");
  return peer.channel.flush(below_of(state, peer));
}

void flush_soon(const PortStatePtr& state, const std::shared_ptr<Peer>& peer) {
  if (std::ranges::find(state->to_flush, peer) == state->to_flush.end()) state->to_flush.push_back(peer);
  if (std::exchange(state->flush_posted, true)) return;
  boost::asio::post(state->core.io(), [state] {
    state->flush_posted = false;
    if (state->below != nullptr) state->flush_all();
  });
}

void give_back_segment(const PortStatePtr& state, const std::shared_ptr<Peer>& peer, const Ready& ready) {
  if (ready.refused || ready.inside) return;
  std::vector<std::byte> body;
  encode_segment(ready.segment, body);
  peer->channel.queue(Kind::taken, std::move(body));
  flush_soon(state, peer);
}

}  // namespace verbena::fabric::sealed
