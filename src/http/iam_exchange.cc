#include "http/iam_exchange.h"

#include "base/secret.h"
#include "memory/whole_body.h"

namespace verbena::http {
namespace {

// IAM and STS sign the body of a call, so it has to be read whole before the signature can be checked.
Result<auth::Verified> authenticate_call(const HandlerContext& context, Exchange& exchange, std::string_view body) {
  const std::string hash = to_hex(as_bytes(sha256(as_bytes(body))));
  const auto verify = [&](const auth::RequestView& view) { return context.verifier.verify_call(view, hash); };
  auto verified = authenticate(context, exchange, verify);
  if (verified) VB_TRY(check_account(context, exchange, verified->identity));
  return verified;
}

struct ReadCall {
  memory::WholeBody body;
  bool federated = false;  // unsigned, of a kind that needs no signature
};

// The whole body of a call, which is small. A signature covers it, so it is read before that is verified, but only
// where the key exists, or where callers without a key can sign in.
Task<Result<ReadCall>> read_call(const HandlerContext& context, iam::Api api, Exchange& exchange) {
  VB_CO_TRY(check_network(context, exchange));
  const auto known = context.verifier.check_caller(view_of(exchange));
  ReadCall out;
  if (!known) {
    out.federated =
        api == iam::Api::query && known.error() == Errc::missing_authentication && context.iam->takes_federated();
    if (!out.federated) co_return std::unexpected(known.error());
  }
  const size_t bytes_max = out.federated ? iam::federated_body_bytes_max : iam::body_bytes_max;
  auto body = co_await memory::read_whole(exchange.body(), *context.arena, exchange.peer_address(), bytes_max);
  if (!body && body.error() == Errc::too_large) {
    co_return fail(Errc::entity_too_large, "The request's body is too large.");
  }
  if (!body) co_return std::unexpected(body.error());
  out.body = std::move(*body);
  co_return std::move(out);
}

// Whose role a caller assumes is known only afterwards: of an account that may not be used from the caller's network,
// it gets no credentials. `who`: the role's session; null: none.
void check_assumed(const HandlerContext& context, iam::Api api, const Exchange& exchange, auth::PrincipalPtr who,
                   const std::string& request_id, s3::Response& response) {
  if (who == nullptr) return;
  auth::Identity role;
  role.anonymous = false;
  role.principal = std::move(who);
  const auto may = check_account(context, exchange, role);
  if (may) return;
  wipe(response.body);
  response = {};
  iam::Service::refuse(api, may.error(), request_id, response);
}

}  // namespace

iam::Api api_of(const HandlerContext& context, const Exchange& exchange) {
  if (context.iam == nullptr) return iam::Api::none;
  auto api = iam::api_of(exchange.method(), exchange.path(), header_of(exchange, "content-type"));
  if (iam::is_query_in_url(exchange.method(), exchange.path(), exchange.query())) api = iam::Api::query;
  return api != iam::Api::none && in_bucket_host(context, exchange) ? iam::Api::none : api;
}

Task<void> serve_call(HandlerContext& context, iam::Api api, Exchange& exchange, call::Call& call,
                      s3::Response& response) {
  call.facts = {.http = true, .headers = exchange.headers()};
  call.facts.arrived_us = context.clock.now_us();
  auto whole = co_await read_call(context, api, exchange);
  if (!whole) exchange.close_after();  // the rest was not read
  const std::string* const body = whole ? &whole->body.text : nullptr;
  const bool federated = whole && whole->federated;
  auto verified = federated ? Result<auth::Verified>()
                  : whole   ? authenticate_call(context, exchange, *body)
                            : std::unexpected(whole.error());
  if (federated) {
    const s3::Request request = make_request(exchange, call, body->size());
    const iam::Service::CertificatesOf certificates = [&exchange] { return exchange.peer_certificates(); };
    iam::SignedIn signed_in = co_await context.iam->serve_federated(request, *body, certificates, response);
    call.identity.access_key = std::move(signed_in.access_key);
    call.identity.principal = std::move(signed_in.principal);
    check_assumed(context, api, exchange, call.identity.principal, call.request_id, response);
  } else if (verified) {
    call.identity = std::move(verified->identity);
    const s3::Request request = make_request(exchange, call, body->size());
    auto assumed = co_await context.iam->serve(api, request, *verified->key, *body, response);
    check_assumed(context, api, exchange, std::move(assumed), call.request_id, response);
  } else {
    iam::Service::refuse(api, verified.error(), call.request_id, response);
  }
  if (exchange.method() == "HEAD") response.no_body = true;
  call.outcome.operation = iam::operation_of(api, exchange.path(),
                                             !body           ? std::string_view()
                                             : body->empty() ? exchange.query()
                                                             : *body);
  if (federated) wipe(whole->body.text);  // it may have a password
  if (auto charged = charge_answer(context, exchange, response); !charged) {
    iam::Service::refuse(api, charged.error(), call.request_id, response);
  }
  (void)co_await exchange.reply(response);
}

}  // namespace verbena::http
