// What a cache asks of an engine. Evictions of a bounded bucket: each object as it was chosen, or not at all, whatever
// becomes of the others. How many leading keys are there, which is MATCH of the native door. That what was found is
// read whatever becomes of its key, which its leases promise.
#include <array>
#include <mutex>

#include "cache/key_run.h"
#include "store/change_feed.h"
#include "store/conformance/engines.h"
#include "store/ends.h"
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

class LeadingKeys : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  static std::string key(size_t i) { return "namespace/" + std::to_string(10'000 + i); }
  void put(size_t i, const std::string& bytes, int64_t ttl_s = 0) {
    auto writer = t.run(t.engine().create("b", key(i), bytes.size()));
    ASSERT_TRUE(writer && t.append(**writer, bytes));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = Rig::etag_of(bytes);
    if (ttl_s != 0) info.headers.emplace_back(ttl_header, std::to_string(ttl_s));
    const auto stored = t.run((*writer)->commit(std::move(info), {}));
    ASSERT_TRUE(stored) << describe(stored.error());
  }
  // The sizes of those that are there before the first of `count` that is not, as the native door asks: of many at once
  // what is known without waiting, then one by one.
  std::vector<uint64_t> leading(size_t count) {
    std::string names;
    for (size_t i = 0; i < count; ++i) names += key(i);
    const size_t width = key(0).size();
    std::vector<uint64_t> found;
    for (size_t first = 0; first < count; first += cache::KeyRun::count_max) {
      const cache::KeyRun keys{.bucket = "b",
                               .names = names.data() + first * width,
                               .size = width,
                               .count = std::min(count - first, cache::KeyRun::count_max),
                               .shared = std::string_view("namespace/").size()};
      std::array<uint64_t, cache::KeyRun::count_max> at_a_glance;
      t.engine().hot_sizes(keys, at_a_glance);
      for (size_t i = 0; i < keys.count; ++i) {
        const auto info = t.run(t.engine().stat("b", keys.at(i)));
        EXPECT_TRUE(info || info.error() == Errc::no_such_key) << describe(info.error());
        const uint64_t size = info ? info->size : Store::not_hot;
        EXPECT_TRUE(at_a_glance[i] == size || at_a_glance[i] == Store::not_hot) << keys.at(i);
        if (!info) return found;
        found.push_back(info->size);
      }
    }
    return found;
  }
};

TEST_P(LeadingKeys, AreCountedUpToTheFirstThatIsNotThere) {
  constexpr size_t missing = cache::KeyRun::count_max + 2, count = missing + 3;  // more than are asked for at once
  EXPECT_TRUE(leading(count).empty());
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < count; ++i) {
    if (i != missing) put(i, std::string(1 + i % 7, 'x'));
    if (i < missing) sizes.push_back(1 + i % 7);
  }
  EXPECT_EQ(leading(count), sizes);
  ASSERT_TRUE(t.remove("b", key(5)));
  EXPECT_EQ(leading(count).size(), 5u);
  put(5, pattern(200'000, 1));
  sizes[5] = 200'000;
  EXPECT_EQ(leading(count), sizes);
  t.reopen();
  EXPECT_EQ(leading(count), sizes);
  put(missing, "");
  EXPECT_EQ(leading(count).size(), count);
}

TEST_P(LeadingKeys, EndWhereAnObjectHasEndedOrADeleteMarkerIs) {
  for (size_t i = 0; i < 4; ++i) put(i, "bytes");
  if (dynamic_cast<EndIndex&>(t.below()).keeps_ends()) {
    put(1, "bytes", 3600);
    EXPECT_EQ(leading(4).size(), 4u);
    t.step_clock(std::chrono::hours(2));
    EXPECT_EQ(leading(4).size(), 1u);
    put(1, "bytes");
  }
  EXPECT_EQ(leading(4).size(), 4u);
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  ASSERT_TRUE(t.remove("b", key(3)));
  EXPECT_EQ(leading(4).size(), 3u);
}

TEST_P(LeadingKeys, WhatWasFoundIsReadWhateverBecomesOfItsKey) {
  const std::string large = pattern(300'000, 2);
  put(0, large);
  put(1, "small");
  const bool ends = dynamic_cast<EndIndex&>(t.below()).keeps_ends();
  if (ends) put(2, large, 3600);
  std::vector<std::shared_ptr<ObjectReader>> held;
  for (size_t i = 0; i < (ends ? 3u : 2u); ++i) {
    auto opened = t.run(t.engine().open("b", key(i)));
    ASSERT_TRUE(opened);
    held.push_back(std::move(*opened));
  }
  ASSERT_TRUE(t.set_document("b", std::string(bounding_document), "a bound"));
  const RemovalGrounds evicted{.bucket_created_us = t.run(t.engine().bucket("b"))->created_us,
                               .rules = *t.run(t.engine().document("b", bounding_document)),
                               .of = RemovalGrounds::Of::evicted};
  const auto outcomes = t.run(t.engine().evict("b", std::make_shared<const RemovalGrounds>(evicted),
                                               {{.key = key(0), .modified_us = held[0]->info().modified_us},
                                                {.key = key(1), .modified_us = held[1]->info().modified_us}}));
  EXPECT_TRUE(outcomes.size() == 2 && outcomes[0] && outcomes[1]);
  put(1, "another");
  t.step_clock(std::chrono::hours(2));
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(t.read(*held[i], 0, held[i]->info().size).value_or("none"), i == 1 ? "small" : large);
  }
  EXPECT_TRUE(leading(3).empty());
  held.clear();
  t.expect_no_leak();
}

ON_ALL_ENGINES(LeadingKeys);

}  // namespace
}  // namespace verbena::store::conformance
