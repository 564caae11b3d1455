#include "s3/access/order_memory.h"

#include <algorithm>

#include "base/fair_share.h"
#include "base/metrics.h"

namespace verbena::s3 {
namespace {

metrics::Gauge& held_bytes() {
  static auto& gauge = metrics::gauge("verbena_bound_memory_bytes",
                                      "Memory of the orders by which bounded buckets evict, of all buckets");
  return gauge;
}

// Sums are read one after the other: a part may be larger than its whole for a moment.
uint64_t beside(uint64_t whole, uint64_t part) { return whole > part ? whole - part : 0; }

}  // namespace

uint64_t OrderMemory::Bucket::allowed() const {
  const uint64_t own = bytes();
  const uint64_t of_account = account_->bytes.load(std::memory_order_relaxed);
  const uint64_t all = account_->all->bytes.load(std::memory_order_relaxed);
  // However much others have, all accounts together have half of it for sure.
  const uint64_t sure = account_->all->most / 2 / std::max<uint64_t>(account_->all->accounts, 1);
  const uint64_t its = std::max(fair_share(beside(all, of_account), account_->all->most), sure);
  const uint64_t least = std::min(least_bytes, std::max(its, least_bytes) / std::max<uint64_t>(account_->buckets, 1));
  return std::max(fair_share(beside(of_account, own), its), least);
}

uint64_t OrderMemory::Bucket::objects_max(uint64_t objects) const {
  constexpr uint64_t usual_key = 64;
  const uint64_t mean = objects == 0 ? entry_bytes + usual_key : std::max(bytes() / objects, entry_bytes);
  return allowed() / mean;
}

void OrderMemory::Bucket::add(uint64_t bytes) {
  for (Sum* const sum : {&own_, static_cast<Sum*>(account_.get()), static_cast<Sum*>(account_->all.get())}) {
    sum->bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  held_bytes().add(static_cast<int64_t>(bytes));
}

void OrderMemory::Bucket::sub(uint64_t bytes) {
  for (Sum* const sum : {&own_, static_cast<Sum*>(account_.get()), static_cast<Sum*>(account_->all.get())}) {
    sum->bytes.fetch_sub(bytes, std::memory_order_relaxed);
  }
  held_bytes().add(-static_cast<int64_t>(bytes));
}

OrderMemory::OrderMemory(uint64_t bytes_max) : all_(std::make_shared<All>(bytes_max)) {
  held_bytes();  // told from the start on
}

OrderMemory::BucketPtr OrderMemory::bucket(const std::string& account) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Account> its;
  if (const auto found = accounts_.find(account); found != accounts_.end()) its = found->second.lock();
  if (its == nullptr) {
    std::erase_if(accounts_, [](const auto& one) { return one.second.expired(); });
    its = std::make_shared<Account>(all_);
    accounts_[account] = its;
  }
  return std::make_shared<Bucket>(std::move(its));
}

void OrderShare::add(uint64_t bytes) {
  if (bucket_ == nullptr || bytes == 0) return;
  bytes_ += bytes;
  bucket_->add(bytes);
}

void OrderShare::sub(uint64_t bytes) {
  if (bucket_ == nullptr || bytes == 0) return;
  bytes_ -= bytes;
  bucket_->sub(bytes);
}

}  // namespace verbena::s3
