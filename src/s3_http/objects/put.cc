// PutObject and UploadPart over HTTP.
#include "s3_http/objects/put.h"

#include "base/decimal.h"
#include "s3/objects/encryption.h"
#include "s3_http/acl_requests.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/expiration.h"
#include "s3_http/objects/lock.h"
#include "s3_http/objects/multipart.h"
#include "s3_http/objects/tagging.h"
#include "s3_http/objects/versions.h"
#include "s3_http/token.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view offset_header = "x-amz-write-offset-bytes";

Result<std::optional<PutRequest::Append>> read_append(const Context& context) {
  const auto header = context.header(offset_header);
  if (!header) return std::nullopt;
  const auto offset = parse_decimal(*header);
  if (!offset) return fail(Errc::invalid_argument, "x-amz-write-offset-bytes must be a number of bytes.");
  return PutRequest::Append{*offset};
}

// By a token, or by the session that this is the transfer of (dialects/hipobj).
bool moves_by_rdma(const Context& context, const std::optional<rdma::Token>& token) {
  return token || context.caller().door == Door::token;
}

}  // namespace

Result<PutRequest> read_put_request(const Context& context, bool whole_object, bool by_rdma) {
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
  if (!whole_object) {  // a part's must match its upload's
    VB_ASSIGN(put.encryption.customer, read_customer_key(context, own_key_prefix));
  }
  VB_TRY(plan_checksums(context, put));
  if (by_rdma) {
    VB_ASSIGN(put.md5_etag, wants_md5(context));
  }
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
  auto read = read_put_request(context, true, moves_by_rdma(context, token));
  const bool lends = lends_by_foreign_token(context);
  if (!read || lends) {
    // A caller without the right to write gets AccessDenied instead of the request's error.
    VB_CO_TRY(co_await authorize_upload(context, action::put_object));
    if (lends) VB_CO_TRY(refuse_foreign_token());
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

Task<Result<void>> serve_upload_part(Context& context) {
  if (context.header("x-amz-copy-source")) co_return co_await serve_upload_part_copy(context);
  VB_CO_ASSIGN(const auto token, read_token(context));
  if (lends_by_foreign_token(context)) {
    VB_CO_TRY(co_await authorize_upload(context, action::put_object));
    VB_CO_TRY(refuse_foreign_token());
  }
  UploadPartRequest part;
  VB_CO_ASSIGN(part.part_number, read_part_number(context));
  part.upload_id = context.query.get_or_empty("uploadId");
  VB_CO_ASSIGN(part.put, read_put_request(context, false, moves_by_rdma(context, token)));
  if (token) {
    VB_CO_ASSIGN(const TokenPut moved, co_await upload_part_by_token(context, *token, std::move(part)));
    if (moved.outcome == TokenOutcome::done) fill_put_response(context, moved.reply.info);
    co_return Result<void>();
  }
  VB_CO_ASSIGN(const PutReply reply,
               co_await upload_part(context.service, context.caller(), std::move(part), context.body));
  fill_put_response(context, reply.info);
  context.call.outcome.in = reply.received;
  co_return Result<void>();
}

}  // namespace verbena::s3
