#include "s3/workers/bound_load.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "s3/workers/damaged_keys.h"
#include "store/ends.h"

namespace verbena::s3 {
namespace {

constexpr size_t pages_at_once = 4;      // in a slice
constexpr size_t added_at_once = 1024;   // reads and writes of the bucket wait for no more than these
constexpr size_t additions_at_once = 8;  // in a slice
constexpr size_t forgotten_at_once = 16'384;
constexpr size_t crowded_out_at_once = 512;  // evicted before the next slice

// When the end of its life was put off last; 0: never. An end is of whole seconds, so a renewal within the first second
// is not seen.
int64_t renewed_us_of(const store::ObjectInfo& info) {
  const int64_t end_us = store::end_us_of(info), began_us = end_us - store::ttl_s_of(info) * 1'000'000;
  return end_us != 0 && began_us >= info.modified_us + 1'000'000 ? began_us : 0;
}

int64_t last_use_us(const EvictionOrder::Object& one) { return std::max(one.time_us, one.renewed_us); }

std::vector<EvictionOrder::Object> objects_of(store::ListPage& page) {
  std::vector<EvictionOrder::Object> objects;
  objects.reserve(page.entries.size());
  for (auto& entry : page.entries) {
    const store::ObjectInfo& info = entry.info;
    objects.push_back({.key = std::move(entry.key),
                       .size = info.size,
                       .time_us = info.modified_us,
                       .end_us = store::end_us_of(info),
                       .renewed_us = renewed_us_of(info)});
  }
  return objects;
}

uint64_t memory_of(const std::vector<EvictionOrder::Object>& objects) {
  uint64_t bytes = 0;
  for (const auto& one : objects) bytes += OrderMemory::of_key(one.key);
  return bytes;
}

}  // namespace

bool ByAge::is_older(const List& a, const List& b) {
  return last_use_us(a.objects[a.next]) < last_use_us(b.objects[b.next]);
}

void ByAge::add(std::vector<EvictionOrder::Object> list) {
  if (list.empty()) return;
  std::ranges::sort(list, std::greater(), last_use_us);
  lists_.push_back({.objects = std::move(list)});
  std::ranges::push_heap(lists_, is_older);
}

std::vector<EvictionOrder::Object> ByAge::take(size_t max) {
  std::vector<EvictionOrder::Object> taken;
  while (taken.size() < max && !lists_.empty()) {
    std::ranges::pop_heap(lists_, is_older);
    List& youngest = lists_.back();
    taken.push_back(std::move(youngest.objects[youngest.next++]));
    if (youngest.next == youngest.objects.size()) {
      lists_.pop_back();
    } else {
      std::ranges::push_heap(lists_, is_older);
    }
  }
  return taken;
}

// A list has its oldest object last. The heap knows the lists by their youngest, which stay where they are unless a
// list ends.
std::vector<EvictionOrder::Object> ByAge::take_oldest(size_t max) {
  std::vector<EvictionOrder::Object> taken;
  const auto oldest =
      std::ranges::min_element(lists_, {}, [](const List& list) { return last_use_us(list.objects.back()); });
  if (oldest == lists_.end()) return taken;
  auto& objects = oldest->objects;
  while (taken.size() < max && objects.size() > oldest->next) {
    taken.push_back(std::move(objects.back()));
    objects.pop_back();
  }
  if (objects.size() == oldest->next) {
    lists_.erase(oldest);
    std::ranges::make_heap(lists_, is_older);
  }
  return taken;
}

// Listens first: what is written during the listing is told.
Result<void> BoundLoad::begin(store::ChangeFeeds& feeds) {
  VB_ASSIGN(const store::BucketFeedPtr feed, feeds.feed(bound_->bucket()));
  if (!feed->is_of(bound_->created_us(), bound_->owner())) return fail(Errc::no_such_bucket, "bounds");
  feed->stop_listening(*bound_);
  before_.emplace(bound_->begin_load());
  if (!feed->listen(bound_)) return fail(Errc::no_such_bucket, "bounds");
  lists_ = bound_->settings().is_limited();
  request_.passes_damage = true;
  began_ = true;
  return {};
}

Task<Result<void>> BoundLoad::list_some() {
  for (size_t i = 0; i < pages_at_once && lists_ && bound_->is_loading(); ++i) {
    VB_CO_ASSIGN(store::ListPage page, co_await store_.list(bound_->bucket(), request_));
    tell_damaged("bounds", bound_->bucket(), page.damaged);
    auto objects = objects_of(page);
    if (!bound_->add_kept(objects)) break;
    memory_.add(memory_of(objects));
    listed_.add(std::move(objects));
    lists_ = page.truncated;
    request_.after = std::move(page.next_after);
  }
  co_return Result<void>();
}

// What a part that has shrunk cannot hold, or a bucket that was not bounded has too much.
void BoundLoad::crowd_out() {
  constexpr size_t together = 16;
  while (bound_->is_crowded() && !listed_.empty() && crowded_out_.size() < crowded_out_at_once) {
    auto some = listed_.take_oldest(together);
    memory_.sub(memory_of(some));
    std::ranges::move(some, std::back_inserter(crowded_out_));
  }
}

// False: the order is complete, or the load is void.
bool BoundLoad::add_some() {
  for (size_t i = 0; i < additions_at_once && !listed_.empty(); ++i) {
    auto some = listed_.take(added_at_once);
    memory_.sub(memory_of(some));
    if (!bound_->add_loaded(std::move(some))) return false;
  }
  if (!listed_.empty()) return true;
  bound_->end_load();
  return false;
}

Task<Result<bool>> BoundLoad::go_on(store::ChangeFeeds& feeds) {
  if (!began_) VB_CO_TRY(begin(feeds));
  // Before anything is listed, since both are charged to the bucket.
  if (before_) {
    if (!before_->forget(forgotten_at_once)) before_.reset();
    co_return true;
  }
  if (!bound_->is_loading()) co_return false;
  crowd_out();
  if (!crowded_out_.empty()) co_return true;
  if (lists_) {
    VB_CO_TRY(co_await list_some());
    if (lists_) co_return true;
  }
  co_return add_some();
}

}  // namespace verbena::s3
