#include "rdma/rc/connections.h"

#include <vector>

#include "rdma/rc/sessions.h"

namespace verbena::rdma::rc {
namespace {

metrics::Gauge& connection_gauge() {
  return metrics::gauge("verbena_rdma_rc_connections", "Reliable connections of cuObject's protocol");
}

struct Connected {
  std::unique_ptr<QueuePair> pair;
  Gid own_gid{};
};

}  // namespace

constexpr std::string_view address_prefix = "address:";

std::string address_owner(std::string_view address) { return std::string(address_prefix) + std::string(address); }

Connections::Connections(Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options), places_(options.places, connection_gauge()) {}

Task<Result<Connections::Made>> Connections::connect(PeerToken peer, uint32_t peer_sequence, std::string owner,
                                                     Payer payer) {
  VB_CO_ASSIGN(auto place, places_.take(payer));
  VB_CO_TRY(co_await endpoint_.open());
  VB_CO_ASSIGN(const Gid gid, endpoint_.check_peer(peer, payer.address));
  Made made{.id = random_session_id(), .own = {}, .own_sequence = random_sequence()};
  const Peer to{peer.queue_pair, peer_sequence, gid};
  const uint32_t own_sequence = made.own_sequence;
  const auto connected = std::make_shared<Connected>();
  const auto work = [this, to, own_sequence, connected]() -> Result<void> {
    VB_TRY(endpoint_.refresh_port());
    VB_ASSIGN(connected->pair, endpoint_.domain().add_queue_pair(false));
    VB_ASSIGN(connected->own_gid, endpoint_.connect(*connected->pair, to, own_sequence));
    return {};
  };
  VB_CO_TRY(co_await endpoint_.run_in_turn("rdma_connect", std::move(payer), work));
  made.own.queue_pair = connected->pair->number();
  made.own.gid = connected->own_gid;
  Entry entry;
  entry.owner = std::move(owner);
  entry.place = std::move(place);
  entry.pair = std::move(connected->pair);
  entry.idle_since = SteadyClock::now();
  const std::lock_guard lock(state_->mutex);
  state_->all.emplace(made.id, std::move(entry));
  co_return made;
}

void Connections::disconnect(std::string_view id, std::string_view owner) {
  std::shared_ptr<Entry> ended;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->all.find(std::string(id));
    if (found == state_->all.end() || found->second.owner != owner) return;
    found->second.ending = true;
    if (found->second.pair == nullptr) return;
    ended = std::make_shared<Entry>(std::move(found->second));
    state_->all.erase(found);
  }
  endpoint_.discard(std::move(ended));
}

void Connections::reap(Deadline now) {
  std::vector<std::shared_ptr<Entry>> idle;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto one = state_->all.begin(); one != state_->all.end();) {
      const auto kept_for = one->second.used ? options_.idle_for : options_.unused_for;
      if (one->second.pair == nullptr || now - one->second.idle_since < kept_for) {
        ++one;
        continue;
      }
      idle.push_back(std::make_shared<Entry>(std::move(one->second)));
      one = state_->all.erase(one);
    }
  }
  for (auto& one : idle) endpoint_.discard(std::move(one));
}

size_t Connections::count() {
  const std::lock_guard lock(state_->mutex);
  return state_->all.size();
}

Result<std::unique_ptr<fabric::Window>> Connections::open_now(const Token& token, const TokenClient& client) {
  if (client.owner.empty()) return fail(Errc::rdma_not_supported, "token: anonymous callers have no connection");
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->all.find(token.endpoint_name);
  const auto owns = [&](const std::string& owner) {
    return owner == client.owner || owner == address_owner(client.address);
  };
  if (found == state_->all.end() || !owns(found->second.owner)) {
    return fail(Errc::rdma_not_supported, "token: no such connection");
  }
  if (found->second.pair == nullptr) {
    return fail(Errc::rdma_not_supported, "token: its connection serves another request");
  }
  auto give_back = [state = state_, id = token.endpoint_name](std::unique_ptr<QueuePair> pair) {
    Entry ended;  // destroyed after the lock is released
    const std::lock_guard locked(state->mutex);
    const auto place = state->all.find(id);
    if (pair != nullptr && !place->second.ending) {
      place->second.pair = std::move(pair);
      place->second.idle_since = SteadyClock::now();
      return;
    }
    ended = std::move(place->second);
    state->all.erase(place);
  };
  found->second.used = true;
  auto channel = endpoint_.channel(std::move(found->second.pair), std::move(give_back));
  const RcWindow::Place lent{token.base, token.size, static_cast<uint32_t>(token.key)};
  return std::make_unique<RcWindow>(std::move(channel), endpoint_.own_memory(), lent);
}

}  // namespace verbena::rdma::rc
