// A table of values by 64-bit hashes that clients cannot choose (SipHash with a secret): open addressing, linear
// probing, at most half full, so that a look-up seldom meets another's place. Unlike std::unordered_map it can prefetch
// the place of a look-up, so that a batch of look-ups does not wait for memory once for each. Not thread-safe, except
// fetch_ahead().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace verbena::cache {

// `Value` is cheap to copy, and Value{} is none. The lowest `ignored_bits` of hashes may be equal in a whole table.
template <class Value, unsigned ignored_bits = 0>
class HashIndex {
 public:
  size_t size() const { return size_; }

  // Value{}: there is none.
  Value find(uint64_t hash) const { return slots_[probe(hash)].value; }

  void assign(uint64_t hash, Value value) {
    if ((size_ + 1) * 2 > capacity()) grow();
    Slot& slot = slots_[probe(hash)];
    size_ += slot.used() ? 0 : 1;
    slot = {hash, std::move(value)};
  }

  void erase(uint64_t hash) {
    size_t at = probe(hash);
    if (!slots_[at].used()) return;
    --size_;
    // Entries behind the gap that probing would no longer find move up.
    for (size_t other = next(at); slots_[other].used(); other = next(other)) {
      const size_t home = place(slots_[other].hash);
      if (((other - home) & mask_) < ((other - at) & mask_)) continue;
      slots_[at] = std::move(slots_[other]);
      at = other;
    }
    slots_[at] = {};
  }

  // Prefetches the slot of `hash`. From any thread at any time: a hint.
  void fetch_ahead(uint64_t hash) const {
    const Slot* const slots = shown_slots_.load(std::memory_order_relaxed);
    const size_t mask = shown_mask_.load(std::memory_order_relaxed);
    __builtin_prefetch(slots + ((hash >> ignored_bits) & mask));
  }

 private:
  static constexpr size_t capacity_min = 16;
  struct Slot {
    uint64_t hash = 0;
    Value value{};
    bool used() const { return value != Value{}; }
  };

  size_t capacity() const { return mask_ + 1; }
  size_t place(uint64_t hash) const { return (hash >> ignored_bits) & mask_; }
  size_t next(size_t at) const { return (at + 1) & mask_; }
  // The slot of `hash`, or a free one for it.
  size_t probe(uint64_t hash) const {
    size_t at = place(hash);
    while (slots_[at].used() && slots_[at].hash != hash) at = next(at);
    return at;
  }

  void grow() {
    const size_t before = capacity();
    std::unique_ptr<Slot[]> old = std::exchange(slots_, std::make_unique<Slot[]>(before * 2));
    mask_ = before * 2 - 1;
    shown_slots_.store(slots_.get(), std::memory_order_relaxed);
    shown_mask_.store(mask_, std::memory_order_relaxed);
    for (size_t i = 0; i < before; ++i) {
      if (old[i].used()) slots_[probe(old[i].hash)] = std::move(old[i]);
    }
  }

  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(capacity_min);
  size_t mask_ = capacity_min - 1, size_ = 0;
  std::atomic<const Slot*> shown_slots_{slots_.get()};  // for fetch_ahead()
  std::atomic<size_t> shown_mask_{mask_};
};

}  // namespace verbena::cache
