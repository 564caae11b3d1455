// Objects that a device, a driver or a thread that does not answer may still use: they stay until the process ends.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace verbena {

// What a std::unique_ptr or std::shared_ptr owns is never destroyed, and known to a leak checker. Thread-safe.
template <class Owner>
void keep_until_exit(Owner what) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::vector<Owner>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(what));
}

}  // namespace verbena
