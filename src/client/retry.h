// Which failures are worth another try, and how long to wait before it: bounded exponential backoff with full jitter
// (each wait is uniform in [0, min(cap, base * 2^n)]), so that many clients do not come back in step.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>

#include "client/outcome.h"

namespace verbena::client {

struct RetryPolicy {
  unsigned attempts_max = 4;
  std::chrono::milliseconds base{50};
  std::chrono::milliseconds cap{2'000};
};

// `idempotent`: doing it twice is as good as once, so it may be repeated although it may have happened. Failures that
// leave no doubt (nothing was sent, or the server refused the work) are repeated in any case.
bool worth_retrying(const ClientError& error, bool idempotent);

// The wait before attempt `attempt` (the first retry is 1); `random` is any 64 random bits.
std::chrono::milliseconds backoff(const RetryPolicy& policy, unsigned attempt, uint64_t random);

// Sleeps for backoff(), or until a stop is asked for.
void sleep_before_retry(const RetryPolicy& policy, unsigned attempt, const std::stop_token& stop = {});

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

}  // namespace verbena::client
