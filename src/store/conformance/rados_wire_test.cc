// Network faults of calls over RADOS: executed but not answered, and sent again when the PG has forgotten that it
// executed them (the cluster of these tests keeps a log of ten calls); or held back, and arriving when their sender has
// given up and others have continued. store/rados/README.md has a table of the effects on each call.
#include <thread>

#include "base/metrics.h"
#include "store/conformance/on_rados.h"
#include "store/conformance/wire.h"
#include "store/rados/upkeep/tombstones.h"

namespace verbena::store::conformance {
namespace {

constexpr int calls_forgotten_after = 40;

Task<Result<ObjectInfo>> write_all(std::unique_ptr<ObjectWriter> writer, memory::Chunk chunk, ObjectInfo info,
                                   CommitConditions conditions) {
  VB_CO_TRY(co_await writer->append(std::move(chunk)));
  auto done = co_await writer->commit(std::move(info), std::move(conditions));
  co_return done;
}

class OnRadosWire : public OnRados {
 protected:
  void SetUp() override {
    OnRados::SetUp();
    if (!RadosRig::has_cluster() || IsSkipped()) return;
    if (!Wire::is_there()) GTEST_SKIP() << "tests/rados/wire.cc is not loaded";
  }
  void open(RadosRig& t) {
    t.open();
    t.make_bucket("b");
    auto other = rados::RadosStore::connect(t.options);
    ASSERT_TRUE(other) << other.error();
    other_ = std::move(*other);
  }
  void TearDown() override { other_.reset(); }

  static ObjectInfo info_of(std::string_view bytes, const std::string& etag) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = etag;
    return info;
  }
  static Task<Result<ObjectInfo>> put(RadosRig& t, Store& store, std::string bucket, std::string key, std::string bytes,
                                      std::string etag, CommitConditions conditions = {}) {
    VB_CO_ASSIGN(auto writer, co_await store.create(bucket, key, bytes.size()));
    co_return co_await write_all(std::move(writer), t.chunk(bytes), info_of(bytes, etag), std::move(conditions));
  }
  static Task<Result<ObjectInfo>> append(RadosRig& t, Store& store, std::string key, std::string bytes,
                                         std::string etag) {
    VB_CO_ASSIGN(auto writer, co_await store.create_append("b", key, bytes.size(), nullptr));
    CommitConditions none;
    co_return co_await write_all(std::move(writer), t.chunk(bytes), info_of(bytes, etag), std::move(none));
  }
  static Task<Result<ObjectInfo>> part(RadosRig& t, Store& store, UploadInfo upload, std::string bytes,
                                       std::string etag) {
    VB_CO_ASSIGN(auto writer, co_await store.create_part("b", upload.key, upload.upload_id, 1, bytes.size()));
    CommitConditions none;
    co_return co_await write_all(std::move(writer), t.chunk(bytes), info_of(bytes, etag), std::move(none));
  }

  // A PUT by another server.
  Result<ObjectInfo> put_by_other(RadosRig& t, const std::string& key, const std::string& bytes,
                                  const std::string& bucket = "b") {
    return t.run(put(t, *other_, bucket, key, bytes, Rig::etag_of(bytes)));
  }
  Result<Removed> remove_by_other(RadosRig& t, const std::string& key, const std::string& bucket = "b") {
    return t.run(other_->remove(bucket, key, {}));
  }
  static rados::Engine& engine_of(EngineStore& store) { return static_cast<rados::Engine&>(*store.context()); }
  // The call's connection is cut after it, and the PG gets so many other calls that it executes this one again.
  // `meanwhile`: before that, after the first execution.
  template <class T>
  T make_twice(RadosRig& t, const std::string& intent, int pass, Task<T> task, const std::string& object,
               const std::function<void()>& meanwhile = {}) {
    Wire::lose(intent, pass);
    auto future = steps_.begin(std::move(task));
    EXPECT_TRUE(eventually([&] {
      steps_.io.poll();
      return Wire::caught();
    })) << intent;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // executed
    if (meanwhile) meanwhile();
    rados::Cluster& cluster = *engine_of(*other_).cluster;
    for (int i = 0; i < calls_forgotten_after; ++i) {
      librados::ObjectWriteOperation other;
      other.setxattr("other", rados::to_buffer(std::to_string(i)));
      EXPECT_EQ(t.run(cluster.write(rados::Cluster::Pool::index, object, std::move(other))), 0);
    }
    Wire::go();
    return steps_.end(std::move(future));
  }
  // Likewise for a change in the bucket "b", which has one tablet.
  template <class T>
  T change_twice(RadosRig& t, const std::string& intent, int pass, Task<T> task,
                 const std::function<void()>& meanwhile = {}) {
    auto& twice = metrics::counter("verbena_rados_calls_made_twice_total",
                                   "Calls that failed because they had been made before their answer was lost");
    const uint64_t before = twice.value(), id = parts_of(t).buckets.find("b")->id;
    T done = make_twice(t, intent, pass, std::move(task), rados::tablet_object(id, 0), meanwhile);
    EXPECT_GE(twice.value(), before + 1) << intent << ": the PG remembered it";
    return done;
  }

  std::unique_ptr<rados::RadosStore> other_;
  Steps steps_;
};

// L9 of a review: PUT killed its own bytes.
TEST_F(OnRadosWire, ACallThatIsMadeTwiceChangesAKeyOnce) {
  RadosRig t;
  open(t);
  const std::string large = pattern(300'000, 1), small = pattern(500, 2);
  CommitConditions absent;
  absent.if_none_match = "*";
  EXPECT_TRUE(change_twice(t, "mark-large", 0, put(t, t.engine(), "b", "large", large, "mark-large")));
  EXPECT_TRUE(change_twice(t, "mark-lock", 0, put(t, t.engine(), "b", "lock", large, "mark-lock", absent)));
  EXPECT_TRUE(change_twice(t, "mark-over", 0, put(t, t.engine(), "b", "large", small, "mark-over")));
  EXPECT_TRUE(change_twice(t, "mark-appended", 0, append(t, t.engine(), "lock", small, "mark-appended")));
  const auto upload = t.start_upload("b", "parts");
  ASSERT_TRUE(upload);
  EXPECT_TRUE(change_twice(t, "mark-part", 0, part(t, t.engine(), *upload, large, "mark-part")));
  const std::vector<PartInfo> parts = {{1, large.size(), "mark-part", 0, {}}};
  ObjectInfo whole;
  whole.etag = "mark-whole";
  EXPECT_TRUE(
      change_twice(t, "mark-whole", 0, t.engine().complete_upload("b", "parts", upload->upload_id, parts, whole, {})));
  EXPECT_EQ(t.get("b", "large").value_or("nothing"), small);
  EXPECT_EQ(t.get("b", "lock").value_or("nothing"), large + small);
  EXPECT_EQ(t.get("b", "parts").value_or("nothing"), large);
  // The first message with the key is the read of the current object.
  ASSERT_TRUE(t.put("b", "mark-removed", large));
  EXPECT_TRUE(change_twice(t, "mark-removed", 1, t.engine().remove("b", "mark-removed", {})));
  RenameRequest rename;
  rename.from = "large";
  rename.to = "target";
  rename.token = "token";
  rename.asked = "mark-asked";
  EXPECT_TRUE(change_twice(t, "mark-asked", 0, t.engine().rename("b", rename)));
  EXPECT_EQ(t.get("b", "target").value_or("nothing"), small);
  EXPECT_EQ(t.usage("b").value(), t.usage_by_listing("b").value());
  EXPECT_FALSE(t.leaks());
}

// By then the key's version token belongs to another change.
TEST_F(OnRadosWire, WhatWasMadeAndOverwrittenIsNotMadeAgain) {
  RadosRig t;
  open(t);
  const std::string bytes = pattern(300'000, 1);
  const auto overwrite = [&](const std::string& key) {
    return [this, &t, key] { EXPECT_TRUE(put_by_other(t, key, "by another")); };
  };
  EXPECT_TRUE(change_twice(t, "mark-1", 0, put(t, t.engine(), "b", "k", bytes, "mark-1"), overwrite("k")));
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), "by another");
  CommitConditions absent;
  absent.if_none_match = "*";
  EXPECT_TRUE(change_twice(t, "mark-2", 0, put(t, t.engine(), "b", "lock", bytes, "mark-2", absent), [&] {
    EXPECT_TRUE(remove_by_other(t, "lock"));
  })) << "it had the lock, and another one has broken it";
  EXPECT_EQ(t.get("b", "lock").error(), Errc::no_such_key);
  EXPECT_TRUE(eventually([&] { return other_->settled(); })) << "it removes what it has overwritten";
  EXPECT_FALSE(t.leaks());
}

TEST_F(OnRadosWire, WhatIsMadeTwiceChangesABucketOnce) {
  RadosRig t;
  open(t);
  const std::string object = rados::bucket_object(parts_of(t).buckets.find("b")->id);
  EXPECT_TRUE(make_twice(t, "mark-policy", 0, t.engine().set_document("b", "policy", "mark-policy"), object));
  EXPECT_EQ(t.document("b", "policy").value_or("nothing"), "mark-policy");
  EXPECT_EQ(t.run(engine_of(*other_).registry.load(engine_of(*other_).buckets.find("b")->id)).value()->epoch, 2u)
      << "once";
  auto& engine = parts_of(t);
  EXPECT_TRUE(make_twice(t, "mark-accounts", 0, engine.replace_accounts(std::nullopt, "mark-accounts"),
                         std::string(rados::accounts_object)));
}

// A server that has just started has no row in the tablet, and receipts of departed servers are swept then.
TEST_F(OnRadosWire, AFirstCallThatMeetsASweepIsMadeAfterIt) {
  RadosRig t;
  open(t);
  ASSERT_TRUE(t.put("b", "k", "x"));
  auto& theirs = engine_of(*other_);
  Wire::hold("mark-first");
  auto putting = steps_.begin(put(t, *other_, "b", "first", "x", "mark-first"));
  ASSERT_TRUE(eventually([&] {
    steps_.io.poll();
    return Wire::caught();
  }));
  auto& registry = parts_of(t).registry;
  const auto state = t.run(registry.load(parts_of(t).buckets.find("b")->id));
  ASSERT_TRUE(state);
  const std::set<uint64_t> living = {theirs.garbage->incarnation(), UINT64_MAX};
  EXPECT_TRUE(t.run(rados::sweep_tablet(registry, *state, 0, 0, living)));
  Wire::go();
  const auto done = steps_.end(std::move(putting));
  EXPECT_TRUE(done) << describe(done.error());
}

// L10: the bucket was swept.
TEST_F(OnRadosWire, ABucketWhoseNameIsGivenTwiceStays) {
  RadosRig t;
  open(t);
  const BucketInfo info{.name = "named-twice", .created_us = 0, .owner = "root"};
  // The row of the name: the first message is its read.
  const auto made = make_twice(t, "bnamed-twice", 1, t.engine().create_bucket(info), std::string(rados::root_object));
  EXPECT_TRUE(made) << describe(made.error());
  EXPECT_TRUE(put_by_other(t, "k", "x", "named-twice"));
  EXPECT_TRUE(eventually([&] { return t.store().settled(); }));
  EXPECT_EQ(t.get("named-twice", "k").value_or("nothing"), "x");
}

// L6: late calls of one server, which has given up and reported that.
class LateOnRadosWire : public OnRadosWire {
 protected:
  void SetUp() override {
    OnRadosWire::SetUp();
    if (IsSkipped()) return;
    auto opened = [&] {
      t_.emplace();
      open(*t_);
      // The server that gives up.
      rados::Options options = t_->options;
      options.timeout = std::chrono::seconds(2);
      return rados::RadosStore::connect(options);
    }();
    ASSERT_TRUE(opened) << opened.error();
    slow_ = std::move(*opened);
  }
  void TearDown() override {
    if (Wire::is_there()) Wire::go();  // also called if the test was skipped
    slow_.reset();
    OnRadosWire::TearDown();
    t_.reset();
  }
  // The network heals. Later calls of the slow server follow those it had sent.
  void let_go() {
    Wire::go();
    EXPECT_TRUE(eventually([&] { return t_->run(slow_->bucket("b")).has_value(); }));
    EXPECT_TRUE(eventually([&] { return t_->run(slow_->stat("b", "none")).error() == Errc::no_such_key; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // and belong to other PGs
  }

  std::optional<RadosRig> t_;
  std::unique_ptr<rados::RadosStore> slow_;
};

TEST_F(LateOnRadosWire, AChangeOfAKeyFindsNothingAsItWasWhenItsKeyHasGoneSince) {
  RadosRig& t = *t_;
  CommitConditions absent;
  absent.if_none_match = "*";
  // Each in a bucket of its own: of several in one call, one failure would be enough.
  for (const char* bucket : {"new", "lock", "upload", "swept"}) t.make_bucket(bucket);
  ASSERT_TRUE(eventually([&] { return t.run(slow_->bucket("swept")).has_value(); }));
  std::vector<std::future<Result<ObjectInfo>>> puts;
  std::future<Result<UploadInfo>> uploading;
  UploadInfo upload;
  upload.bucket = "upload";
  upload.key = "k";
  upload.owner = "LATE";
  {
    const Stalled stalled(engine_of(*slow_));
    puts.push_back(steps_.begin(put(t, *slow_, "new", "k", "late", "LATE")));
    puts.push_back(steps_.begin(put(t, *slow_, "lock", "k", "late", "LATE", absent)));
    puts.push_back(steps_.begin(put(t, *slow_, "swept", "k", "late", "LATE")));
    uploading = steps_.begin(slow_->create_upload(upload));
    steps_.rest();
    Wire::hold("LATE");
  }
  for (auto& putting : puts) EXPECT_EQ(steps_.end(std::move(putting)).error(), Errc::service_unavailable);
  EXPECT_EQ(steps_.end(std::move(uploading)).error(), Errc::service_unavailable);
  ASSERT_TRUE(Wire::caught());
  // The client continues at another server.
  for (const char* bucket : {"new", "lock", "swept"}) {
    ASSERT_TRUE(put_by_other(t, "k", "second", bucket));
    ASSERT_TRUE(remove_by_other(t, "k", bucket));
  }
  upload.owner = "second";
  const auto second = t.run(other_->create_upload(upload));
  ASSERT_TRUE(second);
  ASSERT_TRUE(t.run(other_->abort_upload("upload", "k", second->upload_id)));
  // In one bucket nothing of the key is left: its version token has been swept.
  auto& engine = engine_of(*other_);
  const auto state = t.run(engine.registry.load(engine.buckets.find("swept")->id));
  ASSERT_TRUE(state);
  const std::set<uint64_t> living = {UINT64_MAX};
  ASSERT_TRUE(t.run(rados::sweep_tablet(engine.registry, *state, 0, INT64_MAX, living)));
  ASSERT_EQ(*t.run(engine.registry.row((*state)->tablets[0].object, rados::version_token_row("k"))), "");
  let_go();
  for (const char* bucket : {"new", "lock", "swept"}) {
    EXPECT_EQ(t.run(other_->stat(bucket, "k")).error(), Errc::no_such_key) << bucket;
  }
  EXPECT_TRUE(t.run(other_->list_uploads("upload", {}))->uploads.empty()) << "an upload that no request began";
}

TEST_F(LateOnRadosWire, ADocumentIsNotSetOverALaterOne) {
  RadosRig& t = *t_;
  Wire::hold("LATE");
  EXPECT_EQ(t.run(slow_->set_document("b", "policy", "LATE")).error(), Errc::service_unavailable);
  ASSERT_TRUE(Wire::caught());
  ASSERT_TRUE(t.run(other_->set_document("b", "policy", "second")));
  let_go();
  EXPECT_EQ(**t.run(other_->document("b", "policy")), "second");
  auto& registry = engine_of(*other_).registry;
  const std::string object = rados::bucket_object(engine_of(*other_).buckets.find("b")->id);
  EXPECT_EQ(*t.run(registry.row(object, "cpolicy")), "second");
}

TEST_F(LateOnRadosWire, ABucketGetsNoNameThatWasUsedAndFreedSince) {
  RadosRig& t = *t_;
  const BucketInfo info{.name = "named-late", .created_us = 0, .owner = "root"};
  Wire::hold("bnamed-late", 1);
  EXPECT_EQ(t.run(slow_->create_bucket(info)).error(), Errc::service_unavailable);
  ASSERT_TRUE(Wire::caught());
  ASSERT_TRUE(t.run(other_->create_bucket(info)));
  ASSERT_TRUE(t.run(other_->remove_bucket("named-late")));
  let_go();
  auto& registry = engine_of(*other_).registry;
  EXPECT_EQ(*t.run(registry.row(std::string(rados::root_object), "bnamed-late")), "");
}

}  // namespace
}  // namespace verbena::store::conformance
