// GetBucketNotificationConfiguration and PutBucketNotificationConfiguration.
#include <algorithm>

#include "base/text.h"
#include "s3/documents/bucket_document.h"
#include "s3/documents/notification_rules.h"
#include "s3/events/announce.h"
#include "s3/events/event_queues.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t notification_bytes_max = 256 * KiB;

Result<void> check_targets(Context& context, const NotificationRules& rules) {
  if (context.service.events == nullptr) {
    return fail(Errc::not_implemented, "Bucket notifications are not implemented by this server's engine.");
  }
  for (const NotificationRule& rule : rules) {
    if (context.service.events->has_target(rule.target, rule.target_type)) continue;
    context.error_fields.emplace_back("ArgumentName", rule.arn);
    context.error_fields.emplace_back("ArgumentValue", "The destination ARN does not exist.");
    return fail(Errc::invalid_argument, "Unable to validate the following destination configurations.");
  }
  return {};
}

}  // namespace

Task<Result<void>> serve_get_notification(Context& context) {
  const auto document = co_await context.service.store.document(context.bucket, notification_document);
  if (!document && !(document.error() == Errc::not_found)) co_return std::unexpected(document.error());
  const NotificationRules none;
  context.reply_xml(document ? **document : notification_xml(none));
  co_return Result<void>();
}

Task<Result<void>> serve_put_notification(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await context.service.store.bucket(context.bucket));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, notification_bytes_max));
  VB_CO_ASSIGN(const NotificationRules rules, parse_notification(text, context.service.region));
  if (rules.empty()) {
    co_return co_await drop_document(context.service, context.made_bucket(), notification_document);
  }
  VB_CO_TRY(check_targets(context, rules));
  // botocore writes "True". The targets get the test event first: if a target's queue is full, nothing is changed.
  if (lower(context.header("x-amz-skip-destination-validation").value_or("")) != "true") {
    const auto test = announce_test(context.service, info, context.caller(), rules);
    VB_CO_TRY(co_await context.service.store.announce(context.bucket, test));
  }
  co_return co_await keep_document(context.service, context.made_bucket(), notification_document,
                                   notification_xml(rules));
}

}  // namespace verbena::s3
