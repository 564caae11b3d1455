#include "http/s3_handler.h"

#include "auth/host.h"
#include "base/log.h"
#include "base/text.h"
#include "call/account.h"
#include "call/request_id.h"
#include "http/health.h"
#include "http/payload.h"
#include "http/request_metrics.h"
#include "memory/budget.h"
#include "memory/whole_body.h"
#include "s3/errors.h"
#include "s3/router.h"

namespace verbena::http {
namespace {

struct Context {
  const auth::Verifier& verifier;
  s3::Router& router;
  const call::Observers observers;
  const WallClock& clock;
  iam::Service* iam;
  memory::Arena* arena;
  const std::string domain;
  auth::Guesses* guesses;
  const std::atomic<bool>* stopping;
  RequestMetrics metrics;
};

std::string_view header_of(const Exchange& exchange, std::string_view wanted) {
  for (const auto& [name, value] : exchange.headers()) {
    if (name == wanted) return value;
  }
  return {};
}

std::string host_of(const s3::Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (name == "host") return auth::host_name(value);
  }
  return {};
}

// The view's headers lie in a buffer of this thread, which its next call overwrites.
auth::RequestView view_of(const Exchange& exchange) {
  thread_local std::vector<auth::HeaderView> views;  // verifying does not suspend: one per thread is enough
  views.clear();
  for (const auto& [name, value] : exchange.headers()) views.push_back({name, value});
  return {exchange.method(), exchange.path(), exchange.query(), views};
}

Result<auth::Verified> authenticate(const Context& context, Exchange& exchange) {
  // Browsers ask before a presigned request by its URL, whose signature is of another method: a preflight has no
  // caller.
  if (exchange.method() == "OPTIONS") return auth::Verified();
  const auth::RequestView view = view_of(exchange);
  if (context.guesses != nullptr) VB_TRY(context.guesses->check(exchange.peer_address(), view));
  auto verified = context.verifier.verify(view);
  if (verified && !verified->identity.anonymous) exchange.vouch();
  if (!verified && context.guesses != nullptr) context.guesses->note(exchange.peer_address(), view, verified.error());
  return verified;
}

// IAM and STS sign the body of a call, so it has to be read whole before the signature can be checked.
Result<auth::Verified> authenticate_call(const Context& context, Exchange& exchange, std::string_view body) {
  const std::string hash = to_hex(as_bytes(sha256(as_bytes(body))));
  const auth::RequestView view = view_of(exchange);
  if (context.guesses != nullptr) VB_TRY(context.guesses->check(exchange.peer_address(), view));
  auto verified = context.verifier.verify_call(view, hash);
  if (verified) exchange.vouch();
  if (!verified && context.guesses != nullptr) context.guesses->note(exchange.peer_address(), view, verified.error());
  return verified;
}

s3::Request make_request(const Exchange& exchange, call::Call& call, std::optional<uint64_t> length) {
  s3::Request request{call};
  request.method = exchange.method();
  request.host = host_of(exchange.headers());
  request.raw_path = exchange.path();
  request.raw_query = exchange.query();
  request.headers = exchange.headers();
  request.content_length = length;
  return request;
}

// An answer is whole before it is sent. One that is longer than what everybody may have waiting is charged to its peer
// until he has taken it: its verb has seen to that, or it happens here. slow_down: too many of his wait already.
Result<void> charge_answer(const Context& context, const Exchange& exchange, s3::Response& response) {
  constexpr size_t free_bytes = 16 * KiB;
  const size_t bytes = response.body.size();
  if (context.arena == nullptr || response.charged != nullptr || bytes <= free_bytes) return {};
  memory::Share share(*context.arena, exchange.peer_address(), bytes);
  auto granted = share.try_whole(bytes);
  if (!granted) return fail(Errc::slow_down, "http: too many answers of this client wait to be read");
  response.charged = std::make_shared<const memory::Charge>(std::move(*granted));
  return {};
}

// A request that is not routed.
Task<void> refuse(Context& context, Exchange& exchange, const Error& error, call::Call& call, s3::Response& response) {
  s3::Request request = make_request(exchange, call, std::nullopt);
  co_await context.router.refuse(request, error, exchange.body(), response, exchange.sink(response));
  (void)co_await exchange.reply(response);
}

// In a virtual host the path is a key of the bucket.
bool in_bucket_host(const Context& context, const Exchange& exchange) {
  return !auth::virtual_bucket(host_of(exchange.headers()), context.domain).empty();
}

iam::Api api_of(const Context& context, const Exchange& exchange) {
  if (context.iam == nullptr) return iam::Api::none;
  auto api = iam::api_of(exchange.method(), exchange.path(), header_of(exchange, "content-type"));
  if (iam::is_query_in_url(exchange.method(), exchange.path(), exchange.query())) api = iam::Api::query;
  return api != iam::Api::none && in_bucket_host(context, exchange) ? iam::Api::none : api;
}

struct ReadCall {
  memory::WholeBody body;
  bool stranger = false;  // nobody signed it, and it may be one that nobody has to
};

// The whole body of a call, which is small. A signature covers it, so it is read before that is verified, but of nobody
// whose key there is not, or who has none although nobody signs in without.
Task<Result<ReadCall>> read_call(const Context& context, iam::Api api, Exchange& exchange) {
  const auto known = context.verifier.check_caller(view_of(exchange));
  ReadCall out;
  if (!known) {
    out.stranger =
        api == iam::Api::query && known.error() == Errc::missing_authentication && context.iam->takes_strangers();
    if (!out.stranger) co_return std::unexpected(known.error());
  }
  const size_t bytes_max = out.stranger ? iam::stranger_body_bytes_max : iam::body_bytes_max;
  auto body = co_await memory::read_whole(exchange.body(), *context.arena, exchange.peer_address(), bytes_max);
  if (!body && body.error() == Errc::too_large) {
    co_return fail(Errc::entity_too_large, "The request's body is too large.");
  }
  if (!body) co_return std::unexpected(body.error());
  out.body = std::move(*body);
  co_return std::move(out);
}

// "iam:CreateUser", "admin:add-user": for the log. Nothing else of a call is: it may hold secrets.
std::string operation_name(iam::Api api, std::string_view path, std::string_view body) {
  std::string_view name;
  if (api == iam::Api::admin) {
    name = path.substr(path.rfind('/') + 1);
  } else if (body.starts_with("Action=")) {
    name = body.substr(7);
  } else if (const size_t at = body.find("&Action="); at != std::string_view::npos) {
    name = body.substr(at + 8);
  }
  constexpr size_t longest = 64;
  size_t end = 0;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  while (end < std::min(name.size(), longest) && plain(name[end])) ++end;
  return std::string(api == iam::Api::admin ? "admin:" : "iam:").append(name.substr(0, end));
}

// IAM, STS and the admin API.
Task<void> serve_call(Context& context, iam::Api api, Exchange& exchange, call::Call& call, s3::Response& response) {
  auto whole = co_await read_call(context, api, exchange);
  if (!whole) exchange.close_after();  // the rest was not read
  const std::string* const body = whole ? &whole->body.text : nullptr;
  const bool stranger = whole && whole->stranger;
  auto verified = stranger ? Result<auth::Verified>()
                  : whole  ? authenticate_call(context, exchange, *body)
                           : std::unexpected(whole.error());
  if (stranger) {
    const s3::Request request = make_request(exchange, call, body->size());
    const iam::Service::CertificatesOf certificates = [&exchange] { return exchange.peer_certificates(); };
    iam::SignedIn signed_in = co_await context.iam->serve_stranger(request, *body, certificates, response);
    call.identity.access_key = std::move(signed_in.access_key);
    call.identity.principal = std::move(signed_in.principal);
  } else if (verified) {
    call.identity = std::move(verified->identity);
    const s3::Request request = make_request(exchange, call, body->size());
    co_await context.iam->serve(api, request, *verified->key, *body, response);
  } else {
    iam::Service::refuse(api, verified.error(), call.request_id, response);
  }
  if (exchange.method() == "HEAD") response.no_body = true;
  call.outcome.operation = operation_name(api, exchange.path(),
                                          !body           ? std::string_view()
                                          : body->empty() ? exchange.query()
                                                          : *body);
  if (stranger) wipe(whole->body.text);  // it may have a password
  if (auto charged = charge_answer(context, exchange, response); !charged) {
    iam::Service::refuse(api, charged.error(), call.request_id, response);
  }
  (void)co_await exchange.reply(response);
}

void begin_observing(const Context& context, const Exchange& exchange, call::Observed& observed) {
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
  // Of an answer that was cut, what is out of it.
  answered.out = outcome.by_token ? outcome.out : std::min(outcome.out, progress.bytes_out);
  return answered;
}

// A browser's form, whose signature its verb verifies.
bool may_be_form(const Exchange& exchange) {
  return exchange.method() == "POST" && lower(header_of(exchange, "content-type")).starts_with("multipart/form-data");
}

// A request and its answer, from the head to the log.
struct Serving {
  SteadyClock::time_point started = SteadyClock::now();
  // Where there are observers. Not in the coroutine's own frame: a larger one is no longer recycled.
  std::unique_ptr<call::Observed> observed{};
  call::Call call{};
  s3::Response response{};
  std::optional<Result<auth::Verified>> verified{};  // once that was looked at
  std::shared_ptr<store::ObjectReader> found{};      // s3::Request::found
};

void account(Context& context, const Exchange& exchange, Serving& serving) {
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
    if (details.action.empty()) {  // refused before it was looked at what it asks for
      details.action = exchange.method();
      details.path = exchange.path();
    }
    return details;
  });
}

Task<void> serve_s3(Context& context, Exchange& exchange, Serving& serving) {
  call::Call& call = serving.call;
  s3::Response& response = serving.response;
  ScopedStage reads(call.trace, Stage::read);
  auto verified = serving.verified ? *std::exchange(serving.verified, {}) : authenticate(context, exchange);
  const bool form = context.guesses != nullptr && may_be_form(exchange);
  if (verified && form) {
    const auto checked = context.guesses->check_form(exchange.peer_address());
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
  if (form && response.error_code == wrong) context.guesses->note_form(exchange.peer_address());
  if (!whole) {
    exchange.close_after();  // the connection is cut: a shorter body must not look whole
  } else if (!exchange.progress().begun) {
    if (auto charged = charge_answer(context, exchange, response); !charged) {
      s3::fill_error(response, charged.error(), exchange.path(), call.request_id);
    }
    (void)co_await exchange.reply(response);
  }
}

Task<void> serve(std::shared_ptr<Context> context, Exchange& exchange, Serving serving) {
  if (asks_health(exchange.method(), exchange.path()) && !in_bucket_host(*context, exchange)) {
    answer_health(exchange.method(), context->stopping != nullptr && *context->stopping, serving.response);
    (void)co_await exchange.reply(serving.response);
    co_return;  // no access
  }
  const iam::Api api = api_of(*context, exchange);
  if (api != iam::Api::none) {
    co_await serve_call(*context, api, exchange, serving.call, serving.response);
  } else {
    co_await serve_s3(*context, exchange, serving);
  }
  account(*context, exchange, serving);
}

// A GET that was not out at once.
Task<void> finish(std::shared_ptr<Context> context, Exchange& exchange, Serving serving, Task<Result<void>> rest) {
  s3::Response& response = serving.response;
  exchange.sink(response);  // where it is now
  const Result<void> sent = co_await std::move(rest);
  if (!sent && exchange.progress().begun) {
    exchange.close_after();
  } else if (!sent) {
    s3::Headers fields;
    if (sent.error() == Errc::corrupt_object) fields.emplace_back("Key", serving.call.outcome.key);
    s3::fill_error_with(response, sent.error(), exchange.path(), serving.call.request_id, fields);
    (void)co_await exchange.reply(response);
  }
  account(*context, exchange, serving);
}

// Whether the request has a body that nobody needs to look at, because there is none.
bool has_no_payload(Exchange& exchange, const auth::Verified& verified) {
  using auth::Payload;
  if (verified.payload != Payload::none && verified.payload != Payload::unsigned_payload &&
      verified.payload != Payload::sha256) {
    return false;
  }
  return PayloadSource().open(exchange, verified).has_value();
}

// A GET of what lies in memory is served here; all else is left to serve(), with what was found out already.
std::optional<Task<void>> begin(const std::shared_ptr<Context>& context, Exchange& exchange) {
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
  const bool plain = exchange.method() == "GET" && exchange.query().empty() && !exchange.path().starts_with("/-/");
  if (!plain) return serve(context, exchange, std::move(serving));
  ScopedStage reads(call.trace, Stage::read);
  auto verified = authenticate(*context, exchange);
  if (!verified || !has_no_payload(exchange, *verified)) {
    serving.verified = std::move(verified);
    return serve(context, exchange, std::move(serving));
  }
  call.identity = std::move(verified->identity);
  s3::Request request = make_request(exchange, call, std::nullopt);
  reads.end();
  auto sent = context->router.get_now(request, exchange.body(), serving.response, exchange.sink(serving.response));
  if (sent && !sent->rest) {
    if (!sent->whole) exchange.close_after();
    account(*context, exchange, serving);
    return std::nullopt;
  }
  if (!sent) {
    serving.found = std::move(request.found);
    verified->identity = std::move(call.identity);
    serving.verified = std::move(verified);
    return serve(context, exchange, std::move(serving));
  }
  return finish(context, exchange, std::move(serving), std::move(*sent->rest));
}

}  // namespace

Handler make_s3_handler(const auth::Verifier& verifier, s3::Router& router, S3HandlerOptions options) {
  const WallClock& clock = options.clock != nullptr ? *options.clock : system_clock();
  auto context = std::make_shared<Context>(Context{verifier,
                                                   router,
                                                   {options.access_log, options.watch, options.tracer},
                                                   clock,
                                                   options.iam,
                                                   options.arena,
                                                   options.domain,
                                                   options.guesses,
                                                   options.stopping,
                                                   {}});
  return [context = std::move(context)](Exchange& exchange) { return begin(context, exchange); };
}

}  // namespace verbena::http
