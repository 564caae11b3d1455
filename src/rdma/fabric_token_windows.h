// The dialects ofi1 and ofi1s, over the fabrics that the server opened.
#pragma once

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core.h"
#include "fabric/ofi/ofi.h"
#include "rdma/dialect.h"

namespace verbena::rdma {

// An address range in CIDR form: "10.0.0.0/8", "fd00::/8"; an address alone is a range of one.
class Network {
 public:
  static Result<Network> parse(std::string_view text);  // bad_config
  bool contains(const boost::asio::ip::address& address) const;

 private:
  boost::asio::ip::address base_;
  unsigned bits_ = 0;
};

class FabricTokenWindows final : public Dialect {
 public:
  // A quarter of the data endpoints that tokens have: each of a client's endpoints may take one of the server's.
  static size_t client_part(size_t data_endpoints_max) {
    return std::max<size_t>((data_endpoints_max - data_endpoints_max / 4) / 4, 1);
  }
  struct Options {
    // Networks in which a token may name an endpoint although the HTTP peer has another address (clients behind a
    // proxy, hosts with a network for storage). An address of this host itself is allowed only if it is in one.
    std::vector<std::string> networks = {};
    // Ports that a token may make the server connect to.
    uint16_t port_first = 32768, port_last = 65535;
    // Ports that this server listens on (HTTP, ...): not allowed on this host's own addresses.
    std::vector<uint16_t> own_ports = {};
    // Endpoints at which one account may have windows open from one client's address, per core and provider, if no
    // other account has any from there. All accounts of an address have twice as many, which they share fairly
    // (base/fair_share.h); requests that are not signed count as one account.
    size_t client_endpoints_max = client_part(fabric::ofi::Options().data_endpoints_max);
  };
  static Result<std::unique_ptr<FabricTokenWindows>> create(const Options& options);

  // Before the core runs, or on its thread. A core may have several fabrics (providers). `fabric` outlives this.
  void add(Core& core, fabric::ofi::CoreFabric& fabric);

  // Adds an own port that is known only after listening on port 0. Before the cores run.
  void add_own_port(uint16_t port) { own_ports_.push_back(port); }

  // Called on a core's thread; a core without fabrics returns rdma_not_supported.
  bool serves(TokenForm form) const override { return form == TokenForm::ofi1 || form == TokenForm::ofi1_sealed; }
  Task<Result<std::unique_ptr<fabric::Window>>> open(const Token& token, TokenClient client,
                                                     fabric::Access access) override {
    co_return open_now(token, client, access);
  }
  Result<std::unique_ptr<fabric::Window>> open_now(const Token& token, const TokenClient& client,
                                                   fabric::Access access);

 private:
  struct Entry;
  class Place;
  class PlacedWindow;
  Result<void> check_address(const Token& token, std::string_view peer_address) const;

  std::vector<Network> networks_;
  uint16_t port_first_ = 0, port_last_ = 0;
  size_t address_endpoints_max_ = 0;  // of all accounts
  std::vector<uint16_t> own_ports_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

}  // namespace verbena::rdma
