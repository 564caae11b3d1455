#include "s3/objects/append.h"

#include <algorithm>

#include "auth/policy_dependence.h"
#include "s3/access/authorize.h"
#include "s3/documents/bucket_document.h"
#include "s3/express/directory.h"
#include "s3/objects/encryption.h"
#include "store/ends.h"

namespace verbena::s3 {
namespace {

// Whether the right to read may depend on the object: its owner and ACL, or by a policy its tags. Then it has to be
// looked at.
bool judges_objects(const Call& call, const BucketAccess& access) {
  const auth::Principal* const principal = principal_of(call);
  return access.lists_count() || (access.policy != nullptr && auth::depends_on_request(*access.policy)) ||
         (principal != nullptr && auth::depends_on_request(*principal));
}

// Appends work in directory buckets, and in other buckets whose owner allows them. There the offset reveals the
// object's size.
Task<Result<void>> check_may_append(Service& service, const Call& call, const BucketAccess& access,
                                    const PutRequest& request) {
  if (access.directory) co_return Result<void>();
  const auto document = co_await service.store.document(access.name, append_document);
  if (!document && document.error() == Errc::not_found) {
    co_return fail(Errc::not_implemented, "A header you provided implies functionality that is not implemented.");
  }
  VB_CO_TRY(document);
  Asked reading{.action = action::get_object, .key = request.key};
  if (!judges_objects(call, access)) co_return authorize(service, call, access, reading);
  const auto there = co_await service.store.stat(access.name, request.key, "");
  if (there) {
    reading.object = &*there;
  } else if (there.error() != Errc::no_such_key && there.error() != Errc::method_not_allowed) {
    co_return std::unexpected(there.error());  // it may be there, and hidden from the caller
  }
  co_return authorize(service, call, access, reading);
}

bool has_user_metadata(const PutRequest& request) {
  return std::ranges::any_of(request.headers,
                             [](const auto& header) { return header.first.starts_with("x-amz-meta-"); });
}
bool has_ttl(const PutRequest& request) {
  return std::ranges::any_of(request.headers, [](const auto& header) { return header.first == store::ttl_header; });
}

// The commit decides; the object is checked here too, because it may save transferring a long append.
Task<Result<void>> look_at_end(Service& service, PutRequest& request, std::optional<uint64_t> size) {
  constexpr uint64_t short_max = 64 * KiB;
  request.conditions.if_size = request.append->offset;
  request.conditions.if_without = sealed_attribute;
  // The object's checksum algorithm is known at the commit: for few bytes all algorithms that can be continued are
  // computed.
  request.continues = {Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme};
  const bool of_new_objects = has_user_metadata(request) || has_ttl(request);
  if (size.value_or(short_max + 1) <= short_max && !of_new_objects) co_return Result<void>();
  const auto there = co_await service.store.stat(request.bucket, request.key, "");
  if (!there) co_return Result<void>();
  if (has_user_metadata(request)) {
    co_return fail(Errc::invalid_request,
                   "Cannot specify both a write offset value and user-defined object metadata for existing objects.");
  }
  if (has_ttl(request)) {
    co_return fail(Errc::invalid_request,
                   "An append cannot change how long an existing object lives: x-verbena-ttl is for a new one. "
                   "An append renews the object's end, as PUT ?verbena-touch does.");
  }
  if (request.append->offset && there->size > *request.append->offset) {
    co_return fail(Errc::invalid_write_offset, "append: offset");
  }
  std::erase_if(request.continues, [&](Algorithm algorithm) {
    const auto same = [&](const store::Checksum& c) { return c.algorithm == algorithm && c.parts == 0; };
    return std::ranges::none_of(there->checksums, same);
  });
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> prepare_append(Service& service, const Call& call, const BucketAccess& access, PutRequest& request,
                                  std::optional<uint64_t> size) {
  VB_CO_TRY(co_await check_may_append(service, call, access, request));
  co_return co_await look_at_end(service, request, size);
}

}  // namespace verbena::s3
