// The memory of what bounded buckets keep of their objects (eviction_order.h), shared fairly: an account may hold as
// much as is left free, and so may each bucket of its account's part (base/fair_share.h). So one bucket alone has a
// quarter of all. A bucket that is beyond its part evicts: it is crowded. Nothing is refused here, since what is told
// by commits must be kept; what was taken beyond the part is given back by evictions.
//
// Thread-safe. Sums are read without a lock, each as of its own moment: a part that is wrong for a moment is corrected
// by the next look.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace verbena::s3 {

class OrderMemory {
  struct Sum {
    std::atomic<uint64_t> bytes{0};
  };
  struct All : Sum {
    explicit All(uint64_t bytes_max) : most(bytes_max) {}
    const uint64_t most;
    std::atomic<uint64_t> accounts{0};  // that have a bucket
  };
  struct Account : Sum {
    explicit Account(std::shared_ptr<All> whole) : all(std::move(whole)) { ++all->accounts; }
    ~Account() { --all->accounts; }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;
    const std::shared_ptr<All> all;
    std::atomic<uint64_t> buckets{0};
  };

 public:
  // Of an entry of an order beside its key: the nodes of its list and tables with their allocations.
  static constexpr uint64_t entry_bytes = 240;
  // A bucket may always have so much, but for an account whose buckets would together have more than its part.
  static constexpr uint64_t least_bytes = 64 * 1024;

  static uint64_t of_key(std::string_view key) { return entry_bytes + key.size(); }

  class Bucket {
   public:
    explicit Bucket(std::shared_ptr<Account> account) : account_(std::move(account)) { ++account_->buckets; }
    ~Bucket() { --account_->buckets; }
    Bucket(const Bucket&) = delete;
    Bucket& operator=(const Bucket&) = delete;
    uint64_t bytes() const { return own_.bytes.load(std::memory_order_relaxed); }
    uint64_t allowed() const;
    bool is_crowded() const { return bytes() > allowed(); }
    // How many objects it may have, of the mean size of the `objects` that it has.
    uint64_t objects_max(uint64_t objects) const;

   private:
    friend class OrderShare;
    void add(uint64_t bytes);
    void sub(uint64_t bytes);

    const std::shared_ptr<Account> account_;
    Sum own_;
  };
  using BucketPtr = std::shared_ptr<Bucket>;

  explicit OrderMemory(uint64_t bytes_max);
  BucketPtr bucket(const std::string& account);
  uint64_t bytes() const { return all_->bytes.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<All> all_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<Account>> accounts_;
};

// What one holder has of a bucket's memory; given back at its end. Without a bucket nothing is counted.
class OrderShare {
 public:
  OrderShare() = default;
  explicit OrderShare(OrderMemory::BucketPtr bucket) : bucket_(std::move(bucket)) {}
  OrderShare(OrderShare&& other) noexcept : bucket_(std::move(other.bucket_)), bytes_(std::exchange(other.bytes_, 0)) {}
  OrderShare& operator=(OrderShare&& other) noexcept {
    clear();
    bucket_ = std::move(other.bucket_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~OrderShare() { clear(); }

  uint64_t bytes() const { return bytes_; }
  void add(uint64_t bytes);
  void sub(uint64_t bytes);
  void clear() { sub(bytes_); }

 private:
  OrderMemory::BucketPtr bucket_;
  uint64_t bytes_ = 0;
};

}  // namespace verbena::s3
