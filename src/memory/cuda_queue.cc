// Queues of copies to and from a device.
#include <thread>

#include "memory/cuda.h"
#include "memory/cuda_context.h"

namespace verbena::memory::cuda {

namespace {

void* pointer(uint64_t number) { return reinterpret_cast<void*>(static_cast<uintptr_t>(number)); }

}  // namespace

Outcome<std::unique_ptr<Queue>> Queue::open(int device, Platform platform) {
  auto driver = Driver::get(platform);
  if (!driver) return std::unexpected(std::move(driver).error());
  std::unique_ptr<Queue> queue(new Queue(**driver, device));
  if (auto ready = queue->prepare(); !ready) return std::unexpected(std::move(ready).error());
  return queue;
}

Outcome<> Queue::prepare() {
  auto context = context_of(driver_, device_);
  if (!context) return std::unexpected(std::move(context).error());
  context_ = *context;
  auto made = in_context(driver_, context_, "cuStreamCreate",
                         [&](const Calls& c) { return c.stream_create(&stream_, stream_non_blocking); });
  for (void** event : {&marks_[0], &marks_[1], &foreign_}) {
    if (!made) break;
    made = in_context(driver_, context_, "cuEventCreate",
                      [&](const Calls& c) { return c.event_create(event, event_without_timing); });
  }
  return made;
}

Queue::~Queue() {
  unlock();
  if (context_ == nullptr) return;
  const Calls& calls = driver_.calls();
  const Current current(calls, context_);
  if (current.status() != success) return;
  for (void* event : {marks_[0], marks_[1], foreign_}) {
    if (event != nullptr) calls.event_destroy(event);
  }
  if (stream_ != nullptr) calls.stream_destroy(stream_);
}

Outcome<> Queue::page_lock(MutableBytes memory) {
  auto locked = in_context(driver_, context_, "cuMemHostRegister", [&](const Calls& c) {
    return c.host_register(memory.data(), memory.size(), host_register_portable);
  });
  if (locked) locked_ = memory.data();
  return locked;
}

void Queue::unlock() {
  if (locked_ == nullptr) return;
  static_cast<void>(
      in_context(driver_, context_, "cuMemHostUnregister", [&](const Calls& c) { return c.host_unregister(locked_); }));
  locked_ = nullptr;
}

Outcome<> Queue::write(uint64_t to, Bytes from) {
  if (from.empty()) return {};
  return in_context(driver_, context_, "cuMemcpyHtoDAsync",
                    [&](const Calls& c) { return c.to_device(to, from.data(), from.size(), stream_); });
}

Outcome<> Queue::read(MutableBytes into, uint64_t from) {
  if (into.empty()) return {};
  return in_context(driver_, context_, "cuMemcpyDtoHAsync",
                    [&](const Calls& c) { return c.to_host(into.data(), from, into.size(), stream_); });
}

Outcome<> Queue::mark(unsigned number) {
  auto marked = in_context(driver_, context_, "cuEventRecord",
                           [&](const Calls& c) { return c.event_record(marks_[number], stream_); });
  if (marked) set_[number] = true;
  return marked;
}

// The driver's own waiting calls have no limit in time.
Outcome<> Queue::poll(void* event, const char* what, Deadline until, const std::stop_token& stop) const {
  constexpr unsigned spins = 64;
  constexpr std::chrono::microseconds pause_max{200};
  std::chrono::microseconds pause{5};
  const Current current(driver_.calls(), context_);
  if (current.status() != success) return std::unexpected(driver_.fault("cuCtxPushCurrent", current.status()));
  for (unsigned i = 0;; ++i) {
    const int status = driver_.calls().event_query(event);
    if (status == success) return {};
    if (status != not_ready) return std::unexpected(driver_.fault("cuEventQuery", status));
    if (stop.stop_requested()) return std::unexpected(Fault{Fault::Kind::cancelled, "cancelled by the caller"});
    if (SteadyClock::now() >= until) {
      return std::unexpected(Fault{Fault::Kind::late, std::string("the device did not finish ") + what + " in time"});
    }
    if (i < spins) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, pause_max);
  }
}

Outcome<> Queue::wait(unsigned number, Deadline until) const {
  if (!set_[number]) return {};
  return poll(marks_[number], "its copies", until, {});
}

Outcome<> Queue::wait_for_stream(uint64_t stream, Deadline until, const std::stop_token& stop) const {
  int capturing = 0;
  auto asked = in_context(driver_, context_, "cuStreamIsCapturing",
                          [&](const Calls& c) { return c.stream_capturing(pointer(stream), &capturing); });
  if (asked && capturing != 0) {
    return std::unexpected(Fault{Fault::Kind::refused, "the stream is captured into a graph"});
  }
  if (asked) {
    asked = in_context(driver_, context_, "cuEventRecord",
                       [&](const Calls& c) { return c.event_record(foreign_, pointer(stream)); });
  }
  if (!asked) return asked;
  return poll(foreign_, "the work of the window's stream", until, stop);
}

}  // namespace verbena::memory::cuda
