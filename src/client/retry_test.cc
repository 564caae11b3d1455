#include "client/retry.h"

#include <gtest/gtest.h>

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

ClientError error_of(ErrorCode code) { return {code, "x", {}, 0, {}}; }

TEST(Retry, BackoffDoublesUpToTheCap) {
  const RetryPolicy policy{.attempts_max = 10, .base = 50ms, .cap = 2s};
  EXPECT_LE(backoff(policy, 1, UINT64_MAX), 50ms);
  for (unsigned attempt = 1; attempt < 100; ++attempt) {
    for (uint64_t random : {uint64_t{0}, uint64_t{12345678901}, UINT64_MAX}) {
      EXPECT_GE(backoff(policy, attempt, random), 0ms);
      EXPECT_LE(backoff(policy, attempt, random),
                std::min<std::chrono::milliseconds>(2s, 50ms * (1 << std::min(attempt - 1, 20u))));
    }
  }
  EXPECT_EQ(backoff(policy, 3, 200), 200ms);
  EXPECT_EQ(backoff(policy, 3, 201), 0ms);
}

TEST(Retry, OnlyWhatCannotHaveHappenedIsRepeatedWhenTwiceIsNotOnce) {
  EXPECT_TRUE(worth_retrying(error_of(ErrorCode::slow_down), false));
  EXPECT_TRUE(worth_retrying(error_of(ErrorCode::connection_failed), false));
  for (ErrorCode code : {ErrorCode::timed_out, ErrorCode::outcome_unknown, ErrorCode::server_error}) {
    EXPECT_FALSE(worth_retrying(error_of(code), false));
    EXPECT_TRUE(worth_retrying(error_of(code), true));
  }
  for (ErrorCode code : {ErrorCode::no_such_key, ErrorCode::access_denied, ErrorCode::invalid_argument,
                         ErrorCode::insufficient_storage}) {
    EXPECT_FALSE(worth_retrying(error_of(code), true));
  }
}

TEST(Retry, WhatAClusterWasTooLateWithIsRepeatedOnlyWhenTwiceIsOnce) {
  ClientError unsure = error_of(ErrorCode::slow_down);
  unsure.s3_code = "ServiceUnavailable";
  EXPECT_FALSE(worth_retrying(unsure, false));
  EXPECT_TRUE(worth_retrying(unsure, true));
  const RetryPolicy policy{.attempts_max = 3, .base = 0ms, .cap = 0ms};
  for (const bool repeatable : {false, true}) {
    unsigned attempts = 0;
    const auto outcome =
        with_retries_of_change(policy, repeatable, attempts, [&]() -> Outcome<int> { return std::unexpected(unsure); });
    EXPECT_EQ(outcome.error().code, ErrorCode::outcome_unknown);
    EXPECT_EQ(attempts, repeatable ? 3u : 1u);
  }
}

// "Nothing reached the server" holds for the last attempt alone.
TEST(Retry, OfAChangeAnEarlierAttemptMayHaveHappened) {
  const RetryPolicy policy{.attempts_max = 3, .base = 0ms, .cap = 0ms};
  const auto outcome_of = [&](std::vector<ErrorCode> codes) {
    unsigned attempts = 0;
    auto outcome = with_retries_of_change(
        policy, true, attempts, [&]() -> Outcome<int> { return std::unexpected(error_of(codes.at(attempts - 1))); });
    return outcome.error().code;
  };
  using enum ErrorCode;
  for (const ErrorCode first : {outcome_unknown, timed_out, server_error}) {
    EXPECT_EQ(outcome_of({first, connection_failed, connection_failed}), outcome_unknown);
    EXPECT_EQ(outcome_of({connection_failed, first, slow_down}), outcome_unknown);
    EXPECT_EQ(outcome_of({first, unsupported}), outcome_unknown);
    EXPECT_EQ(outcome_of({first, local_error}), outcome_unknown);
    EXPECT_EQ(outcome_of({first, insufficient_storage}), outcome_unknown);
    EXPECT_EQ(outcome_of({first, access_denied}), access_denied);
  }
  EXPECT_EQ(outcome_of({connection_failed, slow_down, connection_failed}), connection_failed);
  EXPECT_EQ(outcome_of({slow_down, slow_down, slow_down}), slow_down);
  EXPECT_EQ(outcome_of({timed_out, timed_out, timed_out}), timed_out);
  // One refusal is no attempt before itself.
  EXPECT_EQ(outcome_of({insufficient_storage}), insufficient_storage);
  EXPECT_EQ(outcome_of({slow_down, insufficient_storage}), insufficient_storage);
}

TEST(Retry, GivesUpAfterTheLastAttempt) {
  const RetryPolicy policy{.attempts_max = 3, .base = 0ms, .cap = 0ms};
  unsigned attempts = 0, calls = 0;
  auto outcome = with_retries(policy, true, attempts, [&]() -> Outcome<int> {
    ++calls;
    return fault(ErrorCode::slow_down, "busy");
  });
  EXPECT_FALSE(outcome);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(attempts, 3u);
  outcome = with_retries(policy, true, attempts, [&]() -> Outcome<int> {
    if (++calls == 5) return 7;
    return fault(ErrorCode::slow_down, "busy");
  });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(*outcome, 7);
  EXPECT_EQ(attempts, 2u);
}

}  // namespace
}  // namespace verbena::client
