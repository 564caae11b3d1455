#include "memory/limited_call.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace verbena::memory::cuda {
namespace {

constexpr std::chrono::seconds patience{60};

// Calls that return when they are let go, each with a result that says on which thread it ends.
class LimitedCall : public testing::Test {
 protected:
  using Result = std::shared_ptr<std::string>;

  Result result(std::string text) {
    return {new std::string(std::move(text)), [this](const std::string* of) {
              ended_on_.set_value({std::this_thread::get_id(), left_alone_.load()});
              delete of;
            }};
  }
  auto blocked() {
    return [this, go = let_go_.get_future().share()] {
      go.wait();
      return result("late");
    };
  }
  struct End {
    std::thread::id thread;
    unsigned left_alone;
  };
  End end() {
    auto ended = ended_on_.get_future();
    EXPECT_EQ(ended.wait_for(patience), std::future_status::ready);
    return ended.get();
  }
  void wait_until_none_is_left_alone() const {
    for (const Deadline until = deadline_in(patience); left_alone_ != 0 && SteadyClock::now() < until;) {
      std::this_thread::yield();
    }
    EXPECT_EQ(left_alone_, 0u);
  }

  std::promise<void> let_go_;
  std::promise<End> ended_on_;
  std::atomic<unsigned> left_alone_{0};
};

TEST_F(LimitedCall, BringsWhatTheCallReturnsOnAThreadOfItsOwn) {
  const auto brought = limited_call([] { return std::this_thread::get_id(); }, left_alone_, deadline_in(patience), {});
  ASSERT_TRUE(brought);
  EXPECT_NE(*brought, std::this_thread::get_id());
  EXPECT_EQ(left_alone_, 0u);
}

TEST_F(LimitedCall, AResultThatComesLateEndsOnItsThreadAndIsCountedUntilThen) {
  const auto brought = limited_call(blocked(), left_alone_, deadline_in({}), {});
  ASSERT_FALSE(brought);
  EXPECT_EQ(brought.error(), NotBrought::late);
  EXPECT_EQ(left_alone_, 1u);
  let_go_.set_value();
  const End ended = end();
  EXPECT_NE(ended.thread, std::this_thread::get_id());
  EXPECT_EQ(ended.left_alone, 1u);
  wait_until_none_is_left_alone();
}

TEST_F(LimitedCall, AResultThatComesLateIsKeptByWhoeverAsksForIt) {
  std::promise<Result> kept;
  const auto brought = limited_call(blocked(), left_alone_, deadline_in({}), {}, NoThread::give_up, [&](Result late) {
    EXPECT_EQ(left_alone_, 1u) << "a caller that counts no calls left alone finds their results";
    kept.set_value(std::move(late));
  });
  ASSERT_FALSE(brought);
  let_go_.set_value();
  auto late = kept.get_future();
  ASSERT_EQ(late.wait_for(patience), std::future_status::ready);
  Result mine = late.get();
  wait_until_none_is_left_alone();
  EXPECT_EQ(*mine, "late");
  mine.reset();
  EXPECT_EQ(end().thread, std::this_thread::get_id()) << "nothing else has it any more";
}

TEST_F(LimitedCall, EndsWhenItsCallerStops) {
  std::stop_source stop;
  stop.request_stop();
  const auto brought = limited_call(blocked(), left_alone_, deadline_in(std::chrono::hours(1)), stop.get_token());
  ASSERT_FALSE(brought);
  EXPECT_EQ(brought.error(), NotBrought::late);
  let_go_.set_value();
  end();
  wait_until_none_is_left_alone();
}

}  // namespace
}  // namespace verbena::memory::cuda
