// What only the engine over RADOS has: tablets that are split, and calls that can be counted. On the cluster that
// tests/rados starts.
#ifdef VERBENA_RADOS
#include <set>

#include "store/conformance/rados_rig.h"

namespace verbena::store::conformance {
namespace {

class OnRados : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RadosRig::has_cluster()) GTEST_SKIP() << "no cluster: tests/rados/conformance_test.py starts one";
  }
  static std::string key(int i) { return "key/" + std::to_string(1000 + i); }
  // All keys of the bucket, a page after the other.
  static std::vector<std::string> keys_of(Rig& t, int page) {
    std::vector<std::string> keys;
    ListRequest request;
    request.max_keys = page;
    for (bool more = true; more;) {
      auto listed = t.list("b", request);
      EXPECT_TRUE(listed);
      if (!listed) break;
      for (const auto& entry : listed->entries) keys.push_back(entry.key);
      more = listed->truncated;
      request.after = listed->next_after;
    }
    return keys;
  }
};

TEST_F(OnRados, ATabletIsSplitWhileKeysAreWrittenAndEveryOneIsThere) {
  SplittingRadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  std::vector<std::string> wanted;
  for (int i = 0; i < 120; ++i) {
    wanted.push_back(key(i));
    ASSERT_TRUE(t.put("b", key(i), "first"));
    ASSERT_TRUE(t.put("b", key(i), pattern(i % 10 == 0 ? 70'000 : 100, static_cast<uint64_t>(i))));
  }
  uint64_t tablets = 1;
  for (int i = 0; i < 5000 && tablets < 3; ++i) {
    const auto survey = t.store().survey();
    ASSERT_TRUE(survey);
    tablets = survey->tablets;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(tablets, 3u);
  for (const int page : {7, 1000}) EXPECT_EQ(keys_of(t, page), wanted);
  EXPECT_EQ(t.list_versions("b")->versions.size(), 240u);
  t.reopen();
  EXPECT_EQ(keys_of(t, 1000), wanted);
  for (int i = 0; i < 120; ++i) {
    EXPECT_EQ(*t.get("b", key(i)), pattern(i % 10 == 0 ? 70'000 : 100, static_cast<uint64_t>(i)));
  }
  EXPECT_FALSE(t.leaks());
}

TEST_F(OnRados, RequestsCostFewCallsHoweverManyKeysThereAre) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(t.put("b", key(i), "x"));
  const auto calls_of = [&t](auto request) {
    uint64_t least = UINT64_MAX;  // the store makes calls of its own now and then
    for (int i = 0; i < 5; ++i) {
      const uint64_t before = t.store().calls();
      request(i);
      least = std::min(least, t.store().calls() - before);
    }
    return least;
  };
  EXPECT_EQ(calls_of([&](int) { EXPECT_TRUE(t.run(t.engine().stat("b", key(7)))); }), 1u);
  EXPECT_EQ(calls_of([&](int) { EXPECT_EQ(*t.get("b", key(7)), "x"); }), 1u);
  EXPECT_EQ(calls_of([&](int i) { EXPECT_TRUE(t.put("b", key(500 + i), "x")); }), 2u);
  for (const int from : {0, 290}) {
    ListRequest page;
    page.after = key(from);
    page.max_keys = 5;
    EXPECT_EQ(calls_of([&](int) { EXPECT_EQ(t.list("b", page)->entries.size(), 5u); }), 1u);
  }
}

}  // namespace
}  // namespace verbena::store::conformance
#endif
