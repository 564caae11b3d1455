// What a client's transfers to and from devices were: the numbers of DeviceCounters. Thread-safe.
#pragma once

#include <mutex>

#include "verbena/client.h"

namespace verbena::client {

class DeviceCounts {
 public:
  void ended(const Outcome<Transfer>& call);
  void attempt_failed(DevicePath way);
  void verified(DeviceVerified by, uint64_t read_back_bytes);
  void mismatch();
  DeviceCounters now() const;

 private:
  mutable std::mutex mutex_;
  DeviceCounters counters_;
};

}  // namespace verbena::client
