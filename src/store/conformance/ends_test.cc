// Objects with an end: from then on only the sweep sees them.
#include "store/ends.h"
#include "store/conformance/engines.h"
#include "store/event.h"
#include "store/logic/transfer.h"
#include "store/removal_grounds.h"

namespace verbena::store::conformance {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class CountedEvents final : public Announcement {
 public:
  Result<std::vector<EventRow>> events(const Happened& /*happened*/) const override {
    ++count;
    return std::vector<EventRow>();
  }
  void committed(uint64_t /*bucket*/, const std::vector<EventRow>& /*events*/) const override {}
  mutable std::atomic<int> count{0};
};

class Ends : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    if (!index().keeps_ends()) GTEST_SKIP() << "the engine keeps no ends";
    t.make_bucket("b");
  }
  EndIndex& index() { return dynamic_cast<EndIndex&>(t.below()); }

  static ObjectInfo described(std::string_view bytes, int64_t ttl_s) {
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = Rig::etag_of(bytes);
    if (ttl_s != 0) info.headers.emplace_back(ttl_header, std::to_string(ttl_s));
    return info;
  }
  Result<ObjectInfo> put(const std::string& key, const std::string& bytes, int64_t ttl_s,
                         CommitConditions conditions = {}, const std::string& bucket = "b") {
    VB_ASSIGN(auto writer, t.run(t.engine().create(bucket, key, bytes.size())));
    VB_TRY(t.append(*writer, bytes));
    return t.run(writer->commit(described(bytes, ttl_s), std::move(conditions)));
  }
  Result<ObjectInfo> touch(const std::string& key, std::string_view how) {
    ObjectChange change;
    change.attributes.emplace_back(touch_attribute, how);
    return t.run(t.engine().update("b", key, "", std::move(change)));
  }
  static void expect_same(const ListPage& page, const ListedObjects& passed) {
    ASSERT_EQ(passed.size(), page.entries.size());
    for (size_t i = 0; i < page.entries.size(); ++i) {
      const auto& [key, info] = page.entries[i];
      const auto shown = passed[i];
      EXPECT_EQ(shown.key, key);
      EXPECT_EQ(shown.etag, info.etag);
      EXPECT_EQ(shown.size, info.size);
      EXPECT_EQ(shown.modified_us, info.modified_us);
    }
  }
  std::vector<std::string> listed(const std::string& delimiter = {}, const std::string& bucket = "b") {
    std::vector<std::string> names;
    ListRequest request;
    request.delimiter = delimiter;
    const auto page = t.run(t.engine().list(bucket, request));
    if (!page) return {describe(page.error())};
    for (const ListEntry& entry : page->entries) names.push_back(entry.key);
    const auto passed = std::make_shared<ListedObjects>();
    request.sink = passed;
    EXPECT_TRUE(t.run(t.engine().list(bucket, request)));
    expect_same(*page, *passed);
    names.insert(names.end(), page->common_prefixes.begin(), page->common_prefixes.end());
    return names;
  }
  std::vector<EndedKey> due() {
    bring_into_rows(t);
    return t.run(index().ended(1000, nullptr)).value_or(std::vector<EndedKey>{});
  }
  Result<Removed> sweep(const EndedKey& ended) {
    RemoveRequest request;
    request.grounds = std::make_shared<const RemovalGrounds>(RemovalGrounds{
        .bucket_created_us = ended.bucket_created_us, .rules = nullptr, .of = RemovalGrounds::Of::ended});
    return t.run(t.engine().remove(ended.bucket, ended.key, std::move(request)));
  }
  void sweep_all() {
    for (const EndedKey& ended : due()) EXPECT_TRUE(sweep(ended));
  }
  void expect_gone(const std::string& key, const std::string& bucket = "b") {
    const auto info = t.run(t.engine().stat(bucket, key));
    EXPECT_TRUE(!info && info.error() == Errc::no_such_key) << key;
    const auto reader = t.run(t.engine().open(bucket, key));
    EXPECT_TRUE(!reader && reader.error() == Errc::no_such_key) << key;
  }
};

TEST_P(Ends, AnObjectIsGoneForEveryReaderFromItsEndOn) {
  const auto stored = put("a/k", "bytes", 3600);
  ASSERT_TRUE(stored) << describe(stored.error());
  EXPECT_GE(end_us_of(*stored), stored->modified_us + 3'600'000'000);
  ASSERT_TRUE(put("z", "stays", 0));
  EXPECT_EQ(listed(), (std::vector<std::string>{"a/k", "z"}));
  EXPECT_EQ(listed("/"), (std::vector<std::string>{"z", "a/"}));
  EXPECT_EQ(t.get("b", "a/k").value_or(""), "bytes");
  EXPECT_TRUE(due().empty());
  t.step_clock(hours(2));
  expect_gone("a/k");
  EXPECT_EQ(listed(), std::vector<std::string>{"z"});
  EXPECT_EQ(listed("/"), std::vector<std::string>{"z"});
  EXPECT_EQ(t.all_versions("b").value_or(std::vector<VersionEntry>{}).size(), 1u);
  ObjectChange change;
  change.tags = Tags{{"a", "b"}};
  const auto tagged = t.run(t.engine().update("b", "a/k", "", std::move(change)));
  EXPECT_TRUE(!tagged && tagged.error() == Errc::no_such_key);
}

TEST_P(Ends, TheSweepGivesSpaceBackAndCountsIt) {
  ASSERT_TRUE(put("k", pattern(300'000, 1), 60));
  ASSERT_TRUE(put("other", "bytes", 7200));
  t.step_clock(hours(1));
  ASSERT_EQ(due().size(), 1u);
  EXPECT_EQ(due().front().key, "k");
  sweep_all();
  EXPECT_TRUE(due().empty());
  const auto usage = t.run(t.engine().bucket_usage("b"));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->objects, 1u);
  EXPECT_EQ(usage->bytes, 5u);
  t.step_clock(hours(3));
  sweep_all();
  EXPECT_TRUE(t.run(t.engine().remove_bucket("b")));
  t.expect_no_leak();
}

TEST_P(Ends, WhatHasEndedIsAbsentForConditionsAndReplacedWhole) {
  ASSERT_TRUE(put("k", pattern(300'000, 2), 60));
  const auto early = put("k", "new", 60, {.if_none_match = "*"});
  EXPECT_TRUE(!early && early.error() == Errc::precondition_failed);
  t.step_clock(hours(1));
  const auto matched = put("k", "new", 0, {.if_match = "*"});
  EXPECT_TRUE(!matched && matched.error() == Errc::no_such_key);
  ASSERT_TRUE(put("k", "new", 0, {.if_none_match = "*"}));
  EXPECT_EQ(t.get("b", "k").value_or(""), "new");
  EXPECT_TRUE(due().empty());  // the new object has no end
  t.step_clock(hours(1));
  EXPECT_EQ(t.get("b", "k").value_or(""), "new");
  t.expect_no_leak();
}

TEST_P(Ends, AnAppendToWhatHasEndedBeginsAnew) {
  const auto append = [&](const std::string& bytes) {
    auto writer = t.run(t.engine().create_append("b", "k", bytes.size()));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, bytes));
    const auto stored = t.run((*writer)->commit(described(bytes, 60), {}));
    ASSERT_TRUE(stored) << describe(stored.error());
  };
  append("one");
  append("two");
  EXPECT_EQ(t.get("b", "k").value_or(""), "onetwo");
  t.step_clock(hours(1));
  append("three");
  EXPECT_EQ(t.get("b", "k").value_or(""), "three");
  EXPECT_TRUE(due().empty());
  t.expect_no_leak();
}

TEST_P(Ends, ATouchRenewsAndAReadRenewsByTenths) {
  const auto stored = put("k", "bytes", 10'000);
  ASSERT_TRUE(stored);
  const auto read = touch("k", touch_by_read);
  ASSERT_TRUE(read);
  EXPECT_EQ(end_us_of(*read), end_us_of(*stored));
  t.step_clock(seconds(5000));
  const auto again = touch("k", touch_by_read);
  ASSERT_TRUE(again);
  EXPECT_GE(end_us_of(*again), end_us_of(*stored) + 5'000'000'000);
  EXPECT_EQ(again->modified_us, stored->modified_us);
  t.step_clock(seconds(8000));
  EXPECT_EQ(t.get("b", "k").value_or(""), "bytes");
  EXPECT_TRUE(due().empty());
  ASSERT_TRUE(touch("k", "60"));
  t.step_clock(seconds(100));
  expect_gone("k");
  EXPECT_EQ(due().size(), 1u);
  const auto late = touch("k", touch_again);
  EXPECT_TRUE(!late && late.error() == Errc::no_such_key);
  ASSERT_TRUE(put("plain", "bytes", 0));
  const auto none = touch("plain", touch_again);
  EXPECT_TRUE(!none && none.error() == Errc::invalid_request);
  ASSERT_TRUE(touch("plain", "60"));
  t.step_clock(seconds(100));
  expect_gone("plain");
}

TEST_P(Ends, ASweepThatComesLateRemovesNothingElse) {
  ASSERT_TRUE(put("renewed", "bytes", 60));
  ASSERT_TRUE(put("replaced", "bytes", 60));
  t.step_clock(hours(1));
  const auto found = due();
  ASSERT_EQ(found.size(), 2u);
  ASSERT_TRUE(put("renewed", "again", 7200));
  ASSERT_TRUE(put("replaced", "again", 0));
  for (const EndedKey& ended : found) {
    const auto swept = sweep(ended);
    EXPECT_TRUE(!swept && swept.error() == Errc::precondition_failed);
    EXPECT_TRUE(t.run(index().forget_end(ended)));
  }
  EXPECT_EQ(t.get("b", "renewed").value_or(""), "again");
  EXPECT_EQ(t.get("b", "replaced").value_or(""), "again");
  t.step_clock(hours(3));
  ASSERT_EQ(due().size(), 1u);
  sweep_all();
}

// Nor does the move into the index, of what was acknowledged before it was there.
TEST_P(Ends, AClockThatIsSetBackBringsNothingBack) {
  t.make_bucket("m", Durability::memory);
  for (const char* const bucket : {"b", "m"}) {
    ASSERT_TRUE(put("k", "bytes", 60, {}, bucket));
    t.step_clock(hours(1));
    expect_gone("k", bucket);
    t.step_clock(-hours(1));
    expect_gone("k", bucket);
    EXPECT_TRUE(listed({}, bucket).empty()) << bucket;
    bring_into_rows(t);
    expect_gone("k", bucket);
  }
}

// Else a new object would be gone before it was ever seen.
TEST_P(Ends, AfterTheClockWasSetBackANewEndIsStillToCome) {
  for (const char* const bucket : {"b", "m"}) {
    if (bucket[0] == 'm') t.make_bucket("m", Durability::memory);
    ASSERT_TRUE(put("early", "bytes", 100, {}, bucket));
    t.step_clock(hours(1));
    expect_gone("early", bucket);
    t.step_clock(-hours(1));
    ASSERT_TRUE(put("k", "bytes", 60, {}, bucket));
    EXPECT_TRUE(t.run(t.engine().stat(bucket, "k"))) << bucket;
  }
  ASSERT_TRUE(put("long", "bytes", 3000));
  ASSERT_TRUE(touch("long", "60"));
  EXPECT_TRUE(t.run(t.engine().stat("b", "long")));
}

// Its time is then after that of the object that it replaces, and ahead of the clock.
TEST_P(Ends, AfterTheClockWasSetBackATtlCountsFromTheClock) {
  t.vary(8);  // nothing acknowledged early comes into the rows by itself
  t.reopen();
  t.make_bucket("m", Durability::memory);
  for (const char* const bucket : {"b", "m"}) {
    ASSERT_TRUE(put("k", "bytes", 0, {}, bucket));
    t.step_clock(-hours(1));
    const auto stored = put("k", "new", 60, {}, bucket);
    ASSERT_TRUE(stored) << describe(stored.error());
    EXPECT_GT(stored->modified_us, t.clock().now_us()) << bucket;
    t.step_clock(seconds(100));
    expect_gone("k", bucket);
    bring_into_rows(t);
    expect_gone("k", bucket);
  }
}

TEST_P(Ends, ATouchByVersionBringsNothingBack) {
  ASSERT_TRUE(put("k", "bytes", 100));
  t.step_clock(hours(1));
  ObjectChange change;
  change.attributes.emplace_back(touch_attribute, "1000");
  const auto touched = t.run(t.engine().update("b", "k", "null", std::move(change)));
  EXPECT_FALSE(touched);
  expect_gone("k");
}

TEST_P(Ends, ARenamedObjectTakesItsEndWithIt) {
  ASSERT_TRUE(put("from", "bytes", 600));
  ASSERT_TRUE(put("to", "target", 60));
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "from", .to = "to"})));
  t.step_clock(seconds(200));
  EXPECT_EQ(t.get("b", "to").value_or(""), "bytes");
  EXPECT_TRUE(due().empty());
  t.step_clock(hours(1));
  expect_gone("to");
  const auto gone = t.run(t.engine().rename("b", {.from = "to", .to = "x"}));
  EXPECT_TRUE(!gone && gone.error() == Errc::no_such_key);
  sweep_all();
  t.expect_no_leak();
}

TEST_P(Ends, AnUploadsObjectHasTheEndOfItsHeaders) {
  const auto upload = t.start_upload("b", "k");
  ASSERT_TRUE(upload);
  const auto part = t.put_part(*upload, 1, "bytes");
  ASSERT_TRUE(part) << describe(part.error());
  ObjectInfo info;
  info.etag = "multi-1";
  info.headers.emplace_back(ttl_header, "60");
  const auto done = t.run(t.engine().complete_upload("b", "k", upload->upload_id, {*part}, info, {}));
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_NE(end_us_of(*done), 0);
  t.step_clock(hours(1));
  expect_gone("k");
  sweep_all();
  t.expect_no_leak();
}

TEST_P(Ends, InABucketWithVersionsTheSweepMakesADeleteMarker) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto stored = put("k", "bytes", 60);
  ASSERT_TRUE(stored);
  t.step_clock(hours(1));
  expect_gone("k");
  sweep_all();
  EXPECT_TRUE(due().empty());
  const auto versions = t.all_versions("b").value_or(std::vector<VersionEntry>{});
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_TRUE(versions.front().info.delete_marker);
  EXPECT_EQ(end_us_of(versions.back().info), 0);
  EXPECT_TRUE(t.run(t.engine().stat("b", "k", stored->version_id)));
  // The marker's removal makes it current again, without an end.
  ASSERT_TRUE(t.remove_version("b", "k", versions.front().info.version_id));
  EXPECT_EQ(t.get("b", "k").value_or(""), "bytes");
}

TEST_P(Ends, ARemovalOfWhatHasEndedInABucketWithVersionsIsOneOfNothing) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto stored = put("k", "bytes", 60);
  ASSERT_TRUE(stored);
  t.step_clock(hours(1));
  const auto versions = [&] { return t.all_versions("b").value_or(std::vector<VersionEntry>{}); };
  for (const std::string& etag : {std::string("other"), stored->etag}) {
    RemoveRequest conditional;
    conditional.conditions.if_match = etag;
    const auto removed = t.run(t.engine().remove("b", "k", std::move(conditional)));
    EXPECT_TRUE(removed && !removed->delete_marker);
    EXPECT_EQ(versions().size(), 1u) << etag;
  }
  RemoveRequest without_room;
  without_room.may_add_marker = false;
  EXPECT_EQ(t.run(t.engine().remove("b", "k", std::move(without_room))).error(), Errc::quota_exceeded);
  EXPECT_EQ(versions().size(), 1u);
  sweep_all();
  EXPECT_EQ(versions().size(), 2u) << "a rule's own removal makes its marker";
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  ASSERT_TRUE(put("null", "bytes", 60));
  t.step_clock(hours(2));
  RemoveRequest in_its_place;
  in_its_place.may_add_marker = false;
  EXPECT_TRUE(t.run(t.engine().remove("b", "null", std::move(in_its_place))))
      << "the marker takes the null version's row";
  EXPECT_EQ(versions().size(), 3u);
}

// Else the event of its end would be that of a client's removal.
TEST_P(Ends, ARemovalOfWhatHasEndedIsLeftToTheSweep) {
  ASSERT_TRUE(put("k", "bytes", 60));
  t.step_clock(hours(1));
  const auto events = std::make_shared<const CountedEvents>();
  for (const std::string& version : {std::string(), std::string("null")}) {
    RemoveRequest request{.version_id = version};
    request.conditions.announcement = events;
    const auto removed = t.run(t.engine().remove("b", "k", std::move(request)));
    ASSERT_TRUE(removed) << describe(removed.error());
    EXPECT_EQ(events->count, 0) << version;
    EXPECT_EQ(due().size(), 1u) << version;
  }
  sweep_all();
  EXPECT_TRUE(due().empty());
  t.expect_no_leak();
}

// What is acknowledged and not written yet must not become a row without bytes.
TEST_P(Ends, ARemovalThatRemovesNothingKeepsTheBytes) {
  t.make_bucket("m", Durability::memory);
  for (const char* const wanted : {"", "other"}) {
    ASSERT_TRUE(put("k", "bytes", 60, {}, "m"));
    t.step_clock(hours(1));
    RemoveRequest request;
    if (*wanted != 0) request.conditions.if_match = wanted;
    ASSERT_TRUE(t.run(t.engine().remove("m", "k", std::move(request))));
    ASSERT_EQ(due().size(), 1u);
    if (dynamic_cast<LocalRig*>(rig_.get()) != nullptr) {
      t.reopen();
      t.step_clock(-hours(1));
      EXPECT_EQ(t.get("m", "k").value_or("no bytes"), "bytes") << wanted;
      t.step_clock(hours(1));
    }
    sweep_all();
    EXPECT_TRUE(due().empty());
  }
  t.expect_no_leak();
}

TEST_P(Ends, WithoutVersionsWhatHasEndedHasNoNameEither) {
  ASSERT_TRUE(put("k", "bytes", 60));
  t.step_clock(hours(1));
  EXPECT_EQ(t.run(t.engine().stat("b", "k", "null")).error(), Errc::no_such_version);
  ObjectChange change;
  change.tags = Tags{{"a", "b"}};
  const auto tagged = t.run(t.engine().update("b", "k", "null", std::move(change)));
  EXPECT_TRUE(!tagged && tagged.error() == Errc::no_such_version);
}

TEST_P(Ends, ARulesRemovalIsOfTheVersionThatItChose) {
  ASSERT_TRUE(put("k", "bytes", 60));
  t.step_clock(hours(1));
  ASSERT_EQ(due().size(), 1u);
  RemoveRequest request;
  request.grounds = std::make_shared<const RemovalGrounds>(RemovalGrounds{
      .bucket_created_us = due().front().bucket_created_us, .rules = nullptr, .of = RemovalGrounds::Of::ended});
  request.conditions.if_modified_us = 1;
  const auto removed = t.run(t.engine().remove("b", "k", std::move(request)));
  EXPECT_TRUE(!removed && removed.error() == Errc::precondition_failed);
  EXPECT_EQ(due().size(), 1u);
}

TEST_P(Ends, AMarkerThatReplacesWhatHasEndedNeedsNoRoom) {
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  ASSERT_TRUE(put("k", "bytes", 60));
  t.step_clock(hours(1));
  RemoveRequest without_room;
  without_room.may_add_marker = false;
  const auto removed = t.run(t.engine().remove("b", "k", std::move(without_room)));
  EXPECT_TRUE(removed && removed->delete_marker);
  EXPECT_EQ(t.all_versions("b").value_or(std::vector<VersionEntry>{}).size(), 1u);
  t.expect_no_leak();
}

TEST_P(Ends, EndsSurviveARestartAndACrash) {
  const bool is_kept = dynamic_cast<LocalRig*>(rig_.get()) != nullptr || dynamic_cast<RadosRig*>(rig_.get()) != nullptr;
  if (!is_kept) GTEST_SKIP() << "nothing survives its store";
  ASSERT_TRUE(put("k", "bytes", 600));
  ASSERT_TRUE(put("long", "bytes", 100'000));
  t.reopen();
  EXPECT_EQ(t.get("b", "k").value_or(""), "bytes");
  t.crash(7);
  t.step_clock(hours(1));
  expect_gone("k");
  ASSERT_EQ(due().size(), 1u);
  sweep_all();
  t.crash(8);
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(listed(), std::vector<std::string>{"long"});
  t.expect_no_leak();
}

TEST_P(Ends, ACopyFromAnotherStoreKeepsTheEnd) {
  LocalRig source;
  source.open();
  source.make_bucket("copied");
  auto writer = source.run(source.engine().create("copied", "k", 5));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(source.append(**writer, "bytes"));
  const auto stored = source.run((*writer)->commit(described("bytes", 3600), {}));
  ASSERT_TRUE(stored) << describe(stored.error());
  Transfer transfer(engine_of(source), engine_of(t), {.keeps_bounds = true});
  const auto copied = t.run(transfer.run());
  ASSERT_TRUE(copied) << transfer.where() << ": " << describe(copied.error());
  const auto there = t.run(t.engine().stat("copied", "k"));
  ASSERT_TRUE(there) << describe(there.error());
  EXPECT_EQ(end_us_of(*there), end_us_of(*stored));
  t.step_clock(hours(2));
  expect_gone("k", "copied");
  ASSERT_EQ(due().size(), 1u);
  sweep_all();
  EXPECT_TRUE(due().empty());
}

TEST_P(Ends, AlsoOfWhatIsAcknowledgedEarly) {
  t.make_bucket("m", Durability::memory);
  ASSERT_TRUE(put("k", "bytes", 60, {}, "m"));
  EXPECT_EQ(listed({}, "m"), std::vector<std::string>{"k"});
  t.step_clock(hours(1));
  expect_gone("k", "m");
  EXPECT_TRUE(listed({}, "m").empty());
  ASSERT_EQ(due().size(), 1u);
  sweep_all();
  t.expect_no_leak();
}

ON_ALL_ENGINES(Ends);

}  // namespace
}  // namespace verbena::store::conformance
