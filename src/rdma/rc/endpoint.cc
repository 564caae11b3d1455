#include "rdma/rc/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "rdma/rc/ibv_port.h"

namespace verbena::rdma::rc {
Result<std::unique_ptr<Endpoint>> Endpoint::create(memory::Arena& arena, const std::vector<std::string>& networks,
                                                   OpenDevice open_device) {
  std::unique_ptr<Endpoint> made(new Endpoint(arena, std::move(open_device)));
  VB_ASSIGN(made->rule_, PeerRule::parse(networks));
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

Task<Result<void>> Endpoint::open() {
  if (opened_) co_return Result<void>{};
  const auto is_open = [this] { return opened_.load(); };
  const auto open_now = [this] { return try_open(); };
  co_return co_await first_use_.run(pool_, "rdma_open", is_open, open_now);
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

Result<void> Endpoint::refresh_port() {
  return port_.refresh([this] { return device_->refresh(); });
}

Result<Gid> Endpoint::connect(QueuePair& pair, const Peer& peer, uint32_t own_sequence) {
  auto connected = pair.connect(peer, own_sequence);
  if (connected || !tells_of_the_port(connected.error().sys)) return connected;
  VB_TRY(port_.read_now([this] { return device_->refresh(); }));
  return fail(Errc::unsupported, "reliable connections: the device's port has changed", connected.error().sys);
}

void Endpoint::discard(std::shared_ptr<void> object) {
  auto owned = std::make_shared<std::shared_ptr<void>>(std::move(object));
  if (!pool_.submit("rdma_close", [owned] { owned->reset(); })) owned->reset();
}

Result<Gid> Endpoint::check_peer(const PeerToken& peer, std::string_view http_peer) const {
  const Gid gid = peer.is_loopback() ? device_->own_gid(peer.gid) : peer.gid;
  VB_TRY(rule_.check(address_of(gid), http_peer));
  return gid;
}

}  // namespace verbena::rdma::rc
