#include "s3/access/eviction_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace verbena::s3 {

EvictionOrder::EvictionOrder(EvictionPolicy policy, Kept kept, OrderShare memory)
    : policy_(policy),
      memory_(std::move(memory)),
      kept_rule_(std::move(kept)),
      small_(std::make_unique<Queue>()),
      main_(std::make_unique<Queue>()),
      leaving_(std::make_unique<Queue>()),
      aside_(std::make_unique<Queue>()),
      kept_(std::make_unique<Queue>()) {}

// The queues become those of before as they are: no object is touched.
void EvictionOrder::change(EvictionPolicy policy, Kept kept) {
  const bool same = policy == policy_ && kept.suffix == kept_rule_.suffix;
  policy_ = policy;
  const uint64_t bytes_max = kept.bytes_max, objects_max = kept.objects_max;
  kept_rule_ = std::move(kept);
  if (same) return limit_kept(bytes_max, objects_max);
  // Kept ones would have left first, had they not been kept.
  for (QueuePtr* const queue : {&kept_, &main_, &small_}) {
    if ((*queue)->empty()) continue;
    (*queue)->before = true;
    before_.push_back(std::exchange(*queue, std::make_unique<Queue>()));
  }
  if (!ends_.empty()) ends_before_.push_back(std::exchange(ends_, {}));
}

void EvictionOrder::arrange_one(Place place) {
  move(place, is_kept(place->object.key, place->object.size) ? *kept_ : *main_);
}

bool EvictionOrder::arrange(size_t steps) {
  for (; steps != 0 && !before_.empty(); --steps) {
    if (before_.front()->empty()) {
      before_.pop_front();
    } else {
      arrange_one(before_.front()->nodes.begin());
    }
  }
  for (; steps != 0 && !ends_before_.empty(); --steps) {
    ByEnd& ends = ends_before_.front();
    ends.erase(ends.begin());
    if (ends.empty()) ends_before_.pop_front();
  }
  return !before_.empty() || !ends_before_.empty();
}

bool EvictionOrder::forget(size_t steps) {
  if (arrange(steps)) return true;
  for (Queue* const queue : {small_.get(), main_.get(), leaving_.get(), aside_.get(), kept_.get()}) {
    for (; steps != 0 && !queue->empty(); --steps) erase(std::string_view(queue->nodes.front().object.key));
  }
  left_.clear();
  spare_.clear();
  spare_keys_.clear();
  return objects() != 0;
}

std::optional<uint64_t> EvictionOrder::size_of(std::string_view key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second->object.size;
}

void EvictionOrder::move(Place place, Queue& to) {
  const bool ends = policy_ == EvictionPolicy::ttl && place->object.end_us != 0;
  if (ends && is_ordered(place)) ends_.erase(end_of(place));
  Queue& from = *place->in;
  from.bytes -= place->object.size;
  to.bytes += place->object.size;
  to.nodes.splice(to.nodes.end(), from.nodes, place);
  place->in = &to;
  if (ends && is_ordered(place)) ends_.insert(end_of(place));
}

bool EvictionOrder::is_kept(std::string_view key, uint64_t size) const {
  return !kept_rule_.suffix.empty() && key.ends_with(kept_rule_.suffix) &&
         kept_->nodes.size() < kept_rule_.objects_max && size <= kept_rule_.bytes_max &&
         kept_->bytes <= kept_rule_.bytes_max - size;
}

void EvictionOrder::limit_kept(uint64_t bytes_max, uint64_t objects_max) {
  kept_rule_.bytes_max = bytes_max;
  kept_rule_.objects_max = objects_max;
  while (kept_->nodes.size() > objects_max || kept_->bytes > bytes_max) move(std::prev(kept_->nodes.end()), *main_);
}

void EvictionOrder::put(const Object& object) {
  if (spare_.empty()) spare_.emplace_back();
  const Place place = spare_.begin();
  place->object = object;
  place->in = main_.get();
  place->reads = 0;
  if (!enter(place)) return replace(by_key_.find(object.key)->second, object);
  main_->nodes.splice(main_->nodes.end(), spare_, place);
  if (is_kept(object.key, object.size)) move(place, *kept_);
  const bool filtered = place->in == main_.get() && policy_ == EvictionPolicy::s3_fifo;
  if (filtered && !was_here(place->object.key)) move(place, *small_);
}

// A new object of the main queue. False: its key is there already, so that it was not entered.
bool EvictionOrder::enter(Place place) {
  if (spare_keys_.empty()) {
    if (!by_key_.emplace(place->object.key, place).second) return false;
  } else {
    auto& spare = spare_keys_.back();
    spare.key() = place->object.key;
    spare.mapped() = place;
    auto entered = by_key_.insert(std::move(spare));
    if (!entered.inserted) {
      spare = std::move(entered.node);
      return false;
    }
    spare_keys_.pop_back();
  }
  memory_.add(OrderMemory::of_key(place->object.key));
  bytes_ += place->object.size;
  main_->bytes += place->object.size;
  if (policy_ == EvictionPolicy::ttl && place->object.end_us != 0) ends_.insert(end_of(place));
  return true;
}

void EvictionOrder::replace(Place place, const Object& object) {
  if (place->in == kept_.get()) move(place, *main_);
  change_end(object.key, object.end_us);
  bytes_ += object.size - place->object.size;
  place->in->bytes += object.size - place->object.size;
  place->object.size = object.size;
  place->object.time_us = object.time_us;
  if (is_kept(object.key, object.size)) return move(place, *kept_);
  if (policy_ != EvictionPolicy::s3_fifo || place->in == leaving_.get()) return move(place, *main_);
  place->reads = std::min<uint8_t>(place->reads + 1, reads_max);
}

void EvictionOrder::put_oldest(Object object) {
  const uint8_t reads = object.renewed_us != 0 ? 1 : 0;
  main_->nodes.push_front(Node{.object = std::move(object), .in = main_.get(), .reads = reads});
  const Place place = main_->nodes.begin();
  if (!enter(place)) return main_->nodes.pop_front();
  if (is_kept(place->object.key, place->object.size)) move(place, *kept_);
}

void EvictionOrder::change_end(std::string_view key, int64_t end_us) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Place place = found->second;
  const bool ordered = policy_ == EvictionPolicy::ttl && is_ordered(place);
  if (ordered) ends_.erase(end_of(place));
  place->object.end_us = end_us;
  if (ordered && end_us != 0) ends_.insert(end_of(place));
}

void EvictionOrder::erase(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Place place = found->second;
  auto entry = by_key_.extract(found);
  memory_.sub(OrderMemory::of_key(place->object.key));
  bytes_ -= place->object.size;
  place->in->bytes -= place->object.size;
  if (policy_ == EvictionPolicy::ttl) ends_.erase(end_of(place));
  if (spare_keys_.size() < spare_max) spare_keys_.push_back(std::move(entry));
  if (spare_.size() >= spare_max) {
    place->in->nodes.erase(place);
  } else {
    spare_.splice(spare_.end(), place->in->nodes, place);
  }
}

bool EvictionOrder::read(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  const Place place = found->second;
  const bool in_line = place->in == main_.get() || place->in->before;
  if (policy_ == EvictionPolicy::lru && in_line) move(place, *main_);
  place->reads = std::min<uint8_t>(place->reads + 1, reads_max);
  return true;
}

EvictionOrder::Object EvictionOrder::leave(Place place) {
  around_ = aside_seen_ = 0;
  move(place, *leaving_);
  return place->object;
}

std::optional<EvictionOrder::Place> EvictionOrder::look_at() {
  if (policy_ == EvictionPolicy::ttl && !ends_.empty()) return by_key_.at(ends_.begin()->second->object.key);
  const bool filters = policy_ == EvictionPolicy::s3_fifo && small_->bytes > bytes_ / 10;
  if (!small_->empty() && (filters || main_->empty())) return small_->nodes.begin();
  if (!main_->empty()) return main_->nodes.begin();
  if (!before_.empty() && !before_.front()->empty()) return before_.front()->nodes.begin();
  if (aside_seen_ < aside_->nodes.size()) return aside_->nodes.begin();
  return std::nullopt;
}

// Of the small queue, what was read goes on to the main queue. There, what was read goes around; if all is read as
// quickly as it goes around, the first one is next all the same. Of those set aside, the ones that are still pinned go
// to the end, so that the next call does not meet them first.
bool EvictionOrder::is_next(Place place, const std::function<bool(std::string_view)>& is_pinned) {
  if (is_pinned(place->object.key)) {
    if (place->in == aside_.get()) ++aside_seen_;
    move(place, *aside_);
    return false;
  }
  if (policy_ != EvictionPolicy::s3_fifo || place->in == aside_.get()) return true;
  if (place->in == small_.get()) {
    if (place->reads == 0) {
      remember(place->object.key);
      return true;
    }
    place->reads = 0;
  } else if (place->reads == 0 || around_ > main_->nodes.size() * reads_max) {
    return true;
  } else {
    --place->reads;
    ++around_;
  }
  move(place, *main_);
  return false;
}

std::optional<EvictionOrder::Object> EvictionOrder::next(const std::function<bool(std::string_view key)>& is_pinned,
                                                         size_t& steps) {
  for (; steps != 0; --steps) {
    while (!before_.empty() && before_.front()->empty()) before_.pop_front();
    const auto place = look_at();
    if (!place) {
      aside_seen_ = 0;
      return std::nullopt;
    }
    if (is_next(*place, is_pinned)) {
      --steps;
      return leave(*place);
    }
  }
  return std::nullopt;
}

void EvictionOrder::look_again(size_t max) {
  for (size_t left = std::min(max, aside_->nodes.size()); left != 0; --left) {
    move(aside_->nodes.begin(), *main_);
  }
}

void EvictionOrder::give_back(const Object& victim) {
  const auto found = by_key_.find(victim.key);
  if (found != by_key_.end() && found->second->in == leaving_.get()) {
    move(found->second, *main_);
  }
}

void EvictionOrder::correct(const Object& real) {
  const auto found = by_key_.find(real.key);
  if (found == by_key_.end() || found->second->in != leaving_.get()) return;
  Object& known = found->second->object;
  bytes_ += real.size - known.size;
  leaving_->bytes += real.size - known.size;
  known.size = real.size;
  known.time_us = real.time_us;
  known.end_us = real.end_us;
}

void EvictionOrder::forget_left(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end() && found->second->in == leaving_.get()) erase(key);
}

void EvictionOrder::remember(std::string_view key) { left_.add(std::hash<std::string_view>{}(key), by_key_.size()); }

bool EvictionOrder::was_here(std::string_view key) const {
  return left_.has(std::hash<std::string_view>{}(key), by_key_.size());
}

}  // namespace verbena::s3
