// Several servers over RADOS that answer from memory under read leases: after a change by one of them no other answers
// the old object. On the cluster that tests/rados starts.
#include <boost/asio/post.hpp>

#include <latch>
#include <thread>

#include "store/conformance/rados_rig.h"
#include "store/rados/engine.h"
#include "store/rados/inspect/admin.h"

namespace verbena::store::conformance {
namespace {

rados::Engine& engine_of(rados::RadosStore& store) { return static_cast<rados::Engine&>(*store.context()); }

// Another server of the same store. Reads belong to its own thread, as in a rig.
class Neighbour final : public Rig {
 public:
  explicit Neighbour(const rados::Options& of) : options_(of) {
    options_.arena = arena_.get();
    options_.clock = &clock_;
    Neighbour::open();
  }
  void open() override {
    hot_.reset();
    store_.reset();
    auto opened = rados::RadosStore::connect(options_);
    if (!opened) ADD_FAILURE() << opened.error();
    store_ = std::move(*opened);
    hot_ = std::make_unique<HotStore>(
        *store_,
        HotStore::Options{.arena = arena_.get(), .capacity = 16 * MiB, .shared = store_.get(), .keep_after = 1});
  }
  Store& engine() override { return *hot_; }
  uint64_t live_bytes() override { return 0; }
  bool leaks() override { return false; }

  rados::RadosStore& store() { return *store_; }
  rados::Engine& parts() { return engine_of(*store_); }
  uint64_t term() { return parts().read_leases->term(LeaseClock::now()); }
  bool answers_alone(const std::string& key) { return hot_->hot("b", key) != nullptr; }
  // Reads the key until it is under a read lease.
  void keep(const std::string& key) {
    EXPECT_TRUE(eventually([&] { return get("b", key).has_value() && answers_alone(key); })) << key;
  }

 private:
  rados::Options options_;
  std::unique_ptr<rados::RadosStore> store_;
  std::unique_ptr<HotStore> hot_;
};

class KeepingOnRados : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RadosRig::has_cluster()) GTEST_SKIP() << "no cluster: tests/rados/conformance_test.py starts one";
    a = std::make_unique<KeepingRadosRig>();
    a->options.split_rows = 4;
    a->open();
    a->make_bucket("b");
    b = std::make_unique<Neighbour>(a->options);
  }
  void TearDown() override {
    b.reset();
    a.reset();
  }
  // `b` answers from its lease before the change, and returns the changed object after it.
  template <class F>
  void changed_by_another(const std::string& key, F change) {
    b->keep(key);
    change();
    auto now = a->get("b", key), seen = b->get("b", key);
    EXPECT_EQ(now.has_value(), seen.has_value()) << key;
    EXPECT_TRUE(now.value_or("") == seen.value_or("")) << key << ": " << seen.value_or("").substr(0, 20);
    auto info = b->run(b->engine().stat("b", key));
    EXPECT_EQ(info.has_value(), now.has_value()) << key;
  }
  static std::string key(int i) { return "key/" + std::to_string(1000 + i); }

  std::unique_ptr<KeepingRadosRig> a;
  std::unique_ptr<Neighbour> b;
};

TEST_F(KeepingOnRados, AHotGetIsOneCallAndThatOfAKeptKeyNone) {
  const auto calls_of = [](rados::RadosStore& store, auto request) {
    uint64_t least = UINT64_MAX;  // the store makes calls of its own now and then, and more of them at its start
    for (int i = 0; i < 200; ++i) {
      const uint64_t before = store.calls();
      request();
      least = std::min(least, store.calls() - before);
    }
    return least;
  };
  const std::string small = pattern(4096, 1), large = pattern(3 * MiB, 2);
  ASSERT_TRUE(a->put("b", "small", small));
  ASSERT_TRUE(a->put("b", "large", large));
  rados::Options asks = a->options;
  asks.read_leases = false;
  Neighbour c(asks);
  for (const auto& [key, bytes] : {std::pair("small", &small), std::pair("large", &large)}) {
    EXPECT_TRUE(*c.get("b", key) == *bytes);
    EXPECT_EQ(calls_of(c.store(), [&] { EXPECT_TRUE(*c.get("b", key) == *bytes); }), 1u);
    EXPECT_FALSE(c.answers_alone(key));
    b->keep(key);
    EXPECT_EQ(calls_of(b->store(), [&] { EXPECT_TRUE(*b->get("b", key) == *bytes); }), 0u);
    EXPECT_EQ(calls_of(b->store(), [&] { EXPECT_TRUE(b->run(b->engine().stat("b", key))); }), 0u);
  }
}

TEST_F(KeepingOnRados, WhatAServerHasWrittenItselfIsHot) {
  rados::Options asks = a->options;
  asks.read_leases = false;  // writing a lease meanwhile is a call, too
  Neighbour c(asks);
  // Calls besides those of readers: removal of overwritten bytes, and checks of tablets.
  const auto rests = [&c, seen = uint64_t{0}]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const uint64_t before = std::exchange(seen, c.store().calls());
    return seen == before;
  };
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 20; ++i) {
    const std::string mine = pattern(100'000, static_cast<uint64_t>(i));
    ASSERT_TRUE(c.put("b", "k", mine));
    ASSERT_TRUE(eventually(rests));
    const uint64_t before = c.store().calls();
    EXPECT_TRUE(*c.get("b", "k") == mine);
    least = std::min(least, c.store().calls() - before);
  }
  EXPECT_EQ(least, 1u) << "no bytes were read";
  b->keep("k");
  ASSERT_TRUE(b->put("b", "k", "again"));
  EXPECT_EQ(*b->get("b", "k"), "again");
  EXPECT_EQ(*a->get("b", "k"), "again");
}

TEST_F(KeepingOnRados, NoChangeByAnotherServerIsMissed) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(a->put("b", key(i), "x"));  // tablets are split meanwhile
    ASSERT_TRUE(a->put("b", "k", "one"));
    ASSERT_TRUE(a->put("b", "l", "two"));
    changed_by_another("k", [&] { EXPECT_TRUE(a->put("b", "k", pattern(20'000, static_cast<uint64_t>(i)))); });
    changed_by_another("k", [&] { EXPECT_TRUE(a->remove("b", "k")); });
    ASSERT_TRUE(a->put("b", "k", "three"));
    changed_by_another("k", [&] {
      auto writer = a->run(a->engine().create_append("b", "k", 1));
      EXPECT_TRUE(a->append(**writer, "+"));
      ObjectInfo info;
      info.size = 1;
      EXPECT_TRUE(a->run((*writer)->commit(info, {})));
    });
    changed_by_another("k", [&] {
      const auto upload = *a->start_upload("b", "k");
      const auto part = *a->put_part(upload, 1, "part");
      EXPECT_EQ(*b->get("b", "k"), "three+");
      EXPECT_TRUE(a->complete(upload, {part}));
    });
    b->keep("l");
    const std::string far = i % 2 == 0 ? "l" : key(0);
    changed_by_another("k", [&] { EXPECT_TRUE(a->run(a->engine().rename("b", {.from = "k", .to = far}))); });
    EXPECT_EQ(*b->get("b", far), "part") << "the target of a rename";
    changed_by_another(far, [&] {
      ObjectChange tags;
      tags.tags = Tags{{"round", std::to_string(i)}};
      EXPECT_TRUE(a->run(a->engine().update("b", far, "", tags)));
    });
    EXPECT_EQ(b->run(b->engine().stat("b", far))->tags, (Tags{{"round", std::to_string(i)}}));
  }
}

TEST_F(KeepingOnRados, APartThatTheKeeperTakesItselfEndsWhatItKeeps) {
  ASSERT_TRUE(a->put("b", "k", "one"));
  const auto upload = *b->start_upload("b", "k");
  changed_by_another("k", [&] {
    EXPECT_TRUE(b->put_part(upload, 1, "part"));
    EXPECT_TRUE(a->put("b", "k", "two"));
  });
  EXPECT_EQ(*b->get("b", "k"), "two");
}

TEST_F(KeepingOnRados, VersionsMadeByAnotherServerAreSeen) {
  ASSERT_TRUE(a->put("b", "k", "unversioned"));
  b->keep("k");
  EXPECT_EQ(b->run(b->engine().stat("b", "k"))->version_id, "");
  ASSERT_TRUE(a->set_versioning("b", Versioning::enabled));
  EXPECT_EQ(b->run(b->engine().stat("b", "k"))->version_id, "null") << "its name has changed, and no row";
  std::vector<std::string> ids;
  for (const char* bytes : {"one", "two", "three"}) {
    changed_by_another("k", [&] { ids.push_back(a->put("b", "k", bytes)->version_id); });
    EXPECT_EQ(b->run(b->engine().stat("b", "k"))->version_id, ids.back());
  }
  changed_by_another("k", [&] { EXPECT_TRUE(a->remove_version("b", "k", ids.back())); });
  EXPECT_EQ(*b->get("b", "k"), "two");
  changed_by_another("k", [&] { EXPECT_TRUE(a->remove("b", "k")); });
  EXPECT_EQ(b->get("b", "k").error(), Errc::no_such_key);
}

TEST_F(KeepingOnRados, ABucketOfTheSameNameHasNothingOfTheOldOne) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(a->put("b", "k", std::to_string(i)));
    b->keep("k");
    EXPECT_EQ(*b->get("b", "k"), std::to_string(i));
    ASSERT_TRUE(a->remove("b", "k"));
    ASSERT_TRUE(a->run(a->engine().remove_bucket("b")));
    EXPECT_EQ(b->get("b", "k").error(), Errc::no_such_bucket);
    EXPECT_FALSE(b->answers_alone("k"));
    a->make_bucket("b");
    EXPECT_EQ(b->get("b", "k").error(), Errc::no_such_key);
  }
}

// Every read returns what was acknowledged, or seen by any reader, before it began, or something newer.
TEST_F(KeepingOnRados, NoReaderGoesBackWhileKeysAreWrittenAndTabletsSplit) {
  std::vector<std::unique_ptr<Neighbour>> readers;
  a->options.lease_rest = std::chrono::milliseconds(2);  // without, a change loses to the next lease again and again
  for (int i = 0; i < 2; ++i) readers.push_back(std::make_unique<Neighbour>(a->options));
  ASSERT_TRUE(a->put("b", "k", "0"));
  std::atomic<int> known{0}, alone{0}, stale{0};
  std::atomic<bool> over{false};
  const auto know = [&known](int value) {
    for (int before = known; before < value && !known.compare_exchange_weak(before, value);) {
    }
  };
  std::vector<std::jthread> threads;
  for (const auto& reader : readers) {
    threads.emplace_back([&] {
      while (!over) {
        const int floor = known;
        const bool from_memory = reader->answers_alone("k");
        auto bytes = reader->get("b", "k");
        if (!bytes) {
          ADD_FAILURE() << describe(bytes.error());
          return;
        }
        const int value = std::stoi(*bytes);
        if (value < floor) ++stale;
        if (from_memory) ++alone;
        know(value);
        std::this_thread::sleep_for(std::chrono::microseconds(300));  // others need the processor, too
      }
    });
  }
  for (int i = 1; i <= 80; ++i) {
    EXPECT_TRUE(a->put("b", "k", std::to_string(i)));
    know(i);
    EXPECT_TRUE(a->put("b", key(i), ""));
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 4));
  }
  over = true;
  threads.clear();
  EXPECT_EQ(stale, 0);
  EXPECT_GT(alone, 0) << "nothing was kept";
  EXPECT_GE(a->store().survey()->tablets, 3u);
}

// It receives and does nothing, as if it were frozen; but reads its clock.
TEST_F(KeepingOnRados, AKeeperThatDoesNotAnswerIsWaitedForAndKnowsItselfThatItIsNone) {
  ASSERT_TRUE(a->put("b", "k", "old"));
  b->keep("k");
  const uint64_t term = b->term();
  EXPECT_NE(term, 0u);
  std::latch wake(1);
  struct Deaf final : SharedKeys::Listener {
    explicit Deaf(std::latch& until) : wake(until) {}
    void let_go(std::string_view, std::string_view) override { wake.wait(); }
    void let_go_of_bucket(std::string_view) override {}
    void let_go_of_all() override {}
    uint64_t kept(uint64_t) const override { return 0; }
    std::latch& wake;
  } deaf(wake);
  b->store().listen(&deaf);
  boost::asio::post(b->parts().io, [&wake] { wake.wait(); });
  EXPECT_TRUE(b->answers_alone("k")) << "it is unchanged";
  EXPECT_TRUE(a->put("b", "k", "new"));
  EXPECT_EQ(b->term(), 0u);
  EXPECT_FALSE(b->answers_alone("k"));
  EXPECT_TRUE(a->put("b", "k", "newer"));
  wake.count_down();
  EXPECT_TRUE(eventually([&] { return b->term() != 0; }));
  EXPECT_NE(b->term(), term) << "what it kept then it keeps no more";
  EXPECT_FALSE(b->answers_alone("k"));
  EXPECT_EQ(*b->get("b", "k"), "newer");
  EXPECT_TRUE(engine_of(a->store()).read_leases->is_over(term));
}

TEST_F(KeepingOnRados, AServerWhoseMachineWasSuspendedKnowsThatItsTimeIsOver) {
  ASSERT_TRUE(a->put("b", "k", "old"));
  b->keep("k");
  auto &engine = b->parts(), &leader = engine_of(a->store());
  EXPECT_TRUE(eventually([&] { return leader.leader->holds(); }));
  std::latch wake(1);
  for (auto* io : {&engine.io, &leader.io}) boost::asio::post(*io, [&wake] { wake.wait(); });  // no more looks
  EXPECT_TRUE(b->answers_alone("k"));
  LeaseClock::pretend_suspension(std::chrono::seconds(20));
  EXPECT_EQ(b->term(), 0u);
  EXPECT_FALSE(b->answers_alone("k"));
  const bool fresh = engine.bus->fresh();
  EXPECT_FALSE(fresh);
  EXPECT_FALSE(leader.leader->holds());
  if (!fresh) {
    EXPECT_EQ(b->get("b", "k").error(), Errc::service_unavailable);
  }
  wake.count_down();
  EXPECT_TRUE(eventually([&] { return engine.bus->fresh() && b->term() != 0; }));
  EXPECT_EQ(*b->get("b", "k"), "old");
}

// By librados's clock the watch was confirmed a moment ago.
TEST_F(KeepingOnRados, AWatchFromBeforeTheMachineWasSuspendedIsBegunAnew) {
  std::atomic<int> reads{0};
  rados::Options counts = a->options;
  counts.on_accounts = [&reads](const auto&) {
    ++reads;
    return true;
  };
  Neighbour c(counts);
  const int before = reads;
  LeaseClock::pretend_suspension(std::chrono::seconds(1));
  EXPECT_TRUE(eventually([&] { return reads > before; })) << "all is read anew, after the watch stands";
  EXPECT_TRUE(eventually([&] { return c.parts().bus->fresh(); }));
}

TEST_F(KeepingOnRados, AKeeperThatHasAnsweredIsNotWaitedForBecauseSomebodyElseHasNot) {
  ASSERT_TRUE(a->put("b", "k", "old"));
  b->keep("k");
  const uint64_t term = b->term();
  struct Deaf final : librados::WatchCtx2 {
    void handle_notify(uint64_t, uint64_t, uint64_t, librados::bufferlist&) override {}
    void handle_error(uint64_t, int) override {}
  } deaf;
  // The state of a watch of its own that it has lost and the cluster has not ended yet.
  librados::IoCtx& pool = engine_of(a->store()).cluster->context(rados::Cluster::Pool::index);
  uint64_t watch = 0;
  ASSERT_EQ(pool.watch2(rados::holder_object(term), &watch, &deaf), 0);
  EXPECT_TRUE(a->put("b", "k", "new"));
  EXPECT_EQ(b->term(), term) << "it goes on";
  EXPECT_FALSE(b->answers_alone("k"));
  EXPECT_EQ(*b->get("b", "k"), "new");
  EXPECT_EQ(pool.unwatch2(watch), 0);
}

TEST_F(KeepingOnRados, TheStatusOfTheClusterSaysHowManyObjectsAreKept) {
  for (const char* key : {"k", "l", "m"}) {
    ASSERT_TRUE(a->put("b", key, "x"));
    b->keep(key);
  }
  const auto becomes = [this](uint64_t holders, uint64_t objects) {
    return eventually([&] {
      const auto status = rados::cluster_status(a->options);
      EXPECT_TRUE(status);
      return status && status->holders == holders && status->kept_objects == objects;
    });
  };
  EXPECT_TRUE(becomes(2, 3));
  ASSERT_TRUE(a->put("b", "k", "changed"));
  EXPECT_TRUE(becomes(2, 2));
  b.reset();
  EXPECT_TRUE(becomes(1, 0));
}

TEST_F(KeepingOnRados, AServerThatEndsIsWaitedForByNobody) {
  ASSERT_TRUE(a->put("b", "k", "old"));
  b->keep("k");
  const uint64_t term = b->term();
  b.reset();
  auto& engine = engine_of(a->store());
  EXPECT_EQ(*engine.run(engine.registry.row(std::string(rados::servers_object), rados::holder_row(term))), "");
  EXPECT_TRUE(a->put("b", "k", "new"));
  EXPECT_EQ(*a->get("b", "k"), "new");
  b = std::make_unique<Neighbour>(a->options);
  EXPECT_EQ(*b->get("b", "k"), "new");
}

TEST_F(KeepingOnRados, WhoeverIsOnDutyEndsKeepersThatHaveNobodyAnyMore) {
  auto& engine = engine_of(a->store());
  const uint64_t left = *engine.run(engine.registry.take_number());
  const std::string row = rados::holder_row(left), object(rados::servers_object);
  librados::ObjectWriteOperation op;
  const std::map<std::string, rados::Buffer> rows = {{row, rados::to_buffer("live")}};
  op.omap_set(rows);
  ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, object, std::move(op))), 0);
  const auto look = [&] { EXPECT_TRUE(engine.run(engine.read_leases->look_for_left())); };
  look();
  EXPECT_EQ(*engine.run(engine.registry.row(object, row)), "live") << "it may be about to watch again";
  EXPECT_TRUE(eventually([&] {
    look();
    return engine.run(engine.registry.row(object, row))->empty();
  }));
  EXPECT_TRUE(engine.read_leases->is_over(left));
  EXPECT_TRUE(eventually([&] { return b->term() != 0; })) << "those that there are stay";
}

TEST_F(KeepingOnRados, MoreServersThanAGuardHasRoomForAnswerAllTheSame) {
  ASSERT_TRUE(a->put("b", "k", "one"));
  std::vector<std::unique_ptr<Neighbour>> servers;
  for (size_t i = 0; i < rados::VersionToken::leases_max; ++i) {
    servers.push_back(std::make_unique<Neighbour>(a->options));
    servers.back()->keep("k");
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*b->get("b", "k"), "one");
  EXPECT_FALSE(b->answers_alone("k")) << "there is no room for its mark";
  EXPECT_TRUE(a->put("b", "k", "two"));
  for (const auto& server : servers) EXPECT_EQ(*server->get("b", "k"), "two");
  EXPECT_EQ(*b->get("b", "k"), "two");
}

}  // namespace
}  // namespace verbena::store::conformance
