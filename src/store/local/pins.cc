#include "store/local/pins.h"

namespace verbena::store::local {

bool Pins::pin(uint64_t blob) {
  Shard& s = shard(blob);
  std::lock_guard lock(s.mutex);
  if (s.collecting.contains(blob)) return false;
  ++s.held[blob];
  return true;
}

bool Pins::unpin(uint64_t blob) {
  Shard& s = shard(blob);
  std::lock_guard lock(s.mutex);
  auto it = s.held.find(blob);
  if (it == s.held.end() || --it->second != 0) return false;
  s.held.erase(it);
  return s.waiting.erase(blob) != 0;
}

bool Pins::try_collect(uint64_t blob) {
  Shard& s = shard(blob);
  std::lock_guard lock(s.mutex);
  if (s.held.contains(blob)) {
    s.waiting.insert(blob);
    return false;
  }
  s.collecting.insert(blob);
  return true;
}

void Pins::collected(uint64_t blob) {
  Shard& s = shard(blob);
  std::lock_guard lock(s.mutex);
  s.collecting.erase(blob);
}

}  // namespace verbena::store::local
