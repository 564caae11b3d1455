#include "s3/access/bound_claims.h"

#include <algorithm>
#include <utility>

namespace verbena::s3 {

void BoundClaims::add(OfKey& of, const BoundWish& wish) {
  ++of.claims;
  if (wish.appends) {
    of.added += wish.bytes;
  } else {
    of.whole = std::max(of.whole, wish.bytes);
  }
}

// Of several writes of one key one object remains: the largest counts.
BoundRoom BoundClaims::room_of(const OfKey& of, Held held) {
  if (of.claims == 0) return {};
  const uint64_t has = held.value_or(0);
  return {.bytes = (of.whole > has ? of.whole - has : 0) + of.added, .objects = held ? 0U : 1U};
}

void BoundClaims::count(OfKey& of) {
  taken_.bytes -= of.taken.bytes;
  taken_.objects -= of.taken.objects;
  of.taken = room_of(of, of.held);
  taken_.bytes += of.taken.bytes;
  taken_.objects += of.taken.objects;
}

BoundRoom BoundClaims::needs(const BoundWish& wish, Held held) const {
  const auto found = by_key_.find(wish.key);
  OfKey of = found == by_key_.end() ? OfKey() : found->second;
  const BoundRoom before = room_of(of, held);
  add(of, wish);
  const BoundRoom with = room_of(of, held);
  return {.bytes = with.bytes - before.bytes, .objects = with.objects - before.objects};
}

BoundClaims::OfKey& BoundClaims::of_key(const std::string& key) {
  const auto at = by_key_.lower_bound(key);
  if (at != by_key_.end() && at->first == key) return at->second;
  if (spare_.empty()) return by_key_.emplace_hint(at, key, OfKey())->second;
  auto entry = std::move(spare_.back());
  spare_.pop_back();
  entry.key() = key;
  entry.mapped() = OfKey();
  return by_key_.insert(at, std::move(entry))->second;
}

void BoundClaims::wait(BoundWish& wish) {
  if (wish.state != BoundWish::State::fresh) return;
  wish.state = BoundWish::State::waits;
  ++of_key(wish.key).wishes;
  waiting_.push_back(&wish);
}

void BoundClaims::claim(BoundWish& wish, Held held) {
  if (wish.state == BoundWish::State::waits) waiting_.remove(&wish);
  OfKey& of = of_key(wish.key);
  if (wish.state == BoundWish::State::fresh) ++of.wishes;
  wish.state = BoundWish::State::claimed;
  add(of, wish);
  of.held = held;
  count(of);
}

void BoundClaims::end(BoundWish& wish) {
  if (wish.state == BoundWish::State::fresh) return;
  const auto found = by_key_.find(wish.key);
  OfKey& of = found->second;
  if (wish.state == BoundWish::State::waits) {
    waiting_.remove(&wish);
  } else {
    --of.claims;
    if (wish.appends) of.added -= wish.bytes;
    if (of.claims == 0) of.whole = of.added = 0;
    count(of);
  }
  wish.state = BoundWish::State::fresh;
  if (--of.wishes != 0) return;
  auto entry = by_key_.extract(found);
  if (spare_.size() < spare_max) spare_.push_back(std::move(entry));
}

void BoundClaims::held_changed(std::string_view key, Held held) {
  if (by_key_.empty()) return;
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  found->second.held = held;
  count(found->second);
}

void BoundClaims::count_again(const std::function<Held(std::string_view key)>& held_of) {
  for (auto& [key, of] : by_key_) {
    of.held = held_of(key);
    count(of);
  }
}

bool BoundClaims::is_claimed(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found != by_key_.end() && found->second.claims != 0;
}

}  // namespace verbena::s3
