// The cost of a verb when each look is a round trip.
#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class FarAway : public ::testing::Test {
 protected:
  FarAway() : near_({.arena = &t.arena(), .clock = &t.clock()}), far_(near_.context()) {
    make("b", Versioning::off);
    make("v", Versioning::enabled);
  }
  void make(const std::string& name, Versioning versioning) {
    ASSERT_TRUE(t.run(far_.create_bucket({.name = name, .owner = "root", .versioning = versioning})));
  }
  // Round trips of looks while `task` runs.
  template <class T>
  uint64_t trips(Task<Result<T>> task) {
    const uint64_t before = far_.catalogue().round_trips();
    EXPECT_TRUE(t.run(std::move(task)));
    return far_.catalogue().round_trips() - before;
  }
  Task<Result<ObjectInfo>> put(std::string bucket, std::string key, CommitConditions conditions = {}) {
    VB_CO_ASSIGN(auto writer, co_await far_.create(bucket, key, 0));
    ObjectInfo nothing;
    co_return co_await writer->commit(std::move(nothing), std::move(conditions));
  }
  Task<Result<void>> get(std::string bucket, std::string key) {
    VB_CO_TRY(co_await far_.open(bucket, key));
    co_return Result<void>{};
  }

  MemoryRig t;
  in_memory::MemoryStore near_;
  FarStore far_;
};

TEST_F(FarAway, APutLooksOnceAndAGetOnce) {
  EXPECT_EQ(trips(put("b", "k")), 1u);
  EXPECT_EQ(trips(put("b", "k")), 1u);
  EXPECT_EQ(trips(put("b", "new", {.if_none_match = "*"})), 1u);
  EXPECT_EQ(trips(put("v", "k")), 1u);
  EXPECT_EQ(trips(put("v", "k")), 1u);
  EXPECT_EQ(trips(get("b", "k")), 1u);
  EXPECT_EQ(trips(far_.stat("v", "k", {})), 1u);
  EXPECT_EQ(trips(far_.remove("b", "k", {})), 1u);
}

TEST_F(FarAway, APageOfAListingIsFetchedOnceHoweverLongTheListIs) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(t.run(put("b", "k" + std::to_string(100 + i))));
  EXPECT_EQ(trips(far_.list("b", {.prefix = "", .delimiter = "", .after = "", .max_keys = 5})), 1u);
  EXPECT_EQ(trips(far_.list("b", {.prefix = "", .delimiter = "", .after = "k190", .max_keys = 5})), 1u);
}

TEST_F(FarAway, WhoLosesARaceIsJudgedAgainAndSeesTheWinner) {
  // Both find the key absent; the second commit must not.
  int made = 0, refused = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string key = "k" + std::to_string(i);
    auto first = boost::asio::co_spawn(t.io(), put("b", key, {.if_none_match = "*"}), boost::asio::use_future);
    auto second = boost::asio::co_spawn(t.io(), put("b", key, {.if_none_match = "*"}), boost::asio::use_future);
    t.io().restart();
    t.io().run();
    for (auto* outcome : {&first, &second}) {
      const auto done = outcome->get();
      made += done.has_value();
      refused += !done && done.error() == Errc::precondition_failed;
    }
  }
  EXPECT_EQ(made, 10);
  EXPECT_EQ(refused, 10);
}

}  // namespace
}  // namespace verbena::store::conformance
