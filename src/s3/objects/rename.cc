// RenameObject, for directory buckets.
#include <algorithm>
#include <memory>

#include "base/checksum.h"
#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3/objects/conditions.h"
#include "s3/objects/encryption.h"
#include "s3/service.h"

namespace verbena::s3 {
namespace {

// The failed condition's name for the error: a rename whose condition fails is always 412.
std::unexpected<Error> unmet(const Error& error, bool source) {
  const std::string_view name = error.context;
  if (!source) return fail(Errc::precondition_failed, error.context);
  if (name == "If-Match") return fail(Errc::precondition_failed, "x-amz-rename-source-if-match");
  if (name == "If-None-Match") return fail(Errc::precondition_failed, "x-amz-rename-source-if-none-match");
  if (name == "If-Modified-Since") return fail(Errc::precondition_failed, "x-amz-rename-source-if-modified-since");
  return fail(Errc::precondition_failed, "x-amz-rename-source-if-unmodified-since");
}

Result<void> check_target(const Preconditions& conditions, const store::ObjectInfo* target) {
  if (target == nullptr) {
    if (!conditions.if_match.empty()) return fail(Errc::precondition_failed, "If-Match");
    return {};
  }
  if (auto met = check_preconditions(conditions, *target); !met) return unmet(met.error(), false);
  return {};
}

// The fields that must be equal in a repeated request with the same token.
std::string digest_of(const RenameObjectRequest& request) {
  std::string text;
  const auto add = [&](std::string_view part) { text.append(std::to_string(part.size())).append(":").append(part); };
  const auto add_time = [&](std::optional<int64_t> time_s) { add(time_s ? std::to_string(*time_s) : ""); };
  for (const auto* part : {&request.from, &request.to}) add(*part);
  for (const Preconditions* conditions : {&request.source, &request.target}) {
    for (const auto* tags : {&conditions->if_match, &conditions->if_none_match}) {
      add(std::to_string(tags->size()));
      for (const std::string& tag : *tags) add(tag);
    }
    add_time(conditions->if_modified_since_s);
    add_time(conditions->if_unmodified_since_s);
  }
  return sha256(as_bytes(text));
}

// Clients that make folders of names would take such a name for a folder.
Result<void> check_names(const RenameObjectRequest& request) {
  VB_TRY(check_key(request.from));
  VB_TRY(check_new_key(request.to));
  if (!request.from.ends_with('/') && !request.to.ends_with('/')) return {};
  return fail(Errc::invalid_argument, "Names that end in / cannot be renamed.");
}

// A rename is a GET, a DELETE and a PUT.
Result<void> may_rename(const Service& service, const Call& caller, const BucketAccess& access,
                        const RenameObjectRequest& request) {
  VB_TRY(authorize(service, caller, access, {.action = action::get_object, .key = request.from}));
  VB_TRY(authorize(service, caller, access, {.action = action::delete_object, .key = request.from}));
  return authorize(service, caller, access, {.action = action::put_object, .key = request.to});
}

}  // namespace

Task<Result<void>> rename_object(Service& service, const Call& caller, RenameObjectRequest request) {
  VB_CO_TRY(check_bucket_name(request.bucket));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, request.bucket));
  VB_CO_TRY(may_rename(service, caller, *access, request));
  if (!access->directory) co_return fail(Errc::not_implemented, "rename: not of a directory bucket");
  VB_CO_TRY(check_names(request));
  store::RenameRequest rename{.from = request.from, .to = request.to};
  if (!request.token.empty()) {
    // Tokens are separate for each caller.
    rename.token = std::string(owner_of(caller)).append("/").append(request.token);
    rename.asked = digest_of(request);
  }
  const std::string bucket = request.bucket;
  const auto asked = std::make_shared<const RenameObjectRequest>(std::move(request));
  rename.judge = [&service, asked](store::ObjectInfo& source, const store::ObjectInfo* target) -> Result<void> {
    VB_TRY(asked->wanted.check());
    if (auto met = check_preconditions(asked->source, source); !met) return unmet(met.error(), true);
    VB_TRY(check_target(asked->target, target));
    if (asked->from == asked->to) return {};
    return rename_sealed(service, source, asked->bucket, asked->from, asked->to);
  };
  VB_CO_TRY(co_await service.store.rename(bucket, std::move(rename)));
  co_return Result<void>();
}

}  // namespace verbena::s3
