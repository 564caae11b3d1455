// The arena: one large mapping that every open fabric domain registers once at start. Buffers are leased from it in
// size classes and returned by RAII. Disk reads write into it and one-sided operations start from it, so that a byte
// can go from disk to wire without a copy.
//
// A lease must outlive every operation that may touch it. One-sided operations cannot be cancelled: the poster of one
// holds the lease until its completion was collected.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "memory/charge.h"

namespace verbena::memory {

class Arena;

// An owned part of the arena. Move-only; its destructor returns the bytes. Thread-safe to destroy on any thread.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept
      : arena_(other.arena_),
        data_(other.data_),
        size_(other.size_),
        block_(other.block_),
        charge_(std::move(other.charge_)) {
    other.arena_ = nullptr;
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Lease& operator=(Lease&& other) noexcept {
    Lease taken(std::move(other));
    std::swap(arena_, taken.arena_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    std::swap(block_, taken.block_);
    std::swap(charge_, taken.charge_);
    return *this;
  }
  ~Lease() { release(); }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }       // the requested size
  size_t capacity() const { return block_; }  // the size class, a multiple of 4096
  MutableBytes bytes() const { return {data_, size_}; }
  void release();
  // Attaches the budget's charge for these bytes, returned together with them. The excess of a larger charge is
  // returned now.
  void attach(Charge charge) {
    charge.shrink(block_);
    charge_ = std::move(charge);
  }
  // The peer that was charged, for caches that keep the bytes for other peers.
  const void* payer() const { return charge_.payer(); }
  Charge detach_charge() { return std::move(charge_); }

 private:
  friend class Arena;
  Lease(Arena* arena, std::byte* data, size_t size, size_t block)
      : arena_(arena), data_(data), size_(size), block_(block) {}
  Arena* arena_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t block_ = 0;
  Charge charge_;
};

// Bytes to pass on, with their owner: `lease`, if they are the holder's alone, or `shared`, if others read them too.
// Shared bytes are never written to.
struct Chunk {
  Lease lease;
  Bytes bytes;
  std::shared_ptr<const void> shared = {};
  Charge charge = {};  // of shared bytes, for as long as this holder keeps them

  void attach(Charge charged) {
    if (lease) return lease.attach(std::move(charged));
    charged.shrink(bytes.size());
    charge = std::move(charged);
  }
  void release() {
    lease.release();
    shared.reset();
    charge.release();
  }
};

class Arena {
 public:
  static constexpr size_t alignment = 4096;          // of every lease: fits O_DIRECT
  static constexpr size_t lease_size_max = 4 * MiB;  // the largest size class

  // Maps `bytes` (rounded up to 4 MiB), with huge pages if the machine has free ones.
  static Result<std::unique_ptr<Arena>> create(size_t bytes);
  ~Arena();  // every lease must have been returned
  Arena(const Arena&) = delete;

  // Bytes of the arena that a lease of `size` takes: 4 KiB times a power of two.
  static constexpr size_t class_size(size_t size) { return std::bit_ceil(std::max(size, alignment)); }

  // A buffer of at least `size` bytes (1 .. lease_size_max), uninitialized. slow_down when the arena is full: the
  // caller answers 503. Thread-safe.
  Result<Lease> lease(size_t size);

  // A hook for caches to release memory when lease() finds none: called from any thread with the requested bytes,
  // returns whether it released anything. One hook at a time; set it before the arena is used, and set null before its
  // captures are destroyed.
  using OnPressure = std::function<bool(size_t bytes)>;
  void on_pressure(OnPressure give_back) { on_pressure_ = std::move(give_back); }

  MutableBytes mapping() const { return mapping_; }  // for registration
  bool huge_pages() const { return huge_pages_; }
  size_t leased_bytes() const;  // in size classes of current leases
  bool contains(const void* p, size_t size) const;
  // The budget of leases. lease() itself does not check it: memory that serves no peer (message buffers) is leased
  // directly.
  Budget& budget() { return *budget_; }

 private:
  friend class Lease;
  struct Classes;
  Arena(MutableBytes mapping, bool huge_pages);
  void give_back(std::byte* data, size_t block);
  uint32_t take(unsigned order);

  MutableBytes mapping_;
  bool huge_pages_ = false;
  std::unique_ptr<Classes> classes_;
  std::unique_ptr<Budget> budget_;
  OnPressure on_pressure_;
};

inline void Lease::release() {
  if (arena_ != nullptr) arena_->give_back(data_, block_);
  arena_ = nullptr;
  data_ = nullptr;
  size_ = 0;
  charge_.release();  // after the bytes: they are available to a waiter then
}

}  // namespace verbena::memory
