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
#include <unordered_set>
#include <utility>

#include "base/metrics.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "store/key_pins.h"

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
constexpr size_t loaded_at_once = 1024;
constexpr size_t read_keys_max = 4096;  // waiting for their renewal; more reads renew nothing
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

EvictionOrder::Kept BoundSettings::kept() const {
  return {.suffix = keep_suffix,
          .bytes_max = most_bytes() / kept_part,
          .objects_max = std::clamp<uint64_t>(most_objects() / kept_part, 1, kept_objects_max)};
}

BoundSettings Bound::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void Bound::change(const BoundSettings& settings, store::Document document) {
  {
    const std::lock_guard lock(mutex_);
    if (settings_.is_limited() != settings.is_limited()) loaded_ = loading_ = false;
    settings_ = settings;
    const auto kept = settings_.kept();
    order_.limit_kept(kept.bytes_max, kept.objects_max);
    document_ = std::move(document);
    all_pinned_at_ = 0;
  }
  wake_worker_();
}

bool Bound::exceeds(uint64_t bytes, uint64_t objects) const {
  return bytes > settings_.most_bytes() || objects > settings_.most_objects();
}

bool Bound::has_room(const BoundRoom& for_it, const BoundRoom& kept) const {
  const BoundRoom& taken = claims_.taken();
  return !exceeds(order_.bytes() + taken.bytes + for_it.bytes + kept.bytes,
                  order_.objects() + taken.objects + for_it.objects + kept.objects);
}

// Of the contents, without the claims.
bool Bound::is_filling(uint64_t leaving_bytes, uint64_t leaving_objects, uint64_t part) const {
  const uint64_t bytes = settings_.most_bytes(), objects = settings_.most_objects();
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
  claims_.end(wish, order_.size_of(wish.key));
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
          .objects = std::max(first.objects, std::min(all.objects, settings_.most_objects() / 16))};
}

void Bound::note_read(std::string_view key) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || (!order_.read(key) && settings_.is_limited())) return;
  if (settings_.renew_on_read && read_keys_.size() < read_keys_max) read_keys_.emplace_back(key);
}

bool Bound::is_loaded() const {
  const std::lock_guard lock(mutex_);
  return loaded_;
}

bool Bound::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void Bound::begin_load() {
  std::optional<EvictionOrder> before;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  before.emplace(std::exchange(order_, EvictionOrder(settings_.policy, settings_.kept())));
  claims_.count_again([&](std::string_view key) { return order_.size_of(key); });
  removed_while_loading_.clear();
  loading_ = true;
}

// What was written meanwhile is there already, and younger.
void Bound::end_load(std::vector<EvictionOrder::Object> listed) {
  const auto last_use_us = [](const EvictionOrder::Object& one) { return std::max(one.time_us, one.renewed_us); };
  std::ranges::sort(listed, std::greater(), last_use_us);
  std::unordered_set<std::string> removed;
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < listed.size(); ++i) {
    if (i % loaded_at_once == 0) {  // reads and writes of the bucket wait for no more than these
      lock.unlock();
      lock.lock();
      if (!loading_ || gone_) return;
      removed.insert(removed_while_loading_.begin(), removed_while_loading_.end());
      removed_while_loading_.clear();
    }
    if (!removed.contains(listed[i].key)) order_.put_oldest(std::move(listed[i]));
  }
  if (!loading_ || gone_) return;  // lost track again
  removed_while_loading_.clear();
  claims_.count_again([&](std::string_view key) { return order_.size_of(key); });
  loading_ = false;
  loaded_ = true;
}

std::vector<EvictionOrder::Object> Bound::victims(size_t max, store::Document* decided_by) {
  std::vector<EvictionOrder::Object> all;
  const std::lock_guard lock(mutex_);
  if (!loaded_ || gone_ || !settings_.is_limited()) return all;
  if (decided_by != nullptr) *decided_by = document_;
  ++looks_;
  order_.look_again(looked_at_again_max);
  // Objects that are being written again are not evicted.
  bool passed_over = false;
  const auto is_pinned = [&](std::string_view key) {
    if (!claims_.has(key)) return store::KeyPins::get().is_pinned(bucket_, key);
    passed_over = passed_over || claims_.is_claimed(key);
    return true;
  };
  uint64_t leaving = 0, objects = 0;
  const bool waits = !claims_.waiting().empty();
  const BoundRoom want = wanted(), taken = claims_.taken();
  const auto still_exceeds = [&] {
    return is_filling(leaving, objects, 1) ||
           (waits && exceeds(order_.bytes() + taken.bytes + want.bytes - leaving,
                             order_.objects() + taken.objects + want.objects - objects));
  };
  while (all.size() < max && still_exceeds()) {
    auto victim = order_.next(is_pinned);
    if (!victim) {
      if (all.empty() && !passed_over) all_pinned_at_ = looks_;
      break;
    }
    leaving += victim->size;
    ++objects;
    all.push_back(std::move(*victim));
  }
  return all;
}

void Bound::settle(const EvictionOrder::Object& victim, bool removed) {
  const std::lock_guard lock(mutex_);
  if (removed) {
    order_.forget_left(victim.key);
  } else {
    order_.give_back(victim);
  }
}

void Bound::correct(const EvictionOrder::Object& real) {
  const std::lock_guard lock(mutex_);
  order_.correct(real);
}

std::vector<std::string> Bound::take_read_keys(size_t max) {
  const std::lock_guard lock(mutex_);
  const auto end = read_keys_.begin() + static_cast<ptrdiff_t>(std::min(max, read_keys_.size()));
  std::vector<std::string> keys(std::make_move_iterator(read_keys_.begin()), std::make_move_iterator(end));
  read_keys_.erase(read_keys_.begin(), end);
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
  switch (change->what) {
    case KeyEvent::created:
    case KeyEvent::appended:
    case KeyEvent::renamed_here:
      order_.put({change->key, change->size, change->time_us, change->end_us});
      break;
    case KeyEvent::changed:
      order_.change_end(change->key, change->end_us);
      break;
    case KeyEvent::removed:
    case KeyEvent::marked:
    case KeyEvent::renamed_away:
    case KeyEvent::evicted:
      order_.erase(change->key);
      if (loading_) removed_while_loading_.push_back(change->key);
      break;
  }
  all_pinned_at_ = 0;
  claims_.held_changed(change->key, order_.size_of(change->key));
}

void Bound::lost_track(uint64_t /*bucket*/) {
  const std::lock_guard lock(mutex_);
  loaded_ = loading_ = false;
}

void Bound::bucket_removed(uint64_t /*bucket*/) { withdraw(); }

// Its order lives as long as itself: here it would be destroyed under the lock of the caller.
void Bound::withdraw() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
}

Result<BoundPtr> BucketBounds::of(const std::string& bucket, int64_t created_us, const std::string& owner,
                                  const store::Document& text) {
  BoundPtr left;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  if (text == nullptr) {
    if (const auto found = bounds_.find(bucket); found != bounds_.end()) {
      left = std::move(found->second);
      left->withdraw();
      bounds_.erase(found);
    }
    return BoundPtr();
  }
  const auto settings = parse_bound(*text);
  if (!settings) return fail(Errc::corrupt_object, "access: bound of a bucket");
  BoundPtr& known = bounds_[bucket];
  const bool same = known != nullptr && known->created_us() == created_us && known->owner() == owner &&
                    known->settings().policy == settings->policy &&
                    known->settings().keep_suffix == settings->keep_suffix && !known->is_gone();
  if (!same) {
    if (known != nullptr) known->withdraw();
    left = std::move(known);
    known = std::make_shared<Bound>(bucket, created_us, owner, *settings, wake_);
    wake_();
  } else if (known->settings() != *settings) {
    known->change(*settings, text);
  }
  known->decided_by(text);
  return known;
}

std::vector<BoundPtr> BucketBounds::all() {
  std::vector<BoundPtr> found, gone;  // the gone ones are destroyed under no lock
  const std::lock_guard lock(mutex_);
  for (auto at = bounds_.begin(); at != bounds_.end();) {
    const bool is_gone = at->second->is_gone();
    (is_gone ? gone : found).push_back(at->second);
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
