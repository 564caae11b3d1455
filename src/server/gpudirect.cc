#include "server/gpudirect.h"

#include <fmt/core.h>

#include <future>
#include <thread>

#include "base/bytes.h"
#include "base/log.h"
#include "base/metrics.h"
#include "memory/cuda.h"

namespace verbena::server {
namespace {

GpusFound gpus_of(const memory::cuda::Driver& driver, bool rocm_handles) {
  const auto devices = driver.devices();
  if (!devices) return {0, devices.error().text};
  GpusFound found{devices->size(), fmt::format("{}, {} devices", driver.title(), devices->size())};
  for (const auto& device : *devices) {
    found.text += fmt::format("; {}: {}, {}", device.device, device.name, format_size(device.bytes));
    if (!device.descriptors) found.text += ", whose memory no descriptor can share";
  }
  if (driver.platform() == memory::cuda::Platform::rocm) {
    found.text += rocm_handles
                      ? "; this driver believes the size that a client's handle says: only for clients that are trusted"
                      : "; of its memory no handles are taken, whose size it does not check (gpudirect.rocm_handles)";
  }
  return found;
}

GpusFound look_for_gpus(bool rocm_handles) {
  const memory::cuda::Drivers known = memory::cuda::drivers();
  GpusFound all;
  const auto add = [&](size_t devices, const std::string& text) {
    all.devices += devices;
    all.text += (all.text.empty() ? "" : "; ") + text;
  };
  for (const auto* driver : known.ready) {
    const GpusFound found = gpus_of(*driver, rocm_handles);
    add(found.devices, found.text);
  }
  for (const auto& fault : known.told()) add(0, fault.text);
  return all;
}

}  // namespace

GpusFound find_gpus(const Config::Gpudirect& gpudirect, std::chrono::milliseconds at_most) {
  auto& devices =
      metrics::gauge("verbena_gpudirect_devices", "GPUs that gpudirect.enabled found at the server's start");
  devices.set(0);
  memory::cuda::Devices::export_metrics();
  if (!gpudirect.enabled) return {};
  // A thread of its own: nothing limits the time of a driver whose device is broken.
  auto told = std::make_shared<std::promise<GpusFound>>();
  auto answer = told->get_future();
  std::thread([told, handles = gpudirect.rocm_handles] { told->set_value(look_for_gpus(handles)); }).detach();
  if (answer.wait_for(at_most) != std::future_status::ready) return {0, "gpudirect: the driver does not answer"};
  const GpusFound found = answer.get();
  devices.set(static_cast<int64_t>(found.devices));
  return {found.devices, "gpudirect: " + found.text};
}

Gpudirect::Gpudirect(memory::Arena& arena, const memory::cuda::Devices::Options& options) {
  constexpr std::chrono::seconds moment{2};
  // The thread may outlive this object, if the driver does not answer.
  std::thread([state = state_, &arena, options] {
    auto opened = memory::cuda::Devices::open(arena, options);
    if (opened) {
      log::info("gpudirect: GPUs copy for clients on this host");
    } else {
      log::warn("gpudirect: no GPU copies for this server: {}", opened.error().text);
    }
    const std::lock_guard lock(state->mutex);
    if (opened && !state->stopped) state->devices = std::move(*opened);
    state->opened = true;
    state->changed.notify_all();
  }).detach();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, moment, [this] { return state_->opened; });
}

Gpudirect::~Gpudirect() { stop(); }

std::shared_ptr<memory::cuda::Devices> Gpudirect::devices() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stopped ? nullptr : state_->devices;
}

bool Gpudirect::stop() {
  constexpr std::chrono::seconds patience{10};
  std::unique_lock lock(state_->mutex);
  state_->stopped = true;
  const bool opened = state_->changed.wait_for(lock, patience, [this] { return state_->opened; });
  const auto devices = std::exchange(state_->devices, nullptr);
  lock.unlock();
  return opened && (devices == nullptr || devices->stop());
}

}  // namespace verbena::server
