// What only the engine over RADOS has: tablets that are split, and calls that can be counted. On the cluster that
// tests/rados starts.
#ifdef VERBENA_RADOS
#include <set>

#include "store/conformance/rados_rig.h"
#include "store/rados/engine.h"

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

// A server that began to move an object to another tablet's key and went away: as it left things. `half`: the target's
// half had happened.
void leave_a_move(RadosRig& t, const std::string& from, const std::string& to, bool half) {
  auto& engine = static_cast<rados::Engine&>(*t.store().context());
  const uint64_t id = engine.buckets.find("b")->id;
  const auto bucket = engine.run(engine.registry.load(id));
  ASSERT_TRUE(bucket);
  const auto tablet = [&](const std::string& key) { return (*bucket)->tablets[(*bucket)->tablet_of("o" + key)]; };
  const rados::Tablet source = tablet(from), target = tablet(to);
  ASSERT_NE(source.number, target.number);
  const auto head = engine.run(engine.registry.row(source.object, "o" + from));
  rados::Move move;
  move.to = target.number;
  move.guard_row = rados::guard_row(from);
  move.guard_seen = *engine.run(engine.registry.row(source.object, move.guard_row));
  move.gone = {"o" + from, move.guard_row};
  const auto frozen =
      engine.run(engine.registry.set_phase(*bucket, rados::Phase::moving, source.number, rados::encode(move)));
  ASSERT_TRUE(frozen);
  if (!half) return;
  librados::ObjectWriteOperation op;
  const std::map<std::string, rados::Buffer> rows = {
      {"o" + to, rados::to_buffer(*head)},
      {rados::guard_row(to), rados::to_buffer(rados::encode(rados::Guard{1, 1}))},
      {rados::moved_row, rados::to_buffer((*frozen)->phase_who())}};
  op.omap_set(rows);
  ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, target.object, std::move(op))), 0);
}

// Found by a history: a listing that had begun before the split showed a version that was gone.
TEST_F(OnRados, WhatIsChangedInANewTabletIsNotReadInTheOldOneAnyMore) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "a", "x"));
  auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  // It is decided that "m" and all behind it lie in a new tablet, and nothing more has happened.
  auto& engine = static_cast<rados::Engine&>(*t.store().context());
  const auto bucket = engine.run(engine.registry.load(engine.buckets.find("b")->id));
  const auto frozen = engine.run(engine.registry.set_phase(*bucket, rados::Phase::splitting, 0));
  ASSERT_TRUE(frozen);
  librados::ObjectWriteOperation made;
  made.create(true);
  made.setxattr(rados::epoch_attribute, rados::to_buffer((*frozen)->epoch_text));
  const std::string tablet = rados::tablet_object((*frozen)->id, 99);
  ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, tablet, std::move(made))), 0);
  const std::string epoch = std::to_string((*frozen)->epoch + 1);
  rados::Registry::Fill decide = [&epoch](librados::ObjectWriteOperation& op) {
    const std::map<std::string, rados::Buffer> row = {{"tm", rados::to_buffer(keys::number(99))}};
    op.omap_set(row);
    op.omap_rm_keys({"p"});
    op.setxattr(rados::epoch_attribute, rados::to_buffer(epoch));
  };
  ASSERT_TRUE(engine.run(engine.registry.change_rows(*frozen, std::move(decide))));
  auto writer = t.run((*other)->create("b", "z", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "new"));
  ObjectInfo info;
  info.size = 3;
  ASSERT_TRUE(t.run((*writer)->commit(info, {})));
  writer->reset();
  EXPECT_EQ(t.get("b", "z").value_or("nothing"), "new") << "another server has acknowledged it";
}

TEST_F(OnRados, AMoveThatWasLeftIsUndoneOrFinishedByWhoeverComes) {
  SplittingRadosRig t;
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(t.put("b", key(i), ""));
  ASSERT_TRUE(eventually([&] { return t.store().survey()->tablets >= 3; }));
  leave_a_move(t, key(0), key(59) + "x", /*half=*/false);
  EXPECT_TRUE(t.get("b", key(0))) << "nothing had happened";
  EXPECT_EQ(t.get("b", key(59) + "x").error(), Errc::no_such_key);
  leave_a_move(t, key(0), key(59) + "x", /*half=*/true);
  EXPECT_EQ(t.get("b", key(0)).error(), Errc::no_such_key) << "it is moved";
  EXPECT_TRUE(t.get("b", key(59) + "x"));
  ASSERT_TRUE(t.put("b", key(0), "again"));
  EXPECT_EQ(*t.get("b", key(0)), "again");
  EXPECT_EQ(t.list("b")->entries.size(), 61u);
  EXPECT_FALSE(t.leaks());
}

TEST_F(OnRados, WhatAServerCountedThatIsGoneIsTakenOverOnce) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(t.put("b", key(i), "12345"));
    t.reopen();  // each time another server, which counts in a row of its own
  }
  auto& engine = static_cast<rados::Engine&>(*t.store().context());
  const uint64_t id = engine.buckets.find("b")->id;
  const std::string tablet = rados::tablet_object(id, 0);
  ASSERT_TRUE(t.put("b", key(3), "12345"));
  // Its own row, too: as if it had been away for long. It finds out with its next change but one, at the latest.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine.run(engine.book.take_over(tablet, {})));
  EXPECT_EQ(engine.run(engine.registry.all(tablet, "$"))->size(), 1u);
  EXPECT_EQ(t.usage("b").value(), (Usage{.objects = 4, .bytes = 20}));
  ASSERT_TRUE(t.put("b", key(4), "12345"));
  EXPECT_EQ(t.usage("b").value(), (Usage{.objects = 5, .bytes = 25}));
  ASSERT_TRUE(engine.run(engine.book.look(id)));
  EXPECT_EQ(t.engine().usage_now("b")->bucket, (Usage{.objects = 5, .bytes = 25}));
}

TEST_F(OnRados, AServerThatWasGivenUpFinishesNothingOfItsEarlierLife) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  auto& engine = static_cast<rados::Engine&>(*t.store().context());
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  const std::string bytes = pattern(5'000'000, 1);
  ASSERT_TRUE(t.append(**writer, bytes));
  // As another server does that has heard nothing of it for half a minute.
  const std::string row = rados::server_row(engine.garbage->incarnation());
  EXPECT_TRUE(eventually([&] {
    std::string sign = *engine.run(engine.registry.row(std::string(rados::servers_object), row));
    return engine.run(rados::forget_server(engine.registry, row, std::move(sign))).value();
  }));
  EXPECT_TRUE(eventually([&] { return engine.garbage->life() == 2; }));
  ObjectInfo info;
  info.size = bytes.size();
  EXPECT_EQ(t.run((*writer)->commit(info, {})).error(), Errc::service_unavailable);
  writer->reset();
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  ASSERT_TRUE(t.put("b", "k", bytes)) << "what is begun now is of its life now";
  EXPECT_EQ(*t.get("b", "k"), bytes);
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
