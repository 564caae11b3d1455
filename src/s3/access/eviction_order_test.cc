#include "s3/access/eviction_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace verbena::s3 {
namespace {

const auto none_pinned = [](std::string_view) { return false; };

using Pinned = std::function<bool(std::string_view)>;

std::optional<EvictionOrder::Object> next_of(EvictionOrder& order, const Pinned& is_pinned) {
  size_t steps = 1'000'000;
  return order.next(is_pinned, steps);
}

std::string next_key(EvictionOrder& order) {
  const auto next = next_of(order, none_pinned);
  if (!next) return "none";
  order.erase(next->key);
  return next->key;
}

TEST(EvictionOrder, InS3FifoAScanDoesNotPushOutWhatIsRead) {
  EvictionOrder order(EvictionPolicy::s3_fifo);
  for (int i = 0; i < 10; ++i) order.put({"hot" + std::to_string(i), 1});
  for (int i = 0; i < 10; ++i) order.read("hot" + std::to_string(i));
  for (int i = 0; i < 1000; ++i) {
    order.put({"scan" + std::to_string(i), 1});
    if (order.objects() <= 20) continue;
    EXPECT_TRUE(next_key(order).starts_with("scan")) << i;
    for (int k = 0; k < 10; ++k) order.read("hot" + std::to_string(k));
  }
  EXPECT_EQ(order.objects(), 20U);
  EXPECT_EQ(order.bytes(), 20U);
}

TEST(EvictionOrder, InS3FifoAKeyThatComesBackIsKeptLonger) {
  EvictionOrder order(EvictionPolicy::s3_fifo);
  for (int i = 0; i < 20; ++i) order.put({"k" + std::to_string(i), 1});
  EXPECT_EQ(next_key(order), "k0");
  order.put({"k0", 1});
  EXPECT_EQ(next_key(order), "k1");
  for (int i = 2; i < 18; ++i) EXPECT_NE(next_key(order), "k0");
}

TEST(EvictionOrder, WhatIsKeptIsNeverNextAndIsFew) {
  for (const auto policy : {EvictionPolicy::s3_fifo, EvictionPolicy::lru, EvictionPolicy::ttl}) {
    EvictionOrder order(policy, {.suffix = "/kept", .bytes_max = 10, .objects_max = 2});
    order.put({"a/kept", 4, 0, 1});
    for (int i = 0; i < 20; ++i) order.put({"k" + std::to_string(i), 1, 0, 50});
    order.put({"large/kept", 7});  // with the first one more than may be kept
    order.put_oldest({"b/kept", 1});
    order.put({"c/kept", 1});  // the third
    EXPECT_EQ(order.objects(), 24U);
    EXPECT_EQ(order.bytes(), 33U);
    std::set<std::string> evicted;
    for (std::string key = next_key(order); key != "none"; key = next_key(order)) evicted.insert(key);
    EXPECT_EQ(evicted.size(), 22U);
    EXPECT_TRUE(evicted.contains("large/kept") && evicted.contains("c/kept"));
    EXPECT_EQ(order.bytes(), 5U);
    order.put({"a/kept", 9});  // replaced, and still within the limit
    EXPECT_EQ(next_key(order), "none");
    order.put({"a/kept", 11});
    EXPECT_EQ(next_key(order), "a/kept") << "too large by now";
    order.put({"a/kept", 5});
    order.limit_kept(5, 1);
    EXPECT_EQ(next_key(order), "a/kept") << "the last that came leaves first";
    EXPECT_EQ(next_key(order), "none");
    order.erase("b/kept");
    EXPECT_EQ(order.bytes(), 0U);
  }
}

TEST(EvictionOrder, WhatWasRenewedBeforeAStartGoesAroundOnce) {
  EvictionOrder order(EvictionPolicy::s3_fifo);
  order.put_oldest({.key = "young", .size = 1, .time_us = 9});
  order.put_oldest({.key = "renewed", .size = 1, .time_us = 1, .end_us = 50, .renewed_us = 7});
  order.put_oldest({.key = "old", .size = 1, .time_us = 5});
  EXPECT_EQ(next_key(order), "old");
  EXPECT_EQ(next_key(order), "young");
  EXPECT_EQ(next_key(order), "renewed");
}

TEST(EvictionOrder, LruEvictsWhatWasNotReadForLongest) {
  EvictionOrder order(EvictionPolicy::lru);
  for (const char* key : {"a", "b", "c"}) order.put({key, 1});
  order.read("a");
  EXPECT_EQ(next_key(order), "b");
  order.put({"c", 5});
  EXPECT_EQ(order.bytes(), 6U);
  EXPECT_EQ(next_key(order), "a");
  EXPECT_EQ(next_key(order), "c");
  EXPECT_EQ(next_key(order), "none");
}

TEST(EvictionOrder, AVictimIsCountedUntilItIsErasedAndIsReturnedOnce) {
  for (const auto policy : {EvictionPolicy::s3_fifo, EvictionPolicy::lru, EvictionPolicy::ttl}) {
    EvictionOrder order(policy);
    order.put({.key = "a", .size = 7, .end_us = 5});
    const auto victim = next_of(order, none_pinned);
    ASSERT_TRUE(victim);
    EXPECT_EQ(order.bytes(), 7U);
    EXPECT_FALSE(next_of(order, none_pinned));
    order.give_back(*victim);
    EXPECT_TRUE(next_of(order, none_pinned));
    order.put({.key = "a", .size = 8, .end_us = 6});  // written again while it leaves
    EXPECT_EQ(next_of(order, none_pinned)->size, 8U);
    order.forget_left("a");
    EXPECT_EQ(order.bytes() + order.objects(), 0U);
  }
}

TEST(EvictionOrder, PinnedObjectsArePassedOver) {
  for (const auto policy : {EvictionPolicy::s3_fifo, EvictionPolicy::lru, EvictionPolicy::ttl}) {
    EvictionOrder order(policy);
    for (int i = 0; i < 50; ++i) order.put({.key = "k" + std::to_string(i), .size = 1, .end_us = i % 2 ? i : 0});
    const auto pinned = [](std::string_view key) { return key != "k30"; };
    EXPECT_EQ(next_of(order, pinned)->key, "k30");
    EXPECT_FALSE(next_of(order, pinned));
  }
}

TEST(EvictionOrder, PinnedObjectsAreSetAsideAndComeBack) {
  for (const auto policy : {EvictionPolicy::s3_fifo, EvictionPolicy::lru, EvictionPolicy::ttl}) {
    EvictionOrder order(policy);
    for (int i = 0; i < 1000; ++i) order.put({.key = "k" + std::to_string(i), .size = 1, .end_us = i + 1});
    size_t looks = 0;
    const auto pinned = [&](std::string_view key) { return ++looks, key.size() < 4; };  // k0 to k99
    for (int i = 0; i < 900; ++i) ASSERT_TRUE(next_of(order, pinned));
    EXPECT_LE(looks, 1000U);
    EXPECT_FALSE(next_of(order, pinned));
    order.put({.key = "k5", .size = 3, .end_us = 9});
    EXPECT_EQ(order.bytes(), 1002U);
    order.look_again(10);
    order.erase("k7");
    size_t left = 0;
    while (next_of(order, none_pinned)) ++left;
    EXPECT_EQ(left, 99U);
  }
}

TEST(EvictionOrder, ByTtlEndsComeFirstAndThenAge) {
  EvictionOrder order(EvictionPolicy::ttl);
  order.put({.key = "old", .size = 1});
  order.put({.key = "late", .size = 1, .end_us = 9});
  order.put({.key = "early", .size = 1, .end_us = 5});
  order.put_oldest({.key = "oldest", .size = 1});
  order.change_end("late", 4);
  for (const char* key : {"late", "early", "oldest", "old", "none"}) EXPECT_EQ(next_key(order), key);
}

// Under the lock of a Bound all commits of the server would wait for it.
TEST(EvictionOrder, AVictimIsLookedForInStepsHoweverMuchWasRead) {
  EvictionOrder order(EvictionPolicy::s3_fifo);
  for (int i = 0; i < 1000; ++i) order.put({"k" + std::to_string(i), 1});
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 1000; ++i) order.read("k" + std::to_string(i));
  }
  size_t looks = 0, calls = 0;
  const auto counted = [&](std::string_view) { return ++looks, false; };
  for (;;) {
    size_t steps = 100;
    looks = 0;
    ++calls;
    const auto victim = order.next(counted, steps);
    ASSERT_LE(looks, 100U);
    if (victim) break;
    ASSERT_EQ(steps, 0U) << "said that all are pinned";
  }
  EXPECT_GE(calls, 10U);
  EXPECT_LE(calls, 45U);
}

TEST(EvictionOrder, WhatIsReadAsFastAsItGoesAroundIsEvictedAllTheSame) {
  EvictionOrder order(EvictionPolicy::s3_fifo);
  for (int i = 0; i < 20; ++i) order.put_oldest({"k" + std::to_string(i), 1});
  for (int calls = 0; calls < 200; ++calls) {
    for (int i = 0; i < 20; ++i) order.read("k" + std::to_string(i));
    size_t steps = 5;
    if (order.next(none_pinned, steps)) return;
  }
  FAIL() << "none";
}

TEST(EvictionOrder, PinnedOnesAreLookedAtInStepsAndThenAllOfThemArePinned) {
  EvictionOrder order(EvictionPolicy::lru);
  for (int i = 0; i < 100; ++i) order.put({"k" + std::to_string(i), 1});
  const auto pinned = [](std::string_view) { return true; };
  EXPECT_FALSE(next_of(order, pinned));
  for (int look = 0; look < 2; ++look) {
    size_t calls = 0, steps = 0;
    while (steps == 0) {
      ++calls;
      steps = 30;
      EXPECT_FALSE(order.next(pinned, steps));
    }
    EXPECT_EQ(calls, 4U);
  }
}

TEST(EvictionOrder, OtherSettingsRearrangeWhatIsThereInSteps) {
  for (const bool at_once : {false, true}) {
    EvictionOrder order(EvictionPolicy::lru, {.suffix = "/a", .bytes_max = 100, .objects_max = 10});
    for (int i = 0; i < 100; ++i) order.put({.key = "k" + std::to_string(i), .size = 2, .end_us = 1000 - i});
    order.put({.key = "x/a", .size = 1, .end_us = 5});
    order.put({.key = "x/b", .size = 1, .end_us = 4});
    order.change(EvictionPolicy::ttl, {.suffix = "/b", .bytes_max = 100, .objects_max = 10});
    EXPECT_EQ(order.objects(), 102U);
    EXPECT_EQ(order.bytes(), 202U);
    if (at_once) {
      size_t calls = 1;
      while (order.arrange(25)) ++calls;
      EXPECT_GE(calls, 4U);
      EXPECT_EQ(next_key(order), "x/a");
      EXPECT_EQ(next_key(order), "k99");
    } else {
      order.erase("k7");
      order.put({.key = "k8", .size = 3, .end_us = 1});
      order.change_end("k9", 2);
      EXPECT_EQ(next_key(order), "k8") << "what is in the new order goes first";
      while (order.arrange(25)) {
      }
      EXPECT_EQ(next_key(order), "k9");
    }
    order.change(EvictionPolicy::s3_fifo, {.suffix = "", .bytes_max = 100, .objects_max = 10});
    order.change(EvictionPolicy::lru, {.suffix = "", .bytes_max = 100, .objects_max = 10});
    std::set<std::string> left;
    for (std::string key = next_key(order); key != "none"; key = next_key(order)) left.insert(key);
    EXPECT_EQ(left.size(), at_once ? 100U : 99U);
    EXPECT_TRUE(left.contains("x/b"));
    EXPECT_EQ(order.bytes() + order.objects(), 0U);
    EXPECT_FALSE(order.arrange(1000));
  }
}

TEST(EvictionOrder, AnOrderIsForgottenInSteps) {
  EvictionOrder order(EvictionPolicy::ttl);
  for (int i = 0; i < 100; ++i) order.put({.key = "k" + std::to_string(i), .size = 2, .end_us = 1000 - i});
  size_t calls = 1;
  while (order.forget(30)) ++calls;
  EXPECT_EQ(calls, 4U);
  EXPECT_EQ(order.bytes() + order.objects(), 0U);
}

}  // namespace
}  // namespace verbena::s3
