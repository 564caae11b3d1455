#include "memory/cuda_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/keep.h"
#include "base/log.h"

namespace verbena::memory::cuda {

using Kind = Fault::Kind;

DirectMetrics::DirectMetrics()
    : written(metrics::counter("verbena_gpudirect_bytes_total", "Bytes that GPUs copied for the server",
                               {{"direction", "to_device"}})),
      read(metrics::counter("verbena_gpudirect_bytes_total", "Bytes that GPUs copied for the server",
                            {{"direction", "from_device"}})),
      copies(metrics::counter("verbena_gpudirect_copies_total", "Copies by GPUs for the server")),
      failed(metrics::counter("verbena_gpudirect_copies_failed_total",
                              "Copies by GPUs for the server that failed or did not end in time")),
      losses(metrics::counter("verbena_gpudirect_losses_total", "Times that a GPU was given up as lost")),
      mapped(metrics::gauge("verbena_gpudirect_mapped_bytes",
                            "Bytes of GPU memory of clients that the server has mapped")),
      lost(metrics::gauge("verbena_gpudirect_lost_devices",
                          "GPUs that are lost now: they failed, or did not end in time")) {}

DirectMetrics& DirectMetrics::get() {
  static DirectMetrics all;
  return all;
}

Outcome<> Device::start(bool locks_arena) {
  if (auto ready = prepare(); !ready) return ready;
  if (locks_arena) {
    auto locked = in_context(driver_, context_, "cuMemHostRegister", [&](const Calls& c) {
      return c.host_register(arena_.data(), arena_.size(), host_register_portable);
    });
    if (!locked) return locked;
    locked_ = true;
  }
  std::thread([self = shared_from_this()] { self->run(); }).detach();
  std::thread([self = shared_from_this()] { self->watch(); }).detach();
  return {};
}

Outcome<> Device::prepare() {
  auto context = context_of(driver_, number_);
  if (!context) return std::unexpected(std::move(context).error());
  context_ = *context;
  auto name = driver_.name_of(number_);
  if (!name) return std::unexpected(std::move(name).error());
  uuid_ = *name;
  for (void*& stream : streams_) {
    auto made = in_context(driver_, context_, "cuStreamCreate",
                           [&](const Calls& c) { return c.stream_create(&stream, stream_non_blocking); });
    if (!made) return made;
  }
  return {};
}

// --- Its thread ------------------------------------------------------------------------------------------------------

void Device::run() {
  while (wait_for_work()) {
    do_work();
    issue();
    if (!broken_) collect();
  }
  leave();
  const std::lock_guard lock(mutex_);
  // Copies of a device that failed may still be under way: their memory is kept, and with it the device.
  if (!flying_.empty()) keep_until_exit(shared_from_this());
  ended_ = true;
  end_changed_.notify_all();
}

// False: there is none, and there will be none.
bool Device::wait_for_work() {
  constexpr unsigned looks_before_pauses = 64;
  constexpr std::chrono::microseconds pause{20};
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return !work_.empty() || (!queued_.empty() && flying_.size() < flights_max); };
  if (flying_.empty() || broken_) {
    if (lost_ && !broken_) {
      lost_ = false;
      DirectMetrics::get().lost.add(-1);
      log::info("gpudirect: device {} has ended all copies and is used again", name());
    }
    changed_.wait(lock, [&] { return stopping_ || has_work(); });
    return has_work();
  }
  // Copies are under way: their events are polled.
  if (++looks_ > looks_before_pauses) {
    changed_.wait_for(lock, pause, has_work);
  } else {
    lock.unlock();
    std::this_thread::yield();
  }
  return true;
}

// For a moment: copies do not wait until all is done.
void Device::do_work() {
  constexpr std::chrono::milliseconds turn{1};
  const Deadline until = deadline_in(turn);
  while (SteadyClock::now() < until) {
    Work work;
    {
      const std::lock_guard lock(mutex_);
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work.run();
  }
}

// Gives the driver the copies that wait, each direction in order, and records an event behind those of this turn.
void Device::issue() {
  std::vector<FlightPtr> turn[directions];
  {
    const std::lock_guard lock(mutex_);
    while (!queued_.empty() && flying_.size() < flights_max) {
      FlightPtr flight = std::move(queued_.front());
      queued_.pop_front();
      flight->until = deadline_in(limit_);
      flying_.push_back(flight);
      turn[flight->copy.to_device ? 0 : 1].push_back(std::move(flight));
    }
  }
  for (unsigned direction = 0; direction < directions; ++direction) {
    std::vector<FlightPtr> given, refused;
    for (FlightPtr& flight : turn[direction]) {
      const Copy& copy = flight->copy;
      const char* const made = copy.to_device ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
      auto queued = call(made, [&](const Calls& c) {
        return copy.to_device ? c.to_device(flight->device_address, copy.host, copy.size, streams_[direction])
                              : c.to_host(copy.host, flight->device_address, copy.size, streams_[direction]);
      });
      (queued ? given : refused).push_back(std::move(flight));
      if (!queued) log::debug("gpudirect: device {}: {}", name(), queued.error().text);
    }
    const bool doubtful = !refused.empty();
    end(refused, CopyEnd::failed);
    // Also behind none: a device that does not work refuses the event as well.
    if (doubtful || !given.empty()) record(direction, std::move(given));
  }
}

void Device::record(unsigned direction, std::vector<FlightPtr> flights) {
  void* event = nullptr;
  Outcome<> done;
  if (events_.empty()) {
    done = call("cuEventCreate", [&](const Calls& c) { return c.event_create(&event, event_without_timing); });
  } else {
    event = events_.back();
    events_.pop_back();
  }
  if (done) {
    done = call("cuEventRecord", [&](const Calls& c) { return c.event_record(event, streams_[direction]); });
  }
  // Without an event it is not known when they end: they stay in flight.
  if (!done) return lose(done.error().text, true);
  if (flights.empty()) return events_.push_back(event);
  batches_[direction].push_back({event, std::move(flights)});
  looks_ = 0;
}

void Device::collect() {
  const Deadline began = SteadyClock::now();
  for (auto& batches : batches_) {
    while (!batches.empty()) {
      int status = success;
      auto asked = call("cuEventQuery", [&](const Calls& c) {
        status = c.event_query(batches.front().event);
        return status == not_ready ? success : status;
      });
      if (!asked) return lose(asked.error().text, true);
      if (status == not_ready) break;
      events_.push_back(batches.front().event);
      end(batches.front().flights, CopyEnd::done);
      batches.pop_front();
      looks_ = 0;
    }
  }
  looked_ = began;
}

// They touch nothing any more.
void Device::end(const std::vector<FlightPtr>& flights, CopyEnd how) {
  if (flights.empty()) return;
  DirectMetrics& metrics = DirectMetrics::get();
  std::vector<FlightPtr> untold;
  {
    const std::lock_guard lock(mutex_);
    for (const FlightPtr& flight : flights) {
      flying_.erase(std::ranges::find(flying_, flight));
      if (!flight->told) untold.push_back(flight);
      flight->told = true;
    }
  }
  for (const FlightPtr& flight : flights) {
    metrics.copies.add();
    if (how != CopyEnd::done) metrics.failed.add();
    if (how == CopyEnd::done) (flight->copy.to_device ? metrics.written : metrics.read).add(flight->copy.size);
    flight->copy.held.reset();
    flight->mapped.reset();  // before its user hears of the end, and asks after_all() of the unmapping
    flight->aside.reset();
  }
  for (const FlightPtr& flight : untold) std::exchange(flight->copy.ended, nullptr)(how);
}

void Device::leave() {
  if (broken_) return;  // its calls fail, or do not return
  static_cast<void>(call("cuStreamDestroy", [&](const Calls& c) {
    for (void* event : events_) c.event_destroy(event);
    for (void* stream : streams_) c.stream_destroy(stream);
    return locked_ ? c.host_unregister(arena_.data()) : success;
  }));
}

// --- The watch -------------------------------------------------------------------------------------------------------

void Device::watch() {
  const auto period =
      std::clamp<std::chrono::milliseconds>(limit_ / 20, std::chrono::milliseconds(5), std::chrono::milliseconds(100));
  std::unique_lock lock(mutex_);
  while (!end_changed_.wait_for(lock, period, [this] { return ended_; })) {
    if (lost_ || stopping_ || !is_late()) continue;
    lock.unlock();
    lose("a call or copy did not end in time", false);
    lock.lock();
  }
}

// Under the mutex. Copies of both directions are in flight in the order in which they began. A copy is late if it had
// not ended when the thread asked: not if it has ended, and the thread is busy.
bool Device::is_late() {
  const auto now = SteadyClock::now();
  const Deadline called = called_;
  return (called != Deadline{} && now - called > limit_) ||
         (!flying_.empty() && flying_.front()->until < looked_.load());
}

void Device::lose(const std::string& why, bool for_good) {
  {
    const std::lock_guard lock(mutex_);
    broken_ = broken_ || for_good;
    if (!lost_.exchange(true)) {
      DirectMetrics::get().losses.add();
      DirectMetrics::get().lost.add(1);
      log::error("gpudirect: device {} is lost: {}", name(), why);
    }
  }
  tell_all();
}

// Everything that waits fails. Copies in flight keep their memory.
void Device::tell_all() {
  std::deque<FlightPtr> queued;
  std::vector<std::function<void(CopyEnd)>> lost;
  std::vector<Work> refused;
  {
    const std::lock_guard lock(mutex_);
    queued.swap(queued_);
    for (const FlightPtr& flight : flying_) {
      if (std::exchange(flight->told, true)) continue;
      flight->aside = std::make_unique<Aside>(Bytes(flight->copy.host, flight->copy.size));
      lost.push_back(std::exchange(flight->copy.ended, nullptr));
    }
    std::erase_if(work_, [&](Work& work) {
      if (work.refuse == nullptr) return false;
      refused.push_back(std::move(work));
      return true;
    });
  }
  DirectMetrics& metrics = DirectMetrics::get();
  metrics.failed.add(lost.size() + queued.size());
  for (const auto& ended : lost) ended(CopyEnd::lost);
  for (const FlightPtr& flight : queued) {
    flight->copy.held.reset();
    flight->copy.ended(CopyEnd::failed);
  }
  for (const Work& work : refused) work.refuse();
}

void Device::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  tell_all();
}

bool Device::wait_for_end(Deadline until) {
  std::unique_lock lock(mutex_);
  // Of a device that failed it is not known whether its copies still touch the arena.
  return end_changed_.wait_until(lock, until, [this] { return ended_; }) && flying_.empty();
}

// --- Requests --------------------------------------------------------------------------------------------------------

void Device::add(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (work.refuse == nullptr || (!lost_ && !stopping_)) {
      work_.push_back(std::move(work));
      changed_.notify_one();
      return;
    }
  }
  work.refuse();
}

void Device::copy(uint64_t device_address, Copy copy, std::shared_ptr<const void> mapped) {
  auto flight = std::make_shared<Flight>(Flight{device_address, std::move(copy), std::move(mapped)});
  {
    const std::lock_guard lock(mutex_);
    if (!lost_ && !stopping_) {
      queued_.push_back(std::move(flight));
      changed_.notify_one();
      return;
    }
  }
  DirectMetrics::get().failed.add();
  flight->copy.held.reset();
  flight->copy.ended(CopyEnd::failed);
}

void Device::map(Open open, Devices::WhenMapped mapped) {
  auto shared = std::make_shared<Devices::WhenMapped>(std::move(mapped));
  add({.run = [open = std::move(open), shared] { (*shared)(open()); },
       .refuse =
           [this, shared] {
             (*shared)(std::unexpected(Fault{Kind::failed, fmt::format("device {} is lost", name())}));
           }});
}

Outcome<std::shared_ptr<Mapped>> Device::open(const Exported& allocation) {
  IpcHandle handle{};
  std::memcpy(handle.bytes, allocation.handle.data(), sizeof handle.bytes);
  uint64_t address = 0, begin = 0;
  size_t size = 0;
  auto done =
      call("cuIpcOpenMemHandle", [&](const Calls& c) { return c.ipc_open(&address, handle, ipc_lazy_peer_access); });
  if (!done) {
    Fault fault = std::move(done).error();
    fault.kind = Kind::refused;
    return std::unexpected(std::move(fault));
  }
  done = call("cuMemGetAddressRange", [&](const Calls& c) { return c.address_range(&begin, &size, address); });
  // The range may begin before the address: an allocation inside a larger one.
  const bool holds = done && address >= begin && address - begin <= size && allocation.size <= size - (address - begin);
  if (!holds || allocation.size == 0) {
    static_cast<void>(call("cuIpcCloseMemHandle", [&](const Calls& c) { return c.ipc_close(address); }));
    if (!done) return std::unexpected(std::move(done).error());
    return std::unexpected(Fault{Kind::refused, "the allocation is smaller than its owner says"});
  }
  DirectMetrics::get().mapped.add(static_cast<int64_t>(allocation.size));
  return std::make_shared<Mapped>(shared_from_this(), address, allocation.size);
}

// Pieces: a few at a time, as do_work() has it.
void Device::unmap(uint64_t address, std::span<const uint64_t> pieces, std::shared_ptr<const void> held) {
  constexpr size_t at_once = 16;
  uint64_t at = address;
  for (; !pieces.empty(); pieces = pieces.subspan(std::min(at_once, pieces.size()))) {
    const auto some = pieces.first(std::min(at_once, pieces.size()));
    add({.run = [this, at, some = std::vector<uint64_t>(some.begin(), some.end())] { close(at, some); }});
    at += std::accumulate(some.begin(), some.end(), uint64_t{0});
  }
  add({.run = [this, address, size = at - address, held = std::move(held)] {
    if (size != 0) return free_addresses(address, size);
    complain(call("cuIpcCloseMemHandle", [&](const Calls& c) { return c.ipc_close(address); }));
  }});
}

void Device::complain(const Outcome<>& done) const {
  if (!done) log::debug("gpudirect: device {}: {}", name(), done.error().text);
}

std::string Device::name() const { return fmt::format("{}:{}", to_string(driver_.platform()), number_); }

void Device::after_all(std::function<void()> then) { add({.run = then, .refuse = then}); }

}  // namespace verbena::memory::cuda
