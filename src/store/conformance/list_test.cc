// Pages of current objects.
#include "store/conformance/engines.h"
#include "store/ends.h"

namespace verbena::store::conformance {
namespace {

class Listing : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b", Durability::memory);
  }
  void put(std::initializer_list<std::string> keys) {
    for (const std::string& key : keys) ASSERT_TRUE(t.put("b", key, key));
  }
  // Where the engine keeps ends.
  void put_with_end(const std::string& key) {
    const auto* const ends = dynamic_cast<EndIndex*>(&t.below());
    if (ends == nullptr || !ends->keeps_ends()) return;
    auto writer = t.run(t.engine().create("b", key, key.size()));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, key));
    ObjectInfo info;
    info.size = key.size();
    info.etag = Rig::etag_of(key);
    info.headers.emplace_back(ttl_header, "36000");
    ASSERT_TRUE(t.run((*writer)->commit(std::move(info), {})));
  }
  static std::vector<std::string> keys_of(const ListPage& page) {
    std::vector<std::string> keys;
    for (const ListEntry& entry : page.entries) keys.push_back(entry.key);
    return keys;
  }
  using Keys = std::vector<std::string>;

  // Has room for so many names.
  class KeepingSink final : public ListSink {
   public:
    explicit KeepingSink(size_t room = SIZE_MAX) : room_(room) {}
    void restart() override {
      objects.restart();
      prefixes.clear();
    }
    bool add(std::string_view key, const ListedHead& head) override { return has_room() && objects.add(key, head); }
    bool add_prefix(std::string_view prefix) override {
      if (has_room()) return prefixes.emplace_back(prefix), true;
      return false;
    }
    size_t names() const { return objects.size() + prefixes.size(); }

    ListedObjects objects;
    Keys prefixes;

   private:
    bool has_room() const { return names() < room_; }
    const size_t room_;
  };
};

TEST_P(Listing, IsInByteOrderWithSizesAndEtags) {
  put({"b", "a", "\xc3\xa9", "B", "a/b", "a!"});
  auto page = t.list("b");
  ASSERT_TRUE(page);
  EXPECT_EQ(keys_of(*page), (Keys{"B", "a", "a!", "a/b", "b", "\xc3\xa9"}));
  EXPECT_FALSE(page->truncated);
  EXPECT_EQ(page->entries[3].info.size, 3u);
  EXPECT_EQ(page->entries[3].info.etag, Rig::etag_of("a/b"));
  EXPECT_GT(page->entries[3].info.modified_us, 0);
}

TEST_P(Listing, RollsUpCommonPrefixesForDelimitersOfAnyLength) {
  put({"a/1", "a/2", "b", "c//x", "c//y", "c/z", "d"});
  auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = "", .max_keys = 1000});
  EXPECT_EQ(keys_of(*page), (Keys{"b", "d"}));
  EXPECT_EQ(page->common_prefixes, (Keys{"a/", "c/"}));
  page = t.list("b", {.prefix = "c/", .delimiter = "/", .after = "", .max_keys = 1000});
  EXPECT_EQ(keys_of(*page), (Keys{"c/z"}));
  EXPECT_EQ(page->common_prefixes, (Keys{"c//"}));
  page = t.list("b", {.prefix = "", .delimiter = "//", .after = "", .max_keys = 1000});
  EXPECT_EQ(page->common_prefixes, (Keys{"c//"}));
  EXPECT_EQ(keys_of(*page), (Keys{"a/1", "a/2", "b", "c/z", "d"}));
}

TEST_P(Listing, PagesWithoutLossOrRepetition) {
  put({"a/1", "a/2", "b", "c/1", "c/2", "d", "e/1"});
  for (int max = 1; max <= 6; ++max) {
    Keys all;
    std::string after;
    for (int i = 0; i < 10; ++i) {
      auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = after, .max_keys = max});
      ASSERT_TRUE(page);
      for (const std::string& key : keys_of(*page)) all.push_back(key);
      for (const std::string& prefix : page->common_prefixes) all.push_back(prefix);
      EXPECT_LE(page->entries.size() + page->common_prefixes.size(), static_cast<size_t>(max));
      if (!page->truncated) break;
      after = page->next_after;
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (Keys{"a/", "b", "c/", "d", "e/"})) << max;
  }
}

// More rows than are read at once.
TEST_P(Listing, APageOfManyRowsHasEachOnce) {
  Keys keys, prefixes;
  for (int i = 100; i < 420; ++i) keys.push_back("k" + std::to_string(i));
  for (int i = 10; i < 40; ++i) prefixes.push_back("p" + std::to_string(i) + "/");
  for (const std::string& key : keys) put({key});
  for (const std::string& prefix : prefixes) put({prefix + "1", prefix + "2"});
  const auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = "", .max_keys = 1000});
  ASSERT_TRUE(page);
  EXPECT_EQ(keys_of(*page), keys);
  EXPECT_EQ(page->common_prefixes, prefixes);
}

// Page by page.
TEST_P(Listing, ASinkGetsTheSameObjects) {
  put({"a/1", "a/2", "b", "c/1", "c/2", "d", "e/1", std::string(1000, 'k')});
  for (const char* const key : {"a/2", "b0", "c/3", "f"}) put_with_end(key);
  for (const char* const delimiter : {"", "/"}) {
    for (int max = 1; max <= 12; ++max) {
      ListRequest request{.prefix = "", .delimiter = delimiter, .after = "", .max_keys = max};
      for (bool more = true; more;) {
        const auto whole = t.list("b", request);
        const auto sink = std::make_shared<KeepingSink>();
        request.sink = sink;
        const auto passed = t.list("b", request);
        request.sink.reset();
        ASSERT_TRUE(whole && passed);
        EXPECT_TRUE(passed->entries.empty() && passed->common_prefixes.empty());
        ASSERT_EQ(sink->objects.size(), whole->entries.size());
        for (size_t i = 0; i < whole->entries.size(); ++i) {
          const auto seen = sink->objects[i];
          EXPECT_EQ(seen.key, whole->entries[i].key);
          EXPECT_EQ(seen.etag, whole->entries[i].info.etag);
          EXPECT_EQ(seen.size, whole->entries[i].info.size);
          EXPECT_EQ(seen.modified_us, whole->entries[i].info.modified_us);
        }
        EXPECT_EQ(sink->prefixes, whole->common_prefixes);
        EXPECT_EQ(passed->truncated, whole->truncated);
        more = whole->truncated;
        request.after = whole->next_after;
      }
    }
  }
}

TEST_P(Listing, ASinkWithoutRoomEndsThePage) {
  put({"a", "b/1", "b/2", "c", "d/1"});
  for (size_t room = 0; room <= 4; ++room) {
    const auto sink = std::make_shared<KeepingSink>(room);
    const auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = "", .sink = sink});
    ASSERT_TRUE(page);
    EXPECT_EQ(sink->names(), room);
    EXPECT_EQ(page->truncated, room < 4);
  }
}

TEST_P(Listing, StartsStrictlyAfterTheMarker) {
  put({"a", "b", "c/1", "c/2", "d"});
  EXPECT_EQ(keys_of(*t.list("b", {.prefix = "", .delimiter = "", .after = "b", .max_keys = 1000})),
            (Keys{"c/1", "c/2", "d"}));
  // A marker inside a common prefix leaves the prefix; the prefix itself hides it.
  EXPECT_EQ(t.list("b", {.prefix = "", .delimiter = "/", .after = "c/1", .max_keys = 9})->common_prefixes, Keys{});
  EXPECT_EQ(t.list("b", {.prefix = "", .delimiter = "/", .after = "c/", .max_keys = 9})->common_prefixes, Keys{});
  EXPECT_EQ(t.list("b", {.prefix = "", .delimiter = "/", .after = "b", .max_keys = 9})->common_prefixes, Keys{"c/"});
  // A marker before or behind the prefix.
  EXPECT_EQ(keys_of(*t.list("b", {.prefix = "c", .delimiter = "", .after = "a", .max_keys = 9})), (Keys{"c/1", "c/2"}));
  EXPECT_EQ(keys_of(*t.list("b", {.prefix = "c", .delimiter = "", .after = "x", .max_keys = 9})), Keys{});
}

TEST_P(Listing, NothingAskedForIsAnEmptyPage) {
  put({"a"});
  auto page = t.list("b", {.prefix = "", .delimiter = "", .after = "", .max_keys = 0});
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->entries.empty());
  EXPECT_FALSE(page->truncated);
}

TEST_P(Listing, KeysOfFfBytesAndZerosArePrefixesLikeAnyOther) {
  put({std::string("\0", 1), std::string("\0\0/", 3), "\xff", "\xff/\xff", "\xff\xff/1"});
  auto page = t.list("b", {.prefix = "", .delimiter = "/", .after = "", .max_keys = 9});
  EXPECT_EQ(page->common_prefixes, (Keys{std::string("\0\0/", 3), "\xff/", "\xff\xff/"}));
  EXPECT_EQ(keys_of(*page), (Keys{std::string("\0", 1), "\xff"}));
  EXPECT_EQ(keys_of(*t.list("b", {.prefix = "\xff", .delimiter = "", .after = "", .max_keys = 9})),
            (Keys{"\xff", "\xff/\xff", "\xff\xff/1"}));
}

TEST_P(Listing, DoesNotLookIntoANeighbouringBucket) {
  t.make_bucket("a");
  t.make_bucket("c");
  ASSERT_TRUE(t.put("a", "x", "1"));
  ASSERT_TRUE(t.put("c", "y", "1"));
  EXPECT_TRUE(t.list("b")->entries.empty());
}

ON_ALL_ENGINES(Listing);

}  // namespace
}  // namespace verbena::store::conformance
