#include "s3/access/quota.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/metrics.h"
#include "s3/access/authorize.h"

namespace verbena::s3 {
namespace {

metrics::Counter& refused_by_quota(const char* why) {
  return metrics::counter("verbena_quota_refusals_total", "Requests that a quota refused", {{"quota", why}});
}

metrics::Counter& charged_bytes() {
  static auto& counter = metrics::counter("verbena_quota_charged_bytes_total",
                                          "Bytes of objects that rates of callers and buckets paid for");
  return counter;
}
metrics::Counter& charged_requests() {
  static auto& counter =
      metrics::counter("verbena_quota_charged_requests_total", "Requests that rates of callers and buckets paid for");
  return counter;
}

int64_t steady_ns() { return std::chrono::nanoseconds(SteadyClock::now().time_since_epoch()).count(); }

auth::LimitsPtr if_of_sizes(const auth::LimitsPtr& limits) {
  return limits != nullptr && limits->has_sizes() ? limits : nullptr;
}

// The limits that the caller's requests and bytes count for; at most two.
template <class F>
void for_each_of_caller(const Call& caller, F f) {
  const auth::Principal* const principal = principal_of(caller);
  if (principal == nullptr) return;
  if (principal->limits != nullptr) f(*principal->limits);
  if (principal->account_limits != nullptr) f(*principal->account_limits);
}

bool is_superuser(const Call& caller) {
  return auth::is_unlimited_root(principal_of(caller), caller.identity.key.get());
}

}  // namespace

Result<auth::LimitsPtr> BucketLimits::of(const std::string& bucket, int64_t created_us, const store::Document& text,
                                         uint64_t generation) {
  if (text == nullptr) {
    forget(bucket, generation);
    return nullptr;
  }
  const auto quota = auth::parse_quota(*text);
  if (!quota) return fail(Errc::corrupt_object, "access: quota of a bucket");
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[bucket];
  if (entry.generation > generation) return entry.limits;
  entry.generation = generation;
  const bool is_same = entry.limits != nullptr && entry.created_us == created_us && entry.limits->quota() == *quota;
  if (is_same) return entry.limits;
  entry.created_us = created_us;
  // Records that threads keep hold the first, also when this entry is gone; so it is not the one that counts.
  entry.limits = quota->empty() ? nullptr : std::make_shared<const auth::Limits>(*quota);
  entry.counted = auth::make_limits(*quota);
  return entry.limits;
}

void BucketLimits::forget(const std::string& bucket, uint64_t generation) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(bucket);
  if (found != entries_.end() && found->second.generation <= generation) entries_.erase(found);
}

std::shared_ptr<BucketLimits> make_bucket_limits() { return std::make_shared<BucketLimits>(); }

Reservation::Reservation(Reservation&& other) noexcept { *this = std::move(other); }

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  store_ = std::exchange(other.store_, nullptr);
  bucket_ = std::move(other.bucket_);
  of_bucket_ = std::move(other.of_bucket_);
  of_owner_ = std::move(other.of_owner_);
  bytes_ = std::exchange(other.bytes_, 0);
  objects_ = std::exchange(other.objects_, 0);
  return *this;
}

Result<Reservation> Reservation::make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects) {
  return make(service, access, bytes, objects, /*optional=*/false);
}

Result<Reservation> Reservation::try_make(Service& service, const BucketAccess& access, uint64_t bytes,
                                          uint64_t objects) {
  return make(service, access, bytes, objects, /*optional=*/true);
}

Result<Reservation> Reservation::make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects,
                                      bool optional) {
  Reservation reservation;
  if (!access.has_quota()) return reservation;
  reservation.of_bucket_ = if_of_sizes(access.limits);
  reservation.of_owner_ = if_of_sizes(access.owner_limits);
  if (reservation.of_bucket_ == nullptr && reservation.of_owner_ == nullptr) return reservation;
  reservation.store_ = &service.store;
  reservation.bucket_ = access.name;
  VB_TRY(reservation.add(bytes, objects, optional));
  return reservation;
}

Result<void> Reservation::grow(uint64_t bytes) { return store_ == nullptr ? Result<void>() : add(bytes, 0, false); }

// What is held is read after the claims (Limits::fits()). Data of an older server counts after it has been counted;
// until then only what was stored since counts.
Result<void> Reservation::add(uint64_t bytes, uint64_t objects, bool optional) {
  const auto claim = [&](const auth::LimitsPtr& limits) {
    return limits == nullptr ? std::optional<auth::Limits::Claim>() : limits->claim(bytes, objects);
  };
  const auto of_bucket = claim(of_bucket_), of_owner = claim(of_owner_);
  const auto give_back = [&] {
    if (of_bucket) of_bucket_->release(bytes, objects);
    if (of_owner) of_owner_->release(bytes, objects);
  };
  const auto now = store_->usage_now(bucket_);
  if (!now) {
    give_back();
    return std::unexpected(now.error());
  }
  const auto fits = [](const auth::LimitsPtr& limits, const auto& claimed, const store::Usage& held, bool counted) {
    if (limits == nullptr) return true;
    return claimed && limits->fits(*claimed, counted ? held.all_bytes() : 0, counted ? held.all_objects() : 0);
  };
  const bool in_bucket = fits(of_bucket_, of_bucket, now->bucket, now->bucket_counted);
  if (!in_bucket || !fits(of_owner_, of_owner, now->owner, now->owner_counted)) {
    give_back();
    if (!optional) refused_by_quota(in_bucket ? "account" : "bucket").add();
    return fail(Errc::quota_exceeded, in_bucket
                                          ? "The quota of the bucket's account is used up: the request would exceed it."
                                          : "The bucket's quota is used up: the request would exceed it.");
  }
  bytes_ += bytes;
  objects_ += objects;
  return {};
}

void Reservation::release() {
  if (store_ == nullptr) return;
  if (of_bucket_ != nullptr) of_bucket_->release(bytes_, objects_);
  if (of_owner_ != nullptr) of_owner_->release(bytes_, objects_);
  store_ = nullptr;
  bytes_ = objects_ = 0;
}

// Versioning is read before the removal: a bucket that becomes versioned in between gets at most one marker for each
// request then in progress, and versioning cannot be removed again.
Task<Result<MarkerRoom>> reserve_marker(Service& service, const BucketAccess& access) {
  MarkerRoom room;
  if (if_of_sizes(access.limits) == nullptr && if_of_sizes(access.owner_limits) == nullptr) co_return std::move(room);
  VB_CO_ASSIGN(const store::BucketInfo bucket, co_await service.store.bucket(access.name));
  if (bucket.versioning == store::Versioning::off) co_return std::move(room);
  auto held = Reservation::try_make(service, access, 0, 1);
  room.may_add = held.has_value();
  if (held) room.held = std::move(*held);
  co_return std::move(room);
}

void count_marker_refusal() { refused_by_quota("marker").add(); }

Task<Result<AppendRoom>> reserve_append(Service& service, const BucketAccess& access, const std::string& key,
                                        uint64_t bytes) {
  auto with_object = Reservation::make(service, access, bytes, 1);
  if (with_object) co_return AppendRoom{.may_make_object = true, .held = std::move(*with_object)};
  const auto there = co_await service.store.stat(access.name, key, "");
  if (!there) co_return std::unexpected(with_object.error());
  VB_CO_ASSIGN(Reservation of_bytes, Reservation::make(service, access, bytes, 0));
  co_return AppendRoom{.may_make_object = false, .held = std::move(of_bytes)};
}

// The number of a message's requests that count for the bucket's rate. A caller without rights on the objects is
// refused item by item and must not use that up: its batch would keep all others out for minutes. Where the objects'
// own lists may grant access to anyone, such a message counts as one request.
static uint64_t counted_requests(const Service& service, const Call& caller, const BucketAccess& access,
                                 uint64_t requests) {
  for (const Action& action : {action::get_object, action::put_object, action::list, action::delete_object}) {
    if (could_authorize(service, caller, access, {.action = action})) return requests;
  }
  return access.lists_count() ? 1 : 0;
}

// What requests were charged for. A refusal by a later limit gives it all back.
class ChargedRequests {
 public:
  explicit ChargedRequests(int64_t now_ns) : now_ns_(now_ns) {}

  // The time to wait; 0: charged.
  uint64_t charge(const auth::Limits& limits, uint64_t requests) {
    const uint64_t wait = limits.admit(requests, now_ns_);
    if (wait == 0) {
      charged_.emplace_back(&limits, requests);
    } else {
      for (const auto& [earlier, count] : charged_) earlier->withdraw(count);
      charged_.clear();
    }
    return wait;
  }
  bool any() const { return !charged_.empty(); }

 private:
  const int64_t now_ns_;
  std::vector<std::pair<const auth::Limits*, uint64_t>> charged_;
};

// The time to wait, and which limit it is that has no room.
static std::pair<uint64_t, const char*> charge_requests(const Service& service, const Call& caller,
                                                        const BucketAccess* access, uint64_t requests,
                                                        ChargedRequests& charged) {
  uint64_t wait = 0;
  for_each_of_caller(caller, [&](const auth::Limits& limits) {
    if (wait == 0) wait = charged.charge(limits, requests);
  });
  if (wait != 0) return {wait, "caller_rate"};
  if (access == nullptr || access->limits == nullptr) return {0, ""};
  const uint64_t counted = counted_requests(service, caller, *access, requests);
  return {counted == 0 ? 0 : charged.charge(*access->limits, counted), "bucket_rate"};
}

Task<Result<void>> admit_requests(Service& service, const Call& caller, std::span<const BucketRequests> asked,
                                  RateRefusal& refusal) {
  if (is_superuser(caller)) co_return Result<void>();
  std::vector<BucketAccessPtr> accesses;  // null: without a record the verb reports the error
  for (const auto& [bucket, requests] : asked) {
    auto& access = accesses.emplace_back();
    if (bucket.empty() || requests == 0) continue;
    if (auto found = co_await bucket_access(service, bucket)) access = std::move(*found);
  }
  ChargedRequests charged(steady_ns());
  uint64_t total = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const auto& [bucket, requests] = asked[i];
    if (requests == 0) continue;
    const auto [wait, why] = charge_requests(service, caller, accesses[i].get(), requests, charged);
    if (wait != 0) {
      refused_by_quota(why).add();
      refusal = {wait, bucket};
      co_return fail(Errc::slow_down, "More requests or bytes came than the quota allows in a second.");
    }
    total += requests;
  }
  if (charged.any()) charged_requests().add(total);
  co_return Result<void>();
}

ByteCharge::ByteCharge(const Call& caller, const BucketAccess& access) {
  if (is_superuser(caller)) return;
  if (const auth::Principal* const principal = principal_of(caller); principal != nullptr) {
    all_[0].limits = principal->limits;
    all_[1].limits = principal->account_limits;
  }
  all_[2].limits = access.limits;
}

std::shared_ptr<ByteCharge> ByteCharge::make_where_limited(const Call& caller, const BucketAccess& access) {
  const auto has_rate = [](const Charged& one) { return one.limits != nullptr && one.limits->quota().bytes_per_s; };
  const ByteCharge charge(caller, access);
  return std::ranges::any_of(charge.all_, has_rate) ? std::make_shared<ByteCharge>(caller, access) : nullptr;
}

void ByteCharge::charge(uint64_t bytes) {
  if (bytes == 0) return;
  const int64_t now_ns = steady_ns();
  for (Charged& one : all_) {
    if (one.limits != nullptr) one.paid_ns = one.limits->charge(bytes, now_ns);
  }
  charged_ += bytes;
}

void ByteCharge::begin(uint64_t bytes) { charge(bytes); }

void ByteCharge::moved(uint64_t bytes) {
  moved_ += bytes;
  if (moved_ > charged_) charge(moved_ - charged_);
}

ByteCharge::~ByteCharge() {
  charged_bytes().add(moved_);
  if (moved_ == charged_) return;
  const int64_t now_ns = steady_ns();
  for (const Charged& one : all_) {
    if (one.limits != nullptr) one.limits->give_back(charged_ - moved_, one.paid_ns, now_ns);
  }
}

}  // namespace verbena::s3
