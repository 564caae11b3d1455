#include "store/local/bucket.h"

#include <mutex>

namespace verbena::store::local {

std::shared_ptr<const Bucket> Buckets::find(std::string_view name) const {
  std::shared_lock lock(mutex_);
  auto it = buckets_.find(name);
  return it == buckets_.end() ? nullptr : it->second;
}

std::vector<BucketInfo> Buckets::list() const {
  std::shared_lock lock(mutex_);
  std::vector<BucketInfo> infos;
  infos.reserve(buckets_.size());
  for (const auto& [name, bucket] : buckets_) infos.push_back(bucket->info());
  return infos;
}

void Buckets::add(const BucketRecord& record) {
  auto bucket = std::make_shared<Bucket>();
  bucket->id = record.id;
  bucket->name = record.info.name;
  bucket->created_us = record.info.created_us;
  bucket->owner = record.info.owner;
  bucket->durability.store(record.info.durability);
  std::lock_guard lock(mutex_);
  buckets_[record.info.name] = std::move(bucket);
}

void Buckets::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (auto it = buckets_.find(name); it != buckets_.end()) buckets_.erase(it);
}

}  // namespace verbena::store::local
