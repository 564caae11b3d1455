// Keys that a client has pinned for some time (a lease of the native door): an eviction passes over them. Counted by a
// 64-bit hash of the name, so two keys may share a count; then one is spared an eviction that it would not have been,
// which is harmless as long as it is chance: the hash has a secret of the process, so that clients cannot choose names
// that meet. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/bytes.h"
#include "base/siphash.h"

namespace verbena::store {

class KeyPins {
 public:
  // Of a key's name, with the secret of this process.
  static uint64_t hash(std::string_view bucket, std::string_view key) {
    static const Secret secret;
    std::string name;
    name.reserve(bucket.size() + 1 + key.size());
    name.append(bucket).append("/").append(key);
    return siphash13(secret.bytes, as_bytes(name));
  }
  // Those of the process: leases are of its doors, and evictions of its engines.
  static KeyPins& get() {
    static KeyPins pins;
    return pins;
  }

  void pin(std::string_view bucket, std::string_view key) {
    const uint64_t name = hash(bucket, key);
    Shard& shard = shard_of(name);
    const std::lock_guard lock(shard.mutex);
    ++shard.counts[name];
    all_.fetch_add(1, std::memory_order_relaxed);
  }
  // Once for each pin().
  void unpin(std::string_view bucket, std::string_view key) {
    const uint64_t name = hash(bucket, key);
    Shard& shard = shard_of(name);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.counts.find(name);
    if (found == shard.counts.end()) return;
    if (--found->second == 0) shard.counts.erase(found);
    all_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool is_pinned(std::string_view bucket, std::string_view key) const {
    if (all_.load(std::memory_order_relaxed) == 0) return false;
    const uint64_t name = hash(bucket, key);
    const Shard& shard = shard_of(name);
    const std::lock_guard lock(shard.mutex);
    return shard.counts.contains(name);
  }
  uint64_t count() const { return all_.load(std::memory_order_relaxed); }  // of pins

 private:
  struct Secret {
    Secret() { fill_random(bytes); }
    std::byte bytes[16];
  };
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<uint64_t, uint64_t> counts;
  };
  static constexpr size_t shards = 16;

  Shard& shard_of(uint64_t name) { return shards_[name >> 60]; }
  const Shard& shard_of(uint64_t name) const { return shards_[name >> 60]; }

  std::array<Shard, shards> shards_;
  std::atomic<uint64_t> all_{0};
};

}  // namespace verbena::store
