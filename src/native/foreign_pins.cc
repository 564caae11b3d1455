#include "native/foreign_pins.h"

#include <algorithm>

#include "s3/access/bound.h"
#include "store/key_pins.h"

namespace verbena::native {
namespace {

constexpr uint64_t part = 2;             // of the bound, for all
constexpr uint64_t part_of_account = 4;  // likewise, for one

}  // namespace

bool ForeignPins::Pinned::has_room(uint64_t key, uint64_t bytes, uint64_t keys_max, uint64_t bytes_max) const {
  const auto known = keys_.find(key);
  if (known == keys_.end() && keys_.size() >= keys_max) return false;
  const uint64_t before = known == keys_.end() ? 0 : known->second.bytes;
  const uint64_t more = bytes - std::min(bytes, before);
  return more == 0 || (bytes_ <= bytes_max && more <= bytes_max - bytes_);
}

void ForeignPins::Pinned::take(uint64_t key, uint64_t bytes) {
  Pin& pin = keys_[key];
  ++pin.leases;
  bytes_ += bytes - std::min(bytes, pin.bytes);
  pin.bytes = std::max(bytes, pin.bytes);
}

void ForeignPins::Pinned::give_back(uint64_t key) {
  const auto known = keys_.find(key);
  if (known == keys_.end() || --known->second.leases != 0) return;
  bytes_ -= known->second.bytes;
  keys_.erase(known);
}

bool ForeignPins::take(const s3::BucketAccess& bucket, std::string_view account, std::string_view key, uint64_t bytes) {
  const s3::BoundSettings bound = bucket.bound->settings();
  const uint64_t bytes_max = bound.most_bytes(), keys_max = bound.most_objects();
  const uint64_t name = store::KeyPins::hash(bucket.name, key);
  const std::lock_guard lock(mutex_);
  const auto at = buckets_.find(bucket.name);
  static const Pinned none;
  const Pinned* all = &none;
  const Pinned* own = &none;
  if (at != buckets_.end()) {
    all = &at->second.all;
    const auto of = at->second.accounts.find(account);
    if (of != at->second.accounts.end()) own = &of->second;
  }
  if (!all->has_room(name, bytes, keys_max / part, bytes_max / part)) return false;
  const bool fits = own->has_room(name, bytes, keys_max / part_of_account, bytes_max / part_of_account);
  if (!fits && !own->is_alone(name)) return false;
  OfBucket& pinned = buckets_[bucket.name];
  pinned.all.take(name, bytes);
  pinned.accounts[std::string(account)].take(name, bytes);
  return true;
}

void ForeignPins::give_back(const s3::BucketAccess& bucket, std::string_view account, std::string_view key) {
  const uint64_t name = store::KeyPins::hash(bucket.name, key);
  const std::lock_guard lock(mutex_);
  const auto at = buckets_.find(bucket.name);
  if (at == buckets_.end()) return;
  const auto own = at->second.accounts.find(account);
  if (own == at->second.accounts.end()) return;
  own->second.give_back(name);
  if (own->second.empty()) at->second.accounts.erase(own);
  at->second.all.give_back(name);
  if (at->second.all.empty()) buckets_.erase(at);
}

}  // namespace verbena::native
