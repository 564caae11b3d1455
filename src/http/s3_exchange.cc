#include "http/s3_exchange.h"

#include "base/text.h"
#include "http/payload.h"
#include "s3/errors.h"
#include "s3_http/error_response.h"

namespace verbena::http {
namespace {

// A browser's form, whose signature its verb verifies.
bool may_be_form(const Exchange& exchange) {
  return exchange.method() == "POST" && lower(header_of(exchange, "content-type")).starts_with("multipart/form-data");
}

Result<auth::Verified> authenticate_s3(const HandlerContext& context, Exchange& exchange) {
  VB_TRY(check_network(context, exchange));
  // A browser's preflight uses the URL of a presigned request, whose signature is for another method: a preflight has
  // no caller.
  if (exchange.method() == "OPTIONS") return auth::Verified();
  const auto verify = [&](const auth::RequestView& view) { return context.verifier.verify(view); };
  auto verified = authenticate(context, exchange, verify);
  if (!verified || (verified->identity.anonymous && may_be_form(exchange))) return verified;
  VB_TRY(check_account(context, exchange, verified->identity));
  return verified;
}

// Answers a request that is not routed.
Task<void> refuse(HandlerContext& context, Exchange& exchange, const Error& error, call::Call& call,
                  s3::Response& response) {
  s3::Request request = make_request(exchange, call, std::nullopt);
  co_await context.router.refuse(request, error, exchange.body(), response, exchange.sink(response));
  (void)co_await exchange.reply(response);
}

// Whether the request has no body to be unwrapped.
bool has_no_payload(Exchange& exchange, const auth::Verified& verified) {
  using auth::Payload;
  if (verified.payload != Payload::none && verified.payload != Payload::unsigned_payload &&
      verified.payload != Payload::sha256) {
    return false;
  }
  return PayloadSource().open(exchange, verified).has_value();
}

}  // namespace

Task<void> serve_s3(HandlerContext& context, Exchange& exchange, Serving& serving) {
  call::Call& call = serving.call;
  s3::Response& response = serving.response;
  ScopedStage reads(call.trace, Stage::read);
  auto verified = serving.verified ? *std::exchange(serving.verified, {}) : authenticate_s3(context, exchange);
  const bool form = context.auth_failures != nullptr && may_be_form(exchange);
  if (verified && form) {
    const auto checked = context.auth_failures->check_form(exchange.peer_address());
    if (!checked) verified = std::unexpected(checked.error());
  }
  if (!verified) {
    co_await refuse(context, exchange, verified.error(), call, response);
    co_return;
  }
  call.identity = std::move(verified->identity);
  PayloadSource payload;
  if (auto opened = payload.open(exchange, *verified); !opened) {
    co_await refuse(context, exchange, opened.error(), call, response);
    co_return;
  }
  s3::Request request = make_request(exchange, call, payload.length());
  request.found = std::move(serving.found);
  reads.end();
  auto trailing = [&payload] { return payload.trailers(); };
  const bool whole =
      co_await context.router.handle(request, payload.source(), std::move(trailing), response, exchange.sink(response));
  const std::string_view wrong = s3::error_form(Errc::signature_does_not_match).code;
  if (form && response.error_code == wrong) context.auth_failures->note_form(exchange.peer_address());
  if (!whole) {
    exchange.close_after();  // the connection is cut: a shorter body must not look whole
  } else if (!exchange.progress().begun) {
    if (auto charged = charge_answer(context, exchange, response); !charged) {
      s3::fill_error(response, charged.error(), exchange.path(), call.request_id);
    }
    (void)co_await exchange.reply(response);
  }
}

std::optional<s3::Router::Sent> try_serve(HandlerContext& context, Exchange& exchange, Serving& serving) {
  call::Call& call = serving.call;
  ScopedStage reads(call.trace, Stage::read);
  auto verified = authenticate_s3(context, exchange);
  if (!verified || !has_no_payload(exchange, *verified)) {
    serving.verified = std::move(verified);
    return std::nullopt;
  }
  call.identity = std::move(verified->identity);
  s3::Request request = make_request(exchange, call, std::nullopt);
  reads.end();
  auto sent = context.router.try_handle(request, exchange.body(), serving.response, exchange.sink(serving.response));
  if (sent) {
    if (!sent->whole) exchange.close_after();
    return sent;
  }
  serving.found = std::move(request.found);
  verified->identity = std::move(call.identity);
  serving.verified = std::move(verified);
  return std::nullopt;
}

bool has_answer(Exchange& exchange, Serving& serving, const Result<void>& sent) {
  if (sent) return false;
  if (exchange.progress().begun) {
    exchange.close_after();
    return false;
  }
  s3::Headers fields;
  if (sent.error() == Errc::corrupt_object) fields.emplace_back("Key", serving.call.outcome.key);
  s3::fill_error_with(serving.response, sent.error(), exchange.path(), serving.call.request_id, fields);
  return true;
}

}  // namespace verbena::http
