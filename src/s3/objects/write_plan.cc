#include "s3/objects/write_plan.h"

#include "s3/access/authorize.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/objects/encryption.h"
#include "s3/objects/ingest.h"
#include "s3/objects/object_headers.h"

namespace verbena::s3 {
namespace {

WritePlan missing(WriteNeed what) { return {.needs = what}; }

// Checks of the request alone.
Result<void> check_request(const Service& service, const PlannedWrite& write) {
  VB_TRY(check_bucket_name(write.bucket));
  if (write.of == WriteOf::part) return check_key(write.key);
  VB_TRY(check_new_key(write.key));
  if (write.headers == nullptr) return {};
  VB_TRY(check_object_headers(*write.headers, &service.store));
  return check_headers_for(*write.headers, write.bucket);
}

Task<Result<void>> fetch(Service& service, const PlannedWrite& write, WriteNeed what, WriteFacts& have) {
  const std::string bucket(write.bucket);
  if (what == WriteNeed::access) {
    VB_CO_ASSIGN(have.held, co_await bucket_access(service, bucket));
    have.access = have.held.get();
  } else if (what == WriteNeed::current) {
    have.current = co_await service.store.stat(bucket, write.key, "");
  } else {
    VB_CO_ASSIGN(have.encryption, co_await bucket_encryption(service, bucket));
  }
  co_return Result<void>();
}

}  // namespace

PlannedWrite planned(const PutRequest& request, std::optional<uint64_t> size) {
  return {.bucket = request.bucket,
          .key = request.key,
          .headers = &request.headers,
          .tags = &request.tags,
          .lock = &request.lock,
          .conditions = &request.conditions,
          .acl = &request.acl,
          .encryption = &request.encryption,
          .size = size.value_or(0)};
}

WriteFacts facts_at_hand(const Service& service, const PlannedWrite& write) {
  WriteFacts have;
  have.held = held_access(service, write.bucket);
  have.access = have.held.get();
  return have;
}

Result<WritePlan> judge_write(const Service& service, const Call& call, const PlannedWrite& write,
                              const WriteFacts& have) {
  if (have.access == nullptr) return missing(WriteNeed::access);
  const BucketAccess& access = *have.access;
  const Asked asked{.action = action::put_object,
                    .key = write.key,
                    .tags = write.tags,
                    .lock = write.lock,
                    .headers = write.headers,
                    .conditions = write.conditions,
                    .creates = write.of == WriteOf::object};
  WritePlan plan;
  if (write.of == WriteOf::part) {
    VB_TRY(authorize(service, call, access, asked));
    return plan;
  }
  static const AclWish no_list;
  VB_ASSIGN(plan.attributes,
            authorize_new_object(service, call, access, asked, write.acl != nullptr ? *write.acl : no_list));
  if (write.conditions == nullptr || !tells_what_is_there(*write.conditions)) return plan;
  if (!have.current) return missing(WriteNeed::current);
  VB_TRY(authorize_conditions(service, call, access, {write.key, {}}, *have.current));
  return plan;
}

Result<WritePlan> plan_write(const Service& service, const Call& call, const PlannedWrite& write,
                             const WriteFacts& have) {
  VB_TRY(check_request(service, write));
  if (write.of == WriteOf::part) return judge_write(service, call, write, have);  // encrypted like its upload
  EncryptionWish wish;
  if (write.encryption != nullptr || session_encrypts(call)) {
    VB_ASSIGN(wish, session_encryption(call, write.encryption != nullptr ? *write.encryption : EncryptionWish()));
  }
  auto plan = judge_write(service, call, write, have);
  if (!plan || plan->needs != WriteNeed::nothing) return plan;
  if (write.size > put_size_max) return fail(Errc::entity_too_large, "put: declared length");
  // Most small writes: not encrypted, since neither request, session, bucket nor server demands it.
  if (wish.method == Encryption::none && !have.access->encrypts && !service.encryption.by_default) return plan;
  const bool by_bucket = have.access->encrypts && asks_bucket(service.encryption, wish, write.bucket);
  if (by_bucket && !have.encryption) return missing(WriteNeed::encryption);
  VB_ASSIGN(plan->encryption, settle_encryption(service.encryption, std::move(wish), write.bucket,
                                                by_bucket ? have.encryption->get() : nullptr));
  return plan;
}

Task<Result<WritePlan>> settle_plan(Service& service, const Call& call, const PlannedWrite& write, WriteFacts& have,
                                    Result<WritePlan> looked, WriteLook& look) {
  for (;; looked = look(service, call, write, have)) {
    if (!looked || looked->needs == WriteNeed::nothing) co_return looked;
    VB_CO_TRY(co_await fetch(service, write, looked->needs, have));
  }
}

Task<Result<store::Attributes>> judge_again(Service& service, const Call& call, const PlannedWrite& write,
                                            const BucketAccess& before) {
  VB_CO_ASSIGN(const Call now, caller_now(service, call));
  WriteFacts have;
  VB_CO_ASSIGN(have.held, co_await same_bucket_access(service, before));
  have.access = have.held.get();
  VB_CO_ASSIGN(WritePlan plan,
               co_await settle_plan(service, now, write, have, judge_write(service, now, write, have), judge_write));
  co_return std::move(plan.attributes);
}

}  // namespace verbena::s3
