// GET and HEAD of an object.
#include "s3/objects/get.h"

#include <fmt/core.h>

#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/buckets/lifecycle.h"
#include "s3/door_metrics.h"
#include "s3/headers.h"
#include "s3/names.h"
#include "s3/objects/checksums.h"
#include "s3/objects/conditions.h"
#include "s3/objects/encryption.h"
#include "s3/objects/read_ahead.h"
#include "s3/objects/versions.h"
#include "s3/token.h"
#include "s3/verbs.h"
#include "s3/workers/request_log.h"

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
  // Parts are counted, not named: a completed object's part 2 is its second part, whatever number it was uploaded as.
  uint64_t offset = 0;
  int index = 0;
  for (const auto& part : info.parts) {
    if (++index == number) return Extent{offset, part.size, part.size > 0};
    offset += part.size;
  }
  return fail(Errc::invalid_part_number, "part number");
}

// Conditions first, then the range (RFC 9110 section 13.2.2).
Result<Extent> select_extent(const store::ObjectInfo& info, const GetRequest& request) {
  VB_TRY(check_preconditions(request.preconditions, info));
  if (request.part_number) return part_extent(info, *request.part_number);
  if (request.range && range_applies(request.preconditions, info)) return resolve_range(*request.range, info.size);
  return Extent{0, info.size, false};
}

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
    constexpr const char* context_text = "Part number must be an integer between 1 and 10000, inclusive.";
    VB_ASSIGN(const int64_t number, context.query.number("partNumber", 1, store::part_number_max, 0, context_text));
    if (number == 0) return fail(Errc::invalid_argument, context_text);
    if (request.range) {
      return fail(Errc::invalid_request, "Cannot specify both Range header and partNumber query parameter.");
    }
    request.part_number = static_cast<int>(number);
  }
  return request;
}

// What a refusal still says about the object: a 304 its validators, a 416 its size.
void describe_refusal(Context& context, const Error& error, const store::ObjectInfo& seen) {
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

}  // namespace

// As open_hot_object(). `sealed`: the reader of an object that is in memory, but needs to be opened by open_sealed().
static std::optional<Result<OpenObject>> open_in_memory(Service& service, const Caller& caller,
                                                        const GetRequest& request, store::ObjectInfo* seen,
                                                        std::shared_ptr<store::ObjectReader>& sealed) {
  if (!request.version_id.empty() || request.customer_key != nullptr) return std::nullopt;
  if (auto sound = check_names(request); !sound) return std::unexpected(sound.error());
  const BucketAccess* const access = cached_access(service, request.bucket);
  if (access == nullptr) return std::nullopt;
  auto reader = service.store.hot(request.bucket, request.key);
  if (reader == nullptr) return std::nullopt;
  // Encrypted objects are cached encrypted: they take the way that decrypts.
  if (is_sealed(reader->info()) || reader->info().stored_size != 0) {
    sealed = std::move(reader);
    return std::nullopt;
  }
  const Asked asked{.action = action::get_object, .key = request.key, .object = &reader->info()};
  if (auto allowed = authorize(service, caller, *access, asked); !allowed) return std::unexpected(allowed.error());
  const auto extent = select_extent(reader->info(), request);
  if (!extent) {
    if (seen != nullptr) *seen = reader->info();
    return std::unexpected(extent.error());
  }
  return OpenObject{std::move(reader), extent->offset, extent->length, extent->partial, caller.peer_address};
}

std::optional<Result<OpenObject>> open_hot_object(Service& service, const Caller& caller, const GetRequest& request,
                                                  store::ObjectInfo* seen) {
  std::shared_ptr<store::ObjectReader> sealed;
  return open_in_memory(service, caller, request, seen, sealed);
}

Task<Result<OpenObject>> open_object_seen(Service& service, const Caller& caller, const GetRequest& request,
                                          store::ObjectInfo* seen, std::shared_ptr<store::ObjectReader> reader) {
  VB_CO_TRY(check_names(request));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, request.bucket));
  Asked asked{.action = action::get_object, .key = request.key, .version_id = request.version_id};
  if (reader == nullptr) {
    auto opened = co_await service.store.open(request.bucket, request.key, request.version_id);
    if (!opened) co_return std::unexpected(missing_error(service, caller, *access, asked, opened.error()));
    reader = std::move(*opened);
  }
  asked.object = &reader->info();
  VB_CO_TRY(authorize(service, caller, *access, asked));
  VB_CO_ASSIGN(reader, open_sealed(service, std::move(reader), request.bucket, request.key, request.customer_key));
  const auto extent = select_extent(reader->info(), request);
  if (!extent) {
    if (seen != nullptr) *seen = reader->info();
    co_return std::unexpected(extent.error());
  }
  co_return OpenObject{std::move(reader), extent->offset, extent->length, extent->partial, caller.peer_address};
}

Task<Result<OpenObject>> open_object(Service& service, const Caller& caller, const GetRequest& request) {
  co_return co_await open_object_seen(service, caller, request, nullptr);
}

// In one go from memory, where the object is a single piece of it. nullopt: push_object() it.
static std::optional<Result<bool>> send_at_once(const OpenObject& object, memory::Sink& sink) {
  if (object.length == 0 || object.length > memory::Budget::unit) return std::nullopt;
  memory::Chunk whole = object.reader->peek(object.offset, object.length);
  if (whole.bytes.size() != object.length) return std::nullopt;
  return sink.send_at_once(std::move(whole));
}

// Straight from memory, in the pieces in which it lies there.
static Task<Result<void>> push_hot(const OpenObject& object, memory::Sink& sink) {
  VB_CO_TRY(co_await sink.begin(object.length));
  for (uint64_t at = 0; at < object.length;) {
    memory::Chunk piece = object.reader->peek(object.offset + at, object.length - at);
    if (piece.bytes.empty()) co_return fail(Errc::internal, "get: a hot object has a hole");
    at += piece.bytes.size();
    VB_CO_TRY(co_await sink.push(std::move(piece)));
  }
  co_return co_await sink.finish();
}

Task<Result<void>> push_object(Service& service, const OpenObject& object, memory::Sink& sink) {
  if (object.length == 0) {
    VB_CO_TRY(co_await sink.begin(0));
    co_return co_await sink.finish();
  }
  const bool small = object.length <= memory::Budget::unit;
  if (small && !object.reader->peek(object.offset, object.length).bytes.empty())
    co_return co_await push_hot(object, sink);
  auto executor = co_await boost::asio::this_coro::executor;
  ReadAhead chunks(executor, service.arena, object.peer, object.reader, object.offset, object.length);
  // The first chunk is read before the head goes out: rot found there is an error, not a body that is cut.
  VB_CO_ASSIGN(memory::Chunk chunk, co_await chunks.next());
  VB_CO_TRY(co_await sink.begin(object.length));
  VB_CO_TRY(co_await sink.push(std::move(chunk)));
  while (!chunks.done()) {
    if (chunks.scarce()) VB_CO_TRY(co_await sink.drained());
    VB_CO_ASSIGN(memory::Chunk next, co_await chunks.next());
    VB_CO_TRY(co_await sink.push(std::move(next)));
  }
  co_return co_await sink.finish();
}

Task<Result<HeadReply>> head_object_seen(Service& service, const Caller& caller, const GetRequest& request,
                                         store::ObjectInfo* seen) {
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
    if (seen != nullptr) *seen = std::move(info);
    co_return std::unexpected(extent.error());
  }
  co_return HeadReply{std::move(info), extent->offset, extent->length, extent->partial};
}

Task<Result<HeadReply>> head_object(Service& service, const Caller& caller, const GetRequest& request) {
  co_return co_await head_object_seen(service, caller, request, nullptr);
}

Result<void> fill_object_response(Context& context, const store::ObjectInfo& info, const Extent& extent,
                                  const GetRequest& request) {
  context.response.status = extent.partial ? 206 : 200;
  if (context.response.log) context.response.log->record.object_size = info.size;
  add_object_headers(context.response, info);
  add_version_headers(context.response, info);
  add_encryption_headers(context, info.attributes);
  if (extent.partial) {
    const uint64_t last = extent.offset + extent.length - (extent.length > 0 ? 1 : 0);
    context.reply_header("content-range", fmt::format("bytes {}-{}/{}", extent.offset, last, info.size));
  }
  const bool parts = !info.parts.empty();
  if (request.part_number && parts) context.reply_header("x-amz-mp-parts-count", std::to_string(info.parts.size()));
  if (context.header("x-amz-checksum-mode") == "ENABLED") {
    // Of the bytes that go out: a whole object or a whole part. A range has none.
    if (request.part_number && parts) {
      add_part_checksum_headers(context.response, info, static_cast<size_t>(*request.part_number) - 1);
    } else if (!extent.partial || extent.length == info.size) {
      add_checksum_headers(context.response, info.checksums);
    }
  }
  return apply_response_overrides(context);
}

Task<Result<void>> serve_get_object(Context& context) {
  VB_CO_ASSIGN(const GetRequest request, read_get_request(context));
  VB_CO_ASSIGN(const auto token, read_token(context));
  store::ObjectInfo seen;
  std::shared_ptr<store::ObjectReader> sealed;
  auto opened = open_in_memory(context.service, context.caller(), request, &seen, sealed);
  if (!opened) {
    opened = co_await open_object_seen(context.service, context.caller(), request, &seen, std::move(sealed));
  }
  const Result<OpenObject>& object = *opened;
  if (!object) {
    describe_refusal(context, object.error(), seen);
    co_await describe_missing(context, object.error(), request.version_id);
    co_return std::unexpected(object.error());
  }
  const Extent extent{object->offset, object->length, object->partial};
  VB_CO_TRY(fill_object_response(context, object->info(), extent, request));
  if (may_expire(context)) co_await add_expiration_header(context, object->info());
  if (token) {
    VB_CO_ASSIGN(const TokenOutcome outcome, co_await push_by_token(context, *object, *token));
    if (outcome == TokenOutcome::done) co_return Result<void>();
  }
  auto sent = send_at_once(*object, context.sink);
  if (sent) {
    VB_CO_TRY(*sent);
    if (!**sent) VB_CO_TRY(co_await context.sink.finish());
  } else {
    VB_CO_TRY(co_await push_object(context.service, *object, context.sink));
  }
  count_bytes(Door::http, Direction::out, object->length);
  co_return Result<void>();
}

Task<Result<void>> serve_head_object(Context& context) {
  VB_CO_ASSIGN(const GetRequest request, read_get_request(context));
  store::ObjectInfo seen;
  auto head = co_await head_object_seen(context.service, context.caller(), request, &seen);
  if (!head) {
    describe_refusal(context, head.error(), seen);
    co_await describe_missing(context, head.error(), request.version_id);
    co_return std::unexpected(head.error());
  }
  const Extent extent{head->offset, head->length, head->partial};
  VB_CO_TRY(fill_object_response(context, head->info, extent, request));
  if (may_expire(context)) co_await add_expiration_header(context, head->info);
  context.response.no_body = true;
  context.response.content_length = head->length;
  co_return Result<void>();
}

}  // namespace verbena::s3
