#include "s3/objects/put_now.h"

#include <algorithm>

#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/express/directory.h"
#include "s3/headers.h"
#include "s3/names.h"
#include "s3/objects/body_digests.h"
#include "s3/objects/put.h"
#include "store/whole_put.h"

namespace verbena::s3 {
namespace {

// By what the bucket or the server says: room is set aside, bytes are sealed, or events are left. put_object() does.
bool asks_for_more(const Service& service, const Call& caller, const BucketAccess& access) {
  if (access.has_quota() || access.notifications != nullptr) return true;
  const auto agreed = session_encryption(caller, {});
  if (!agreed || agreed->method != Encryption::none) return true;
  const EncryptionOptions& encryption = service.encryption;
  return encryption.keys != nullptr && (encryption.by_default || access.encrypts);
}

bool is_well_formed(const PutNow& put) {
  return check_bucket_name(put.bucket) && check_new_key(put.key) && check_object_headers(put.headers);
}

}  // namespace

bool put_now(Service& service, const Call& caller, PutNow& put) {
  const uint64_t size = put.bytes.bytes.size();
  if (size == 0 || size > std::min(put_now_max, service.store.whole_put_max()) || !is_well_formed(put)) return false;
  const uint64_t generation = service.access->now();
  const BucketAccess* const access = cached_access(service, put.bucket);
  if (access == nullptr || asks_for_more(service, caller, *access)) return false;
  if (!settle_storage_class(put.headers, put.bucket)) return false;
  static const store::Tags no_tags;
  static const store::ObjectLock no_lock;
  const Asked asked{.action = action::put_object,
                    .key = put.key,
                    .tags = &no_tags,
                    .lock = &no_lock,
                    .headers = &put.headers,
                    .creates = true};
  auto attributes = authorize_new_object(service, caller, *access, asked, {});
  if (!attributes) return false;

  // Of the bucket that was authorized: it may go, and another come by its name, until this is stored.
  store::WholePut whole{.bucket = put.bucket,
                        .key = put.key,
                        .bucket_created_us = access->created_us,
                        .info = {},
                        .bytes = {},
                        .executor = {},
                        .then = {}};
  if (!put.expected.empty()) {
    BodyDigests digests;
    for (const auto& checksum : put.expected) digests.want(checksum.algorithm);
    digests.update(put.bytes.bytes);
    digests.finish();
    whole.info.checksums = digests.checksums();
    if (!verify_checksums(put.expected, whole.info.checksums)) return false;
  }
  if (may_have_changed(service, caller, generation)) return false;
  whole.info.size = size;
  whole.info.etag = random_etag();
  whole.info.headers = std::move(put.headers);
  whole.info.attributes = std::move(*attributes);
  whole.bytes = std::move(put.bytes);
  whole.executor = std::move(put.executor);
  whole.more_follow = put.more_follow;
  whole.then = std::move(put.then);
  if (!service.store.put_whole(whole)) {
    put.bytes = std::move(whole.bytes);
    return false;
  }
  if (const auto charge = ByteCharge::make(caller, *access)) charge->moved(size);
  return true;
}

}  // namespace verbena::s3
