// An object in memory, and one that is on its way there. Internal to store/.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/hot_tier.h"
#include "store/store.h"

namespace verbena::store {

// Objects in memory that are kept, in one term after the other. Thread-safe.
class KeptObjects : public std::enable_shared_from_this<KeptObjects> {
 public:
  // One of them, as long as that lives.
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
  const ObjectInfo& info() const override { return info_; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override;
  memory::Chunk peek(uint64_t offset, uint64_t length) const override;
  Bytes view(uint64_t offset, uint64_t length) const override;
  // In this order, with others' calls between, brings what a GET reads of it nearer to the processor.
  void fetch_ahead() const;
  void fetch_ahead_behind() const;
  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override;

  // Of an engine whose keys others change, too: the term in which the object is kept (store/shared_keys.h), 0: it is
  // not; and how often it was found to be the current one since that was last asked for.
  uint64_t kept_in() const { return kept_in_.load(std::memory_order_acquire); }
  void keep(uint64_t term, KeptObjects& among);
  uint32_t passed_check() { return checks_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void forget_checks() { checks_.store(0, std::memory_order_relaxed); }

 private:
  // What a GET looks at comes first, in as few of the processor's lines as it fits.
  std::atomic<uint64_t> kept_in_{0};
  const Bytes first_;  // of the first piece
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
  // Larger objects are not collected, nor what the tier has no room for on its way.
  HotPieces(memory::Arena& arena, std::shared_ptr<cache::HotTier> tier, uint64_t size_max)
      : arena_(arena), fill_(std::move(tier)), size_max_(size_max) {}

  // Takes a chunk that lies at `offset` and gives it back to be used further, shared from now on. A chunk that is no
  // piece is given back as it came, and ends the collecting unless `last` says that nothing can follow it.
  memory::Chunk take(memory::Chunk chunk, uint64_t offset, bool last);
  // The object, when exactly its bytes were taken. At most once.
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
