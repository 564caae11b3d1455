// What a server counts and remembers of tablets. On the cluster that tests/rados starts.
#include "store/conformance/on_rados.h"
#include "store/logic/keys.h"

namespace verbena::store::conformance {
namespace {

class CountsOnRados : public OnRados {
 protected:
  void SetUp() override {
    OnRados::SetUp();
    if (IsSkipped()) return;
    t = std::make_unique<RadosRig>();
    t->open();
    t->make_bucket("b");
    id = engine().buckets.find("b")->id;
    tablet = rados::tablet_object(id, 0);
  }
  void TearDown() override { t.reset(); }
  rados::Engine& engine() { return parts_of(*t); }
  void expect_usage(const Usage& wanted) {
    EXPECT_EQ(t->usage("b").value(), wanted);
    EXPECT_EQ(t->engine().usage_now("b")->bucket, wanted);
  }

  std::unique_ptr<RadosRig> t;
  uint64_t id = 0;
  std::string tablet;
};

// A leader that had read the signs of life before a server began took over that one's count, as of one that is gone.
TEST_F(CountsOnRados, AServerThatBeganAfterTheSignsWereReadIsNotTakenForGone) {
  ASSERT_TRUE(t->put("b", "k", "12345"));
  const uint64_t own = engine().garbage->incarnation();
  ASSERT_TRUE(engine().run(engine().book.take_over(tablet, {own - 1})));
  EXPECT_EQ(engine().run(engine().registry.all(tablet, "$"))->count(rados::usage_row(own)), 1u);
  ASSERT_TRUE(engine().run(engine().book.look(id)));
  expect_usage({.objects = 1, .bytes = 5});
}

// It counted what others had taken over once more, until it changed something in that tablet.
TEST_F(CountsOnRados, AServerWhoseCountWasTakenOverCountsItNoMore) {
  ASSERT_TRUE(t->put("b", "k", "12345"));
  const uint64_t own = engine().garbage->incarnation();
  ASSERT_TRUE(engine().run(engine().book.take_over(tablet, {own + 1})));
  EXPECT_EQ(engine().run(engine().registry.all(tablet, "$"))->count(rados::usage_row(own)), 0u);
  ASSERT_TRUE(engine().run(engine().book.look(id)));
  expect_usage({.objects = 1, .bytes = 5});
  ASSERT_TRUE(t->put("b", "l", "12345"));
  ASSERT_TRUE(engine().run(engine().book.look(id)));
  expect_usage({.objects = 2, .bytes = 10});
}

TEST_F(CountsOnRados, OfRemovedBucketsNothingIsRemembered) {
  const auto remembered = [&] {
    return std::vector{engine().batcher.remembered(), engine().splitter.remembered(), engine().ends.remembered()};
  };
  ASSERT_TRUE(t->put("b", "k", "x"));
  const auto before = remembered();
  for (int i = 0; i < 100; ++i) {
    t->make_bucket("one");
    ASSERT_TRUE(t->put("one", "k", "x"));
    ASSERT_TRUE(engine().run(engine().ends.mark(engine().buckets.find("one")->id)));
    ASSERT_TRUE(t->remove("one", "k"));
    ASSERT_TRUE(t->run(t->engine().remove_bucket("one")));
  }
  EXPECT_EQ(remembered(), before);
}

}  // namespace
}  // namespace verbena::store::conformance
