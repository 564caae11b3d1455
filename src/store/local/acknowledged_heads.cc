#include "store/local/acknowledged_heads.h"

#include <algorithm>
#include <utility>

#include "store/local/write_behind.h"

namespace verbena::store::local {

const AcknowledgedHeads::Version* AcknowledgedHeads::Head::as_of(uint64_t moment) const {
  const auto has = [moment](const Version& version) { return version.from <= moment && moment < version.until; };
  if (newest.object != nullptr && has(newest)) return &newest;
  const auto found = std::ranges::find_if(older, has);
  return found == older.end() ? nullptr : &*found;
}

bool AcknowledgedHeads::OfBucket::is_seen(const Version& version) const {
  const auto first = moments.lower_bound(version.from);
  return first != moments.end() && first->first < version.until;
}

// The newest of the key is so no longer.
void AcknowledgedHeads::retire(OfBucket& bucket, Heads::iterator head, Freed& freed) {
  auto& [newest, older] = head->second;
  if (newest.object == nullptr) return;
  newest.until = changes_;
  if (bucket.is_seen(newest)) {
    if (older.empty()) bucket.changed.push_back(head);
    older.push_back(std::exchange(newest, {}));
  } else {
    AcknowledgedPtr object = std::exchange(newest, {}).object;
    if (object.use_count() == 1) freed.push_back(std::move(object));
  }
}

void AcknowledgedHeads::set(const AcknowledgedPtr& object) {
  Freed freed;
  const std::lock_guard lock(mutex_);
  OfBucket& bucket = buckets_[object->bucket->id];
  const auto [head, is_new] = bucket.heads.try_emplace(object->key);
  ++changes_;
  if (!is_new) retire(bucket, head, freed);
  head->second.newest = {.object = object, .from = changes_};
}

void AcknowledgedHeads::erase(const Acknowledged& object) {
  Freed freed;
  const std::lock_guard lock(mutex_);
  const auto bucket = buckets_.find(object.bucket->id);
  if (bucket == buckets_.end()) return;
  const auto head = bucket->second.heads.find(object.key);
  if (head == bucket->second.heads.end()) return;
  ++changes_;
  retire(bucket->second, head, freed);
  if (head->second.older.empty()) bucket->second.heads.erase(head);
  if (bucket->second.empty()) buckets_.erase(bucket);
}

std::shared_ptr<const AcknowledgedHeads::AsOf> AcknowledgedHeads::now(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  ++buckets_[bucket].moments[changes_];
  return std::make_shared<const AsOf>(shared_from_this(), bucket, changes_);
}

void AcknowledgedHeads::end(uint64_t id, uint64_t moment) {
  Freed freed;
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(id);
  OfBucket& bucket = found->second;
  const auto readers = bucket.moments.find(moment);
  if (--readers->second != 0) return;
  bucket.moments.erase(readers);
  std::erase_if(bucket.changed, [&](Heads::iterator head) {
    auto& [newest, older] = head->second;
    std::erase_if(older, [&](Version& version) {
      if (bucket.is_seen(version)) return false;
      freed.push_back(std::move(version.object));
      return true;
    });
    if (!older.empty()) return false;
    if (newest.object == nullptr) bucket.heads.erase(head);
    return true;
  });
  if (bucket.empty()) buckets_.erase(found);
}

uint64_t AcknowledgedHeads::passed() const {
  const std::lock_guard lock(mutex_);
  return passed_;
}

size_t AcknowledgedHeads::kept() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [id, bucket] : buckets_) {
    for (const auto& head : bucket.changed) count += head->second.older.size();
  }
  return count;
}

bool AcknowledgedHeads::read(uint64_t id, uint64_t moment, std::string& from, size_t most,
                             std::vector<AcknowledgedPtr>& found) {
  const std::lock_guard lock(mutex_);
  const Heads& heads = buckets_.find(id)->second.heads;  // there as long as the moment
  auto at = heads.lower_bound(from);
  for (size_t i = 0; at != heads.end() && found.size() < most; ++i, ++at) {
    if (i == passed_at_once) {
      from = at->first;
      return true;
    }
    ++passed_;
    if (const Version* const version = at->second.as_of(moment)) found.push_back(version->object);
  }
  return false;
}

AcknowledgedPtr AcknowledgedHeads::AsOf::find(std::string_view key) const {
  const std::lock_guard lock(heads_->mutex_);
  const Heads& heads = heads_->buckets_.find(bucket_)->second.heads;
  const auto head = heads.find(key);
  if (head == heads.end()) return nullptr;
  const Version* const version = head->second.as_of(moment_);
  return version == nullptr ? nullptr : version->object;
}

std::vector<AcknowledgedPtr> AcknowledgedHeads::AsOf::first(std::string_view from, size_t most) const {
  std::vector<AcknowledgedPtr> found;
  std::string at(from);
  while (heads_->read(bucket_, moment_, at, most, found)) {
  }
  return found;
}

}  // namespace verbena::store::local
