// An object in memory, and the collector that makes one from passing bytes. Internal to store/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/hot_tier.h"
#include "store/store.h"

namespace verbena::store {

// Counts the objects in memory under read leases, one lease epoch (term) after the other. Thread-safe.
class KeptObjects : public std::enable_shared_from_this<KeptObjects> {
 public:
  // Counts one object for as long as the result lives.
  std::shared_ptr<const void> add(uint64_t term);
  uint64_t count(uint64_t term) const;

 private:
  mutable std::mutex mutex_;
  uint64_t term_ = 0, count_ = 0;  // guarded by mutex_
};

// An object's bytes in pieces of piece_size, the last one shorter. Immutable once made.
class HotObject final : public ObjectReader, public cache::Entry, public std::enable_shared_from_this<HotObject> {
 public:
  static constexpr size_t piece_size = ObjectReader::chunk_size_max;
  struct Piece {
    std::shared_ptr<const memory::Lease> lease;
    Bytes bytes;
  };

  HotObject(memory::Arena& arena, ObjectInfo info, std::vector<Piece> pieces);

  size_t held_bytes() const override { return held_bytes_; }
  // Beside the key, for look-ups that need no more: its size, not_hot if it is not plain; and its end.
  cache::Label label() const override {
    return {is_plain_ ? info_.size : Store::not_hot, static_cast<uint64_t>(end_us_)};
  }
  const ObjectInfo& info() const override { return info_; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override;
  memory::Chunk peek(uint64_t offset, uint64_t length) const override;
  Bytes view(uint64_t offset, uint64_t length) const override;
  int64_t end_us() const { return end_us_; }  // ends.h; 0: none
  // Prefetches what kept_in() reads.
  void fetch_kept_in_ahead() const { __builtin_prefetch(&kept_in_); }
  // Prefetches, step by step in this order (with other objects' steps between), what a GET reads of the object.
  void fetch_ahead() const;
  void fetch_ahead_behind() const;
  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override;

  // For engines whose keys other processes change: the lease epoch in which the object is kept (store/shared_keys.h),
  // 0: none; and how often it was found to be current since the last query.
  uint64_t kept_in() const { return kept_in_.load(std::memory_order_acquire); }
  void keep(uint64_t term, KeptObjects& among);
  uint32_t passed_check() { return checks_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void forget_checks() { checks_.store(0, std::memory_order_relaxed); }

 private:
  // The fields that a GET reads come first, in as few cache lines as possible.
  std::atomic<uint64_t> kept_in_{0};
  const Bytes first_;  // of the first piece
  const int64_t end_us_;
  const bool is_plain_;
  const ObjectInfo info_;
  const std::vector<Piece> pieces_;
  memory::Arena& arena_;
  size_t held_bytes_ = 0;
  std::atomic<uint32_t> checks_{0};
  std::mutex keep_mutex_;
  std::shared_ptr<const void> counted_;  // guarded by keep_mutex_
};

// Collects the pieces of an object as they pass, in any order.
class HotPieces {
 public:
  // Larger objects are not collected, nor those for which the tier has no room.
  HotPieces(memory::Arena& arena, std::shared_ptr<cache::HotTier> tier, uint64_t size_max)
      : arena_(arena), fill_(std::move(tier)), size_max_(size_max) {}

  // Takes a chunk of the object at `offset` and returns it for further use, shared from now on. A chunk that is not a
  // whole piece is returned unchanged and ends the collecting, unless `last` says that nothing can follow it.
  memory::Chunk take(memory::Chunk chunk, uint64_t offset, bool last);
  // The object, if exactly its bytes were collected. At most once.
  std::shared_ptr<HotObject> finish(const ObjectInfo& info);
  void give_up();
  bool given_up() const { return given_up_; }

 private:
  HotObject::Piece make_piece(memory::Chunk& chunk);

  memory::Arena& arena_;
  cache::HotTier::Fill fill_;
  const uint64_t size_max_;
  std::vector<HotObject::Piece> pieces_;
  uint64_t taken_ = 0;
  bool given_up_ = false;
};

}  // namespace verbena::store
