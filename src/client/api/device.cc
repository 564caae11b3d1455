#include "client/api/device.h"

#include <algorithm>

#include "base/keep.h"

namespace verbena::client {

using memory::cuda::Driver;
using memory::cuda::Fault;
using memory::cuda::Platform;
static_assert(static_cast<uint8_t>(DeviceKind::cuda) == static_cast<uint8_t>(Platform::cuda));
static_assert(static_cast<uint8_t>(DeviceKind::rocm) == static_cast<uint8_t>(Platform::rocm));

std::unexpected<ClientError> fault(Fault fault) {
  ErrorCode code = ErrorCode::local_error;
  switch (fault.kind) {
    case Fault::Kind::absent:
      code = ErrorCode::unsupported;
      break;
    case Fault::Kind::refused:
      code = ErrorCode::invalid_argument;
      break;
    case Fault::Kind::failed:
      code = ErrorCode::local_error;
      break;
    case Fault::Kind::late:
      code = ErrorCode::timed_out;
      break;
    case Fault::Kind::cancelled:
      code = ErrorCode::cancelled;
      break;
  }
  if (code != ErrorCode::cancelled) fault.text.insert(0, "device memory: ");
  return client::fault(code, std::move(fault.text));
}

Outcome<DeviceMemory> device_memory(const DeviceBuffer& given) {
  if (given.kind != DeviceKind::cuda && given.kind != DeviceKind::rocm) {
    return fault(ErrorCode::unsupported, "device memory: cuda and rocm are served");
  }
  if (given.address == 0 || given.size == 0) return fault(ErrorCode::invalid_argument, "no memory to register");
  const auto platform = static_cast<Platform>(given.kind);
  auto driver = Driver::get(platform);
  if (!driver) return fault(std::move(driver).error());
  auto found = (*driver)->cover(given.address, given.size);
  if (!found) return fault(std::move(found).error());
  const int device = found->front().device;
  if (given.device >= 0 && given.device != device) {
    return fault(ErrorCode::invalid_argument, "device memory: it is on device " + std::to_string(device) + ", not on " +
                                                  std::to_string(given.device));
  }
  memory::cuda::GivenDmaBuf dma_buf;
  if (given.dma_buf) {
    auto known = memory::cuda::GivenDmaBuf::of(given.dma_buf->descriptor, given.dma_buf->offset, given.size);
    if (!known) return fault(std::move(known).error());
    dma_buf = std::move(*known);
  }
  const MutableBytes window(reinterpret_cast<std::byte*>(static_cast<uintptr_t>(given.address)), given.size);
  return DeviceMemory{.platform = platform,
                      .device = device,
                      .window = window,
                      .allocations = std::move(*found),
                      .read_only = given.read_only,
                      .stream = given.stream,
                      .peer = std::make_shared<DevicePeer>(std::move(dma_buf))};
}

Outcome<> device_memory_is_there(const DeviceMemory& memory, uint64_t address, size_t size) {
  auto driver = Driver::get(memory.platform);
  if (!driver) return fault(std::move(driver).error());
  auto found = (*driver)->cover(address, size);
  if (!found && found.error().kind != Fault::Kind::refused) return fault(std::move(found).error());
  const auto registered = [&](const memory::cuda::Allocation& one) {
    const auto at = std::ranges::lower_bound(memory.allocations, one.begin, {}, &memory::cuda::Allocation::begin);
    return at != memory.allocations.end() && at->begin == one.begin && at->id == one.id;
  };
  if (found && std::ranges::all_of(*found, registered)) return {};
  return fault(ErrorCode::invalid_argument, "device memory: it was freed after it was registered");
}

Outcome<std::unique_ptr<DeviceLane>> DeviceLanes::take(const DeviceMemory& memory,
                                                       const std::shared_ptr<NativeSession>& session) {
  std::vector<std::unique_ptr<DeviceLane>> old;  // of a session that has ended: freed outside the lock
  std::lock_guard lock(mutex_);
  if (given_up_ >= given_up_max) {
    return fault(ErrorCode::local_error, "device memory: a device did not finish earlier copies");
  }
  for (auto it = spare_.begin(); it != spare_.end();) {
    auto lane = std::move(*it);
    const bool ours = lane->session.lock() == session;
    if (ours && !lane->queue->is_of(memory.platform, memory.device)) {
      *it++ = std::move(lane);
      continue;
    }
    it = spare_.erase(it);
    if (ours) return lane;
    old.push_back(std::move(lane));
  }
  return nullptr;
}

void DeviceLanes::give_up(std::unique_ptr<DeviceLane> lane) {
  keep_until_exit(std::move(lane));
  std::lock_guard lock(mutex_);
  ++given_up_;
}

void DeviceLanes::give_back(std::unique_ptr<DeviceLane> lane) {
  std::lock_guard lock(mutex_);
  if (spare_.size() < spare_max) spare_.push_back(std::move(lane));  // else it is freed after the lock
}

DeviceCopies::~DeviceCopies() {
  if (busy_ && !finish()) {
    // Copies may be running: their memory, and the queue with its marks, stay until the process ends.
    lanes_.give_up(std::move(lane_));
    return;
  }
  end_large();
  if (!failed_) lanes_.give_back(std::move(lane_));
}

Outcome<> DeviceCopies::after(const DeviceMemory& memory, const std::stop_token& stop) {
  if (!memory.stream) return {};
  auto waited = lane_->queue->wait_for_stream(*memory.stream, deadline_in(limit_), stop);
  if (!waited) return fault(std::move(waited).error());
  return {};
}

Outcome<> DeviceCopies::write(uint64_t to, Bytes from) {
  busy_ = true;
  auto queued = lane_->queue->write(to, from);
  if (queued) return {};
  failed_ = true;
  return fault(std::move(queued).error());
}

Outcome<> DeviceCopies::read(MutableBytes into, uint64_t from) {
  busy_ = true;
  auto queued = lane_->queue->read(into, from);
  if (queued) return {};
  failed_ = true;
  return fault(std::move(queued).error());
}

void DeviceCopies::end_large() {
  lane_->large_lock.reset();
  lane_->large = {};
}

Outcome<> DeviceCopies::enlarge(Buffer memory, const std::stop_token& stop) {
  end_large();
  lane_->large = std::move(memory);
  auto locked = memory::cuda::PageLock::take(*lane_->queue, lane_->large.bytes(),
                                             std::make_shared<Buffer>(lane_->large), deadline_in(limit_), stop);
  if (locked) {
    lane_->large_lock = std::move(*locked);
    return {};
  }
  // A refusal costs time alone: the driver copies through memory of its own. One that does not answer would not end.
  if (locked.error().kind == Fault::Kind::failed) return {};
  return fault(std::move(locked).error());
}

// Two pieces in flight.
template <class Copy>
Outcome<> DeviceCopies::in_pieces(size_t size, Copy copy) {
  for (size_t at = 0; at < size; at += DeviceLane::half) {
    const unsigned number = at / DeviceLane::half % 2;
    OUT_TRY(wait(number));
    OUT_TRY(copy(at, std::min(DeviceLane::half, size - at)));
    OUT_TRY(mark(number));
  }
  return {};
}

Outcome<> DeviceCopies::write_large(uint64_t to, Bytes from) {
  return in_pieces(from.size(), [&](size_t at, size_t size) { return write(to + at, from.subspan(at, size)); });
}

Outcome<> DeviceCopies::read_large(MutableBytes into, uint64_t from) {
  return in_pieces(into.size(), [&](size_t at, size_t size) { return read(into.subspan(at, size), from + at); });
}

Outcome<> DeviceCopies::mark(unsigned half) {
  auto marked = lane_->queue->mark(half);
  if (marked) return {};
  failed_ = true;
  return fault(std::move(marked).error());
}

Outcome<> DeviceCopies::wait(unsigned half) {
  auto waited = lane_->queue->wait(half, deadline_in(limit_));
  if (waited) return {};
  failed_ = true;
  limit_ = {};  // its time is over
  return fault(std::move(waited).error());
}

Outcome<> DeviceCopies::finish() {
  if (!busy_) return {};
  OUT_TRY(mark(0));
  OUT_TRY(wait(0));
  busy_ = false;
  return {};
}

}  // namespace verbena::client
