// PUT of an object.
#include <algorithm>

#include "base/request_trace.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/events/announce.h"
#include "s3/objects/append.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/objects/ingest.h"
#include "s3/objects/object_headers.h"
#include "s3/objects/write_plan.h"

namespace verbena::s3 {
namespace {

Task<Result<Reservation>> reserve_for(Service& service, const BucketAccess& access, PutRequest& request,
                                      uint64_t bytes) {
  if (!request.append) co_return Reservation::make(service, access, bytes, 1);
  VB_CO_ASSIGN(AppendRoom room, co_await reserve_append(service, access, request.key, bytes));
  request.conditions.may_make_object = room.may_make_object;
  co_return std::move(room.held);
}

// The encryption of the bytes: for an append determined by the object it is added to, for others by the request.
struct Sealing {
  Seal seal;
  store::AppendSealPtr append;
};

Sealing make_sealing(const Service& service, const PutRequest& request, EncryptionWish wish) {
  if (request.append) return {{}, make_append_seal(service, std::move(wish), request.bucket, request.key)};
  return {make_seal(service, wish, request.bucket, request.key), nullptr};
}

// The writer of plain bytes.
Task<Result<std::unique_ptr<store::ObjectWriter>>> make_writer(Service& service, const PutRequest& request,
                                                               Sealing& sealing, std::optional<uint64_t> size) {
  if (request.append) {
    co_return co_await service.store.create_append(request.bucket, request.key, size, std::move(sealing.append));
  }
  VB_CO_ASSIGN(auto writer, co_await service.store.create(request.bucket, request.key, sealing.seal.stored_size(size)));
  co_return sealing.seal.writer(service, std::move(writer), size);
}

// Moves the requested checksums to the front: a new object gets only these of an append's. Returns their number.
ptrdiff_t put_requested_first(const PutRequest& request, std::vector<store::Checksum>& checksums) {
  const auto requested = [&](const store::Checksum& one) {
    return request.compute == one.algorithm ||
           (!request.expected.empty() && request.expected.front().algorithm == one.algorithm);
  };
  return std::ranges::stable_partition(checksums, requested).begin() - checksums.begin();
}

// Fills in the properties stored with the bytes.
void describe(const Service& service, PutRequest& request, const Seal& seal, const store::Attributes& attributes,
              store::ObjectInfo& info) {
  seal.mark_object(service, request.bucket, request.key, info);
  info.headers = std::move(request.headers);
  name_storage_class(info.headers, request.bucket);
  info.tags = std::move(request.tags);
  info.lock = request.lock;
  store::change_attributes(info.attributes, attributes);
}

// The size that the object has after the request, as far as it is known.
uint64_t size_after(const PutRequest& request, uint64_t bytes) {
  const uint64_t before = request.append && request.append->offset ? *request.append->offset : 0;
  return before > UINT64_MAX - bytes ? UINT64_MAX : before + bytes;
}

// Room in a bounded bucket. A write that its conditions refuse already evicts nothing.
Task<Result<BoundClaim>> claim_for(Service& service, const BucketAccess& access, const PutRequest& request,
                                   uint64_t bytes) {
  if (access.bound == nullptr) co_return BoundClaim();
  VB_CO_TRY(access.bound->check_size(size_after(request, bytes)));
  VB_CO_TRY(co_await look_at_conditions(service, request.bucket, request.key, request.conditions));
  BoundWish wish{.key = request.key, .bytes = bytes, .appends = request.append.has_value()};
  co_return co_await claim_room(access.bound, std::move(wish));
}

EventCause cause_of(const Call& call) { return call.facts.posted_by != nullptr ? EventCause::post : EventCause::put; }

}  // namespace

Task<Result<PutReply>> put_object(Service& service, const Call& call, PutRequest request, memory::Source& body) {
  ScopedStage opens(call.trace, Stage::open);
  const auto size = body.size();
  const PlannedWrite write = planned(request, size);
  WriteFacts have = facts_at_hand(service, write);
  Result<WritePlan> looked = plan_write(service, call, write, have);
  if (looked && looked->needs != WriteNeed::nothing) {
    looked = co_await settle_plan(service, call, write, have, std::move(looked));
  }
  VB_CO_ASSIGN(WritePlan plan, std::move(looked));
  const BucketAccess& access = *have.access;

  Sealing sealing = make_sealing(service, request, std::move(plan.encryption));
  add_default_checksum(request);
  if (request.append || !has_md5_etag(access, sealing.seal)) request.md5_etag = false;
  if (request.append) VB_CO_TRY(co_await prepare_append(service, call, access, request, size));
  Reservation room;
  if (access.has_quota()) {
    VB_CO_ASSIGN(room, co_await reserve_for(service, access, request, size.value_or(0)));
  }
  if (access.bound != nullptr) VB_CO_TRY(access.bound->check_size(size_after(request, size.value_or(0))));
  const std::shared_ptr<ByteCharge> charge = ByteCharge::make(call, access);
  if (charge) charge->begin(size.value_or(0));
  VB_CO_ASSIGN(auto writer, co_await make_writer(service, request, sealing, size));
  opens.end();

  VB_CO_ASSIGN(store::ObjectInfo info, co_await ingest(service, call, *writer, request, body, room, charge.get()));
  const uint64_t received = info.size;
  if (request.append && received == 0) {
    co_return fail(Errc::invalid_request, "Request body cannot be empty when 'write offset' is specified.");
  }
  VB_CO_TRY(request.conditions.wanted.check());  // before others' objects are evicted for it
  BoundClaim claim;                              // before rights are judged again: it may have to wait
  if (access.bound != nullptr) {
    VB_CO_ASSIGN(claim, co_await claim_for(service, access, request, received));
  }
  if (may_have_changed(service, call, access)) {
    VB_CO_ASSIGN(plan.attributes, co_await judge_again(service, call, write, access));
  }
  const auto requested = put_requested_first(request, info.checksums);
  std::vector<store::Checksum> sent;
  if (request.append) sent.assign(info.checksums.begin(), info.checksums.begin() + requested);
  describe(service, request, sealing.seal, plan.attributes, info);
  if (access.notifications != nullptr || !service.access->is_current(access.mark)) {
    VB_CO_ASSIGN(request.conditions.announcement,
                 co_await announce_now(service, request.bucket, call, cause_of(call), request.key));
  }
  ScopedStage commits(call.trace, Stage::disk);
  VB_CO_ASSIGN(info, co_await writer->commit(std::move(info), std::move(request.conditions)));
  commits.end();
  if (request.append)
    info.checksums = std::move(sent);  // the reply has the checksums of the appended bytes, not of the object
  co_return PutReply{std::move(info), received};
}

}  // namespace verbena::s3
