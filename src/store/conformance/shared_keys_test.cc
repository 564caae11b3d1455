// The hot tier in front of an engine whose keys other processes change: when it must ask, and when it need not.
#include "store/shared_keys.h"

#include "store/conformance/rig.h"
#include "store/hot_store.h"
#include "store/memory/memory_store.h"

namespace verbena::store::conformance {
namespace {

// An engine with one stamp for all of its keys: a test that changes a key takes the next stamp.
class SharedEngine final : public EngineStore, public SharedKeys {
 public:
  explicit SharedEngine(std::shared_ptr<Context> context) : EngineStore(std::move(context)) {}

  Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                   std::string_view version_id = {}) override {
    ++opened;
    const uint64_t now = stamp;
    VB_CO_ASSIGN(auto reader, co_await EngineStore::open(bucket, key, version_id));
    co_return std::make_shared<Stamped>(std::move(reader), now);
  }
  Task<Result<std::shared_ptr<ObjectReader>>> open_unless(std::string_view bucket, std::string_view key,
                                                          uint64_t seen) override {
    ++asked;
    if (seen == stamp) co_return nullptr;
    co_return co_await open(bucket, key);
  }
  Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                     std::optional<uint64_t> size_hint) override {
    VB_CO_ASSIGN(auto writer, co_await EngineStore::create(bucket, key, size_hint));
    co_return std::make_unique<Telling>(std::move(writer), *this);
  }
  uint64_t term() const override { return term_now; }
  void keep(std::string_view, std::string_view, uint64_t seen, std::function<void(uint64_t)> kept) override {
    if (seen == stamp) wanted.push_back(std::move(kept));
  }
  void listen(Listener* one) override { listener = one; }

  uint64_t stamp = 1, term_now = 7;
  int opened = 0, asked = 0;
  std::vector<std::function<void(uint64_t)>> wanted;
  Listener* listener = nullptr;

 private:
  // Reports its own changes of keys that this process keeps.
  class Telling final : public ObjectWriter {
   public:
    Telling(std::unique_ptr<ObjectWriter> below, SharedEngine& engine) : below_(std::move(below)), engine_(engine) {}
    Task<Result<void>> append(memory::Chunk chunk) override { return below_->append(std::move(chunk)); }
    Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
      engine_.listener->let_go("b", "k");
      VB_CO_ASSIGN(ObjectInfo stored, co_await below_->commit(std::move(info), std::move(conditions)));
      stored.stamp = ++engine_.stamp;
      co_return stored;
    }

   private:
    std::unique_ptr<ObjectWriter> below_;
    SharedEngine& engine_;
  };
  class Stamped final : public ObjectReader {
   public:
    Stamped(std::shared_ptr<ObjectReader> below, uint64_t stamp) : below_(std::move(below)), info_(below_->info()) {
      info_.stamp = stamp;
    }
    const ObjectInfo& info() const override { return info_; }
    Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override { return below_->read(offset, length); }

   private:
    std::shared_ptr<ObjectReader> below_;
    ObjectInfo info_;
  };
};

class SharedKeysTest : public Rig, public ::testing::Test {
 protected:
  SharedKeysTest() {
    SharedKeysTest::open();
    make_bucket("b");
  }
  void open() override {
    memory_ = std::make_unique<in_memory::MemoryStore>(in_memory::Options{.arena = arena_.get(), .clock = &clock_});
    shared = std::make_unique<SharedEngine>(memory_->context());
    hot = std::make_unique<HotStore>(
        *shared,
        HotStore::Options{.arena = arena_.get(), .capacity = 16 * MiB, .shared = shared.get(), .keep_after = 2});
  }
  Store& engine() override { return *hot; }
  uint64_t live_bytes() override { return memory_->usage().blob_bytes; }
  bool leaks() override { return false; }

  // A change by another server.
  void change(const std::string& bytes) {
    run([](Store& store, memory::Chunk chunk, size_t size) -> Task<> {
      auto writer = co_await store.create("b", "k", size);
      EXPECT_TRUE(co_await (*writer)->append(std::move(chunk)));
      ObjectInfo info;
      info.size = size;
      EXPECT_TRUE(co_await (*writer)->commit(std::move(info), CommitConditions()));
    }(*memory_, chunk(bytes), bytes.size()));
    ++shared->stamp;
  }
  bool is_hot() { return hot->hot("b", "k") != nullptr; }
  // Read once to be in memory, and then until its key gets a read lease.
  void warm_up() {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(get("b", "k"));
    ASSERT_EQ(shared->wanted.size(), 1u);
  }

  template <class T>
  T run(Task<T> task) {
    return Rig::run(std::move(task));
  }
  void run(Task<> task) {
    auto done = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    io_.run();
    done.get();
  }

  std::unique_ptr<in_memory::MemoryStore> memory_;
  std::unique_ptr<SharedEngine> shared;
  std::unique_ptr<HotStore> hot;
};

TEST_F(SharedKeysTest, WhatLiesInMemoryIsAnsweredWhenTheEngineSaysThatItIsStillSo) {
  change("one");
  EXPECT_EQ(*get("b", "k"), "one");
  EXPECT_FALSE(is_hot()) << "the engine was not asked";
  EXPECT_EQ(*get("b", "k"), "one");
  EXPECT_EQ(shared->opened, 1) << "the bytes came from memory";
  EXPECT_EQ(shared->asked, 1);
}

TEST_F(SharedKeysTest, WhatAnotherServerHasChangedIsSeenByTheNextRead) {
  change("one");
  for (const char* bytes : {"one", "two", "three"}) {
    change(bytes);
    EXPECT_EQ(*get("b", "k"), bytes);
    EXPECT_EQ(*get("b", "k"), bytes);
  }
  EXPECT_EQ(shared->opened, 3);
  ASSERT_TRUE(run(memory_->remove("b", "k", {})));
  ++shared->stamp;
  EXPECT_EQ(get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(hot->tier().entries(), 0u) << "its memory is free again";
}

TEST_F(SharedKeysTest, AKeptObjectIsAnsweredWithoutAQuestion) {
  change("one");
  warm_up();
  EXPECT_FALSE(is_hot()) << "not yet";
  shared->wanted.front()(shared->term_now);
  const int asked = shared->asked;
  EXPECT_TRUE(is_hot());
  EXPECT_EQ(*get("b", "k"), "one");
  EXPECT_EQ(run(hot->stat("b", "k"))->size, 3u);
  EXPECT_EQ(shared->asked, asked);
}

TEST_F(SharedKeysTest, OutsideItsTermNothingIsAnsweredWithoutAQuestion) {
  change("one");
  warm_up();
  shared->wanted.front()(shared->term_now);
  for (const uint64_t term : {uint64_t{0}, uint64_t{8}}) {
    shared->term_now = term;
    const int asked = shared->asked;
    EXPECT_FALSE(is_hot());
    EXPECT_EQ(*get("b", "k"), "one");
    EXPECT_EQ(shared->asked, asked + 1);
  }
  shared->term_now = 7;
  EXPECT_TRUE(is_hot()) << "it was away for a moment, and the key is unchanged";
}

TEST_F(SharedKeysTest, ObjectsAreCountedInTheTermInWhichTheyAreKeptAsLongAsTheyLieThere) {
  change("one");
  warm_up();
  const auto count = [this](uint64_t term) { return shared->listener->kept(term); };
  EXPECT_EQ(count(7), 0u);
  for (int i = 0; i < 2; ++i) shared->wanted.front()(7);
  EXPECT_EQ(count(7), 1u);
  shared->wanted.front()(8);
  EXPECT_EQ(count(8), 1u);
  shared->wanted.front()(7);
  EXPECT_EQ(count(7), 0u) << "that is over";
  shared->wanted.front()(8);
  EXPECT_EQ(count(8), 1u);
  shared->wanted.clear();
  shared->listener->let_go("b", "k");
  EXPECT_EQ(count(8), 0u);
}

TEST_F(SharedKeysTest, WhatWasLetGoIsAskedAboutAgainAndNoLateAnswerKeepsIt) {
  change("one");
  warm_up();
  const auto kept = shared->wanted.front();
  kept(shared->term_now);
  shared->listener->let_go("b", "k");
  EXPECT_FALSE(is_hot());
  change("two");
  EXPECT_EQ(*get("b", "k"), "two");
  kept(shared->term_now);
  EXPECT_FALSE(is_hot()) << "that was about another object";
  EXPECT_EQ(*get("b", "k"), "two");
}

TEST_F(SharedKeysTest, WhatIsWrittenHereIsInMemoryAlsoWhereTheKeyWasKept) {
  ASSERT_TRUE(put("b", "k", "one"));
  EXPECT_EQ(hot->tier().entries(), 1u);
  EXPECT_EQ(*get("b", "k"), "one");
  EXPECT_EQ(shared->opened, 0);
  EXPECT_EQ(shared->asked, 1);
}

TEST_F(SharedKeysTest, AChangeByThisServerEndsWhatItKeeps) {
  change("one");
  warm_up();
  shared->wanted.front()(shared->term_now);
  ASSERT_TRUE(put("b", "k", "two"));
  EXPECT_FALSE(is_hot());
  EXPECT_EQ(*get("b", "k"), "two");
  ASSERT_TRUE(remove("b", "k"));
  EXPECT_EQ(get("b", "k").error(), Errc::no_such_key);
}

}  // namespace
}  // namespace verbena::store::conformance
