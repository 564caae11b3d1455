// Look-ups of many names that hold nothing: each shard is locked once for all of its names, and what their look-ups
// touch is fetched ahead in steps, so that the processor waits for memory once for a group.
#include <algorithm>
#include <array>

#include "base/siphash_run.h"
#include "cache/hot_tier.h"

namespace verbena::cache {

void HotTier::hash_run(const KeyRun& keys, uint64_t salt, std::span<uint64_t> hashes) const {
  std::byte key[sizeof secret_];
  hash_key(salt, key);
  const std::string_view names(keys.names, keys.count * keys.size);
  siphash13_run(key, as_bytes(names), keys.size, keys.shared, hashes.first(keys.count));
}

void HotTier::glance(const KeyRun& keys, Visitor& visitor) {
  std::array<uint64_t, KeyRun::count_max> hashes;
  hash_run(keys, salt(keys.bucket), hashes);
  std::array<uint8_t, shard_count + 1> begins{};  // of each shard's names in `order`
  for (size_t i = 0; i < keys.count; ++i) {
    shard(hashes[i]).index.fetch_ahead(hashes[i]);
    ++begins[hashes[i] % shard_count + 1];
  }
  for (size_t i = 0; i < shard_count; ++i) begins[i + 1] = static_cast<uint8_t>(begins[i + 1] + begins[i]);
  std::array<uint8_t, KeyRun::count_max> order;
  std::array<uint8_t, shard_count> next;
  std::copy_n(begins.begin(), shard_count, next.begin());
  for (size_t i = 0; i < keys.count; ++i) order[next[hashes[i] % shard_count]++] = static_cast<uint8_t>(i);
  for (size_t i = 0; i < shard_count; ++i) {
    const auto its = std::span(order).subspan(begins[i], static_cast<size_t>(begins[i + 1] - begins[i]));
    if (!its.empty()) glance_at(shards_[i], keys, hashes, its, visitor);
  }
}

void HotTier::glance_at(Shard& s, const KeyRun& keys, std::span<const uint64_t> hashes, std::span<const uint8_t> places,
                        Visitor& visitor) {
  std::array<Node*, KeyRun::count_max> nodes;
  const std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto* const found = s.index.find(hashes[places[i]]);
    nodes[i] = found == nullptr ? nullptr : &**found;
    if (nodes[i] == nullptr) continue;
    __builtin_prefetch(nodes[i]);
    __builtin_prefetch(reinterpret_cast<const char*>(nodes[i]) + 64);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (nodes[i] == nullptr) continue;
    __builtin_prefetch(nodes[i]->name.data());
    __builtin_prefetch(nodes[i]->name.data() + 64);
    visitor.fetch_ahead(*nodes[i]->entry);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (nodes[i] == nullptr) continue;
    Node& node = *nodes[i];
    if (node.name != keys.at(places[i]) || node.bucket != keys.bucket || !is_current(node.generation)) continue;
    if (node.uses < uses_max) ++node.uses;
    visitor.visit(places[i], *node.entry);
  }
}

}  // namespace verbena::cache
