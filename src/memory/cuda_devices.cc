#include "memory/cuda_devices.h"

#include <algorithm>

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

Outcome<std::unique_ptr<Devices>> Devices::open(Arena& arena, Options options) {
  auto driver = Driver::get();
  if (!driver) return std::unexpected(std::move(driver).error());
  if (!(*driver)->calls().shares()) {
    return std::unexpected(Fault{Fault::Kind::failed, (*driver)->path() + " shares no memory between processes"});
  }
  auto found = (*driver)->devices();
  if (!found) return std::unexpected(std::move(found).error());
  std::unique_ptr<Devices> all(new Devices(arena, (*driver)->calls().shares_physical()));
  for (const DeviceFacts& facts : *found) {
    auto device = std::make_shared<Device>(**driver, arena.mapping(), facts.device, options.limit);
    if (auto started = device->start(all->devices_.empty()); !started) {
      return std::unexpected(std::move(started).error());
    }
    all->devices_.push_back(std::move(device));
  }
  if (all->devices_.empty()) return std::unexpected(Fault{Fault::Kind::absent, "there is no device"});
  return all;
}

void Devices::export_metrics() {
  DirectMetrics::get();
  Aside::export_metrics();
}

Devices::~Devices() { stop(); }

bool Devices::stop() {
  // The first one has page-locked the arena, for all: it ends last.
  constexpr std::chrono::seconds patience{2};
  const Deadline until = deadline_in(patience);
  bool all = true;
  for (size_t i = devices_.size(); i-- > 0;) {
    devices_[i]->stop();
    all = devices_[i]->wait_for_end(until) && all;
  }
  return all;
}

Device* Devices::find(const DeviceName& name, const WhenMapped& mapped) const {
  const auto device = std::ranges::find(devices_, name, [](const auto& one) { return one->uuid(); });
  if (device != devices_.end()) return device->get();
  mapped(std::unexpected(Fault{Fault::Kind::refused, "this server has no such device"}));
  return nullptr;
}

void Devices::map(const Exported& allocation, WhenMapped mapped) {
  Device* const device = find(allocation.device, mapped);
  if (device == nullptr) return;
  device->map([device, allocation] { return device->open(allocation); }, std::move(mapped));
}

void Devices::map(const Pieces& pieces, WhenMapped mapped) {
  Device* const device = find(pieces.device, mapped);
  if (device == nullptr) return;
  device->map([device, pieces] { return device->open(pieces); }, std::move(mapped));
}

size_t Devices::lost() const {
  return static_cast<size_t>(std::ranges::count_if(devices_, [](const auto& one) { return one->lost(); }));
}

}  // namespace verbena::memory::cuda
