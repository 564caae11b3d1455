#include "s3/objects/put_now.h"

#include <algorithm>

#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/access/quota.h"
#include "s3/objects/body_digests.h"
#include "s3/objects/ingest.h"
#include "s3/objects/object_headers.h"
#include "s3/objects/write_plan.h"
#include "store/whole_put.h"

namespace verbena::s3 {
namespace {

// Encryption, reservations and events are left to put_object().
bool has_more_steps(const BucketAccess& access, const WritePlan& plan) {
  return plan.encryption.method != Encryption::none || access.has_quota() || access.notifications != nullptr;
}

Result<std::vector<store::Checksum>> verified_checksums(const PutNow& put) {
  BodyDigests digests;
  for (const auto& checksum : put.expected) digests.want(checksum.algorithm);
  digests.update(put.bytes.bytes);
  digests.finish();
  VB_TRY(verify_checksums(put.expected, digests.checksums()));
  return digests.checksums();
}

PutNowOutcome refuse(PutNow& put, const Error& why) {
  put.then(std::unexpected(why));
  return PutNowOutcome::refused;
}

}  // namespace

PutNowOutcome put_now(Service& service, const Call& call, PutNow& put) {
  const uint64_t size = put.bytes.bytes.size();
  if (size == 0 || size > std::min(put_now_max, service.store.whole_put_max())) return PutNowOutcome::wait;
  static const store::Tags no_tags;
  static const store::ObjectLock no_lock;
  const PlannedWrite write{
      .bucket = put.bucket, .key = put.key, .headers = &put.headers, .tags = &no_tags, .lock = &no_lock, .size = size};
  const WriteFacts have{.access = cached_access(service, put.bucket)};
  auto plan = plan_write(service, call, write, have);
  if (!plan) return refuse(put, plan.error());
  if (plan->needs != WriteNeed::nothing || has_more_steps(*have.access, *plan)) return PutNowOutcome::wait;

  BoundClaim claim;
  if (have.access->bound != nullptr) {
    // put_object() waits for room, and refuses.
    claim = BoundClaim(have.access->bound, {.key = std::string(put.key), .bytes = size});
    if (have.access->bound->claim(claim.wish()) != Bound::Room::claimed) return PutNowOutcome::wait;
  }

  // Of the bucket that was authorized: it may go, and another come by its name, until this is stored.
  store::WholePut whole{.bucket = put.bucket,
                        .key = put.key,
                        .bucket_created_us = have.access->created_us,
                        .info = {},
                        .bytes = {},
                        .executor = {},
                        .then = {}};
  const auto charge = ByteCharge::make(call, *have.access);
  if (!put.expected.empty()) {
    auto verified = verified_checksums(put);
    if (!verified) {
      if (charge) charge->moved(size);  // charged even if the PUT fails later
      return refuse(put, verified.error());
    }
    whole.info.checksums = std::move(*verified);
  }
  if (may_have_changed(service, call, *have.access)) return PutNowOutcome::wait;
  whole.info.size = size;
  whole.info.etag = random_etag();
  whole.info.headers = std::move(put.headers);
  name_storage_class(whole.info.headers, put.bucket);
  whole.info.attributes = std::move(plan->attributes);
  whole.bytes = std::move(put.bytes);
  whole.executor = std::move(put.executor);
  whole.wanted = std::move(put.wanted);
  whole.more_follow = put.more_follow;
  whole.then = std::move(put.then);
  if (have.access->bound != nullptr) {
    whole.then = [claim = std::move(claim), then = std::move(whole.then)](Result<store::ObjectInfo>&& stored) mutable {
      claim = {};
      then(std::move(stored));
    };
  }
  if (!service.store.put_whole(whole)) {
    put.bytes = std::move(whole.bytes);
    return PutNowOutcome::wait;
  }
  if (charge) charge->moved(size);
  return PutNowOutcome::done;
}

}  // namespace verbena::s3
