// One exchange while it is served, and what serves it: shared by the exchanges of S3 and of IAM. Internal to http/.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "base/clock.h"
#include "call/observed.h"
#include "http/request_metrics.h"
#include "http/server.h"
#include "iam/service.h"
#include "memory/arena.h"
#include "s3_http/routing/router.h"

namespace verbena::http {

// Of a handler: what make_s3_handler() was given.
struct HandlerContext {
  const auth::Verifier& verifier;
  s3::Router& router;
  const call::Observers observers;
  const WallClock& clock;
  iam::Service* iam;
  memory::Arena* arena;
  const std::string domain;
  auth::AuthFailures* auth_failures;
  const std::atomic<bool>* stopping;
  RequestMetrics metrics;
};

// A request and its answer, from the head to the log.
struct Serving {
  SteadyClock::time_point started = SteadyClock::now();
  // null: there are no observers. Too large for the frame of each request
  std::unique_ptr<call::Observed> observed{};
  call::Call call{};
  s3::Response response{};
  std::optional<Result<auth::Verified>> verified{};  // once that was looked at
  s3::FoundObject found{};                           // s3::Request::found
};

// The first of that (lower-case) name; empty: none.
std::string_view header_of(const Exchange& exchange, std::string_view name);
// In a virtual host the path is a key of the bucket.
bool in_bucket_host(const HandlerContext& context, const Exchange& exchange);
// The view's headers lie in a buffer of this thread, which its next call overwrites.
auth::RequestView view_of(const Exchange& exchange);
// Verifies by `verify`, a callable from auth::RequestView to Result<auth::Verified>, who sends the request. An address
// that has failed too often is refused before; a failure counts.
template <class Verify>
Result<auth::Verified> authenticate(const HandlerContext& context, Exchange& exchange, Verify verify) {
  const auth::RequestView view = view_of(exchange);
  if (context.auth_failures != nullptr) VB_TRY(context.auth_failures->check(exchange.peer_address(), view));
  Result<auth::Verified> verified = verify(view);
  if (verified && !verified->identity.anonymous) exchange.vouch();
  if (!verified && context.auth_failures != nullptr)
    context.auth_failures->note(exchange.peer_address(), view, verified.error());
  return verified;
}
s3::Request make_request(const Exchange& exchange, call::Call& call, std::optional<uint64_t> length);
// An answer is whole before it is sent. One that is longer than what everybody may have waiting is charged to its peer
// until it is taken, where its verb has not seen to that. slow_down: too many of the peer's answers wait already.
Result<void> charge_answer(const HandlerContext& context, const Exchange& exchange, s3::Response& response);

}  // namespace verbena::http
