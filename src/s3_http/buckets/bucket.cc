// Buckets: create, head, delete, list, and properties that clients request.
#include <fmt/core.h>

#include "base/date.h"
#include "base/turns.h"
#include "s3/access/acl.h"
#include "s3/access/authorize.h"
#include "s3/access/ownership.h"
#include "s3/documents/bucket_document.h"
#include "s3/express/directory.h"
#include "s3/names.h"
#include "s3/tag_set.h"
#include "s3/xml.h"
#include "s3_http/acl_requests.h"
#include "s3_http/buckets/bucket_list.h"
#include "s3_http/directory_requests.h"
#include "s3_http/request_documents.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view durability_header = "x-verbena-durability";
constexpr std::string_view append_header = "x-verbena-append";
constexpr std::string_view etag_header = "x-verbena-etag";
constexpr size_t create_document_max = 64 * KiB;

Result<std::optional<store::Durability>> read_durability(const Context& context) {
  const auto header = context.request.header(durability_header);
  if (!header) return std::nullopt;
  if (*header == "sync") return store::Durability::sync;
  if (*header == "memory") return store::Durability::memory;
  return fail(Errc::invalid_argument, "x-verbena-durability must be memory or sync.");
}

// Whether the bucket takes appends, if the request says so.
Result<std::optional<bool>> read_append_setting(const Context& context) {
  const auto header = context.request.header(append_header);
  if (!header) return std::nullopt;
  if (is_directory_bucket(context.bucket)) {
    return fail(Errc::invalid_argument, "x-verbena-append is for buckets that are no directory buckets.");
  }
  if (*header == "enabled") return true;
  if (*header == "disabled") return false;
  return fail(Errc::invalid_argument, "x-verbena-append must be enabled or disabled.");
}

Task<Result<void>> keep_append_setting(Context& context, bool enabled) {
  if (enabled) co_return co_await keep_document(context.service, context.made_bucket(), append_document, "enabled");
  co_return co_await drop_document(context.service, context.made_bucket(), append_document);
}

// Whether entity tags are no MD5s, if the request says so.
Result<std::optional<bool>> read_etag_setting(const Context& context) {
  const auto header = context.request.header(etag_header);
  if (!header) return std::nullopt;
  if (*header == "fast") return true;
  if (*header != "md5") return fail(Errc::invalid_argument, "x-verbena-etag of a bucket must be md5 or fast.");
  if (is_directory_bucket(context.bucket)) {
    return fail(Errc::invalid_argument, "Entity tags of directory buckets are no MD5s.");
  }
  return false;
}

Task<Result<void>> keep_etag_setting(Context& context, bool fast) {
  if (is_directory_bucket(context.bucket)) co_return Result<void>();  // they are fast
  if (fast) co_return co_await keep_document(context.service, context.made_bucket(), etag_document, "fast");
  co_return co_await drop_document(context.service, context.made_bucket(), etag_document);
}

// The initial properties of a new bucket.
struct NewBucketAccess {
  std::optional<Ownership> ownership;
  AclWish acl;
  bool object_lock = false;
  store::Tags tags;  // from the document, which arrives after the headers
};

// x-amz-object-ownership and the ACL headers of CreateBucket.
Result<NewBucketAccess> read_new_bucket_access(const Context& context) {
  NewBucketAccess wanted;
  if (const auto header = context.header("x-amz-object-ownership")) {
    wanted.ownership = named_ownership(*header);
    if (!wanted.ownership) return fail(Errc::invalid_argument, "Invalid x-amz-object-ownership header.");
  }
  VB_ASSIGN(wanted.acl, read_acl_headers(context));
  const auto lock = context.header("x-amz-bucket-object-lock-enabled");
  wanted.object_lock = lock == "true" || lock == "True";
  if (wanted.ownership == Ownership::bucket_owner_enforced && wanted.acl.any() && wanted.acl.canned != "private") {
    return fail(Errc::invalid_bucket_acl, "create bucket");
  }
  return wanted;
}

// Properties of a new bucket need the rights to set them, as at AWS. `location`: from the document; nullptr: the
// document has not arrived yet, and conditions may depend on it.
Result<void> authorize_new_bucket(const Context& context, const NewBucketAccess& wanted, const std::string* location) {
  const auto may = [&](const Action& action) {
    if (location == nullptr) {
      return could_authorize_service(context.service, context.caller(), action, context.bucket);
    }
    return authorize_service(context.service, context.caller(), action, context.bucket, *location);
  };
  VB_TRY(may(action::create_bucket));
  if (wanted.acl.any()) VB_TRY(may(action::put_bucket_acl));
  if (wanted.ownership) VB_TRY(may(action::put_ownership));
  if (!wanted.tags.empty()) VB_TRY(may(action::tag_resource));
  if (!wanted.object_lock) return {};
  VB_TRY(may(action::put_bucket_lock));
  return may(action::put_versioning);
}

Task<Result<void>> keep_bucket_access(Context& context, const NewBucketAccess& wanted, const std::optional<Acl>& acl) {
  if (wanted.ownership) {
    VB_CO_TRY(co_await keep_document(context.service, context.made_bucket(), ownership_document,
                                     ownership_xml(*wanted.ownership)));
  }
  if (!wanted.tags.empty()) {
    VB_CO_TRY(
        co_await keep_document(context.service, context.made_bucket(), tagging_document, tagging_xml(wanted.tags)));
  }
  if (!acl) co_return Result<void>();
  if (is_private(*acl)) co_return co_await drop_document(context.service, context.made_bucket(), acl_document);
  co_return co_await keep_document(context.service, context.made_bucket(), acl_document, encode_acl(*acl));
}

// S3 has no right for durability: only the root of the bucket's owner may change it.
Task<Result<void>> change_durability(Context& context, const BucketAccess& access, store::Durability wanted) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await context.service.store.bucket(context.bucket));
  if (info.durability == wanted) co_return Result<void>();
  if (!is_owners_root(context.caller(), access))
    co_return fail(Errc::access_denied, "durability: not the owner's root");
  co_return co_await context.service.store.set_durability(context.made_bucket(), wanted);
}

// Likewise. A creation that was whole and is repeated, because its answer was lost, changes nothing and is not refused.
// The root's setting is written in any case: of one that failed the store may not know whether a crash brings it back.
Task<Result<void>> change_appends(Context& context, bool enabled) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  if (!is_owners_root(context.caller(), *access)) {
    const auto kept = co_await context.service.store.document(context.bucket, append_document);
    if (!kept && !(kept.error() == Errc::not_found)) co_return std::unexpected(kept.error());
    if (kept.has_value() == enabled) co_return Result<void>();
    co_return fail(Errc::access_denied, "append: not the owner's root");
  }
  context.made = access->made();
  co_return co_await keep_append_setting(context, enabled);
}

Task<Result<void>> change_etags(Context& context, bool fast) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  if (!is_owners_root(context.caller(), *access)) {
    if (access->opaque_etags == fast) co_return Result<void>();
    co_return fail(Errc::access_denied, "etag: not the owner's root");
  }
  context.made = access->made();
  co_return co_await keep_etag_setting(context, fast);
}

// Object lock is turned on by its own verb, which asks for versions: not by creating the bucket again.
Task<Result<void>> check_is_locked(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await context.service.store.bucket(context.bucket));
  if (!info.lock.enabled) co_return fail(Errc::invalid_bucket_state, "create bucket: it has no object lock");
  co_return Result<void>();
}

// The owner creates its bucket again: properties in headers are authorized and checked as by their own verbs.
Task<Result<void>> change_bucket(Context& context, const NewBucketAccess& wanted,
                                 const std::optional<store::Durability>& durability) {
  VB_CO_ASSIGN(const BucketAccessPtr present, co_await bucket_access(context.service, context.bucket));
  context.made = present->made();
  BucketAccess access = *present;
  if (wanted.ownership) {
    const Asked asked{action::put_ownership};
    VB_CO_TRY(authorize(context.service, context.caller(), *present, asked));
    if (*wanted.ownership == Ownership::bucket_owner_enforced && !is_private(present->acl)) {
      co_return fail(Errc::invalid_bucket_acl, "ownership: the bucket's list gives to others");
    }
    access.ownership = *wanted.ownership;
  }
  if (!wanted.tags.empty()) {
    const Asked asked{action::tag_resource};
    VB_CO_TRY(authorize(context.service, context.caller(), *present, asked));
  }
  std::optional<Acl> acl;
  if (wanted.acl.any()) {
    const Asked asked{action::put_bucket_acl};
    VB_CO_TRY(authorize(context.service, context.caller(), *present, asked));
    VB_CO_ASSIGN(acl, allowed_acl(access, make_acl(wanted.acl, access.owner, access.owner), wanted.acl));
  }
  if (wanted.object_lock) VB_CO_TRY(co_await check_is_locked(context));
  if (durability) VB_CO_TRY(co_await change_durability(context, *present, *durability));
  co_return co_await keep_bucket_access(context, wanted, acl);
}

// The document of CreateBucket, if any. A directory bucket's must have its type and location.
Result<void> check_new_bucket(Context& context, const NewBucketDocument& document) {
  if (document.directory != is_directory_bucket(context.bucket)) {
    return fail(Errc::invalid_bucket_name, "The bucket's name and the type in its configuration do not fit.");
  }
  if (document.directory) {
    VB_TRY(check_zone(context.service, context.bucket));
    if (document.zone == context.service.express.zone) return {};
    return fail(Errc::invalid_request, "The location's name is not a zone of this server.");
  }
  if (document.region.empty() || document.region == context.service.region) return {};
  context.error_fields.emplace_back("LocationConstraint", document.region);
  return fail(Errc::invalid_location_constraint, "create bucket");
}

}  // namespace

Task<Result<void>> serve_create_bucket(Context& context) {
  VB_CO_ASSIGN(const auto durability, read_durability(context));
  VB_CO_ASSIGN(const auto appends, read_append_setting(context));
  VB_CO_ASSIGN(const auto fast_etags, read_etag_setting(context));
  VB_CO_ASSIGN(NewBucketAccess wanted_access, read_new_bucket_access(context));
  VB_CO_TRY(authorize_new_bucket(context, wanted_access, nullptr));
  VB_CO_ASSIGN(const std::string text, co_await read_text(context, create_document_max));
  VB_CO_TRY(renew_caller(context));
  NewBucketDocument document;
  if (!text.empty()) {
    VB_CO_ASSIGN(document, parse_create_bucket(text));
  }
  VB_CO_TRY(check_new_bucket(context, document));
  wanted_access.tags = std::move(document.tags);
  const auto wanted = durability.value_or(store::Durability::sync);
  const std::string location = document.directory ? document.zone : document.region;
  VB_CO_TRY(authorize_new_bucket(context, wanted_access, &location));
  auto created = co_await create_bucket(context.service, context.caller(), context.bucket, wanted,
                                        wanted_access.object_lock, location);
  // In us-east-1 AWS answers the owner's second CreateBucket with 200, elsewhere with 409.
  if (!created && created.error() == Errc::bucket_already_owned_by_you && context.service.region == "us-east-1") {
    VB_CO_TRY(co_await change_bucket(context, wanted_access, durability));
    if (appends) VB_CO_TRY(co_await change_appends(context, *appends));
    if (fast_etags) VB_CO_TRY(co_await change_etags(context, *fast_etags));
  } else {
    VB_CO_ASSIGN(context.made, std::move(created));
    const std::string_view owner = owner_of(context.caller());
    std::optional<Acl> acl;
    if (wanted_access.acl.any()) acl = make_acl(wanted_access.acl, owner, owner);
    VB_CO_TRY(co_await keep_bucket_access(context, wanted_access, acl));
    if (appends) VB_CO_TRY(co_await keep_append_setting(context, *appends));
    if (fast_etags) VB_CO_TRY(co_await keep_etag_setting(context, *fast_etags));
  }
  context.reply_header("location", "/" + context.bucket);
  co_return Result<void>();
}

// The bucket's usage, for callers that may list it.
static void add_usage_headers(Context& context) {
  const auto now = context.service.store.usage_now(context.bucket);
  if (!now || !now->bucket_counted) return;
  const store::Usage& usage = now->bucket;
  context.reply_header("x-verbena-objects", std::to_string(usage.objects));
  context.reply_header("x-verbena-bytes", std::to_string(usage.bytes));
  context.reply_header("x-verbena-versions", std::to_string(usage.versions));
  context.reply_header("x-verbena-version-bytes", std::to_string(usage.version_bytes));
  context.reply_header("x-verbena-delete-markers", std::to_string(usage.delete_markers));
  context.reply_header("x-verbena-uploads", std::to_string(usage.uploads));
  context.reply_header("x-verbena-upload-bytes", std::to_string(usage.upload_bytes));
}

Task<Result<void>> serve_head_bucket(Context& context) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await head_bucket(context.service, context.caller(), context.bucket));
  context.reply_header("x-amz-bucket-region", context.service.region);
  context.reply_header("x-amz-access-point-alias", "false");
  add_location_headers(context);
  add_usage_headers(context);
  const auto appends = co_await context.service.store.document(context.bucket, append_document);
  if (appends) context.reply_header(append_header, "enabled");
  const auto etags = co_await context.service.store.document(context.bucket, etag_document);
  if (etags || is_directory_bucket(context.bucket)) context.reply_header(etag_header, "fast");
  context.reply_header(std::string(durability_header),
                       info.durability == store::Durability::memory ? "memory" : "sync");
  context.reply_header("content-type", "application/xml");
  context.response.no_body = true;
  co_return Result<void>();
}

Task<Result<void>> serve_delete_bucket(Context& context) {
  VB_CO_TRY(co_await delete_bucket(context.service, context.caller(), context.bucket));
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> write_buckets(Context& context, XmlWriter& xml, const std::vector<store::BucketInfo>& buckets) {
  constexpr size_t element_bytes = 256, rest_bytes = 4 * KiB;
  VB_CO_TRY(co_await reserve_answer(context, rest_bytes + buckets.size() * element_bytes));
  xml.open("Buckets");
  Turns turns;
  for (const store::BucketInfo& bucket : buckets) {
    if (turns.due()) co_await turns.pass();
    xml.open("Bucket");
    xml.element("Name", bucket.name);
    xml.element("CreationDate", format_iso8601(bucket.created_us));
    xml.element("BucketRegion", context.service.region);
    xml.close();
  }
  xml.close();
  co_return Result<void>();
}

Task<Result<void>> serve_list_buckets(Context& context) {
  // The endpoints of S3 and of S3 Express have the same call under two names.
  if (context.caller().identity.express) co_return co_await serve_list_directory_buckets(context);
  VB_CO_ASSIGN(const int64_t max, context.query.number("max-buckets", 1, 10'000, 10'000,
                                                       "Argument max-buckets must be an integer between 1 and 10000."));
  const auto prefix = context.query.get_or_empty("prefix");
  const auto after = context.query.get_or_empty("continuation-token");
  const auto region = context.query.get("bucket-region");
  ListBucketsRequest request{
      .prefix = std::string(prefix), .after = std::string(after), .max = static_cast<size_t>(max)};
  VB_CO_ASSIGN(BucketPage page, co_await list_buckets(context.service, context.caller(), std::move(request)));
  if (region && *region != context.service.region) page = {};  // all are here
  XmlWriter xml("ListAllMyBucketsResult");
  write_owner(xml, "Owner", context.service, owner_of(context.caller()));
  VB_CO_TRY(co_await write_buckets(context, xml, page.buckets));
  if (page.truncated) xml.element("ContinuationToken", page.buckets.back().name);
  if (!prefix.empty()) xml.element("Prefix", prefix);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_bucket_location(Context& context) {
  // AWS's oldest region has no name in this document; the root element has the text.
  const std::string region = context.service.region == "us-east-1" ? "" : context.service.region;
  context.reply_xml(
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<LocationConstraint xmlns=\""
                  "http://s3.amazonaws.com/doc/2006-03-01/\">{}</LocationConstraint>",
                  region));
  co_return Result<void>();
}

}  // namespace verbena::s3
