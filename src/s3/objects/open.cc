#include "s3/objects/open.h"

#include <array>
#include <functional>

#include "auth/policy_dependence.h"
#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/names.h"
#include "s3/objects/conditions.h"
#include "s3/objects/encryption.h"
#include "s3/objects/range.h"
#include "s3/objects/versions.h"

namespace verbena::s3 {
namespace {

Result<void> check_names(const GetRequest& request) {
  VB_TRY(check_bucket_name(request.bucket));
  return check_key(request.key);
}

// Part n of a multipart object; any other object is its own part 1.
Result<Extent> part_extent(const store::ObjectInfo& info, int number) {
  if (info.parts.empty()) {
    if (number == 1) return Extent{0, info.size, info.size > 0};
    return fail(Errc::invalid_part_number, "part number");
  }
  // By the numbers that they were uploaded with, which may leave some out.
  uint64_t offset = 0;
  for (const auto& part : info.parts) {
    if (part.number == number) return Extent{offset, part.size, part.size > 0};
    offset += part.size;
  }
  return fail(Errc::invalid_part_number, "part number");
}

// Whether everybody may read all of the bucket, by a policy that says so whatever the request and the key: asked once,
// and again when a document of any bucket has changed. Each thread keeps what it found of a few buckets.
bool is_open_to_all(const Service& service, const Call& caller, const BucketAccess& access) {
  struct Known {
    uint64_t access = 0;  // generation
    std::string bucket;
    bool open = false;
  };
  constexpr size_t places = 16;  // direct-mapped: a collision evicts, nothing grows
  thread_local std::array<Known, places> all;
  if (!caller.identity.anonymous || access.policy == nullptr || access.directory) return false;
  Known& known = all[std::hash<std::string_view>()(access.name) % places];
  const uint64_t now = service.access->now();
  if (known.access == now && known.bucket == access.name) return known.open;
  const bool open =
      !auth::depends_on_request(*access.policy) && authorize_all(service, caller, access, action::get_object);
  // The record may be from before a change that came meanwhile.
  if (cached_access(service, access.name) == &access) known = {now, access.name, open};
  return open;
}

// An object with a list of its own has it among its attributes.
Result<void> may_read(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked) {
  if (asked.object->attributes.empty() && is_open_to_all(service, caller, access)) return {};
  return authorize(service, caller, access, asked);
}

// Conditions first, then the range (RFC 9110 section 13.2.2).
Result<Extent> select_extent(const store::ObjectInfo& info, const GetRequest& request) {
  VB_TRY(check_preconditions(request.preconditions, info));
  if (request.part_number) return part_extent(info, *request.part_number);
  if (request.range && range_applies(request.preconditions, info)) return resolve_range(*request.range, info.size);
  return Extent{0, info.size, false};
}

}  // namespace

std::optional<Result<OpenObject>> Opening::now() {
  if (!request_.version_id.empty() || request_.customer_key != nullptr) return std::nullopt;
  // A bucket that there is has a name that may be: wait() looks at others.
  const BucketAccess* const access = cached_access(service_, request_.bucket);
  if (access == nullptr) return std::nullopt;
  if (auto sound = check_key(request_.key); !sound) return std::unexpected(sound.error());
  if (reader_ == nullptr) reader_ = service_.store.hot(request_.bucket, request_.key);
  if (reader_ == nullptr) return std::nullopt;
  // Encrypted objects are cached encrypted: wait() opens the seal.
  if (is_sealed(reader_->info()) || reader_->info().stored_size != 0) return std::nullopt;
  const Asked asked{.action = action::get_object, .key = request_.key, .object = &reader_->info()};
  if (auto allowed = may_read(service_, caller_, *access, asked); !allowed) return std::unexpected(allowed.error());
  return select(*access);
}

Task<Result<OpenObject>> Opening::wait() {
  VB_CO_TRY(check_names(request_));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service_, request_.bucket));
  Asked asked{.action = action::get_object, .key = request_.key, .version_id = request_.version_id};
  if (reader_ == nullptr) {
    auto opened = co_await service_.store.open(request_.bucket, request_.key, request_.version_id);
    if (!opened) co_return std::unexpected(missing_error(service_, caller_, *access, asked, opened.error()));
    reader_ = std::move(*opened);
  }
  asked.object = &reader_->info();
  VB_CO_TRY(authorize(service_, caller_, *access, asked));
  VB_CO_ASSIGN(reader_,
               open_sealed(service_, std::move(reader_), request_.bucket, request_.key, request_.customer_key));
  co_return select(*access);
}

Result<OpenObject> Opening::select(const BucketAccess& access) {
  const auto extent = select_extent(reader_->info(), request_);
  refused_ = !extent;
  if (!extent) return std::unexpected(extent.error());
  return OpenObject{.reader = std::move(reader_),
                    .offset = extent->offset,
                    .length = extent->length,
                    .partial = extent->partial,
                    .peer = caller_.peer_address,
                    .charge = ByteCharge::make(caller_, access)};
}

Task<Result<OpenObject>> open_object(Service& service, const Call& caller, const GetRequest& request) {
  Opening opening(service, caller, request);
  co_return co_await opening.wait();
}

Task<Result<HeadReply>> head_object(Service& service, const Call& caller, const GetRequest& request,
                                    std::optional<store::ObjectInfo>* refused) {
  VB_CO_TRY(check_names(request));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, request.bucket));
  Asked asked{.action = action::get_object, .key = request.key, .version_id = request.version_id};
  auto found = co_await service.store.stat(request.bucket, request.key, request.version_id);
  if (!found) co_return std::unexpected(missing_error(service, caller, *access, asked, found.error()));
  store::ObjectInfo info = std::move(*found);
  asked.object = &info;
  VB_CO_TRY(authorize(service, caller, *access, asked));
  VB_CO_TRY(check_customer_key(info, request.customer_key));
  const auto extent = select_extent(info, request);
  if (!extent) {
    if (refused != nullptr) *refused = std::move(info);
    co_return std::unexpected(extent.error());
  }
  co_return HeadReply{std::move(info), extent->offset, extent->length, extent->partial};
}

}  // namespace verbena::s3
