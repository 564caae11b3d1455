#include "native/watch_notes.h"

#include <algorithm>
#include <utility>

namespace verbena::native {

void WatchNotes::add_bucket(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  inboxes_.try_emplace(bucket);
}

void WatchNotes::remove_bucket(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(bucket);
  if (found == inboxes_.end()) return;
  bytes_ -= found->second.bytes;
  if (found->second.queued) std::erase(turns_, bucket);
  inboxes_.erase(found);
  any_.store(!turns_.empty(), std::memory_order_release);
}

WatchNotes::Inbox* WatchNotes::find(uint64_t bucket) {
  const auto found = inboxes_.find(bucket);
  return closed_ || found == inboxes_.end() ? nullptr : &found->second;
}

void WatchNotes::queue(uint64_t bucket, Inbox& inbox) {
  if (!std::exchange(inbox.queued, true)) turns_.push_back(bucket);
  any_.store(true, std::memory_order_release);
  if (!std::exchange(called_, true)) call_();
}

void WatchNotes::told(uint64_t bucket, const store::KeyChangePtr& change) {
  const std::lock_guard lock(mutex_);
  Inbox* const inbox = find(bucket);
  if (inbox == nullptr) return;
  const uint64_t cost = cost_of(*change);
  inbox->changes.push_back(change);
  inbox->bytes += cost;
  bytes_ += cost;
  queue(bucket, *inbox);
  make_room(*inbox);
}

// Drops notes of a bucket with its share or more; the last reported one is tried first, to avoid a search of all.
void WatchNotes::make_room(Inbox& inbox) {
  if (inbox.bytes > bytes_max_ / 2) return lose(inbox);
  if (bytes_ <= bytes_max_) return;
  if (inbox.bytes >= bytes_ / turns_.size()) return lose(inbox);
  const auto bytes_of = [this](uint64_t bucket) { return inboxes_.find(bucket)->second.bytes; };
  lose(inboxes_.find(*std::ranges::max_element(turns_, {}, bytes_of))->second);
}

void WatchNotes::lose(Inbox& inbox) {
  bytes_ -= std::exchange(inbox.bytes, 0);
  std::deque<store::KeyChangePtr>().swap(inbox.changes);
  inbox.lost = true;
}

void WatchNotes::lost_track(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  Inbox* const inbox = find(bucket);
  if (inbox == nullptr) return;
  lose(*inbox);
  queue(bucket, *inbox);
}

void WatchNotes::removed(uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  Inbox* const inbox = find(bucket);
  if (inbox == nullptr) return;
  inbox->removed = true;
  queue(bucket, *inbox);
}

void WatchNotes::was_called() {
  const std::lock_guard lock(mutex_);
  called_ = false;
}

bool WatchNotes::take(Taken& into, size_t most) {
  into = {};
  const std::lock_guard lock(mutex_);
  if (turns_.empty()) return false;
  into.bucket = turns_.front();
  turns_.pop_front();
  Inbox& inbox = inboxes_.find(into.bucket)->second;
  into.lost = std::exchange(inbox.lost, false);
  for (; !inbox.changes.empty() && into.changes.size() < most; inbox.changes.pop_front()) {
    const uint64_t cost = cost_of(*inbox.changes.front());
    inbox.bytes -= cost;
    bytes_ -= cost;
    into.changes.push_back(std::move(inbox.changes.front()));
  }
  inbox.queued = !inbox.changes.empty();
  if (inbox.queued) {
    turns_.push_back(into.bucket);
  } else {
    into.removed = std::exchange(inbox.removed, false);
  }
  any_.store(!turns_.empty(), std::memory_order_release);
  return true;
}

void WatchNotes::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  inboxes_.clear();
  turns_.clear();
  bytes_ = 0;
  any_.store(false, std::memory_order_release);
}

uint64_t WatchNotes::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace verbena::native
