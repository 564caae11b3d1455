#include "store/local/bucket.h"

#include <mutex>

namespace verbena::store::local {

Result<Document> Documents::get(std::string_view name) const {
  std::shared_lock lock(mutex_);
  auto it = documents_.find(name);
  if (it == documents_.end()) return fail(Errc::not_found, "bucket document");
  return it->second;
}

bool Documents::has_room(std::string_view name) const {
  std::shared_lock lock(mutex_);
  return documents_.size() < documents_max || documents_.contains(name);
}

void Documents::set(std::string_view name, Document document) {
  std::lock_guard lock(mutex_);
  documents_.insert_or_assign(std::string(name), std::move(document));
}

void Documents::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (auto it = documents_.find(name); it != documents_.end()) documents_.erase(it);
}

void Bucket::set(const BucketInfo& info) const {
  durability.store(info.durability);
  versioning.store(info.versioning);
  lock.store(info.lock);
}

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

std::vector<std::shared_ptr<const Bucket>> Buckets::all() const {
  std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<const Bucket>> all;
  all.reserve(buckets_.size());
  for (const auto& [name, bucket] : buckets_) all.push_back(bucket);
  return all;
}

void Buckets::add(const BucketRecord& record) {
  auto bucket = std::make_shared<Bucket>();
  bucket->id = record.id;
  bucket->name = record.info.name;
  bucket->created_us = record.info.created_us;
  bucket->owner = record.info.owner;
  bucket->set(record.info);
  std::lock_guard lock(mutex_);
  buckets_[record.info.name] = std::move(bucket);
}

void Buckets::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (auto it = buckets_.find(name); it != buckets_.end()) buckets_.erase(it);
}

}  // namespace verbena::store::local
