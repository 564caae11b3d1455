// The volumes whose files are open: a bounded number, however many the store has. A holder pins its volume; of the
// others the least recently used is closed when another is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace verbena::store::local {

class Volume;

// Thread-safe.
class OpenVolumes {
 public:
  using Pinned = std::shared_ptr<Volume>;
  explicit OpenVolumes(size_t max) : max_(max) {}
  ~OpenVolumes();
  OpenVolumes(const OpenVolumes&) = delete;
  OpenVolumes& operator=(const OpenVolumes&) = delete;

  Pinned find(uint64_t id);  // null: not open
  // Another thread may have opened the same volume meanwhile: the caller uses the returned one.
  Pinned add(uint64_t id, Pinned volume);
  void remove(uint64_t id);

 private:
  struct Entry {
    uint64_t id = 0;
    Pinned volume;
  };
  void close_unused_locked(std::vector<Pinned>& closed);

  const size_t max_;
  std::mutex mutex_;
  std::list<Entry> by_use_;  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_id_;
};

}  // namespace verbena::store::local
