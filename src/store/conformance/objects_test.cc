// Objects, conditions and buckets.
#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class ObjectStore : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
};

TEST_P(ObjectStore, GivesBackWhatWasPutAtEverySizeAndChunking) {
  struct Case {
    size_t size, chunk;
    std::optional<uint64_t> hint;
  };
  const Case cases[] = {{0, 1, {}},
                        {1, 1, 1},
                        {4096, 1000, {}},
                        {16 * KiB, 16 * KiB, 16 * KiB},
                        {16 * KiB + 1, 16 * KiB + 1, 16 * KiB + 1},
                        {20'000, 7, {}},
                        {64 * KiB, 64 * KiB, 64 * KiB},
                        {64 * KiB + 1, 4096, {}},
                        {300'000, 100'000, 300'000},
                        {1 * MiB, 1 * MiB, 1 * MiB},
                        {1 * MiB + 5, 1 * MiB, 10},         // a hint that is too small
                        {1 * MiB + 5, 1 * MiB, 200 * MiB},  // and one that is too large
                        {5 * MiB + 4097, 1 * MiB, {}},
                        {9 * MiB + 1, 4 * MiB, 9 * MiB + 1},  // more than a volume
                        {3 * MiB + 11, 333'333, 3 * MiB + 11}};
  int i = 0;
  for (const Case& c : cases) {
    std::string key = "object" + std::to_string(i++), bytes = pattern(c.size, c.size);
    auto stored = t.put("b", key, bytes, {.conditions = {}, .chunk_size = c.chunk, .size_hint = c.hint, .etag = {}});
    ASSERT_TRUE(stored) << describe(stored.error());
    EXPECT_EQ(stored->size, c.size);
    auto got = t.get("b", key);
    ASSERT_TRUE(got) << describe(got.error());
    ASSERT_TRUE(*got == bytes) << key;
  }
  t.reopen();  // also frees what the hint of 200 MiB made the volume reserve
  i = 0;
  for (const Case& c : cases) {
    auto got = t.get("b", "object" + std::to_string(i++));
    ASSERT_TRUE(got) << describe(got.error());
    ASSERT_TRUE(*got == pattern(c.size, c.size));
  }
  t.expect_no_leak();
  EXPECT_EQ(t.arena().leased_bytes(), 0u);
}

TEST_P(ObjectStore, ReadsAnyRange) {
  std::string bytes = pattern(3 * MiB + 777, 3);
  ASSERT_TRUE(t.put("b", "k", bytes));
  auto reader = t.run(t.engine().open("b", "k"));
  ASSERT_TRUE(reader);
  const std::pair<uint64_t, size_t> ranges[] = {{0, 1},         {1, 4095},         {65535, 2},
                                                {65536, 65536}, {100, 1 * MiB},    {2 * MiB - 1, 1 * MiB},
                                                {3 * MiB, 777}, {3 * MiB + 776, 1}};
  for (auto [offset, length] : ranges) {
    auto chunk = t.run((*reader)->read(offset, length));
    ASSERT_TRUE(chunk) << describe(chunk.error());
    ASSERT_EQ(as_text(chunk->bytes), std::string_view(bytes).substr(offset, length));
    EXPECT_TRUE(t.arena().contains(chunk->bytes.data(), chunk->bytes.size()));
  }
  EXPECT_EQ(t.run((*reader)->read(3 * MiB + 777, 1)).error(), Errc::invalid_range);
  EXPECT_EQ(t.run((*reader)->read(UINT64_MAX, 2)).error(), Errc::invalid_range);
  EXPECT_EQ(t.run((*reader)->read(0, 0)).error(), Errc::invalid_argument);
  EXPECT_EQ(t.run((*reader)->read(0, 1 * MiB + 1)).error(), Errc::invalid_argument);
}

TEST_P(ObjectStore, AReaderSurvivesOverwriteAndDelete) {
  std::string first = pattern(2 * MiB, 1), small = pattern(100, 2);
  ASSERT_TRUE(t.put("b", "k", first));
  ASSERT_TRUE(t.put("b", "s", small));
  auto reader = t.run(t.engine().open("b", "k"));
  auto small_reader = t.run(t.engine().open("b", "s"));
  ASSERT_TRUE(reader && small_reader);
  ASSERT_TRUE(t.put("b", "k", pattern(1 * MiB, 9)));
  ASSERT_TRUE(t.remove("b", "k"));
  ASSERT_TRUE(t.remove("b", "s"));
  (void)t.live_bytes();  // waits until removed bytes are freed
  EXPECT_EQ(*t.read(**reader, 0, first.size()), first);
  EXPECT_EQ(*t.read(**small_reader, 0, small.size()), small);
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  reader->reset();
  small_reader->reset();
  t.expect_no_leak();
  EXPECT_EQ(t.live_bytes(), 0u);
}

TEST_P(ObjectStore, AWriterThatGoesAwayLeavesNothing) {
  for (size_t size : {100ul, 100'000ul, 3ul * MiB}) {
    auto writer = t.run(t.engine().create("b", "k", std::nullopt));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(t.append(**writer, pattern(size, 1)));
    writer->reset();
    EXPECT_EQ(t.run(t.engine().stat("b", "k")).error(), Errc::no_such_key);
  }
  auto writer = t.run(t.engine().create("b", "k", 100));
  ASSERT_TRUE(t.append(**writer, pattern(100, 1)));
  ObjectInfo wrong;
  wrong.size = 101;
  EXPECT_EQ(t.run((*writer)->commit(wrong, {})).error(), Errc::incomplete_body);
  t.expect_no_leak();
}

TEST_P(ObjectStore, KeepsAllMetadata) {
  auto writer = t.run(t.engine().create("b", "k", 3));
  ASSERT_TRUE(t.append(**writer, "abc"));
  ObjectInfo info;
  info.size = 3;
  info.etag = "etag-1";
  info.headers = {{"content-type", "text/plain"}, {"x-amz-meta-empty", ""}};
  info.checksums = {{Algorithm::crc32, std::string("\0\1\2\3", 4), 0}, {Algorithm::sha256, std::string(32, 'x'), 7}};
  auto stored = t.run((*writer)->commit(info, {}));
  ASSERT_TRUE(stored);
  EXPECT_GT(stored->modified_us, 0);
  writer->reset();
  t.reopen();
  auto got = t.run(t.engine().stat("b", "k"));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size, 3u);
  EXPECT_EQ(got->etag, "etag-1");
  EXPECT_EQ(got->headers, info.headers);
  EXPECT_EQ(got->checksums, info.checksums);
  EXPECT_EQ(got->modified_us, stored->modified_us);
}

TEST_P(ObjectStore, EvaluatesConditionsAtTheCommit) {
  auto with = [](std::optional<std::string> match, std::optional<std::string> none) {
    return Rig::How{.conditions = {match, none}, .size_hint = {}, .etag = {}};
  };
  EXPECT_EQ(t.put("b", "k", "1", with("*", {})).error(), Errc::no_such_key);
  ASSERT_TRUE(t.put("b", "k", "1", with({}, "*")));
  EXPECT_EQ(t.put("b", "k", "2", with({}, "*")).error(), Errc::precondition_failed);
  std::string etag = Rig::etag_of("1");
  EXPECT_EQ(t.put("b", "k", "2", with({}, etag)).error(), Errc::precondition_failed);
  EXPECT_EQ(t.put("b", "k", "2", with("other", {})).error(), Errc::precondition_failed);
  EXPECT_EQ(*t.get("b", "k"), "1");
  ASSERT_TRUE(t.put("b", "k", "22", with(etag, {})));
  EXPECT_EQ(*t.get("b", "k"), "22");
  EXPECT_EQ(t.remove("b", "k", {etag, {}}).error(), Errc::precondition_failed);
  ASSERT_TRUE(t.remove("b", "k", {Rig::etag_of("22"), {}}));
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
}

TEST_P(ObjectStore, GivesNoOwnerMoreBucketsThanItMayHave) {
  const auto make = [&](const std::string& name, const std::string& owner) {
    return t.run(t.engine().create_bucket({.name = name, .created_us = 0, .owner = owner}, 3));
  };
  // All at once: each is decided before the others are there.
  std::vector<std::future<Result<void>>> making;
  for (int i = 0; i < 8; ++i) {
    auto task = t.engine().create_bucket({.name = "m" + std::to_string(i), .created_us = 0, .owner = "one"}, 3);
    making.push_back(boost::asio::co_spawn(t.io(), std::move(task), boost::asio::use_future));
  }
  t.io().restart();
  t.io().run();
  int made = 0;
  for (auto& one : making) {
    const auto outcome = one.get();
    made += outcome.has_value();
    if (!outcome) EXPECT_EQ(outcome.error(), Errc::too_many_buckets);
  }
  EXPECT_EQ(made, 3);
  auto theirs = t.run(t.engine().buckets_of({.owner = "one"}));
  ASSERT_TRUE(theirs);
  ASSERT_EQ(theirs->size(), 3u);
  EXPECT_EQ(make("z", "one").error(), Errc::too_many_buckets);
  EXPECT_EQ(make(theirs->front().name, "one").error(), Errc::bucket_already_exists) << "it makes none";
  EXPECT_TRUE(make("z", "other")) << "each owner has a number of its own";
  t.reopen();
  EXPECT_EQ(make("y", "one").error(), Errc::too_many_buckets);
  ASSERT_TRUE(t.run(t.engine().remove_bucket(theirs->front().name)));
  EXPECT_TRUE(make("y", "one"));
  EXPECT_EQ(make("x", "one").error(), Errc::too_many_buckets);
}

TEST_P(ObjectStore, ListsAnOwnersBucketsByPages) {
  const auto make = [&](const std::string& name, const std::string& owner) {
    ASSERT_TRUE(t.run(t.engine().create_bucket({.name = name, .created_us = 0, .owner = owner})));
  };
  for (const char* name : {"aa", "ab", "ba", "bb", "bc", "ca"}) make(name, "one");
  for (const char* name : {"a", "abc", "bba", "zz"}) make(name, "other");
  const auto names = [&](const OwnersBuckets& which) {
    std::string all;
    const auto found = t.run(t.engine().buckets_of(which));
    EXPECT_TRUE(found);
    for (const BucketInfo& bucket : *found) all += bucket.name + " ";
    return all;
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(names({.owner = "one"}), "aa ab ba bb bc ca ");
    EXPECT_EQ(names({.owner = "one", .max = 2}), "aa ab ");
    EXPECT_EQ(names({.owner = "one", .after = "ab", .max = 2}), "ba bb ");
    EXPECT_EQ(names({.owner = "one", .after = "b"}), "ba bb bc ca ") << "no bucket's name";
    EXPECT_EQ(names({.owner = "one", .prefix = "b"}), "ba bb bc ");
    EXPECT_EQ(names({.owner = "one", .prefix = "b", .after = "ba"}), "bb bc ");
    EXPECT_EQ(names({.owner = "one", .prefix = "b", .after = "c"}), "");
    EXPECT_EQ(names({.owner = "one", .prefix = "b", .after = "a"}), "ba bb bc ");
    EXPECT_EQ(names({.owner = "other", .prefix = "b"}), "bba ");
    EXPECT_EQ(names({.owner = "none"}), "");
    t.reopen();
  }
  ASSERT_TRUE(t.run(t.engine().remove_bucket("bb")));
  EXPECT_EQ(names({.owner = "one", .prefix = "b"}), "ba bc ");
}

TEST_P(ObjectStore, KnowsItsBuckets) {
  BucketInfo again;
  again.name = "b";
  EXPECT_EQ(t.run(t.engine().create_bucket(again)).error(), Errc::bucket_already_exists);
  t.make_bucket("a", Durability::memory);
  auto all = t.run(t.engine().buckets());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].name, "a");
  EXPECT_EQ((*all)[0].durability, Durability::memory);
  EXPECT_EQ(t.run(t.engine().bucket("x")).error(), Errc::no_such_bucket);
  EXPECT_EQ(t.get("x", "k").error(), Errc::no_such_bucket);
  EXPECT_EQ(t.list("x").error(), Errc::no_such_bucket);
  ASSERT_TRUE(t.put("b", "k", "v"));
  EXPECT_EQ(t.run(t.engine().remove_bucket("b")).error(), Errc::bucket_not_empty);
  ASSERT_TRUE(t.remove("b", "k"));
  auto late = t.run(t.engine().create("b", "late", std::nullopt));
  ASSERT_TRUE(t.run(t.engine().remove_bucket("b")));
  t.make_bucket("b");
  // A writer of the old bucket must not write into the new one.
  ObjectInfo info;
  EXPECT_EQ(t.run((*late)->commit(info, {})).error(), Errc::no_such_bucket);
  late->reset();
  t.reopen();
  EXPECT_TRUE(t.list("b")->entries.empty());
  EXPECT_EQ(t.run(t.engine().bucket("a"))->durability, Durability::memory);
}

TEST_P(ObjectStore, RefusesKeysThatAreEmptyOrTooLong) {
  EXPECT_EQ(t.put("b", "", "v").error(), Errc::invalid_argument);
  EXPECT_EQ(t.put("b", std::string(1025, 'k'), "v").error(), Errc::key_too_long);
  std::string longest(1024, '\xff');
  ASSERT_TRUE(t.put("b", longest, "v"));
  std::string zeros("\0\0a", 3);
  ASSERT_TRUE(t.put("b", zeros, "w"));
  EXPECT_EQ(*t.get("b", longest), "v");
  EXPECT_EQ(*t.get("b", zeros), "w");
}

TEST_P(ObjectStore, AMemoryBucketServesTheSameBytesAndCanBecomeDurable) {
  t.make_bucket("m", Durability::memory);
  std::string bytes = pattern(2 * MiB + 3, 8);
  ASSERT_TRUE(t.put("m", "k", bytes));
  ASSERT_TRUE(t.put("m", "s", "small"));
  EXPECT_EQ(*t.get("m", "k"), bytes);
  ASSERT_TRUE(t.run(t.engine().set_durability("m", Durability::sync)));
  ASSERT_TRUE(t.put("m", "s2", "small"));
  t.reopen();
  EXPECT_EQ(*t.get("m", "k"), bytes);
  EXPECT_EQ(*t.get("m", "s"), "small");
  ASSERT_TRUE(t.remove("m", "k"));
  t.expect_no_leak();
}

ON_THESE(ObjectStore, engines_and_disks());

}  // namespace
}  // namespace verbena::store::conformance
