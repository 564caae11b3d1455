#include "client/api/device_counts.h"

namespace verbena::client {
namespace {

DeviceCounters::Way* way_of(DeviceCounters& counters, DevicePath path) {
  switch (path) {
    case DevicePath::none:
      return nullptr;
    case DevicePath::staged:
      return &counters.staged;
    case DevicePath::shared:
      return &counters.shared;
    case DevicePath::direct:
      return &counters.direct;
    case DevicePath::peer:
      return &counters.peer;
  }
  return nullptr;
}

}  // namespace

void DeviceCounts::ended(const Outcome<Transfer>& call) {
  const std::lock_guard lock(mutex_);
  if (!call) {
    ++counters_.failed;
    return;
  }
  if (auto* const way = way_of(counters_, call->device_path); way != nullptr) {
    ++way->transfers;
    way->bytes += call->bytes;
  }
  const std::string& reason = call->fell_back_reason;  // of a window it begins with the way (device_direct.cc)
  if (reason.empty()) return;
  uint64_t& kind = reason.starts_with("direct: ") ? counters_.not_direct
                   : reason.starts_with("peer: ") ? counters_.not_peer
                                                  : counters_.other_door;
  ++kind;
}

void DeviceCounts::attempt_failed(DevicePath way) {
  const std::lock_guard lock(mutex_);
  ++(way == DevicePath::direct ? counters_.direct_failed : counters_.peer_failed);
}

void DeviceCounts::verified(DeviceVerified by, uint64_t read_back_bytes) {
  const std::lock_guard lock(mutex_);
  counters_.read_back_bytes += read_back_bytes;
  if (by == DeviceVerified::kernel) ++counters_.verified_kernel;
  if (by == DeviceVerified::read_back) ++counters_.verified_read_back;
  if (by == DeviceVerified::no_checksum) ++counters_.no_checksum;
}

void DeviceCounts::mismatch() {
  const std::lock_guard lock(mutex_);
  ++counters_.mismatches;
}

DeviceCounters DeviceCounts::now() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace verbena::client
