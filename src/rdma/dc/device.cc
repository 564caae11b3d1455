// Sources: rdma-core's manual pages ibv_create_ah(3), mlx5dv_is_supported(3).
#include "rdma/dc/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace verbena::rdma::dc {
namespace {

// What is said when a device has no such queue pairs.
bool means_absent(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL; }
// What is said of a device that was removed, or does not answer, by calls that resolve no address: for those that do,
// ENODEV is an address that was not found.
bool means_lost(int error) { return error == EIO || error == ENODEV || error == ENXIO; }

std::shared_ptr<ibv_context> open_context(const Verbs& verbs, ibv_device* device) {
  ibv_context* const context = verbs.open_device(device);
  if (context == nullptr) return nullptr;
  return {context, [close = verbs.close_device](ibv_context* one) { close(one); }};
}

// The domain keeps the port's context.
Result<Origin> origin_of(const Verbs& verbs, std::shared_ptr<rc::OpenPort> port) {
  ibv_pd* const domain = verbs.alloc_pd(port->context());
  if (domain == nullptr) return fail(Errc::unsupported, "ibv_alloc_pd", errno);
  const auto end = [dealloc = verbs.dealloc_pd, port](ibv_pd* one) { dealloc(one); };
  return Origin{verbs, port, std::shared_ptr<ibv_pd>(domain, end)};
}

// Calls `use(device, name)` with each device until that returns true.
template <class Use>
void each_device(const Verbs& verbs, Use use) {
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(verbs.get_device_list(&count),
                                                                  verbs.free_device_list);
  for (int i = 0; list != nullptr && i < count; ++i) {
    ibv_device* const device = list.get()[i];
    if (use(device, std::string(verbs.get_device_name(device)))) return;
  }
}

DeviceSupport look_at(const Verbs& verbs, ibv_device* device, std::string name) {
  DeviceSupport found{.device = std::move(name)};
  if (verbs.missing != nullptr) return found;
  found.support = Support::absent;
  if (!verbs.is_supported(device)) return found;
  const auto context = open_context(verbs, device);
  if (context == nullptr) {
    found.support = Support::unknown;
    found.error = errno;
    return found;
  }
  const auto origin = origin_of(verbs, std::make_shared<rc::OpenPort>(context, rc::DeviceChoice{}, verbs.port));
  const Result<void> made = origin ? Initiator::probe(*origin) : std::unexpected(origin.error());
  if (made) found.support = Support::present;
  if (!made && !means_absent(made.error().sys)) {
    found.support = Support::unknown;
    found.error = made.error().sys;
  }
  return found;
}

constexpr const char* no_device = "token: no RDMA device of this server has dynamically connected queue pairs (mlx5)";
constexpr const char* no_pair = "token: the RDMA device makes no queue pair";
constexpr const char* no_port =
    "token: the port of the RDMA device with dynamically connected queue pairs is not active, or has no such GID, "
    "partition or VLAN as configured";

// Why none was opened: the error of the device that came furthest, the first of several.
class WhyNot {
 public:
  enum Step : uint8_t { looked_for, has_pairs, has_port, registers };
  void tell(Step failed, const char* why, int error) {
    if (failed <= furthest_) return;
    furthest_ = failed;
    error_ = {Errc::unsupported, error, why};
  }
  std::unexpected<Error> error() const { return std::unexpected(error_); }

 private:
  Step furthest_ = looked_for;
  Error error_{Errc::unsupported, 0, no_device};
};

}  // namespace

Result<std::shared_ptr<Device>> Device::open(const Verbs& verbs, const rc::DeviceChoice& choice, memory::Arena& arena,
                                             std::string_view but, const MakeRoom& make_room) {
  if (verbs.missing != nullptr) return fail(Errc::unsupported, verbs.missing);
  std::shared_ptr<Device> found;
  WhyNot why;
  each_device(verbs, [&](ibv_device* device, std::string name) {
    const bool is_named = choice.name.empty() || choice.name == name;
    if (!is_named || name == but || !verbs.is_supported(device)) return false;
    auto context = open_context(verbs, device);
    if (context == nullptr) {
      why.tell(WhyNot::has_pairs, no_pair, errno);
      return false;
    }
    auto port = std::make_shared<rc::OpenPort>(std::move(context), choice, verbs.port);
    const bool active = port->read();
    auto origin = origin_of(verbs, std::move(port));
    const Result<void> has_them = origin ? Initiator::probe(*origin) : std::unexpected(origin.error());
    if (!has_them && !means_absent(has_them.error().sys)) why.tell(WhyNot::has_pairs, no_pair, has_them.error().sys);
    if (!has_them) return false;
    if (!active) {
      why.tell(WhyNot::has_port, no_port, 0);
      return false;
    }
    std::shared_ptr<Device> made(new Device(std::move(*origin), arena, std::move(name)));
    const Result<void> room = make_room ? make_room() : Result<void>{};
    const Result<void> begun = room ? made->begin() : room;
    if (begun) found = std::move(made);
    if (!begun) why.tell(WhyNot::registers, begun.error().context, begun.error().sys);
    return begun.has_value();
  });
  if (found == nullptr) return why.error();
  return found;
}

Result<void> Device::begin() {
  const MutableBytes memory = arena_.mapping();
  region_.reset(origin_.verbs.reg_mr(origin_.domain.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
  if (!region_) {
    return fail(Errc::unsupported, "token: the arena cannot be registered (is the limit of locked memory too low?)",
                errno);
  }
  VB_ASSIGN(auto first, make_initiator());
  give_back(std::move(first));
  return port_.read_now([] { return Result<void>{}; });  // open() has read it
}

void Device::note(int error) {
  if (!means_lost(error) || lost_.exchange(true)) return;
  log::warn("rdma: {} is gone, or does not answer: {}", name_, std::strerror(error));
}

Result<void> Device::refresh() {
  return port_.refresh([this] { return look_at_port(); });
}

Result<void> Device::look_at_port() {
  const bool is_up = origin_.port->read();
  // Of a device that is gone its port cannot be read either: a call that needs no port tells.
  const auto asked = is_up ? Result<Origin>(origin_) : origin_of(origin_.verbs, origin_.port);
  if (!asked) note(asked.error().sys);
  end_old();
  if (!is_up) return fail(Errc::unsupported, no_port);
  return {};
}

void Device::end_old() {
  std::deque<Idle> ended;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const rc::PortStatePtr port = origin_.port->state();
  const Deadline now = SteadyClock::now();
  const auto stays = [&](const Idle& one) { return now - one.since <= idle_for && one.initiator->suits(*port); };
  const auto first = std::stable_partition(idle_.begin(), idle_.end(), stays);
  std::move(first, idle_.end(), std::back_inserter(ended));
  idle_.erase(first, idle_.end());
}

Path Device::known_path(const Destination& to) {
  const std::lock_guard lock(mutex_);
  const auto found = paths_.find(to);
  if (found == paths_.end()) return nullptr;
  found->second.used_at = SteadyClock::now();
  return found->second.path;
}

void Device::remember(const Destination& to, Path path) {
  const std::lock_guard lock(mutex_);
  failures_.erase(to);
  if (paths_.size() >= paths_max && !paths_.contains(to)) {
    paths_.erase(std::ranges::min_element(paths_, {}, [](const auto& one) { return one.second.used_at; }));
  }
  paths_[to] = {std::move(path), SteadyClock::now()};
}

void Device::remember_failure(const Destination& to) {
  const std::lock_guard lock(mutex_);
  if (failures_.size() >= failures_max && !failures_.contains(to)) {
    failures_.erase(std::ranges::min_element(failures_, {}, [](const auto& one) { return one.second; }));
  }
  failures_[to] = deadline_in(failure_is_kept);
}

Result<Path> Device::find_path(const Destination& to) {
  constexpr const char* unreachable = "token: its client's address is not reachable by the RDMA device";
  {
    const std::lock_guard lock(mutex_);
    const auto found = paths_.find(to);
    if (found != paths_.end()) return found->second.path;
    const auto failed = failures_.find(to);
    if (failed != failures_.end() && SteadyClock::now() < failed->second) {
      return fail(Errc::rdma_not_supported, unreachable);
    }
  }
  ibv_ah_attr attr{};
  attr.port_num = origin_.port->number();
  attr.dlid = to.lid;
  if (to.gid) {
    attr.is_global = 1;
    std::memcpy(attr.grh.dgid.raw, to.gid->data(), to.gid->size());
    attr.grh.sgid_index = static_cast<uint8_t>(to.own_index);
    attr.grh.hop_limit = rc::hops;
  }
  ibv_ah* const made = origin_.verbs.create_ah(origin_.domain.get(), &attr);
  if (made == nullptr) {
    const int error = errno;
    remember_failure(to);
    if (rc::tells_of_the_port(error) || means_lost(error)) {
      (void)port_.read_now([this] { return look_at_port(); });  // the next request finds it as it is
    }
    return fail(Errc::rdma_not_supported, unreachable, error);
  }
  Path path(made, [end = origin_.verbs.destroy_ah, domain = origin_.domain](ibv_ah* one) { end(one); });
  remember(to, path);
  return path;
}

void Device::forget_path(const Path& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(paths_, [&](const auto& one) { return one.second.path == path; });
}

std::unique_ptr<Initiator> Device::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  auto taken = std::move(idle_.back().initiator);
  idle_.pop_back();
  return taken;
}

Result<std::unique_ptr<Initiator>> Device::make_initiator() {
  auto made = Initiator::make(origin_);
  if (made) return made;
  const int error = made.error().sys;
  note(error);
  if (rc::tells_of_the_port(error)) port_.forget();  // its entry of the port's partitions is not as it was
  return fail(Errc::unsupported, no_pair, error);
}

void Device::give_back(std::unique_ptr<Initiator> initiator) {
  if (!initiator->is_sound()) return;
  initiator->aim({});
  const std::lock_guard lock(mutex_);
  if (!initiator->suits(*origin_.port->state())) return;
  idle_.push_back({std::move(initiator), SteadyClock::now()});
}

std::vector<DeviceSupport> look_at_devices(const Verbs& verbs) {
  std::vector<DeviceSupport> all;
  each_device(verbs, [&](ibv_device* device, std::string name) {
    all.push_back(look_at(verbs, device, std::move(name)));
    return false;
  });
  return all;
}

}  // namespace verbena::rdma::dc
