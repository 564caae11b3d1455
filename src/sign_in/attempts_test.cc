#include "sign_in/attempts.h"

#include <gtest/gtest.h>

namespace verbena::sign_in {
namespace {

class AttemptsClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  int64_t now_s = 1'767'323'045;
};

class AttemptsTest : public testing::Test {
 protected:
  int taken(const std::string& name, int times) {
    int out = 0;
    for (int i = 0; i < times; ++i) out += attempts_.take(name) ? 1 : 0;
    return out;
  }
  AttemptsClock clock_;
  Attempts attempts_{clock_, {.tries_max = 4, .forgiven_s = 10, .entries_max = 8}};
};

TEST_F(AttemptsTest, SoManyAtOnceAndThenOneAfterTheOther) {
  EXPECT_EQ(taken("alice", 100), 4);
  EXPECT_EQ(taken("bob", 1), 1);
  clock_.now_s += 9;
  EXPECT_EQ(taken("alice", 100), 0);
  clock_.now_s += 1;
  EXPECT_EQ(taken("alice", 100), 1);
  clock_.now_s += 1000;
  EXPECT_EQ(taken("alice", 100), 4);
}

TEST_F(AttemptsTest, WhoWasRightHasNotTried) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(attempts_.take("alice"));
    attempts_.give_back("alice");
  }
  EXPECT_EQ(taken("alice", 100), 4);
}

TEST_F(AttemptsTest, NamesWithoutEndTakeNoMemoryAndDoNotHideTheOneThatIsGuessedAt) {
  EXPECT_EQ(taken("alice", 100), 4);
  for (int i = 0; i < 1000; ++i) taken("nobody" + std::to_string(i), 1);
  EXPECT_EQ(taken("alice", 100), 0);
}

}  // namespace
}  // namespace verbena::sign_in
