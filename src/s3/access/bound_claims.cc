#include "s3/access/bound_claims.h"

#include <algorithm>

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

void BoundClaims::wait(BoundWish& wish) {
  if (wish.state != BoundWish::State::fresh) return;
  wish.state = BoundWish::State::waits;
  ++by_key_[wish.key].wishes;
  waiting_.push_back(&wish);
}

void BoundClaims::claim(BoundWish& wish, Held held) {
  if (wish.state == BoundWish::State::waits) waiting_.remove(&wish);
  OfKey& of = by_key_[wish.key];
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
  if (--of.wishes == 0) by_key_.erase(found);
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
