#include "admin/examination.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace verbena::admin {
namespace {

using std::chrono::milliseconds;

std::optional<Findings> wait_for(Examination& examination, BlockingPool& pool) {
  for (int turn = 0; turn < 10'000; ++turn) {
    if (auto found = examination.ask(pool)) return found;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::nullopt;
}

TEST(Examination, OneLookIsUnderWayHoweverManyAsk) {
  std::promise<void> disk;
  std::atomic<int> looks{0};
  BlockingPool pool(1, 16);
  const auto examination = std::make_shared<Examination>(
      [&, answers = disk.get_future().share()] {
        ++looks;
        answers.wait();
        return Findings{{Health::ok, "disk", "is there", {}}};
      },
      milliseconds(3'600'000));
  // A disk that does not answer blocks no caller, and takes no second thread or place in the queue.
  for (int turn = 0; turn < 100; ++turn) EXPECT_FALSE(examination->ask(pool));
  disk.set_value();
  const auto found = wait_for(*examination, pool);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at(0).subject, "disk");
  for (int turn = 0; turn < 100; ++turn) EXPECT_TRUE(examination->ask(pool));
  EXPECT_EQ(looks, 1);
}

TEST(Examination, WhatIsTooOldIsLookedAtAgain) {
  std::atomic<int> looks{0};
  BlockingPool pool(1, 16);
  const auto examination = std::make_shared<Examination>(
      [&] { return Findings{{Health::ok, "look", std::to_string(++looks), {}}}; }, milliseconds(0));
  EXPECT_FALSE(examination->ask(pool));
  for (int turn = 0; turn < 10'000 && looks < 3; ++turn) {
    EXPECT_FALSE(examination->ask(pool)) << "a result that is valid for no time is not reused";
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_GE(looks, 3);
}

TEST(Examination, AFullPoolIsAskedAgainLater) {
  std::promise<void> holds;
  const auto held = holds.get_future().share();
  BlockingPool pool(1, 1);
  while (pool.submit("test", [held] { held.wait(); })) {
  }
  const auto examination =
      std::make_shared<Examination>([] { return Findings{{Health::ok, "a", "b", {}}}; }, milliseconds(3'600'000));
  EXPECT_FALSE(examination->ask(pool));
  holds.set_value();
  EXPECT_TRUE(wait_for(*examination, pool));
}

}  // namespace
}  // namespace verbena::admin
