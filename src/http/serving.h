// One exchange while it is served, and the handler's context: shared by the exchanges of S3 and of IAM. Internal to
// http/.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "auth/network_rules.h"
#include "base/clock.h"
#include "call/observed.h"
#include "http/request_metrics.h"
#include "http/server.h"
#include "iam/service.h"
#include "memory/arena.h"
#include "s3_http/routing/router.h"

namespace verbena::http {

// A handler's context: the arguments of make_s3_handler().
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
  const auth::NetworkRules* networks;         // null: no rules
  const std::optional<size_t> network_entry;  // the one whose clients are served; none: all
  RequestMetrics metrics;
};

// State of a request and its answer, from the head to its accounting.
struct Serving {
  SteadyClock::time_point started = SteadyClock::now();
  // null: there are no observers. Too large for the frame of each request
  std::unique_ptr<call::Observed> observed{};
  call::Call call{};
  s3::Response response{};
  std::optional<Result<auth::Verified>> verified{};  // set once the signature was verified
  s3::FoundObject found{};                           // s3::Request::found
};

// The first of that (lower-case) name; empty: none.
std::string_view header_of(const Exchange& exchange, std::string_view name);
// Whether the host is a bucket's, so that the path is a key.
bool in_bucket_host(const HandlerContext& context, const Exchange& exchange);
// Whether this listener answers the client at all: access_denied if it is for other networks, or if requests from there
// must come over TLS.
Result<void> check_network(const HandlerContext& context, const Exchange& exchange);
// Whether the caller may come from there.
Result<void> check_account(const HandlerContext& context, const Exchange& exchange, const auth::Identity& caller);
// The view's headers are in a buffer of this thread, which the next call overwrites.
auth::RequestView view_of(const Exchange& exchange);
// Authenticates a request by `verify`, a callable from auth::RequestView to Result<auth::Verified>. An address with too
// many failures is refused first; a failure is counted.
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
// Charges an answer to its peer until it is sent, if it is longer than the free allowance and its verb has not charged
// it. Answers are complete before they are sent. slow_down: too many of the peer's answers wait already.
Result<void> charge_answer(const HandlerContext& context, const Exchange& exchange, s3::Response& response);

}  // namespace verbena::http
