// Blobs that readers hold. A blob that lost its last index record is collected only when no reader holds it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace verbena::store::local {

class Pins {
 public:
  // False when the blob is being collected right now: the caller looks the object up again.
  bool pin(uint64_t blob);
  // True when this was the last pin of a blob that try_collect() had to leave: collect it now.
  bool unpin(uint64_t blob);
  // False when a reader holds the blob (remembered for unpin()). If true, the blob cannot be pinned until collected().
  bool try_collect(uint64_t blob);
  void collected(uint64_t blob);

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, uint32_t> held;
    std::unordered_set<uint64_t> waiting, collecting;
  };
  Shard& shard(uint64_t blob) { return shards_[blob % shards_.size()]; }
  std::array<Shard, 16> shards_;
};

}  // namespace verbena::store::local
