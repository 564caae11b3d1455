#include "native/foreign_pins.h"

#include <algorithm>

#include "s3/access/bound.h"
#include "store/key_pins.h"

namespace verbena::native {
namespace {

constexpr uint64_t part = 2;  // of the bound

}  // namespace

bool ForeignPins::take(const s3::BucketAccess& bucket, std::string_view key, uint64_t bytes) {
  const s3::BoundSettings bound = bucket.bound->settings();
  const std::lock_guard lock(mutex_);
  const auto [at, is_first] = buckets_.try_emplace(bucket.name);
  Pinned& pinned = at->second;
  const uint64_t name = store::KeyPins::hash(bucket.name, key);
  const auto known = pinned.keys.find(name);
  const Pin before = known == pinned.keys.end() ? Pin() : known->second;
  const uint64_t more = bytes - std::min(bytes, before.bytes);
  const uint64_t bytes_max = bound.most_bytes() / part, keys_max = bound.most_objects() / part;
  const bool has_key = before.leases != 0 || pinned.keys.size() < keys_max;
  if (!has_key || (more != 0 && (pinned.bytes > bytes_max || more > bytes_max - pinned.bytes))) {
    if (is_first) buckets_.erase(at);
    return false;
  }
  pinned.bytes += more;
  pinned.keys[name] = {.leases = before.leases + 1, .bytes = before.bytes + more};
  return true;
}

void ForeignPins::give_back(const s3::BucketAccess& bucket, std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto at = buckets_.find(bucket.name);
  if (at == buckets_.end()) return;
  Pinned& pinned = at->second;
  const auto known = pinned.keys.find(store::KeyPins::hash(bucket.name, key));
  if (known == pinned.keys.end() || --known->second.leases != 0) return;
  pinned.bytes -= known->second.bytes;
  pinned.keys.erase(known);
  if (pinned.keys.empty()) buckets_.erase(at);
}

}  // namespace verbena::native
