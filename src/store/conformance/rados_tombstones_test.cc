// The remains of a key of which nothing is left, over RADOS: the version token, for a while, with the last id and the
// last time.
#include "store/conformance/on_rados.h"
#include "store/rados/cluster/fate.h"
#include "store/rados/upkeep/tombstones.h"

namespace verbena::store::conformance {
namespace {

using rados::Cluster;
using rados::Fate;

// A server's clock that is ahead of the others' by so much, or behind.
class OffClock final : public WallClock {
 public:
  explicit OffClock(std::chrono::microseconds off) : off_us_(off.count()) {}
  int64_t now_us() const override { return system_clock().now_us() + off_us_; }

 private:
  const int64_t off_us_;
};

class TombstonesOnRados : public OnRados {
 protected:
  void SetUp() override {
    OnRados::SetUp();
    if (!RadosRig::has_cluster()) return;
    rig_.emplace();
    rig_->options.clock = &ahead_;
    rig_->open();
    rig_->make_bucket("b");
    rados::Options options = rig_->options;
    options.clock = &behind_;
    auto other = rados::RadosStore::connect(options);
    ASSERT_TRUE(other) << other.error();
    other_ = std::move(*other);
  }
  void TearDown() override {
    other_.reset();
    rig_.reset();
  }

  rados::Registry& registry() { return parts_of(*rig_).registry; }
  rados::BucketPtr state() { return *rig_->run(registry().load(parts_of(*rig_).buckets.find("b")->id)); }
  std::string version_token(const std::string& key) {
    return *rig_->run(registry().row(state()->tablets[0].object, rados::version_token_row(key)));
  }
  uint64_t last_id(const std::string& key) { return rados::decode_version_token(version_token(key))->last_id; }
  size_t rows(const std::string& letter) {
    return rig_->run(registry().all(state()->tablets[0].object, letter))->size();
  }
  Result<ObjectInfo> put_by_other(const std::string& key) {
    VB_ASSIGN(auto writer, rig_->run(other_->create("b", key, std::nullopt)));
    VB_TRY(rig_->append(*writer, "x"));
    ObjectInfo info;
    info.size = 1;
    return rig_->run(writer->commit(info, {}));
  }
  void sweep(int64_t now_us = INT64_MAX) {
    const std::set<uint64_t> living = {UINT64_MAX, parts_of(*rig_).garbage->incarnation()};
    ASSERT_TRUE(rig_->run(rados::sweep_tablet(registry(), state(), 0, now_us, living)));
  }

  OffClock ahead_{std::chrono::seconds(2)}, behind_{std::chrono::seconds(-2)};
  std::optional<RadosRig> rig_;
  std::unique_ptr<rados::RadosStore> other_;
};

TEST(FateOnRados, ACallKnowsItselfAmongTheLastOnes) {
  std::string list;
  EXPECT_EQ(rados::fate_of(list, 1, ""), Fate::not_made);
  list = rados::with_token(list, 1);
  EXPECT_EQ(rados::fate_of(list, 1, ""), Fate::made);
  EXPECT_EQ(rados::fate_of(list, 2, list), Fate::not_made);
  const std::string seen = list;
  for (uint64_t other = 10; other < 10 + rados::tokens_max - 1; ++other) {
    list = rados::with_token(list, other);
    EXPECT_EQ(rados::fate_of(list, 1, ""), Fate::made) << other;
    EXPECT_EQ(rados::fate_of(list, 2, seen), Fate::not_made) << other;
  }
  list = rados::with_token(list, 99);
  EXPECT_EQ(list.size(), 8 * rados::tokens_max);
  EXPECT_EQ(rados::fate_of(list, 1, ""), Fate::unknown) << "it may have gone";
  EXPECT_EQ(rados::fate_of(list, 2, seen), Fate::unknown);
}

TEST(FateOnRados, AGuardIsReadByServersOfBefore) {
  // Two numbers, and pairs of them: at most those of eight lease holders.
  rados::VersionToken version_token{7, 8, {{9, 10}}, 11};
  const std::string bytes = encode(version_token);
  EXPECT_EQ(bytes.size(), 48u);
  const auto again = rados::decode_version_token(bytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->last_id, 7u);
  EXPECT_EQ(again->leases, version_token.leases);
  EXPECT_EQ(again->left_us, 11);
  EXPECT_EQ(again->room(), rados::VersionToken::leases_max - 2);
  EXPECT_EQ(rados::decode_version_token(std::string(16 * 10, 'x')).error(), Errc::corrupt_object);
}

// L7 and L11: the other server's clock is four seconds behind.
TEST_F(TombstonesOnRados, IdsAndTimesOfAKeyGrowWhateverTheClocksSay) {
  uint64_t id = 0;
  int64_t us = 0;
  const auto expect_later = [&](const char* what) {
    const uint64_t now = last_id("k");
    EXPECT_GE(now, id) << what;
    id = now;
  };
  const auto expect_newer = [&](const Result<ObjectInfo>& info, const char* what) {
    ASSERT_TRUE(info) << what;
    const uint64_t now = last_id("k");
    EXPECT_GT(now, id) << what;
    EXPECT_GT(info->modified_us, us) << what;
    id = now;
    us = info->modified_us;
  };
  for (const bool swept : {false, true}) {
    expect_newer(rig_->put("b", "k", "x"), "by the one that is ahead");
    expect_newer(put_by_other("k"), "overwritten by the one behind");
    expect_newer(rig_->put("b", "k", "x"), "again");
    ASSERT_TRUE(rig_->remove("b", "k"));
    expect_later("removed");
    if (swept) {
      sweep();
      EXPECT_EQ(version_token("k"), "");
      us = 0;  // clocks differ by less than this
    }
    expect_newer(put_by_other("k"), swept ? "in a place that was swept" : "in the place of what was removed");
    ASSERT_TRUE(rig_->remove("b", "k"));
  }
}

// Also one of keys whose ids are below those that were swept before.
TEST_F(TombstonesOnRados, EachSweepRaisesTheFence) {
  const auto fence = [&] {
    return *rados::decode_fence(*rig_->run(registry().row(state()->tablets[0].object, std::string(rados::fence_row))));
  };
  ASSERT_TRUE(put_by_other("low"));
  ASSERT_TRUE(rig_->put("b", "high", "x"));
  ASSERT_TRUE(rig_->remove("b", "high"));
  sweep();
  const rados::Fence first = fence();
  ASSERT_TRUE(rig_->remove("b", "low"));
  sweep();
  EXPECT_EQ(fence().last_id, first.last_id);
  EXPECT_GT(fence().number, first.number);
}

TEST_F(TombstonesOnRados, TheyAreSweptWhenTheyAreOldAndNotBefore) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig_->put("b", key(i), "x"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig_->remove("b", key(i)));
  ASSERT_TRUE(rig_->put("b", key(1), "again"));
  EXPECT_EQ(rows("z"), 3u);
  EXPECT_EQ(rows("g"), 3u);
  sweep(ahead_.now_us());
  EXPECT_EQ(rows("z"), 3u) << "they are young";
  sweep();
  EXPECT_EQ(rows("z"), 0u);
  EXPECT_EQ(rows("g"), 1u) << "of the one that is there again";
  EXPECT_EQ(*rig_->get("b", key(1)), "again");
  EXPECT_TRUE(rig_->put("b", key(0), "x"));
  EXPECT_FALSE(rig_->leaks());
}

// Keys that come and go in a bucket with versions leave nothing for ever.
TEST_F(TombstonesOnRados, OfAKeyWithoutVersionsNothingStays) {
  ASSERT_TRUE(rig_->set_versioning("b", Versioning::enabled));
  const auto first = rig_->put("b", "k", "one"), second = rig_->put("b", "k", "two");
  ASSERT_TRUE(first && second);
  const auto marker = rig_->remove("b", "k");
  ASSERT_TRUE(marker);
  sweep();
  EXPECT_EQ(rows("g"), 1u);
  for (const std::string& version : {second->version_id, marker->version_id}) {
    ASSERT_TRUE(rig_->remove_version("b", "k", version));
    sweep();
    EXPECT_EQ(rows("g"), 1u) << "the first version is there";
    EXPECT_EQ(rows("z"), 0u);
  }
  EXPECT_EQ(*rig_->get("b", "k"), "one") << "no marker hides it";
  const uint64_t greatest = last_id("k");
  ASSERT_TRUE(rig_->remove_version("b", "k", first->version_id));
  EXPECT_EQ(rows("g"), 1u) << "earlier calls must still fail";
  sweep();
  EXPECT_EQ(rows("g"), 0u);
  EXPECT_EQ(rows("z"), 0u);
  // A server whose clock is behind goes on with greater ids.
  ASSERT_TRUE(put_by_other("k"));
  EXPECT_GT(last_id("k"), greatest);
}

// The newest version goes, and what lies below is a marker: the key has no object, and versions.
TEST_F(TombstonesOnRados, AKeyThatHasVersionsAndNoObjectKeepsItsVersionToken) {
  ASSERT_TRUE(rig_->set_versioning("b", Versioning::enabled));
  const auto below = rig_->put("b", "k", "one");
  const auto marker = rig_->remove("b", "k");
  const auto newest = rig_->put("b", "k", "two");
  ASSERT_TRUE(below && marker && newest);
  ASSERT_TRUE(rig_->remove_version("b", "k", newest->version_id));
  EXPECT_EQ(rig_->get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(rows("z"), 1u) << "this change did not look at all versions";
  const std::string before = version_token("k");
  sweep();
  EXPECT_EQ(version_token("k"), before);
  EXPECT_EQ(rows("z"), 0u);
  ASSERT_TRUE(rig_->remove_version("b", "k", marker->version_id));
  EXPECT_EQ(*rig_->get("b", "k"), "one");
  ASSERT_TRUE(rig_->remove_version("b", "k", below->version_id));
  sweep();
  EXPECT_EQ(rows("g"), 0u);
}

TEST_F(TombstonesOnRados, AnUploadThatIsAbortedLeavesNothing) {
  const auto abort = [&](const UploadInfo& upload) {
    return rig_->run(rig_->engine().abort_upload("b", upload.key, upload.upload_id));
  };
  const auto of_none = rig_->start_upload("b", "none"), of_object = rig_->start_upload("b", "object");
  ASSERT_TRUE(of_none && of_object);
  ASSERT_TRUE(rig_->put_part(*of_none, 1, "part"));
  ASSERT_TRUE(rig_->put("b", "object", "x"));
  ASSERT_TRUE(abort(*of_none));
  ASSERT_TRUE(abort(*of_object));
  EXPECT_EQ(rows("g"), 2u);
  sweep();
  EXPECT_EQ(version_token("none"), "");
  EXPECT_NE(version_token("object"), "") << "its object is there";
  EXPECT_EQ(rows("z"), 0u);
  // One whose key had an object when it began, and that outlives its key's version token.
  const auto left = rig_->start_upload("b", "object");
  ASSERT_TRUE(left);
  ASSERT_TRUE(rig_->remove("b", "object"));
  sweep();
  EXPECT_EQ(rows("g"), 0u);
  ASSERT_TRUE(abort(*left));
  EXPECT_EQ(rows("g"), 1u);
  sweep();
  EXPECT_EQ(rows("g"), 0u);
  EXPECT_EQ(rows("z"), 0u);
  EXPECT_FALSE(rig_->leaks());
}

// Written again, or hidden by a marker.
TEST_F(TombstonesOnRados, AKeyThatComesBackBeforeTheSweepKeepsItsVersionToken) {
  ASSERT_TRUE(rig_->set_versioning("b", Versioning::enabled));
  for (int i = 0; i < 60; ++i) {  // more than one call looks for versions
    const auto version = rig_->put("b", key(i), "x");
    ASSERT_TRUE(version && rig_->remove_version("b", key(i), version->version_id));
    if (i % 3 == 0) {
      ASSERT_TRUE(rig_->put("b", key(i), "again"));
    }
    if (i % 3 == 1) {
      ASSERT_TRUE(rig_->remove("b", key(i)));
    }
  }
  sweep();
  EXPECT_EQ(rows("g"), 40u);
  EXPECT_EQ(rows("z"), 0u);
  for (int i = 0; i < 60; i += 3) EXPECT_EQ(*rig_->get("b", key(i)), "again");
}

// Sent when there was no version token, and executed when there was none again.
TEST_F(TombstonesOnRados, AChangeThatWasJudgedBeforeASweepIsJudgedAgain) {
  CommitConditions absent;
  absent.if_none_match = "*";
  Steps steps;
  auto writer = rig_->run(rig_->engine().create("b", "k", std::nullopt));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(rig_->append(**writer, "x"));
  ObjectInfo info;
  info.size = 1;
  std::future<Result<ObjectInfo>> putting;
  {
    const Stalled stalled(parts_of(*rig_));
    putting = steps.begin((*writer)->commit(info, absent));
    steps.rest();
    ASSERT_TRUE(put_by_other("k"));
    ASSERT_TRUE(rig_->run(other_->remove("b", "k", {})));
    rados::Registry& theirs = static_cast<rados::Engine&>(*other_->context()).registry;
    const auto now = rig_->run(theirs.load(state()->id));
    ASSERT_TRUE(rig_->run(rados::sweep_tablet(theirs, *now, 0, INT64_MAX, {UINT64_MAX})));
    ASSERT_EQ(version_token("k"), "");
    ASSERT_TRUE(put_by_other("k"));
    ASSERT_TRUE(rig_->run(other_->remove("b", "k", {})));
    ASSERT_TRUE(rig_->run(rados::sweep_tablet(theirs, *now, 0, INT64_MAX, {UINT64_MAX})));
  }
  const uint64_t before = rados::decode_fence(*rig_->run(registry().row(state()->tablets[0].object, "f")))->last_id;
  EXPECT_TRUE(steps.end(std::move(putting)));
  EXPECT_GT(last_id("k"), before) << "it went by a fence that was raised since";
}

TEST_F(TombstonesOnRados, ReceiptsOfServersThatHaveGoneAreSwept) {
  ASSERT_TRUE(rig_->put("b", "k", "x"));
  ASSERT_TRUE(put_by_other("l"));
  EXPECT_EQ(rows("w"), 2u);
  sweep();
  EXPECT_EQ(rows("w"), 1u) << "one was said to live";
  EXPECT_TRUE(put_by_other("l"));
  EXPECT_TRUE(rig_->put("b", "k", "y"));
  EXPECT_EQ(rows("w"), 2u);
}

}  // namespace
}  // namespace verbena::store::conformance
