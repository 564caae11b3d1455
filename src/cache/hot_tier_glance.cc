// Look-ups of many names that hold nothing. Each shard is locked once for all of its names. What their look-ups read is
// fetched ahead in steps: the places in the table of all names at once, and the nodes of one shard while those of the
// shard before are compared. So the processor waits for memory seldom, and never for one name alone.
#include <algorithm>
#include <array>
#include <mutex>

#include "base/siphash_run.h"
#include "cache/hot_tier.h"

namespace verbena::cache {

void HotTier::hash_run(const KeyRun& keys, uint64_t salt, std::span<uint64_t> hashes) const {
  std::byte key[sizeof secret_];
  hash_key(salt, key);
  const std::string_view names(keys.names, keys.count * keys.size);
  siphash13_run(key, as_bytes(names), keys.size, keys.shared, hashes.first(keys.count));
}

class HotTier::Glance {
 public:
  Glance(HotTier& tier, const KeyRun& keys, Visitor& visitor) : tier_(tier), keys_(keys), visitor_(visitor) {
    tier_.hash_run(keys_, tier_.salt(keys_.bucket), hashes_);
  }

  // Two shards are locked at a time, in their order.
  void run() {
    sort();
    std::unique_lock<QuickMutex> held;  // of the shard whose nodes were fetched last
    size_t fetched = 0;
    for (size_t i = 0; i < shard_count; ++i) {
      if (begins_[i] == begins_[i + 1]) continue;
      std::unique_lock lock(tier_.shards_[i].mutex);
      fetch_ahead(i);
      if (held) show(fetched);
      held = std::move(lock);
      fetched = i;
    }
    if (held) show(fetched);
  }

 private:
  // By shard; the order within one is kept.
  void sort() {
    for (size_t i = 0; i < keys_.count; ++i) {
      tier_.shard(hashes_[i]).index.fetch_ahead(hashes_[i]);
      ++begins_[hashes_[i] % shard_count + 1];
    }
    for (size_t i = 0; i < shard_count; ++i) begins_[i + 1] = static_cast<uint8_t>(begins_[i + 1] + begins_[i]);
    std::array<uint8_t, shard_count> next;
    std::copy_n(begins_.begin(), shard_count, next.begin());
    for (size_t i = 0; i < keys_.count; ++i) order_[next[hashes_[i] % shard_count]++] = static_cast<uint8_t>(i);
  }

  void fetch_ahead(size_t shard) {
    const auto& index = tier_.shards_[shard].index;
    for (size_t at = begins_[shard], end = begins_[shard + 1]; at < end; ++at) {
      Node* const node = index.find(hashes_[order_[at]]);
      if (node != nullptr) node->fetch_names_ahead(lines_);
      nodes_[at] = node;
    }
  }

  void show(size_t shard) {
    std::array<Shown, KeyRun::count_max> shown;
    size_t count = 0;
    for (size_t at = begins_[shard], end = begins_[shard + 1]; at < end; ++at) {
      const size_t i = order_[at];
      Node* const node = nodes_[at];
      if (node == nullptr || !tier_.use(*node, {keys_.bucket, keys_.at(i)})) continue;
      shown[count++] = {i, node};
    }
    if (count != 0) visitor_.visit(std::span(shown).first(count));
  }

  HotTier& tier_;
  const KeyRun& keys_;
  Visitor& visitor_;
  const size_t lines_ = Node::lines_of({keys_.bucket, {keys_.names, keys_.size}});  // of each node
  std::array<uint64_t, KeyRun::count_max> hashes_;
  std::array<uint8_t, KeyRun::count_max> order_;   // names by shard
  std::array<Node*, KeyRun::count_max> nodes_;     // in that order
  std::array<uint8_t, shard_count + 1> begins_{};  // of each shard in `order_`
};

void HotTier::glance(const KeyRun& keys, Visitor& visitor) { Glance(*this, keys, visitor).run(); }

}  // namespace verbena::cache
