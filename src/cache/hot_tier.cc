#include "cache/hot_tier.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/metrics.h"
#include "base/siphash.h"

namespace verbena::cache {
namespace {

constexpr uint8_t uses_to_stay = 1;  // uses in the small queue that move an entry to the main one
constexpr size_t small_share = 10;   // the small queue's intended part of the bytes: a tenth
constexpr size_t ghosts_min = 64;
constexpr unsigned chances_max = 256;  // second chances of one call: a shard's lock is held for so long

struct Meters {
  metrics::Counter& hits = metrics::counter("verbena_cache_hits_total", "Objects found in the hot tier");
  metrics::Counter& misses = metrics::counter("verbena_cache_misses_total", "Objects not found in the hot tier");
  metrics::Counter& inserts = metrics::counter("verbena_cache_inserts_total", "Objects added to the hot tier");
  metrics::Counter& evictions = metrics::counter("verbena_cache_evictions_total", "Objects that had to make room");
  metrics::Counter& stale = metrics::counter("verbena_cache_stale_fills_total",
                                             "Objects not added because their key changed while they were read");
  metrics::Gauge& bytes = metrics::gauge("verbena_cache_bytes", "Bytes of registered memory in the hot tier");
  metrics::Gauge& entries = metrics::gauge("verbena_cache_entries", "Objects in the hot tier");
};

Meters& meters() {
  static Meters all;
  return all;
}

}  // namespace

std::shared_ptr<HotTier> HotTier::create(Options options) { return std::shared_ptr<HotTier>(new HotTier(options)); }

HotTier::HotTier(Options options) : options_(options) { fill_random(secret_); }

HotTier::~HotTier() { evict_until(0); }

// Keyed: a client that chooses names must not be able to choose their shard and slot.
uint64_t HotTier::salt(std::string_view bucket) const { return siphash13(secret_, as_bytes(bucket)); }

// The salt is half of the bucket's own key: look-ups of many names of one bucket compute it once.
void HotTier::hash_key(uint64_t salt, std::byte (&key)[16]) const {
  std::memcpy(key, &salt, sizeof salt);
  std::memcpy(key + sizeof salt, secret_ + sizeof salt, sizeof secret_ - sizeof salt);
}

uint64_t HotTier::hash(uint64_t salt, std::string_view name) const {
  std::byte key[sizeof secret_];
  hash_key(salt, key);
  return siphash13(key, as_bytes(name));
}

HotTier::Generation HotTier::generation_of(uint64_t salt) const {
  const auto slot = static_cast<uint16_t>(salt % generation_slots);
  return {slot, generations_[slot].load(std::memory_order_acquire)};
}

EntryPtr HotTier::find(Key key) { return find(key, hash(key)); }

EntryPtr HotTier::find(Key key, uint64_t h) {
  Shard& s = shard(h);
  const std::lock_guard lock(s.mutex);
  Node* const node = s.index.find(h);
  return node != nullptr && use(*node, key) ? node->entry : nullptr;
}

void HotTier::find_many(std::span<Lookup> lookups) {
  std::string_view bucket;
  uint64_t its_salt = 0;
  for (Lookup& one : lookups) {
    const std::string_view its = one.key.bucket;
    if (&one == lookups.data() || its.data() != bucket.data() || its.size() != bucket.size()) {
      bucket = its;
      its_salt = salt(bucket);
    }
    one.hash = hash(its_salt, one.key.name);
    shard(one.hash).index.fetch_ahead(one.hash);
  }
  for (const Lookup& one : lookups) {
    Shard& s = shard(one.hash);
    const std::lock_guard lock(s.mutex);
    const Node* const node = s.index.find(one.hash);
    if (node != nullptr) node->fetch_ahead(Node::lines_of(one.key));
  }
  for (Lookup& one : lookups) one.found = find(one.key, one.hash);
}

void HotTier::count_hit(size_t hits) { meters().hits.add(hits); }

void HotTier::count_miss() { meters().misses.add(); }

HotTier::FillToken HotTier::token_without_epoch(Key key) const {
  const uint64_t its_salt = salt(key.bucket);
  return {.hash = hash(its_salt, key.name), .generation = generation_of(its_salt)};
}

HotTier::FillToken HotTier::fill_token(Key key) {
  FillToken token = token_without_epoch(key);
  Shard& s = shard(token.hash);
  const std::lock_guard lock(s.mutex);
  const Slot& state = slot(s, token.hash);
  token.epoch = state.epoch;
  token.valid = state.changing == 0;
  return token;
}

void HotTier::insert(const FillToken& token, Key key, EntryPtr entry) {
  Victims victims;
  Shard& s = shard(token.hash);
  {
    const std::lock_guard lock(s.mutex);
    const Slot& state = slot(s, token.hash);
    const bool is_stale = state.changing != 0 || state.epoch != token.epoch || !is_current(token.generation);
    if (!token.valid || is_stale) return meters().stale.add();
    place(s, token, key, std::move(entry), victims);
  }
  victims.clear();
  evict_until(options_.capacity);
}

bool HotTier::Fill::pay(size_t bytes, const void* payer) {
  constexpr size_t enough = 64 * MiB;
  if (payer_ == nullptr) payer_ = payer;
  if (payer_ == nullptr) return true;
  const size_t all = tier_->options_.capacity / 4, most = std::max(all / 4, std::min(all / 2, enough));
  const std::lock_guard lock(tier_->payers_mutex_);
  size_t& held = tier_->payers_[payer_];
  if (held + bytes > most) {
    if (held == 0) tier_->payers_.erase(payer_);
    return false;
  }
  held += bytes;
  paid_ += bytes;
  return true;
}

bool HotTier::Fill::add(size_t bytes, const void* payer) {
  if (tier_ == nullptr) return false;
  if (tier_->filling_.fetch_add(bytes, std::memory_order_relaxed) + bytes > tier_->options_.capacity / 4) {
    tier_->filling_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  bytes_ += bytes;
  return pay(bytes, payer);
}

void HotTier::Fill::release() {
  if (paid_ != 0) {
    const std::lock_guard lock(tier_->payers_mutex_);
    const auto held = tier_->payers_.find(payer_);
    held->second -= std::exchange(paid_, 0);
    if (held->second == 0) tier_->payers_.erase(held);
  }
  if (bytes_ != 0) tier_->filling_.fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
}

HotTier::Change::Change(std::shared_ptr<HotTier> tier, Key key)
    : tier_(std::move(tier)), bucket_(key.bucket), name_(key.name) {
  tier_->begin_change({bucket_, name_}, token_);
}

void HotTier::Change::end(EntryPtr entry) {
  if (auto tier = std::move(tier_)) tier->end_change(token_, {bucket_, name_}, std::move(entry));
}

HotTier::Change HotTier::change(Key key) { return {shared_from_this(), key}; }

void HotTier::begin_change(Key key, FillToken& token) {
  Victims victims;
  token = token_without_epoch(key);
  Shard& s = shard(token.hash);
  const std::lock_guard lock(s.mutex);
  token.epoch = begin_change(s, token.hash, victims);
}

// Returns its epoch. Drops the entry.
uint32_t HotTier::begin_change(Shard& s, uint64_t h, Victims& victims) {
  Slot& state = slot(s, h);
  ++state.changing;
  if (Node* const found = s.index.find(h)) remove(s, *found, victims);
  return ++state.epoch;
}

HotTier::Removals HotTier::removals(std::string_view bucket, std::span<const std::string_view> names) {
  return {shared_from_this(), bucket, names};
}

HotTier::Removals::Removals(std::shared_ptr<HotTier> tier, std::string_view bucket,
                            std::span<const std::string_view> names)
    : tier_(std::move(tier)) {
  const uint64_t its_salt = tier_->salt(bucket);
  hashes_.reserve(names.size());
  for (const std::string_view name : names) {
    hashes_.push_back(tier_->hash(its_salt, name));
    tier_->shard(hashes_.back()).index.fetch_ahead(hashes_.back());
  }
  Victims victims;
  for (const uint64_t h : hashes_) {
    Shard& s = tier_->shard(h);
    const std::lock_guard lock(s.mutex);
    tier_->begin_change(s, h, victims);
  }
}

HotTier::Removals::~Removals() {
  if (tier_ == nullptr) return;
  for (const uint64_t h : hashes_) {
    Shard& s = tier_->shard(h);
    const std::lock_guard lock(s.mutex);
    Slot& state = slot(s, h);
    --state.changing;
    ++state.epoch;
  }
}

void HotTier::end_change(const FillToken& token, Key key, EntryPtr entry) {
  Victims victims;
  Shard& s = shard(token.hash);
  {
    const std::lock_guard lock(s.mutex);
    Slot& state = slot(s, token.hash);
    --state.changing;
    // If no change began or ended since ours began, ours is the last.
    const bool last = state.epoch == token.epoch && state.changing == 0 && is_current(token.generation);
    ++state.epoch;
    if (entry != nullptr && last) place(s, token, key, std::move(entry), victims);
  }
  victims.clear();
  evict_until(options_.capacity);
}

// Adds the entry as the newest of the small queue; of the main one if it was evicted recently.
void HotTier::place(Shard& s, const FillToken& token, Key key, EntryPtr entry, Victims& victims) {
  const uint64_t h = token.hash;
  const size_t held_bytes = entry->held_bytes();
  if (held_bytes > options_.capacity || !Node::holds(key)) return;
  if (Node* const found = s.index.find(h)) remove(s, *found, victims);
  NodePtr node = Node::make(h, key, std::move(entry), token.generation);
  node->main = s.ghost_count.contains(h);
  (node->main ? s.main_bytes : s.small_bytes) += held_bytes;
  s.index.assign(h, node.get());
  (node->main ? s.main : s.small).add(std::move(node));
  bytes_.fetch_add(held_bytes, std::memory_order_relaxed);
  meters().inserts.add();
  meters().bytes.add(static_cast<int64_t>(held_bytes));
  meters().entries.add(1);
}

void HotTier::remove(Shard& s, Node& node, Victims& victims) {
  const NodePtr taken = (node.main ? s.main : s.small).take(node);
  (node.main ? s.main_bytes : s.small_bytes) -= node.held_bytes;
  bytes_.fetch_sub(node.held_bytes, std::memory_order_relaxed);
  meters().bytes.add(-static_cast<int64_t>(node.held_bytes));
  meters().entries.add(-1);
  s.index.erase(node.hash);
  victims.push_back(std::move(node.entry));
}

void HotTier::remember(Shard& s, uint64_t h) {
  s.ghosts.push_back(h);
  ++s.ghost_count[h];
  const size_t most = std::max(ghosts_min, s.index.size());
  while (s.ghosts.size() > most) {
    const auto oldest = s.ghost_count.find(s.ghosts.front());
    if (--oldest->second == 0) s.ghost_count.erase(oldest);
    s.ghosts.pop_front();
  }
}

// Evicts one entry; on the way others, which were used, move to the main queue or to its end, but no more than
// chances_max. False: there is none.
bool HotTier::evict_one(Shard& s, Victims& victims) {
  for (unsigned chances = 0;; ++chances) {
    const bool no_more = chances == chances_max;
    const bool from_small =
        !s.small.empty() && (s.main.empty() || s.small_bytes * small_share >= s.small_bytes + s.main_bytes);
    if (from_small) {
      Node& node = s.small.oldest();
      const bool is_forgotten = !is_current(node.generation);
      if (node.uses < uses_to_stay || is_forgotten || no_more) {
        if (!is_forgotten) remember(s, node.hash);
        remove(s, node, victims);
        return true;
      }
      s.small_bytes -= node.held_bytes;
      s.main_bytes += node.held_bytes;
      node.uses = 0;
      node.main = true;
      s.main.add(s.small.take(node));
      continue;
    }
    if (s.main.empty()) return false;
    Node& node = s.main.oldest();
    if (node.uses == 0 || !is_current(node.generation) || no_more) {
      remove(s, node, victims);
      return true;
    }
    --node.uses;
    s.main.add(s.main.take(node));
  }
}

// Evicts from shards that exceed their share, so that none pays for another's growth. Returns the bytes freed.
size_t HotTier::evict_until(size_t bytes_max) {
  const size_t share = bytes_max / shard_count;
  size_t freed = 0;
  for (size_t spared = 0; bytes() > bytes_max && spared < shard_count;) {
    Victims victims;
    Shard& s = shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) % shard_count];
    {
      const std::lock_guard lock(s.mutex);
      const bool more = s.small_bytes + s.main_bytes > share;
      spared = more && evict_one(s, victims) ? 0 : spared + 1;
    }
    for (const auto& victim : victims) freed += victim->held_bytes();
    meters().evictions.add(victims.size());
  }
  return freed;
}

void HotTier::drop(Key key) {
  Victims victims;
  const uint64_t h = hash(key);
  Shard& s = shard(h);
  const std::lock_guard lock(s.mutex);
  if (Node* const found = s.index.find(h)) remove(s, *found, victims);
}

void HotTier::forget(std::string_view bucket) {
  generations_[generation_of(salt(bucket)).slot].fetch_add(1, std::memory_order_acq_rel);
}

void HotTier::forget_all() {
  for (auto& generation : generations_) generation.fetch_add(1, std::memory_order_acq_rel);
}

size_t HotTier::shed(size_t wanted) {
  const size_t now = bytes();
  return evict_until(now > wanted ? now - wanted : 0);
}

size_t HotTier::entries() const {
  size_t count = 0;
  for (const auto& s : shards_) {
    const std::lock_guard lock(s.mutex);
    count += s.index.size();
  }
  return count;
}

}  // namespace verbena::cache
