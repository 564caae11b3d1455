// Properties of the engine over RADOS alone: tablets that are split, and calls that can be counted. On the cluster that
// tests/rados starts.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "base/metrics.h"
#include "store/conformance/engines.h"
#include "store/conformance/on_rados.h"
#include "store/logic/transfer.h"
#include "store/rados/cluster/attribute.h"
#include "store/rados/engine.h"
#include "store/removal_grounds.h"

namespace verbena::store::conformance {
namespace {

using rados::Cluster;

TEST_F(OnRados, ANotifyThatTakesTooLongIsNotWaitedFor) {
  RadosRig t;
  t.open();
  Cluster& cluster = *parts_of(t).cluster;
  librados::IoCtx& pool = cluster.context(Cluster::Pool::index);
  struct Deaf final : librados::WatchCtx2 {
    void handle_notify(uint64_t, uint64_t, uint64_t, librados::bufferlist&) override {}
    void handle_error(uint64_t, int) override {}
  } deaf;
  ASSERT_EQ(pool.create("watched", true), 0);
  uint64_t watch = 0;
  ASSERT_EQ(pool.watch2("watched", &watch, &deaf), 0);
  auto reply = std::make_shared<rados::Buffer>();
  Cluster::Start start = [&pool, into = reply.get()](librados::AioCompletion* completion) {
    rados::Buffer nothing;
    return pool.aio_notify("watched", completion, nothing, 5000, into);
  };
  EXPECT_EQ(t.run(cluster.call_within(std::chrono::milliseconds(50), std::move(start), reply)), -Cluster::unanswered);
  EXPECT_GT(reply.use_count(), 1) << "librados may still write there";
  EXPECT_EQ(pool.unwatch2(watch), 0);
  EXPECT_TRUE(eventually([&] { return reply.use_count() == 1; })) << "and lets go of it in the end";
}

TEST_F(OnRados, ALifeBeginsWhenItsFirstSignIsThere) {
  RadosRig t;  // for its name space
  const auto cluster = connect(t.options);
  ASSERT_NE(cluster, nullptr);
  rados::Registry registry(*cluster);
  Steps steps;
  const auto garbage = std::make_shared<rados::Garbage>(registry, steps.io, 7, rados::Garbage::Helpers{});
  ASSERT_TRUE(steps.run(garbage->sign_in()));
  const std::string object(rados::servers_object), row = rados::server_row(7);
  EXPECT_TRUE(*steps.run(rados::forget_server(registry, row, *steps.run(registry.row(object, row)))));
  const uint64_t before = cluster->calls();
  auto signing = steps.begin(garbage->run_signs());
  while (cluster->calls() < before + 2) steps.io.run_one();  // it finds out why its sign is rejected
  uint64_t life = 0;
  {
    const NoWrites ill(*cluster);
    while (cluster->calls() < before + 3) steps.io.run_one();  // and cannot write another one
    life = garbage->life();                                    // of an unprotected blob begun now
  }
  const auto read_at = SteadyClock::now();
  EXPECT_FALSE(steps.run(garbage->may_name(life, read_at))) << "a repair may have taken it";
  EXPECT_TRUE(steps.run(garbage->may_name(garbage->life(), read_at)));
  garbage->stop();
  steps.end(std::move(signing));
}

// The one that found it silent first removed its row, and was not the leader: the others were not told to read
// everything again.
TEST_F(OnRados, TheLeaderFindsOutThatAnotherServerHasGivenOneUp) {
  RadosRig t;  // for its name space
  const auto cluster = connect(t.options);
  ASSERT_NE(cluster, nullptr);
  rados::Registry registry(*cluster);
  Steps steps;
  int gone = 0;
  rados::Garbage::Helpers helpers;
  helpers.is_leader = [] { return true; };
  helpers.server_gone = [&gone] { ++gone; };
  const auto garbage = std::make_shared<rados::Garbage>(registry, steps.io, 7, std::move(helpers));
  ASSERT_TRUE(steps.run(garbage->sign_in()));
  const std::string object(rados::servers_object), row = rados::server_row(9), sign(16, '\1');
  librados::ObjectWriteOperation op;
  const std::map<std::string, rados::Buffer> rows = {{row, rados::to_buffer(sign)}};
  op.omap_set(rows);
  ASSERT_EQ(steps.run(cluster->write(Cluster::Pool::index, object, std::move(op))), 0);
  auto signing = steps.begin(garbage->run_signs());
  // One look, and the next sign.
  for (const uint64_t before = cluster->calls(); cluster->calls() < before + 3;) steps.io.run_one();
  EXPECT_EQ(gone, 0);
  EXPECT_TRUE(*steps.run(rados::forget_server(registry, row, sign)));
  for (const uint64_t before = cluster->calls(); gone == 0 && cluster->calls() < before + 6;) steps.io.run_one();
  EXPECT_EQ(gone, 1);
  for (const uint64_t before = cluster->calls(); cluster->calls() < before + 3;) steps.io.run_one();
  EXPECT_EQ(gone, 1) << "they are told once";
  garbage->stop();
  steps.end(std::move(signing));
}

// Only current objects were counted in the search for its middle.
TEST_F(OnRados, ATabletOfRemovedObjectsWithVersionsIsSplit) {
  RadosRig t;
  t.options.split_rows = 50;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const std::string zero("\0", 1);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(t.put("b", key(i) + zero, "x"));
    ASSERT_TRUE(t.remove("b", key(i) + zero));
  }
  const auto tablets = [&t] { return t.store().survey()->tablets; };
  for (int i = 0; i < 50 && tablets() < 2; ++i) {  // a look that is under way leaves the next one to the next write
    EXPECT_TRUE(t.put("b", key(1) + zero, "x"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GE(tablets(), 2u);
  std::set<std::string> named;
  const auto versions = t.all_versions("b");
  ASSERT_TRUE(versions);
  for (const auto& version : *versions) named.insert(version.key);
  EXPECT_EQ(named.size(), 40u);
}

// What is removed or evicted by a rule was judged before the rule was changed: no tablet takes it any more.
TEST_F(OnRados, ARuleOfRemovalsReachesEachTabletBeforeItIsAcknowledged) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  auto& engine = parts_of(t);
  for (const std::string_view name : {rules_document, bounding_document}) {
    ASSERT_TRUE(t.set_document("b", std::string(name), "a rule"));
    const auto state = t.run(engine.registry.load(engine.buckets.find("b")->id));
    ASSERT_TRUE(state);
    const auto epoch = t.run(rados::read_attribute(*engine.cluster, Cluster::Pool::index, (*state)->tablets[0].object,
                                                   rados::epoch_attribute, "an epoch"));
    EXPECT_EQ(epoch.value_or(""), (*state)->epoch_text) << name;
  }
}

// One row that could not be read kept the leader from removing anything.
TEST_F(OnRados, ABucketThatCannotBeReadKeepsNoBytesOfOthers) {
  RadosRig t;
  t.open();
  for (const char* name : {"a", "b"}) t.make_bucket(name);
  ASSERT_TRUE(t.put("b", "k", pattern(100'000, 1)));
  auto& engine = parts_of(t);
  librados::ObjectWriteOperation op;
  const std::map<std::string, rados::Buffer> damaged = {{"z", rados::to_buffer("x")}};
  op.omap_set(damaged);
  const std::string tablet = rados::tablet_object(engine.buckets.find("a")->id, 0);
  ASSERT_EQ(t.run(engine.cluster->write(Cluster::Pool::index, tablet, std::move(op))), 0);
  t.reopen();
  ASSERT_TRUE(t.put("b", "k", pattern(100'000, 2)));
  EXPECT_FALSE(t.leaks());
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), pattern(100'000, 2));
}

// Like a virtual machine that was paused, whose clocks do not show it.
TEST_F(OnRados, NoChangeNamesWhatWasTakenBetweenTwoSigns) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  const auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  auto& others = static_cast<rados::Engine&>(*(*other)->context());
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  const std::string bytes = pattern(5'000'000, 1);
  ASSERT_TRUE(t.append(**writer, bytes));
  const std::string object(rados::servers_object), row = rados::server_row(parts_of(t).garbage->incarnation());
  const auto sign = [&] { return *others.run(others.registry.row(object, row)); };
  const std::string seen = sign();
  ASSERT_TRUE(eventually([&] { return sign() != seen; }));
  // The next one is two seconds away. What a repair does:
  ASSERT_TRUE(eventually([&] { return *others.run(rados::forget_server(others.registry, row, sign())); }));
  auto state = others.run(others.registry.load(others.buckets.find("b")->id));
  for (const auto phase : {rados::Phase::splitting, rados::Phase::live}) {
    ASSERT_TRUE(state);
    state = others.run(others.registry.set_phase(*state, phase));
  }
  ObjectInfo info;
  info.size = bytes.size();
  EXPECT_EQ(t.run((*writer)->commit(info, {})).error(), Errc::service_unavailable);
  writer->reset();
  ASSERT_TRUE(t.put("b", "k", bytes)) << "what is begun now is of its life now";
  EXPECT_EQ(*t.get("b", "k"), bytes);
  EXPECT_FALSE(t.leaks());
}

// Like a server that was killed in between, or a call that arrived after its caller had given up.
TEST_F(OnRados, AChangeThatNobodyWasToldOfIsFoundWhenItIsToldAgain) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.run(t.engine().set_document("b", "policy", "old")));
  const auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  const auto known = [&] { return t.run((*other)->document("b", "policy")).value(); };
  const auto text = [&] { return known() ? *known() : std::string(); };
  ASSERT_EQ(text(), "old");
  auto& engine = parts_of(t);
  const uint64_t id = engine.buckets.find("b")->id;
  const auto state = t.run(engine.registry.load(id));
  ASSERT_TRUE(state);
  rados::Registry::Fill fill = [](librados::ObjectWriteOperation& op) {
    const std::map<std::string, rados::Buffer> row = {{"cpolicy", rados::to_buffer("new")}};
    op.omap_set(row);
  };
  ASSERT_TRUE(t.run(engine.registry.change_object(*state, std::move(fill))));
  EXPECT_EQ(text(), "old") << "no server was notified";
  engine.bus->tell_again(id, 1);
  EXPECT_TRUE(eventually([&] { return text() == "new"; }));
}

// Several servers over one cluster, and a bucket with a policy.
class ChangesOnRados : public OnRados {
 protected:
  explicit ChangesOnRados(std::chrono::milliseconds intent_lasts = rados::Options().intent_lasts)
      : intent_lasts_(intent_lasts) {}
  void SetUp() override {
    OnRados::SetUp();
    if (!RadosRig::has_cluster()) return;
    t_.emplace();
    t_->options.intent_lasts = intent_lasts_;
    t_->open();
    t_->make_bucket("b");
    ASSERT_TRUE(t_->run(first().set_document("b", "policy", "old")));
    id_ = parts_of(*t_).buckets.find("b")->id;
    other_ = connect_another();
  }
  void TearDown() override {
    other_.reset();
    t_.reset();
  }
  std::unique_ptr<rados::RadosStore> connect_another() {
    auto opened = rados::RadosStore::connect(t_->options);
    EXPECT_TRUE(opened) << opened.error();
    return opened ? std::move(*opened) : nullptr;
  }
  Store& first() { return t_->engine(); }
  static rados::Engine& engine_of(EngineStore& store) { return static_cast<rados::Engine&>(*store.context()); }
  rados::InFlightChanges& at_first() { return *engine_of(t_->store()).in_flight; }
  static rados::InFlightChanges& at(rados::RadosStore& store) { return *engine_of(store).in_flight; }
  std::string policy(Store& store) {
    const auto found = t_->run(store.document("b", "policy"));
    return found ? **found : describe(found.error());
  }
  rados::BucketPtr state() { return *t_->run(parts_of(*t_).registry.load(id_)); }
  static rados::InFlightChanges::Planned planned(const rados::BucketState& state) {
    return {.bucket = state.id, .epoch = state.epoch, .name = "b", .owner = state.record.info.owner};
  }
  // As written to the cluster by any server.
  Result<void> write(rados::BucketPtr from, std::string text) {
    rados::Registry::Fill fill = [text](librados::ObjectWriteOperation& op) {
      const std::map<std::string, rados::Buffer> row = {{"cpolicy", rados::to_buffer(text)}};
      op.omap_set(row);
    };
    return t_->run(parts_of(*t_).registry.change_object(std::move(from), std::move(fill)));
  }
  // Whether the policy is answered from memory.
  bool is_kept(rados::RadosStore& store) {
    auto& asked = metrics::counter("verbena_rados_in_flight_reads_total",
                                   "Calls that found their bucket being changed, and had it read in the cluster");
    const uint64_t before = asked.value();
    policy(store);
    return asked.value() == before && store.may_keep("b");
  }

  std::optional<RadosRig> t_;
  const std::chrono::milliseconds intent_lasts_;
  std::unique_ptr<rados::RadosStore> other_;
  uint64_t id_ = 0;
};

// With waiting for the end of an intent. (Elsewhere it must not end by itself, however busy the machine is.)
class ChangesLeftOnRados : public ChangesOnRados {
 protected:
  ChangesLeftOnRados() : ChangesOnRados(std::chrono::milliseconds(5000)) {}
};

TEST_F(ChangesOnRados, NoServerShowsAChangeBeforeTheOthersHaveHeardOfIt) {
  Steps steps;
  std::future<Result<void>> setting, own;
  {
    const Stalled stalled(engine_of(*other_));  // receives nothing, and answers from memory
    setting = steps.begin(first().set_document("b", "policy", "new"));
    own = steps.begin(first().create_bucket({.name = "made", .owner = "root"}));
    steps.rest();
    const std::string shown = policy(first());
    EXPECT_TRUE(shown == "old" || policy(*other_) == "new") << shown << " and " << policy(*other_);
    const bool is_made = t_->run(first().bucket("made")).has_value();
    EXPECT_TRUE(!is_made || t_->run(other_->bucket("made")).has_value()) << "a bucket that the other server denies";
  }
  EXPECT_TRUE(steps.end(std::move(setting)));
  EXPECT_TRUE(steps.end(std::move(own)));
  for (Store* store : {&first(), static_cast<Store*>(other_.get())}) {
    EXPECT_EQ(policy(*store), "new");
    EXPECT_TRUE(t_->run(store->bucket("made")));
  }
  EXPECT_TRUE(is_kept(*other_) && is_kept(t_->store()));
}

TEST_F(ChangesLeftOnRados, AChangeWhoseServerDiedIsSeenByAllAtOnceAndItsMarkEnds) {
  rados::InFlightChanges::OwnChange own;
  const auto judged = state();
  ASSERT_TRUE(t_->run(at_first().before(own, planned(*judged))));
  EXPECT_FALSE(is_kept(*other_));
  EXPECT_EQ(policy(*other_), "old");
  ASSERT_TRUE(write(judged, "new"));
  EXPECT_EQ(policy(*other_), "new") << "without a notice";
  EXPECT_EQ(policy(first()), "new");
  EXPECT_TRUE(eventually([&] { return is_kept(*other_) && is_kept(t_->store()); }));
  EXPECT_EQ(write(judged, "late").error(), Errc::conditional_conflict) << "it would not be announced";
  EXPECT_EQ(policy(*other_), "new");
}

TEST_F(ChangesOnRados, AChangeThatIsOverEndsNoOthersMark) {
  rados::InFlightChanges::OwnChange one, two;
  ASSERT_TRUE(t_->run(at_first().before(one, planned(*state()))));
  ASSERT_TRUE(t_->run(at(*other_).before(two, planned(*state()))));
  ASSERT_TRUE(t_->run(at_first().after(one, {})));
  EXPECT_FALSE(is_kept(*other_));
  EXPECT_FALSE(is_kept(t_->store()));
  ASSERT_TRUE(write(state(), "new"));
  EXPECT_EQ(policy(*other_), "new");
  EXPECT_EQ(policy(first()), "new");
  ASSERT_TRUE(t_->run(at(*other_).after(two, {})));
  EXPECT_TRUE(is_kept(*other_) && is_kept(t_->store()));
}

TEST_F(ChangesOnRados, WhoBeginsToWatchLearnsWhatIsUnderWay) {
  rados::InFlightChanges::OwnChange own;
  ASSERT_TRUE(t_->run(at_first().before(own, planned(*state()))));
  const auto third = connect_another();
  ASSERT_NE(third, nullptr);
  EXPECT_FALSE(is_kept(*third));
  ASSERT_TRUE(write(state(), "new"));
  EXPECT_EQ(policy(*third), "new");
  ASSERT_TRUE(t_->run(at_first().after(own, {})));
  EXPECT_TRUE(is_kept(*third));
}

TEST_F(ChangesOnRados, WhatOthersSaidToAnEarlierWatchSaysNothingToTheNext) {
  const auto cluster = connect(t_->options);
  ASSERT_NE(cluster, nullptr);
  Steps steps;
  bool all_say = false, all_doubtful = false;
  int heard = 0;
  boost::asio::steady_timer slow(steps.io, std::chrono::minutes(5));
  rados::InvalidationBus::Subscriber subscriber;
  subscriber.hear = [&](rados::Notice) -> Task<Result<void>> {
    if (++heard == 2) {
      boost::system::error_code woken;
      co_await slow.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
    }
    co_return Result<void>{};
  };
  subscriber.intents = [] { return encode(std::vector<rados::Intent>{}); };
  subscriber.take_intents = [&](const std::vector<rados::Intent>&) { return all_say; };
  subscriber.doubt_all = [&](bool marked) { all_doubtful = marked; };
  subscriber.look = [] {};
  const auto bus = std::make_shared<rados::InvalidationBus>(*cluster, steps.io, std::move(subscriber));
  const auto until = [&](auto is_so) {
    for (const auto end = deadline_in(std::chrono::seconds(20)); !is_so() && SteadyClock::now() < end;) {
      steps.io.run_one_for(std::chrono::milliseconds(50));
    }
    return is_so();
  };
  auto running = boost::asio::co_spawn(steps.io, bus->run(), boost::asio::use_future);
  EXPECT_TRUE(until([&] { return heard == 1; }));
  EXPECT_TRUE(all_doubtful);
  all_say = true;
  EXPECT_TRUE(until([&] { return heard == 2; })) << "they are asked again, and all is read";
  all_say = false;
  bus->handle_error(0, -ENOTCONN);
  EXPECT_TRUE(until([&] { return heard == 3 && bus->fresh(); })) << "the next watch";
  EXPECT_TRUE(all_doubtful);
  slow.cancel();
  steps.io.run_for(std::chrono::seconds(1));
  EXPECT_TRUE(all_doubtful);
  all_say = true;
  EXPECT_TRUE(until([&] { return !all_doubtful; }));
  bus->stop();
  while (!Steps::is_ready(running)) steps.io.run_one();
}

TEST_F(ChangesOnRados, AllBucketsAreReadOnceForAllThatWait) {
  at(*other_).set_all(true);
  ASSERT_TRUE(t_->run(first().create_bucket({.name = "made", .owner = "root"})));
  const uint64_t at_start = other_->calls();
  ASSERT_TRUE(t_->run(other_->buckets()));
  const uint64_t of_one = other_->calls() - at_start;
  EXPECT_GT(of_one, 4u) << "two buckets";
  Steps steps;
  std::vector<std::future<Result<std::vector<BucketInfo>>>> asking;
  const uint64_t before = other_->calls();
  {
    const Stalled stalled(engine_of(*other_));
    for (int i = 0; i < 20; ++i) asking.push_back(steps.begin(other_->buckets()));
    steps.rest();
  }
  for (auto& one : asking) {
    const auto listed = steps.end(std::move(one));
    ASSERT_TRUE(listed) << describe(listed.error());
    EXPECT_EQ(listed->size(), 2u);
  }
  EXPECT_LT(other_->calls() - before, 10 * of_one) << "two readings, and what a server does by itself";
}

TEST_F(ChangesOnRados, WhoWaitsForAReadingIsNotWokenOnceItIsClosed) {
  at(*other_).set_all(true);
  Steps steps;
  std::future<Result<void>> reads, waits;
  {
    const Stalled stalled(engine_of(*other_));
    reads = steps.begin(at(*other_).settle("b"));
    waits = steps.begin(at(*other_).settle("b"));
    steps.rest();
    at(*other_).close();
  }
  EXPECT_TRUE(steps.end(std::move(reads)));
  steps.rest();
  EXPECT_FALSE(Steps::is_ready(waits)) << "there may be nothing to wake up on";
}

// As servers without intents report it.
TEST_F(ChangesOnRados, ABucketIsReadByItsNumberAlone) {
  rados::Engine& engine = engine_of(*other_);
  ASSERT_TRUE(engine.run(engine.reload(id_)));
  ASSERT_TRUE(t_->run(first().remove_bucket("b")));
  ASSERT_TRUE(t_->run(first().create_bucket({.name = "b", .owner = "root"})));
  const uint64_t now = parts_of(*t_).buckets.find("b")->id;
  ASSERT_NE(now, id_);
  for (const uint64_t told : {id_, now, now + 1000}) {
    EXPECT_TRUE(engine.run(engine.reload(told)));
    EXPECT_EQ(engine.buckets.find("b")->id, now);
  }
  engine.buckets.remove("b");
  EXPECT_TRUE(engine.run(engine.reload(now)));
  ASSERT_NE(engine.buckets.find("b"), nullptr);
  EXPECT_EQ(engine.buckets.find("b")->id, now);
}

TEST_F(ChangesOnRados, NothingIsChangedThatAServerDidNotTakeNoteOf) {
  struct Deaf final : librados::WatchCtx2 {
    void handle_notify(uint64_t, uint64_t, uint64_t, librados::bufferlist&) override {}
    void handle_error(uint64_t, int) override {}
  } deaf;
  librados::IoCtx& pool = engine_of(*other_).cluster->context(Cluster::Pool::index);
  uint64_t watch = 0;
  ASSERT_EQ(pool.watch2(std::string(rados::root_object), &watch, &deaf), 0);
  Steps steps;
  auto setting = steps.begin(first().set_document("b", "policy", "new"));
  steps.rest();
  EXPECT_EQ(policy(first()), "old");
  EXPECT_EQ(policy(*other_), "old");
  EXPECT_EQ(pool.unwatch2(watch), 0);
  EXPECT_TRUE(steps.end(std::move(setting))) << "it has gone";
  EXPECT_EQ(policy(*other_), "new");
}

TEST_F(ChangesLeftOnRados, ABucketWhoseMakingWasGivenUpGetsNoNameLater) {
  auto& registry = parts_of(*t_).registry;
  const auto id = t_->run(registry.take_number(rados::Registry::For::bucket));
  ASSERT_TRUE(id);
  rados::InFlightChanges::OwnChange own;
  ASSERT_TRUE(t_->run(at_first().before(own, {.bucket = *id, .epoch = 0, .name = "made", .owner = "root"})));
  EXPECT_FALSE(other_->may_keep("made"));
  EXPECT_TRUE(eventually([&] { return other_->may_keep("made") && t_->store().may_keep("made"); }));
  const auto named = t_->run(registry.give_name("made", *id, *t_->run(registry.name_fence())));
  ASSERT_TRUE(named);
  EXPECT_FALSE(*named);
  EXPECT_EQ(t_->run(other_->bucket("made")).error(), Errc::no_such_bucket);
}

// Ids of different directories may be equal, and those of one directory must not be.
TEST_F(OnRados, WhatCameFromTwoDirectoriesUnderOneIdDoesNotGoIntoOne) {
  RadosRig t;
  t.open();
  const auto copy = [](Rig& from, Rig& to, bool look_again) {
    std::optional<Transfer> transfer(std::in_place, engine_of(from), engine_of(to),
                                     Transfer::Options{.look_again = look_again});
    return to.run(transfer->run());
  };
  const auto put_parts = [](Rig& rig, const std::string& bucket, const std::vector<std::string>& parts) {
    const auto upload = *rig.start_upload(bucket, "k");
    std::vector<PartInfo> infos;
    for (const std::string& bytes : parts) {
      infos.push_back(*rig.put_part(upload, static_cast<int>(infos.size()) + 1, bytes));
    }
    EXPECT_TRUE(rig.complete(upload, infos));
  };
  const std::string a = pattern(70'000, 1), b = pattern(80'000, 2);
  for (const auto& [bucket, first] : {std::pair("one", &a), std::pair("two", &b)}) {
    LocalRig directory;
    directory.open();
    directory.make_bucket(bucket);
    put_parts(directory, bucket, {*first, bucket});
    ASSERT_TRUE(copy(directory, t, /*look_again=*/false));
  }
  EXPECT_EQ(*t.get("one", "k"), a + "one");
  EXPECT_EQ(*t.get("two", "k"), b + "two");
  {
    LocalRig back;
    back.open();
    EXPECT_EQ(copy(t, back, /*look_again=*/true).error(), Errc::conditional_conflict);
  }
  put_parts(t, "two", {b, "again"});
  LocalRig back;
  back.open();
  const auto counts = copy(t, back, /*look_again=*/true);
  ASSERT_TRUE(counts) << describe(counts.error());
  Rig& alone = back;
  EXPECT_EQ(*alone.get("one", "k"), a + "one");
  EXPECT_EQ(*alone.get("two", "k"), b + "again");
}

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
  EXPECT_EQ(t.all_versions("b")->size(), 240u);
  t.reopen();
  EXPECT_EQ(keys_of(t, 1000), wanted);
  for (int i = 0; i < 120; ++i) {
    EXPECT_EQ(*t.get("b", key(i)), pattern(i % 10 == 0 ? 70'000 : 100, static_cast<uint64_t>(i)));
  }
  EXPECT_FALSE(t.leaks());
}

// The state left by a server that began to move an object to another tablet's key and died. `half`: the target's half
// was done.
void leave_a_move(RadosRig& t, const std::string& from, const std::string& to, bool half) {
  auto& engine = parts_of(t);
  const uint64_t id = engine.buckets.find("b")->id;
  const auto bucket = engine.run(engine.registry.load(id));
  ASSERT_TRUE(bucket);
  const auto tablet = [&](const std::string& key) { return (*bucket)->tablets[(*bucket)->tablet_of("o" + key)]; };
  const rados::Tablet source = tablet(from), target = tablet(to);
  ASSERT_NE(source.number, target.number);
  const auto head = engine.run(engine.registry.row(source.object, "o" + from));
  rados::Move move;
  move.to = target.number;
  move.version_token_row = rados::version_token_row(from);
  move.version_token_seen = *engine.run(engine.registry.row(source.object, move.version_token_row));
  move.gone = {"o" + from, move.version_token_row};
  const auto frozen =
      engine.run(engine.registry.set_phase(*bucket, rados::Phase::moving, source.number, rados::encode(move)));
  ASSERT_TRUE(frozen);
  if (!half) return;
  librados::ObjectWriteOperation op;
  const std::map<std::string, rados::Buffer> rows = {
      {"o" + to, rados::to_buffer(*head)},
      {rados::version_token_row(to), rados::to_buffer(rados::encode(rados::VersionToken{1, 1}))},
      {rados::moved_row, rados::to_buffer((*frozen)->phase_who())}};
  op.omap_set(rows);
  ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, target.object, std::move(op))), 0);
}

// Found by a random history: a listing that had begun before the split showed a version that was gone.
TEST_F(OnRados, WhatIsChangedInANewTabletIsNotReadInTheOldOneAnyMore) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "a", "x"));
  auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  // The decision that "m" and everything after it move to a new tablet was recorded, and nothing else has happened.
  auto& engine = parts_of(t);
  const auto bucket = engine.run(engine.registry.load(engine.buckets.find("b")->id));
  const auto frozen = engine.run(engine.registry.set_phase(*bucket, rados::Phase::splitting, 0));
  ASSERT_TRUE(frozen);
  librados::ObjectWriteOperation made;
  made.create(true);
  made.setxattr(rados::epoch_attribute, rados::to_buffer((*frozen)->epoch_text));
  const std::string tablet = rados::tablet_object((*frozen)->id, 99);
  ASSERT_EQ(engine.run(engine.cluster->write(rados::Cluster::Pool::index, tablet, std::move(made))), 0);
  rados::Registry::Fill decide = [](librados::ObjectWriteOperation& op) {
    const std::map<std::string, rados::Buffer> row = {{"tm", rados::to_buffer(keys::number(99))}};
    op.omap_set(row);
    op.omap_rm_keys({"p"});
  };
  ASSERT_TRUE(engine.run(engine.registry.change_object(*frozen, std::move(decide))));
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
    t.reopen();  // each time another server, with a counting row of its own
  }
  auto& engine = parts_of(t);
  const uint64_t id = engine.buckets.find("b")->id;
  const std::string tablet = rados::tablet_object(id, 0);
  ASSERT_TRUE(t.put("b", key(3), "12345"));
  // Its own row, too: as after a long absence. It notices with its next change but one, at the latest.
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
  auto& engine = parts_of(t);
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  const std::string bytes = pattern(5'000'000, 1);
  ASSERT_TRUE(t.append(**writer, bytes));
  // Done by another server that has received no sign of it for half a minute.
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
