// A bucket's usage is updated with each change, and equals a count of everything.
#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class UsageTest : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
    if (const auto kept = t.usage("b"); !kept && kept.error() == Errc::not_implemented) {
      GTEST_SKIP() << "this engine keeps no usage";
    }
  }

  void expect(const Usage& wanted) {
    const auto kept = t.usage("b");
    ASSERT_TRUE(kept) << describe(kept.error());
    EXPECT_EQ(kept->objects, wanted.objects);
    EXPECT_EQ(kept->bytes, wanted.bytes);
    EXPECT_EQ(kept->versions, wanted.versions);
    EXPECT_EQ(kept->version_bytes, wanted.version_bytes);
    EXPECT_EQ(kept->delete_markers, wanted.delete_markers);
    EXPECT_EQ(kept->uploads, wanted.uploads);
    EXPECT_EQ(kept->upload_bytes, wanted.upload_bytes);
    EXPECT_TRUE(*kept == t.usage_by_listing("b").value());
    const auto now = t.engine().usage_now("b");
    ASSERT_TRUE(now);
    EXPECT_TRUE(now->bucket == *kept);
    EXPECT_TRUE(now->bucket_counted && now->owner_counted);
  }
  void put(const std::string& key, size_t size) { ASSERT_TRUE(t.put("b", key, pattern(size, size))); }
};

TEST_P(UsageTest, PutsOverwritesAndRemovals) {
  expect({});
  put("a", 100);
  put("large", 300'000);
  put("empty", 0);
  expect({.objects = 3, .bytes = 300'100});
  put("a", 40);
  expect({.objects = 3, .bytes = 300'040});
  ASSERT_TRUE(t.remove("b", "large"));
  ASSERT_TRUE(t.remove("b", "large"));
  ASSERT_TRUE(t.remove("b", "never was"));
  expect({.objects = 2, .bytes = 40});
}

TEST_P(UsageTest, WhatIsRefusedCountsNothing) {
  put("a", 100);
  EXPECT_FALSE(t.put("b", "a", "other", {.conditions = {{}, "*"}, .size_hint = {}, .etag = {}}));
  EXPECT_FALSE(t.put("b", "new", "other", {.conditions = {"none", {}}, .size_hint = {}, .etag = {}}));
  expect({.objects = 1, .bytes = 100});
  {
    auto writer = t.run(t.engine().create("b", "begun", {}));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, pattern(100'000, 1)));
  }
  expect({.objects = 1, .bytes = 100});
}

TEST_P(UsageTest, VersionsAndDeleteMarkers) {
  put("a", 100);  // the null version
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  put("a", 20);
  expect({.objects = 1, .bytes = 20, .versions = 1, .version_bytes = 100});
  const auto marker = t.remove("b", "a");
  ASSERT_TRUE(marker);
  expect({.versions = 2, .version_bytes = 120, .delete_markers = 1});
  ASSERT_TRUE(t.remove_version("b", "a", marker->version_id));  // the newest version is the current object again
  expect({.objects = 1, .bytes = 20, .versions = 1, .version_bytes = 100});
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  put("a", 7);  // takes the null version's place
  expect({.objects = 1, .bytes = 7, .versions = 1, .version_bytes = 20});
  put("a", 8);
  expect({.objects = 1, .bytes = 8, .versions = 1, .version_bytes = 20});
  ASSERT_TRUE(t.remove("b", "a"));  // a marker in the place of the null version
  ASSERT_TRUE(t.remove("b", "a"));
  expect({.versions = 1, .version_bytes = 20, .delete_markers = 1});
  put("a", 9);
  expect({.objects = 1, .bytes = 9, .versions = 1, .version_bytes = 20});
  ASSERT_TRUE(t.remove_version("b", "a", "null"));
  expect({.objects = 1, .bytes = 20});
}

TEST_P(UsageTest, TagsAndAttributesOfAnObjectAreFree) {
  put("a", 100);
  ObjectChange change;
  change.tags = Tags{{"k", "v"}};
  ASSERT_TRUE(t.run(t.engine().update("b", "a", "", change)));
  expect({.objects = 1, .bytes = 100});
}

TEST_P(UsageTest, UploadsTheirPartsAndWhatBecomesOfThem) {
  const auto upload = t.start_upload("b", "multi");
  ASSERT_TRUE(upload);
  expect({.uploads = 1});
  const auto one = t.put_part(*upload, 1, pattern(70'000, 1));
  ASSERT_TRUE(one && t.put_part(*upload, 2, pattern(500, 2)));
  expect({.uploads = 1, .upload_bytes = 70'500});
  const auto two = t.put_part(*upload, 2, pattern(300, 3));  // replaces it
  ASSERT_TRUE(two && t.put_part(*upload, 9, pattern(1000, 4)));
  expect({.uploads = 1, .upload_bytes = 71'300});
  put("multi", 10);
  ASSERT_TRUE(t.complete(*upload, {*one, *two}));  // part 9 is removed
  expect({.objects = 1, .bytes = 70'300});
  const auto other = t.start_upload("b", "never");
  ASSERT_TRUE(other && t.put_part(*other, 1, pattern(900, 5)));
  expect({.objects = 1, .bytes = 70'300, .uploads = 1, .upload_bytes = 900});
  ASSERT_TRUE(t.run(t.engine().abort_upload("b", "never", other->upload_id)));
  expect({.objects = 1, .bytes = 70'300});
}

TEST_P(UsageTest, AppendsAndRenames) {
  const auto append = [&](const std::string& key, size_t size) {
    const std::string bytes = pattern(size, size);
    auto writer = t.run(t.engine().create_append("b", key, bytes.size()));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, bytes));
    ObjectInfo info;
    info.size = size;
    info.etag = Rig::etag_of(bytes);
    ASSERT_TRUE(t.run((*writer)->commit(info, {})));
  };
  append("log", 100);
  append("log", 50);
  append("log", 400'000);
  expect({.objects = 1, .bytes = 400'150});
  put("target", 77);
  expect({.objects = 2, .bytes = 400'227});
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "log", .to = "target"})));
  expect({.objects = 1, .bytes = 400'150});
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "target", .to = "elsewhere"})));
  expect({.objects = 1, .bytes = 400'150});
}

TEST_P(UsageTest, AnAccountHoldsWhatItsBucketsHold) {
  t.make_bucket("other");
  ASSERT_TRUE(t.run(t.engine().create_bucket({.name = "foreign", .owner = "somebody"})));
  put("a", 100);
  ASSERT_TRUE(t.put("other", "a", pattern(11, 1)));
  ASSERT_TRUE(t.put("foreign", "a", pattern(5, 1)));
  EXPECT_EQ(t.engine().usage_now("b")->owner, (Usage{.objects = 2, .bytes = 111}));
  EXPECT_EQ(t.engine().usage_now("foreign")->owner, (Usage{.objects = 1, .bytes = 5}));
  // An upload is removed with its bucket.
  ASSERT_TRUE(t.remove("other", "a"));
  const auto upload = t.start_upload("other", "never");
  ASSERT_TRUE(upload && t.put_part(*upload, 1, pattern(900, 5)));
  EXPECT_EQ(t.engine().usage_now("b")->owner.all_bytes(), 1000u);
  ASSERT_TRUE(t.run(t.engine().remove_bucket("other")));
  EXPECT_EQ(t.engine().usage_now("b")->owner, (Usage{.objects = 1, .bytes = 100}));
  EXPECT_EQ(t.usage("other").error(), Errc::no_such_bucket);
  t.make_bucket("other");
  EXPECT_EQ(t.usage("other").value(), Usage());
  const auto all = t.engine().usages_now();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "b");
  EXPECT_EQ(all[0].usage.bytes, 100u);
}

TEST_P(UsageTest, AMemoryBucketCountsWhatItHasAcknowledged) {
  t.make_bucket("fast", Durability::memory);
  const auto put_fast = [&](const std::string& key, size_t size) {
    const std::string bytes = pattern(size, size);
    return t.put("fast", key, bytes, {.conditions = {}, .chunk_size = 1 * MiB, .size_hint = bytes.size(), .etag = {}});
  };
  ASSERT_TRUE(put_fast("a", 100));
  ASSERT_TRUE(put_fast("a", 30));
  ASSERT_TRUE(put_fast("c", 5));
  // On a slow machine the first "a" may be on its way into the index while the second one waits: then both count.
  const Usage now = t.engine().usage_now("fast")->bucket;
  EXPECT_TRUE(now == (Usage{.objects = 2, .bytes = 35}) || now == (Usage{.objects = 3, .bytes = 135}));
  EXPECT_EQ(t.usage("fast").value(), (Usage{.objects = 2, .bytes = 35}));
  ASSERT_TRUE(put_fast("a", 31));
  ASSERT_TRUE(t.remove("fast", "c"));
  EXPECT_EQ(t.usage("fast").value(), (Usage{.objects = 1, .bytes = 31}));
  EXPECT_EQ(t.engine().usage_now("fast")->bucket, (Usage{.objects = 1, .bytes = 31}));
  EXPECT_EQ(t.engine().usage_now("fast")->owner, (Usage{.objects = 1, .bytes = 31}));
}

TEST_P(UsageTest, OfAnEmptyBucketItIsThereAfterAStart) {
  t.reopen();
  expect({});
}

TEST_P(UsageTest, ItIsThereAfterAStart) {
  put("a", 100);
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  put("a", 20);
  const auto upload = t.start_upload("b", "multi");
  ASSERT_TRUE(upload && t.put_part(*upload, 1, pattern(70'000, 1)));
  const Usage wanted{
      .objects = 1, .bytes = 20, .versions = 1, .version_bytes = 100, .uploads = 1, .upload_bytes = 70'000};
  t.reopen();
  expect(wanted);
  t.crash(7);
  expect(wanted);
  EXPECT_EQ(t.engine().usage_now("b")->owner, wanted);
}

ON_ALL_ENGINES(UsageTest);

}  // namespace
}  // namespace verbena::store::conformance
