#include "memory/cuda_devices.h"

#include <algorithm>

#include "base/log.h"
#include "memory/cuda_device.h"

namespace verbena::memory::cuda {

Mapped::~Mapped() {
  DirectMetrics::get().mapped.add(-static_cast<int64_t>(size_));
  device_->unmap(address_, pieces_, std::move(held_));
}

void Mapped::copy(Copy copy) {
  const uint64_t address = address_ + copy.at;
  device_->copy(address, std::move(copy), shared_from_this());
}

std::function<void(std::function<void()> then)> Mapped::fence() const {
  return [device = device_](std::function<void()> then) { device->after_all(std::move(then)); };
}

namespace {

bool stop_all(const std::vector<std::shared_ptr<Device>>& devices, Deadline until) {
  bool all = true;
  // The first one has page-locked the arena, for all: it ends last.
  for (size_t i = devices.size(); i-- > 0;) {
    devices[i]->stop();
    all = devices[i]->wait_for_end(until) && all;
  }
  return all;
}

constexpr std::chrono::seconds patience{2};

}  // namespace

Outcome<std::unique_ptr<Devices>> Devices::open(Arena& arena, Options options) {
  const Drivers known = cuda::drivers();
  std::unique_ptr<Devices> all(new Devices(arena, options));
  std::vector<Fault> faults;
  for (const Driver* driver : known.ready) {
    if (auto added = all->add(*driver, options); !added) faults.push_back(std::move(added).error());
  }
  if (all->drivers_.empty()) {
    if (faults.empty()) faults = known.told();
    return std::unexpected(std::move(faults.front()));
  }
  for (const Fault& fault : faults) log::warn("gpudirect: {}", fault.text);
  return all;
}

Outcome<> Devices::add(const Driver& driver, const Options& options) {
  if (!driver.calls().shares()) {
    return std::unexpected(Fault{Fault::Kind::failed, driver.path() + " shares no memory between processes"});
  }
  if (!wants_handles(driver.platform()) && !driver.calls().shares_physical()) {
    return std::unexpected(Fault{Fault::Kind::failed, driver.path() + " shares no memory by descriptors, and " +
                                                          "gpudirect.rocm_handles is off: no client's can be taken"});
  }
  auto found = driver.devices();
  if (!found) return std::unexpected(std::move(found).error());
  OfDriver its{.platform = driver.platform(), .maps_pieces = driver.calls().shares_physical(), .devices = {}};
  Outcome<> started;
  for (const DeviceFacts& facts : *found) {
    auto device = std::make_shared<Device>(driver, arena_.mapping(), facts.device, options.limit);
    if (started = device->start(its.devices.empty()); !started) break;
    its.devices.push_back(std::move(device));
  }
  if (started && its.devices.empty()) started = std::unexpected(Fault{Fault::Kind::absent, "there is no device"});
  if (!started) {
    stuck_ = !stop_all(its.devices, deadline_in(patience)) || stuck_;
    return started;
  }
  drivers_.push_back(std::move(its));
  return {};
}

void Devices::export_metrics() {
  DirectMetrics::get();
  Aside::export_metrics();
}

Devices::~Devices() { stop(); }

bool Devices::stop() {
  const Deadline until = deadline_in(patience);
  bool all = !stuck_;
  for (const OfDriver& driver : drivers_) all = stop_all(driver.devices, until) && all;
  return all;
}

Device* Devices::find(Platform platform, const DeviceName& name, const WhenMapped& mapped) const {
  for (const OfDriver& driver : drivers_) {
    for (const auto& device : driver.devices) {
      if (device->is(platform, name)) return device.get();
    }
  }
  mapped(std::unexpected(Fault{Fault::Kind::refused, "this server has no such device"}));
  return nullptr;
}

void Devices::map(const Exported& allocation, WhenMapped mapped) {
  if (!takes_handles(allocation.platform)) {
    return mapped(std::unexpected(Fault{Fault::Kind::failed, "no handles of this driver's memory are taken"}));
  }
  Device* const device = find(allocation.platform, allocation.device, mapped);
  if (device == nullptr) return;
  device->map([device, allocation] { return device->open(allocation); }, std::move(mapped));
}

void Devices::map(const Pieces& pieces, WhenMapped mapped) {
  Device* const device = find(pieces.platform, pieces.device, mapped);
  if (device == nullptr) return;
  device->map([device, pieces] { return device->open(pieces); }, std::move(mapped));
}

bool Devices::takes_handles(Platform platform) const {
  return wants_handles(platform) &&
         std::ranges::any_of(drivers_, [&](const OfDriver& driver) { return driver.platform == platform; });
}

bool Devices::maps_pieces(Platform platform) const {
  return std::ranges::any_of(drivers_,
                             [&](const OfDriver& driver) { return driver.platform == platform && driver.maps_pieces; });
}

size_t Devices::lost() const {
  size_t all = 0;
  for (const OfDriver& driver : drivers_) {
    all += static_cast<size_t>(std::ranges::count_if(driver.devices, [](const auto& one) { return one->lost(); }));
  }
  return all;
}

}  // namespace verbena::memory::cuda
