#include "s3_http/objects/lock.h"

#include "base/date.h"
#include "base/decimal.h"
#include "s3/objects/lock.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "s3_http/bounded.h"
#include "s3_http/objects/versions.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t lock_document_max = 64 * KiB;
constexpr uint32_t days_max = 36'500, years_max = 100;
constexpr const char* not_in_the_future = "The retain until date must be in the future!.";

Result<store::LockMode> parse_mode(std::string_view text, Errc otherwise) {
  if (text == "GOVERNANCE") return store::LockMode::governance;
  if (text == "COMPLIANCE") return store::LockMode::compliance;
  return fail(otherwise, "Unknown wormMode directive.");
}

// A whole number above zero. invalid_retention_period.
Result<uint32_t> parse_period(const pugi::xml_node& node, uint32_t max) {
  constexpr const char* bad = "Default retention period must be a positive integer value.";
  const auto value = parse_decimal(trimmed_text(node));
  if (!value || *value == 0) return fail(Errc::invalid_retention_period, bad);
  if (*value > max) return fail(Errc::invalid_retention_period, "Default retention period is too large.");
  return static_cast<uint32_t>(*value);
}

Result<store::BucketLock> parse_configuration(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "ObjectLockConfiguration"));
  VB_TRY(check_children(root, {"ObjectLockEnabled", "Rule"}));
  if (trimmed_text(root.child("ObjectLockEnabled")) != "Enabled") return fail(Errc::malformed_xml, "xml: not Enabled");
  store::BucketLock lock{.enabled = true};
  const auto rule = root.child("Rule");
  if (!rule) return lock;
  VB_TRY(check_children(rule, {"DefaultRetention"}));
  const auto retention = rule.child("DefaultRetention");
  VB_TRY(check_children(retention, {"Mode", "Days", "Years"}));
  const auto days = retention.child("Days"), years = retention.child("Years");
  if (!retention || !days == !years) return fail(Errc::malformed_xml, "xml: DefaultRetention");
  VB_ASSIGN(lock.mode, parse_mode(trimmed_text(retention.child("Mode")), Errc::malformed_xml));
  lock.years = !years.empty();
  VB_ASSIGN(lock.period, lock.years ? parse_period(years, years_max) : parse_period(days, days_max));
  return lock;
}

// Mode and time; none for an empty document, which removes a retention.
Result<std::pair<store::LockMode, int64_t>> parse_retention(std::string_view text, int64_t now_us) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "Retention"));
  VB_TRY(check_children(root, {"Mode", "RetainUntilDate"}));
  if (is_empty(root)) return std::pair(store::LockMode::none, int64_t{0});
  VB_ASSIGN(const store::LockMode mode, parse_mode(trimmed_text(root.child("Mode")), Errc::malformed_xml));
  const auto until_us = parse_iso8601(trimmed_text(root.child("RetainUntilDate")));
  if (!until_us) return fail(Errc::malformed_xml, "xml: RetainUntilDate");
  if (*until_us <= now_us) return fail(Errc::invalid_argument, not_in_the_future);
  return std::pair(mode, *until_us);
}

Result<bool> parse_legal_hold(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "LegalHold"));
  VB_TRY(check_children(root, {"Status"}));
  const std::string status = trimmed_text(root.child("Status"));
  if (status != "ON" && status != "OFF") return fail(Errc::malformed_xml, "xml: Status");
  return status == "ON";
}

// Requests for retention or legal hold are refused in buckets without object lock.
Task<Result<void>> check_bucket_locks(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo bucket, co_await context.service.store.bucket(context.bucket));
  if (!bucket.lock.enabled) co_return fail(Errc::invalid_request, "Bucket is missing Object Lock Configuration.");
  co_return Result<void>();
}

}  // namespace

Result<store::ObjectLock> read_lock_headers(const Context& context) {
  store::ObjectLock lock;
  const auto mode = context.header("x-amz-object-lock-mode");
  const auto until = context.header("x-amz-object-lock-retain-until-date");
  if (mode.has_value() != until.has_value()) {
    return fail(Errc::invalid_argument,
                "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied.");
  }
  if (mode) {
    VB_ASSIGN(lock.mode, parse_mode(*mode, Errc::invalid_argument));
    const auto until_us = parse_iso8601(*until);
    if (!until_us) return fail(Errc::invalid_argument, "The retain until date is not a date.");
    if (*until_us <= context.service.clock.now_us()) return fail(Errc::invalid_argument, not_in_the_future);
    lock.retain_until_us = *until_us;
  }
  if (const auto hold = context.header("x-amz-object-lock-legal-hold")) {
    if (*hold != "ON" && *hold != "OFF") return fail(Errc::invalid_argument, "Legal Hold must be either ON or OFF.");
    lock.legal_hold = *hold == "ON";
  }
  return lock;
}

bool bypasses_governance(const Context& context) {
  const auto header = context.header("x-amz-bypass-governance-retention");
  return header == "true" || header == "True";
}

Task<Result<void>> serve_bucket_lock(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await context.service.store.bucket(context.bucket));
  if (!info.lock.enabled) co_return fail(Errc::no_such_object_lock_configuration, "object lock");
  XmlWriter xml("ObjectLockConfiguration");
  xml.element("ObjectLockEnabled", "Enabled");
  if (info.lock.mode != store::LockMode::none) {
    xml.open("Rule");
    xml.open("DefaultRetention");
    xml.element("Mode", lock_mode_name(info.lock.mode));
    xml.element(info.lock.years ? "Years" : "Days", info.lock.period);
  }
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_lock(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, lock_document_max));
  VB_CO_ASSIGN(const store::BucketLock lock, parse_configuration(text));
  VB_CO_TRY(co_await check_unbounded(context));
  co_return co_await context.service.store.set_lock(context.made_bucket(), lock);
}

Task<Result<void>> serve_object_retention(Context& context) {
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::get_retention));
  VB_CO_TRY(co_await check_bucket_locks(context));
  if (info.lock.mode == store::LockMode::none) co_return fail(Errc::no_such_object_lock, "retention");
  XmlWriter xml("Retention");
  xml.element("Mode", lock_mode_name(info.lock.mode));
  xml.element("RetainUntilDate", format_iso8601(info.lock.retain_until_us));
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_object_retention(Context& context) {
  VB_CO_TRY(co_await could_change(context, action::put_retention));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, lock_document_max));
  store::ObjectChange change;
  VB_CO_ASSIGN(change.retention, parse_retention(text, context.service.clock.now_us()));
  VB_CO_TRY(co_await authorize_change(context, action::put_retention, change));
  VB_CO_TRY(co_await check_bucket_locks(context));
  change.bypass_governance = bypasses_governance(context);
  co_return co_await update_version(context, action::put_retention, std::move(change));
}

Task<Result<void>> serve_object_legal_hold(Context& context) {
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::get_legal_hold));
  VB_CO_TRY(co_await check_bucket_locks(context));
  XmlWriter xml("LegalHold");
  xml.element("Status", info.lock.legal_hold ? "ON" : "OFF");
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_object_legal_hold(Context& context) {
  VB_CO_TRY(co_await could_change(context, action::put_legal_hold));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, lock_document_max));
  store::ObjectChange change;
  VB_CO_ASSIGN(change.legal_hold, parse_legal_hold(text));
  VB_CO_TRY(co_await authorize_change(context, action::put_legal_hold, change));
  VB_CO_TRY(co_await check_bucket_locks(context));
  co_return co_await update_version(context, action::put_legal_hold, std::move(change));
}

}  // namespace verbena::s3
