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

// The worker evicts down to the bound less this part of it, and is woken when half of that is taken.
constexpr uint64_t kept_free_part = 64;
constexpr size_t loaded_at_once = 1024;
constexpr size_t read_keys_max = 4096;  // waiting for their renewal; more reads renew nothing
constexpr std::chrono::seconds room_wait_max{30};

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
  VB_TRY(check_children(root, {"MaxBytes", "MaxObjects", "Policy", "RenewOnRead"}));
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
  return xml.finish();
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
    document_ = std::move(document);
    all_pinned_ = false;
  }
  wake_worker_();
}

bool Bound::exceeds(uint64_t bytes, uint64_t objects) const {
  return bytes > settings_.most_bytes() || objects > settings_.most_objects();
}

// A claim counts twice for a moment: its object is counted before it is released. So only the contents count here.
bool Bound::is_filling(uint64_t leaving_bytes, uint64_t leaving_objects, uint64_t part) const {
  const uint64_t bytes = settings_.most_bytes(), objects = settings_.most_objects();
  return order_.bytes() - leaving_bytes > bytes - bytes / part ||
         order_.objects() - leaving_objects > objects - objects / part;
}

Result<void> Bound::check_size(uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (bytes <= settings_.most_bytes()) return {};
  bound_refusals().add();
  return fail(Errc::insufficient_storage, "The object is larger than the bound of its bucket.");
}

Bound::Room Bound::claim(uint64_t bytes, uint64_t objects) {
  bool fills = false;
  Room room = Room::claimed;
  {
    const std::lock_guard lock(mutex_);
    if (bytes > settings_.most_bytes()) return Room::never;
    if (gone_ || !settings_.is_limited()) return Room::claimed;  // the write will find out
    claimed_bytes_ += bytes;
    claimed_objects_ += objects;
    if (!loaded_ || exceeds(order_.bytes() + claimed_bytes_, order_.objects() + claimed_objects_)) {
      room = all_pinned_ && loaded_ ? Room::full : Room::wait;
      fills = true;
      claimed_bytes_ -= bytes;
      claimed_objects_ -= objects;
      wanted_bytes_ = std::max(wanted_bytes_, bytes);
      wanted_objects_ = std::max(wanted_objects_, objects);
    } else {
      wanted_bytes_ = wanted_objects_ = 0;  // others that wait ask again
      fills = is_filling(0, 0, 2 * kept_free_part);
    }
  }
  if (fills) wake_worker_();
  return room;
}

void Bound::release(uint64_t bytes, uint64_t objects) {
  const std::lock_guard lock(mutex_);
  claimed_bytes_ -= std::min(bytes, claimed_bytes_);
  claimed_objects_ -= std::min(objects, claimed_objects_);
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
  const std::lock_guard lock(mutex_);
  order_ = EvictionOrder(settings_.policy);
  removed_while_loading_.clear();
  loading_ = true;
}

// What was written meanwhile is there already, and younger.
void Bound::end_load(std::vector<EvictionOrder::Object> listed) {
  std::ranges::sort(listed, std::greater(), &EvictionOrder::Object::time_us);
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
  loading_ = false;
  loaded_ = true;
}

std::vector<EvictionOrder::Object> Bound::victims(size_t max, store::Document* decided_by) {
  std::vector<EvictionOrder::Object> all;
  const std::lock_guard lock(mutex_);
  if (!loaded_ || gone_ || !settings_.is_limited()) return all;
  if (decided_by != nullptr) *decided_by = document_;
  const auto is_pinned = [&](std::string_view key) { return store::KeyPins::get().is_pinned(bucket_, key); };
  uint64_t leaving = 0, objects = 0;
  const auto still_exceeds = [&] {
    const bool waits = wanted_objects_ != 0;
    return is_filling(leaving, objects, kept_free_part) ||
           (waits && exceeds(order_.bytes() + claimed_bytes_ + wanted_bytes_ - leaving,
                             order_.objects() + claimed_objects_ + wanted_objects_ - objects));
  };
  while (all.size() < max && still_exceeds()) {
    auto victim = order_.next(is_pinned);
    if (!victim) {
      // What is only claimed will be counted, and can be evicted then.
      all_pinned_ = objects == 0 && exceeds(order_.bytes() + wanted_bytes_, order_.objects() + wanted_objects_);
      break;
    }
    all_pinned_ = false;
    leaving += victim->size;
    ++objects;
    all.push_back(std::move(*victim));
  }
  if (!still_exceeds()) wanted_bytes_ = wanted_objects_ = 0;
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
      all_pinned_ = false;
      if (loading_) removed_while_loading_.push_back(change->key);
      break;
  }
}

void Bound::lost_track(uint64_t /*bucket*/) {
  const std::lock_guard lock(mutex_);
  loaded_ = loading_ = false;
}

void Bound::bucket_removed(uint64_t /*bucket*/) { (void)withdraw(); }

EvictionOrder Bound::withdraw() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  return std::exchange(order_, EvictionOrder(settings_.policy));
}

Result<BoundPtr> BucketBounds::of(const std::string& bucket, int64_t created_us, const std::string& owner,
                                  const store::Document& text) {
  BoundPtr bound;
  std::optional<EvictionOrder> left;  // destroyed under no lock
  const std::lock_guard lock(mutex_);
  if (text == nullptr) {
    if (const auto found = bounds_.find(bucket); found != bounds_.end()) {
      left = found->second->withdraw();
      bounds_.erase(found);
    }
    return bound;
  }
  const auto settings = parse_bound(*text);
  if (!settings) return fail(Errc::corrupt_object, "access: bound of a bucket");
  BoundPtr& known = bounds_[bucket];
  const bool same = known != nullptr && known->created_us() == created_us && known->owner() == owner &&
                    known->settings().policy == settings->policy && !known->is_gone();
  if (!same) {
    if (known != nullptr) left = known->withdraw();
    known = std::make_shared<Bound>(bucket, created_us, owner, *settings, wake_);
    wake_();
  } else if (known->settings() != *settings) {
    known->change(*settings, text);
  }
  known->decided_by(text);
  return known;
}

std::vector<BoundPtr> BucketBounds::all() {
  std::vector<BoundPtr> found;
  const std::lock_guard lock(mutex_);
  std::erase_if(bounds_, [](const auto& one) { return one.second->is_gone(); });
  for (const auto& [name, bound] : bounds_) found.push_back(bound);
  return found;
}

void register_bound_metrics() { bound_refusals(); }

Task<Result<BoundClaim>> claim_room(BoundPtr bound, uint64_t bytes, uint64_t objects) {
  if (bound == nullptr) co_return BoundClaim();
  const auto until = std::chrono::steady_clock::now() + room_wait_max;
  std::chrono::milliseconds pause{1};
  constexpr int full_max = 4;
  int full = 0;
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (;;) {
    switch (bound->claim(bytes, objects)) {
      case Bound::Room::claimed:
        co_return BoundClaim(std::move(bound), bytes, objects);
      case Bound::Room::never:
        VB_CO_TRY(bound->check_size(bytes));
        break;
      case Bound::Room::full:
        // The worker looks again, since leases may have ended.
        if (++full < full_max) break;
        bound_refusals().add();
        co_return fail(Errc::insufficient_storage, "The bucket is full, and a lease pins each of its objects.");
      case Bound::Room::wait:
        break;
    }
    if (std::chrono::steady_clock::now() > until) {
      bound_refusals().add();
      co_return fail(Errc::slow_down, "The bucket is full, and evictions take too long.");
    }
    timer.expires_after(pause);
    co_await timer.async_wait(boost::asio::use_awaitable);
    pause = std::min(2 * pause, std::chrono::milliseconds(8));
  }
}

}  // namespace verbena::s3
