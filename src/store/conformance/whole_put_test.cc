// An object put without a coroutine equals one put by a writer.
#include "store/whole_put.h"

#include "store/conformance/engines.h"

namespace verbena::store::conformance {
namespace {

class WholePutTest : public OnEngine {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  bool offers() { return t.engine().whole_put_max() != 0; }
  WholePut whole(std::string_view key, std::string_view bytes, std::string_view bucket = "b") {
    WholePut put{.bucket = bucket, .key = key, .info = {}, .bytes = t.chunk(bytes), .executor = {}, .then = {}};
    put.info.size = bytes.size();
    put.info.etag = Rig::etag_of(bytes);
    put.info.headers = {{"content-type", "text/plain"}};
    put.executor = t.io().get_executor();
    put.then = [this](Result<ObjectInfo> stored) { told_.push_back(std::move(stored)); };
    return put;
  }
  // nullopt: declined.
  std::optional<Result<ObjectInfo>> put(std::string_view key, std::string_view bytes, std::string_view bucket = "b") {
    auto put = whole(key, bytes, bucket);
    auto outcome = outcome_of(put);
    if (!outcome) EXPECT_TRUE(as_text(put.bytes.bytes) == bytes) << "what was declined is still there";
    return outcome;
  }
  std::optional<Result<ObjectInfo>> outcome_of(WholePut& put) {
    told_.clear();
    t.io().restart();
    const auto waits = boost::asio::make_work_guard(t.io());
    if (!t.engine().put_whole(put)) return std::nullopt;
    while (told_.empty()) t.io().run_one();
    EXPECT_EQ(told_.size(), 1u);
    return told_.front();
  }

  std::vector<Result<ObjectInfo>> told_;
};

TEST_P(WholePutTest, IsWhatAWriterMakes) {
  if (!offers()) GTEST_SKIP() << "this engine's puts wait";
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{16 * KiB}}) {
    const std::string bytes = pattern(size, size);
    const auto stored = put("k", bytes);
    ASSERT_TRUE(stored && *stored) << size;
    EXPECT_EQ((*stored)->size, size);
    EXPECT_EQ((*stored)->etag, Rig::etag_of(bytes));
    EXPECT_GT((*stored)->modified_us, 0);
    EXPECT_TRUE((*stored)->version_id.empty());
    EXPECT_TRUE(*t.get("b", "k") == bytes) << size;
    const auto info = t.run(t.engine().stat("b", "k"));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->headers, (*stored)->headers);
    EXPECT_EQ(info->modified_us, (*stored)->modified_us);
  }
  EXPECT_EQ(*t.usage("b"), *t.usage_by_listing("b"));
  EXPECT_EQ(t.usage("b")->objects, 1u);
  t.reopen();
  if (t.engine().whole_put_max() != 0) EXPECT_TRUE(*t.get("b", "k") == pattern(16 * KiB, 16 * KiB));
  t.expect_no_leak();
}

TEST_P(WholePutTest, MakesAVersionWhereTheBucketHasThem) {
  if (!offers()) GTEST_SKIP() << "this engine's puts wait";
  ASSERT_TRUE(t.set_versioning("b", Versioning::enabled));
  const auto first = put("k", "one"), second = put("k", "two");
  ASSERT_TRUE(first && *first && second && *second);
  EXPECT_NE((*first)->version_id, (*second)->version_id);
  EXPECT_EQ(*t.get_version("b", "k", (*first)->version_id), "one");
  EXPECT_EQ(*t.get("b", "k"), "two");
}

TEST_P(WholePutTest, InAMemoryBucketTheLastOneCounts) {
  if (!offers()) GTEST_SKIP() << "this engine's puts wait";
  t.make_bucket("m", Durability::memory);
  for (const char* bytes : {"one", "two", "three"}) {
    ASSERT_TRUE(t.put("m", "k", "by a writer"));
    const auto stored = put("k", bytes, "m");
    ASSERT_TRUE(!stored || *stored);
    if (stored) EXPECT_EQ(*t.get("m", "k"), bytes);
  }
}

TEST_P(WholePutTest, DeclinesWhatALongerWayHasToSay) {
  EXPECT_FALSE(put("k", pattern(1 * MiB, 1)));
  EXPECT_FALSE(put("k", "bytes", "no-such-bucket"));
  EXPECT_FALSE(put("", "bytes"));
  EXPECT_FALSE(put(std::string(key_size_max + 1, 'k'), "bytes"));
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t.arena().leased_bytes(), 0u);
}

TEST_P(WholePutTest, IsToldWhyItWasRefused) {
  if (!offers()) GTEST_SKIP() << "this engine's puts wait";
  auto locked = whole("k", "bytes");
  locked.info.lock.legal_hold = true;
  const auto outcome = outcome_of(locked);
  ASSERT_TRUE(outcome && !*outcome);
  EXPECT_EQ(outcome->error(), Errc::invalid_request) << "the bucket has no locks";
  EXPECT_EQ(t.get("b", "k").error(), Errc::no_such_key);
  EXPECT_EQ(t.usage("b")->objects, 0u);
  t.expect_no_leak();
}

ON_ALL_ENGINES(WholePutTest);

}  // namespace
}  // namespace verbena::store::conformance
