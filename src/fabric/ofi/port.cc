#include "fabric/ofi/port.h"

#include <algorithm>

#include "base/client_counts.h"
#include "base/log_limit.h"
#include "fabric/ofi/address.h"

namespace verbena::fabric::ofi {
namespace {

constexpr size_t peers_per_port_max = 65536;
constexpr size_t lease_size = 1 * MiB;  // of message buffers
constexpr auto look_every = std::chrono::milliseconds(20);

}  // namespace

Result<std::unique_ptr<CoreFabric>> open(Core& core, memory::Arena& arena, const Options& options) {
  VB_ASSIGN(auto fabric, OfiCoreFabric::open(core, arena, options));
  return std::unique_ptr<CoreFabric>(std::move(fabric));
}

Result<std::unique_ptr<OfiCoreFabric>> OfiCoreFabric::open(Core& core, memory::Arena& arena, const Options& options) {
  VB_ASSIGN(const auto limits, depths(options));
  VB_ASSIGN(const auto source, source_address(options));
  VB_ASSIGN(auto info, choose(options, Role::server, source));
  std::unique_ptr<OfiCoreFabric> self(new OfiCoreFabric(core));
  VB_ASSIGN(self->domain_, Domain::open(std::move(info)));
  VB_TRY(self->domain_->register_local(arena.mapping()));
  VB_TRY(self->listen(options, limits, arena));
  // No more than a connection's queue holds: a full one looks like a connection that is still being made.
  self->pool_ = std::make_unique<DataPool>(core, *self->domain_, arena, options, limits.sends_per_connection);
  if (const int fd = self->messages_->wait_fd(); fd >= 0) self->waiter_ = std::make_unique<Waiter>(core.io(), fd);
  add_own_endpoint(self->address());
  core.add(self.get());
  self->added_ = true;
  log::info("fabric: core {} {} with provider {} ({})", core.index(), options.dial_only ? "dials" : "listens",
            self->provider(), self->waiter_ ? "sleeps on a wait descriptor" : "polls");
  return self;
}

// Listens on the first free port of the range.
Result<void> OfiCoreFabric::listen(const Options& options, const Depths& limits, memory::Arena& arena) {
  MessageEndpoint::Shape shape;
  shape.dial_only = options.dial_only;
  shape.message_size_max = ofi::message_size_max(options, domain_->info());
  shape.receives = limits.receives;
  shape.sends = limits.sends;
  shape.completions = limits.completions;
  shape.send_deadline = options.send_deadline;
  shape.sends_per_client_max = std::max<size_t>(limits.sends / 4, 1);
  if (options.dial_only) shape.receives = shape.sends = 1;  // needed for its name and its wait descriptor only
  std::vector<MutableBytes> memory;
  const size_t slots_per_lease = std::max<size_t>(1, lease_size / shape.message_size_max);
  for (size_t slots = 0; slots < shape.receives + shape.sends; slots += slots_per_lease) {
    VB_ASSIGN(auto lease, arena.lease(slots_per_lease * shape.message_size_max));
    memory.push_back(lease.bytes());
    message_memory_.push_back(std::move(lease));
  }
  const uint32_t first = options.dial_only ? 0 : options.port_first;
  const uint32_t last = options.dial_only ? 0 : std::max(options.port_first, options.port_last);
  Error why;
  for (uint32_t port = first; port <= last; ++port) {
    shape.port = static_cast<uint16_t>(port);
    auto opened = MessageEndpoint::open(*domain_, shape, memory);
    if (opened) {
      messages_ = std::move(*opened);
      return {};
    }
    // Providers report a port in use in different ways, so any failure tries the next port.
    why = opened.error();
    if (port == 0) return std::unexpected(why);
  }
  log::error("fabric: no port from {} to {} can be listened on: {}", first, last, describe(why));
  return fail(Errc::bad_config, "fabric: no free port in the configured range", why.sys);
}

OfiCoreFabric::~OfiCoreFabric() {
  if (added_) core_.remove(this);
  if (pool_) pool_->close();
  if (messages_) remove_own_endpoint(messages_->name());
  waiter_.reset();
  messages_.reset();  // before the memory of its receives
}

// A claimed endpoint name in the form that the address vector takes. Socket addresses are rebuilt from their decoded
// form; other formats have one size only.
Result<std::string> OfiCoreFabric::checked_name(std::string_view claimed) const {
  if (!has_socket_addresses(domain_->info())) {
    if (claimed.size() != messages_->name().size()) return fail(Errc::malformed, "endpoint name: size");
    return std::string(claimed);
  }
  const auto address = decode_socket_name(claimed);
  const auto own = decode_socket_name(messages_->name());
  if (!address || !own) return fail(Errc::malformed, "endpoint name: not a socket address");
  if (address->ip.is_v4() != own->ip.is_v4()) return fail(Errc::malformed, "endpoint name: another address family");
  if (is_own_endpoint(*address)) return fail(Errc::malformed, "endpoint name: the server's own");
  return encode_socket_name(*address);
}

Result<PeerId> OfiCoreFabric::add_peer(std::string_view address) {
  if (peers_.size() >= peers_per_port_max) return fail(Errc::slow_down, "fabric: peers of a port");
  VB_ASSIGN(auto name, checked_name(address));
  const auto socket = decode_socket_name(name);
  VB_ASSIGN(const auto added, messages_->add_peer(name, socket ? client_of(socket->ip.to_string()) : name));
  const PeerId id = next_peer_++;
  peers_.emplace(id, Peer{std::move(name), added});
  return id;
}

void OfiCoreFabric::remove_peer(PeerId peer) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return;
  const Peer removed = it->second;
  untouched_ = false;
  peers_.erase(it);
  messages_->remove_peer(removed.address);
  // Another session of the same client may still use its data endpoint.
  const bool shared = std::any_of(peers_.begin(), peers_.end(),
                                  [&removed](const auto& other) { return other.second.name == removed.name; });
  if (!shared) pool_->forget_session(removed.name);
}

bool OfiCoreFabric::may_send(PeerId peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() || messages_->may_send(it->second.address);
}

Result<void> OfiCoreFabric::send_joined(PeerId peer, Bytes first, Bytes second) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return fail(Errc::closed, "fabric: no such peer");
  untouched_ = false;
  return messages_->send(it->second.address, first, second);
}

Result<std::unique_ptr<Window>> OfiCoreFabric::open_window(PeerId peer, const WindowDescriptor& lent, Access access) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return fail(Errc::closed, "fabric: no such peer");
  return pool_->open_window(DataPool::Lender::session, it->second.name, lent, access);
}

Result<std::unique_ptr<Window>> OfiCoreFabric::open_window(std::string_view endpoint_name, const WindowDescriptor& lent,
                                                           Access access) {
  const auto name = checked_name(endpoint_name);
  if (!name) return fail(Errc::invalid_rdma_token, name.error().context);
  return pool_->open_window(DataPool::Lender::token, *name, lent, access);
}

// Asking costs a system call in each turn of the loop, those of other doors included. The descriptor tells when there
// is a reason to; a provider that does not say all of it is asked now and then.
size_t OfiCoreFabric::poll() {
  const auto now = SteadyClock::now();
  const bool silent = untouched_ && waiter_->waiting() && !busy() && now < next_look_;
  if (silent) return pool_->poll();
  untouched_ = false;
  next_look_ = now + look_every;
  return poll_messages() + pool_->poll();
}

size_t OfiCoreFabric::poll_messages() {
  size_t events = messages_->progress();
  for (const fi_addr_t stalled : messages_->stalled_peers()) cut(stalled);
  events += messages_->deliver([this](Bytes message) {
    if (on_message_) on_message_(0, message);
  });
  return events;
}

// Disconnects the peer with this address: messages to it hold slots until its connection is closed.
void OfiCoreFabric::cut(fi_addr_t address) {
  std::vector<PeerId> gone;
  for (const auto& [id, peer] : peers_) {
    if (peer.address == address) gone.push_back(id);
  }
  static log::Limit limit;
  limit.warn("fabric: a peer took no message for too long and is cut off sessions={}", gone.size());
  for (const PeerId id : gone) {
    remove_peer(id);
    if (on_gone_) on_gone_(id);
  }
}

bool OfiCoreFabric::busy() const { return messages_->sends_in_flight() != 0 || pool_->busy(); }

bool OfiCoreFabric::arm() {
  if (untouched_ && waiter_->waiting() && !busy()) return true;
  if (!waiter_ || !pool_->arm() || !messages_->try_wait()) return false;
  waiter_->arm();
  untouched_ = true;
  return true;
}

}  // namespace verbena::fabric::ofi
