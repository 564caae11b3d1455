#include "store/change_feed.h"

#include <algorithm>

#include "store/ends.h"

namespace verbena::store {

bool BucketFeed::listen(const std::shared_ptr<ChangeListener>& listener) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  forget_gone();
  listeners_.push_back(listener);
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
  return true;
}

void BucketFeed::stop_listening(const ChangeListener& listener) {
  const std::lock_guard lock(mutex_);
  std::erase_if(listeners_, [&](const auto& one) {
    const auto there = one.lock();
    return there == nullptr || there.get() == &listener;
  });
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
}

uint64_t BucketFeed::tell_all(KeyEvent what, std::string_view key, const ObjectInfo& info, bool of_versions,
                              bool by_catalogue) {
  auto change = std::make_shared<const KeyChange>(KeyChange{.what = what,
                                                            .key = std::string(key),
                                                            .version_id = info.version_id,
                                                            .etag = info.etag,
                                                            .size = info.size,
                                                            .time_us = info.modified_us,
                                                            .end_us = end_us_of(info),
                                                            .of_versions = of_versions});
  const std::lock_guard lock(mutex_);
  bool gone = false;
  for (const auto& one : listeners_) {
    const auto listener = one.lock();
    if (listener != nullptr) listener->told(bucket_, change);
    gone = gone || listener == nullptr;
  }
  if (gone) forget_gone();
  std::atomic<uint64_t>& count = committed_[count_of(key)];
  return by_catalogue ? count.fetch_add(1) + 1 : count.load();
}

void BucketFeed::forget_gone() {
  std::erase_if(listeners_, [](const auto& one) { return one.expired(); });
  listeners_count_.store(static_cast<uint32_t>(listeners_.size()));
}

void BucketFeed::lose_track() {
  if (!wanted()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& one : listeners_) {
    if (const auto listener = one.lock()) listener->lost_track(bucket_);
  }
}

void BucketFeed::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const auto& one : listeners_) {
    if (const auto listener = one.lock()) listener->bucket_removed(bucket_);
  }
  listeners_.clear();
  listeners_count_.store(0);
}

}  // namespace verbena::store
