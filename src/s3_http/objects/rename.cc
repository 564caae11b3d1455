// RenameObject, for directory buckets.
#include <algorithm>
#include <memory>

#include "auth/auth.h"
#include "base/checksum.h"
#include "s3/names.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t token_size_max = 64;

// 1 to 64 visible characters.
Result<std::string> read_client_token(const Context& context) {
  const auto token = context.header("x-amz-client-token");
  if (!token) return std::string();
  const auto visible = [](char c) { return c >= 33 && c <= 126; };
  if (token->empty() || token->size() > token_size_max || !std::ranges::all_of(*token, visible)) {
    return fail(Errc::invalid_argument, "x-amz-client-token must have 1 to 64 visible ASCII characters.");
  }
  return std::string(*token);
}

// The key that the source header names, percent-encoded: "key" (as mountpoint-s3 writes it), "/key", "bucket/key" or
// "/bucket/key". A key that begins with the bucket's own name and a slash is named by one of the last two.
Result<std::string> read_source(const Context& context) {
  const auto header = context.header("x-amz-rename-source");
  if (!header || header->empty()) return fail(Errc::invalid_argument, "x-amz-rename-source must name an object.");
  auto decoded = auth::uri_decode(*header);
  if (!decoded) return fail(Errc::invalid_argument, "x-amz-rename-source has a broken percent escape.");
  std::string_view source = *decoded;
  if (source.starts_with('/')) source.remove_prefix(1);
  const std::string before = context.bucket + "/";
  if (source.starts_with(before)) source.remove_prefix(before.size());
  if (source.empty()) return fail(Errc::invalid_argument, "x-amz-rename-source must name an object.");
  return std::string(source);
}

}  // namespace

Task<Result<void>> serve_rename_object(Context& context) {
  if (!is_directory_bucket(context.bucket)) co_return fail(Errc::not_implemented, "rename: not of a directory bucket");
  RenameObjectRequest request;
  request.bucket = context.bucket;
  request.to = context.key;
  VB_CO_ASSIGN(request.from, read_source(context));
  const std::string from = request.from;
  context.call.outcome.source = context.bucket + "/" + request.from;
  VB_CO_ASSIGN(request.token, read_client_token(context));
  request.source = read_preconditions(context, "x-amz-rename-source-");
  request.target = read_preconditions(context, "");
  auto renamed = co_await rename_object(context.service, context.caller(), std::move(request));
  if (!renamed && renamed.error() == Errc::precondition_failed) {
    context.error_fields.emplace_back("Condition", renamed.error().context);
  } else if (!renamed && renamed.error() == Errc::no_such_key) {
    context.error_fields.emplace_back("Key", from);
  }
  co_return renamed;
}

}  // namespace verbena::s3
