// GET, PUT and DELETE ?verbena-bound: the bound of a bucket that evicts (s3/access/bound.h).
#include "s3_http/bounded.h"

#include <string>

#include "s3/access/access.h"
#include "s3/access/bound.h"
#include "s3/documents/bucket_document.h"
#include "s3/xml.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t bound_request_max = 4 * KiB;

// Evicting a version would leave a marker, and give back nothing.
Result<void> check_may_bound(const store::BucketInfo& bucket) {
  if (bucket.lock.enabled) return fail(Errc::invalid_bucket_state, "A bucket with object lock cannot be bounded.");
  if (bucket.versioning == store::Versioning::off) return {};
  return fail(Errc::invalid_bucket_state, "A bucket with versions cannot be bounded.");
}

}  // namespace

Task<Result<void>> check_unbounded(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  if (access->bound == nullptr) co_return Result<void>();
  co_return fail(Errc::invalid_bucket_state, "A bounded bucket has no versions and no object lock.");
}

Task<Result<void>> serve_get_bound(Context& context) {
  const auto text = co_await context.service.store.document(context.bucket, bound_document);
  if (!text && text.error() != Errc::not_found) co_return std::unexpected(text.error());
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  if (access->bound != nullptr && access->bound->settings().is_limited()) {
    context.reply_header("x-verbena-objects-allowed", std::to_string(access->bound->objects_allowed()));
  }
  context.reply_xml(text ? **text : XmlWriter("BoundConfiguration").finish());  // without one, as AWS's empty ones
  co_return Result<void>();
}

Task<Result<void>> serve_put_bound(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, bound_request_max));
  VB_CO_ASSIGN(const BoundSettings settings, parse_bound(text));
  if (context.service.bounds == nullptr) {
    co_return fail(Errc::not_implemented,
                   "Buckets of this server cannot be bounded: its engine is shared with others.");
  }
  VB_CO_ASSIGN(const store::BucketInfo bucket, co_await context.service.store.bucket(context.bucket));
  VB_CO_TRY(check_may_bound(bucket));
  const auto held = context.service.store.usage_now(context.bucket);
  if (held && held->bucket.objects > bounded_objects_max) {
    co_return fail(Errc::invalid_bucket_state, "A bucket of more than 4194304 objects cannot be bounded.");
  }
  VB_CO_TRY(co_await keep_document(context.service, context.made_bucket(), bound_document, bound_xml(settings)));
  // A bound that shrinks is met now, not with the next request.
  VB_CO_TRY(co_await bucket_access(context.service, context.bucket));
  co_return Result<void>();
}

Task<Result<void>> serve_delete_bound(Context& context) {
  VB_CO_TRY(co_await drop_document(context.service, context.made_bucket(), bound_document));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
