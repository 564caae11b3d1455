#include "rdma/fabric_token_windows.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/client_counts.h"
#include "base/fair_share.h"
#include "base/metrics.h"
#include "fabric/ofi/address.h"

namespace verbena::rdma {
namespace {

namespace ip = boost::asio::ip;
namespace ofi = fabric::ofi;

metrics::Counter& refused(const char* reason) {
  return metrics::counter("verbena_rdma_tokens_refused_total", "Tokens that opened no window", {{"reason", reason}});
}

// Whether the first `bits` bits of two addresses are equal.
template <class Bytes>
bool same_prefix(const Bytes& a, const Bytes& b, unsigned bits) {
  for (size_t i = 0; i < a.size() && bits > 0; ++i) {
    const unsigned n = std::min(bits, 8u);
    const auto mask = static_cast<uint8_t>(0xff << (8 - n));
    if ((a[i] & mask) != (b[i] & mask)) return false;
    bits -= n;
  }
  return true;
}

}  // namespace

// Used on its core's thread.
struct FabricTokenWindows::Entry {
  using Endpoints = std::map<std::string, size_t, std::less<>>;  // an account's windows there, by endpoint
  using Accounts = std::map<std::string, Endpoints, std::less<>>;
  struct OfClient {
    Accounts accounts{};   // that have windows
    size_t endpoints = 0;  // of them together
  };
  using Clients = std::map<std::string, OfClient, std::less<>>;
  explicit Entry(ofi::CoreFabric& of) : fabric(&of) {}
  ofi::CoreFabric* fabric;
  std::atomic<std::thread::id> thread;  // of its core, once that runs
  Clients clients;                      // that have windows
};

// Of a window at one of its client's endpoints. Many clients may have one address, that of a proxy: so an account's
// part is its own.
class FabricTokenWindows::Place {
 public:
  // nullopt: the account has windows at as many others as its share of `endpoints_max` allows.
  static std::optional<Place> take(const std::shared_ptr<Entry>& entry, std::string_view client,
                                   std::string_view account, std::string_view endpoint, size_t endpoints_max) {
    const auto of = entry->clients.find(client);
    const Entry::OfClient none;
    const Entry::OfClient& taken = of == entry->clients.end() ? none : of->second;
    const auto whose = taken.accounts.find(account);
    const size_t own = whose == taken.accounts.end() ? 0 : whose->second.size();
    const bool is_new = own == 0 || !whose->second.contains(endpoint);
    if (is_new && !fits_fair_share(taken.endpoints, own, 1, endpoints_max)) return std::nullopt;
    return Place(entry, client, account, endpoint);
  }
  Place(Place&&) = default;
  ~Place() {
    if (entry_ == nullptr || --at_->second > 0) return;
    whose_->second.erase(at_);
    --of_->second.endpoints;
    if (whose_->second.empty()) of_->second.accounts.erase(whose_);
    if (of_->second.accounts.empty()) entry_->clients.erase(of_);
  }

 private:
  Place(std::shared_ptr<Entry> entry, std::string_view client, std::string_view account, std::string_view endpoint)
      : entry_(std::move(entry)),
        of_(entry_->clients.try_emplace(std::string(client)).first),
        whose_(of_->second.accounts.try_emplace(std::string(account)).first),
        at_(whose_->second.try_emplace(std::string(endpoint)).first) {
    if (++at_->second == 1) ++of_->second.endpoints;
  }
  std::shared_ptr<Entry> entry_;
  Entry::Clients::iterator of_;
  Entry::Accounts::iterator whose_;
  Entry::Endpoints::iterator at_;
};

class FabricTokenWindows::PlacedWindow final : public fabric::Window {
 public:
  PlacedWindow(Place place, std::unique_ptr<fabric::Window> window)
      : place_(std::move(place)), window_(std::move(window)) {}
  uint64_t size() const override { return window_->size(); }
  bool by_device() const override { return window_->by_device(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override {
    return window_->write(from, at, deadline);
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override {
    return window_->read(into, at, deadline);
  }

 private:
  Place place_;
  std::unique_ptr<fabric::Window> window_;  // destroyed first
};

Result<Network> Network::parse(std::string_view text) {
  const auto slash = text.find('/');
  boost::system::error_code error;
  Network network;
  network.base_ = ip::make_address(std::string(text.substr(0, slash)), error);
  if (error) return fail(Errc::bad_config, "network: not an address");
  const unsigned width = network.base_.is_v4() ? 32 : 128;
  network.bits_ = width;
  if (slash != std::string_view::npos) {
    const auto digits = text.substr(slash + 1);
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), network.bits_);
    if (bad != std::errc{} || end != digits.data() + digits.size() || network.bits_ > width) {
      return fail(Errc::bad_config, "network: prefix length");
    }
  }
  return network;
}

bool Network::contains(const ip::address& address) const {
  if (address.is_v4() != base_.is_v4()) return false;
  if (address.is_v4()) return same_prefix(address.to_v4().to_bytes(), base_.to_v4().to_bytes(), bits_);
  return same_prefix(address.to_v6().to_bytes(), base_.to_v6().to_bytes(), bits_);
}

Result<std::unique_ptr<FabricTokenWindows>> FabricTokenWindows::create(const Options& options) {
  auto self = std::make_unique<FabricTokenWindows>();
  for (const auto& text : options.networks) {
    VB_ASSIGN(auto network, Network::parse(text));
    self->networks_.push_back(std::move(network));
  }
  self->port_first_ = options.port_first;
  self->port_last_ = options.port_last;
  self->own_ports_ = options.own_ports;
  self->address_endpoints_max_ = 2 * options.client_endpoints_max;
  return self;
}

void FabricTokenWindows::add(Core& core, ofi::CoreFabric& fabric) {
  auto entry = std::make_shared<Entry>(fabric);
  entries_.push_back(entry);
  boost::asio::post(core.io(), [entry] { entry->thread = std::this_thread::get_id(); });
}

// A token makes the server connect to an address, which could be abused to reach another host, or a service only
// available from this host. A proxy on this host sends from its address, the server's own, for all clients.
Result<void> FabricTokenWindows::check_address(const Token& token, std::string_view peer_address) const {
  const auto address = ofi::decode_socket_name(token.endpoint_name);
  if (!address) {
    refused("malformed_name").add();
    return fail(Errc::invalid_rdma_token, "token: endpoint name is not an address of its provider");
  }
  const bool own_port = std::find(own_ports_.begin(), own_ports_.end(), address->port) != own_ports_.end();
  if (ofi::is_own_endpoint(*address) || (own_port && ofi::is_host_address(address->ip))) {
    refused("own_address").add();
    return fail(Errc::rdma_not_supported, "token: the server's own port");
  }
  if (address->port < port_first_ || address->port > port_last_) {
    refused("port").add();
    return fail(Errc::rdma_not_supported, "token: its port is not in rdma.token_ports");
  }
  const bool in_network = std::any_of(networks_.begin(), networks_.end(),
                                      [&address](const Network& network) { return network.contains(address->ip); });
  if (!in_network && !ofi::same_address(address->ip, peer_address)) {
    refused("third_party").add();
    return fail(Errc::rdma_not_supported, "token: neither the peer's address nor in rdma.token_networks");
  }
  if (!in_network && ofi::is_host_address(address->ip)) {
    refused("own_host").add();
    return fail(Errc::rdma_not_supported,
                "token: an address of the server's host that rdma.token_networks does not name");
  }
  return {};
}

Result<std::unique_ptr<fabric::Window>> FabricTokenWindows::open_now(const Token& token, const TokenClient& client,
                                                                     fabric::Access access) {
  if (!serves(token.form)) {
    refused("dialect").add();
    return fail(Errc::rdma_not_supported, "token: dialect");
  }
  const auto here = std::this_thread::get_id();
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const auto& candidate) {
    return candidate->thread.load(std::memory_order_relaxed) == here && candidate->fabric->provider() == token.provider;
  });
  if (entry == entries_.end()) {
    refused("provider").add();
    return fail(Errc::rdma_not_supported, "token: its provider is not open here (rdma.token_provider)");
  }
  // efa and cxi names have no address that could be compared with the HTTP peer's.
  if (token.provider != "tcp" && !token.provider.starts_with("verbs")) {
    refused("provider").add();
    return fail(Errc::rdma_not_supported, "token: its provider has no comparable addresses");
  }
  VB_TRY(check_address(token, client.address));
  auto place =
      Place::take(*entry, client_of(client.address), client.account, token.endpoint_name, address_endpoints_max_);
  if (!place) {
    refused("busy").add();
    return fail(Errc::rdma_not_supported, "token: its client has windows at too many endpoints");
  }
  auto window = (*entry)->fabric->open_window(token.endpoint_name, {token.base, token.size, token.key}, access);
  if (window) return std::make_unique<PlacedWindow>(std::move(*place), std::move(*window));
  const bool busy = window.error().code == Errc::slow_down;
  refused(busy ? "busy" : "fabric").add();
  // The client sends a body instead, for which no endpoint is needed.
  if (busy) return fail(Errc::rdma_not_supported, "token: every data endpoint is taken");
  return window;
}

}  // namespace verbena::rdma
