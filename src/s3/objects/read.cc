#include "s3/objects/read.h"

#include <array>
#include <functional>
#include <utility>

#include "auth/policy_dependence.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/access/quota.h"
#include "s3/names.h"
#include "s3/objects/conditions.h"
#include "s3/objects/encryption.h"

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
  // By the numbers at upload, which may have gaps.
  uint64_t offset = 0;
  for (const auto& part : info.parts) {
    if (part.number == number) return Extent{offset, part.size, part.size > 0};
    offset += part.size;
  }
  return fail(Errc::invalid_part_number, "part number");
}

// Whether the bucket's policy lets all callers read all of the bucket, whatever the request and the key. Cached per
// thread for a few buckets, each by one record of it.
bool is_open_to_all(const Service& service, const Call& caller, const BucketAccess& access) {
  struct Known {
    AccessGeneration::Mark record;
    std::string bucket;
    bool open = false;
  };
  constexpr size_t places = 16;  // direct-mapped: a collision evicts, nothing grows
  thread_local std::array<Known, places> all;
  if (!caller.identity.anonymous || access.policy == nullptr || access.directory) return false;
  Known& known = all[std::hash<std::string_view>()(access.name) % places];
  if (known.record == access.mark && known.bucket == access.name) return known.open;
  const bool open =
      !auth::depends_on_request(*access.policy) && authorize_all(service, caller, access, action::get_object);
  // The record may be from before a concurrent change.
  if (cached_access(service, access.name) == &access) known = {access.mark, access.name, open};
  return open;
}

// An object's ACL, if it has one, is among its attributes.
Result<void> may_read(const Service& service, const Call& caller, const BucketAccess& access, const Asked& asked) {
  const bool current = asked.version_id.empty();  // a request with a version id needs another right
  if (current && asked.object->attributes.empty() && is_open_to_all(service, caller, access)) return {};
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

ObjectRead::ObjectRead(Service& service, const Call& call, const GetRequest& request, Of of, FoundObject found)
    : service_(service), call_(call), request_(request), of_(of) {
  if (found.reader == nullptr) return;
  const BucketAccess* const access = cached_access(service, request.bucket);
  if (access != nullptr && access->mark == found.record) reader_ = std::move(found.reader);
}

ObjectRead::Step ObjectRead::refuse(Error error) {
  error_ = std::move(error);
  return Step::refusal;
}

ObjectRead::Step ObjectRead::look() {
  if (error_) return Step::refusal;
  // The name of a bucket with a cached record was checked when the record was fetched.
  const BucketAccess* access = access_.get();
  if (access == nullptr) access = cached_access(service_, request_.bucket);
  if (access == nullptr) return Step::needs_bucket;
  if (seen() == nullptr) {
    found_by_ = access->mark;
    if (auto sound = check_key(request_.key); !sound) return refuse(sound.error());
    if (request_.version_id.empty() && !std::exchange(looked_in_memory_, true)) {
      reader_ = service_.store.hot(request_.bucket, request_.key);
    }
    if (reader_ == nullptr) return Step::needs_object;
  }
  return judge(*access);
}

ObjectRead::Step ObjectRead::judge(const BucketAccess& access) {
  const store::ObjectInfo& seen_now = *seen();
  const Asked asked{
      .action = action::get_object, .key = request_.key, .version_id = request_.version_id, .object = &seen_now};
  if (auto allowed = may_read(service_, call_, access, asked); !allowed) return refuse(allowed.error());
  const bool encrypted = is_sealed(seen_now) || seen_now.stored_size != 0 || request_.customer_key != nullptr;
  if (encrypted && of_ == Of::head) {
    if (auto fits = check_customer_key(seen_now, request_.customer_key); !fits) return refuse(fits.error());
  } else if (encrypted && !decrypted_) {
    if (!may_decrypt_) return Step::needs_key;
    auto opened = open_sealed(service_, std::move(reader_), request_.bucket, request_.key, request_.customer_key);
    if (!opened) return refuse(opened.error());
    reader_ = std::move(*opened);
    decrypted_ = true;
  }
  const auto extent = select_extent(*seen(), request_);
  refused_ = !extent;
  if (!extent) return refuse(extent.error());
  extent_ = *extent;
  if (of_ == Of::bytes) charge_ = ByteCharge::make(call_, access);
  if (access.bound != nullptr && of_ == Of::bytes && request_.version_id.empty()) {
    access.bound->note_read(request_.key, seen_now, service_.clock);
  }
  return Step::answer;
}

Task<void> ObjectRead::fetch_bucket() {
  // Meanwhile a new bucket may get the name: discards an object found in the old one.
  reader_.reset();
  looked_in_memory_ = false;
  if (auto sound = check_names(request_); !sound) {
    error_ = sound.error();
    co_return;
  }
  auto access = co_await bucket_access(service_, request_.bucket);
  if (!access) {
    error_ = access.error();
    co_return;
  }
  access_ = std::move(*access);
}

Task<void> ObjectRead::fetch_object() {
  // Compares the records from before and after the object is read: if both are of one bucket, the object is in that
  // bucket. The later record is used for authorization.
  if (access_ == nullptr) co_await fetch_bucket();
  if (error_) co_return;
  const auto missing = [this](const Error& error) {
    const Asked asked{.action = action::get_object, .key = request_.key, .version_id = request_.version_id};
    error_ = missing_error(service_, call_, *access_, asked, error);
  };
  if (of_ == Of::head) {
    auto info = co_await service_.store.stat(request_.bucket, request_.key, request_.version_id);
    if (!info) co_return missing(info.error());
    info_ = std::move(*info);
  } else {
    auto opened = co_await service_.store.open(request_.bucket, request_.key, request_.version_id);
    if (!opened) co_return missing(opened.error());
    reader_ = std::move(*opened);
  }
  auto now = co_await same_bucket_access(service_, *access_);
  if (now) {
    access_ = std::move(*now);
  } else {
    error_ = now.error();
  }
}

Task<ObjectRead::Step> ObjectRead::finish(Step looked) {
  for (;; looked = look()) {
    switch (looked) {
      case Step::needs_bucket:
        co_await fetch_bucket();
        break;
      case Step::needs_object:
        co_await fetch_object();
        break;
      case Step::needs_key:
        may_decrypt_ = true;
        break;
      case Step::answer:
      case Step::refusal:
        co_return looked;
    }
  }
}

OpenObject ObjectRead::take() {
  return OpenObject{.reader = std::move(reader_),
                    .offset = extent_.offset,
                    .length = extent_.length,
                    .partial = extent_.partial,
                    .peer = call_.peer_address,
                    .charge = std::move(charge_)};
}

bool is_sent_as_it_lies(const store::ObjectInfo& info) { return store::is_plain(info); }

Task<Result<OpenObject>> open_object(Service& service, const Call& call, const GetRequest& request) {
  ObjectRead read(service, call, request, ObjectRead::Of::bytes);
  if (co_await read.finish(read.look()) == ObjectRead::Step::refusal) co_return std::unexpected(read.error());
  co_return read.take();
}

Task<Result<HeadReply>> head_object(Service& service, const Call& call, const GetRequest& request) {
  ObjectRead read(service, call, request, ObjectRead::Of::head);
  if (co_await read.finish(read.look()) == ObjectRead::Step::refusal) co_return std::unexpected(read.error());
  const Extent& extent = read.extent();
  co_return HeadReply{read.info(), extent.offset, extent.length, extent.partial};
}

}  // namespace verbena::s3
