#include "store/change_feed.h"

#include <algorithm>

#include "store/ends.h"

namespace verbena::store {

bool BucketFeed::listen(const std::shared_ptr<ChangeListener>& listener) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  forget_gone();
  listeners_.push_back({listener, listener->keeps_changes()});
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
  return true;
}

void BucketFeed::stop_listening(const ChangeListener& listener) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const auto& one) {
    const auto there = one.listener.lock();
    return there == nullptr || there.get() == &listener;
  });
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
}

uint64_t BucketFeed::tell_all(KeyEvent what, std::string_view key, const ObjectInfo& info, bool of_versions,
                              bool by_catalogue) {
  const std::lock_guard lock(mutex_);
  const bool kept = std::ranges::any_of(listeners_, &Listening::keeps);
  const std::shared_ptr<KeyChange> made = kept ? std::make_shared<KeyChange>() : std::shared_ptr<KeyChange>();
  KeyChange& its = kept ? *made : not_kept_;
  its.what = what;
  its.key = key;
  its.version_id = info.version_id;
  its.etag = info.etag;
  its.size = info.size;
  its.time_us = info.modified_us;
  its.end_us = end_us_of(info);
  its.of_versions = of_versions;
  const KeyChangePtr change(made, &its);
  bool gone = false;
  for (const auto& one : listeners_) {
    const auto listener = one.listener.lock();
    if (listener != nullptr) listener->told(bucket_, change);
    gone = gone || listener == nullptr;
  }
  if (gone) forget_gone();
  std::atomic<uint64_t>& count = committed_[count_of(key)];
  return by_catalogue ? count.fetch_add(1) + 1 : count.load();
}

void BucketFeed::forget_gone() {
  std::erase_if(listeners_, [](const auto& one) { return one.listener.expired(); });
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
}

void BucketFeed::lose_track() {
  if (!wanted()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& one : listeners_) {
    if (const auto listener = one.listener.lock()) listener->lost_track(bucket_);
  }
}

void BucketFeed::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const auto& one : listeners_) {
    if (const auto listener = one.listener.lock()) listener->bucket_removed(bucket_);
  }
  listeners_.clear();
  listeners_count_.store(0);
}

}  // namespace verbena::store
