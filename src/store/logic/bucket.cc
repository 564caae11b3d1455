#include "store/logic/bucket.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "store/ends.h"

namespace verbena::store {

Documents::Found Documents::find(std::string_view name) const {
  const auto it = documents_.find(name);
  if (it == documents_.end()) return {};
  if (it->second.document == nullptr) return {.where = Found::Where::only_in_index};
  return {.where = Found::Where::in_memory, .document = it->second.document};
}

Documents::Found Documents::get(std::string_view name) const {
  std::shared_lock lock(mutex_);
  return find(name);
}

std::vector<Documents::Found> Documents::get_all(std::span<const std::string_view> names) const {
  std::shared_lock lock(mutex_);
  std::vector<Found> found;
  found.reserve(names.size());
  for (const std::string_view name : names) found.push_back(find(name));
  return found;
}

uint64_t Documents::size_of(std::string_view name) const {
  std::shared_lock lock(mutex_);
  auto it = documents_.find(name);
  return it == documents_.end() ? 0 : it->second.size;
}

bool Documents::has_room(std::string_view name) const {
  std::shared_lock lock(mutex_);
  return documents_.size() < documents_max || documents_.contains(name);
}

void Documents::set(std::string_view name, Document document) {
  std::lock_guard lock(mutex_);
  Entry& entry = documents_[std::string(name)];
  owners_->fetch_add(document->size());
  owners_->fetch_sub(entry.size);
  entry.size = document->size();
  entry.document = entry.size > kept_max ? nullptr : std::move(document);
}

void Documents::replace_all(std::map<std::string, Document, std::less<>> documents) {
  std::map<std::string, Entry, std::less<>> entries;
  uint64_t bytes = 0;
  for (auto& [name, document] : documents) {
    const uint64_t size = document->size();
    bytes += size;
    entries.emplace(name, Entry{size, size > kept_max ? nullptr : std::move(document)});
  }
  std::lock_guard lock(mutex_);
  owners_->fetch_add(bytes);
  for (const auto& [name, entry] : documents_) owners_->fetch_sub(entry.size);
  documents_ = std::move(entries);
}

void Documents::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  auto it = documents_.find(name);
  if (it == documents_.end()) return;
  owners_->fetch_sub(it->second.size);
  documents_.erase(it);
}

std::vector<std::string> Documents::names() const {
  std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : documents_) names.push_back(name);
  return names;
}

Documents::~Documents() {
  for (const auto& [name, entry] : documents_) owners_->fetch_sub(entry.size);
}

// A replacement needs room only for the bytes by which it is larger.
DocumentRoom::DocumentRoom(const Documents& documents, std::string_view name, uint64_t size)
    : owners_(documents.owners_) {
  const uint64_t before = documents.size_of(name);
  bytes_ = size > before ? size - before : 0;
  fits_ = owners_->fetch_add(bytes_) + bytes_ <= documents_bytes_max || bytes_ == 0;
}

DocumentRoom::~DocumentRoom() { owners_->fetch_sub(bytes_); }

bool Bucket::is_gone(const ObjectInfo& info) const {
  if (ends == nullptr || info.headers.empty()) return false;
  const int64_t end_us = end_us_of(info);
  if (end_us == 0) return false;
  int64_t ended = ended_us.load(std::memory_order_relaxed);
  if (end_us <= ended) return true;
  if (ends->now_us() < end_us) return false;
  while (ended < end_us && !ended_us.compare_exchange_weak(ended, end_us, std::memory_order_relaxed)) {
  }
  return true;
}

void Bucket::set(const BucketInfo& info) const {
  durability.store(info.durability);
  versioning.store(info.versioning);
  lock.store(info.lock);
}

UsageNow Bucket::usage_now() const {
  // Read in this order: usage moves from these to the others before it leaves these, so it may be counted twice but is
  // never missed.
  const Usage early = acknowledged_usage.read(), owners_early = owners->acknowledged.read();
  return {.bucket = committed.read() + early,
          .owner = owners->committed.read() + owners_early,
          .bucket_counted = !uncounted.load(),
          .owner_counted = owners->uncounted.load() == 0};
}

std::shared_ptr<const Bucket> Buckets::find(std::string_view name) const {
  std::shared_lock lock(mutex_);
  auto it = buckets_.find(name);
  return it == buckets_.end() ? nullptr : it->second;
}

std::shared_ptr<const Bucket> Buckets::find_id(uint64_t id) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<BucketInfo> Buckets::list() const {
  std::shared_lock lock(mutex_);
  std::vector<BucketInfo> infos;
  infos.reserve(buckets_.size());
  for (const auto& [name, bucket] : buckets_) infos.push_back(bucket->info());
  return infos;
}

std::vector<BucketInfo> Buckets::of(const OwnersBuckets& which) const {
  std::vector<BucketInfo> infos;
  const std::shared_lock lock(mutex_);
  const auto owner = owners_.find(which.owner);
  if (owner == owners_.end()) return infos;
  const auto& named = owner->second.buckets;
  auto it = which.after < which.prefix ? named.lower_bound(which.prefix) : named.upper_bound(which.after);
  for (; it != named.end() && it->first.starts_with(which.prefix) && infos.size() < which.max; ++it) {
    infos.push_back(it->second->info());
  }
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
  bucket->feed = std::make_shared<BucketFeed>(record.id, record.info.created_us, record.info.owner);
  bucket->name = record.info.name;
  bucket->created_us = record.info.created_us;
  bucket->owner = record.info.owner;
  bucket->set(record.info);
  bucket->ends = ends_;
  bucket->may_end = &may_end_;
  std::lock_guard lock(mutex_);
  Owner& owner = owners_[record.info.owner];
  bucket->documents.count_for(owner.document_bytes);
  bucket->owners = owner.usage;
  auto& named = buckets_[record.info.name];
  if (named) {
    by_id_.erase(named->id);
    owners_[named->owner].buckets.erase(named->name);
  }
  by_id_[record.id] = bucket;
  owner.buckets.emplace(bucket->name, bucket);
  named = std::move(bucket);
}

void Buckets::remove(std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto it = buckets_.find(name);
  if (it == buckets_.end()) return;
  const Bucket& bucket = *it->second;
  bucket.count(-bucket.committed.read());  // subtract its unfinished uploads
  bucket.set_uncounted(false);
  bucket.feed->end();
  by_id_.erase(bucket.id);
  owners_[bucket.owner].buckets.erase(bucket.name);
  buckets_.erase(it);
}

bool Buckets::Owner::has_room_for_one(uint64_t max) const {
  if (buckets.size() + rooms.size() < max) return true;
  const auto is_there = [&](const auto& room) { return buckets.contains(room.first); };
  return buckets.size() + rooms.size() - static_cast<size_t>(std::ranges::count_if(rooms, is_there)) < max;
}

BucketRoom::BucketRoom(Buckets& buckets, std::string owner, std::string name, uint64_t max)
    : buckets_(buckets), owner_(std::move(owner)), name_(std::move(name)) {
  const std::lock_guard lock(buckets_.mutex_);
  Buckets::Owner& of = buckets_.owners_[owner_];
  const auto same = of.rooms.find(name_);
  is_there_ = same != of.rooms.end() || of.has_room_for_one(max);
  if (is_there_) ++of.rooms[name_];
}

BucketRoom::~BucketRoom() {
  if (!is_there_) return;
  const std::lock_guard lock(buckets_.mutex_);
  auto& rooms = buckets_.owners_[owner_].rooms;
  const auto own = rooms.find(name_);
  if (--own->second == 0) rooms.erase(own);
}

}  // namespace verbena::store
