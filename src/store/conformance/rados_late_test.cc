// Late calls over RADOS: calls that are made, or whose answers are read, after other servers changed their premises.
#include <chrono>
#include <thread>

#include "base/metrics.h"
#include "store/conformance/on_rados.h"

namespace verbena::store::conformance {
namespace {

using rados::Cluster;

// A splitter that continued after others had undone its work copied rows that were being changed, and those changes
// were lost.
TEST_F(OnRados, WhoWasAwayWhileOthersUndidWhatHeBeganFindsThatOut) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  const uint64_t id = parts_of(t).buckets.find("b")->id;
  rados::Registry& registry = parts_of(t).registry;
  const auto cluster = connect(t.options);
  ASSERT_NE(cluster, nullptr);
  rados::Registry theirs(*cluster);
  for (const rados::Phase phase : {rados::Phase::splitting, rados::Phase::removing}) {
    Steps steps;
    auto beginning = steps.begin(registry.set_phase(*t.run(registry.load(id)), phase));
    steps.io.poll_one();  // sent, and its answer not read: no second call, which may be that one
    rados::BucketPtr seen;
    ASSERT_TRUE(eventually([&] {
      seen = *t.run(theirs.load(id));
      return seen->phase == phase;
    }));
    ASSERT_TRUE(t.run(theirs.set_phase(seen, rados::Phase::live)));
    EXPECT_EQ(steps.end(std::move(beginning)).error(), Errc::conditional_conflict);
  }
  EXPECT_TRUE(t.put("b", "k", "x"));
}

// Found by a random history: a change whose server began to doubt its count while reading it was acknowledged and not
// made.
TEST_F(OnRados, AChangeWhoseCountIsDoubtedAgainWhileItIsReadIsMade) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  auto& engine = parts_of(t);
  for (int i = 0; i < 100; ++i) {
    std::jthread doubts([&engine](const std::stop_token& stop) {
      for (int doubt = 0; doubt < 50 && !stop.stop_requested(); ++doubt) {
        engine.batcher.recount();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    ASSERT_TRUE(t.put("b", key(i), "12345"));
    doubts = {};
    ASSERT_EQ(t.get("b", key(i)).value_or("nothing"), "12345");
  }
  EXPECT_EQ(t.usage("b").value(), (Usage{.objects = 100, .bytes = 500}));
}

TEST_F(OnRados, AMarkThatComesTooLateTakesNoOtherChangeAlong) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  for (const char* key : {"k", "l"}) ASSERT_TRUE(t.put("b", key, "x"));
  const uint64_t stamp = (*t.run(t.engine().open("b", "k")))->info().stamp;
  auto& engine = parts_of(t);
  const uint64_t id = engine.buckets.find("b")->id;
  auto& commits = metrics::counter("verbena_rados_commits_total", "Changes of keys");
  Steps steps;
  std::future<Result<void>> marking;
  std::future<Result<Removed>> removing;
  const uint64_t before = commits.value();
  {
    const Stalled stalled(engine);
    marking = steps.begin(engine.catalogue->keep(id, "k", stamp, /*holder=*/99));
    steps.rest();
    removing = steps.begin(t.engine().remove("b", "l", {}));
    steps.rest();
    // Done by another server's change.
    librados::ObjectWriteOperation op;
    const std::map<std::string, rados::Buffer> rows = {
        {rados::version_token_row("k"), rados::to_buffer(rados::encode(rados::VersionToken{1, stamp + 1}))}};
    op.omap_set(rows);
    ASSERT_EQ(t.run(engine.cluster->write(Cluster::Pool::index, rados::tablet_object(id, 0), std::move(op))), 0);
  }
  EXPECT_FALSE(steps.end(std::move(marking)));
  EXPECT_TRUE(steps.end(std::move(removing)));
  EXPECT_EQ(commits.value() - before, 2u) << "the removal was made twice, because the mark failed";
}

TEST_F(OnRados, AMarkWaitsForNoChangeOfItsKey) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "x"));
  const uint64_t stamp = (*t.run(t.engine().open("b", "k")))->info().stamp;
  auto& engine = parts_of(t);
  const uint64_t id = engine.buckets.find("b")->id;
  Steps steps;
  std::future<Result<Removed>> removing;
  {
    const Stalled stalled(engine);
    removing = steps.begin(t.engine().remove("b", "k", {}));
    steps.rest();
    auto marking = steps.begin(engine.catalogue->keep(id, "k", stamp, /*holder=*/99));
    steps.rest();
    const bool is_ready = Steps::is_ready(marking);
    EXPECT_TRUE(is_ready);
    if (is_ready) {
      EXPECT_EQ(marking.get().error(), Errc::slow_down);
    }
  }
  EXPECT_TRUE(steps.end(std::move(removing)));
}

// An upload of "k" that only needs to be completed, and the key has no version token: an old server, which removes the
// last row of a key, removes the version token, too.
struct WithoutVersionToken {
  WithoutVersionToken(RadosRig& t, const std::string& bytes)
      : upload(t.start_upload("b", "k").value()), parts{t.put_part(upload, 1, bytes).value()} {
    EXPECT_TRUE(t.put("b", "k", "x"));
    EXPECT_TRUE(t.remove("b", "k"));
    info.etag = "multi-1";
    librados::ObjectWriteOperation op;
    op.omap_rm_keys({rados::version_token_row("k")});
    const uint64_t id = parts_of(t).buckets.find("b")->id;
    EXPECT_EQ(t.run(parts_of(t).cluster->write(Cluster::Pool::index, rados::tablet_object(id, 0), std::move(op))), 0);
  }
  const UploadInfo upload;
  const std::vector<PartInfo> parts;
  ObjectInfo info;  // of the object
  auto complete(Store& store) const { return store.complete_upload("b", "k", upload.upload_id, parts, info, {}); }
};

// A key without rows has no version token, and had none before: ending an upload a second time would name, or remove,
// bytes that other rows name by then.
TEST_F(OnRados, WhatEndsAnUploadThatHasEndedComesTooLate) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  const std::string bytes = pattern(200'000, 1);
  for (const bool aborts : {false, true}) {
    const WithoutVersionToken open(t, bytes);
    Steps steps;
    std::future<Result<ObjectInfo>> completing;
    std::future<Result<void>> aborting;
    {
      const Stalled stalled(parts_of(t));
      if (aborts) {
        aborting = steps.begin(t.engine().abort_upload("b", "k", open.upload.upload_id));
      } else {
        completing = steps.begin(open.complete(t.engine()));
      }
      steps.rest();
      // The client repeats it at another server, and continues.
      ASSERT_TRUE(t.run(open.complete(**other)));
      RenameRequest rename;
      rename.from = "k";
      rename.to = "l";
      ASSERT_TRUE(t.run((*other)->rename("b", rename)));
    }
    if (aborts) {
      EXPECT_EQ(steps.end(std::move(aborting)).error(), Errc::no_such_upload);
    } else {
      EXPECT_EQ(steps.end(std::move(completing)).error(), Errc::no_such_upload);
    }
    EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
    EXPECT_EQ(t.get("b", "l").value_or("nothing"), bytes);
    EXPECT_FALSE(t.leaks());
    ASSERT_TRUE(t.remove("b", "l"));
  }
}

// Likewise for a part that was replaced meanwhile.
TEST_F(OnRados, WhatAnUploadIsMadeOfIsWhatItHasThen) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  auto other = rados::RadosStore::connect(t.options);
  ASSERT_TRUE(other) << other.error();
  const std::string bytes = pattern(200'000, 1);
  const WithoutVersionToken open(t, bytes);
  Steps steps;
  std::future<Result<ObjectInfo>> completing;
  {
    const Stalled stalled(parts_of(t));
    completing = steps.begin(open.complete(t.engine()));
    steps.rest();
    auto part = t.run((*other)->create_part("b", "k", open.upload.upload_id, 1, bytes.size()));
    ASSERT_TRUE(part);
    ASSERT_TRUE(t.append(**part, bytes));
    ObjectInfo again;
    again.size = bytes.size();
    again.etag = open.parts.front().etag;
    ASSERT_TRUE(t.run((*part)->commit(again, {})));
    part->reset();
    auto object = t.run((*other)->create("b", "k", std::nullopt));
    ASSERT_TRUE(object);
    ASSERT_TRUE(t.append(**object, "x"));
    ObjectInfo small;
    small.size = 1;
    ASSERT_TRUE(t.run((*object)->commit(small, {})));
    object->reset();
    ASSERT_TRUE(t.run((*other)->remove("b", "k", {})));
  }
  const auto completed = steps.end(std::move(completing));
  EXPECT_TRUE(completed) << describe(completed.error());
  EXPECT_TRUE(eventually([&] { return (*other)->settled(); })) << "it has removed the first part 1";
  EXPECT_FALSE(t.leaks());
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), bytes);
}

TEST_F(OnRados, ARenamesTokenIsKnownWhenItsTabletHasBeenSplit) {
  SplittingRadosRig t;
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", key(900), "x"));
  RenameRequest rename;
  rename.from = key(900);
  rename.to = key(901);
  rename.token = "token";
  rename.asked = "900 to 901";
  ASSERT_TRUE(t.run(t.engine().rename("b", rename)));
  // Its source is in a new tablet then.
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(t.put("b", key(i), "x"));
  int turn = 0;  // a split that is under way leaves a look to the next write
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(t.put("b", key(turn++ % 40), "x"));
    return t.store().survey()->tablets >= 3;
  }));
  EXPECT_TRUE(t.run(t.engine().rename("b", rename))) << "it was made";
}

TEST_F(OnRados, ALifeThatHasUsedUpItsNumbersWritesNothingMore) {
  RadosRig t;
  t.open();
  t.make_bucket("b");
  const std::string first = pattern(100'000, 1);
  ASSERT_TRUE(t.put("b", "first", first));
  parts_of(t).space->next = rados::BlobSpace::blobs_max - 1;
  EXPECT_TRUE(t.put("b", "last", pattern(100'000, 2)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(t.put("b", key(i), pattern(100'000, 3)).error(), Errc::service_unavailable);
  }
  EXPECT_EQ(t.get("b", "first").value_or("nothing"), first);
  EXPECT_EQ(t.get("b", "last").value_or("nothing"), pattern(100'000, 2));
}

}  // namespace
}  // namespace verbena::store::conformance
