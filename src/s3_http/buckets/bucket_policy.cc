// Bucket policies.
#include <memory>
#include <string>
#include <utility>

#include "auth/policy.h"
#include "s3/access/authorize.h"
#include "s3/documents/bucket_document.h"
#include "s3/xml.h"
#include "s3_http/buckets/bucket_document.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr int attempts_max = 10;

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

Task<Result<store::Document>> read_binding(Context& context) {
  auto found = co_await context.service.store.document(context.bucket, policy_binding_document);
  if (!found && found.error() == Errc::not_found) co_return store::Document();
  co_return found;
}

// `text` null: removes it.
Task<Result<void>> keep_policy(Context& context, const store::Document& text) {
  if (text == nullptr) return drop_document(context.service, context.made_bucket(), policy_document);
  return keep_document(context.service, context.made_bucket(), policy_document, *text);
}

// A policy and what says that it binds the owner's root are two documents. The policy is set first, so that one that is
// refused leaves the former one as it was, with its binding. Whatever is done at once, and wherever a crash comes, no
// policy binds the root that was not confirmed: the binding names one policy by its text, and one that would bind this
// one all the same is removed before this one is set. Nor is a confirmed policy, once that is answered, in force
// without its binding: no two requests set the same binding, and each changes only the one that was there before it set
// its policy, else it sets that again.
Task<Result<void>> change_policy(Context& context, store::Document text, bool is_confirmed) {
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    VB_CO_ASSIGN(const store::Document was, co_await read_binding(context));
    // None is removed too: a change of it that failed may come back by a crash.
    const bool unbinds_first = text != nullptr && !is_confirmed && (was == nullptr || binds_root(text, was));
    if (!unbinds_first) {
      VB_CO_TRY(co_await keep_policy(context, text));
    }
    std::string binding = is_confirmed ? policy_binding(*text) : std::string();
    auto bound = co_await replace_document(context.service, context.made_bucket(), policy_binding_document, was,
                                           std::move(binding));
    if (!bound && bound.error() == Errc::precondition_failed) continue;
    if (!bound || !unbinds_first) co_return bound;
    co_return co_await keep_policy(context, text);
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
  VB_CO_TRY(co_await change_policy(context, std::make_shared<const std::string>(text),
                                   confirmed == "true" || confirmed == "True"));
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> serve_delete_bucket_policy(Context& context) {
  VB_CO_TRY(co_await change_policy(context, nullptr, false));
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
