// Servers over the model of RADOS, each under a user of its own, and what befalls single calls of theirs. In virtual
// time: a minute takes a moment.
#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "simulator/rados_model.h"
#include "store/conformance/on_rados.h"
#include "store/event.h"
#include "store/logic/keys.h"
#include "store/rados/upkeep/tombstones.h"

namespace verbena::store::conformance {
namespace {

using simulator::RadosModel;
using simulator::RadosObject;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds patience{120};

class RadosFaults : public ::testing::Test {
 protected:
  // The rig's store is the first server's.
  RadosFaults() {
    t.options.user = "first";
    model.set_weather({});
  }
  ~RadosFaults() override { model.set_weather({}); }

  std::unique_ptr<rados::RadosStore> another(const std::string& user) {
    rados::Options options = t.options;
    options.user = user;
    auto opened = rados::RadosStore::connect(options);
    if (!opened) ADD_FAILURE() << opened.error();
    return opened ? std::move(*opened) : nullptr;
  }
  static rados::Engine& parts(rados::RadosStore& store) { return static_cast<rados::Engine&>(*store.context()); }
  rados::Engine& parts() { return parts_of(t); }

  // As it is in the cluster now.
  RadosObject object(const std::string& name) {
    return model.find("index", t.options.name_space + '\0' + name).value_or(RadosObject());
  }
  std::string row(const std::string& of, const std::string& name) {
    const auto rows = object(of).rows;
    const auto found = rows.find(name);
    return found == rows.end() ? std::string() : found->second;
  }
  uint64_t bucket() { return parts().buckets.find("b")->id; }
  // Rows of the bucket's first tablet that begin with one of these letters.
  std::set<std::string> rows_of_keys(const std::string& letters) {
    std::set<std::string> found;
    for (const auto& [name, value] : object(rados::tablet_object(bucket(), 0)).rows) {
      if (letters.find(name.front()) != std::string::npos) found.insert(name);
    }
    return found;
  }
  rados::BucketPtr state() { return *parts().run(parts().registry.load(bucket())); }
  // Drives a call of the first server until the key's version token is another one: the change is made then.
  template <class T>
  void drive_until_made(Steps& steps, std::future<T>& call, const std::string& tablet, const std::string& key) {
    const std::string name = rados::version_token_row(key), before = row(tablet, name);
    while (!Steps::is_ready(call) && row(tablet, name) == before) steps.io.run_one_for(milliseconds(1));
    EXPECT_NE(row(tablet, name), before);
  }
  static std::string key(int i) { return "key/" + std::to_string(1000 + i); }
  // A bucket with so many tablets, of which none is being split.
  void make_tablets(size_t count) {
    t.options.split_rows = 8;
    t.open();
    t.make_bucket("b");
    const int keys = 12 * static_cast<int>(count);
    for (int i = 0; i < keys; ++i) ASSERT_TRUE(t.put("b", key(i), "x"));
    // A tablet is looked at when it is written to.
    ASSERT_TRUE(lives_long_enough([&] {
      for (int i = 0; i < keys; ++i) EXPECT_TRUE(t.put("b", key(i), "x"));
      return state()->tablets.size() >= count && state()->phase == rados::Phase::live;
    }));
    std::this_thread::sleep_for(seconds(5));  // splits that are under way end
  }
  // In the cluster's objects now.
  std::set<std::string> names(const std::string& pool, const std::string& prefix) {
    std::set<std::string> found;
    for (const std::string& name : model.list(pool)) {
      if (name.starts_with(t.options.name_space + '\0' + prefix)) found.insert(name);
    }
    return found;
  }
  bool lives_long_enough(std::function<bool()> condition) { return eventually(std::move(condition), patience); }

  RadosModel& model = RadosModel::get();
  RadosRig t;
};

// A change was made and its answer lost, and its server then put on the blocklist: an OSD refuses the call that is sent
// again before it looks whether it knows it. The refusal was taken for the change's fate, and its bytes were removed.
TEST_F(RadosFaults, WhatWasMadeBeforeItsServerWasShutOutKeepsItsBytes) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(100'000, 1)));
  const std::string bytes = pattern(rados::stripe_size, 2), tablet = rados::tablet_object(bucket(), 0);
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, bytes));
  ObjectInfo info;
  info.size = bytes.size();
  Steps steps;
  model.set_weather({.answer_lost = 65'535});
  auto committing = steps.begin((*writer)->commit(info, {}));
  drive_until_made(steps, committing, tablet, "k");
  model.shut_out("first");
  EXPECT_EQ(steps.end(std::move(committing)).error(), Errc::service_unavailable);
  writer->reset();
  model.set_weather({});
  model.let_in("first");
  EXPECT_TRUE(lives_long_enough([&] { return t.get("b", "k").value_or("nothing") == bytes; }));
  EXPECT_TRUE(lives_long_enough([&] { return t.store().settled(); }));
  std::this_thread::sleep_for(seconds(10));
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), bytes);
  EXPECT_EQ(t.store().survey()->lost_count, 0u);
}

// Likewise a change in a tablet that was joined with another one before the call was sent again, and then removed.
TEST_F(RadosFaults, AChangeInATabletThatIsGoneIsNotMadeTwice) {
  t.options.split_rows = 8;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(t.put("b", key(i), "x"));
  ASSERT_TRUE(lives_long_enough([&] {
    EXPECT_TRUE(t.put("b", key(0), "x"));
    return state()->tablets.size() >= 2;
  }));
  std::this_thread::sleep_for(seconds(5));  // splits that are under way end
  t.options.timeout = seconds(600);         // the first server waits for its answer
  t.reopen();
  const auto other = another("second");
  auto& others = parts(*other);
  rados::Joiner joiner(others.registry, others.splitter, others.formats, 4000);
  ASSERT_TRUE(lives_long_enough([&] { return others.formats.all_know_it() && parts().formats.all_know_it(); }));
  ASSERT_TRUE(t.put("b", key(11), "x"));  // a server's first change of a tablet is two calls
  std::this_thread::sleep_for(seconds(5));
  const auto before = state();
  ASSERT_GE(before->tablets.size(), 2u);
  const rados::Tablet last = before->tablets.back();
  const uint64_t first = before->tablets[before->tablets.size() - 2].number;
  Steps steps;
  model.set_weather({.answer_lost = 65'535, .calls_remembered = 0});
  auto removing = steps.begin(t.engine().remove("b", key(11), {}));
  drive_until_made(steps, removing, last.object, key(11));
  model.set_weather({.calls_remembered = 0});
  model.cut("first", seconds(25));
  ASSERT_TRUE(lives_long_enough([&] {
    EXPECT_TRUE(others.run(joiner.look_at(before->id, first)));
    const auto now = others.run(others.registry.load(before->id));
    return now && rados::find_tablet(**now, last.number) == (*now)->tablets.size();
  }));
  // The leader removes it five minutes later.
  others.cluster->context(rados::Cluster::Pool::index).remove(last.object);
  const auto removed = steps.end(std::move(removing));
  EXPECT_TRUE(!removed && removed.error() == Errc::service_unavailable);
  size_t markers = 0;
  ListVersionsRequest request;
  request.prefix = key(11);
  Result<std::vector<VersionEntry>> versions;
  ASSERT_TRUE(lives_long_enough([&] {
    versions = t.all_versions("b", request);
    return versions.has_value();
  }));
  for (const auto& version : *versions) markers += version.info.delete_marker ? 1 : 0;
  EXPECT_EQ(markers, 1u);
}

// And where the bucket itself went, its clients hear that.
TEST_F(RadosFaults, AChangeInABucketThatIsGoneIsNotOfUnknownOutcome) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "x"));
  const auto removed = state();
  Steps steps;
  std::future<Result<Removed>> removing;
  {
    const Stalled stalled(parts());
    removing = steps.begin(t.engine().remove("b", "k", {}));
    steps.rest();
    const auto cluster = connect(t.options);
    ASSERT_NE(cluster, nullptr);
    librados::IoCtx& index = cluster->context(rados::Cluster::Pool::index);
    ASSERT_EQ(index.remove(removed->tablets[0].object), 0);
    ASSERT_EQ(index.remove(rados::bucket_object(removed->id)), 0);
  }
  EXPECT_EQ(steps.end(std::move(removing)).error(), Errc::no_such_bucket);
}

// Changes of many buckets of one owner under way left it no room to raise another bucket's epoch. A change that was not
// answered then landed after the object's removal was acknowledged.
TEST_F(RadosFaults, AChangeThatComesLateBringsNothingBackHoweverManyAreUnderWay) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "other", "x"));
  const auto other = another("second");
  std::vector<rados::InFlightChanges::OwnChange> changes(rados::ChangeCharges::all_max);
  size_t under_way = 0;
  for (; under_way < changes.size(); ++under_way) {
    const std::string name = "b" + std::to_string(under_way);
    rados::InFlightChanges::Planned planned{.bucket = 1'000'000 + under_way, .epoch = 1, .name = name, .owner = "root"};
    if (!parts().run(parts().in_flight->before(changes[under_way], std::move(planned)))) break;
  }
  ASSERT_LT(under_way, changes.size()) << "no more of that owner's";
  const std::string tablet = rados::tablet_object(bucket(), 0);
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "late"));
  ObjectInfo info;
  info.size = 4;
  Steps steps;
  std::future<Result<ObjectInfo>> committing;
  const auto landed_at = std::chrono::steady_clock::now() + seconds(150);
  {
    const Stalled stalled(parts());
    committing = steps.begin((*writer)->commit(info, {}));
    steps.rest();
    model.hold("first", tablet, landed_at - std::chrono::steady_clock::now());
  }
  EXPECT_EQ(steps.end(std::move(committing)).error(), Errc::service_unavailable);
  ASSERT_LT(std::chrono::steady_clock::now(), landed_at) << "the call is held back still";
  EXPECT_EQ(row(tablet, rados::version_token_row("k")), "");
  EXPECT_TRUE(t.run(other->remove("b", "k", {})));
  std::this_thread::sleep_until(landed_at + seconds(5));
  EXPECT_EQ(t.run(other->open("b", "k")).error(), Errc::no_such_key);
}

// The change was made and its message failed: no other server ever heard of it.
TEST_F(RadosFaults, AChangeOfAccountsIsToldAgainWhenItsMessageFailed) {
  t.open();
  std::mutex mutex;
  std::string known;
  rados::Options options = t.options;
  options.user = "second";
  options.on_accounts = [&](const std::optional<std::string>& text) {
    const std::lock_guard lock(mutex);
    known = text.value_or("");
    return true;
  };
  const auto other = rados::RadosStore::connect(options);
  ASSERT_TRUE(other) << other.error();
  ASSERT_TRUE(t.store().replace_accounts(std::nullopt, "one").value_or(false));
  const auto knows = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    return known == text;
  };
  EXPECT_TRUE(knows("one"));
  model.hold("first", std::string(rados::root_object), seconds(5));
  std::optional<Result<bool>> replaced;
  std::thread replacing([&] { replaced = t.store().replace_accounts("one", "two"); });
  EXPECT_TRUE(eventually([&] { return object(std::string(rados::accounts_object)).data == "two"; }));
  model.shut_out("first");
  replacing.join();
  EXPECT_FALSE(*replaced);
  EXPECT_FALSE(knows("two"));
  model.let_in("first");
  EXPECT_TRUE(eventually([&] { return knows("two"); }, seconds(60)));
}

// A removed object whose bytes could not be removed kept those of all others.
TEST_F(RadosFaults, BytesThatCannotBeRemovedKeepNoOthers) {
  t.open();
  t.make_bucket("b");
  const auto stripes = [&] { return names("data", "d."); };
  ASSERT_TRUE(t.put("b", "held", pattern(100'000, 1)));
  const auto held = stripes();
  ASSERT_EQ(held.size(), 1u);
  ASSERT_TRUE(t.put("b", "other", pattern(100'000, 2)));
  const auto both = stripes();
  ASSERT_EQ(both.size(), 2u);
  const std::string other = *std::ranges::find_if(both, [&](const auto& name) { return !held.contains(name); });
  model.hold("first", *held.begin(), seconds(600));
  for (const char* key : {"held", "other"}) ASSERT_TRUE(t.remove("b", key));
  EXPECT_TRUE(lives_long_enough([&] { return !stripes().contains(other); }));
  EXPECT_TRUE(stripes().contains(*held.begin()));
  EXPECT_FALSE(t.store().settled());
  model.hold("first", *held.begin(), {});
  EXPECT_TRUE(lives_long_enough([&] { return t.store().settled(); }));
  EXPECT_TRUE(stripes().empty());
}

// Each round of looking for them queued them once more.
TEST_F(RadosFaults, WhatWaitsToBeRemovedIsQueuedOnce) {
  t.open();
  t.make_bucket("b");
  t.make_bucket("gone");
  ASSERT_TRUE(t.put("b", "held", pattern(100'000, 1)));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(t.put("b", key(i), pattern(100'000, 1)));
  ASSERT_TRUE(lives_long_enough([&] { return parts().garbage->rounds() != 0 && t.store().settled(); }));
  auto reader = t.run(t.engine().open("b", "held"));
  ASSERT_TRUE(reader);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(t.put("b", key(i), pattern(100'000, 2)));
  ASSERT_TRUE(t.put("gone", "k", pattern(100'000, 3)));
  ASSERT_TRUE(t.remove("gone", "k"));  // as a row of its own, and then with its tablet
  ASSERT_TRUE(t.run(t.engine().remove_bucket("gone")));
  std::this_thread::sleep_for(seconds(10));
  const uint64_t rounds = parts().garbage->rounds();
  EXPECT_EQ(parts().garbage->backlog(), 12u);
  std::this_thread::sleep_for(3 * rados::Garbage::rounds_every + seconds(60));
  EXPECT_GE(parts().garbage->rounds(), rounds + 3);
  EXPECT_EQ(parts().garbage->backlog(), 12u);
  EXPECT_EQ(t.read(**reader, 0, 100'000).value_or("nothing"), pattern(100'000, 1));
  reader->reset();
  EXPECT_TRUE(lives_long_enough([&] { return t.store().settled(); }));
  EXPECT_EQ(parts().garbage->backlog(), 0u);
  EXPECT_EQ(names("data", "d.").size(), 11u);
}

// While the signs of life could not be read each server took the time for the others' silence, and gave up the one
// whose next sign came last.
TEST_F(RadosFaults, TimeInWhichSignsCannotBeReadIsNoSilence) {
  t.open();
  const auto other = another("second");
  std::this_thread::sleep_for(seconds(10));  // each has seen the other's sign
  const uint64_t first = parts().garbage->life(), second = parts(*other).garbage->life();
  model.hold("first", std::string(rados::servers_object), seconds(40));
  model.hold("second", std::string(rados::servers_object), seconds(46));
  std::this_thread::sleep_for(seconds(70));
  EXPECT_EQ(parts().garbage->life(), first);
  EXPECT_EQ(parts(*other).garbage->life(), second);
  const std::string row = rados::server_row(parts(*other).garbage->incarnation());
  EXPECT_TRUE(object(std::string(rados::servers_object)).rows.contains(row));
}

// A rename whose calls failed left its two tablets unread for 15 s.
TEST_F(RadosFaults, ARenameBetweenTabletsThatFailsHalfWayStopsNoReads) {
  make_tablets(2);
  const std::string from = key(23), to = "a";                       // in the last tablet, and in the first one
  const std::string id = rados::bucket_object(bucket()).substr(1);  // in the names of all of its objects
  const std::string beside = key(22);
  size_t failed = 0;
  for (size_t call = 0; call < 24; ++call) {
    for (const char* kind : {"b", "t"}) {
      ASSERT_TRUE(t.put("b", from, "y"));
      model.fail_call("first", kind + id, call, -EIO);
      RenameRequest rename;
      rename.from = from;
      rename.to = to;
      const auto renamed = t.run(t.engine().rename("b", rename));
      failed += renamed ? 0 : 1;
      model.fail_call("first", "no such object", 0, 0);
      const auto began = std::chrono::steady_clock::now();
      for (const std::string& name : {beside, key(0)}) EXPECT_EQ(t.get("b", name).value_or("nothing"), "x");
      EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(3)) << kind << call;
      // It was made or not.
      EXPECT_NE(t.get("b", from).has_value(), t.get("b", to).has_value()) << kind << call;
      if (t.get("b", to)) {
        ASSERT_TRUE(t.remove("b", to));
      }
    }
  }
  EXPECT_GT(failed, 0u);
}

// A tablet that could not be reached held up the reads of the two tablets of a rename, which it is not part of; and a
// rename whose one tablet could not be reached those of the other one, although nothing had been sent there.
TEST_F(RadosFaults, ATabletThatIsAwayHoldsUpNoRenameOfOthers) {
  make_tablets(4);
  if (HasFatalFailure()) return;
  const std::string first_key = "a", last_key = key(47), bucket_object = rados::bucket_object(bucket());
  ASSERT_TRUE(t.put("b", first_key, "x"));
  enum class Away { other, source, target };
  for (const Away away_is : {Away::other, Away::source, Away::target}) {
    RenameRequest rename;
    rename.from = last_key + "/from";
    rename.to = first_key + "/to";
    ASSERT_TRUE(t.put("b", rename.from, "y"));
    std::this_thread::sleep_for(seconds(5));  // a split that this began has ended
    const auto tablets = state()->tablets;
    const rados::Tablet &source = tablets.back(), &target = tablets.front(), &other = tablets[1];
    const rados::Tablet* away = away_is == Away::other ? &other : away_is == Away::source ? &source : &target;
    SCOPED_TRACE(away->object);
    model.hold_from("first", bucket_object, "p", away->object, seconds(300));  // from its phase on
    const auto began = std::chrono::steady_clock::now();
    const auto renamed = t.run(t.engine().rename("b", rename));
    EXPECT_EQ(renamed.has_value(), away == &other);
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(40));
    const auto ended = std::chrono::steady_clock::now();
    if (away != &target) {
      EXPECT_EQ(t.get("b", first_key).value_or("nothing"), "x");
    }
    if (away != &source) {
      EXPECT_EQ(t.get("b", last_key).value_or("nothing"), "x");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - ended, seconds(3));
    model.hold("first", away->object, {});
    std::this_thread::sleep_for(seconds(5));
    EXPECT_EQ(t.get("b", rename.from).has_value(), away != &other);
    if (away == &other) {
      EXPECT_TRUE(t.remove("b", rename.to));
    }
  }
}

// A rename that a server had left before its first half was undone by no other one while its source was away.
TEST_F(RadosFaults, ARenameThatWasLeftIsUndoneWithoutItsSource) {
  make_tablets(4);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(t.put("b", "a", "x"));
  const std::string from = key(47);
  const auto other = another("second");
  auto& others = parts(*other);
  const auto seen = others.run(others.registry.load(bucket()));
  ASSERT_TRUE(seen);
  const rados::Tablet source = (*seen)->tablets.back(), target = (*seen)->tablets.front();
  rados::Move move;
  move.to = target.number;
  move.version_token_row = rados::version_token_row(from);
  move.version_token_seen = row(source.object, move.version_token_row);
  ASSERT_TRUE(others.run(others.registry.set_phase(*seen, rados::Phase::moving, source.number, rados::encode(move))));
  model.hold("first", source.object, seconds(300));
  EXPECT_EQ(t.get("b", "a").value_or("nothing"), "x");
  model.hold("first", source.object, {});
  EXPECT_EQ(t.get("b", from).value_or("nothing"), "x");
}

// Version tokens of keys with versions, and of keys of which there was an upload alone, stayed for ever.
TEST_F(RadosFaults, OfKeysThatComeAndGoNothingStaysInATablet) {
  t.options.clock = &system_clock();  // which goes on while the test sleeps
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  for (int i = 0; i < 30; ++i) {
    const auto one = t.put("b", key(i), "one"), two = t.put("b", key(i), "two");
    ASSERT_TRUE(one && two);
    for (const auto& version : {one->version_id, two->version_id}) {
      ASSERT_TRUE(t.remove_version("b", key(i), version));
    }
    const auto upload = t.start_upload("b", "upload/" + key(i));
    ASSERT_TRUE(upload && t.run(t.engine().abort_upload("b", upload->key, upload->upload_id)));
  }
  ASSERT_TRUE(t.put("b", "stays", "x"));
  EXPECT_EQ(rows_of_keys("g").size(), 61u);
  std::this_thread::sleep_for(std::chrono::minutes(14));
  EXPECT_EQ(rows_of_keys("gz"), std::set<std::string>{rados::version_token_row("stays")});
}

// The sweep reads, and others change the keys before its call, which compares what it has read.
TEST_F(RadosFaults, SweepsBesideChangesOfTheSameKeysLoseNothing) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto other = another("second");
  const std::set<uint64_t> living = {parts().garbage->incarnation(), parts(*other).garbage->incarnation()};
  std::atomic<bool> stop{false};
  std::thread sweeping([&] {
    while (!stop) EXPECT_TRUE(parts().run(rados::sweep_tablet(parts().registry, state(), 0, INT64_MAX, living)));
  });
  const auto put = [&](const std::string& to, const std::string& bytes) -> Result<ObjectInfo> {
    VB_ASSIGN(auto writer, t.run(other->create("b", to, std::nullopt)));
    VB_TRY(t.append(*writer, bytes));
    ObjectInfo info;
    info.size = bytes.size();
    return t.run(writer->commit(info, {}));
  };
  const auto remove = [&](const std::string& from, const std::string& version) {
    return t.run(other->remove("b", from, {.version_id = version, .conditions = {}}));
  };
  for (int i = 0; i < 150; ++i) {
    const std::string at = key(i % 3);
    const auto one = put(at, "one"), two = put(at, "two");
    ASSERT_TRUE(one && two) << i;
    ListVersionsRequest request;
    request.prefix = at;
    const auto versions = t.all_versions("b", request);
    ASSERT_TRUE(versions && versions->size() == 2) << i;
    EXPECT_EQ(versions->front().info.version_id, two->version_id) << i;
    ASSERT_TRUE(remove(at, two->version_id)) << i;
    EXPECT_EQ(t.get("b", at).value_or("nothing"), "one") << i;
    ASSERT_TRUE(remove(at, one->version_id)) << i;
    EXPECT_EQ(t.run(other->stat("b", at)).error(), Errc::no_such_key) << i;
  }
  stop = true;
  sweeping.join();
  EXPECT_TRUE(parts().run(rados::sweep_tablet(parts().registry, state(), 0, INT64_MAX, living)));
  EXPECT_TRUE(rows_of_keys("gz").empty());
}

// The bucket's own object and row went before a tablet whose bytes could not be removed: after the end of the server
// that knew of that tablet no other one found it.
TEST_F(RadosFaults, ARemovedBucketGoesAfterItsTablets) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(100'000, 1)));
  const uint64_t id = bucket();
  const auto stripes = names("data", "d.");
  ASSERT_EQ(stripes.size(), 1u);
  model.hold("first", *stripes.begin(), seconds(600));
  ASSERT_TRUE(t.remove("b", "k"));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  std::this_thread::sleep_for(seconds(120));
  const std::string swept = keys::tagged('x', id);
  EXPECT_EQ(row(std::string(rados::root_object), swept), "n");
  EXPECT_FALSE(object(rados::bucket_object(id)).rows.empty());
  t.reopen();  // another server, which reaches everything
  EXPECT_TRUE(lives_long_enough([&] { return row(std::string(rados::root_object), swept).empty(); }));
  EXPECT_TRUE(lives_long_enough([&] { return t.store().settled(); }));
  EXPECT_TRUE(names("index", rados::tablet_object(id, 0)).empty());
  EXPECT_TRUE(names("data", "d.").empty());
}

// And the same server removes all of it, once it can.
TEST_F(RadosFaults, ARemovedBucketGoesOnceItsTabletsAreGone) {
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", pattern(100'000, 1)));
  const uint64_t id = bucket();
  const std::string stripe = *names("data", "d.").begin();
  model.hold("first", stripe, seconds(90));
  ASSERT_TRUE(t.remove("b", "k"));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  std::this_thread::sleep_for(seconds(60));
  EXPECT_FALSE(t.store().settled());
  EXPECT_TRUE(lives_long_enough([&] { return t.store().settled(); }));
  EXPECT_TRUE(names("index", rados::tablet_object(id, 0)).empty());
  EXPECT_TRUE(names("index", rados::bucket_object(id)).empty());
  EXPECT_EQ(row(std::string(rados::root_object), keys::tagged('x', id)), "");
}

// Servers were told once to read everything again after the end of another one: where that failed, never.
TEST_F(RadosFaults, ServersAreToldOfALostOneUntilTheyHaveHeardIt) {
  t.open();
  std::mutex mutex;
  std::string known;
  rados::Options options = t.options;
  options.user = "second";
  options.on_accounts = [&](const std::optional<std::string>& text) {
    const std::lock_guard lock(mutex);
    known = text.value_or("");
    return true;
  };
  const auto other = rados::RadosStore::connect(options);
  ASSERT_TRUE(other) << other.error();
  ASSERT_TRUE(t.store().replace_accounts(std::nullopt, "one").value_or(false));
  const auto lost = another("third");
  const std::string sign = rados::server_row(parts(*lost).garbage->incarnation());
  std::this_thread::sleep_for(seconds(10));  // the leader has seen its sign
  model.hold("third", std::string(rados::root_object), seconds(600));
  std::thread replacing([&] { EXPECT_FALSE(lost->replace_accounts("one", "two")); });
  EXPECT_TRUE(eventually([&] { return object(std::string(rados::accounts_object)).data == "two"; }));
  model.shut_out("third");
  replacing.join();
  model.fail_notify("first", -EBUSY);
  const auto knows = [&] {
    const std::lock_guard lock(mutex);
    return known == "two";
  };
  EXPECT_FALSE(knows());
  EXPECT_TRUE(lives_long_enough([&] { return !object(std::string(rados::servers_object)).rows.contains(sign); }));
  EXPECT_TRUE(eventually(knows, seconds(60)));
}

// A task that ended by an exception left its bucket to none.
TEST_F(RadosFaults, ALateCallIsBarredAfterAnException) {
  t.open();
  t.make_bucket("b");
  std::atomic<int> told{0};
  rados::LateCalls calls(parts().registry, parts().io, [&told](uint64_t) -> Task<Result<void>> {
    if (++told == 1) throw std::runtime_error("no memory");
    co_return Result<void>{};
  });
  EXPECT_TRUE(parts().run(calls.bar(bucket(), state()->epoch)));
  EXPECT_EQ(told, 2);
  calls.stop();
  std::this_thread::sleep_for(seconds(5));  // its task ends
}

class Told final : public Announcement {
 public:
  Result<std::vector<EventRow>> events(const Happened&) const override { return std::vector<EventRow>{{"q", "x"}}; }
  void committed(uint64_t, const std::vector<EventRow>&) const override {}
};

// What the leader had noted of its own changes was lost with a read that failed while it counted: the events waited for
// up to ten minutes.
TEST_F(RadosFaults, EventsAreCountedAgainWhenACountingFailed) {
  t.open();
  ASSERT_TRUE(lives_long_enough([&] { return parts().leader->holds(); }));
  size_t failed = 0;
  for (size_t call = 0; call < 6; ++call) {
    const std::string name = "b" + std::to_string(call);
    t.make_bucket(name);
    const uint64_t id = parts().buckets.find(name)->id;
    ASSERT_TRUE(t.run(t.engine().event_backlog("q")));
    CommitConditions conditions;
    conditions.announcement = std::make_shared<const Told>();
    ASSERT_TRUE(t.put(name, "k", "x", {.conditions = conditions, .size_hint = {}, .etag = "e"}));
    model.fail_call("first", std::string(rados::events_object), call, -EIO);
    failed += t.run(t.engine().event_backlog("q")) ? 0 : 1;
    model.fail_call("first", "no such object", 0, 0);
    const auto backlog = t.run(t.engine().event_backlog("q"));
    ASSERT_TRUE(backlog);
    EXPECT_EQ(std::ranges::count(*backlog, id, &EventBacklog::bucket), 1) << call;
  }
  EXPECT_GT(failed, 0u);
}

// A report that failed and had come nevertheless stood for good in the others' view of the queue: of a bucket without
// events, or with an older number.
TEST_F(RadosFaults, WhatWasReportedOfEventsIsTakenBackAlsoWhenItsReportFailed) {
  t.open();
  ASSERT_TRUE(lives_long_enough([&] { return parts().leader->holds(); }));
  const auto reported = [&] {
    std::map<std::string, std::string> found;
    for (const auto& one : object(std::string(rados::events_object)).rows) {
      if (one.first.starts_with('w')) found.insert(one);
    }
    return found;
  };
  CommitConditions conditions;
  conditions.announcement = std::make_shared<const Told>();
  size_t failed = 0, came = 0;
  for (size_t call = 0; call < 6; ++call) {
    const std::string name = "b" + std::to_string(call);
    t.make_bucket(name);
    const uint64_t id = parts().buckets.find(name)->id;
    ASSERT_TRUE(t.run(t.engine().event_backlog("q")));
    ASSERT_TRUE(t.put(name, "k", "x", {.conditions = conditions, .size_hint = {}, .etag = "e"}));
    model.fail_call("first", std::string(rados::events_object), call, -EIO, /*is_made=*/true);
    if (!t.run(t.engine().event_backlog("q"))) ++failed, came += reported().size();
    model.fail_call("first", "no such object", 0, 0);
    auto events = t.run(t.engine().events("q", id, 0, 10, 1 * MiB));
    if (events && events->empty()) {  // where they are was not counted
      ASSERT_TRUE(t.run(t.engine().event_backlog("q")));
      events = t.run(t.engine().events("q", id, 0, 10, 1 * MiB));
    }
    ASSERT_TRUE(events && events->size() == 1);
    std::vector<uint64_t> ids;
    for (const QueuedEvent& one : *events) ids.push_back(one.id);
    ASSERT_TRUE(t.run(t.engine().remove_events("q", id, ids)));
    const auto backlog = t.run(t.engine().event_backlog("q"));
    ASSERT_TRUE(backlog);
    EXPECT_TRUE(backlog->empty()) << call;
    EXPECT_TRUE(reported().empty()) << call;
  }
  EXPECT_GT(failed, 0u);
  EXPECT_GT(came, 0u) << "no report was among what failed";
}

// A leader whose term ended while it counted took away the hint of a change that came after its successor's count: the
// event waited for up to ten minutes.
TEST_F(RadosFaults, WhoLeadsNoMoreTakesAwayNoHintOfEvents) {
  t.options.timeout = seconds(60);
  t.open();
  t.make_bucket("b");
  auto next = another("second"), other = another("third");
  const auto has_events = [&] {
    const auto backlog = t.run(next->event_backlog("q"));
    return backlog && std::ranges::count(*backlog, bucket(), &EventBacklog::bucket) == 1;
  };
  model.hold("first", std::string(rados::servers_object), seconds(24));
  model.hold("first", std::string(rados::events_object), seconds(28));
  Steps steps;
  auto counting = steps.begin(t.engine().event_backlog("q"));
  steps.rest();
  ASSERT_TRUE(eventually([&] { return next->leader_term() != 0 || other->leader_term() != 0; }, seconds(22)));
  if (next->leader_term() == 0) std::swap(next, other);
  EXPECT_FALSE(has_events());
  auto writer = t.run(other->create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "x"));
  ObjectInfo info;
  info.size = 1;
  CommitConditions conditions;
  conditions.announcement = std::make_shared<const Told>();
  ASSERT_TRUE(t.run((*writer)->commit(info, conditions)));
  const auto is_hinted = [&] {
    const auto rows = object(std::string(rados::events_object)).rows;
    return std::ranges::any_of(rows, [](const auto& one) { return one.first.starts_with('h'); });
  };
  ASSERT_TRUE(eventually(is_hinted, seconds(3)));
  EXPECT_TRUE(steps.end(std::move(counting)));
  EXPECT_NE(next->leader_term(), 0u);
  EXPECT_TRUE(eventually(has_events, seconds(2)));
}

// The change was made and its event not noted, so it waited for up to ten minutes.
TEST_F(RadosFaults, AnEventOfAChangeThatWasNotAnsweredIsFoundSoon) {
  t.options.timeout = seconds(2);
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(lives_long_enough([&] { return parts().leader->holds() && parts().garbage->rounds() != 0; }));
  ASSERT_TRUE(t.put("b", "k", "old"));  // a server's first change of a tablet is two calls
  ASSERT_TRUE(t.run(t.engine().event_backlog("q")));
  const uint64_t rounds = parts().garbage->rounds();
  const std::string tablet = rados::tablet_object(bucket(), 0);
  auto writer = t.run(t.engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "new"));
  ObjectInfo info;
  info.size = 3;
  CommitConditions conditions;
  conditions.announcement = std::make_shared<const Told>();
  Steps steps;
  model.set_weather({.answer_lost = 65'535});
  auto committing = steps.begin((*writer)->commit(info, conditions));
  drive_until_made(steps, committing, tablet, "k");
  model.hold("first", tablet, seconds(20));
  model.set_weather({});
  EXPECT_EQ(steps.end(std::move(committing)).error(), Errc::service_unavailable);
  EXPECT_TRUE(eventually(
      [&] {
        const auto backlog = t.run(t.engine().event_backlog("q"));
        return backlog && std::ranges::count(*backlog, bucket(), &EventBacklog::bucket) == 1;
      },
      seconds(30)));
  EXPECT_EQ(parts().garbage->rounds(), rounds);
}

// It waited for what later calls needed, too.
TEST_F(RadosFaults, ALateCallIsBarredByTheFirstEpochAfterItsOwn) {
  t.open();
  t.make_bucket("b");
  const uint64_t id = bucket(), epoch = state()->epoch;
  std::atomic<int> told{0};
  std::future<bool> later;
  rados::LateCalls* working = nullptr;
  rados::LateCalls calls(parts().registry, parts().io, [&](uint64_t) -> Task<Result<void>> {
    if (++told == 1) {
      later = boost::asio::co_spawn(parts().io, working->bar(id, epoch + 1), boost::asio::use_future);
      co_await rados::pause(seconds(1));
    } else {
      co_await rados::pause(seconds(20));
    }
    co_return Result<void>{};
  });
  working = &calls;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(parts().run(calls.bar(id, epoch)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10));
  ASSERT_TRUE(later.valid());
  EXPECT_TRUE(later.get());
  EXPECT_GT(std::chrono::steady_clock::now() - began, seconds(20));
  EXPECT_EQ(told, 2);
  EXPECT_EQ(state()->epoch, epoch + 2);
  calls.stop();
  std::this_thread::sleep_for(seconds(5));  // its task ends
}

}  // namespace
}  // namespace verbena::store::conformance
