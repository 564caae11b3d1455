#include "fabric/ofi/send_shares.h"

#include <algorithm>

namespace verbena::fabric::ofi {

void SendShares::add(fi_addr_t address, const std::string& client) {
  Known& known = known_[address];
  if (++known.adds > 1) return;
  std::erase_if(clients_, [](const auto& one) { return one.second.expired(); });
  auto& there = clients_[client];
  auto of_client = there.lock();
  if (of_client == nullptr) there = of_client = std::make_shared<Client>();
  known.peer = std::make_shared<Peer>(Peer{.client = std::move(of_client)});
}

void SendShares::remove(fi_addr_t address) {
  const auto it = known_.find(address);
  if (it != known_.end() && --it->second.adds == 0) known_.erase(it);
}

SendShares::Holder SendShares::find(fi_addr_t address) const {
  const auto it = known_.find(address);
  return it == known_.end() ? nullptr : it->second.peer;
}

// The last eighth of the slots is for clients that hold none, the last quarter of a client's for its peers that hold
// none. A client also has to leave as many slots free as it holds, twice over.
bool SendShares::may_take(const Peer& peer) const {
  if (free_ == 0) return false;
  if (client_max_ >= slots_) return true;
  const size_t of_client = peer.client->under_way;
  if (of_client == 0) return true;
  if (of_client >= client_max_ || free_ <= slots_ / 8 || of_client > free_ / 2) return false;
  return peer.under_way == 0 || of_client < client_max_ - client_max_ / 4;
}

void SendShares::take(Peer& peer) {
  --free_;
  ++peer.under_way;
  ++peer.client->under_way;
}

void SendShares::give(Peer& peer) {
  ++free_;
  --peer.under_way;
  --peer.client->under_way;
}

}  // namespace verbena::fabric::ofi
