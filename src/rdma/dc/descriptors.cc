#include "rdma/dc/descriptors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "rdma/rc/rc_window.h"

namespace verbena::rdma::dc {
namespace {

constexpr uint16_t unicast_lid_max = 0xbfff;

metrics::Gauge& initiator_gauge() {
  return metrics::gauge("verbena_rdma_dc_initiators", "Initiators of dynamically connected queue pairs in use");
}

// A client of this dialect that is declined has a way to fall back: that is what these errors are for.
std::unexpected<Error> decline(const Error& why) {
  const bool is_told = why == Errc::unsupported || why == Errc::rdma_not_supported;
  const char* const text = is_told ? why.context : "token: the server is too busy to open its window";
  return std::unexpected(Error{Errc::rdma_not_supported, why.sys, text});
}

// The address of a whole InfiniBand subnet's ports, for the rule about peers: a LID says nothing about a host.
boost::asio::ip::address any_of_the_subnet() { return boost::asio::ip::make_address("fe80::"); }

// The first half of a GID names its port's subnet; fe80:: is the one that the device is in.
bool is_of_the_subnet(const rc::Gid& gid, const rc::PortState& port) {
  constexpr size_t prefix_size = 8;
  constexpr std::array<std::byte, prefix_size> any{std::byte{0xfe}, std::byte{0x80}};
  const Bytes prefix = Bytes(gid).first(prefix_size);
  return std::ranges::equal(prefix, any) || std::ranges::any_of(port.gids, [&](const rc::GidEntry& own) {
           return std::ranges::equal(prefix, Bytes(own.gid).first(prefix_size));
         });
}

}  // namespace

// Where devices end: what it closes may outlive the dialect.
struct Descriptors::Closing {
  std::mutex mutex;
  BlockingPool* pool = nullptr;  // null: gone

  void close(DevicePtr device) {
    if (device == nullptr) return;
    const auto owned = std::make_shared<DevicePtr>(std::move(device));
    const std::lock_guard lock(mutex);
    if (pool != nullptr) (void)pool->submit("rdma_close", [owned] { owned->reset(); });
  }
};

// The last reference to a device may end on a loop, where the end of the arena's registration would take long.
struct Descriptors::Close {
  std::shared_ptr<Closing> closing;
  DevicePtr device;
  void operator()(Device*) { closing->close(std::move(device)); }
};

Descriptors::Descriptors(OpenDevice open_device, const Options& options)
    : open_device_(std::move(open_device)),
      options_(options),
      places_(options.initiators, initiator_gauge()),
      closing_(std::make_shared<Closing>()),
      pool_(threads, waiting_max),
      network_pool_(static_cast<unsigned>(turn_limits.all_max), turn_limits.all_max) {
  closing_->pool = &pool_;
}

Descriptors::~Descriptors() {
  const std::lock_guard lock(closing_->mutex);
  closing_->pool = nullptr;
}

Result<std::unique_ptr<Descriptors>> Descriptors::create(const std::vector<std::string>& networks,
                                                         OpenDevice open_device, const Options& options) {
  std::unique_ptr<Descriptors> made(new Descriptors(std::move(open_device), options));
  VB_ASSIGN(made->rule_, PeerRule::parse(networks));
  return made;
}

bool Descriptors::end_work(std::chrono::milliseconds at_most) {
  const Deadline by = deadline_in(at_most);
  turns_.end();
  const bool connected = network_pool_.leave(at_most);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(by - SteadyClock::now());
  return pool_.leave(std::max(left, std::chrono::milliseconds(0))) && connected;
}

// Ends the device in use, or leaves it to the requests that use it: the last one ends it in the pool.
Result<void> Descriptors::end_current() {
  DevicePtr before;
  {
    const std::lock_guard lock(mutex_);
    before = std::move(current_.device);
  }
  if (before != nullptr) {
    DevicePtr& owned = std::get_deleter<Close>(before)->device;
    ending_ = owned;
    DevicePtr ended;  // here, if no request uses it
    if (before.use_count() == 1) ended = std::move(owned);
    before.reset();
  }
  if (ending_.expired()) return {};
  return fail(Errc::unsupported,
              "token: requests still use another RDMA device, whose registration of the arena ends before a new one");
}

// One device is used at a time, and the arena is registered with one: its memory would be locked twice. A lost device
// ends at once, one whose port is down when another was found whose port is up. That one is kept when the first port
// is up again, because going back would register the whole arena anew.
Result<void> Descriptors::open_another() {
  std::string down;  // the name
  if (const auto device = current().device; device != nullptr && !device->is_lost()) down = device->name();
  if (down.empty()) VB_TRY(end_current());
  const auto make_room = [&] {
    if (current().device != nullptr)
      log::warn("rdma: the port of {} is down: another device is used from now on", down);
    return end_current();
  };
  VB_ASSIGN(DevicePtr opened, open_device_(down, make_room));
  log::info("rdma: dynamically connected queue pairs on {}, until it is lost or its port is down", opened->name());
  Device* const device = opened.get();
  const std::lock_guard lock(mutex_);
  current_ = {DevicePtr(device, Close{closing_, std::move(opened)}), current_.opened + 1};
  return {};
}

// unsupported: there is none, or its port is down.
Task<Result<Descriptors::DevicePtr>> Descriptors::usable(DevicePtr device) {
  if (device == nullptr || device->is_lost()) co_return fail(Errc::unsupported, "token: the RDMA device was lost");
  auto known = device->known_port();
  if (!known) {
    const auto refresh = [device] { return device->refresh(); };
    known = co_await pool_.run("rdma_port", refresh);
  }
  if (!*known) co_return std::unexpected(known->error());
  co_return device;
}

// The device is not held while another is opened: its end may be what that waits for.
Task<Result<Descriptors::DevicePtr>> Descriptors::device() {
  Current now = current();
  const uint64_t found = now.opened;
  auto opened = co_await usable(std::move(now.device));
  if (opened || opened.error() != Errc::unsupported) co_return opened;
  const auto is_open = [this, found] {
    const Current one = current();
    const bool there = one.device != nullptr && !one.device->is_lost();
    const auto port = there ? one.device->known_port() : std::nullopt;
    return one.opened != found || (port && port->has_value());
  };
  const auto open = [this] { return open_another(); };
  const auto other = co_await opening_.run(pool_, "rdma_open", is_open, open);
  now = current();
  // Where there was no other, the one whose port is down is still there, and why it is not used is the answer.
  if (!other) co_return now.device != nullptr ? opened : std::unexpected(other.error());
  co_return co_await usable(std::move(now.device));
}

// InfiniBand reaches a port of its subnet by the LID, whatever the GID says. A GID of another subnet makes a router of
// that port: the packets go on from there.
Result<Destination> Descriptors::by_lid(const DcTarget& target, const rc::PortState& port) const {
  if (target.lid == 0 || target.lid > unicast_lid_max) return PeerRule::refuse("malformed_name", "token: its LID");
  if (!rule_.names(any_of_the_subnet())) {
    return PeerRule::refuse("third_party", "token: its LID, which rdma.token_networks does not allow (fe80::/10)");
  }
  if (port.has_lid(target.lid)) return PeerRule::refuse("own_host", "token: its LID, which is the server's own");
  const uint32_t own = port.gids.front().index;
  if (target.gid && !is_of_the_subnet(*target.gid, port)) {
    // fe80::/10 is named for this subnet alone.
    const auto address = rc::address_of(*target.gid);
    const bool is_none = address.is_multicast() || address.is_unspecified();
    if (is_none || rc::kind_of(*target.gid) == rc::GidKind::link_local || !rule_.names(address)) {
      return PeerRule::refuse("third_party", "token: its GID, whose subnet rdma.token_networks does not name");
    }
    return Destination{target.gid, target.lid, own};
  }
  if (target.gid && port.needs_gid) return Destination{target.gid, target.lid, own};
  return Destination{.lid = target.lid};  // one port, one path
}

// RoCE reaches a port by its GID.
Result<Destination> Descriptors::destination(const DcTarget& target, const rc::PortState& port,
                                             std::string_view http_peer) const {
  if (!port.ethernet) return by_lid(target, port);
  if (!target.gid) return PeerRule::refuse("malformed_name", "token: it has no GID");
  VB_TRY(rule_.check(rc::address_of(*target.gid), http_peer));
  const rc::GidEntry& own = port.entry_for(*target.gid);
  if (rc::kind_of(own.gid) != rc::kind_of(*target.gid)) {
    return PeerRule::refuse("no_own_gid", "token: the server's port has no GID of its GID's kind");
  }
  return Destination{target.gid, 0, own.index};
}

Task<Result<Path>> Descriptors::path(DevicePtr device, Destination to, rc::Payer payer) {
  if (Path known = device->known_path(to)) co_return known;
  VB_CO_ASSIGN(const rc::Turns::Turn turn, co_await turns_.take(std::move(payer)));
  const auto find = [device, to] { return device->find_path(to); };
  co_return co_await network_pool_.run("rdma_path", find);
}

Task<Result<std::unique_ptr<Initiator>>> Descriptors::initiator(DevicePtr device) {
  if (auto idle = device->take_idle()) co_return idle;
  const auto make = [device] { return device->make_initiator(); };
  co_return co_await pool_.run("rdma_initiator", make);
}

Task<Result<std::unique_ptr<fabric::Window>>> Descriptors::open(const Token& token, TokenClient client,
                                                                fabric::Access) {
  if (client.owner.empty()) co_return fail(Errc::rdma_not_supported, "token: anonymous callers have no queue pair");
  const rc::Payer payer{std::string(client.account), std::string(client.address)};
  const auto opened = co_await device();
  if (!opened) co_return decline(opened.error());
  VB_CO_ASSIGN(const Destination to, destination(token.target, *(*opened)->port(), client.address));
  const auto way = co_await path(*opened, to, payer);
  if (!way) co_return decline(way.error());
  auto place = places_.take(payer);  // not before: a client that cannot be reached holds none
  if (!place) co_return PeerRule::refuse("busy", "token: its client, its account or all have too many queue pairs");
  auto free = co_await initiator(*opened);
  if (!free) co_return decline(free.error());
  (*free)->aim({*way, token.target.number});
  // The place is given back last, so there are never more initiators than places.
  const auto give_back = [place = *place, device = *opened, way = *way](std::unique_ptr<rc::QueuePair> pair) {
    if (pair == nullptr) return device->forget_path(way);
    device->give_back(std::unique_ptr<Initiator>(static_cast<Initiator*>(pair.release())));
  };
  auto channel = std::make_shared<rc::Channel>(std::move(*free), options_.settle, give_back);
  const rc::RcWindow::Place lent{token.base, token.size, static_cast<uint32_t>(token.key)};
  co_return std::make_unique<rc::RcWindow>(std::move(channel), (*opened)->own_memory(), lent);
}

}  // namespace verbena::rdma::dc
