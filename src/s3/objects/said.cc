#include "s3/objects/said.h"

#include "s3/access/access.h"
#include "s3/objects/encryption.h"
#include "s3/objects/expiration.h"
#include "s3/objects/lock.h"

namespace verbena::s3 {
namespace {

// `access` may be null, if the bucket is gone: nothing expires then.
void add(const BucketAccess* access, Said said, std::string_view key, const store::ObjectInfo& info,
         ReplyHeaders& out) {
  if (said == Said::of_read) add_tag_and_lock_headers(out, info);
  add_encryption_headers(out, info.attributes, std::nullopt);
  if (access != nullptr) add_expiration_header(out, *access, key, info);
}

}  // namespace

bool add_said_headers_now(const Service& service, Said said, std::string_view bucket, std::string_view key,
                          const store::ObjectInfo& info, ReplyHeaders& out) {
  const BucketAccess* const access = cached_access(service, bucket);
  if (access == nullptr) return false;
  add(access, said, key, info, out);
  return true;
}

Task<> add_said_headers(Service& service, Said said, const std::string& bucket, const std::string& key,
                        const store::ObjectInfo& info, ReplyHeaders& out) {
  const auto access = co_await bucket_access(service, bucket);
  add(access ? access->get() : nullptr, said, key, info, out);
}

}  // namespace verbena::s3
