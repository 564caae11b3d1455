#include "s3_http/objects/versions.h"

#include <tuple>

#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "s3_http/bounded.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t versioning_document_max = 64 * KiB;

Result<store::Versioning> parse_versioning(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "VersioningConfiguration"));
  VB_TRY(check_children(root, {"Status", "MfaDelete"}));
  if (const auto mfa = root.child("MfaDelete"); mfa && trimmed_text(mfa) != "Disabled") {
    return fail(Errc::not_implemented, "MFA delete is not implemented.");
  }
  const std::string status = trimmed_text(root.child("Status"));
  if (status == "Enabled") return store::Versioning::enabled;
  if (status == "Suspended") return store::Versioning::suspended;
  return fail(Errc::malformed_xml, "xml: Status");
}

}  // namespace

Result<std::string> read_version_id(const Context& context) {
  const auto version = context.query.get("versionId");
  if (version && version->empty()) return fail(Errc::invalid_argument, "Version id cannot be the empty string.");
  return std::string(version.value_or(std::string_view()));
}

void add_version_id(Response& response, const std::string& version_id) {
  if (!version_id.empty()) response.headers.emplace_back("x-amz-version-id", version_id);
}

void add_new_version_id(Response& response, const std::string& version_id) {
  if (version_id != "null") add_version_id(response, version_id);
}

Task<> describe_missing(Context& context, const Error& error, const std::string& version_id) {
  const bool by_id = error == Errc::method_not_allowed;
  if (!by_id && !(error == Errc::no_such_key && version_id.empty())) co_return;
  const auto newest = co_await context.service.store.find_version(context.bucket, context.key, version_id);
  if (!newest || !newest->delete_marker) co_return;
  context.error_headers.emplace_back("x-amz-delete-marker", "true");
  context.error_headers.emplace_back("x-amz-version-id", newest->version_id);
  if (!by_id) co_return;
  context.error_headers.emplace_back("last-modified", format_http_date(newest->modified_us / 1'000'000));
  context.error_headers.emplace_back("allow", "DELETE");
  context.error_fields.emplace_back("Method", context.request.method);
  context.error_fields.emplace_back("ResourceType", "DeleteMarker");
}

namespace {

// The version that a request names, authorized. `asked` gets its other inputs of the authorization.
using Authorize = Result<void> (*)(const Service&, const Call&, const BucketAccess&, const Asked&);
Task<Result<store::ObjectInfo>> find_authorized(Context& context, Asked asked, Authorize may = authorize) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  asked.key = context.key;
  asked.version_id = version_id;
  auto info = co_await context.service.store.stat(context.bucket, context.key, version_id);
  if (!info) {
    const Error told = missing_error(context.service, context.caller(), *access, asked, info.error());
    if (told.code != Errc::access_denied) co_await describe_missing(context, told, version_id);
    co_return std::unexpected(told);
  }
  asked.object = &*info;
  VB_CO_TRY(may(context.service, context.caller(), *access, asked));
  co_return info;
}

}  // namespace

Task<Result<store::ObjectInfo>> stat_version(Context& context, const Action& action) {
  const Asked asked{action};
  co_return co_await find_authorized(context, asked);
}

Task<Result<void>> could_change(Context& context, const Action& action) {
  const Asked asked{action};
  VB_CO_TRY(co_await find_authorized(context, asked, could_authorize));
  co_return Result<void>();
}

Task<Result<void>> authorize_version(Context& context, const store::ObjectInfo& info, const Action& action) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  const Asked asked{.action = action, .key = context.key, .version_id = version_id, .object = &info};
  co_return authorize(context.service, context.caller(), *access, asked);
}

Task<Result<store::ObjectInfo>> authorize_change(Context& context, const Action& action,
                                                 const store::ObjectChange& change) {
  store::ObjectLock lock;
  if (change.retention) std::tie(lock.mode, lock.retain_until_us) = *change.retention;
  lock.legal_hold = change.legal_hold.value_or(false);
  Asked asked{action};
  asked.tags = change.tags ? &*change.tags : nullptr;
  asked.lock = &lock;
  co_return co_await find_authorized(context, asked);
}

namespace {

Task<Result<store::ObjectInfo>> update_authorized(Context& context, const Action& action, store::ObjectChange change) {
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await authorize_change(context, action, change));
  if (!change.if_modified_us) {
    change.if_modified_us = info.modified_us;
    change.if_size = info.size;
  }
  if (change.bypass_governance) {
    VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
    const Asked bypass{.action = action::bypass_governance, .key = context.key};
    change.bypass_governance = authorize(context.service, context.caller(), *access, bypass).has_value();
  }
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  co_return co_await context.service.store.update(context.bucket, context.key, version_id, std::move(change));
}

}  // namespace

Task<Result<void>> update_version(Context& context, const Action& action, store::ObjectChange change) {
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  auto done = co_await update_authorized(context, action, change);
  // Another version became current meanwhile: authorizes and tries again with that one.
  const bool again = !done && done.error() == Errc::conditional_conflict && !change.if_modified_us;
  if (again) done = co_await update_authorized(context, action, std::move(change));
  if (!done) {
    co_await describe_missing(context, done.error(), version_id);
    co_return std::unexpected(done.error());
  }
  add_version_id(context.response, done->version_id);
  co_return Result<void>();
}

Task<Result<void>> serve_bucket_versioning(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await context.service.store.bucket(context.bucket));
  XmlWriter xml("VersioningConfiguration");  // empty: never enabled
  if (info.versioning != store::Versioning::off) {
    xml.element("Status", info.versioning == store::Versioning::enabled ? "Enabled" : "Suspended");
  }
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_versioning(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, versioning_document_max));
  VB_CO_ASSIGN(const store::Versioning versioning, parse_versioning(text));
  VB_CO_TRY(co_await check_unbounded(context));
  co_return co_await context.service.store.set_versioning(context.made_bucket(), versioning);
}

}  // namespace verbena::s3
