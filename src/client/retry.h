// Which failures are worth another try, and how long to wait before it: bounded exponential backoff with full jitter
// (each wait is uniform in [0, min(cap, base * 2^n)]), so that many clients do not come back in step.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "client/outcome.h"

namespace verbena::client {

struct RetryPolicy {
  unsigned attempts_max = 4;
  std::chrono::milliseconds base{50};
  std::chrono::milliseconds cap{2'000};
};

// Of a change that failed so: whether it may have been made all the same.
bool may_have_happened(const ClientError& error);
bool may_have_happened(const Error& error);  // as the native door and HTTP have it

// An attempt that failed so has left everything as it was, and another way may do it. An earlier one may have happened.
bool nothing_was_done(const ClientError& error);
bool nothing_was_done(const Error& error);

// `idempotent`: doing it twice is as good as once, so it may be repeated although it may have happened. Failures that
// leave no doubt (nothing was sent, or the server refused the work) are repeated in any case.
bool worth_retrying(const ClientError& error, bool idempotent);

// The wait before attempt `attempt` (the first retry is 1); `random` is any 64 random bits.
std::chrono::milliseconds backoff(const RetryPolicy& policy, unsigned attempt, uint64_t random);

// Sleeps for backoff(), or until a stop is asked for.
void sleep_before_retry(const RetryPolicy& policy, unsigned attempt, const std::stop_token& stop = {});

// Of attempts at a change, one after the other: an earlier one may have happened, and the last one's "nothing was done"
// is then not what its caller may be told.
class Doubt {
 public:
  // An attempt failed so, and there is another.
  void after(const ClientError& error);
  // What to tell of all of them, of which the last failed so. A server that was not sure leaves doubt by itself.
  ClientError about(ClientError last) const;

 private:
  std::string earlier_;  // what the first one said that may have happened
};

// Runs `operation` (returning an Outcome) until it succeeds, fails for good, or the attempts are used up.
// `attempts` tells how many were made.
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

// As with_retries(), of a change. `repeatable`: it may be made twice.
template <class Fn>
auto with_retries_of_change(const RetryPolicy& policy, bool repeatable, unsigned& attempts, Fn&& operation,
                            const std::stop_token& stop = {}) {
  Doubt doubt;
  const auto once = [&] {
    auto outcome = operation();
    if (!outcome) doubt.after(outcome.error());
    return outcome;
  };
  auto last = with_retries(policy, repeatable, attempts, once, stop);
  if (!last) last = std::unexpected(doubt.about(std::move(last).error()));
  return last;
}

}  // namespace verbena::client
