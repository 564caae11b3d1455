// UploadPart.

#include "s3/access/authorize.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/objects/ingest.h"
#include "s3/objects/write_plan.h"
#include "s3/service.h"

namespace verbena::s3 {
namespace {

// A part of an upload with a checksum algorithm gets a checksum of that algorithm, whatever the client sends; sending
// one of another algorithm is an error. In an upload without an algorithm, parts without a checksum get the default
// one.
Result<void> match_upload_checksum(const store::UploadInfo& upload, PutRequest& put) {
  if (!upload.checksum_algorithm) {
    add_default_checksum(put);
    return {};
  }
  const auto differs = [&](Algorithm algorithm) { return algorithm != *upload.checksum_algorithm; };
  for (const auto& checksum : put.expected) {
    if (differs(checksum.algorithm)) return fail(Errc::invalid_request, "Checksum Type mismatch occurred.");
  }
  if (put.compute && differs(*put.compute)) return fail(Errc::invalid_request, "Checksum Type mismatch occurred.");
  put.compute = upload.checksum_algorithm;
  return {};
}

}  // namespace

Task<Result<PutReply>> upload_part(Service& service, const Call& call, UploadPartRequest request,
                                   memory::Source& body) {
  PutRequest& put = request.put;
  const PlannedWrite write{.bucket = put.bucket, .key = put.key, .of = WriteOf::part};
  WriteFacts have = facts_at_hand(service, write);
  VB_CO_TRY(co_await settle_plan(service, call, write, have, plan_write(service, call, write, have)));
  const BucketAccess& access = *have.access;
  if (request.part_number < 1 || request.part_number > store::part_number_max) {
    co_return fail(Errc::invalid_argument, bad_part_number);
  }
  const auto size = body.size();
  if (size.value_or(0) > store::part_size_max) co_return fail(Errc::entity_too_large, "part: declared length");
  VB_CO_ASSIGN(const store::UploadInfo upload, co_await service.store.upload(put.bucket, put.key, request.upload_id));
  VB_CO_TRY(match_upload_checksum(upload, put));
  if (access.opaque_etags) put.md5_etag = false;
  VB_CO_ASSIGN(const Seal seal, part_seal(service, upload, put.encryption.customer));
  VB_CO_ASSIGN(Reservation room, Reservation::make(service, access, size.value_or(0), 0));
  const std::shared_ptr<ByteCharge> charge = ByteCharge::make(call, access);
  if (charge) charge->begin(size.value_or(0));

  VB_CO_ASSIGN(auto writer, co_await service.store.create_part(put.bucket, put.key, request.upload_id,
                                                               request.part_number, seal.stored_size(size)));
  writer = seal.writer(service, std::move(writer), size);
  VB_CO_ASSIGN(store::ObjectInfo info, co_await ingest(service, call, *writer, put, body, room, charge.get()));
  const uint64_t received = info.size;
  if (may_have_changed(service, call, access)) VB_CO_TRY(co_await judge_again(service, call, write, access));
  if (seal.opaque_etag() && put.md5_etag) info.etag = seal.part_etag(request.part_number, info.etag);
  seal.mark_part(info);
  store::CommitConditions none;
  VB_CO_ASSIGN(info, co_await writer->commit(std::move(info), std::move(none)));
  info.attributes = encryption_attributes(upload.attributes);  // what the reply says of it
  co_return PutReply{std::move(info), received};
}

}  // namespace verbena::s3
