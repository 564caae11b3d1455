// Which hosts a request may make an RDMA device of the server reach.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "rdma/fabric_token_windows.h"

namespace verbena::rdma {

class PeerRule {
 public:
  // `networks`: as FabricTokenWindows::Options. bad_config: one of them is no network.
  static Result<PeerRule> parse(const std::vector<std::string>& networks);

  // As for the address that a token of ofi1 names: a queue pair must not reach a third party, and a proxy on this host
  // sends from its address for all clients. A link-local address says nothing about the peer: a network must name it.
  // rdma_not_supported, and counted: neither the HTTP peer's address nor in a network, or of this host.
  Result<void> check(const boost::asio::ip::address& address, std::string_view http_peer) const;
  bool names(const boost::asio::ip::address& address) const;

  // The error, counted: verbena_rdma_tokens_refused_total.
  static std::unexpected<Error> refuse(const char* reason, const char* why);

 private:
  std::vector<Network> networks_;
};

}  // namespace verbena::rdma
