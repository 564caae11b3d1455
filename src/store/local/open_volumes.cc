#include "store/local/open_volumes.h"

#include "base/metrics.h"
#include "store/local/volume.h"

namespace verbena::store::local {
namespace {

metrics::Gauge& open_gauge() {
  static auto& gauge = metrics::gauge("verbena_store_open_volumes", "Volumes whose files are open");
  return gauge;
}

}  // namespace

OpenVolumes::~OpenVolumes() { open_gauge().add(-static_cast<int64_t>(by_use_.size())); }

OpenVolumes::Pinned OpenVolumes::find(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, it->second);
  return it->second->volume;
}

OpenVolumes::Pinned OpenVolumes::add(uint64_t id, Pinned volume) {
  std::vector<Pinned> closed;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (const auto it = by_id_.find(id); it != by_id_.end()) return it->second->volume;
  by_use_.push_front({id, volume});
  by_id_.emplace(id, by_use_.begin());
  open_gauge().add(1);
  close_unused_locked(closed);
  return volume;
}

// A volume without other holders has no state to lose: a caller with reserved space or unsynced writes holds it. Copies
// are made under the lock alone, so a count of one stays one.
void OpenVolumes::close_unused_locked(std::vector<Pinned>& closed) {
  for (auto it = by_use_.end(); by_use_.size() > max_ && it != by_use_.begin();) {
    --it;
    if (it->volume.use_count() != 1) continue;
    closed.push_back(std::move(it->volume));
    by_id_.erase(it->id);
    it = by_use_.erase(it);
    open_gauge().add(-1);
  }
}

void OpenVolumes::remove(uint64_t id) {
  Pinned closed;
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  closed = std::move(it->second->volume);
  by_use_.erase(it->second);
  by_id_.erase(it);
  open_gauge().add(-1);
}

}  // namespace verbena::store::local
