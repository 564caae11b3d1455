// GetBucketLogging and PutBucketLogging.
#include "s3/access/authorize.h"
#include "s3/buckets/logging_rules.h"
#include "s3/documents/bucket_document.h"
#include "s3/workers/request_log.h"
#include "s3/xml.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t logging_bytes_max = 64 * KiB;

// The target must be a bucket of the same owner, as at AWS. The caller must be allowed to write there itself, with the
// access that the rule's grants give: at AWS the bucket's policy must allow the logging service.
Task<Result<void>> check_target(Context& context, const LoggingRule& rule) {
  VB_CO_ASSIGN(const store::BucketInfo source, co_await context.service.store.bucket(context.bucket));
  const auto target = co_await context.service.store.bucket(rule.target_bucket);
  if (!target && !(target.error() == Errc::no_such_bucket)) co_return std::unexpected(target.error());
  if (!target || target->owner != source.owner) {
    context.error_fields.emplace_back("TargetBucket", rule.target_bucket);
    co_return fail(Errc::invalid_target_bucket, "logging");
  }
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, rule.target_bucket));
  if (!rule.grants.empty() && !access->lists_count()) {
    co_return fail(Errc::acl_not_supported, "logging: the target's lists do not count");
  }
  const Asked asked{.action = action::put_object, .key = rule.prefix};
  VB_CO_TRY(authorize(context.service, context.caller(), *access, asked));
  if (rule.grants.empty()) co_return Result<void>();
  const Asked list{.action = action::put_object_acl, .key = rule.prefix};
  VB_CO_TRY(authorize(context.service, context.caller(), *access, list));
  VB_CO_TRY(log_object_acl(*access, rule));
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> serve_get_logging(Context& context) {
  const auto document = co_await context.service.store.document(context.bucket, logging_document);
  if (!document && !(document.error() == Errc::not_found)) co_return std::unexpected(document.error());
  XmlWriter off("BucketLoggingStatus");
  context.reply_xml(document ? **document : off.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_logging(Context& context) {
  VB_CO_TRY(co_await context.service.store.bucket(context.bucket));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, logging_bytes_max));
  VB_CO_ASSIGN(const auto rule, parse_logging(&context.service, text));
  if (!rule) co_return co_await drop_document(context.service, context.made_bucket(), logging_document);
  if (context.service.request_log == nullptr) co_return fail(Errc::not_implemented, "bucket logging");
  VB_CO_TRY(co_await check_target(context, *rule));
  context.service.request_log->use();
  std::string xml = logging_xml(context.service, *rule);
  co_return co_await keep_document(context.service, context.made_bucket(), logging_document, std::move(xml));
}

}  // namespace verbena::s3
