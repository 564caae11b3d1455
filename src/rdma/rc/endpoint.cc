#include "rdma/rc/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "fabric/ofi/address.h"

namespace verbena::rdma::rc {
namespace {

constexpr std::chrono::seconds failure_is_kept{1}, port_is_kept{1};

std::unexpected<Error> refuse_peer(const char* reason, const char* why) {
  metrics::counter("verbena_rdma_tokens_refused_total", "Tokens that opened no window", {{"reason", reason}}).add();
  return fail(Errc::rdma_not_supported, why);
}

// What the kernel says about an entry of the port's tables that is not there, or not as it was. ENODATA: an empty entry
// of the GID table, since Linux 5.10.
bool is_of_the_port(int error) { return error == ENODATA || error == EINVAL || error == ENODEV || error == ENOENT; }

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(memory::Arena& arena, const std::vector<std::string>& networks,
                                                   OpenDevice open_device) {
  std::unique_ptr<Endpoint> made(new Endpoint(arena, std::move(open_device)));
  for (const std::string& text : networks) {
    VB_ASSIGN(Network network, Network::parse(text));
    made->networks_.push_back(std::move(network));
  }
  return made;
}

Result<void> Endpoint::try_open() {
  VB_ASSIGN(auto device, open_device_());
  VB_ASSIGN(auto domain, device->add_domain());
  VB_ASSIGN(region_, domain->add_memory(arena_.mapping(), false));
  log::info("rdma: reliable connections on {}", device->name());
  device_ = std::move(device);
  domain_ = std::move(domain);
  opened_ = true;
  return {};
}

// Opening registers the whole arena, and calls that are not signed make the server try it.
std::optional<Error> Endpoint::recent_failure() {
  const std::lock_guard lock(failing_);
  return SteadyClock::now() < failed_until_ ? failure_ : std::nullopt;
}

Result<void> Endpoint::open_now() {
  const std::lock_guard lock(opening_);
  if (opened_) return {};
  if (const auto failed = recent_failure()) return std::unexpected(*failed);
  auto opened = try_open();
  if (opened) return opened;
  const std::lock_guard failing(failing_);
  failure_ = opened.error();
  failed_until_ = deadline_in(failure_is_kept);
  return opened;
}

Task<Result<void>> Endpoint::open() {
  if (opened_) co_return Result<void>{};
  if (const auto failed = recent_failure()) co_return std::unexpected(*failed);
  const auto work = [this] { return open_now(); };
  co_return co_await pool_.run("rdma_open", work);
}

bool Endpoint::end_work(std::chrono::milliseconds at_most) {
  const Deadline by = deadline_in(at_most);
  turns_.end();
  const bool connected = network_pool_.leave(at_most);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(by - SteadyClock::now());
  const bool all = pool_.leave(std::max(left, std::chrono::milliseconds(0))) && connected;
  if (!all) log::warn("rdma: the device has not answered within {} s", at_most.count() / 1000);
  return all;
}

std::shared_ptr<Channel> Endpoint::channel(std::unique_ptr<QueuePair> pair, Channel::GiveBack give_back) const {
  return std::make_shared<Channel>(std::move(pair), fabric::ofi::Options().settle, std::move(give_back));
}

Result<void> Endpoint::read_port() {
  VB_TRY(device_->refresh());
  read_again_ = deadline_in(port_is_kept);
  return {};
}

Result<void> Endpoint::refresh_port() {
  const std::lock_guard lock(reading_);
  if (port_is_fresh()) return {};
  return read_port();
}

Result<Gid> Endpoint::connect(QueuePair& pair, const Peer& peer, uint32_t own_sequence) {
  auto connected = pair.connect(peer, own_sequence);
  if (connected || !is_of_the_port(connected.error().sys)) return connected;
  const std::lock_guard lock(reading_);
  VB_TRY(read_port());
  return fail(Errc::unsupported, "reliable connections: the device's port has changed", connected.error().sys);
}

void Endpoint::discard(std::shared_ptr<void> object) {
  auto owned = std::make_shared<std::shared_ptr<void>>(std::move(object));
  if (!pool_.submit("rdma_close", [owned] { owned->reset(); })) owned->reset();
}

// As for the address that a token of ofi1 names: a connection must not reach a third party, and a proxy on this host
// sends from its address for all clients. A link-local address says nothing about the peer: a network must name it.
Result<Gid> Endpoint::check_peer(const PeerToken& peer, std::string_view http_peer) const {
  const Gid gid = peer.is_loopback() ? device_->own_gid(peer.gid) : peer.gid;
  const auto address = address_of(gid);
  if (address.is_multicast() || address.is_unspecified()) return refuse_peer("malformed_name", "peer: its GID");
  const bool in_network = std::ranges::any_of(networks_, [&](const Network& one) { return one.contains(address); });
  if (!in_network && !fabric::ofi::same_address(address, http_peer)) {
    return refuse_peer("third_party", "peer: neither the HTTP peer's address nor in rdma.token_networks");
  }
  if (!in_network && fabric::ofi::is_host_address(address)) {
    return refuse_peer("own_host", "peer: an address of the server's host that rdma.token_networks does not name");
  }
  return gid;
}

}  // namespace verbena::rdma::rc
