#include "client/retry.h"

#include <algorithm>
#include <thread>

#include "base/bytes.h"

namespace verbena::client {

namespace {

// True for errors of a server that does not know the outcome itself: a change that its cluster answered too late.
bool is_unsure(const ClientError& error) {
  return error.code == ErrorCode::slow_down && error.s3_code == "ServiceUnavailable";
}

}  // namespace

bool may_have_happened(const ClientError& error) {
  return error.code == ErrorCode::outcome_unknown || error.code == ErrorCode::timed_out ||
         error.code == ErrorCode::server_error || error.code == ErrorCode::insufficient_storage ||
         error.code == ErrorCode::malformed_reply || is_unsure(error);
}

bool may_have_happened(const Error& error) {
  return error == Errc::service_unavailable || may_have_happened(from_error(error, ""));
}

bool nothing_was_done(const ClientError& error) {
  switch (error.code) {
    case ErrorCode::connection_failed:
    case ErrorCode::slow_down:
      return !is_unsure(error);
    case ErrorCode::unsupported:
    case ErrorCode::local_error:
      return true;
    default:
      return false;
  }
}

bool nothing_was_done(const Error& error) { return nothing_was_done(from_error(error, "")); }

void Doubt::after(const ClientError& error) {
  if (may_have_happened(error) && earlier_.empty()) earlier_ = error.message.empty() ? "no answer" : error.message;
}

ClientError Doubt::about(ClientError last) const {
  if (is_unsure(last)) last.code = ErrorCode::outcome_unknown;
  const bool says_nothing = nothing_was_done(last) || last.code == ErrorCode::insufficient_storage;
  if (earlier_.empty() || !says_nothing) return last;
  last.code = ErrorCode::outcome_unknown;
  last.message += "; an attempt before it may have happened: " + earlier_;
  return last;
}

bool worth_retrying(const ClientError& error, bool idempotent) {
  switch (error.code) {
    case ErrorCode::slow_down:
      return idempotent || !is_unsure(error);  // the server did nothing
    case ErrorCode::connection_failed:
      return true;  // the request did not reach the server
    case ErrorCode::timed_out:
    case ErrorCode::outcome_unknown:
    case ErrorCode::server_error:
    case ErrorCode::checksum_mismatch:
      return idempotent;
    default:
      return false;
  }
}

std::chrono::milliseconds backoff(const RetryPolicy& policy, unsigned attempt, uint64_t random) {
  const unsigned doublings = std::min(attempt > 0 ? attempt - 1 : 0u, 20u);
  const int64_t most = std::min<int64_t>(policy.cap.count(), policy.base.count() << doublings);
  return std::chrono::milliseconds(most <= 0 ? 0 : static_cast<int64_t>(random % (static_cast<uint64_t>(most) + 1)));
}

void sleep_before_retry(const RetryPolicy& policy, unsigned attempt, const std::stop_token& stop) {
  uint64_t random = 0;
  fill_random(std::as_writable_bytes(std::span(&random, 1)));
  constexpr std::chrono::milliseconds slice{20};
  auto left = backoff(policy, attempt, random);
  while (left.count() > 0 && !stop.stop_requested()) {
    const auto nap = stop.stop_possible() ? std::min(left, slice) : left;
    std::this_thread::sleep_for(nap);
    left -= nap;
  }
}

}  // namespace verbena::client
