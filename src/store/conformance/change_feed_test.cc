// Listeners are notified of every change of a key, in order, when it becomes visible.
#include "store/change_feed.h"

#include <latch>
#include <thread>

#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class Listener final : public ChangeListener {
 public:
  void told(uint64_t, const KeyChangePtr& change) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(*change);
  }
  void lost_track(uint64_t) override { ++lost; }
  void bucket_removed(uint64_t) override { ++removed; }
  std::vector<KeyChange> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(changes_, {});
  }
  std::atomic<int> lost{0}, removed{0};

 private:
  std::mutex mutex_;
  std::vector<KeyChange> changes_;
};

class ChangeFeedTest : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
    auto* const feeds = dynamic_cast<ChangeFeeds*>(&t.engine());
    if (feeds == nullptr) GTEST_SKIP() << "no feeds";
    auto found = feeds->feed("b");
    if (!found && found.error() == Errc::not_implemented) GTEST_SKIP() << "this engine cannot tell what changes";
    ASSERT_TRUE(found) << describe(found.error());
    feed = *found;
    ASSERT_TRUE(feed->listen(listener));
  }
  // "created a 1": what, key, ETag; the id of a version, if there is one, as "v"; "-" if it is only about versions.
  std::vector<std::string> told() {
    static constexpr const char* names[] = {"?",      "created", "appended",     "removed",
                                            "marked", "changed", "renamed_away", "renamed_here"};
    std::vector<std::string> texts;
    for (const KeyChange& change : listener->take()) {
      texts.push_back(std::string(names[static_cast<size_t>(change.what)]) + " " + change.key +
                      (change.etag.empty() ? "" : " " + change.etag) + (change.version_id.empty() ? "" : " v") +
                      (change.of_versions ? " -" : ""));
    }
    return texts;
  }
  Result<ObjectInfo> put(const std::string& key, const std::string& etag, CommitConditions conditions = {}) {
    return t.put("b", key, "bytes", {.conditions = std::move(conditions), .size_hint = {}, .etag = etag});
  }
  using Texts = std::vector<std::string>;
  std::shared_ptr<Listener> listener = std::make_shared<Listener>();
  BucketFeedPtr feed;
};

TEST_P(ChangeFeedTest, EveryWayToChangeAKeyIsTold) {
  ASSERT_TRUE(put("a", "1"));
  const auto second = put("a", "2");
  ASSERT_TRUE(second);
  auto changes = listener->take();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1].etag, "2");
  EXPECT_EQ(changes[1].size, 5u);
  EXPECT_EQ(changes[1].time_us, second->modified_us);

  auto upload = t.start_upload("b", "m");
  ASSERT_TRUE(upload);
  auto part = t.put_part(*upload, 1, "part");
  ASSERT_TRUE(part);
  EXPECT_EQ(told(), Texts()) << "parts are no objects";
  ASSERT_TRUE(t.complete(*upload, {*part}));
  EXPECT_EQ(told(), Texts{"created m multi-1"});

  ObjectChange tags;
  tags.tags = Tags{{"k", "v"}};
  ASSERT_TRUE(t.run(t.engine().update("b", "a", "", tags)));
  EXPECT_EQ(told(), Texts{"changed a 2"});

  for (const char* etag : {"x", "y"}) {
    auto writer = t.run(t.engine().create_append("b", "log", 4));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, "more"));
    ObjectInfo info;
    info.size = 4;
    info.etag = etag;
    ASSERT_TRUE(t.run((*writer)->commit(info, {})));
  }
  changes = listener->take();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].what, KeyEvent::created);
  EXPECT_EQ(changes[1].what, KeyEvent::appended);
  EXPECT_EQ(changes[1].size, 8u) << "the whole object's";

  ASSERT_TRUE(t.remove("b", "a"));
  EXPECT_EQ(told(), Texts{"removed a"});
  ASSERT_TRUE(t.remove("b", "a")) << "of what is not there";
  EXPECT_EQ(told(), Texts());
}

TEST_P(ChangeFeedTest, ARenameIsToldOfBothNames) {
  ASSERT_TRUE(put("from", "1"));
  told();
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "from", .to = "to"})));
  EXPECT_EQ(told(), (Texts{"renamed_away from", "renamed_here to 1"}));
  ASSERT_TRUE(put("over", "2"));
  told();
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "over", .to = "to"})));
  EXPECT_EQ(told(), (Texts{"renamed_away over", "renamed_here to 2"})) << "onto one that was there";
  ASSERT_TRUE(t.run(t.engine().rename("b", {.from = "to", .to = "to"})));
  EXPECT_EQ(told(), Texts()) << "nothing changed";
}

TEST_P(ChangeFeedTest, VersionsAndDeleteMarkersAreTold) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  told();
  const auto two = put("a", "2");
  ASSERT_TRUE(two);
  EXPECT_EQ(told(), Texts{"created a 2 v"});
  const auto marker = t.remove("b", "a");
  ASSERT_TRUE(marker);
  EXPECT_EQ(told(), Texts{"marked a v"});
  ASSERT_TRUE(t.remove_version("b", "a", marker->version_id));
  auto changes = listener->take();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].what, KeyEvent::removed);
  EXPECT_EQ(changes[0].version_id, marker->version_id);
  EXPECT_TRUE(changes[0].of_versions);
  EXPECT_EQ(changes[1].what, KeyEvent::created) << "the object is there again";
  EXPECT_EQ(changes[1].version_id, two->version_id);
  EXPECT_EQ(changes[1].etag, "2");
  EXPECT_EQ(changes[1].time_us, two->modified_us);
}

// Readers of the current object see none of these, or another object.
TEST_P(ChangeFeedTest, WhatBecomesOfOldVersionsIsNotToldAsOfTheObject) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto two = put("a", "2"), three = put("a", "3");
  ASSERT_TRUE(two && three);
  told();
  ObjectChange tags;
  tags.tags = Tags{{"k", "v"}};
  ASSERT_TRUE(t.run(t.engine().update("b", "a", two->version_id, tags)));
  EXPECT_EQ(told(), Texts{"changed a 2 v -"});
  ASSERT_TRUE(t.run(t.engine().update("b", "a", three->version_id, tags)));
  EXPECT_EQ(told(), Texts{"changed a 3 v"});
  ASSERT_TRUE(t.remove_version("b", "a", two->version_id));
  EXPECT_EQ(told(), Texts{"removed a v -"});
  ASSERT_TRUE(t.remove_version("b", "a", three->version_id));
  EXPECT_EQ(told(), (Texts{"removed a v -", "created a 1 v"}));
  const auto marker = t.remove("b", "a");
  EXPECT_EQ(told(), Texts{"marked a v"});
  const auto second = t.remove("b", "a");
  EXPECT_EQ(told(), Texts{"marked a v -"}) << "there was no object";
  ASSERT_TRUE(marker && second);
  ASSERT_TRUE(t.remove_version("b", "a", second->version_id));
  EXPECT_EQ(told(), Texts{"removed a v -"}) << "there is none still";
  ASSERT_TRUE(t.remove_version("b", "a", marker->version_id));
  EXPECT_EQ(told(), (Texts{"removed a v -", "created a 1 v"}));
  ASSERT_TRUE(t.remove_version("b", "a", "null"));
  EXPECT_EQ(told(), Texts{"removed a v"});
}

// A cache of versions kept it when its removal was not reported.
TEST_P(ChangeFeedTest, TheOldNullVersionThatAnotherOneReplacesIsTold) {
  ASSERT_TRUE(put("a", "1"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  ASSERT_TRUE(put("a", "2"));
  ASSERT_TRUE(t.set_versioning("b", Versioning::suspended));
  told();
  ASSERT_TRUE(put("a", "3"));
  EXPECT_EQ(told(), (Texts{"removed a v -", "created a 3 v"})) << "first what went";
  ASSERT_TRUE(put("a", "4"));
  EXPECT_EQ(told(), Texts{"created a 4 v"}) << "in the same place";
  ASSERT_TRUE(t.remove("b", "a"));
  EXPECT_EQ(told(), Texts{"marked a v"}) << "likewise";
  ASSERT_TRUE(put("a", "5"));
  EXPECT_EQ(told(), (Texts{"removed a v -", "created a 5 v"})) << "the marker that was the null version";
}

TEST(BucketFeedTest, AChangeIsMadeAnewWhileAListenerKeepsIt) {
  struct Passing final : ChangeListener {
    void told(uint64_t, const KeyChangePtr& change) override { keys += change->key + change->etag + ' '; }
    void lost_track(uint64_t) override {}
    void bucket_removed(uint64_t) override {}
    bool keeps_changes() const override { return false; }
    std::string keys;
  };
  struct Keeping final : ChangeListener {
    void told(uint64_t, const KeyChangePtr& change) override { changes.push_back(change); }
    void lost_track(uint64_t) override {}
    void bucket_removed(uint64_t) override {}
    std::vector<KeyChangePtr> changes;
  };
  BucketFeed feed(1, 0, "owner");
  const auto passing = std::make_shared<Passing>();
  ASSERT_TRUE(feed.listen(passing));
  const auto tell = [&](const char* key, const char* etag) {
    ObjectInfo info;
    info.etag = etag;
    feed.tell(KeyEvent::created, key, info);
  };
  tell("a", "1");
  tell("b", "");
  const auto keeping = std::make_shared<Keeping>();
  ASSERT_TRUE(feed.listen(keeping));
  tell("c", "3");
  tell("d", "4");
  feed.stop_listening(*keeping);
  tell("e", "5");
  EXPECT_EQ(passing->keys, "a1 b c3 d4 e5 ");
  ASSERT_EQ(keeping->changes.size(), 2u);
  EXPECT_EQ(keeping->changes[0]->key, "c");
  EXPECT_EQ(keeping->changes[1]->key, "d");
}

// An early report that races with a report of the catalogue: the returned count must say which of them came first.
TEST(BucketFeedTest, WhoIsToldEarlyKnowsWhatTheCatalogueHadToldBefore) {
  struct Slow final : ChangeListener {
    void told(uint64_t, const KeyChangePtr& change) override {
      if (change->key == "wait") {
        waits.count_down();
        go.wait();
      } else {
        last = change->what;
      }
    }
    void lost_track(uint64_t) override {}
    void bucket_removed(uint64_t) override {}
    std::latch waits{1}, go{1};
    std::atomic<KeyEvent> last{};
  };
  for (int round = 0; round < 50; ++round) {
    BucketFeed feed(1, 0, "owner");
    const auto listener = std::make_shared<Slow>();
    ASSERT_TRUE(feed.listen(listener));
    uint64_t told_after = 0;
    std::thread holds([&] { feed.tell(KeyEvent::changed, "wait", {}); });
    listener->waits.wait();
    std::thread commits([&] { feed.tell(KeyEvent::removed, "k", {}); });
    std::thread acknowledges([&] { told_after = feed.tell_early("k", {}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    listener->go.count_down();
    for (std::thread* one : {&holds, &commits, &acknowledges}) one->join();
    if (listener->last == KeyEvent::removed) {
      EXPECT_NE(feed.committed("k"), told_after) << "the object is not reported again";
    } else {
      EXPECT_EQ(feed.committed("k"), told_after);
    }
  }
}

TEST_P(ChangeFeedTest, WhatIsRefusedIsNotTold) {
  ASSERT_TRUE(put("a", "1"));
  told();
  CommitConditions conditions;
  conditions.if_none_match = "*";
  EXPECT_FALSE(put("a", "2", conditions));
  EXPECT_EQ(told(), Texts());
}

TEST_P(ChangeFeedTest, WhoNoLongerListensIsNotToldAndTheBucketsEndIs) {
  feed->stop_listening(*listener);
  ASSERT_TRUE(put("a", "1"));
  EXPECT_EQ(told(), Texts());
  ASSERT_TRUE(feed->listen(listener));
  ASSERT_TRUE(t.remove("b", "a"));
  EXPECT_EQ(told(), Texts{"removed a"});
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  EXPECT_EQ(listener->removed, 1);
  EXPECT_FALSE(feed->listen(listener));
  t.make_bucket("b");
  ASSERT_TRUE(put("a", "1"));
  EXPECT_EQ(told(), Texts()) << "another bucket of that name is none of its business";
}

TEST_P(ChangeFeedTest, AListenerThatHasGoneIsPassedOver) {
  auto other = std::make_shared<Listener>();
  ASSERT_TRUE(feed->listen(other));
  other.reset();
  ASSERT_TRUE(put("a", "1"));
  EXPECT_EQ(told(), Texts{"created a 1"});
}

ON_ALL_ENGINES(ChangeFeedTest);

}  // namespace
}  // namespace verbena::store::conformance
