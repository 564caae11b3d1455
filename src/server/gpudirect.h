// gpudirect.*: what the server finds of GPUs at its start, and the GPUs that copy for it. A machine without one starts
// as any other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "base/config.h"
#include "memory/cuda_devices.h"

namespace verbena::server {

struct GpusFound {
  size_t devices = 0;
  std::string text = {};  // for the log; empty: gpudirect.enabled is false, and no driver is loaded
};
// A driver that does not answer within `at_most` is left alone. Sets verbena_gpudirect_devices.
GpusFound find_gpus(const Config::Gpudirect& gpudirect, std::chrono::milliseconds at_most = std::chrono::seconds(20));

// The GPUs that copy between the arena and memory of clients. Page-locking a large arena takes long, so a thread does
// it while the server serves; until then there are none. Thread-safe.
class Gpudirect {
 public:
  // Waits a moment, so that a small arena is ready when this returns.
  Gpudirect(memory::Arena& arena, const memory::cuda::Devices::Options& options);
  ~Gpudirect();
  Gpudirect(const Gpudirect&) = delete;

  std::shared_ptr<memory::cuda::Devices> devices() const;
  // Ends the threads. Bounded in time. False: the driver does not answer and may still have the arena, which must then
  // stay mapped.
  bool stop();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool opened = false, stopped = false;
    std::shared_ptr<memory::cuda::Devices> devices;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace verbena::server
