// Who holds the send slots of an endpoint. Peers that do not read hold theirs until they are cut off: they leave slots
// to others, however many they are. Not thread-safe.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

namespace verbena::fabric::ofi {

class SendShares {
 public:
  struct Client {
    size_t under_way = 0;  // messages to all of its peers
  };
  struct Peer {
    std::shared_ptr<Client> client;
    size_t under_way = 0;
  };
  // A slot's holder, as long as the message is under way: also of a peer that was removed.
  using Holder = std::shared_ptr<Peer>;

  // `client_max`: slots of one client's peers together. At least `slots`: no limits, for an endpoint with one peer.
  SendShares(size_t slots, size_t client_max) : slots_(slots), client_max_(client_max), free_(slots) {}

  // An address that was added several times has as many removals.
  void add(fi_addr_t address, const std::string& client);
  void remove(fi_addr_t address);

  // Null: no slot for this peer now, or no such peer.
  Holder find(fi_addr_t address) const;
  bool may_take(const Peer& peer) const;
  void take(Peer& peer);
  void give(Peer& peer);

 private:
  struct Known {
    Holder peer;
    size_t adds = 0;
  };
  const size_t slots_, client_max_;
  size_t free_;
  std::unordered_map<fi_addr_t, Known> known_;
  std::unordered_map<std::string, std::weak_ptr<Client>> clients_;
};

}  // namespace verbena::fabric::ofi
