// Buckets: create, head, delete, list.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "base/turns.h"
#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/documents/bucket_document.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/service.h"

namespace verbena::s3 {

namespace {

// Whether the account is being removed, or was, while it made a bucket (iam/service.cc).
bool owner_is_gone(const Service& service, std::string_view owner) {
  return service.accounts != nullptr && owner != auth::root_canonical_id &&
         service.accounts->by_canonical_id(owner) == nullptr;
}

// Of a bucket whose owner is gone. Another account may have removed it and made one of its name meanwhile: that stays.
Task<> take_back(Service& service, std::string bucket, store::BucketMade made) {
  constexpr int tries_max = 5;
  auto pause = std::chrono::milliseconds(50);
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (int tries = 1;; ++tries) {
    const store::NamedBucket named(bucket, made);
    const auto removed = co_await service.store.remove_bucket(named);
    note_change(service, bucket, removed);
    if (removed || removed.error() == Errc::no_such_bucket) co_return;
    const bool last = tries == tries_max || removed.error() == Errc::bucket_not_empty;
    if (last) {
      log::error("bucket {} is of an account that does not exist any more ({}), and could not be removed: {}", bucket,
                 made.owner, describe(removed.error()));
      co_return;
    }
    timer.expires_after(pause);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    pause *= 2;
  }
}

}  // namespace

Task<Result<store::BucketMade>> create_bucket(Service& service, const Call& caller, const std::string& bucket,
                                              store::Durability durability, bool object_lock,
                                              std::string_view location) {
  VB_CO_TRY(authorize_service(service, caller, action::create_bucket, bucket, location));
  VB_CO_TRY(check_bucket_name(bucket));
  if (is_directory_bucket(bucket)) VB_CO_TRY(check_zone(service, bucket));
  store::BucketInfo info;
  info.name = bucket;
  info.created_us = service.clock.now_us();
  info.owner = owner_of(caller);
  info.durability = durability;
  if (object_lock) {
    info.versioning = store::Versioning::enabled;
    info.lock.enabled = true;
  }
  store::BucketMade made{.created_us = info.created_us, .owner = info.owner};
  auto created = co_await service.store.create_bucket(std::move(info), service.buckets_max);
  note_change(service, bucket, created);
  if (created && owner_is_gone(service, owner_of(caller))) {
    co_await take_back(service, bucket, std::move(made));
    co_return fail(Errc::invalid_access_key_id, "create bucket: the account is gone");
  }
  if (!created && created.error() == Errc::bucket_already_exists) {
    VB_CO_ASSIGN(const store::BucketInfo present, co_await service.store.bucket(bucket));
    if (present.owner == owner_of(caller)) co_return fail(Errc::bucket_already_owned_by_you, "create bucket");
  }
  VB_CO_TRY(created);
  co_return made;
}

Task<Result<store::BucketInfo>> head_bucket(Service& service, const Call& caller, const std::string& bucket) {
  VB_CO_TRY(co_await authorize_bucket(service, caller, bucket, action::list));
  co_return co_await service.store.bucket(bucket);
}

Task<Result<void>> delete_bucket(Service& service, const Call& caller, const std::string& bucket) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await authorize_bucket(service, caller, bucket, action::delete_bucket));
  const store::NamedBucket named(bucket, access->made());
  auto removed = co_await service.store.remove_bucket(named);
  if (removed) service.limits->forget(bucket, service.access->now(bucket));
  note_change(service, bucket, removed);
  co_return removed;
}

// The store is asked for some at a time: it holds the lock of all buckets while it copies them. First for a page; if
// that was not enough, one kind lies between others of the other one, perhaps many, and each call has its cost, too.
Task<Result<BucketPage>> list_buckets(Service& service, const Call& caller, ListBucketsRequest request) {
  constexpr size_t at_once = 1000;
  const Action& asked = request.directory ? action::list_directory_buckets : action::list_buckets;
  VB_CO_TRY(authorize_service(service, caller, asked, {}));
  BucketPage page;
  store::OwnersBuckets which{
      .owner = std::string(owner_of(caller)), .prefix = std::move(request.prefix), .after = std::move(request.after)};
  which.max = std::min(at_once, request.max + 1);
  Turns turns;
  for (bool more = true; more && !page.truncated;) {
    if (turns.due()) co_await turns.pass();
    auto asking = which;
    VB_CO_ASSIGN(auto some, co_await service.store.buckets_of(std::move(asking)));
    more = some.size() == which.max;
    if (more) which.after = some.back().name;
    which.max = at_once;
    for (store::BucketInfo& bucket : some) {
      if (is_directory_bucket(bucket.name) != request.directory) continue;
      page.truncated = page.buckets.size() == request.max;
      if (page.truncated) break;
      page.buckets.push_back(std::move(bucket));
    }
  }
  co_return page;
}

}  // namespace verbena::s3
