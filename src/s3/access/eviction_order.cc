#include "s3/access/eviction_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace verbena::s3 {

EvictionOrder::Queue& EvictionOrder::queue(Where where) {
  switch (where) {
    case Where::small:
      return small_;
    case Where::main:
      return main_;
    case Where::leaving:
      return leaving_;
    case Where::aside:
      return aside_;
    case Where::kept:
      return kept_;
  }
  return main_;
}

std::optional<uint64_t> EvictionOrder::size_of(std::string_view key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second->object.size;
}

void EvictionOrder::move(Place place, Where to) {
  const bool ends = policy_ == EvictionPolicy::ttl && place->object.end_us != 0;
  bytes_in(place->where) -= place->object.size;
  bytes_in(to) += place->object.size;
  const bool ordered = to == Where::small || to == Where::main;
  if (ends && !ordered) ends_.erase(end_of(place));
  if (ends && ordered) ends_.insert(end_of(place));
  Queue& target = queue(to);
  target.splice(target.end(), queue(place->where), place);
  place->where = to;
}

bool EvictionOrder::is_kept(std::string_view key, uint64_t size) {
  return !kept_rule_.suffix.empty() && key.ends_with(kept_rule_.suffix) && kept_.size() < kept_rule_.objects_max &&
         size <= kept_rule_.bytes_max && bytes_in(Where::kept) <= kept_rule_.bytes_max - size;
}

void EvictionOrder::limit_kept(uint64_t bytes_max, uint64_t objects_max) {
  kept_rule_.bytes_max = bytes_max;
  kept_rule_.objects_max = objects_max;
  while (kept_.size() > objects_max || bytes_in(Where::kept) > bytes_max) move(std::prev(kept_.end()), Where::main);
}

void EvictionOrder::put(const Object& object) {
  const auto found = by_key_.find(object.key);
  if (found != by_key_.end()) return replace(found->second, object);
  main_.push_back(Node{.object = object});
  const Place place = std::prev(main_.end());
  enter(place);
  const bool filtered = place->where == Where::main && policy_ == EvictionPolicy::s3_fifo;
  if (filtered && !was_here(object.key)) move(place, Where::small);
}

// A new object of the main queue.
void EvictionOrder::enter(Place place) {
  by_key_.emplace(place->object.key, place);
  bytes_ += place->object.size;
  bytes_in(Where::main) += place->object.size;
  if (policy_ == EvictionPolicy::ttl && place->object.end_us != 0) ends_.insert(end_of(place));
  if (is_kept(place->object.key, place->object.size)) move(place, Where::kept);
}

void EvictionOrder::replace(Place place, const Object& object) {
  if (place->where == Where::kept) move(place, Where::main);
  change_end(object.key, object.end_us);
  bytes_ += object.size - place->object.size;
  bytes_in(place->where) += object.size - place->object.size;
  place->object.size = object.size;
  place->object.time_us = object.time_us;
  if (is_kept(object.key, object.size)) return move(place, Where::kept);
  if (policy_ != EvictionPolicy::s3_fifo || place->where == Where::leaving) return move(place, Where::main);
  place->reads = std::min<uint8_t>(place->reads + 1, reads_max);
}

void EvictionOrder::put_oldest(Object object) {
  if (by_key_.contains(object.key)) return;
  const uint8_t reads = object.renewed_us != 0 ? 1 : 0;
  main_.push_front(Node{.object = std::move(object), .reads = reads});
  enter(main_.begin());
}

void EvictionOrder::change_end(std::string_view key, int64_t end_us) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Place place = found->second;
  const bool in_queue = place->where == Where::small || place->where == Where::main;
  const bool ordered = policy_ == EvictionPolicy::ttl && in_queue;
  if (ordered) ends_.erase(end_of(place));
  place->object.end_us = end_us;
  if (ordered && end_us != 0) ends_.insert(end_of(place));
}

void EvictionOrder::erase(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Place place = found->second;
  by_key_.erase(found);
  bytes_ -= place->object.size;
  bytes_in(place->where) -= place->object.size;
  if (policy_ == EvictionPolicy::ttl) ends_.erase(end_of(place));
  queue(place->where).erase(place);
}

bool EvictionOrder::read(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  const Place place = found->second;
  if (policy_ == EvictionPolicy::lru && place->where == Where::main) main_.splice(main_.end(), main_, place);
  place->reads = std::min<uint8_t>(place->reads + 1, reads_max);
  return true;
}

std::optional<EvictionOrder::Object> EvictionOrder::leave(Place place) {
  move(place, Where::leaving);
  return place->object;
}

// Objects that were read go on to the main queue.
std::optional<EvictionOrder::Object> EvictionOrder::next_of_small(
    const std::function<bool(std::string_view)>& is_pinned, size_t& tries) {
  const auto main_is_empty = [&] { return main_.empty() && !small_.empty(); };
  while (tries != 0 && !small_.empty() && (bytes_in(Where::small) > bytes_ / 10 || main_is_empty())) {
    --tries;
    const Place place = small_.begin();
    if (is_pinned(place->object.key)) {
      move(place, Where::aside);
      continue;
    }
    if (place->reads == 0) {
      remember(place->object.key);
      return leave(place);
    }
    move(place, Where::main);
    place->reads = 0;
  }
  return std::nullopt;
}

std::optional<EvictionOrder::Object> EvictionOrder::next_of_main(const std::function<bool(std::string_view)>& is_pinned,
                                                                 size_t& tries) {
  const bool goes_around = policy_ == EvictionPolicy::s3_fifo;
  while (tries != 0 && !main_.empty()) {
    --tries;
    const Place place = main_.begin();
    if (is_pinned(place->object.key)) {
      move(place, Where::aside);
      continue;
    }
    if (!goes_around || place->reads == 0) return leave(place);
    --place->reads;
    main_.splice(main_.end(), main_, place);
  }
  return std::nullopt;
}

std::optional<EvictionOrder::Object> EvictionOrder::next_to_end(
    const std::function<bool(std::string_view)>& is_pinned) {
  while (!ends_.empty()) {
    const Place place = by_key_.at(ends_.begin()->second->object.key);
    if (!is_pinned(place->object.key)) return leave(place);
    move(place, Where::aside);
  }
  return std::nullopt;
}

std::optional<EvictionOrder::Object> EvictionOrder::next(const std::function<bool(std::string_view key)>& is_pinned) {
  // Each object of the small queue may move once, and each one of the main queue go around for each of its reads.
  size_t tries = (small_.size() + main_.size()) * (reads_max + 2);
  if (policy_ == EvictionPolicy::ttl) {
    if (auto first = next_to_end(is_pinned)) return first;
  }
  if (policy_ == EvictionPolicy::s3_fifo) {
    if (auto first = next_of_small(is_pinned, tries)) return first;
  }
  if (auto first = next_of_main(is_pinned, tries)) return first;
  // Nothing is left of the main queue: what the small one has.
  while (!small_.empty()) {
    const Place place = small_.begin();
    if (!is_pinned(place->object.key)) return leave(place);
    move(place, Where::aside);
  }
  return next_of_aside(is_pinned);
}

// Those that are still pinned go to the end, so that the next call does not meet them first.
std::optional<EvictionOrder::Object> EvictionOrder::next_of_aside(
    const std::function<bool(std::string_view)>& is_pinned) {
  for (size_t tries = aside_.size(); tries != 0; --tries) {
    const Place place = aside_.begin();
    if (!is_pinned(place->object.key)) return leave(place);
    aside_.splice(aside_.end(), aside_, place);
  }
  return std::nullopt;
}

void EvictionOrder::look_again(size_t max) {
  for (size_t left = std::min(max, aside_.size()); left != 0; --left) move(aside_.begin(), Where::main);
}

void EvictionOrder::give_back(const Object& victim) {
  const auto found = by_key_.find(victim.key);
  if (found != by_key_.end() && found->second->where == Where::leaving) move(found->second, Where::main);
}

void EvictionOrder::correct(const Object& real) {
  const auto found = by_key_.find(real.key);
  if (found == by_key_.end() || found->second->where != Where::leaving) return;
  Object& known = found->second->object;
  bytes_ += real.size - known.size;
  bytes_in(Where::leaving) += real.size - known.size;
  known.size = real.size;
  known.time_us = real.time_us;
  known.end_us = real.end_us;
}

void EvictionOrder::forget_left(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end() && found->second->where == Where::leaving) erase(key);
}

void EvictionOrder::remember(std::string_view key) {
  const size_t name = std::hash<std::string_view>{}(key);
  left_.push_back(name);
  left_set_.insert(name);
  while (left_.size() > by_key_.size()) {
    left_set_.erase(left_set_.find(left_.front()));
    left_.pop_front();
  }
}

bool EvictionOrder::was_here(std::string_view key) const {
  return left_set_.contains(std::hash<std::string_view>{}(key));
}

}  // namespace verbena::s3
