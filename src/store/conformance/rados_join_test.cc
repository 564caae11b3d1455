// Tablets that are joined again, on the cluster that tests/rados starts.
#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>

#include "store/conformance/on_rados.h"
#include "store/ends.h"
#include "store/logic/keys.h"
#include "store/logic/usage.h"
#include "store/rados/inspect/survey.h"

namespace verbena::store::conformance {
namespace {

constexpr int joined_keys = 60;

class JoiningOnRados : public OnRados {
 protected:
  // A bucket of many tablets, in a store that joins none until join_now().
  void SetUp() override {
    OnRados::SetUp();
    if (IsSkipped()) return;
    t_ = std::make_unique<RadosRig>();
    t_->options.split_rows = 4;
    t_->open();
    set_format(1);
    t_->make_bucket("b");
    for (int i = 0; i < joined_keys; ++i) ASSERT_TRUE(t_->put("b", key(i), value(i)));
    // Each write is followed by a look at its tablet, which a split that is under way may leave to the next one. Of
    // keys whose bytes are in rows: others would leave bytes to be removed.
    int turn = 0;
    ASSERT_TRUE(eventually([&] {
      if (++turn % 10 == 0) ++turn;
      EXPECT_TRUE(t_->put("b", key(turn % joined_keys), value(turn % joined_keys)));
      return tablets() >= 4;
    }));
    t_->options.split_rows = 4000;
    t_->reopen();
    ASSERT_EQ(engine().formats.current(), 1u);
    id_ = engine().buckets.find("b")->id;
  }
  static std::string value(int i) { return pattern(i % 10 == 0 ? 70'000 : 100, static_cast<uint64_t>(i)); }
  rados::Engine& engine() { return parts_of(*t_); }
  rados::BucketPtr state() { return *engine().run(engine().registry.load(id_)); }
  uint64_t tablets() {
    const auto survey = t_->store().survey();
    return survey ? survey->tablets : 0;
  }
  void set_format(int format) {
    librados::ObjectWriteOperation op;
    const std::map<std::string, rados::Buffer> row = {{"format", rados::to_buffer(std::to_string(format) + " 0")}};
    op.omap_set(row);
    ASSERT_EQ(engine().run(engine().cluster->write(rados::Cluster::Pool::index, std::string(rados::servers_object),
                                                   std::move(op))),
              0);
  }
  void allow() {
    set_format(2);
    ASSERT_TRUE(eventually([&] { return engine().formats.current() == 2; }));
  }
  void join_now(rados::Engine& by) {
    const auto done = by.run(by.joiner.look_at(id_, 0));
    ASSERT_TRUE(done) << describe(done.error());
  }
  void expect_all(int from = 0) {
    std::vector<std::string> wanted;
    for (int i = from; i < joined_keys; ++i) wanted.push_back(key(i));
    for (const int page : {7, 1000}) EXPECT_EQ(keys_of(*t_, page), wanted);
    for (int i = from; i < joined_keys; ++i) EXPECT_EQ(t_->get("b", key(i)).value_or("nothing"), value(i)) << i;
  }
  void set_rows(const std::string& object, const std::map<std::string, std::string>& rows) {
    librados::ObjectWriteOperation op;
    std::map<std::string, rados::Buffer> set;
    for (const auto& [row, text] : rows) set.emplace(row, rados::to_buffer(text));
    op.omap_set(set);
    ASSERT_EQ(engine().run(engine().cluster->write(rados::Cluster::Pool::index, object, std::move(op))), 0);
  }
  std::map<std::string, std::string> rows_of_keys(const rados::Tablet& tablet) {
    std::map<std::string, std::string> rows;
    for (const char letter : rados::tablet_letters) {
      const auto found = engine().run(engine().registry.all(tablet.object, std::string(1, letter)));
      EXPECT_TRUE(found);
      if (found) rows.insert(found->begin(), found->end());
    }
    return rows;
  }
  std::unique_ptr<RadosRig> t_;
  uint64_t id_ = 0;
};

// The first tablet's count of them was kept, and those that came were not in it.
TEST_F(JoiningOnRados, TokensOfRenamesAreCountedAnew) {
  int tokens = 0;
  const auto rename = [&](const std::string& from) {
    RenameRequest request;
    request.from = from;
    request.to = from + "x";
    request.token = std::to_string(++tokens);
    request.asked = from;
    const auto renamed = t_->run(t_->engine().rename("b", request));
    ASSERT_TRUE(renamed) << describe(renamed.error());
  };
  rename(key(0));
  rename(key(0) + "x");
  for (const std::string& name : {key(59), key(59) + "x", key(59) + "xx"}) rename(name);
  allow();
  ASSERT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
  rename(key(0) + "xx");
  const std::string tablet = state()->tablets.front().object;
  const auto ages = engine().run(engine().registry.all(tablet, "a"));
  ASSERT_TRUE(ages);
  EXPECT_EQ(ages->size(), static_cast<size_t>(tokens));
  EXPECT_EQ(engine().run(engine().registry.row(tablet, "r")).value_or(""), keys::number(ages->size()));
}

TEST_F(JoiningOnRados, NoneIsJoinedWhileServersRunThatDoNotKnowIt) {
  const uint64_t before = tablets();
  join_now(engine());
  EXPECT_EQ(tablets(), before);
}

TEST_F(JoiningOnRados, NoneIsJoinedWhileOneRunsThatWasAwayWhenOthersBeganTo) {
  allow();
  const std::string away = rados::server_row(1'000'000);
  set_rows(std::string(rados::servers_object), {{away, std::string(16, '\1')}});
  ASSERT_TRUE(eventually([&] { return !engine().formats.all_know_it(); }));
  const uint64_t before = tablets();
  join_now(engine());
  EXPECT_EQ(tablets(), before);
  librados::ObjectWriteOperation ends;
  ends.omap_rm_keys({away});
  ASSERT_EQ(engine().run(engine().cluster->withdraw(std::string(rados::servers_object), std::move(ends))), 0);
  ASSERT_TRUE(eventually([&] { return engine().formats.all_know_it(); }));
  // The leader may join them, too, if it has given that server up.
  EXPECT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
}

// A late call of a server that knows no fences compares the absence of a version token, and nothing else.
TEST_F(JoiningOnRados, NothingIsSweptWhileOneRunsThatKnowsNoFences) {
  const auto look = [&] {
    const std::set<uint64_t> living = {engine().garbage->incarnation(), UINT64_MAX};
    const rados::BucketPtr now = state();
    for (size_t i = 0; i < now->tablets.size(); ++i) {
      ASSERT_TRUE(engine().run(engine().look_into_tablet(now, i, living)));
    }
  };
  const auto tombstones = [&] {
    size_t found = 0;
    const rados::BucketPtr now = state();
    for (const rados::Tablet& tablet : now->tablets) {
      found += engine().run(engine().registry.all(tablet.object, "z"))->size();
    }
    return found;
  };
  ASSERT_TRUE(t_->remove("b", key(0)));
  t_->step_clock(std::chrono::hours(1));
  look();
  EXPECT_EQ(tombstones(), 1u) << "the cluster's format is the first one";
  allow();
  const std::string away = rados::server_row(1'000'000);
  set_rows(std::string(rados::servers_object), {{away, std::string(16, '\1')}});
  ASSERT_TRUE(eventually([&] { return !engine().formats.all_know_it(); }));
  ASSERT_TRUE(t_->remove("b", key(1)));
  t_->step_clock(std::chrono::hours(1));
  const size_t before = tombstones();
  ASSERT_GE(before, 1u);
  look();
  EXPECT_EQ(tombstones(), before) << "one was away when the others began to";
  librados::ObjectWriteOperation ends;
  ends.omap_rm_keys({away});
  ASSERT_EQ(engine().run(engine().cluster->withdraw(std::string(rados::servers_object), std::move(ends))), 0);
  EXPECT_TRUE(eventually([&] {
    look();
    return tombstones() == 0;
  }));
}

TEST_F(JoiningOnRados, AnEndGoesWithItsKeyWhenTabletsAreSplitAndJoined) {
  set_format(3);
  ASSERT_TRUE(eventually([&] { return engine().formats.current() == 3; }));
  const auto put_brief = [this](const std::string& name) {
    auto writer = t_->run(t_->engine().create("b", name, 5));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t_->append(**writer, "bytes"));
    ObjectInfo info;
    info.size = 5;
    info.etag = Rig::etag_of("bytes");
    info.headers.emplace_back(ttl_header, "60");
    ASSERT_TRUE(t_->run((*writer)->commit(info, {})));
  };
  // One for each key, in its tablet, and none elsewhere.
  const auto ends_are_with_their_keys = [this] {
    const auto now = state();
    size_t ends = 0;
    for (size_t tablet = 0; tablet < now->tablets.size(); ++tablet) {
      const auto rows = engine().run(engine().registry.all(now->tablets[tablet].object, "t"));
      if (!rows) return false;
      for (const auto& [row, value] : *rows) {
        const auto end = rados::parse_stored_end_row(row);
        if (!end || now->tablet_of("o" + end->key) != tablet) return false;
      }
      ends += rows->size();
    }
    return ends == joined_keys;
  };
  for (int i = 0; i < joined_keys; ++i) put_brief(key(i));
  EXPECT_TRUE(eventually(ends_are_with_their_keys));
  ASSERT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
  EXPECT_TRUE(ends_are_with_their_keys());
  t_->options.split_rows = 4;
  t_->reopen();
  int turn = 0;
  ASSERT_TRUE(eventually([&] {
    put_brief(key(turn++ % joined_keys));
    return tablets() >= 4;
  }));
  EXPECT_TRUE(eventually(ends_are_with_their_keys));
  t_->step_clock(std::chrono::hours(1));
  for (const size_t page : {size_t(7), size_t(1000)}) {
    std::set<std::string> due;
    std::optional<EndedKey> last;
    for (;;) {
      const auto found = t_->run(t_->store().ended(page, last ? &*last : nullptr));
      ASSERT_TRUE(found) << describe(found.error());
      for (const EndedKey& one : *found) due.insert(one.key);
      if (found->size() < page) break;
      last = found->back();
    }
    EXPECT_EQ(due.size(), static_cast<size_t>(joined_keys)) << page;
  }
}

// A phase whose epoch does not reach each tablet has begun all the same.
TEST_F(JoiningOnRados, AJoinThatFailsHalfWayIsUndoneAtOnce) {
  allow();
  const auto before = state();
  ASSERT_GE(before->tablets.size(), 3u);
  const rados::Tablet first = before->tablets[0], second = before->tablets[1], last = before->tablets.back();
  const auto set_epoch = [&](const std::string& text) {
    librados::ObjectWriteOperation op;
    op.setxattr(rados::epoch_attribute, rados::to_buffer(text));
    ASSERT_EQ(engine().run(engine().cluster->withdraw(last.object, std::move(op))), 0);
  };
  set_epoch("no number");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(engine().run(engine().joiner.look_at(id_, first.number)));
  EXPECT_EQ(state()->phase, rados::Phase::live);
  EXPECT_GT(state()->epoch, before->epoch);
  const auto closing = [&] {
    return engine().run(
        engine().registry.set_phase(state(), rados::Phase::closing, first.number, keys::number(second.number)));
  };
  EXPECT_FALSE(closing());
  ASSERT_EQ(state()->phase, rados::Phase::closing);
  engine().run(engine().splitter.undo(id_, keys::number(1)));
  EXPECT_EQ(state()->phase, rados::Phase::closing) << "of another server";
  engine().run(engine().splitter.undo(id_, state()->phase_who()));
  EXPECT_EQ(state()->phase, rados::Phase::live);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(12)) << "others wait for 15 s";
  set_epoch(before->epoch_text);
  expect_all();
  join_now(engine());
  EXPECT_EQ(tablets(), 1u);
  expect_all();
}

// Its first look at all tablets comes before its first look at the others' formats; the next one may be the leader's.
TEST_F(JoiningOnRados, AServerThatStartsJoinsWhatItFinds) {
  allow();
  t_->reopen();
  EXPECT_TRUE(engine().formats.all_know_it());
  EXPECT_TRUE(eventually([&] { return tablets() == 1; }, std::chrono::seconds(120)));
  expect_all();
}

TEST_F(JoiningOnRados, ASplitWhosePhaseFailsHalfWayIsUndoneAtOnce) {
  allow();
  join_now(engine());
  ASSERT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
  t_->options.split_rows = 4;
  t_->reopen();
  const auto before = state();
  const rados::Tablet tablet = before->tablets[0];
  const auto set_epoch = [&](const std::string& text) {
    librados::ObjectWriteOperation op;
    op.setxattr(rados::epoch_attribute, rados::to_buffer(text));
    ASSERT_EQ(engine().run(engine().cluster->withdraw(tablet.object, std::move(op))), 0);
  };
  set_epoch("no number");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(engine().run(engine().splitter.look_at({id_, tablet.number})));
  EXPECT_EQ(state()->phase, rados::Phase::live);
  EXPECT_GT(state()->epoch, before->epoch) << "the phase had begun";
  EXPECT_EQ(state()->tablets.size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(12)) << "others wait for 15 s";
  set_epoch(before->epoch_text);
  ASSERT_TRUE(engine().run(engine().splitter.look_at({id_, tablet.number})));
  EXPECT_GT(tablets(), 1u);
  expect_all();
}

// Of a check that began before a join, and takes longer than the joined tablet's object stays.
TEST_F(JoiningOnRados, ACheckBesideJoinsTellsNoLoss) {
  allow();
  const auto before = state();
  const std::string row = "o" + key(50);
  rados::Survey counts, later;
  rados::RowSurvey early(engine().registry, counts), late(engine().registry, later);
  ASSERT_TRUE(engine().run(early.look_at_bucket(before)));
  const auto named = std::ranges::find(early.striped, row, [](const auto& one) { return one.second.row; });
  ASSERT_NE(named, early.striped.end());
  EXPECT_FALSE(engine().run(rados::is_lost(engine(), named->second)).value());
  join_now(engine());
  ASSERT_TRUE(t_->put("b", key(50), value(20)));
  EXPECT_TRUE(eventually([&] { return t_->store().settled(); }));  // the bytes that were replaced are gone
  rados::Survey stale;
  rados::RowSurvey kept(engine().registry, stale);
  ASSERT_TRUE(engine().run(kept.look_at_bucket(before)));
  EXPECT_TRUE(kept.striped.contains(named->first)) << "the joined tablet's object still names them";
  EXPECT_FALSE(engine().run(rados::is_lost(engine(), named->second)).value());
  const rados::BucketPtr joined = state();
  for (const uint64_t number : joined->joined) {
    engine().cluster->context(rados::Cluster::Pool::index).remove(rados::tablet_object(id_, number));
  }
  ASSERT_TRUE(engine().run(late.look_at_bucket(before)));
  EXPECT_EQ(later.objects, static_cast<uint64_t>(joined_keys));
  const auto now = std::ranges::find(late.striped, row, [](const auto& one) { return one.second.row; });
  ASSERT_NE(now, late.striped.end());
  EXPECT_FALSE(engine().run(rados::is_lost(engine(), now->second)).value());
  librados::IoCtx& data = engine().cluster->context(rados::Cluster::Pool::data);
  ASSERT_EQ(data.remove(rados::stripe_object(now->first, 0)), 0);
  EXPECT_TRUE(engine().run(rados::is_lost(engine(), now->second)).value());
  const auto survey = t_->store().survey();
  ASSERT_TRUE(survey);
  EXPECT_EQ(survey->lost, std::vector<std::string>{"b/" + key(50)});
}

TEST_F(JoiningOnRados, TabletsWithFewRowsBecomeOneAndEverythingIsThere) {
  allow();
  const auto counted = t_->usage("b");
  join_now(engine());
  EXPECT_EQ(tablets(), 1u);
  EXPECT_FALSE(state()->joined.empty()) << "the objects stay for a while";
  expect_all();
  EXPECT_EQ(t_->usage("b").value(), counted.value());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(t_->remove("b", key(i)));
  EXPECT_EQ(t_->usage("b")->objects, counted->objects - 20);
  ASSERT_TRUE(engine().run(engine().book.look(id_)));
  EXPECT_EQ(t_->engine().usage_now("b")->bucket, t_->usage("b").value());
  t_->reopen();
  expect_all(20);
  EXPECT_EQ(t_->engine().usage_now("b")->bucket, t_->usage("b").value());
  EXPECT_FALSE(t_->leaks());
}

TEST_F(JoiningOnRados, TwoServersJoinWhileKeysAreWrittenAndListed) {
  auto other = rados::RadosStore::connect(t_->options);
  ASSERT_TRUE(other) << other.error();
  auto& others = static_cast<rados::Engine&>(*(*other)->context());
  allow();
  ASSERT_TRUE(eventually([&] { return others.formats.current() == 2; }));
  std::atomic<bool> stop{false};
  std::thread joining([&] {
    while (!stop) {
      (void)others.run(others.joiner.look_at(id_, 0));
      (void)others.run(others.joiner.look_at(id_, state()->tablets.back().number));
    }
  });
  std::vector<std::string> wanted;
  for (int i = 0; i < joined_keys; ++i) wanted.push_back(key(i));
  for (int round = 0; round < 200 && (round < 10 || state()->tablets.size() > 1); ++round) {
    for (int i = round % 7; i < joined_keys; i += 7) {
      ASSERT_TRUE(t_->put("b", key(i), value(i + round + 1)));
      EXPECT_EQ(t_->get("b", key(i)).value_or("nothing"), value(i + round + 1));
    }
    EXPECT_EQ(keys_of(*t_, 7), wanted);
    join_now(engine());
  }
  stop = true;
  joining.join();
  // A tablet is joined when the bytes that were replaced are gone.
  EXPECT_TRUE(eventually([&] { return engine().run(engine().joiner.look_at(id_, 0)) && tablets() == 1; }));
  EXPECT_EQ(keys_of(*t_, 1000), wanted);
  EXPECT_EQ(t_->usage("b")->objects, static_cast<uint64_t>(joined_keys));
  other->reset();
  EXPECT_FALSE(t_->leaks());
}

// As a server leaves it that is killed, in each of the two phases, with rows copied that change afterwards.
TEST_F(JoiningOnRados, AJoinThatWasLeftIsUndoneAndWhatItCopiedIsNeverSeen) {
  for (const rados::Phase phase : {rados::Phase::joining, rados::Phase::closing}) {
    const auto before = state();
    const rados::Tablet first = before->tablets[0], second = before->tablets[1];
    const std::string left = second.low;
    const auto frozen =
        engine().run(engine().registry.set_phase(before, phase, first.number, keys::number(second.number)));
    ASSERT_TRUE(frozen);
    EXPECT_FALSE((*frozen)->may_change(first) || (*frozen)->may_change(second));
    EXPECT_EQ((*frozen)->may_read(second), phase == rados::Phase::joining);
    auto copied = rows_of_keys(second);
    Usage of_a_server_that_died;
    of_a_server_that_died.objects = 5;
    copied.emplace(rados::joined_usage_row(77, second.number), encode(of_a_server_that_died));
    set_rows(first.object, copied);
    ASSERT_TRUE(t_->remove("b", left)) << "another server undoes it after 15 s";
    EXPECT_EQ(state()->phase, rados::Phase::live);
    EXPECT_EQ(t_->get("b", left).error(), Errc::no_such_key);
    ASSERT_TRUE(t_->put("b", left + "/other", "x"));
    EXPECT_EQ(t_->get("b", left + "/other").value_or("nothing"), "x");
    ASSERT_TRUE(t_->remove("b", left + "/other"));
    if (phase == rados::Phase::closing) continue;
    ASSERT_TRUE(t_->put("b", left, value(1)));
  }
  const std::string gone = state()->tablets[1].low;
  allow();
  join_now(engine());
  EXPECT_EQ(tablets(), 1u);
  EXPECT_EQ(t_->get("b", gone).error(), Errc::no_such_key) << "a copy from before it was removed";
  EXPECT_EQ(keys_of(*t_, 1000).size(), static_cast<size_t>(joined_keys) - 1);
  EXPECT_EQ(t_->usage("b")->objects, static_cast<uint64_t>(joined_keys) - 1);
}

// Each join leaves a row for each server; they are added up, and nothing is counted twice or lost.
TEST_F(JoiningOnRados, RowsOfJoinedTabletsAreAddedUp) {
  const auto before = state();
  const auto first = before->tablets[0].object;
  const uint64_t own = engine().garbage->incarnation();
  const std::set<uint64_t> living = {own, UINT64_MAX};
  const auto rows = [&] { return engine().run(engine().registry.all(first, "$j")).value(); };
  const auto fold = [&] { return engine().run(engine().book.fold_joined(state(), 0, living)).has_value(); };
  const auto objects = [&] { return engine().run(engine().book.read(id_))->objects; };
  Usage five;
  five.objects = 5;
  // What a join that was undone has left counts nowhere, and is left alone.
  const std::string undone = rados::joined_usage_row(77, before->tablets[1].number);
  set_rows(first, {{undone, encode(five)}});
  ASSERT_TRUE(fold());
  EXPECT_EQ(rows().count(undone), 1u);
  EXPECT_EQ(objects(), static_cast<uint64_t>(joined_keys));
  allow();
  ASSERT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
  const uint64_t gone = before->tablets[1].number, gone_too = before->tablets[2].number;
  set_rows(first, {{rados::joined_usage_row(77, gone), encode(five)},
                   {rados::joined_usage_row(77, gone_too), encode(five)},
                   {rados::joined_usage_row(own, gone + 1'000'000), encode(five)},
                   {rados::joined_usage_row(own, gone + 2'000'000), encode(five)}});
  const uint64_t counted = objects();
  EXPECT_GE(rows().size(), 4u);
  ASSERT_TRUE(fold());
  ASSERT_EQ(rows().size(), 1u) << "this server's";
  EXPECT_EQ(rados::parse_joined_usage_row(rows().begin()->first)->incarnation, own);
  EXPECT_EQ(objects(), counted);
  ASSERT_TRUE(fold());
  EXPECT_EQ(objects(), counted);
}

// Others added its rows to the common one, or took over what it counted in a tablet that was joined afterwards. What it
// has counted itself is its own only while a row of its own says so.
TEST_F(JoiningOnRados, AServerThatComesBackCountsNothingTwice) {
  allow();
  const auto counted = [&] { return t_->engine().usage_now("b")->bucket.objects; };
  const auto look = [&] { return engine().run(engine().book.look(id_)).has_value(); };
  for (int i = 0; i < joined_keys; i += 2) ASSERT_TRUE(t_->remove("b", key(i)));
  uint64_t left = joined_keys / 2;
  const std::string second = state()->tablets[1].object;
  ASSERT_TRUE(engine().run(engine().book.take_over(second, {})));
  ASSERT_TRUE(eventually([&] {
    join_now(engine());
    return tablets() == 1;
  }));
  ASSERT_TRUE(look());
  EXPECT_EQ(counted(), left);
  ASSERT_TRUE(engine().run(engine().book.fold_joined(state(), 0, {UINT64_MAX})));
  ASSERT_TRUE(engine().run(engine().registry.all(state()->tablets[0].object, "$j"))->empty());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(look());
    EXPECT_EQ(counted(), left);
  }
  ASSERT_TRUE(t_->remove("b", key(1)));
  --left;
  EXPECT_EQ(counted(), left);
  ASSERT_TRUE(look());
  EXPECT_EQ(counted(), left);
  EXPECT_EQ(t_->usage("b")->objects, left);
}

// The row stayed in the first tablet when that was split, and counted as soon as the second one was joined with another
// tablet than that.
TEST_F(JoiningOnRados, WhatAnUndoneJoinCountedIsNotCountedAfterASplit) {
  const auto before = state();
  const rados::Tablet first = before->tablets[0], second = before->tablets[1];
  Usage five;
  five.objects = 5;
  set_rows(first.object, {{rados::joined_usage_row(77, second.number), encode(five)}});
  t_->options.split_rows = 4;
  t_->reopen();
  ASSERT_TRUE(eventually([&] {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(t_->put("b", "a/" + key(i), "x"));
    return state()->phase == rados::Phase::live && state()->tablets[1].number != second.number;
  }));
  t_->options.split_rows = 4000;
  t_->reopen();
  allow();
  ASSERT_EQ(state()->tablets[0].number, first.number);
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(engine().run(engine().joiner.look_at(id_, state()->tablets[1].number)));
    return rados::find_tablet(*state(), second.number) == state()->tablets.size();
  }));
  EXPECT_EQ(t_->usage("b")->objects, keys_of(*t_, 1000).size());
}

// Another server looks at the first tablet while the second one's rows are being copied behind its end.
TEST_F(JoiningOnRados, RowsThatAJoinCopiesAreNotTakenForWhatASplitLeftBehind) {
  const auto before = state();
  const rados::Tablet first = before->tablets[0], second = before->tablets[1];
  const rados::Splitter::Name name(id_, first.number);
  const auto all = [&] { return engine().run(engine().registry.all(first.object, "")).value(); };
  auto now = before;
  for (const rados::Phase phase : {rados::Phase::joining, rados::Phase::closing}) {
    const auto set = engine().run(engine().registry.set_phase(now, phase, first.number, keys::number(second.number)));
    ASSERT_TRUE(set) << describe(set.error());
    now = *set;
    if (phase == rados::Phase::joining) set_rows(first.object, rows_of_keys(second));
    const auto copied = all();
    ASSERT_TRUE(engine().run(engine().splitter.look_at(name)));
    EXPECT_EQ(all(), copied);
  }
  ASSERT_TRUE(engine().run(engine().registry.set_phase(now, rados::Phase::live)));
  ASSERT_TRUE(engine().run(engine().splitter.look_at(name)));
  const auto left = all();
  for (const auto& [row, value] : rows_of_keys(second)) EXPECT_FALSE(left.contains(row)) << "the join was undone";
  expect_all();
}

TEST_F(JoiningOnRados, AServerThatWasAwayWhileItsJoinWasUndoneNamesNothing) {
  const auto before = state();
  const rados::Tablet first = before->tablets[0], second = before->tablets[1];
  const auto frozen = engine().run(
      engine().registry.set_phase(before, rados::Phase::joining, first.number, keys::number(second.number)));
  ASSERT_TRUE(frozen);
  ASSERT_TRUE(t_->put("b", second.low, "new"));  // the others went on
  const auto late = engine().run(
      engine().registry.set_phase(*frozen, rados::Phase::closing, first.number, keys::number(second.number)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), Errc::conditional_conflict);
  EXPECT_EQ(t_->get("b", second.low).value_or("nothing"), "new");
}

TEST_F(JoiningOnRados, ATabletWhoseEventsWaitIsNotJoined) {
  allow();
  const auto before = state();
  set_rows(before->tablets[1].object, {{rados::event_row("queue", 1, 1), "x"}});
  join_now(engine());
  EXPECT_EQ(state()->tablets[1].number, before->tablets[1].number);
  ASSERT_TRUE(t_->run(t_->store().remove_events("queue", id_, {1})));
  join_now(engine());
  EXPECT_EQ(tablets(), 1u);
  expect_all();
}

TEST_F(JoiningOnRados, ABucketOfJoinedTabletsIsRemovedWithAllOfThem) {
  allow();
  join_now(engine());
  const auto joined = state()->joined;
  ASSERT_FALSE(joined.empty());
  for (int i = 0; i < joined_keys; ++i) ASSERT_TRUE(t_->remove("b", key(i)));
  ASSERT_TRUE(t_->run(t_->store().remove_bucket("b")));
  EXPECT_TRUE(eventually([&] {
    for (const uint64_t number : joined) {
      if (engine().run(engine().registry.all(rados::tablet_object(id_, number), ""))) return false;
    }
    return true;
  }));
  EXPECT_FALSE(t_->leaks());
}

}  // namespace
}  // namespace verbena::store::conformance
