// A cache of objects in registered memory. Thread-safe; a hit takes one short lock on a sixteenth of the keys.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/quick_mutex.h"
#include "cache/entry.h"
#include "cache/hash_index.h"
#include "cache/key_run.h"
#include "cache/node.h"

namespace verbena::cache {

class HotTier : public std::enable_shared_from_this<HotTier> {
 public:
  struct Options {
    size_t capacity = 0;  // bytes
  };
  static std::shared_ptr<HotTier> create(Options options);
  ~HotTier();
  HotTier(const HotTier&) = delete;

  // The entry, or null. Counts as use.
  EntryPtr find(Key key);
  // find() for many keys, which waits for memory once for all of them.
  struct Lookup {
    Key key;
    EntryPtr found{};
    uint64_t hash = 0;
  };
  void find_many(std::span<Lookup> lookups);
  // find() for a run of names, whose entries are shown to a visitor and not held: while their shard is locked, so it
  // does no more than read.
  struct Shown {
    size_t index;  // of the name in the run
    const Node* node;
  };
  class Visitor {
   public:
    // Some of them, in any order. Reading the label costs no wait for memory; reading the entry does.
    virtual void visit(std::span<const Shown> shown) = 0;

   protected:
    ~Visitor() = default;
  };
  void glance(const KeyRun& keys, Visitor& visitor);
  static void count_hit(size_t hits = 1);
  // Called once for each object that had to be read from the engine: a door may look it up several times before that.
  static void count_miss();

  // forget() begins a bucket's next generation.
  using Generation = cache::Generation;
  // Made before an object is looked up in the engine; insert() accepts the object only if its key has not changed
  // since.
  struct FillToken {
    uint64_t hash = 0;
    Generation generation;
    uint32_t epoch = 0;
    bool valid = false;
  };
  FillToken fill_token(Key key);
  void insert(const FillToken& token, Key key, EntryPtr entry);

  // A change of a key, from before the engine makes it until it is made or has failed. Drops the entry at once.
  class Change {
   public:
    Change(Change&& other) noexcept = default;
    Change& operator=(Change&&) = delete;
    ~Change() { end(nullptr); }
    // The change was made and this is the new object: cached, unless another change came in between.
    void publish(EntryPtr entry) { end(std::move(entry)); }

   private:
    friend class HotTier;
    Change(std::shared_ptr<HotTier> tier, Key key);
    void end(EntryPtr entry);
    std::shared_ptr<HotTier> tier_;  // null: ended
    std::string bucket_, name_;
    FillToken token_;
  };
  Change change(Key key);

  // Removals of keys of one bucket, likewise: from before the engine makes them until they are made or have failed.
  class Removals {
   public:
    Removals(Removals&& other) noexcept = default;
    Removals& operator=(Removals&&) = delete;
    ~Removals();

   private:
    friend class HotTier;
    Removals(std::shared_ptr<HotTier> tier, std::string_view bucket, std::span<const std::string_view> names);
    std::shared_ptr<HotTier> tier_;
    std::vector<uint64_t> hashes_;
  };
  Removals removals(std::string_view bucket, std::span<const std::string_view> names);

  // The memory of objects that are still being read into the tier. Together at most a quarter of the capacity, since it
  // cannot be evicted; per payer (memory::Charge) at most a quarter of that, or 64 MiB if that is more and no more than
  // half: clients decide how long it takes.
  class Fill {
   public:
    explicit Fill(std::shared_ptr<HotTier> tier) : tier_(std::move(tier)) {}
    Fill(Fill&& other) noexcept
        : tier_(std::move(other.tier_)),
          payer_(std::exchange(other.payer_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          paid_(std::exchange(other.paid_, 0)) {}
    Fill& operator=(Fill&&) = delete;
    ~Fill() { release(); }
    // `payer`: of the fill's first bytes that have one; null: none. False: too much is being filled, and this fill must
    // be released.
    bool add(size_t bytes, const void* payer = nullptr);
    void release();

   private:
    bool pay(size_t bytes, const void* payer);
    std::shared_ptr<HotTier> tier_;
    const void* payer_ = nullptr;
    size_t bytes_ = 0, paid_ = 0;
  };

  // Drops the entry; a fill in progress may still add it.
  void drop(Key key);

  // Hides all entries of the bucket, and rejects objects of it that were read or changed before this call. Their memory
  // is freed when room is needed. Costs the same for any number of entries, since any user may own a bucket.
  void forget(std::string_view bucket);
  void forget_all();

  // Frees at least `bytes` if there are as many, the least valuable first. Returns how many.
  size_t shed(size_t bytes);

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t capacity() const { return options_.capacity; }
  size_t entries() const;

 private:
  static constexpr unsigned shard_bits = 4;  // of a hash
  static constexpr size_t shard_count = 1 << shard_bits;
  static constexpr size_t slot_count = 256;
  static constexpr size_t generation_slots = 16384;
  static constexpr uint8_t uses_max = 3;

  // Changes of all keys that share a slot are counted together, at the cost of a fill refused now and then.
  struct Slot {
    uint32_t epoch = 0;
    uint32_t changing = 0;
  };
  struct Shard {
    mutable QuickMutex mutex;
    HashIndex<Node*, shard_bits> index;
    NodeQueue small, main;
    size_t small_bytes = 0, main_bytes = 0;
    // Hashes recently evicted from the small queue: an object that comes back goes into the main queue.
    std::deque<uint64_t> ghosts;
    std::unordered_map<uint64_t, uint32_t> ghost_count;
    std::array<Slot, slot_count> slots;
  };
  using Victims = std::vector<EntryPtr>;  // freed when no lock is held

  explicit HotTier(Options options);
  uint64_t salt(std::string_view bucket) const;
  void hash_key(uint64_t salt, std::byte (&key)[16]) const;
  uint64_t hash(uint64_t salt, std::string_view name) const;
  void hash_run(const KeyRun& keys, uint64_t salt, std::span<uint64_t> hashes) const;
  uint64_t hash(Key key) const { return hash(salt(key.bucket), key.name); }
  Generation generation_of(uint64_t salt) const;
  FillToken token_without_epoch(Key key) const;
  bool is_current(Generation generation) const {
    return generations_[generation.slot].load(std::memory_order_acquire) == generation.number;
  }
  // Whether a look-up of the key finds this node, which counts as use.
  bool use(Node& node, Key key) const {
    if (!node.is(key) || !is_current(node.generation)) return false;
    if (node.uses < uses_max) ++node.uses;
    return true;
  }
  class Glance;
  EntryPtr find(Key key, uint64_t hash);
  Shard& shard(uint64_t hash) { return shards_[hash % shard_count]; }
  static Slot& slot(Shard& shard, uint64_t hash) { return shard.slots[hash / shard_count % slot_count]; }
  void begin_change(Key key, FillToken& token);
  uint32_t begin_change(Shard& shard, uint64_t hash, Victims& victims);
  void end_change(const FillToken& token, Key key, EntryPtr entry);
  void place(Shard& shard, const FillToken& token, Key key, EntryPtr entry, Victims& victims);
  void remove(Shard& shard, Node& node, Victims& victims);
  void remember(Shard& shard, uint64_t hash);
  bool evict_one(Shard& shard, Victims& victims);
  size_t evict_until(size_t bytes_max);

  const Options options_;
  std::byte secret_[16];
  std::array<Shard, shard_count> shards_;
  // Generations of buckets, many of which share one: forgetting a bucket also forgets those.
  std::array<std::atomic<uint32_t>, generation_slots> generations_{};
  std::atomic<size_t> bytes_{0};
  std::atomic<size_t> filling_{0};
  std::mutex payers_mutex_;
  std::unordered_map<const void*, size_t> payers_;  // bytes of filling_ per payer
  std::atomic<size_t> next_shard_{0};
};

}  // namespace verbena::cache
