#include "base/sleep_cost.h"

#include <gtest/gtest.h>

namespace verbena {
namespace {

using namespace std::chrono_literals;

TEST(SleepCost, CheapSleepsLeaveTheTimeOfPollingAsItIs) {
  SleepCost cost;
  EXPECT_EQ(cost.poll_for(50us), 50us);
  for (int i = 0; i < 100; ++i) cost.add(5us);
  EXPECT_EQ(cost.poll_for(50us), 50us);
}

TEST(SleepCost, DearSleepsArePolledForTwiceAsLong) {
  SleepCost cost;
  for (int i = 0; i < 100; ++i) cost.add(200us);
  EXPECT_EQ(cost.poll_for(50us), 400us);
}

TEST(SleepCost, PollingIsBoundedHoweverDearASleepIs) {
  SleepCost cost;
  for (int i = 0; i < 100; ++i) cost.add(1s);
  EXPECT_EQ(cost.poll_for(50us), 500us);
}

TEST(SleepCost, OneSleepWithOtherWorkInItChangesLittle) {
  SleepCost cost;
  for (int i = 0; i < 100; ++i) cost.add(10us);
  cost.add(490us);
  EXPECT_EQ(cost.poll_for(0us), 80us);
  cost.add(10us);
  EXPECT_EQ(cost.poll_for(0us), 20us);
}

TEST(SleepCost, AThreadThatWorksUsesItsProcessor) {
  const auto before = thread_cpu_time();
  volatile unsigned sum = 0;
  while (thread_cpu_time() == before) sum = sum + 1;
  EXPECT_GT(thread_cpu_time(), before);
}

}  // namespace
}  // namespace verbena
