// Removals by a rule: their grounds must still hold at the commit.
#include "store/conformance/engines.h"
#include "store/removal_grounds.h"

namespace verbena::store::conformance {
namespace {

using Of = RemovalGrounds::Of;

class Grounds : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    make();
  }
  void make() {
    t.make_bucket("b");
    ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
    ASSERT_TRUE(t.set_document("b", std::string(rules_document), "the rules"));
  }
  ObjectInfo put(const std::string& bytes, const std::string& key = "k") {
    const auto stored = t.put("b", key, bytes);
    EXPECT_TRUE(stored);
    return stored.value_or(ObjectInfo{});
  }
  ObjectInfo newest() {
    const auto all = listed();
    return all.empty() ? ObjectInfo{} : all.front().info;
  }
  std::vector<VersionEntry> listed() { return t.all_versions("b").value_or(std::vector<VersionEntry>{}); }

  // The grounds that a pass of the rules sets for the version; the successor is above it in the listing.
  RemoveRequest request(Of of, const ObjectInfo& info, const ObjectInfo* successor = nullptr, uint32_t newer_min = 0) {
    const auto bucket = t.run(t.engine().bucket("b"));
    RemovalGrounds grounds{.bucket_created_us = bucket->created_us,
                           .versioning = bucket->versioning,
                           .rules = *t.run(t.engine().document("b", rules_document)),
                           .of = of,
                           .tags = info.tags};
    if (successor != nullptr) {
      grounds.successor_id = successor->version_id;
      grounds.successor_us = successor->modified_us;
      grounds.noncurrent_newer_min = newer_min;
    }
    RemoveRequest asked;
    if (of != Of::current) asked.version_id = info.version_id;
    asked.conditions.if_modified_us = info.modified_us;
    asked.conditions.if_size = info.size;
    asked.grounds = std::make_shared<const RemovalGrounds>(std::move(grounds));
    return asked;
  }
  void expect_refused(RemoveRequest asked) {
    const size_t before = listed().size();
    const auto removed = t.run(t.engine().remove("b", "k", std::move(asked)));
    EXPECT_TRUE(!removed && removed.error() == Errc::precondition_failed);
    EXPECT_EQ(listed().size(), before);
  }
  void expect_removed(RemoveRequest asked) {
    const auto removed = t.run(t.engine().remove("b", "k", std::move(asked)));
    EXPECT_TRUE(removed) << describe(removed.error());
  }
};

TEST_P(Grounds, ANoncurrentVersionGoesAsItWasJudged) {
  const auto one = put("one"), two = put("two"), three = put("three");
  expect_removed(request(Of::noncurrent, one, &two));
  expect_removed(request(Of::noncurrent, two, &three));
  ASSERT_EQ(listed().size(), 1u);
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), "three");
}

// The grounds from a page of two moments: overwritten a moment ago, and noncurrent since its own time.
TEST_P(Grounds, AVersionIsNoSuccessorOfItself) {
  const auto one = put("one");
  put("two");
  expect_refused(request(Of::noncurrent, one, &one));
}

TEST_P(Grounds, AVersionThatIsCurrentAgainStays) {
  const auto one = put("one"), two = put("two");
  auto asked = request(Of::noncurrent, one, &two);
  ASSERT_TRUE(t.remove_version("b", "k", two.version_id));
  expect_refused(std::move(asked));
  EXPECT_EQ(t.get("b", "k").value_or("nothing"), "one");
}

TEST_P(Grounds, AVersionWithAnotherSuccessorStays) {
  const auto one = put("one"), two = put("two"), three = put("three");
  // Not its direct successor.
  expect_refused(request(Of::noncurrent, one, &three));
  auto asked = request(Of::noncurrent, one, &two);
  ASSERT_TRUE(t.remove_version("b", "k", two.version_id));
  expect_refused(std::move(asked));
  auto of_that_time = request(Of::noncurrent, one, &three);
  auto other_time = three;
  ++other_time.modified_us;
  expect_refused(request(Of::noncurrent, one, &other_time));
  expect_removed(std::move(of_that_time));
}

TEST_P(Grounds, TheNewestNoncurrentOnesAreKeptWhicheverHaveGone) {
  const auto one = put("one"), two = put("two"), three = put("three");
  put("four");
  expect_refused(request(Of::noncurrent, one, &two, 3));
  auto asked = request(Of::noncurrent, one, &two, 2);
  ASSERT_TRUE(t.remove_version("b", "k", three.version_id));
  expect_refused(std::move(asked));
  expect_removed(request(Of::noncurrent, one, &two, 1));
}

TEST_P(Grounds, ADeleteMarkerOnTopIsNoNoncurrentVersion) {
  const auto one = put("one"), two = put("two");
  ASSERT_TRUE(t.remove("b", "k"));
  expect_refused(request(Of::noncurrent, one, &two, 2));
  expect_removed(request(Of::noncurrent, one, &two, 1));
  const auto marker = newest();
  ASSERT_TRUE(marker.delete_marker);
  expect_removed(request(Of::noncurrent, two, &marker));
}

TEST_P(Grounds, ADeleteMarkerThatHidesAVersionStays) {
  ASSERT_TRUE(t.remove("b", "k"));
  const auto marker = newest();
  auto asked = request(Of::lone_marker, marker);
  put("above");
  expect_refused(asked);
  ASSERT_TRUE(t.remove_version("b", "k", newest().version_id));
  ASSERT_TRUE(t.remove("b", "k"));
  const auto above = newest();
  expect_refused(request(Of::lone_marker, above));
  ASSERT_TRUE(t.remove_version("b", "k", above.version_id));
  expect_removed(std::move(asked));
  EXPECT_TRUE(listed().empty());
}

TEST_P(Grounds, ACurrentObjectStaysWhoseTagsHaveChanged) {
  const auto one = put("one");
  auto asked = request(Of::current, one);
  ObjectChange tagged;
  tagged.tags = Tags{{"keep", "yes"}};
  const auto now = t.run(t.engine().update("b", "k", "", tagged));
  ASSERT_TRUE(now);
  expect_refused(std::move(asked));
  expect_removed(request(Of::current, *now));
  // Neither a delete marker nor a missing object is a current object.
  expect_refused(request(Of::current, *now));
}

TEST_P(Grounds, NothingGoesByRulesThatWereTakenBack) {
  const auto one = put("one"), two = put("two");
  auto noncurrent = request(Of::noncurrent, one, &two);
  auto current = request(Of::current, two);
  ASSERT_TRUE(t.set_document("b", std::string(rules_document), "other rules"));
  expect_refused(noncurrent);
  expect_refused(current);
  ASSERT_TRUE(t.run(t.engine().remove_document("b", rules_document)));
  expect_refused(noncurrent);
  expect_refused(current);
  ASSERT_TRUE(t.set_document("b", std::string(rules_document), "the rules"));
  expect_removed(std::move(noncurrent));
  expect_removed(std::move(current));
}

TEST_P(Grounds, SuspendedVersioningIsSomethingElse) {
  const auto one = put("one");
  auto asked = request(Of::current, one);
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  expect_refused(std::move(asked));
  expect_removed(request(Of::current, one));
}

TEST_P(Grounds, ABucketThatWasMadeAgainIsAnotherOne) {
  const auto one = put("one");
  auto asked = request(Of::current, one);
  const auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  const auto of_upload = request(Of::upload, one).grounds;
  ASSERT_TRUE(t.remove_version("b", "k", one.version_id));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  make();
  expect_refused(std::move(asked));
  const auto again = t.start_upload("b", "k");
  ASSERT_TRUE(again);
  const auto aborted = t.run(t.engine().abort_upload("b", "k", again->upload_id, of_upload));
  ASSERT_FALSE(aborted);
  EXPECT_EQ(aborted.error(), Errc::precondition_failed);
  EXPECT_TRUE(t.run(t.engine().abort_upload("b", "k", again->upload_id, request(Of::upload, one).grounds)));
}

ON_ALL_ENGINES(Grounds);

}  // namespace
}  // namespace verbena::store::conformance
