#include "store/hot_store.h"

#include <random>

#include "base/metrics.h"
#include "store/local/test_store.h"
#include "store/whole_put.h"

namespace verbena::store {
namespace {

using local::pattern;
using local::TestStore;

// The engine's test store, with the hot tier in front.
class HotStoreTest : public testing::Test {
 protected:
  HotStoreTest() : t_(&fs_) {
    t_.open();
    t_.make_bucket("b");
    hot_ = std::make_unique<HotStore>(*t_.store, HotStore::Options{&t_.arena(), 16 * MiB, 4 * MiB});
  }
  ~HotStoreTest() override { hot_.reset(); }

  Result<ObjectInfo> put(const std::string& key, const std::string& bytes, CommitConditions conditions = {},
                         size_t chunk_size = 1 * MiB) {
    VB_ASSIGN(auto writer, t_.run(hot_->create("b", key, bytes.size())));
    VB_TRY(t_.append(*writer, bytes, chunk_size));
    ObjectInfo info;
    info.size = bytes.size();
    info.etag = TestStore::etag_of(bytes);
    info.headers = {{"content-type", "text/plain"}};
    return t_.run(writer->commit(std::move(info), std::move(conditions)));
  }
  WholePut whole_put(std::string_view key, std::string_view bytes) {
    WholePut whole{.bucket = "b", .key = key, .info = {}, .bytes = t_.chunk(bytes), .executor = {}, .then = {}};
    whole.info.size = bytes.size();
    whole.info.etag = TestStore::etag_of(bytes);
    whole.info.headers = {{"content-type", "text/plain"}};
    whole.executor = t_.io().get_executor();
    return whole;
  }
  Result<ObjectInfo> put_whole(
      const std::string& key, const std::string& bytes, const std::function<void(ObjectInfo&)>& change = [](auto&) {}) {
    std::optional<Result<ObjectInfo>> told;
    WholePut whole = whole_put(key, bytes);
    change(whole.info);
    whole.then = [&](Result<ObjectInfo> stored) { told = std::move(stored); };
    t_.io().restart();
    const auto waits = boost::asio::make_work_guard(t_.io());
    EXPECT_TRUE(hot_->put_whole(whole));
    while (!told) t_.io().run_one();
    return *told;
  }
  Result<std::string> get(const std::string& key) {
    VB_ASSIGN(auto reader, t_.run(hot_->open("b", key)));
    return t_.read(*reader, 0, reader->info().size);
  }
  bool is_hot(const std::string& key) { return hot_->hot("b", key) != nullptr; }
  // From here on a hit is what answers.
  void break_disk() { fs_.fail_reads(true); }

  local::FaultyFileSystem fs_;
  TestStore t_;
  std::unique_ptr<HotStore> hot_;
};

TEST_F(HotStoreTest, APutIsHotAndReadsTouchNoDisk) {
  for (size_t size : {1ul, 4096ul, 16'385ul, 70'000ul, 1 * MiB - 1, 1 * MiB, 1 * MiB + 1, 3'500'000ul}) {
    const std::string bytes = pattern(size, size);
    ASSERT_TRUE(put("k", bytes)) << size;
    break_disk();
    EXPECT_TRUE(is_hot("k")) << size;
    EXPECT_TRUE(*get("k") == bytes) << size;
    fs_.fail_reads(false);
  }
}

// What waits in the engine's memory is answered as fast, without a place in the tier.
TEST_F(HotStoreTest, WhatTheEngineHasInMemoryIsHot) {
  hot_.reset();
  t_.close();
  t_.options.write_behind_after = std::chrono::hours(1);
  t_.open();
  t_.make_bucket("m", Durability::memory);
  const HotStore::Options options{.arena = &t_.arena(), .capacity = 16 * MiB, .object_size_max = 1};
  hot_ = std::make_unique<HotStore>(*t_.store, options);
  const std::string bytes = pattern(4096, 1);
  ASSERT_TRUE(t_.put("m", "k", bytes, {.conditions = {}, .size_hint = bytes.size(), .etag = {}}));
  const auto found = hot_->hot("m", "k");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(as_text(found->view(0, 4096)), bytes);
  std::array<Store::HotLookup, 3> lookups{{{"m", "no"}, {"m", "k"}, {"b", "k"}}};
  hot_->hot_many(lookups);
  EXPECT_EQ(lookups[0].found, nullptr);
  ASSERT_NE(lookups[1].found, nullptr);
  EXPECT_EQ(lookups[1].found->info().etag, TestStore::etag_of(bytes));
  EXPECT_EQ(lookups[2].found, nullptr);
  t_.store->drain();
  EXPECT_EQ(hot_->hot("m", "k"), nullptr);
}

TEST_F(HotStoreTest, WhatIsPutAtOnceIsHotAndTakesThePlaceOfWhatWas) {
  ASSERT_TRUE(put("k", "before"));
  const std::string bytes = pattern(5000, 1);
  std::optional<Result<ObjectInfo>> told;
  WholePut whole = whole_put("k", bytes);
  whole.then = [&](Result<ObjectInfo> stored) { told = std::move(stored); };
  {
    t_.io().restart();
    const auto waits = boost::asio::make_work_guard(t_.io());
    ASSERT_TRUE(hot_->put_whole(whole));
    EXPECT_FALSE(is_hot("k")) << "between the two";
    while (!told) t_.io().run_one();
  }
  ASSERT_TRUE(*told);
  break_disk();
  EXPECT_TRUE(is_hot("k"));
  EXPECT_TRUE(*get("k") == bytes);
  fs_.fail_reads(false);
}

TEST_F(HotStoreTest, BothWaysToPutLeaveTheSameInTheTier) {
  size_t number = 0;
  for (const size_t size : {1ul, 4096ul, 5000ul}) {
    const std::string key = "k" + std::to_string(number++), bytes = pattern(size, size);
    const auto after = [&](auto put_it) {
      (void)t_.run(hot_->remove("b", key, {}));
      const size_t before = hot_->tier().bytes(), entries = hot_->tier().entries();
      put_it();
      EXPECT_TRUE(is_hot(key)) << size;
      const auto info = *t_.run(hot_->stat("b", key));
      EXPECT_TRUE(*get(key) == bytes) << size;
      return std::tuple(hot_->tier().bytes() - before, hot_->tier().entries() - entries, info.size, info.etag,
                        info.headers);
    };
    const auto by_writer = after([&] { ASSERT_TRUE(put(key, bytes)); });
    EXPECT_EQ(after([&] { ASSERT_TRUE(put_whole(key, bytes)); }), by_writer) << size;
  }
}

TEST_F(HotStoreTest, ARefusedPutTakesTheOldObjectOutOfTheTierByBothWays) {
  const auto refused = [](ObjectInfo& info) { info.lock.legal_hold = true; };  // the bucket has no locks
  ASSERT_TRUE(put("k", "before"));
  EXPECT_EQ(put_whole("k", "after", refused).error(), Errc::invalid_request);
  EXPECT_FALSE(is_hot("k"));
  EXPECT_EQ(*get("k"), "before");
  EXPECT_TRUE(is_hot("k"));
  EXPECT_EQ(put("k", "after", {.if_match = {}, .if_none_match = "*"}).error(), Errc::precondition_failed);
  EXPECT_FALSE(is_hot("k"));
  EXPECT_EQ(*get("k"), "before");
}

TEST_F(HotStoreTest, AnAppendTakesTheOldObjectOutOfTheTier) {
  ASSERT_TRUE(put("k", "before"));
  auto writer = *t_.run(hot_->create_append("b", "k", 5, {}));
  ASSERT_TRUE(t_.append(*writer, "after"));
  ObjectInfo info;
  info.size = 5;
  info.etag = "append-r";
  const auto stored = t_.run(writer->commit(std::move(info), {.if_match = {}, .if_none_match = {}, .if_size = 6}));
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->size, 11u);
  EXPECT_FALSE(is_hot("k")) << "the writer had its end alone";
  EXPECT_EQ(*get("k"), "beforeafter");
}

TEST_F(HotStoreTest, AWholeReadMakesHotAPartDoesNot) {
  const std::string bytes = pattern(2'500'000, 1);
  ASSERT_TRUE(t_.put("b", "k", bytes));  // behind the tier's back, as after a restart
  {
    auto reader = t_.run(hot_->open("b", "k"));
    EXPECT_EQ(*t_.read(**reader, 100, 5000), bytes.substr(100, 5000));
  }
  EXPECT_FALSE(is_hot("k"));
  EXPECT_TRUE(*get("k") == bytes);
  EXPECT_TRUE(is_hot("k"));
  break_disk();
  EXPECT_TRUE(*get("k") == bytes);
}

TEST_F(HotStoreTest, PiecesMayComeInAnyOrder) {
  const std::string bytes = pattern(3 * MiB + 5, 1);
  ASSERT_TRUE(t_.put("b", "k", bytes));
  auto reader = *t_.run(hot_->open("b", "k"));
  for (uint64_t at : {2 * MiB, 0ul, 3 * MiB, 0ul, 1 * MiB}) {
    EXPECT_FALSE(is_hot("k"));
    const size_t n = std::min<size_t>(1 * MiB, bytes.size() - at);
    EXPECT_TRUE(as_text(t_.run(reader->read(at, n))->bytes) == bytes.substr(at, n));
  }
  EXPECT_TRUE(is_hot("k"));
  EXPECT_TRUE(*get("k") == bytes);
}

TEST_F(HotStoreTest, RangesOfAHotObjectAreItsBytes) {
  const std::string bytes = pattern(2 * MiB + 777, 1);
  ASSERT_TRUE(put("k", bytes));
  break_disk();
  auto reader = hot_->hot("b", "k");
  ASSERT_NE(reader, nullptr);
  for (uint64_t at : {0ul, 1ul, 1 * MiB - 1, 1 * MiB, 2 * MiB - 100, 2 * MiB + 776}) {
    const size_t n = std::min<size_t>(1 * MiB, bytes.size() - at);
    EXPECT_TRUE(as_text(t_.run(reader->read(at, n))->bytes) == bytes.substr(at, n)) << at;
    const auto piece = reader->peek(at, bytes.size() - at);
    ASSERT_FALSE(piece.bytes.empty());
    EXPECT_TRUE(as_text(piece.bytes) == bytes.substr(at, piece.bytes.size())) << at;
  }
  EXPECT_EQ(t_.run(reader->read(bytes.size(), 1)).error(), Errc::invalid_range);
  EXPECT_EQ(t_.run(reader->read(UINT64_MAX, 1)).error(), Errc::invalid_range);
  EXPECT_TRUE(reader->peek(bytes.size(), 1).bytes.empty());
  EXPECT_TRUE(reader->peek(1, UINT64_MAX).bytes.empty());
}

TEST_F(HotStoreTest, TheHotInfoIsTheEnginesOwn) {
  ASSERT_TRUE(put("k", "bytes"));
  const auto hot = *t_.run(hot_->stat("b", "k"));
  const auto cold = *t_.run(t_.store->stat("b", "k"));
  EXPECT_EQ(hot.size, cold.size);
  EXPECT_EQ(hot.etag, cold.etag);
  EXPECT_EQ(hot.modified_us, cold.modified_us);
  EXPECT_EQ(hot.version_id, cold.version_id);
  EXPECT_EQ(hot.headers, cold.headers);
  EXPECT_EQ(hot.checksums, cold.checksums);
}

TEST_F(HotStoreTest, EveryChangeShowsAtOnce) {
  ASSERT_TRUE(put("k", "one"));
  ASSERT_TRUE(put("k", "two"));
  EXPECT_EQ(*get("k"), "two");
  EXPECT_EQ(put("k", "three", {.if_match = {}, .if_none_match = "*"}).error(), Errc::precondition_failed);
  EXPECT_EQ(*get("k"), "two");
  ASSERT_TRUE(t_.run(hot_->remove("b", "k", {})));
  EXPECT_EQ(get("k").error(), Errc::no_such_key);
  ASSERT_TRUE(put("k", "four"));
  UploadInfo upload;
  upload.bucket = "b";
  upload.key = "k";
  upload = *t_.run(hot_->create_upload(upload));
  const auto part = *t_.put_part(upload, 1, "part");
  EXPECT_EQ(*get("k"), "four");
  ASSERT_TRUE(t_.run(hot_->complete_upload("b", "k", upload.upload_id, {part}, {}, {})));
  EXPECT_EQ(*get("k"), "part");
}

TEST_F(HotStoreTest, AnObjectWhoseEndHasComeIsNotHot) {
  hot_.reset();
  HotStore::Options options{&t_.arena(), 16 * MiB, 4 * MiB};
  options.clock = &t_.clock();
  hot_ = std::make_unique<HotStore>(*t_.store, options);
  const auto ends = [](ObjectInfo& info) { info.headers.emplace_back("x-verbena-ttl", "60"); };
  ASSERT_TRUE(put_whole("k", "bytes", ends));
  ASSERT_TRUE(put("stays", "bytes"));
  EXPECT_TRUE(is_hot("k"));
  t_.step_clock(std::chrono::hours(1));
  EXPECT_FALSE(is_hot("k"));
  EXPECT_EQ(get("k").error(), Errc::no_such_key);
  t_.step_clock(-std::chrono::hours(1));
  EXPECT_FALSE(is_hot("k"));
  EXPECT_EQ(get("k").error(), Errc::no_such_key);
  EXPECT_TRUE(is_hot("stays"));
}

// The clock went back between a reader who was told that an end has come and one who finds a hot object with that end.
TEST_F(HotStoreTest, AnEndThatTheEngineHasToldHasComeForWhatIsHot) {
  hot_.reset();
  HotStore::Options options{&t_.arena(), 16 * MiB, 4 * MiB};
  options.clock = &t_.clock();
  hot_ = std::make_unique<HotStore>(*t_.store, options);
  const auto ends = [](ObjectInfo& info) { info.headers.emplace_back("x-verbena-ttl", "60"); };
  const cache::KeyRun run{"b", "alsohot", 7, 1, 0};
  std::array<uint64_t, 1> sizes{};
  for (const char* key : {"hot", "alsohot", "told"}) ASSERT_TRUE(put_whole(key, "bytes", ends));
  EXPECT_TRUE(is_hot("hot"));
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes[0], 5);
  t_.step_clock(std::chrono::hours(1));
  EXPECT_EQ(t_.run(t_.store->stat("b", "told")).error(), Errc::no_such_key);
  t_.step_clock(-std::chrono::hours(1));
  EXPECT_FALSE(is_hot("hot"));
  EXPECT_EQ(get("hot").error(), Errc::no_such_key);
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes[0], Store::not_hot);
}

TEST_F(HotStoreTest, VersionsAndTagsAreTheEnginesOwn) {
  ASSERT_TRUE(put("k", "one"));
  ASSERT_TRUE(t_.run(hot_->set_versioning("b", Versioning::enabled)));
  EXPECT_EQ(t_.run(hot_->stat("b", "k"))->version_id, "null");
  const std::string two = put("k", "two")->version_id;
  EXPECT_EQ(t_.run(hot_->stat("b", "k"))->version_id, two);
  auto old = *t_.run(hot_->open("b", "k", "null"));
  EXPECT_EQ(*t_.read(*old, 0, 3), "one");
  ObjectChange change;
  change.tags = Tags{{"a", "b"}};
  ASSERT_TRUE(t_.run(hot_->update("b", "k", two, change)));
  EXPECT_EQ(t_.run(hot_->stat("b", "k"))->tags, *change.tags);
  EXPECT_EQ(*get("k"), "two");
  ASSERT_TRUE(t_.run(hot_->remove("b", "k", {.version_id = two})));
  EXPECT_EQ(*get("k"), "one");
  ASSERT_TRUE(t_.run(hot_->remove("b", "k", {})));
  EXPECT_EQ(get("k").error(), Errc::no_such_key);
}

TEST_F(HotStoreTest, AReaderKeepsWhatItOpened) {
  const std::string before = pattern(100'000, 1), after = pattern(100'000, 2);
  ASSERT_TRUE(put("k", before));
  auto reader = *t_.run(hot_->open("b", "k"));
  auto piece = reader->peek(0, before.size());
  ASSERT_TRUE(put("k", after));
  EXPECT_TRUE(as_text(piece.bytes) == before);
  EXPECT_TRUE(*t_.read(*reader, 0, before.size()) == before);
  EXPECT_TRUE(*get("k") == after);
}

TEST_F(HotStoreTest, AColdReaderOfTheOldObjectDoesNotBringItBack) {
  const std::string before = pattern(100'000, 1), after = pattern(100'000, 2);
  ASSERT_TRUE(t_.put("b", "k", before));
  auto reader = *t_.run(hot_->open("b", "k"));
  ASSERT_TRUE(put("k", after));
  EXPECT_TRUE(*t_.read(*reader, 0, before.size()) == before);
  EXPECT_TRUE(*get("k") == after);
}

TEST_F(HotStoreTest, SizesAreShownOfWhatIsHotAndPlainAndNotOver) {
  hot_.reset();
  HotStore::Options options{&t_.arena(), 16 * MiB, 4 * MiB};
  options.clock = &t_.clock();
  hot_ = std::make_unique<HotStore>(*t_.store, options);
  const std::string names = "key-0key-1key-2key-3";
  const cache::KeyRun run{"b", names.data(), 5, 4, 4};
  std::array<uint64_t, 5> sizes{};
  constexpr uint64_t none = Store::not_hot;
  ASSERT_TRUE(put("key-0", std::string(70'000, 'x')));
  ASSERT_TRUE(put_whole("key-1", "1", [](auto& info) { info.headers.emplace_back("x-verbena-ttl", "60"); }));
  ASSERT_TRUE(put_whole("key-2", "22", [](auto& info) { info.attributes = {{"acl", "mine"}}; }));
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes, (std::array<uint64_t, 5>{70'000, 1, none, none, 0}));
  EXPECT_TRUE(is_hot("key-2"));
  t_.step_clock(std::chrono::hours(1));
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes, (std::array<uint64_t, 5>{70'000, none, none, none, 0}));
  t_.step_clock(-std::chrono::hours(1));
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes[1], none) << "what is over does not come back";
  ASSERT_TRUE(t_.run(hot_->remove("b", "key-0", {})));
  hot_->hot_sizes(run, sizes);
  EXPECT_EQ(sizes[0], none);
}

class SetClock final : public WallClock {
 public:
  int64_t now_us() const override { return now; }
  int64_t now = 0;
};

// Of a run of keys, and one by one: evicted, ended, changed and removed ones among them.
TEST_F(HotStoreTest, SizesAreThoseOfSingleLookUpsWhileKeysChange) {
  constexpr size_t count = 100, name_size = 6;
  hot_.reset();
  HotStore::Options options{&t_.arena(), 80 * 8 * KiB, 4 * MiB};  // holds some of the objects
  SetClock clock;                                                 // the engine's advances with each reading
  options.clock = &clock;
  hot_ = std::make_unique<HotStore>(*t_.store, options);
  std::string names;
  for (size_t i = 0; i < count; ++i) names += "key-" + std::to_string(i / 10) + std::to_string(i % 10);
  const cache::KeyRun run{"b", names.data(), name_size, count, 4};
  std::mt19937 random(40);
  const auto change = [&] {
    const std::string key(run.at(random() % count));
    const size_t size = 1 + random() % 7'000;
    switch (random() % 8) {
      case 0:
        return void(t_.run(hot_->remove("b", key, {})));
      case 1:
        return void(put_whole(key, std::string(size, 'a'), [](auto& info) { info.attributes = {{"acl", "mine"}}; }));
      case 2:
        return void(put_whole(key, std::string(size, 'e'),
                              [](auto& info) { info.headers.emplace_back("x-verbena-ttl", "60"); }));
      case 3:
        return void(get(key));
      default:
        return void(put_whole(key, std::string(size, 'x')));
    }
  };
  size_t seen = 0, hidden = 0;
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 5; ++i) change();
    clock.now = t_.clock().now_us();
    std::array<uint64_t, count> sizes{};
    hot_->hot_sizes(run, sizes);
    for (size_t i = 0; i < count; ++i) {
      const auto found = hot_->hot("b", run.at(i));
      const bool shown = found != nullptr && is_plain(found->info());
      ASSERT_EQ(sizes[i], shown ? found->info().size : Store::not_hot) << run.at(i) << " in round " << round;
      ++(shown ? seen : hidden);
    }
  }
  EXPECT_GT(seen, 1'000u);
  EXPECT_GT(hidden, 1'000u);
  hot_.reset();  // before the clock
}

TEST_F(HotStoreTest, WhatIsTooLargePassesBy) {
  const std::string bytes = pattern(4 * MiB + 1, 1);
  ASSERT_TRUE(put("k", bytes));
  EXPECT_FALSE(is_hot("k"));
  EXPECT_TRUE(*get("k") == bytes);
  EXPECT_FALSE(is_hot("k"));
  EXPECT_EQ(hot_->tier().bytes(), 0u);
}

TEST_F(HotStoreTest, ChunksThatAreNoPiecesAreStoredAllTheSame) {
  const std::string bytes = pattern(300'000, 1);
  ASSERT_TRUE(put("k", bytes, {}, 100'000));
  EXPECT_FALSE(is_hot("k"));
  EXPECT_TRUE(*get("k") == bytes);
}

TEST_F(HotStoreTest, AFullArenaTakesBackFromTheTier) {
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(put("k" + std::to_string(i), pattern(1 * MiB, 1)));
  EXPECT_GT(hot_->tier().bytes(), 10 * MiB);
  std::vector<memory::Lease> all;
  for (auto lease = t_.arena().lease(4 * MiB); lease; lease = t_.arena().lease(4 * MiB)) {
    all.push_back(std::move(*lease));
  }
  EXPECT_EQ(all.size(), t_.arena().mapping().size() / (4 * MiB));
  EXPECT_EQ(hot_->tier().bytes(), 0u);
}

TEST_F(HotStoreTest, AllMemoryComesBack) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(put("k" + std::to_string(i), pattern(700'000, static_cast<uint64_t>(i))));
    EXPECT_LE(t_.arena().leased_bytes(), 16 * MiB);
  }
  hot_.reset();
  EXPECT_EQ(t_.arena().leased_bytes(), 0u);
  hot_ = std::make_unique<HotStore>(*t_.store, HotStore::Options{&t_.arena(), 16 * MiB, 4 * MiB});
}

}  // namespace
}  // namespace verbena::store
