#include "http/s3_handler.h"

#include "call/account.h"
#include "call/request_id.h"
#include "http/health.h"
#include "http/iam_exchange.h"
#include "http/s3_exchange.h"
#include "http/serving.h"

namespace verbena::http {
namespace {

void begin_observing(const HandlerContext& context, const Exchange& exchange, call::Observed& observed) {
  observed.by = &context.observers;
  observed.time_us = context.clock.now_us();
  if (context.observers.tracer == nullptr) return;
  observed.traced =
      context.observers.tracer->begin(observe::parse_traceparent(header_of(exchange, "traceparent")), ticks());
}

call::Answered answered_by(const call::Outcome& outcome, int status, const Exchange::Progress& progress) {
  call::Answered answered{.door = outcome.by_token ? call::Door::token : call::Door::http,
                          .transport = outcome.transport,
                          .verb = call::verb_of(outcome.action),
                          .bucket = outcome.bucket,
                          .status = status};
  if (status >= 400) return answered;
  answered.in = outcome.in;
  // For a truncated answer, the bytes that were sent.
  answered.out = outcome.by_token ? outcome.out : std::min(outcome.out, progress.bytes_out);
  return answered;
}

void account(HandlerContext& context, const Exchange& exchange, Serving& serving) {
  call::Call& call = serving.call;
  const call::Outcome& outcome = call.outcome;
  const auto taken = SteadyClock::now() - serving.started;
  const auto progress = exchange.progress();
  const call::Answered answered = answered_by(outcome, serving.response.status, progress);
  context.metrics.note({.token_door = outcome.by_token,
                        .method = exchange.method(),
                        .verb = answered.verb,
                        .request_id = call.request_id,
                        .status = answered.status,
                        .bytes_in = progress.bytes_in,
                        .bytes_out = progress.bytes_out,
                        .rdma_bytes = outcome.token_bytes,
                        .duration_ns = static_cast<uint64_t>(taken.count())});
  call::account(call, answered, [&] {
    const bool token_in = outcome.by_token && outcome.in != 0;
    call::Details details{.action = outcome.operation.empty() ? outcome.action : std::string_view(outcome.operation),
                          .key = outcome.key,
                          .version = outcome.version_id,
                          .source = outcome.source,
                          .error_code = serving.response.error_code,
                          .bytes_in = progress.bytes_in + (token_in ? outcome.token_bytes : 0),
                          .bytes_out = progress.bytes_out + (token_in ? 0 : outcome.token_bytes),
                          .duration_us = taken.count() / 1000,
                          .object_size = outcome.object_size};
    if (details.action.empty()) {  // refused before its operation was known
      details.action = exchange.method();
      details.path = exchange.path();
    }
    return details;
  });
}

Task<void> serve(std::shared_ptr<HandlerContext> context, Exchange& exchange, Serving serving) {
  if (asks_health(exchange.method(), exchange.path()) && !in_bucket_host(*context, exchange)) {
    answer_health(exchange.method(), context->stopping != nullptr && *context->stopping, serving.response);
    (void)co_await exchange.reply(serving.response);
    co_return;  // health checks are not accounted
  }
  const iam::Api api = api_of(*context, exchange);
  if (api != iam::Api::none) {
    co_await serve_call(*context, api, exchange, serving.call, serving.response);
  } else {
    co_await serve_s3(*context, exchange, serving);
  }
  account(*context, exchange, serving);
}

// Completes a GET that could not be sent at once.
Task<void> finish(std::shared_ptr<HandlerContext> context, Exchange& exchange, Serving serving,
                  Task<Result<void>> rest) {
  exchange.sink(serving.response);  // rebinds the sink after the move
  const Result<void> sent = co_await std::move(rest);
  if (has_answer(exchange, serving, sent)) (void)co_await exchange.reply(serving.response);
  account(*context, exchange, serving);
}

// Serves a GET or HEAD of an object in memory at once; leaves all else to serve(), with the results so far.
std::optional<Task<void>> begin(const std::shared_ptr<HandlerContext>& context, Exchange& exchange) {
  Serving serving;
  call::Call& call = serving.call;
  call.secure = exchange.secure();
  call.peer_address = exchange.peer_address();
  call.request_id = call::make_request_id();
  if (observe::requests_are_observed()) {
    serving.observed = std::make_unique<call::Observed>();
    begin_observing(*context, exchange, *serving.observed);
    call.observed = serving.observed.get();
    call.trace = &call.observed->trace;
  }
  const bool reads = exchange.method() == "GET" || exchange.method() == "HEAD";
  const bool plain = reads && exchange.query().empty() && !exchange.path().starts_with("/-/");
  auto sent = plain ? try_serve(*context, exchange, serving) : std::nullopt;
  if (!sent) return serve(context, exchange, std::move(serving));
  if (sent->rest) return finish(context, exchange, std::move(serving), std::move(*sent->rest));
  account(*context, exchange, serving);
  return std::nullopt;
}

}  // namespace

Handler make_s3_handler(const auth::Verifier& verifier, s3::Router& router, S3HandlerOptions options) {
  const WallClock& clock = options.clock != nullptr ? *options.clock : system_clock();
  auto context = std::make_shared<HandlerContext>(HandlerContext{verifier,
                                                                 router,
                                                                 {options.access_log, options.watch, options.tracer},
                                                                 clock,
                                                                 options.iam,
                                                                 options.arena,
                                                                 options.domain,
                                                                 options.auth_failures,
                                                                 options.stopping,
                                                                 options.networks,
                                                                 options.network_entry,
                                                                 {}});
  return [context = std::move(context)](Exchange& exchange) { return begin(context, exchange); };
}

}  // namespace verbena::http
