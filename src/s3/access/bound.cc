#include "s3/access/bound.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "base/metrics.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "store/key_pins.h"
#include "store/logic/damage.h"
#include "store/renewals.h"

namespace verbena::s3 {
namespace {

constexpr const char* bound_root = "BoundConfiguration";
constexpr std::array<std::pair<EvictionPolicy, std::string_view>, 3> policy_names{
    {{EvictionPolicy::s3_fifo, "s3-fifo"}, {EvictionPolicy::lru, "lru"}, {EvictionPolicy::ttl, "ttl"}}};

// The worker evicts down to the bound less kept_free() of it, and is woken when half of that is taken: of a small bound
// room for several batches of writes, which else wait for each other's evictions.
constexpr uint64_t kept_free_part = 64, kept_free_part_max = 16;
constexpr uint64_t kept_free_bytes = 4 * MiB, kept_free_objects = 1024;
uint64_t kept_free(uint64_t bound, uint64_t enough) {
  return std::max(bound / kept_free_part, std::min(bound / kept_free_part_max, enough));
}
constexpr uint64_t kept_part = 16;           // of the bound, at most, for objects that are never evicted
constexpr uint64_t kept_objects_max = 4096;  // likewise
constexpr size_t due_keys_max = 4096;        // waiting for their renewal; more are renewed when they are read again
constexpr size_t due_keys_wake = 512;        // the worker does not sleep on so many
constexpr size_t removed_while_loading_max = 1 << 20;             // beyond it the load begins again
constexpr size_t arranged_at_once = 1024, looked_at_once = 2048;  // under the lock, which commits wait for
constexpr const char* larger_than_bound = "The object is larger than the bound of its bucket.";
constexpr size_t looked_at_again_max = 1024;  // of pinned objects, at each look

Result<uint64_t> parse_bound_number(const pugi::xml_node& root, const char* name) {
  const pugi::xml_node node = root.child(name);
  if (!node) return uint64_t{0};
  const std::string text = trimmed_text(node);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0 || number > INT64_MAX) {
    return fail(Errc::invalid_argument, "MaxBytes and MaxObjects are whole numbers from 1 on.");
  }
  return number;
}

metrics::Counter& bound_refusals() {
  static auto& counter = metrics::counter("verbena_bound_refusals_total",
                                          "Writes into bounded buckets that found no room: all was pinned, the object "
                                          "was larger than the bound, or evictions took too long");
  return counter;
}

}  // namespace

Result<BoundSettings> parse_bound(std::string_view xml) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, xml, bound_root));
  VB_TRY(check_children(root, {"MaxBytes", "MaxObjects", "Policy", "RenewOnRead", "KeepSuffix"}));
  BoundSettings settings;
  VB_ASSIGN(settings.bytes_max, parse_bound_number(root, "MaxBytes"));
  VB_ASSIGN(settings.objects_max, parse_bound_number(root, "MaxObjects"));
  if (settings.objects_max > bounded_objects_max) {
    return fail(Errc::invalid_argument, "MaxObjects is at most 4194304.");
  }
  if (const pugi::xml_node policy = root.child("Policy")) {
    const auto found =
        std::ranges::find(policy_names, trimmed_text(policy), [](const auto& one) { return one.second; });
    if (found == policy_names.end()) return fail(Errc::invalid_argument, "Policy must be s3-fifo, lru or ttl.");
    settings.policy = found->first;
  }
  const std::string renew = trimmed_text(root.child("RenewOnRead"));
  if (!renew.empty() && renew != "true" && renew != "false") {
    return fail(Errc::invalid_argument, "RenewOnRead must be true or false.");
  }
  settings.renew_on_read = renew == "true";
  if (const pugi::xml_node suffix = root.child("KeepSuffix")) {
    settings.keep_suffix = text_of(suffix);
    if (settings.keep_suffix.size() > keep_suffix_size_max) {
      return fail(Errc::invalid_argument, "KeepSuffix has at most 128 bytes.");
    }
  }
  if (settings.bytes_max == 0 && settings.objects_max == 0 && !settings.renew_on_read) {
    return fail(Errc::invalid_argument, "A bound needs MaxBytes, MaxObjects or RenewOnRead.");
  }
  return settings;
}

std::string bound_xml(const BoundSettings& settings) {
  XmlWriter xml(bound_root);
  if (settings.bytes_max != 0) xml.element("MaxBytes", std::to_string(settings.bytes_max));
  if (settings.objects_max != 0) xml.element("MaxObjects", std::to_string(settings.objects_max));
  const auto policy = std::ranges::find(policy_names, settings.policy, [](const auto& one) { return one.first; });
  xml.element("Policy", policy->second);
  xml.element("RenewOnRead", settings.renew_on_read);
  xml.element("KeepSuffix", settings.keep_suffix);
  return xml.finish();
}

EvictionOrder::Kept BoundSettings::kept_of(uint64_t objects) const {
  return {.suffix = keep_suffix,
          .bytes_max = most_bytes() / kept_part,
          .objects_max = std::clamp<uint64_t>(objects / kept_part, 1, kept_objects_max)};
}

BoundSettings Bound::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void Bound::change(const BoundSettings& settings, store::Document document) {
  {
    const std::lock_guard lock(mutex_);
    if (settings_.is_limited() != settings.is_limited()) loaded_ = loading_ = false;
    if (settings_.keep_suffix != settings.keep_suffix) loading_ = false;  // it sets aside what is kept
    settings_ = settings;
    renews_ = settings.renew_on_read;
    order_.change(settings_.policy, settings_.kept());
    document_ = std::move(document);
    all_pinned_at_ = 0;
  }
  wake_worker_();
}

// `of_memory`: how many objects what it has in memory is of; 0: not known.
uint64_t Bound::most_objects(uint64_t of_memory) const {
  const uint64_t set = settings_.most_objects();
  return memory_ == nullptr ? set : std::min(set, memory_->objects_max(of_memory));
}

uint64_t Bound::objects_allowed() const {
  const std::lock_guard lock(mutex_);
  return most_objects();
}

store::Document Bound::document() const {
  const std::lock_guard lock(mutex_);
  return document_;
}

bool Bound::exceeds(uint64_t bytes, uint64_t objects) const {
  return bytes > settings_.most_bytes() || objects > most_objects();
}

bool Bound::has_room(const BoundRoom& for_it, const BoundRoom& kept) const {
  const BoundRoom& taken = claims_.taken();
  return !exceeds(order_.bytes() + taken.bytes + for_it.bytes + kept.bytes,
                  order_.objects() + taken.objects + for_it.objects + kept.objects);
}

// Of the contents, without the claims.
bool Bound::is_filling(uint64_t leaving_bytes, uint64_t leaving_objects, uint64_t part) const {
  const uint64_t bytes = settings_.most_bytes(), objects = most_objects();
  return order_.bytes() - leaving_bytes > bytes - kept_free(bytes, kept_free_bytes) / part ||
         order_.objects() - leaving_objects > objects - kept_free(objects, kept_free_objects) / part;
}

Result<void> Bound::check_size(uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (bytes <= settings_.most_bytes()) return {};
  bound_refusals().add();
  return fail(Errc::insufficient_storage, larger_than_bound);
}

Bound::Room Bound::claim(BoundWish& wish) {
  bool fills = false;
  Room room = Room::claimed;
  {
    const std::lock_guard lock(mutex_);
    const auto held = order_.size_of(wish.key);
    const uint64_t before = wish.appends ? held.value_or(0) : 0;
    if (wish.bytes > settings_.most_bytes() || before > settings_.most_bytes() - wish.bytes) return Room::never;
    if (gone_ || !settings_.is_limited()) return Room::claimed;  // the write will find out
    const BoundRoom need = claims_.needs(wish, held);
    const BoundWish* const first = claims_.waiting().empty() ? nullptr : claims_.waiting().front();
    BoundRoom kept;
    if (first != nullptr && first != &wish) kept = claims_.needs(*first, order_.size_of(first->key));
    if (loaded_ && (need == BoundRoom() || has_room(need, kept))) {
      claims_.claim(wish, held);
      fills = is_filling(0, 0, 2);
    } else {
      room = refuse(wish, need);
      fills = true;
    }
  }
  if (fills) wake_worker_();
  return room;
}

// What is only claimed will be counted, and can be evicted then.
Bound::Room Bound::refuse(BoundWish& wish, const BoundRoom& need) {
  if (wish.state == BoundWish::State::fresh) {
    wish.refused_at = looks_;
    claims_.wait(wish);
  }
  const bool full =
      all_pinned_at_ > wish.refused_at && exceeds(order_.bytes() + need.bytes, order_.objects() + need.objects);
  return full && loaded_ ? Room::full : Room::wait;
}

void Bound::release(BoundWish& wish) {
  const std::lock_guard lock(mutex_);
  claims_.end(wish);
}

// All that the first one needs; for the others no more than a part of the bound at once.
BoundRoom Bound::wanted() const {
  BoundRoom all, first;
  for (const BoundWish* const wish : claims_.waiting()) {
    const BoundRoom need = claims_.needs(*wish, order_.size_of(wish->key));
    if (wish == claims_.waiting().front()) first = need;
    all.bytes += std::min(need.bytes, settings_.most_bytes());
    all.objects += need.objects;
    if (all.bytes > settings_.most_bytes() / 16) break;
  }
  return {.bytes = std::max(first.bytes, std::min(all.bytes, settings_.most_bytes() / 16)),
          .objects = std::max(first.objects, std::min(all.objects, most_objects() / 16))};
}

void Bound::note_read(std::string_view key, const store::ObjectInfo& seen, const WallClock& clock) {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) order_.read(key);
  if (!renews_ || store::ttl_s_of(seen) == 0 || !store::is_renewal_due(seen, clock.now_us())) return;
  bool wakes = false;
  {
    const std::lock_guard lock(due_mutex_);
    if (due_keys_.size() >= due_keys_max || is_crowded()) return;
    if (due_keys_.emplace(key).second) {
      due_memory_.add(OrderMemory::of_key(key));
      wakes = due_keys_.size() == due_keys_wake;
    }
  }
  if (wakes) wake_worker_();
}

bool Bound::is_loaded() const {
  const std::lock_guard lock(mutex_);
  return loaded_;
}

bool Bound::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool Bound::is_loading() const {
  const std::lock_guard lock(mutex_);
  return loading_ && !gone_;
}

EvictionOrder Bound::begin_load() {
  std::unordered_set<std::string> removed;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  EvictionOrder before = std::exchange(order_, EvictionOrder(settings_.policy, settings_.kept(), OrderShare(memory_)));
  claims_.count_again([&](std::string_view key) { return order_.size_of(key); });
  std::swap(removed, removed_while_loading_);
  removed_memory_.clear();
  loading_ = true;
  return before;
}

// Before anything is evicted for want of memory. Most of what is in memory then is listed, and in no order yet.
bool Bound::add_kept(std::vector<EvictionOrder::Object>& listed) {
  const std::lock_guard lock(mutex_);
  if (!loading_ || gone_) return false;
  const auto kept = settings_.kept_of(most_objects(0));
  order_.limit_kept(kept.bytes_max, kept.objects_max);
  std::vector<EvictionOrder::Object> others;
  others.reserve(listed.size());
  for (auto& object : listed) {
    if (!order_.is_kept(object.key, object.size)) {
      others.push_back(std::move(object));
    } else if (!removed_while_loading_.contains(object.key)) {
      order_.put_oldest(std::move(object));
    }
  }
  listed = std::move(others);
  return true;
}

// What was written meanwhile is there already, and younger.
bool Bound::add_loaded(std::vector<EvictionOrder::Object> older) {
  const std::lock_guard lock(mutex_);
  if (!loading_ || gone_) return false;
  for (auto& object : older) {
    if (!removed_while_loading_.contains(object.key)) order_.put_oldest(std::move(object));
  }
  return true;
}

void Bound::end_load() {
  std::unordered_set<std::string> removed;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  if (!loading_ || gone_) return;
  std::swap(removed, removed_while_loading_);
  removed_memory_.clear();
  claims_.count_again([&](std::string_view key) { return order_.size_of(key); });
  loading_ = false;
  loaded_ = true;
}

// Objects that are being written again are not evicted.
bool Bound::is_pinned(std::string_view key) {
  if (!claims_.has(key)) return store::KeyPins::get().is_pinned(bucket_, key);
  passed_over_ = passed_over_ || claims_.is_claimed(key);
  return true;
}

void Bound::begin_look() {
  if (std::exchange(look_goes_on_, false)) return;
  ++looks_;
  passed_over_ = false;
  order_.look_again(looked_at_again_max);
}

Bound::Victims Bound::victims(size_t max) {
  Victims found;
  auto& all = found.objects;
  const std::lock_guard lock(mutex_);
  if (gone_) return found;
  found.more = order_.arrange(arranged_at_once);
  if (!loaded_ || !settings_.is_limited()) return found;
  found.decided_by = document_;
  begin_look();
  const auto kept = settings_.kept_of(most_objects());
  order_.limit_kept(kept.bytes_max, kept.objects_max);
  uint64_t leaving = 0;
  const bool waits = !claims_.waiting().empty();
  const BoundRoom want = wanted(), taken = claims_.taken();
  const bool enough_bytes = order_.bytes() + taken.bytes + want.bytes <=
                            settings_.most_bytes() - kept_free(settings_.most_bytes(), kept_free_bytes);
  found.early = enough_bytes && most_objects() < settings_.most_objects();
  const auto still_exceeds = [&] {
    return is_filling(leaving, all.size(), 1) ||
           (waits && exceeds(order_.bytes() + taken.bytes + want.bytes - leaving,
                             order_.objects() + taken.objects + want.objects - all.size()));
  };
  size_t steps = looked_at_once;
  while (all.size() < max && still_exceeds()) {
    auto victim = order_.next([this](std::string_view key) { return is_pinned(key); }, steps);
    if (!victim) break;
    leaving += victim->size;
    all.push_back(std::move(*victim));
  }
  if (!still_exceeds()) return found;
  const bool goes_on = steps == 0 || all.size() == max;
  if (all.empty() && !goes_on && !passed_over_) all_pinned_at_ = looks_;
  look_goes_on_ = goes_on && all.empty();
  found.more = found.more || goes_on;
  return found;
}

void Bound::settle(std::span<const EvictionOrder::Object> victims, const std::vector<Result<void>>& done) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < victims.size(); ++i) {
    if (done[i]) continue;
    // One whose row is damaged leaves the order, as the next load leaves it out: else it is chosen again and again.
    if (done[i].error() == Errc::no_such_key || store::is_damage(done[i].error())) {
      order_.forget_left(victims[i].key);
      // A write of that key has claimed what it has more than the object.
      claims_.held_changed(victims[i].key, order_.size_of(victims[i].key));
    } else if (loading_) {
      // It had been listed, and was in no order yet.
      if (!removed_while_loading_.contains(victims[i].key)) order_.put_oldest(victims[i]);
    } else {
      order_.give_back(victims[i]);
    }
  }
}

void Bound::correct(const EvictionOrder::Object& real) {
  const std::lock_guard lock(mutex_);
  order_.correct(real);
  claims_.held_changed(real.key, order_.size_of(real.key));
}

std::vector<std::string> Bound::take_due_keys(size_t max) {
  const std::lock_guard lock(due_mutex_);
  std::vector<std::string> keys;
  while (keys.size() < max && !due_keys_.empty()) {
    keys.push_back(std::move(due_keys_.extract(due_keys_.begin()).value()));
    due_memory_.sub(OrderMemory::of_key(keys.back()));
  }
  return keys;
}

void Bound::decided_by(store::Document document) {
  const std::lock_guard lock(mutex_);
  document_ = std::move(document);
}

Bound::Held Bound::held() const {
  const std::lock_guard lock(mutex_);
  return {order_.bytes(), order_.objects()};
}

void Bound::told(uint64_t /*bucket*/, const store::KeyChangePtr& change) {
  using store::KeyEvent;
  if (change->of_versions) return;
  const std::lock_guard lock(mutex_);
  if (gone_ || !settings_.is_limited()) return;
  BoundClaims::Held held;
  switch (change->what) {
    case KeyEvent::created:
    case KeyEvent::appended:
    case KeyEvent::renamed_here:
      told_.key = change->key;
      told_.size = change->size;
      told_.time_us = change->time_us;
      told_.end_us = change->end_us;
      order_.put(told_);
      held = change->size;
      break;
    case KeyEvent::changed:
      order_.change_end(change->key, change->end_us);
      all_pinned_at_ = 0;
      return;
    case KeyEvent::removed:
    case KeyEvent::marked:
    case KeyEvent::renamed_away:
    case KeyEvent::evicted:
      order_.erase(change->key);
      if (loading_ && change->what != KeyEvent::evicted) note_removed(change->key);
      break;
  }
  all_pinned_at_ = 0;
  claims_.held_changed(change->key, held);
}

// An object that was removed is not added by the load any more. The load itself evicts what it has listed, and forgets
// that by itself.
void Bound::note_removed(const std::string& key) {
  if (removed_while_loading_.insert(key).second) removed_memory_.add(OrderMemory::of_key(key));
  const bool many = memory_ != nullptr && removed_memory_.bytes() > memory_->allowed() / 2;
  if (many || removed_while_loading_.size() > removed_while_loading_max) loading_ = false;
}

void Bound::lost_track(uint64_t /*bucket*/) {
  const std::lock_guard lock(mutex_);
  loaded_ = loading_ = false;
}

void Bound::bucket_removed(uint64_t /*bucket*/) { withdraw(); }

// Its order stays: here it would be destroyed under the lock of the caller.
void Bound::withdraw() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
}

EvictionOrder Bound::take_order() {
  std::unordered_set<std::string> removed;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  std::swap(removed, removed_while_loading_);
  removed_memory_.clear();
  return std::exchange(order_, EvictionOrder(settings_.policy, settings_.kept(), OrderShare(memory_)));
}

// A request that read the bucket before a change, and comes here after it, would bring back what was.
Result<BoundPtr> BucketBounds::of(const std::string& bucket, int64_t created_us, const std::string& owner,
                                  const store::Document& text, uint64_t generation) {
  const std::lock_guard lock(mutex_);
  const auto found = bounds_.find(bucket);
  if (found != bounds_.end() && generation < found->second.generation) return found->second.bound;
  if (text == nullptr) {
    if (found == bounds_.end()) return BoundPtr();
    found->second.generation = generation;
    if (found->second.bound == nullptr) return BoundPtr();
    withdraw(std::move(found->second.bound));
    if (++unbounded_ > unbounded_max) forget_unbounded();
    return BoundPtr();
  }
  const auto settings = parse_bound(*text);
  if (!settings) return fail(Errc::corrupt_object, "access: bound of a bucket");
  Known& entry = bounds_[bucket];
  entry.generation = generation;
  BoundPtr& known = entry.bound;
  const bool same =
      known != nullptr && known->created_us() == created_us && known->owner() == owner && !known->is_gone();
  if (!same) {
    if (known != nullptr) withdraw(std::move(known));
    known = std::make_shared<Bound>(bucket, created_us, owner, *settings, wake_, memory_.bucket(owner));
    wake_();
  } else if (known->settings() != *settings) {
    known->change(*settings, text);
  }
  known->decided_by(text);
  return known;
}

// Its order may be large: the last request that knows the bound must not have to destroy it.
void BucketBounds::withdraw(BoundPtr bound) {
  bound->withdraw();
  withdrawn_.push_back(std::move(bound));
}

std::vector<BoundPtr> BucketBounds::take_withdrawn() {
  const std::lock_guard lock(mutex_);
  return std::exchange(withdrawn_, {});
}

void BucketBounds::forget_unbounded() {
  std::erase_if(bounds_, [](const auto& one) { return one.second.bound == nullptr; });
  unbounded_ = 0;
}

std::vector<BoundPtr> BucketBounds::all() {
  std::vector<BoundPtr> found;
  const std::lock_guard lock(mutex_);
  for (auto at = bounds_.begin(); at != bounds_.end();) {
    const BoundPtr& bound = at->second.bound;
    const bool is_gone = bound != nullptr && bound->is_gone();
    if (bound != nullptr) (is_gone ? withdrawn_ : found).push_back(bound);
    at = is_gone ? bounds_.erase(at) : std::next(at);
  }
  return found;
}

void register_bound_metrics() { bound_refusals(); }

Task<Result<BoundClaim>> claim_room(BoundPtr bound, BoundWish wish, std::chrono::seconds wait_max) {
  if (bound == nullptr) co_return BoundClaim();
  const auto until = std::chrono::steady_clock::now() + wait_max;
  std::chrono::milliseconds pause{1};
  BoundClaim claim(bound, std::move(wish));
  std::optional<boost::asio::steady_timer> timer;
  for (;;) {
    switch (bound->claim(claim.wish())) {
      case Bound::Room::claimed:
        co_return std::move(claim);
      case Bound::Room::never:
        bound_refusals().add();
        co_return fail(Errc::insufficient_storage, larger_than_bound);
      case Bound::Room::full:
        bound_refusals().add();
        co_return fail(Errc::insufficient_storage, "The bucket is full, and a lease pins each of its objects.");
      case Bound::Room::wait:
        break;
    }
    if (std::chrono::steady_clock::now() > until) {
      bound_refusals().add();
      co_return fail(Errc::slow_down, "The bucket is full, and evictions take too long.");
    }
    if (!timer) timer.emplace(co_await boost::asio::this_coro::executor);
    timer->expires_after(pause);
    co_await timer->async_wait(boost::asio::use_awaitable);
    pause = std::min(2 * pause, std::chrono::milliseconds(8));
  }
}

Task<Result<void>> look_at_conditions(Service& service, std::string bucket, std::string key,
                                      store::CommitConditions conditions) {
  if (!conditions.any()) co_return Result<void>();
  const auto there = co_await service.store.stat(bucket, key, "");
  if (!there && there.error() != Errc::no_such_key) co_return Result<void>();
  const auto matches = [&](const std::string& etag) { return there && (etag == "*" || etag == there->etag); };
  if (conditions.if_match && !there) co_return fail(Errc::no_such_key, "if-match: no object");
  if (conditions.if_match && !matches(*conditions.if_match)) co_return fail(Errc::precondition_failed, "if-match");
  if (conditions.if_none_match && matches(*conditions.if_none_match)) {
    co_return fail(Errc::precondition_failed, "if-none-match");
  }
  if (conditions.if_size && *conditions.if_size != (there ? there->size : 0)) {
    co_return fail(Errc::invalid_write_offset, "append: offset");
  }
  co_return Result<void>();
}

}  // namespace verbena::s3
