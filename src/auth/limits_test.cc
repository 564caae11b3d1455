#include "auth/limits.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace verbena::auth {
namespace {

constexpr int64_t second_ns = 1'000'000'000;

TEST(Quota, IsReadAndWritten) {
  const std::string text = R"({"bytes":10737418240,"bytes_per_second":1048576,"objects":0,"requests_per_second":50})";
  const auto quota = parse_quota(text);
  ASSERT_TRUE(quota);
  EXPECT_EQ(*quota, (Quota{10'737'418'240, 0, 50, 1'048'576}));
  EXPECT_EQ(quota_text(*quota), text);
  EXPECT_TRUE(parse_quota("{}")->empty());
}

TEST(Quota, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "[]", "1", "{\"bytes\":-1}", "{\"bytes\":1.5}", "{\"bytes\":\"1\"}", "{\"byte\":1}",
        "{\"requests_per_second\":0}", "{\"bytes_per_second\":1023}", "{\"bytes\":4611686018427387905}",
        "{\"bytes\":18446744073709551616}", "{\"objects\":null}", "{\"bytes_per_second\":1000000000001}"}) {
    EXPECT_EQ(parse_quota(text).error(), Errc::invalid_argument) << text;
  }
  EXPECT_EQ(parse_quota(std::string(100'000, '[')).error(), Errc::invalid_argument);
}

TEST(Meter, ASecondsWorthMayComeAtOnceAndThenItIsTheRate) {
  Meter meter;
  int let_in = 0;
  for (int i = 0; i < 100; ++i) let_in += meter.take(1, 10, 5 * second_ns) == 0 ? 1 : 0;
  EXPECT_EQ(let_in, 10);
  EXPECT_GT(meter.take(1, 10, 5 * second_ns), 0u);
  EXPECT_EQ(meter.take(1, 10, 5 * second_ns + second_ns / 5), 0u);  // a fifth of a second is two requests
  EXPECT_EQ(meter.take(1, 10, 5 * second_ns + second_ns / 5), 0u);
  EXPECT_NE(meter.take(1, 10, 5 * second_ns + second_ns / 5), 0u);
}

TEST(Meter, SaysHowLongToWait) {
  Meter meter;
  meter.charge(10, 1, 0);
  const uint64_t wait = meter.wait_ns(0);
  EXPECT_EQ(wait, static_cast<uint64_t>(9 * second_ns + 1));
  EXPECT_NE(meter.take(1, 1, static_cast<int64_t>(wait) - 1), 0u);
  EXPECT_EQ(meter.take(1, 1, static_cast<int64_t>(wait)), 0u);
}

TEST(Meter, WhatIsGivenBackIsWhatTimeHasNotPaidFor) {
  Meter meter;
  const int64_t first = meter.charge(10, 1, 0);
  meter.charge(5, 1, 0);
  EXPECT_EQ(first, 10 * second_ns);
  meter.give_back(10, 1, first, 4 * second_ns);  // four of them are paid for
  EXPECT_EQ(meter.wait_ns(4 * second_ns), static_cast<uint64_t>(4 * second_ns + 1)) << "the five of the other stay";
  meter.give_back(10, 1, first, 11 * second_ns);
  EXPECT_EQ(meter.wait_ns(4 * second_ns), static_cast<uint64_t>(4 * second_ns + 1)) << "nothing is saved up";
}

TEST(Meter, WhatNobodyCanPayDoesNotOverflow) {
  Meter meter;
  for (int i = 0; i < 100; ++i) meter.charge(UINT64_MAX, 1, 0);
  EXPECT_GT(meter.wait_ns(0), 0u);
  EXPECT_GT(meter.wait_ns(50 * 365 * 86'400 * second_ns), 0u);
}

bool reserve(const Limits& limits, uint64_t bytes, uint64_t objects, uint64_t held_bytes, uint64_t held_objects) {
  const auto claim = limits.claim(bytes, objects);
  if (claim && limits.fits(*claim, held_bytes, held_objects)) return true;
  if (claim) limits.release(bytes, objects);
  return false;
}

TEST(Limits, ReservationsNeverGoBeyondTheQuota) {
  const Limits limits(Quota{.bytes = 1000, .objects = 10});
  EXPECT_TRUE(reserve(limits, 600, 1, 300, 0));
  EXPECT_FALSE(reserve(limits, 101, 1, 300, 0));
  EXPECT_TRUE(reserve(limits, 100, 1, 300, 0));
  EXPECT_FALSE(reserve(limits, 0, 9, 0, 0));
  EXPECT_TRUE(reserve(limits, 0, 8, 0, 0));
  limits.release(600, 1);
  EXPECT_TRUE(reserve(limits, 600, 1, 300, 0));
}

TEST(Limits, MoreThanThereCanBeIsRefusedAndForgotten) {
  const Limits limits(Quota{.bytes = 1000, .objects = 10});
  EXPECT_FALSE(reserve(limits, UINT64_MAX, 1, 0, 0));
  EXPECT_FALSE(reserve(limits, UINT64_MAX - 5, UINT64_MAX, 0, 0));
  EXPECT_TRUE(reserve(limits, 1000, 10, 0, 0)) << "what was refused holds nothing";
}

// A quota may be set below the current use: nothing can be added, and requests that add nothing are admitted.
TEST(Limits, WhoHasTooMuchAlreadyMayOnlyTakeNothing) {
  const Limits limits(Quota{.bytes = 1000, .objects = {}});
  EXPECT_FALSE(reserve(limits, 1, 1, 5000, 5));
  EXPECT_TRUE(reserve(limits, 0, 1, 5000, 5));
}

TEST(Limits, ManyAtOnceGetWhatThereIsAndNoMore) {
  const Limits limits(Quota{.bytes = 1000, .objects = {}});
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) granted += reserve(limits, 7, 1, 0, 0) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(granted * 7, 1000);
  EXPECT_GT(granted, 0);
}

TEST(Limits, RatesAreAskedForWhileThereIsOne) {
  ASSERT_FALSE(rates_are_in_use());
  auto sizes = make_limits(Quota{.bytes = 1, .objects = {}});
  EXPECT_FALSE(rates_are_in_use());
  auto requests = make_limits(Quota{.bytes = {}, .objects = {}, .requests_per_s = 1});
  auto bytes = make_limits(Quota{.bytes = {}, .objects = {}, .requests_per_s = {}, .bytes_per_s = 1});
  EXPECT_TRUE(rates_are_in_use());
  const auto same = requests;
  requests.reset();
  bytes = make_limits(Quota{.bytes = 1, .objects = {}}, bytes);
  EXPECT_TRUE(rates_are_in_use()) << "one is held still";
}

TEST(Limits, NoneIsAskedForOnceTheLastIsGone) {
  EXPECT_FALSE(rates_are_in_use());
  make_limits(Quota{.bytes = {}, .objects = {}, .requests_per_s = 1});
  EXPECT_FALSE(rates_are_in_use());
}

TEST(Limits, WhoIsInDebtIsNotAdmitted) {
  const Limits limits(Quota{.bytes = {}, .objects = {}, .requests_per_s = 100, .bytes_per_s = 1024});
  EXPECT_EQ(limits.admit(1, 0), 0u);
  limits.charge(10 * 1024, 0);
  EXPECT_EQ(limits.admit(1, 0), static_cast<uint64_t>(9 * second_ns + 1));
  EXPECT_EQ(limits.admit(1, 9 * second_ns + 1), 0u);
}

TEST(Limits, AQuotaThatStaysIsTheSameOne) {
  const auto before = make_limits(Quota{.bytes = 1});
  EXPECT_EQ(make_limits(Quota{.bytes = 1}, before), before);
  EXPECT_NE(make_limits(Quota{.bytes = 2}, before), before);
  EXPECT_EQ(make_limits(Quota{}, before), nullptr);
}

}  // namespace
}  // namespace verbena::auth
