// Evictions of a bounded bucket: each object as it was chosen, or not at all, whatever becomes of the others.
#include <mutex>

#include "store/change_feed.h"
#include "store/conformance/engines.h"
#include "store/key_pins.h"
#include "store/removal_grounds.h"

namespace verbena::store::conformance {
namespace {

class EvictedKeys final : public ChangeListener {
 public:
  void told(uint64_t, const KeyChangePtr& change) override {
    const std::lock_guard lock(mutex_);
    if (change->what == KeyEvent::evicted) evicted_.push_back(change->key);
  }
  void lost_track(uint64_t) override {}
  void bucket_removed(uint64_t) override {}
  std::vector<std::string> evicted() {
    const std::lock_guard lock(mutex_);
    return evicted_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> evicted_;
};

class Evictions : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    make();
  }
  void make() {
    t.make_bucket("b");
    ASSERT_TRUE(t.set_document("b", std::string(bounding_document), "a bound"));
  }
  Eviction put(const std::string& key, const std::string& bytes = "bytes") {
    const auto stored = t.put("b", key, bytes);
    EXPECT_TRUE(stored);
    return {.key = key, .modified_us = stored ? stored->modified_us : 0};
  }
  RemovalGroundsPtr grounds() {
    return std::make_shared<const RemovalGrounds>(
        RemovalGrounds{.bucket_created_us = t.run(t.engine().bucket("b"))->created_us,
                       .rules = *t.run(t.engine().document("b", bounding_document)),
                       .of = RemovalGrounds::Of::evicted});
  }
  // "" for each that was evicted, else its error.
  std::vector<std::string> evict(RemovalGroundsPtr why, std::vector<Eviction> objects) {
    std::vector<std::string> texts;
    for (const auto& one : t.run(t.engine().evict("b", std::move(why), std::move(objects)))) {
      texts.emplace_back(one ? "" : name_of(one.error().code));
    }
    return texts;
  }
  static std::string name_of(Errc code) {
    return code == Errc::precondition_failed ? "stays" : code == Errc::no_such_key ? "gone" : "error";
  }
  std::vector<std::string> keys() {
    std::vector<std::string> found;
    const auto page = t.run(t.engine().list("b", {}));
    EXPECT_TRUE(page);
    if (page) {
      for (const auto& entry : page->entries) found.push_back(entry.key);
    }
    return found;
  }
  using Texts = std::vector<std::string>;
};

TEST_P(Evictions, EachHasItsOwnOutcome) {
  auto listener = std::make_shared<EvictedKeys>();
  auto* const feeds = dynamic_cast<ChangeFeeds*>(&t.engine());
  const auto feed = feeds == nullptr ? Result<BucketFeedPtr>(fail(Errc::not_implemented)) : feeds->feed("b");
  const bool tells = feed && (*feed)->listen(listener);
  std::vector<Eviction> chosen{put("a"), put("b"), put("c"), put("d"), put("e")};
  put("b", "written again");
  ASSERT_TRUE(t.run(t.engine().remove("b", "c", {})));
  KeyPins::get().pin("b", "d");
  EXPECT_EQ(evict(grounds(), chosen), (Texts{"", "stays", "gone", "stays", ""}));
  EXPECT_EQ(keys(), (Texts{"b", "d"}));
  KeyPins::get().unpin("b", "d");
  EXPECT_EQ(evict(grounds(), {chosen[3]}), Texts{""});
  EXPECT_EQ(keys(), Texts{"b"});
  if (tells) {
    EXPECT_EQ(listener->evicted(), (Texts{"a", "e", "d"}));
  }
  if (const auto usage = t.usage("b")) {
    EXPECT_TRUE(*usage == t.usage_by_listing("b").value());
  }
  t.expect_no_leak();
}

TEST_P(Evictions, OfABoundThatWasReplacedNothingIsEvicted) {
  const auto why = grounds();
  const Eviction one = put("a");
  ASSERT_TRUE(t.set_document("b", std::string(bounding_document), "another bound"));
  EXPECT_EQ(evict(why, {one, one}), (Texts{"stays", "stays"}));
  EXPECT_EQ(keys(), Texts{"a"});
}

// Requests look at the other one first, but two may look at the same time: the commits decide.
TEST_P(Evictions, ABucketIsBoundedOrHasVersionsAndNeverBoth) {
  EXPECT_EQ(t.run(t.engine().set_versioning("b", Versioning::enabled)).error().code, Errc::invalid_bucket_state);
  EXPECT_EQ(t.run(t.engine().bucket("b"))->versioning, Versioning::off);
  ASSERT_TRUE(t.run(t.engine().remove_document("b", bounding_document)));
  EXPECT_TRUE(t.run(t.engine().set_versioning("b", Versioning::enabled)));
  EXPECT_EQ(t.set_document("b", std::string(bounding_document), "a bound").error().code, Errc::invalid_bucket_state);
  EXPECT_EQ(t.run(t.engine().document("b", bounding_document)).error().code, Errc::not_found);
  EXPECT_TRUE(t.run(t.engine().set_versioning("b", Versioning::suspended)));
  EXPECT_FALSE(t.set_document("b", std::string(bounding_document), "a bound")) << "its versions are still there";
  EXPECT_TRUE(t.set_document("b", "policy", "another document"));
}

TEST_P(Evictions, OfABucketThatWasMadeAnewNothingIsEvicted) {
  const auto why = grounds();
  Eviction one = put("a");
  ASSERT_TRUE(t.run(t.engine().remove("b", "a", {})));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  t.step_clock(std::chrono::seconds(1));
  make();
  one = put("a");
  EXPECT_EQ(evict(why, {one}), Texts{"stays"});
  EXPECT_EQ(keys(), Texts{"a"});
}

TEST_P(Evictions, TheyAreDurable) {
  std::vector<Eviction> chosen;
  for (int i = 0; i < 40; ++i) chosen.push_back(put("k" + std::to_string(10 + i), std::string(10'000, 'x')));
  chosen.resize(39);
  for (const std::string& outcome : evict(grounds(), chosen)) EXPECT_EQ(outcome, "");
  t.crash(7);
  EXPECT_EQ(keys(), Texts{"k49"});
  t.expect_no_leak();
}

TEST_P(Evictions, OfNoBucketAllFail) {
  const auto why = grounds();
  EXPECT_EQ(t.run(t.engine().evict("another", why, {{.key = "a"}, {.key = "b"}})).size(), 2u);
  EXPECT_TRUE(t.run(t.engine().evict("b", why, {})).empty());
  const auto outcomes = t.run(t.engine().evict("b", why, {{.key = ""}}));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_FALSE(outcomes[0]);
}

ON_ALL_ENGINES(Evictions);

}  // namespace
}  // namespace verbena::store::conformance
