// Servers of several versions over one cluster (rows/formats.h), on the cluster that tests/rados starts.
#include <atomic>
#include <cerrno>
#include <latch>
#include <map>
#include <thread>

#include "base/metrics.h"
#include "store/conformance/on_rados.h"
#include "store/ends.h"

namespace verbena::store::conformance {
namespace {

using rados::Cluster;

class FormatsOnRados : public OnRados {};

void set_row(rados::Engine& engine, const std::string& name, const std::string& value) {
  librados::ObjectWriteOperation op;
  if (value.empty()) {
    op.omap_rm_keys({name});
  } else {
    const std::map<std::string, rados::Buffer> row = {{name, rados::to_buffer(value)}};
    op.omap_set(row);
  }
  ASSERT_EQ(engine.run(engine.cluster->withdraw(std::string(rados::servers_object), std::move(op))), 0);
}

rados::ServersRows rows_of(rados::Engine& engine) {
  return engine.run(engine.registry.all(std::string(rados::servers_object), "")).value_or(rados::ServersRows{});
}

// A server of a version from before formats has a sign of life, and says nothing of formats.
const std::string old_server = rados::server_row(1'000'000), its_sign = std::string(16, '\1');

TEST_F(FormatsOnRados, ANewFormatIsUsedWhenAllServersThatRunKnowIt) {
  RadosRig t;
  t.options.format_rest = {};
  t.open();
  EXPECT_EQ(parts_of(t).formats.current(), rados::format_newest) << "a new store";
  // The store as older servers left it, one of which runs: it has a sign of life, and says nothing of formats.
  set_row(parts_of(t), old_server, its_sign);
  set_row(parts_of(t), "format", "");
  set_row(parts_of(t), "master", "0123456789abcdef\n");
  librados::ObjectWriteOperation unmarked;
  unmarked.setxattr("formats", rados::to_buffer("0"));
  ASSERT_EQ(parts_of(t).run(parts_of(t).cluster->withdraw(std::string(rados::root_object), std::move(unmarked))), 0);
  t.reopen();
  EXPECT_EQ(parts_of(t).formats.current(), 1u);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  EXPECT_EQ(parts_of(t).formats.current(), 1u);
  set_row(parts_of(t), old_server, "");  // it ends
  EXPECT_TRUE(eventually([&] { return parts_of(t).formats.current() == rados::format_newest; }));
  const auto ids = parts_of(t).run(parts_of(t).registry.row(std::string(rados::servers_object), "master"));
  ASSERT_TRUE(ids);
  EXPECT_TRUE(ids->starts_with("0123456789abcdef\n")) << *ids;
  EXPECT_GT(ids->size(), 17u) << "a line that keeps servers from before formats from starting";
}

TEST_F(FormatsOnRados, AServerThatDoesNotKnowTheFormatDoesNotStartAndOneThatRunsAnswersNothing) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  set_row(parts_of(t), "format", "99 0");
  const auto late = rados::RadosStore::connect(t.options);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().find("too old for the cluster"), std::string::npos) << late.error();
  EXPECT_TRUE(eventually([&] { return t.put("b", "k", "x").error() == Errc::service_unavailable; }));
  set_row(parts_of(t), "format", "2 0");
  EXPECT_TRUE(eventually([&] { return t.put("b", "k", "x").has_value(); }));
}

// They are written into files, with locks and syncs.
TEST_F(FormatsOnRados, WhatTakesTheKeysOfOtherServersHoldsUpNothingElse) {
  std::latch over(1);
  std::atomic<bool> waits{false};
  RadosRig t;
  t.options.on_keys = [&](const auto&, const auto& sealed) {
    if (sealed != "sealed") return;
    waits = true;
    over.wait();
  };
  t.open();
  t.make_bucket("b");
  std::thread replacing([&] { EXPECT_TRUE(t.store().replace_sealed_keys(std::nullopt, "sealed")); });
  EXPECT_TRUE(eventually([&] { return waits.load(); }));
  EXPECT_TRUE(t.put("b", "k", "x"));
  EXPECT_TRUE(t.remove("b", "k"));
  over.count_down();
  replacing.join();
}

TEST_F(FormatsOnRados, AServerThatMayNotRunChangesNothing) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  rados::Engine& engine = parts_of(t);
  const std::string own = rados::server_row(engine.garbage->incarnation());
  set_row(engine, "format", "99 0");
  ASSERT_TRUE(eventually([&] { return !engine.formats.may_run(); }));
  EXPECT_EQ(t.store().leader_term(), 0u);
  EXPECT_TRUE(eventually([&] { return !rows_of(engine).contains(own); })) << "others wait for it";
  librados::ObjectWriteOperation op;
  op.create(false);
  EXPECT_EQ(engine.run(engine.cluster->write(Cluster::Pool::index, "any", std::move(op))), -EROFS);
  const auto before = rows_of(engine);
  std::this_thread::sleep_for(2 * rados::Garbage::beat);
  EXPECT_EQ(rows_of(engine), before);
  set_row(engine, "format", "2 0");
  EXPECT_TRUE(eventually([&] { return t.put("b", "k", pattern(70'000, 1)).has_value(); }));
  EXPECT_TRUE(eventually([&] { return t.store().leader_term() != 0; }));
  EXPECT_TRUE(rows_of(engine).contains(own));
}

TEST_F(FormatsOnRados, AServerThatDoesNotStartLeavesNoSignOfLife) {
  RadosRig t;
  t.open();
  const auto before = rows_of(parts_of(t));
  set_row(parts_of(t), "format", "99 0");
  EXPECT_FALSE(rados::RadosStore::connect(t.options));
  for (const auto& [row, value] : rows_of(parts_of(t))) {
    EXPECT_TRUE(!row.starts_with('s') || before.contains(row));
  }
}

TEST_F(FormatsOnRados, AServerFromBeforeFormatsThatStartsWhileOneIsRaisedIsSeen) {
  RadosRig t;
  t.open();
  rados::Engine& engine = parts_of(t);
  set_row(engine, "format", "1 0");
  set_row(engine, "master", "0123456789abcdef\n");
  rados::Formats leaders(engine.registry, {});
  const auto earlier = rows_of(engine);
  set_row(engine, old_server, its_sign);  // it has read the ids
  ASSERT_TRUE(engine.run(leaders.look(earlier, true)));
  const auto closed = rows_of(engine);
  EXPECT_TRUE(rados::has_gate_line(closed.at("master"))) << "no other one starts from here on";
  EXPECT_EQ(rados::format_in(closed), 1u);
  for (const auto* seen : {&earlier, &closed}) {
    ASSERT_TRUE(engine.run(leaders.look(*seen, true)));
    EXPECT_EQ(rados::format_in(rows_of(engine)), 1u);
  }
  EXPECT_EQ(rows_of(engine).at("master"), "0123456789abcdef\n") << "a raise that did not come keeps none out";
  set_row(engine, old_server, "");  // it ends
  for (const uint64_t written : {uint64_t(1), rados::format_newest}) {
    ASSERT_TRUE(engine.run(leaders.look(rows_of(engine), true)));
    EXPECT_TRUE(rados::has_gate_line(rows_of(engine).at("master")));
    EXPECT_EQ(rados::format_in(rows_of(engine)), written);
  }
}

// The leader that wrote it died before it raised the format; the next one waits for as long as the first one did.
TEST_F(FormatsOnRados, AGateLineThatALeaderLeftIsTakenAwayWhileTheNextOneWaits) {
  RadosRig t;
  t.open();
  rados::Engine& engine = parts_of(t);
  set_row(engine, "format", "1 0");
  set_row(engine, "master", rados::with_gate_line("", 2));
  rados::Formats next(engine.registry, std::chrono::hours(1));
  ASSERT_TRUE(engine.run(next.look(rows_of(engine), true)));
  EXPECT_FALSE(rows_of(engine).contains("master")) << "as it was before the line";
  EXPECT_EQ(rados::format_in(rows_of(engine)), 1u);
}

// The others give it up, wait, and raise the format: by then it changes and answers nothing.
TEST_F(FormatsOnRados, WhatAServerKnowsOfFormatsEndsBeforeOthersCanRaiseIt) {
  RadosRig t;
  t.options.format_rest = {};
  t.open();
  rados::Engine& engine = parts_of(t);
  EXPECT_LT(engine.formats.known_for(), rados::Garbage::silence_max);
  EXPECT_TRUE(engine.formats.may_run());
  ASSERT_TRUE(eventually([&] { return engine.formats.all_know_it(); }));
  const auto now = LeaseClock::now();
  EXPECT_TRUE(engine.formats.may_run(now + engine.formats.known_for() - 2 * rados::Garbage::beat));
  EXPECT_FALSE(engine.formats.may_run(now + engine.formats.known_for()));
  LeaseClock::pretend_suspension(engine.formats.known_for());
  EXPECT_FALSE(engine.formats.may_run());
  EXPECT_FALSE(engine.formats.all_know_it());
  librados::ObjectWriteOperation op;
  op.create(false);
  EXPECT_EQ(engine.run(engine.cluster->write(Cluster::Pool::index, "any", std::move(op))), -EROFS);
  EXPECT_TRUE(eventually([&] { return engine.formats.may_run() && engine.formats.all_know_it(); }))
      << "by the next look";
}

TEST_F(FormatsOnRados, TheGateLineIsWrittenAgainWhenAnOperatorHasRemovedIt) {
  RadosRig t;
  t.open();
  const auto is_closed = [&] {
    const auto rows = rows_of(parts_of(t));
    return rows.contains("master") && rados::has_gate_line(rows.at("master"));
  };
  EXPECT_TRUE(is_closed()) << "a new store";
  set_row(parts_of(t), "master", "");
  EXPECT_TRUE(eventually(is_closed)) << "by the leader";
  rados::Formats of_another(parts_of(t).registry, {});
  set_row(parts_of(t), "master", "");
  ASSERT_TRUE(parts_of(t).run(of_another.join(2'000'000, /*new_store=*/false)));
  EXPECT_TRUE(is_closed()) << "by a server that starts";
}

TEST_F(FormatsOnRados, AFormatThatIsLostOrNoNumberIsNotGuessed) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  for (const std::string text : {"", "x", "0 0", "2x 0", "-1"}) {
    set_row(parts_of(t), "format", text);
    const auto late = rados::RadosStore::connect(t.options);
    ASSERT_FALSE(late) << text;
    EXPECT_NE(late.error().find("setomapval servers format"), std::string::npos) << late.error();
    std::this_thread::sleep_for(rados::Garbage::beat);
    EXPECT_TRUE(t.put("b", "k", "x")) << "what runs goes on";
    EXPECT_EQ(parts_of(t).formats.current(), rados::format_newest);
  }
  set_row(parts_of(t), "format", "2");
  EXPECT_TRUE(rados::RadosStore::connect(t.options));
}

// The cluster as servers share it that do not all know ends.
void close_gate(rados::Engine& engine) { set_row(engine, "format", "2 0"); }
void open_gate(rados::Engine& engine) { set_row(engine, "format", "3 0"); }

Result<ObjectInfo> put_brief(RadosRig& t, Store& store, const std::string& key, const std::string& bucket = "b") {
  VB_ASSIGN(auto writer, t.run(store.create(bucket, key, 5)));
  VB_TRY(t.append(*writer, "bytes"));
  ObjectInfo info;
  info.size = 5;
  info.etag = Rig::etag_of("bytes");
  info.headers.emplace_back(ttl_header, "60");
  return t.run(writer->commit(info, {}));
}
bool is_refused(const Result<ObjectInfo>& done) { return !done && done.error() == Errc::not_implemented; }

// No row that a server reads as nonsense which does not know ends: neither of a bucket with ends nor of an end.
size_t rows_of_ends(rados::Engine& engine) {
  const auto count = [&](const std::string& object, std::string_view prefix) {
    const auto rows = engine.run(engine.registry.all(object, std::string(prefix)));
    return rows ? rows->size() : 0;
  };
  size_t found = count(std::string(rados::ends_object), "");
  const auto bucket = engine.run(engine.registry.load(engine.buckets.find("b")->id));
  EXPECT_TRUE(bucket);
  if (!bucket) return found;
  for (const auto& tablet : (*bucket)->tablets) found += count(tablet.object, rados::ends_prefix);
  return found;
}

// One row, or one bucket's object, stopped the removal of all ended objects of the cluster.
TEST_F(FormatsOnRados, WhatCannotBeReadKeepsNoOthersEndedObjects) {
  RadosRig t;
  t.open();
  using Names = std::vector<std::string>;
  const Names buckets = {"b", "c", "d"};
  for (const std::string& name : buckets) {
    t.make_bucket(name);
    ASSERT_TRUE(put_brief(t, t.store(), "brief", name));
  }
  t.step_clock(std::chrono::seconds(120));
  const auto due = [&] {
    Names names;
    const auto found = t.run(t.store().ended(100, nullptr));
    EXPECT_TRUE(found);
    if (!found) return names;
    for (const EndedKey& ended : *found) names.push_back(ended.bucket);
    return names;
  };
  ASSERT_EQ(due(), buckets);
  const auto cluster = connect(t.options);
  ASSERT_NE(cluster, nullptr);
  librados::IoCtx& index = cluster->context(rados::Cluster::Pool::index);
  auto& engine = parts_of(t);
  const auto spoil = [&](const std::string& object, const std::string& row) {
    librados::bufferlist nonsense;
    nonsense.append("?");
    return index.omap_set(object, {{row, nonsense}});
  };
  auto& failed = metrics::counter("verbena_rados_end_reads_failed_total", "");
  const uint64_t before = failed.value();
  // A row of the first bucket that is no end: its tablet's others are found once more, and then after a pause.
  const auto first = t.run(engine.registry.load(engine.buckets.find("b")->id));
  ASSERT_TRUE(first);
  ASSERT_EQ(spoil((*first)->tablets.at(0).object, std::string(rados::ends_prefix) + "!"), 0);
  EXPECT_EQ(due(), buckets);
  EXPECT_EQ(failed.value(), before + 1);
  EXPECT_EQ(due(), (Names{"c", "d"})) << "asked for again after a pause";
  // The object of another bucket.
  ASSERT_EQ(spoil(rados::bucket_object(engine.buckets.find("c")->id), "r"), 0);
  EXPECT_EQ(due(), Names{"d"});
  EXPECT_EQ(failed.value(), before + 2);
}

TEST_F(FormatsOnRados, ATtlIsRefusedUntilAllServersKnowEnds) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.store().keeps_ends()) << "a new store";
  close_gate(parts_of(t));
  ASSERT_TRUE(eventually([&] { return parts_of(t).formats.current() == 2; }));
  EXPECT_FALSE(t.store().keeps_ends());
  EXPECT_TRUE(is_refused(put_brief(t, t.store(), "brief")));
  EXPECT_EQ(t.get("b", "brief").error(), Errc::no_such_key);
  open_gate(parts_of(t));
  ASSERT_TRUE(eventually([&] { return t.store().keeps_ends(); }));
  EXPECT_TRUE(put_brief(t, t.store(), "brief"));
}

TEST_F(FormatsOnRados, OnceAllServersKnowEndsEachOfThemKeepsThem) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  close_gate(parts_of(t));
  auto opened = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(opened) << opened.error();
  rados::RadosStore* const both[] = {&t.store(), opened->get()};
  ASSERT_TRUE(eventually([&] { return !both[0]->keeps_ends() && !both[1]->keeps_ends(); }));
  ASSERT_TRUE(t.put("b", "plain", "bytes"));
  for (rados::RadosStore* const store : both) {
    EXPECT_TRUE(is_refused(put_brief(t, *store, "brief")));
    ObjectChange touch;
    touch.attributes.emplace_back(touch_attribute, "60");
    EXPECT_TRUE(is_refused(t.run(store->update("b", "plain", "", std::move(touch)))));
  }
  EXPECT_EQ(rows_of_ends(parts_of(t)), 0u) << "an older server may come back";
  open_gate(parts_of(t));
  ASSERT_TRUE(eventually([&] { return both[0]->keeps_ends() && both[1]->keeps_ends(); }));
  EXPECT_TRUE(put_brief(t, *both[0], "first"));
  EXPECT_TRUE(put_brief(t, *both[1], "second"));
  EXPECT_EQ(rows_of_ends(parts_of(t)), 3u) << "of the bucket and of two keys";
  for (rados::RadosStore* const store : both) EXPECT_TRUE(t.run(store->stat("b", "first")));
  t.step_clock(std::chrono::hours(1));
  for (rados::RadosStore* const store : both) {
    for (const char* const key : {"first", "second"}) {
      EXPECT_EQ(t.run(store->stat("b", key)).error(), Errc::no_such_key) << key;
    }
    const auto due = t.run(store->ended(10, nullptr));
    EXPECT_EQ(due ? due->size() : 0, 2u);
    EXPECT_TRUE(t.run(store->stat("b", "plain")));
  }
}

// It has not read that the format was raised. Its readers find no more than those of the others.
TEST_F(FormatsOnRados, AServerThatWasAwayWhenEndsBeganShowsNothingThatHasEnded) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  close_gate(parts_of(t));
  auto opened = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(opened) << opened.error();
  rados::RadosStore& away = **opened;
  ASSERT_TRUE(eventually([&] { return !t.store().keeps_ends() && !away.keeps_ends(); }));
  {
    const Stalled stalled(static_cast<rados::Engine&>(*away.context()));
    open_gate(parts_of(t));
    ASSERT_TRUE(eventually([&] { return t.store().keeps_ends(); }));
    ASSERT_TRUE(put_brief(t, t.store(), "brief"));
    ASSERT_FALSE(away.keeps_ends());
    EXPECT_TRUE(t.run(away.stat("b", "brief")));
    t.step_clock(std::chrono::hours(1));
    EXPECT_EQ(t.run(away.stat("b", "brief")).error(), Errc::no_such_key);
  }
  ASSERT_TRUE(eventually([&] { return away.keeps_ends(); }));
  EXPECT_TRUE(put_brief(t, away, "brief"));
  EXPECT_TRUE(t.run(t.store().stat("b", "brief")));
}

TEST_F(FormatsOnRados, AStoreThatHasLostTheObjectOfItsServersIsNotTakenForANewOne) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  librados::IoCtx& pool = parts_of(t).cluster->context(Cluster::Pool::index);
  ASSERT_EQ(pool.remove(std::string(rados::servers_object)), 0);
  // The running server makes the object anew with its sign.
  const auto late = eventually([&] {
    (void)pool.remove(std::string(rados::servers_object));
    const auto connected = rados::RadosStore::connect(t.options);
    return !connected && connected.error().find("setomapval servers format") != std::string::npos;
  });
  EXPECT_TRUE(late);
  ASSERT_TRUE(eventually([&] { return !rows_of(parts_of(t)).empty(); })) << "the running server's sign";
  EXPECT_FALSE(rados::RadosStore::connect(t.options)) << "which says nothing of formats";
}

// All its buckets were removed, or it never had one.
TEST_F(FormatsOnRados, AStoreWithoutBucketsThatHasLostTheObjectOfItsServersIsNotTakenForANewOneEither) {
  RadosRig t;
  t.open();
  librados::IoCtx& pool = parts_of(t).cluster->context(Cluster::Pool::index);
  const auto late = eventually([&] {
    (void)pool.remove(std::string(rados::servers_object));
    const auto connected = rados::RadosStore::connect(t.options);
    return !connected && connected.error().find("setomapval servers format") != std::string::npos;
  });
  EXPECT_TRUE(late);
}

}  // namespace
}  // namespace verbena::store::conformance
