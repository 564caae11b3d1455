// The router's fast path: GETs and HEADs of objects in memory, which are most requests of a busy server.
#include "auth/limits.h"
#include "base/request_trace.h"
#include "s3/access/access.h"
#include "s3/names.h"
#include "s3/objects/send.h"
#include "s3/workers/request_log.h"
#include "s3_http/address.h"
#include "s3_http/directory_requests.h"
#include "s3_http/objects/get.h"
#include "s3_http/routing/router.h"

namespace verbena::s3 {
namespace {

// False: answer() must serve it, and reports its errors. The key itself is checked by the read.
bool name_object(Context& context) {
  auto address = resolve_address(context.request.host, context.request.raw_path, context.options.domain);
  if (!address || address->key.empty()) return false;
  context.bucket = std::move(address->bucket);
  context.key = std::move(address->key);
  // A bucket with a cached record has a valid name. Encrypted or expiring objects need further look-ups.
  const BucketAccess* const access = cached_access(context.service, context.bucket);
  if (access == nullptr || access->encrypts || access->lifecycle != nullptr) return false;
  if (!is_directory_bucket(context.bucket)) return !context.caller().identity.express;
  return !context.key.starts_with('/') && check_directory_request(context, "");
}

// Sends the remainder of the object.
Task<Result<void>> send_rest(Service& service, Given given, memory::Sink& sink, RequestTrace* trace) {
  if (given.sent == memory::AtOnce::unfinished) co_return co_await sink.finish();
  co_return co_await send_object(service, given.object, sink, trace);
}

}  // namespace

std::optional<Router::Sent> Router::try_handle(Request& request, memory::Source& body, Response& response,
                                               memory::Sink& sink) {
  const bool logs = service_.request_log != nullptr && service_.request_log->in_use();
  if (!request.raw_query.empty() || !asks_for_object_alone(request.headers)) return std::nullopt;
  if (logs || auth::rates_are_in_use()) return std::nullopt;
  Context context = context_of(request, no_trailers, body, response, sink);
  if (!name_object(context)) return std::nullopt;
  auto given = try_read(context, request.found);
  if (!given) {
    response = Response();
    return std::nullopt;
  }
  context.call.outcome.action = request.method == "HEAD" ? "HEAD object" : "GET object";
  note_target(context);
  context.call.outcome.out = given->object.length;
  if (!given->sent) return Sent{.whole = false};
  if (given->sent != memory::AtOnce::sent) {
    return Sent{.rest = send_rest(service_, std::move(*given), sink, request.call.trace)};
  }
  return Sent();
}

}  // namespace verbena::s3
