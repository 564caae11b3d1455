// Bucket policies.
#include "auth/policy.h"
#include "s3/access/authorize.h"
#include "s3/documents/bucket_document.h"
#include "s3/xml.h"
#include "s3_http/buckets/bucket_document.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr int confirmed_attempts_max = 10;

Result<auth::PolicyPtr> read_policy(const std::string& text, std::string_view bucket) {
  auto policy = auth::parse_policy(text, auth::PolicyKind::resource);
  if (!policy && policy.error() == Errc::too_large) {
    return fail(Errc::malformed_policy, "Bucket policies are limited to 20 KiB.");
  }
  if (policy && !auth::concerns_only(**policy, bucket)) {
    return fail(Errc::malformed_policy, "Policy has invalid resource.");
  }
  if (policy && !auth::actions_apply(**policy)) {
    return fail(Errc::malformed_policy, "Action does not apply to any resource(s) in statement.");
  }
  return policy;
}

// A policy and what says that it binds the owner's root are two documents. Whatever is done at once, and wherever a
// crash comes, no policy binds the root that was not confirmed: the binding names one policy by its text, and a policy
// that is not confirmed is set after the binding is removed. Nor is a confirmed policy, once that is answered, in force
// without its binding: this is set after the policy, and only if no other request has set another one meanwhile; a
// request that removes it afterwards has yet to set, or to remove, the policy.
Task<Result<void>> keep_unconfirmed(Context& context, const std::string& text) {
  VB_CO_TRY(co_await drop_document(context.service, context.bucket, policy_binding_document));
  co_return co_await keep_document(context.service, context.bucket, policy_document, text);
}

Task<Result<void>> keep_confirmed(Context& context, const std::string& text) {
  for (int attempt = 0; attempt < confirmed_attempts_max; ++attempt) {
    const auto found = co_await context.service.store.document(context.bucket, policy_binding_document);
    if (!found && !(found.error() == Errc::not_found)) co_return std::unexpected(found.error());
    const store::Document was = found ? *found : nullptr;
    VB_CO_TRY(co_await keep_document(context.service, context.bucket, policy_document, text));
    auto bound =
        co_await replace_document(context.service, context.bucket, policy_binding_document, was, policy_binding(text));
    if (!bound && bound.error() == Errc::precondition_failed) continue;
    co_return bound;
  }
  co_return fail(Errc::slow_down, "policy: it is changed too often");
}

}  // namespace

Task<Result<void>> serve_get_bucket_policy(Context& context) {
  VB_CO_ASSIGN(const store::Document document,
               co_await read_bucket_document(context, policy_document, Errc::no_such_bucket_policy));
  context.reply_header("content-type", "application/json");
  context.response.body = *document;
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_policy(Context& context) {
  // A slightly longer text is read too, so that the error can say that it is too long.
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, 2 * auth::policy_bytes_max));
  VB_CO_ASSIGN(const auth::PolicyPtr policy, read_policy(text, context.bucket));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  if (access->block.block_policy && auth::is_public(*policy)) {
    co_return fail(Errc::access_denied, "policy: public policies are blocked");
  }
  const auto confirmed = context.header("x-amz-confirm-remove-self-bucket-access");
  const bool is_confirmed = confirmed == "true" || confirmed == "True";
  if (is_confirmed) {
    VB_CO_TRY(co_await keep_confirmed(context, text));
  } else {
    VB_CO_TRY(co_await keep_unconfirmed(context, text));
  }
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> serve_delete_bucket_policy(Context& context) {
  VB_CO_TRY(co_await drop_document(context.service, context.bucket, policy_binding_document));
  VB_CO_TRY(co_await drop_document(context.service, context.bucket, policy_document));
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> serve_bucket_policy_status(Context& context) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  const bool by_policy = access->policy_public && !access->block.restrict_buckets;
  const bool by_list = access->lists_count() && access->groups_count() && is_public(access->acl);
  XmlWriter xml("PolicyStatus");
  xml.element("IsPublic", by_policy || by_list);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
