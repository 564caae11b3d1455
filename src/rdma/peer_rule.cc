#include "rdma/peer_rule.h"

#include <algorithm>

#include "base/metrics.h"
#include "fabric/ofi/address.h"

namespace verbena::rdma {

Result<PeerRule> PeerRule::parse(const std::vector<std::string>& networks) {
  PeerRule rule;
  for (const std::string& text : networks) {
    VB_ASSIGN(Network network, Network::parse(text));
    rule.networks_.push_back(std::move(network));
  }
  return rule;
}

std::unexpected<Error> PeerRule::refuse(const char* reason, const char* why) {
  metrics::counter("verbena_rdma_tokens_refused_total", "Tokens that opened no window", {{"reason", reason}}).add();
  return fail(Errc::rdma_not_supported, why);
}

bool PeerRule::names(const boost::asio::ip::address& address) const {
  return std::ranges::any_of(networks_, [&](const Network& one) { return one.contains(address); });
}

Result<void> PeerRule::check(const boost::asio::ip::address& address, std::string_view http_peer) const {
  if (address.is_multicast() || address.is_unspecified()) return refuse("malformed_name", "peer: its GID");
  const bool in_network = names(address);
  if (!in_network && !fabric::ofi::same_address(address, http_peer)) {
    return refuse("third_party", "peer: neither the HTTP peer's address nor in rdma.token_networks");
  }
  if (!in_network && fabric::ofi::is_host_address(address)) {
    return refuse("own_host", "peer: an address of the server's host that rdma.token_networks does not name");
  }
  return {};
}

}  // namespace verbena::rdma
