#include "s3_http/buckets/preflight.h"

#include "s3/documents/bucket_document.h"
#include "s3_http/buckets/bucket_document.h"
#include "s3_http/buckets/cors.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

Task<Result<std::vector<CorsRule>>> read_rules(Context& context) {
  VB_CO_ASSIGN(const store::Document document,
               co_await read_bucket_document(context, cors_document, Errc::no_such_cors));
  co_return parse_cors(*document);
}

}  // namespace

Task<void> add_cors_headers(Context& context) {
  const auto origin = context.request.header("origin");
  if (!origin || origin->empty() || context.request.method == "OPTIONS") co_return;
  const auto rules = co_await read_rules(context);
  if (!rules) co_return;
  CorsQuestion question{*origin, context.request.method, std::nullopt};
  // As in Ceph RGW: a request with Access-Control-Request-Method is judged by that method.
  if (const auto named = context.request.header("access-control-request-method")) question.method = *named;
  const CorsRule* rule = find_cors_rule(*rules, question);
  if (rule == nullptr) co_return;
  for (auto& header : cors_headers(*rule, question)) {
    context.response.headers.push_back(header);
    context.error_headers.push_back(std::move(header));
  }
}

Task<Result<void>> serve_preflight(Context& context) {
  const auto origin = context.request.header("origin");
  if (!origin || origin->empty()) {
    co_return fail(Errc::bad_request, "Insufficient information. Origin request header needed.");
  }
  const auto method = context.request.header("access-control-request-method");
  if (!method || method->empty()) co_return fail(Errc::bad_request, "Invalid Access-Control-Request-Method.");
  auto rules = co_await read_rules(context);
  if (!rules && rules.error() == Errc::no_such_cors) {
    co_return fail(Errc::cors_forbidden, "CORSResponse: CORS is not enabled for this bucket.");
  }
  if (!rules) co_return std::unexpected(rules.error());
  const CorsQuestion question{*origin, *method, context.request.header("access-control-request-headers")};
  const CorsRule* rule = find_cors_rule(*rules, question);
  if (rule == nullptr) co_return fail(Errc::cors_forbidden, "no rule");
  for (const auto& header : cors_headers(*rule, question)) context.response.headers.push_back(header);
  co_return Result<void>();
}

}  // namespace verbena::s3
