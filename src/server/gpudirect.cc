#include "server/gpudirect.h"

#include <fmt/core.h>

#include <future>
#include <thread>

#include "base/bytes.h"
#include "base/metrics.h"
#include "memory/cuda.h"

namespace verbena::server {
namespace {

struct GpusFound {
  size_t devices = 0;
  std::string text;
};

GpusFound look_for_gpus() {
  const auto driver = memory::cuda::Driver::get();
  if (!driver) return {0, driver.error().text};
  const auto devices = (*driver)->devices();
  if (!devices) return {0, devices.error().text};
  GpusFound found{devices->size(), fmt::format("{}, {} devices", (*driver)->title(), devices->size())};
  for (const auto& device : *devices) {
    found.text += fmt::format("; {}: {}, {}", device.device, device.name, format_size(device.bytes));
    if (!device.descriptors) found.text += ", whose memory no descriptor can share";
  }
  return found;
}

}  // namespace

std::string find_gpus(const Config::Gpudirect& gpudirect, std::chrono::milliseconds at_most) {
  auto& devices =
      metrics::gauge("verbena_gpudirect_devices", "GPUs that gpudirect.enabled found at the server's start");
  devices.set(0);
  if (!gpudirect.enabled) return {};
  // A thread of its own: nothing limits the time of a driver whose device is broken.
  auto told = std::make_shared<std::promise<GpusFound>>();
  auto answer = told->get_future();
  std::thread([told] { told->set_value(look_for_gpus()); }).detach();
  if (answer.wait_for(at_most) != std::future_status::ready) return "gpudirect: the driver does not answer";
  const GpusFound found = answer.get();
  devices.set(static_cast<int64_t>(found.devices));
  return "gpudirect: " + found.text;
}

}  // namespace verbena::server
