// PUT of an object.
#include "s3/objects/put.h"

#include <fmt/core.h>
#include <boost/asio/this_coro.hpp>

#include <algorithm>

#include "base/hex.h"
#include "base/request_trace.h"
#include "memory/budget.h"
#include "s3/access/authorize.h"
#include "s3/buckets/lifecycle.h"
#include "s3/events/announce.h"
#include "s3/express/directory.h"
#include "s3/headers.h"
#include "s3/names.h"
#include "s3/objects/checksums.h"
#include "s3/objects/conditions.h"
#include "s3/objects/encryption.h"
#include "s3/objects/lock.h"
#include "s3/objects/multipart.h"
#include "s3/objects/tagging.h"
#include "s3/objects/versions.h"
#include "s3/token.h"
#include "s3/verbs.h"
#include "s3/workers/request_log.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view offset_header = "x-amz-write-offset-bytes";
constexpr uint64_t put_size_max = 5 * GiB;  // S3: larger objects are uploaded in parts
// One byte more than is left, where the length is known: the read that meets the end then also brings the source's
// verdict (signature, trailers), and a small body takes one read. Not where that byte would double the lease.
size_t next_read(std::optional<uint64_t> size, uint64_t have, size_t offer) {
  if (!size || *size - have >= offer) return offer;
  const auto left = static_cast<size_t>(*size - have);
  return memory::Arena::class_size(left + 1) > memory::Arena::class_size(left) ? left : left + 1;
}

// Fills one lease of the body, leased when its first byte is there, and digests it. An empty chunk: the end.
Task<Result<memory::Chunk>> read_chunk(memory::Share& share, memory::Source& body, std::optional<uint64_t> size,
                                       uint64_t have, BodyDigests& digests, bool& end, RequestTrace* trace) {
  ScopedStage on_wire(trace, Stage::wire);
  VB_CO_TRY(co_await body.ready());
  on_wire.end();
  ScopedStage for_memory(trace, Stage::memory);
  VB_CO_ASSIGN(memory::Lease lease, co_await share.lease(next_read(size, have, share.offer())));
  for_memory.end();
  ScopedStage reads(trace, Stage::wire);
  VB_CO_ASSIGN(const size_t got, co_await body.read(lease.bytes()));
  reads.end();
  end = got < lease.size();
  const Bytes bytes = Bytes(lease.bytes()).first(got);
  digests.update(bytes);
  co_return memory::Chunk{std::move(lease), bytes};
}

// Likewise, of a large body: the digest of one piece goes on while the next is read.
Task<Result<memory::Chunk>> read_chunk_aside(memory::Share& share, memory::Source& body, std::optional<uint64_t> size,
                                             uint64_t have, DigestsAside& aside, bool& end, RequestTrace* trace) {
  ScopedStage on_wire(trace, Stage::wire);
  VB_CO_TRY(co_await body.ready());
  on_wire.end();
  ScopedStage for_memory(trace, Stage::memory);
  VB_CO_ASSIGN(aside.lease, co_await share.lease(next_read(size, have, share.offer())));
  for_memory.end();
  const MutableBytes into = aside.lease.bytes();
  size_t have_now = 0;
  const ScopedStage reads(trace, Stage::wire);
  while (have_now < into.size() && !end) {
    const MutableBytes piece = into.subspan(have_now, std::min(DigestsAside::piece_size, into.size() - have_now));
    VB_CO_ASSIGN(const size_t got, co_await body.read(piece));
    end = got < piece.size();
    have_now += got;
    co_await aside.add(piece.first(got));
  }
  co_await aside.done();
  const Bytes bytes = Bytes(into).first(have_now);
  co_return memory::Chunk{std::move(aside.lease), bytes};
}

// All bytes that were declared are here. The end, with the source's verdict, needs no memory of the arena.
Task<Result<void>> expect_end(memory::Source& body) {
  std::byte one_more[1];
  const MutableBytes into(one_more);
  VB_CO_ASSIGN(const size_t got, co_await body.read(into));
  if (got != 0) co_return fail(Errc::incomplete_body, "put: longer than declared");
  co_return Result<void>{};
}

// A body may take minutes: who may not write any more when it has come, or has no key any more, stores nothing.
Task<Result<store::Attributes>> authorize_again(Service& service, const Call& caller, const BucketAccess& before,
                                                const Asked& asked, const PutRequest& request) {
  VB_CO_ASSIGN(const Call now, caller_now(service, caller));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await same_bucket_access(service, before));
  const ObjectName name{request.key, {}};
  VB_CO_TRY(co_await authorize_conditions(service, now, *access, name, request.conditions));
  co_return authorize_new_object(service, now, *access, asked, request.acl);
}

}  // namespace

Result<void> verify_checksums(const std::vector<store::Checksum>& expected,
                              const std::vector<store::Checksum>& computed) {
  for (const auto& wanted : expected) {
    const auto same = [&](const store::Checksum& c) { return c.algorithm == wanted.algorithm; };
    const auto found = std::ranges::find_if(computed, same);
    if (found == computed.end()) return fail(Errc::malformed_trailer, "checksum was not announced");
    if (found->value != wanted.value) return fail(Errc::bad_digest, "checksum");
  }
  return {};
}

std::string random_etag() {
  // A counter behind a secret of the thread: as good as random, and no system call.
  struct Source {
    std::byte secrets[2][16];
    uint64_t count = 0;
    Source() { fill_random(MutableBytes(&secrets[0][0], sizeof secrets)); }
  };
  thread_local Source source;
  ++source.count;
  uint64_t words[2];
  const auto count = std::as_bytes(std::span(&source.count, 1));
  for (int i = 0; i < 2; ++i) words[i] = siphash24(source.secrets[i], count);
  std::string etag(34, '-');
  write_hex(std::as_bytes(std::span(words)), etag.data());
  etag.back() = 'r';
  return etag;
}

namespace {

// Appends are for directory buckets, and for others whose owner allows them. There the offset tells what is there.
Task<Result<void>> check_may_append(Service& service, const Call& caller, const BucketAccess& access,
                                    const PutRequest& request) {
  if (access.directory) co_return Result<void>();
  const auto document = co_await service.store.document(access.name, append_document);
  if (!document && document.error() == Errc::not_found) {
    co_return fail(Errc::not_implemented, "A header you provided implies functionality that is not implemented.");
  }
  VB_CO_TRY(document);
  const Asked reading{.action = action::get_object, .key = request.key};
  co_return authorize(service, caller, access, reading);
}

bool has_user_metadata(const PutRequest& request) {
  return std::ranges::any_of(request.headers,
                             [](const auto& header) { return header.first.starts_with("x-amz-meta-"); });
}

// Before the bytes of an append come. The commit has the last word on what is there; it is looked at here where that
// may save the bytes of a long one.
Task<Result<void>> prepare_append(Service& service, PutRequest& request, std::optional<uint64_t> size) {
  constexpr uint64_t short_max = 64 * KiB;
  request.conditions.if_size = request.append->offset;
  request.conditions.if_without = sealed_attribute;
  // Which checksum the object has is known at the commit: of few bytes all that can go on are made.
  request.continues = {Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme};
  if (size.value_or(short_max + 1) <= short_max && !has_user_metadata(request)) co_return Result<void>();
  const auto there = co_await service.store.stat(request.bucket, request.key, "");
  if (!there) co_return Result<void>();
  if (has_user_metadata(request)) {
    co_return fail(Errc::invalid_request,
                   "Cannot specify both a write offset value and user-defined object metadata for existing objects.");
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

Task<Result<Reservation>> reserve_for(Service& service, const BucketAccess& access, const PutRequest& request,
                                      uint64_t bytes) {
  if (request.append) co_return co_await reserve_append(service, access, request.key, bytes);
  co_return Reservation::make(service, access, bytes, 1);
}

// Of plain bytes. An append is sealed when it is known what it is added to; anything else as it comes.
Task<Result<std::unique_ptr<store::ObjectWriter>>> make_writer(Service& service, const PutRequest& request,
                                                               const Seal& seal, store::AppendSealPtr append_seal,
                                                               std::optional<uint64_t> size) {
  if (request.append) {
    co_return co_await service.store.create_append(request.bucket, request.key, size, std::move(append_seal));
  }
  VB_CO_ASSIGN(auto writer, co_await service.store.create(request.bucket, request.key, seal.stored_size(size)));
  co_return seal.writer(service, std::move(writer), size);
}

}  // namespace

Task<Result<store::ObjectInfo>> ingest(Service& service, const Call& caller, store::ObjectWriter& writer,
                                       const PutRequest& request, memory::Source& body, Reservation& room,
                                       ByteCharge* charge) {
  RequestTrace* const trace = caller.trace;
  BodyDigests digests;
  if (request.md5_etag || request.content_md5) digests.want_md5();
  for (const auto& checksum : request.expected) digests.want(checksum.algorithm);
  if (request.compute) digests.want(*request.compute);
  for (const Algorithm algorithm : request.continues) digests.want(algorithm);

  const auto size = body.size();
  memory::Share share(service.arena, caller.peer_address, size);
  store::ObjectInfo info;
  std::shared_ptr<DigestsAside> aside;
  if (digests.wants(Algorithm::md5) && size.value_or(DigestsAside::body_size_min) >= DigestsAside::body_size_min) {
    aside = DigestsAside::make(std::move(digests), co_await boost::asio::this_coro::executor);
  }
  for (bool end = false; !end;) {
    if (size && info.size == *size) {
      VB_CO_TRY(co_await expect_end(body));
      break;
    }
    Result<memory::Chunk> read;
    if (aside) {
      read = co_await read_chunk_aside(share, body, size, info.size, *aside, end, trace);
    } else {
      read = co_await read_chunk(share, body, size, info.size, digests, end, trace);
    }
    VB_CO_ASSIGN(memory::Chunk chunk, std::move(read));
    if (chunk.bytes.empty()) break;
    info.size += chunk.bytes.size();
    if (charge != nullptr) charge->moved(chunk.bytes.size());
    if (info.size > put_size_max) co_return fail(Errc::entity_too_large, "put: body");
    if (size && info.size > *size) co_return fail(Errc::incomplete_body, "put: longer than declared");
    if (!size) VB_CO_TRY(room.grow(chunk.bytes.size()));
    const ScopedStage on_disk(trace, Stage::disk);
    VB_CO_TRY(co_await writer.append(std::move(chunk)));
  }
  if (size && info.size != *size) co_return fail(Errc::incomplete_body, "put: length");

  if (aside) digests = std::move(aside->digests);
  digests.finish();
  if (request.content_md5 && digests.md5() != *request.content_md5) co_return fail(Errc::bad_digest, "Content-MD5");
  VB_CO_TRY(verify_checksums(request.expected, digests.checksums()));
  if (request.trailing) {
    VB_CO_ASSIGN(const auto trailed, request.trailing());
    VB_CO_TRY(verify_checksums(trailed, digests.checksums()));
  }
  info.etag = request.md5_etag ? to_hex(as_bytes(digests.md5())) : random_etag();
  info.checksums = digests.checksums();
  co_return info;
}

Task<Result<PutReply>> put_object(Service& service, const Call& caller, PutRequest request, memory::Source& body) {
  RequestTrace* const trace = caller.trace;
  ScopedStage opens(trace, Stage::open);
  VB_CO_TRY(check_bucket_name(request.bucket));
  VB_CO_TRY(check_new_key(request.key));
  VB_CO_TRY(check_object_headers(request.headers));
  VB_CO_TRY(settle_storage_class(request.headers, request.bucket));
  VB_CO_ASSIGN(request.encryption, session_encryption(caller, std::move(request.encryption)));
  const uint64_t generation = service.access->now();
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, request.bucket));
  const Asked asked{.action = action::put_object,
                    .key = request.key,
                    .tags = &request.tags,
                    .lock = &request.lock,
                    .headers = &request.headers,
                    .conditions = &request.conditions,
                    .creates = true};
  VB_CO_ASSIGN(store::Attributes attributes, authorize_new_object(service, caller, *access, asked, request.acl));
  const ObjectName name{request.key, {}};
  VB_CO_TRY(co_await authorize_conditions(service, caller, *access, name, request.conditions));
  const auto size = body.size();
  if (size.value_or(0) > put_size_max) co_return fail(Errc::entity_too_large, "put: declared length");

  Seal seal;
  store::AppendSealPtr append_seal;
  if (request.append) {
    VB_CO_ASSIGN(append_seal,
                 co_await plan_append_seal(service, request.bucket, request.key, std::move(request.encryption)));
  } else {
    VB_CO_ASSIGN(seal, co_await plan_seal(service, request.bucket, request.key, std::move(request.encryption)));
  }
  add_default_checksum(request);
  if (request.append || seal.opaque_etag() || access->directory) request.md5_etag = false;
  if (request.append) {
    VB_CO_TRY(co_await check_may_append(service, caller, *access, request));
    VB_CO_TRY(co_await prepare_append(service, request, size));
  }
  Reservation room;
  if (access->has_quota()) {
    VB_CO_ASSIGN(room, co_await reserve_for(service, *access, request, size.value_or(0)));
  }
  const std::shared_ptr<ByteCharge> charge = ByteCharge::make(caller, *access);
  if (charge) charge->begin(size.value_or(0));
  VB_CO_ASSIGN(auto writer, co_await make_writer(service, request, seal, std::move(append_seal), size));
  opens.end();
  VB_CO_ASSIGN(store::ObjectInfo info, co_await ingest(service, caller, *writer, request, body, room, charge.get()));
  const uint64_t received = info.size;
  if (request.append && info.size == 0) {
    co_return fail(Errc::invalid_request, "Request body cannot be empty when 'write offset' is specified.");
  }
  if (may_have_changed(service, caller, generation)) {
    VB_CO_ASSIGN(attributes, co_await authorize_again(service, caller, *access, asked, request));
  }
  // Of an append's several checksums the one that was asked for is what a new object gets.
  const auto asked_for = [&](const store::Checksum& one) {
    return request.compute == one.algorithm ||
           (!request.expected.empty() && request.expected.front().algorithm == one.algorithm);
  };
  const auto others = std::ranges::stable_partition(info.checksums, asked_for);
  const std::vector<store::Checksum> sent(info.checksums.begin(), others.begin());
  seal.mark_object(service, request.bucket, request.key, info);
  info.headers = std::move(request.headers);
  info.tags = std::move(request.tags);
  info.lock = request.lock;
  store::change_attributes(info.attributes, attributes);
  if (access->notifications != nullptr || generation != service.access->now()) {
    const bool form = caller.facts.posted_by != nullptr;
    const EventCause cause = form ? EventCause::post : EventCause::put;
    VB_CO_ASSIGN(request.conditions.announcement,
                 co_await announce_now(service, request.bucket, caller, cause, request.key));
  }
  ScopedStage commits(trace, Stage::disk);
  VB_CO_ASSIGN(info, co_await writer->commit(std::move(info), std::move(request.conditions)));
  commits.end();
  if (request.append) info.checksums = sent;  // the reply confirms what came, not what lies before it
  co_return PutReply{std::move(info), received};
}

// x-amz-write-offset-bytes.
Result<std::optional<PutRequest::Append>> read_append(const Context& context) {
  const auto header = context.header(offset_header);
  if (!header) return std::nullopt;
  const auto offset = parse_decimal(*header);
  if (!offset) return fail(Errc::invalid_argument, "x-amz-write-offset-bytes must be a number of bytes.");
  return PutRequest::Append{*offset};
}

Result<PutRequest> read_put_request(const Context& context, bool whole_object) {
  if (context.query.has("versionId")) {
    return fail(Errc::invalid_argument, "This operation does not accept a version-id.");
  }
  PutRequest put;
  put.bucket = context.bucket;
  put.key = context.key;
  if (whole_object) {
    VB_ASSIGN(put.headers, read_object_headers(context));
    VB_ASSIGN(put.conditions, read_commit_conditions(context));
    VB_ASSIGN(put.tags, read_tagging_header(context));
    VB_ASSIGN(put.lock, read_lock_headers(context));
    VB_ASSIGN(put.acl, read_acl_headers(context));
    VB_ASSIGN(put.encryption, read_encryption(context));
    VB_ASSIGN(put.append, read_append(context));
  }
  if (!whole_object) {  // of a part: it must be the upload's
    VB_ASSIGN(put.encryption.customer, read_customer_key(context, own_key_prefix));
  }
  VB_TRY(plan_checksums(context, put));
  return put;
}

void fill_put_response(Context& context, const store::ObjectInfo& info) {
  context.response.headers.emplace_joined("etag", "\"", info.etag, "\"");
  context.call.outcome.object_size = info.size;
  add_new_version_id(context.response, info.version_id);
  add_checksum_headers(context.response, info.checksums);
  add_encryption_headers(context, info.attributes);
  if (context.header(offset_header)) context.reply_header("x-amz-object-size", std::to_string(info.size));
}

Task<Result<void>> serve_put_object(Context& context) {
  if (context.header("x-amz-copy-source")) co_return co_await serve_copy_object(context);
  VB_CO_ASSIGN(const auto token, read_token(context));
  auto read = read_put_request(context, true);
  if (!read) {
    // A caller without the right to write gets AccessDenied instead of the fault in the request.
    VB_CO_TRY(co_await authorize_upload(context, action::put_object));
    co_return std::unexpected(read.error());
  }
  PutRequest put = std::move(*read);
  if (token) {
    VB_CO_ASSIGN(const TokenPut moved, co_await put_by_token(context, *token, std::move(put)));
    if (moved.outcome != TokenOutcome::done) co_return Result<void>();
    fill_put_response(context, moved.reply.info);
    if (may_expire(context)) co_await add_expiration_header(context, moved.reply.info);
    co_return Result<void>();
  }
  auto stored = co_await put_object(context.service, context.caller(), std::move(put), context.body);
  if (!stored && stored.error() == Errc::not_implemented && context.header(offset_header)) {
    context.error_fields.emplace_back("Header", offset_header);
  }
  VB_CO_ASSIGN(const PutReply reply, std::move(stored));
  fill_put_response(context, reply.info);
  if (may_expire(context)) co_await add_expiration_header(context, reply.info);
  context.call.outcome.in = reply.received;
  co_return Result<void>();
}

}  // namespace verbena::s3
