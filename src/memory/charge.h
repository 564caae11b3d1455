// The right to lease a part of the arena (budget.h). Kept by the lease that it was taken for.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace verbena::memory {

class Budget;

// Move-only; its destructor returns the bytes, on any thread.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        peer_(std::move(other.peer_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    Charge taken(std::move(other));
    std::swap(budget_, taken.budget_);
    std::swap(peer_, taken.peer_);
    std::swap(bytes_, taken.bytes_);
    return *this;
  }
  ~Charge() { release(); }

  size_t bytes() const { return bytes_; }
  // Identifies the charged peer; null: charged to the part for small requests, or empty. Not to be dereferenced.
  const void* payer() const { return peer_.get(); }
  void shrink(size_t bytes) {
    if (bytes >= bytes_) return;
    give_back(bytes_ - bytes);
    bytes_ = bytes;
  }
  void release() {
    if (budget_ == nullptr) return;
    give_back(std::exchange(bytes_, 0));
    budget_ = nullptr;
    peer_.reset();
  }

  struct Peer;  // a peer's account: private to the budget

 private:
  friend class Budget;
  Charge(Budget* budget, std::shared_ptr<Peer> peer, size_t bytes)
      : budget_(budget), peer_(std::move(peer)), bytes_(bytes) {}
  void give_back(size_t bytes);

  Budget* budget_ = nullptr;
  std::shared_ptr<Peer> peer_;  // null: charged to the part for small requests
  size_t bytes_ = 0;
};

}  // namespace verbena::memory
