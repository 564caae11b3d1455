// GET and HEAD of an object over HTTP, with and without a token.
#include "s3_http/objects/get.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/date.h"
#include "s3/access/access.h"
#include "s3/objects/encryption.h"
#include "s3/objects/lock.h"
#include "s3/objects/range.h"
#include "s3/objects/read.h"
#include "s3/objects/send.h"
#include "s3_http/checksum_headers.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/error_response.h"
#include "s3_http/headers.h"
#include "s3_http/objects/condition_headers.h"
#include "s3_http/objects/expiration.h"
#include "s3_http/objects/versions.h"
#include "s3_http/token.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

Result<GetRequest> read_get_request(const Context& context) {
  GetRequest request;
  VB_TRY(refuse_encryption_headers(context));
  VB_ASSIGN(request.customer_key, read_customer_key(context, own_key_prefix));
  VB_ASSIGN(request.version_id, read_version_id(context));
  request.bucket = context.bucket;
  request.key = context.key;
  request.preconditions = read_preconditions(context, "");
  if (const auto header = context.request.header("range")) request.range = parse_range(*header);
  if (context.query.has("partNumber")) {
    VB_ASSIGN(const int64_t number, context.query.number("partNumber", 1, store::part_number_max, 0, bad_part_number));
    if (number == 0) return fail(Errc::invalid_argument, bad_part_number);
    if (request.range) {
      return fail(Errc::invalid_request, "Cannot specify both Range header and partNumber query parameter.");
    }
    request.part_number = static_cast<int>(number);
  }
  return request;
}

// Headers and elements of a refusal about the object: a 304 has its validators, a 416 its size.
void describe_refusal(Context& context, const Error& error, const store::ObjectInfo* object) {
  if (object == nullptr) return;
  const store::ObjectInfo& seen = *object;
  if (error == Errc::not_modified) {
    context.error_headers.emplace_back("etag", fmt::format("\"{}\"", seen.etag));
    context.error_headers.emplace_back("last-modified", format_http_date(seen.modified_us / 1'000'000));
    for (const auto& header : seen.headers) {
      if (header.first == "cache-control" || header.first == "expires") context.error_headers.push_back(header);
    }
  } else if (error == Errc::invalid_range) {
    context.error_headers.emplace_back("content-range", fmt::format("bytes */{}", seen.size));
    if (const auto range = context.request.header("range")) context.error_fields.emplace_back("RangeRequested", *range);
    context.error_fields.emplace_back("ActualObjectSize", std::to_string(seen.size));
  } else if (error == Errc::invalid_part_number) {
    context.error_fields.emplace_back("PartNumberRequested", context.query.get_or_empty("partNumber"));
    context.error_fields.emplace_back("ActualPartCount", std::to_string(std::max<size_t>(1, seen.parts.size())));
  } else if (error == Errc::precondition_failed) {
    context.error_fields.emplace_back("Condition", error.context);
  }
}

// Status and headers of a GET or HEAD that succeeds.
Result<void> fill_object_response(Context& context, const store::ObjectInfo& info, const Extent& extent,
                                  const GetRequest& request) {
  context.response.status = extent.partial ? 206 : 200;
  context.call.outcome.object_size = info.size;
  add_object_headers(context.response, info);
  add_version_id(context.response, info.version_id);
  add_tag_and_lock_headers(context.response.headers, info);
  add_encryption_headers(context, info.attributes);
  if (extent.partial) {
    const uint64_t last = extent.offset + extent.length - (extent.length > 0 ? 1 : 0);
    context.reply_header("content-range", fmt::format("bytes {}-{}/{}", extent.offset, last, info.size));
  }
  const bool parts = !info.parts.empty();
  if (request.part_number && parts) context.reply_header("x-amz-mp-parts-count", std::to_string(info.parts.size()));
  if (context.header("x-amz-checksum-mode") == "ENABLED") {
    // The checksum of the sent bytes: of a whole object or a whole part. A range has none.
    if (request.part_number && parts) {
      const auto part = std::ranges::find(info.parts, *request.part_number, &store::PartInfo::number);
      add_part_checksum_headers(context.response, info, static_cast<size_t>(part - info.parts.begin()));
    } else if (!extent.partial || extent.length == info.size) {
      add_checksum_headers(context.response, info.checksums);
    }
  }
  return apply_response_overrides(context);
}

// Looks until there is an answer, and describes a refusal.
Task<Result<void>> look(Context& context, ObjectRead& read, const GetRequest& request) {
  ObjectRead::Step step = read.look();
  if (step != ObjectRead::Step::answer && step != ObjectRead::Step::refusal) step = co_await read.finish(step);
  if (step == ObjectRead::Step::answer) co_return Result<void>();
  describe_refusal(context, read.error(), read.refused());
  co_await describe_missing(context, read.error(), request.version_id);
  co_return std::unexpected(read.error());
}

void answer_head(Context& context, const ObjectRead& read) {
  context.response.no_body = true;
  context.response.content_length = read.extent().length;
}

}  // namespace

Task<Result<void>> serve_get_object(Context& context) {
  VB_CO_ASSIGN(const GetRequest request, read_get_request(context));
  VB_CO_ASSIGN(const auto token, read_token(context));
  RequestTrace* const trace = context.caller().trace;
  ScopedStage opens(trace, Stage::open);
  ObjectRead read(context.service, context.caller(), request, ObjectRead::Of::bytes, context.request.found);
  VB_CO_TRY(co_await look(context, read, request));
  opens.end();
  if (lends_by_foreign_token(context)) VB_CO_TRY(refuse_foreign_token());
  const OpenObject object = read.take();
  VB_CO_TRY(fill_object_response(context, object.info(), read.extent(), request));
  if (may_expire(context)) co_await add_expiration_header(context, object.info());
  if (token) {
    VB_CO_ASSIGN(const TokenOutcome outcome, co_await push_by_token(context, object, *token));
    if (outcome == TokenOutcome::done) co_return Result<void>();
  }
  context.call.outcome.out = object.length;
  ScopedStage sends(trace, Stage::wire);
  VB_CO_ASSIGN(const memory::AtOnce sent, send_now(object, context.sink));
  if (sent == memory::AtOnce::unfinished) VB_CO_TRY(co_await context.sink.finish());
  if (sent == memory::AtOnce::unsupported) {
    sends.end();
    VB_CO_TRY(co_await send_object(context.service, object, context.sink, trace));
  }
  co_return Result<void>();
}

bool asks_for_object_alone(HeaderSpan headers) {
  constexpr auto said_of_the_caller =
      std::to_array<std::string_view>({"x-amz-date", "x-amz-content-sha256", "x-amz-security-token",
                                       "x-amz-s3session-token", "x-amz-user-agent", "x-amz-checksum-mode"});
  return std::ranges::all_of(headers, [&](const auto& header) {
    const std::string_view name = header.first;
    switch (header.first[0]) {
      case 'c':
        return name != "content-length";
      case 'e':
        return name != "expect";
      case 'i':
        return !name.starts_with("if-");
      case 'o':
        return name != "origin";
      case 't':
        return name != "transfer-encoding";
      case 'x':
        if (name.starts_with("x-verbena-") || is_foreign_token(name)) return false;
        return !name.starts_with("x-amz-") || std::ranges::find(said_of_the_caller, name) != said_of_the_caller.end();
      default:
        return true;
    }
  });
}

std::optional<Given> try_read(Context& context, FoundObject& found) {
  const bool head = context.request.method == "HEAD";
  GetRequest request;
  request.bucket = context.bucket;
  request.key = context.key;
  if (const auto header = context.request.header("range")) request.range = parse_range(*header);
  RequestTrace* const trace = context.caller().trace;
  ScopedStage opens(trace, Stage::open);
  ObjectRead read(context.service, context.caller(), request, head ? ObjectRead::Of::head : ObjectRead::Of::bytes);
  const auto step = read.look();
  opens.end();
  if (step != ObjectRead::Step::answer) {
    found = read.found();
    return std::nullopt;
  }
  add_request_ids(context.response, context.caller().request_id);
  if (!fill_object_response(context, read.info(), read.extent(), request)) {
    found = read.found();
    return std::nullopt;
  }
  Given given;
  if (head) {
    answer_head(context, read);  // an answer of no bytes
  } else {
    given.object = read.take();
  }
  const ScopedStage sends(trace, Stage::wire);
  given.sent = send_now(given.object, context.sink);
  return given;
}

Task<Result<void>> serve_head_object(Context& context) {
  VB_CO_ASSIGN(const GetRequest request, read_get_request(context));
  ObjectRead read(context.service, context.caller(), request, ObjectRead::Of::head, context.request.found);
  VB_CO_TRY(co_await look(context, read, request));
  VB_CO_TRY(fill_object_response(context, read.info(), read.extent(), request));
  if (may_expire(context)) co_await add_expiration_header(context, read.info());
  answer_head(context, read);
  co_return Result<void>();
}

}  // namespace verbena::s3
