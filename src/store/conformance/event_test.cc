// An announced event exists exactly if its change does.
#include "store/event.h"
#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class Told final : public Announcement {
 public:
  explicit Told(std::string text, std::optional<Errc> refuses = {}) : text_(std::move(text)), refuses_(refuses) {}
  Result<std::vector<EventRow>> events(const Happened& happened) const override {
    if (refuses_) return fail(*refuses_, "test");
    const std::string what = happened.info.delete_marker ? "marker" : happened.info.etag;
    return std::vector<EventRow>{{"q", text_ + ":" + what}, {"other", text_}};
  }
  void committed(uint64_t bucket, const std::vector<EventRow>& events) const override {
    told_bucket = bucket;
    told += events.size();
  }
  mutable std::atomic<uint64_t> told_bucket{0}, told{0};

 private:
  const std::string text_;
  const std::optional<Errc> refuses_;
};

class EventTest : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
    if (!t.engine().keeps_events()) GTEST_SKIP() << "this engine keeps no events";
  }
  static CommitConditions telling(std::shared_ptr<const Told> told) {
    CommitConditions conditions;
    conditions.announcement = std::move(told);
    return conditions;
  }
  Result<ObjectInfo> put(const std::string& key, const std::string& etag, std::shared_ptr<const Told> told) {
    return t.put("b", key, "bytes", {.conditions = telling(std::move(told)), .size_hint = {}, .etag = etag});
  }
  std::vector<EventBacklog> backlog(std::string_view queue) {
    return t.run(t.engine().event_backlog(queue)).value_or(std::vector<EventBacklog>());
  }
  std::vector<std::string> waiting(std::string_view queue, size_t events_max = 100) {
    std::vector<std::string> records;
    for (const auto& one : backlog(queue)) {
      const auto events = t.run(t.engine().events(queue, one.bucket, 0, events_max, 1 * MiB));
      EXPECT_TRUE(events) << describe(events.error());
      for (const auto& event : *events) records.push_back(event.record);
    }
    return records;
  }
  using Texts = std::vector<std::string>;
};

TEST_P(EventTest, WhatChangesIsToldInOrderAndOnce) {
  const auto told = std::make_shared<const Told>("put");
  ASSERT_TRUE(put("a", "1", told));
  ASSERT_TRUE(put("a", "2", told));
  ASSERT_TRUE(put("b", "3", nullptr));
  RemoveRequest remove;
  remove.conditions = telling(std::make_shared<const Told>("remove"));
  ASSERT_TRUE(t.run(t.engine().remove("b", "a", remove)));
  ASSERT_TRUE(t.run(t.engine().remove("b", "a", remove))) << "no event for a missing object";
  EXPECT_EQ(waiting("q"), (Texts{"put:1", "put:2", "remove:"}));
  EXPECT_EQ(waiting("other").size(), 3u);
  EXPECT_EQ(told->told, 4u);
  ASSERT_EQ(backlog("q").size(), 1u);
  EXPECT_EQ(backlog("q")[0].bucket, told->told_bucket);
  EXPECT_EQ(backlog("q")[0].events, 3u);
  EXPECT_EQ(backlog("q")[0].bytes, 17u);
  EXPECT_TRUE(backlog("none").empty());
}

TEST_P(EventTest, QueuesAreListedWhoeverKnowsOfThem) {
  const auto queues = [&] { return t.run(t.engine().event_queues()).value_or(Texts{"failed"}); };
  EXPECT_EQ(queues(), Texts());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(put("a", std::to_string(i), std::make_shared<const Told>("put")));
  t.make_bucket("c");
  ASSERT_TRUE(t.run(t.engine().announce("c", std::make_shared<const Told>("test"))));
  EXPECT_EQ(queues(), (Texts{"other", "q"}));
  for (const auto& one : backlog("other")) {
    const auto events = t.run(t.engine().events("other", one.bucket, 0, 100, 1 * MiB));
    ASSERT_TRUE(events);
    std::vector<uint64_t> ids;
    for (const auto& event : *events) ids.push_back(event.id);
    ASSERT_TRUE(t.run(t.engine().remove_events("other", one.bucket, ids)));
  }
  EXPECT_TRUE(backlog("other").empty());
  EXPECT_EQ(queues(), Texts{"q"});
}

TEST_P(EventTest, WhatIsRefusedIsNotTold) {
  ASSERT_TRUE(put("a", "1", nullptr));
  const auto told = std::make_shared<const Told>("put");
  CommitConditions conditions = telling(told);
  conditions.if_none_match = "*";
  EXPECT_FALSE(t.put("b", "a", "x", {.conditions = conditions, .size_hint = {}, .etag = "2"}));
  EXPECT_TRUE(waiting("q").empty());
  EXPECT_EQ(told->told, 0u);
}

TEST_P(EventTest, AFullQueueRefusesTheChange) {
  const auto full = std::make_shared<const Told>("put", Errc::slow_down);
  const auto refused = put("a", "1", full);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::slow_down);
  EXPECT_FALSE(t.run(t.engine().stat("b", "a"))) << "the object must not be there without its event";
}

TEST_P(EventTest, VersionsTagsUploadsAndAppends) {
  ASSERT_TRUE(put("tags", "1", nullptr));
  ObjectChange change;
  change.tags = Tags{{"k", "v"}};
  change.announcement = std::make_shared<const Told>("tags");
  ASSERT_TRUE(t.run(t.engine().update("b", "tags", "", change)));
  auto writer = t.run(t.engine().create_append("b", "log", 5));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(t.append(**writer, "bytes"));
  ObjectInfo info;
  info.size = 5;
  info.etag = "appended";
  ASSERT_TRUE(t.run((*writer)->commit(info, telling(std::make_shared<const Told>("append")))));
  const auto upload = t.start_upload("b", "large");
  ASSERT_TRUE(upload);
  const auto part = t.put_part(*upload, 1, "part");
  ASSERT_TRUE(part);
  ObjectInfo whole;
  whole.etag = "whole";
  PartInfo wanted{.number = 1, .size = 4, .etag = part->etag, .checksums = {}};
  ASSERT_TRUE(t.run(t.engine().complete_upload("b", "large", upload->upload_id, {wanted}, whole,
                                               telling(std::make_shared<const Told>("complete")))));
  ASSERT_TRUE(t.run(t.engine().set_versioning("b", Versioning::enabled)));
  RemoveRequest remove;
  remove.conditions = telling(std::make_shared<const Told>("remove"));
  ASSERT_TRUE(t.run(t.engine().remove("b", "tags", remove)));
  remove.version_id = "null";
  ASSERT_TRUE(t.run(t.engine().remove("b", "tags", remove)));
  EXPECT_EQ(waiting("q"), (Texts{"tags:1", "append:appended", "complete:whole", "remove:marker", "remove:"}));
}

TEST_P(EventTest, PagesBeginBehindTheLast) {
  const auto told = std::make_shared<const Told>("put");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(put("k", std::to_string(i), told));
  const uint64_t bucket = backlog("q").at(0).bucket;
  const auto first = t.run(t.engine().events("q", bucket, 0, 2, 1 * MiB));
  ASSERT_TRUE(first);
  ASSERT_EQ(first->size(), 2u);
  const auto next = t.run(t.engine().events("q", bucket, first->back().id, 100, 6));
  ASSERT_TRUE(next);
  ASSERT_EQ(next->size(), 1u) << "by bytes";
  EXPECT_EQ(next->front().record, "put:2");
  EXPECT_EQ(t.run(t.engine().events("q", bucket, 0, 100, 1))->size(), 1u) << "one at least";
  ASSERT_TRUE(t.run(t.engine().remove_events("q", bucket, {first->front().id, next->front().id})));
  EXPECT_EQ(waiting("q"), (Texts{"put:1", "put:3", "put:4"}));
  EXPECT_EQ(waiting("other").size(), 5u);
}

// However many tablets they are in, and however few fit a page.
TEST_P(EventTest, PagesFromTheFrontPassOverNothingAndKeepTheOrderOfIds) {
  const auto told = std::make_shared<const Told>("put");
  constexpr size_t count = 60;
  for (size_t i = 0; i < count; ++i) ASSERT_TRUE(put("k" + std::to_string(i * 7 % 20), std::to_string(i), told));
  const uint64_t bucket = backlog("q").at(0).bucket;
  uint64_t last = 0;
  Texts all;
  while (all.size() < count) {
    const auto page = t.run(t.engine().events("q", bucket, 0, 7, 1 * MiB));
    ASSERT_TRUE(page);
    ASSERT_FALSE(page->empty()) << "after " << all.size();
    std::vector<uint64_t> ids;
    for (const auto& event : *page) {
      EXPECT_GT(event.id, last);
      last = event.id;
      ids.push_back(event.id);
      all.push_back(event.record);
    }
    ASSERT_TRUE(t.run(t.engine().remove_events("q", bucket, ids)));
  }
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(all[i], "put:" + std::to_string(i));
}

TEST_P(EventTest, TheyOutliveTheirBucket) {
  ASSERT_TRUE(put("a", "1", std::make_shared<const Told>("put")));
  ASSERT_TRUE(t.remove("b", "a"));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  t.make_bucket("b");
  ASSERT_TRUE(put("a", "2", std::make_shared<const Told>("again")));
  EXPECT_EQ(waiting("q"), (Texts{"put:1", "again:2"}));
  EXPECT_EQ(backlog("q").size(), 2u) << "of two buckets of one name";
}

TEST_P(EventTest, WhatABucketItselfAnnounces) {
  const auto told = std::make_shared<const Told>("test");
  ASSERT_TRUE(t.run(t.engine().announce("b", told)));
  EXPECT_EQ(waiting("q"), Texts{"test:"});
  const auto none = t.run(t.engine().announce("none", told));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::no_such_bucket);
}

TEST_P(EventTest, TheyAreThereAfterARestart) {
  ASSERT_TRUE(put("a", "1", std::make_shared<const Told>("put")));
  t.reopen();
  EXPECT_EQ(waiting("q"), Texts{"put:1"});
}

TEST_P(EventTest, WhatIsAcknowledgedFromMemoryHasItsEventAllTheSame) {
  t.make_bucket("fast", Durability::memory);
  const auto told = std::make_shared<const Told>("put");
  ASSERT_TRUE(t.put("fast", "a", "quiet"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(t.put("fast", "a", "x", {.conditions = telling(told), .size_hint = 1, .etag = std::to_string(i)}));
  }
  EXPECT_EQ(told->told, 6u);
  // Deliverers see it once it is durable.
  ASSERT_TRUE(t.run(t.engine().set_durability("fast", Durability::sync)));
  EXPECT_EQ(waiting("q"), (Texts{"put:0", "put:1", "put:2"}));
}

ON_ALL_ENGINES(EventTest);

}  // namespace
}  // namespace verbena::store::conformance
