// Which failures are worth another try, and how long to wait before it: bounded exponential backoff with full jitter
// (each wait is uniform in [0, min(cap, base * 2^n)]), so that many clients do not come back in step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "client/outcome.h"

namespace verbena::client {

struct RetryPolicy {
  unsigned attempts_max = 4;
  std::chrono::milliseconds base{50};
  std::chrono::milliseconds cap{2'000};
};

// True if a change that failed with this error may have been made.
bool may_have_happened(const ClientError& error);
bool may_have_happened(const Error& error);  // as the native door and HTTP report it

// True if the failed attempt changed nothing, so that another door may be tried. An earlier attempt may have happened.
bool nothing_was_done(const ClientError& error);
bool nothing_was_done(const Error& error);

// `idempotent`: doing it twice is as good as once, so it may be repeated although it may have happened. Failures that
// leave no doubt (nothing was sent, or the server refused the work) are repeated in any case.
bool worth_retrying(const ClientError& error, bool idempotent);

// The wait before attempt `attempt` (the first retry is 1); `random` is any 64 random bits.
std::chrono::milliseconds backoff(const RetryPolicy& policy, unsigned attempt, uint64_t random);

// Sleeps for backoff(), or until a stop is asked for.
void sleep_before_retry(const RetryPolicy& policy, unsigned attempt, const std::stop_token& stop = {});

// The certainty of repeated attempts at a change: when an earlier attempt may have happened, the last one's "nothing
// was done" must not be reported as the outcome.
class Doubt {
 public:
  // Records an attempt that failed and is followed by another.
  void after(const ClientError& error);
  // The error to return for all attempts, given the last one. A server that was not sure leaves doubt by itself.
  ClientError about(ClientError last) const;

 private:
  std::string earlier_;  // message of the first attempt that may have happened
};

// Runs `operation` (returning an Outcome) until it succeeds, fails for good, or the attempts are used up. `attempts` is
// set to the number made.
template <class Fn>
auto with_retries(const RetryPolicy& policy, bool idempotent, unsigned& attempts, Fn&& operation,
                  const std::stop_token& stop = {}) {
  for (attempts = 1;; ++attempts) {
    auto outcome = operation();
    if (outcome || attempts >= policy.attempts_max || !worth_retrying(outcome.error(), idempotent)) return outcome;
    sleep_before_retry(policy, attempts, stop);
    if (stop.stop_requested()) return outcome;
  }
}

// with_retries() for a change. `repeatable`: it may be made twice.
template <class Fn>
auto with_retries_of_change(const RetryPolicy& policy, bool repeatable, unsigned& attempts, Fn&& operation,
                            const std::stop_token& stop = {}) {
  Doubt doubt;
  std::optional<ClientError> before;
  const auto once = [&] {
    if (before) doubt.after(*before);
    auto outcome = operation();
    before = outcome ? std::nullopt : std::optional(outcome.error());
    return outcome;
  };
  auto last = with_retries(policy, repeatable, attempts, once, stop);
  if (!last) last = std::unexpected(doubt.about(std::move(last).error()));
  return last;
}

}  // namespace verbena::client
