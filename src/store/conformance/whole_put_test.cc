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

  // The same object by a writer: its bytes in one chunk, as put_whole() gets them.
  Result<ObjectInfo> by_writer(std::string_view bucket, std::string_view key, std::string_view bytes, ObjectInfo info) {
    VB_ASSIGN(auto writer, t.run(t.engine().create(bucket, key, bytes.size())));
    VB_TRY(t.run(writer->append(t.chunk(bytes))));
    return t.run(writer->commit(std::move(info), {}));
  }
  static void expect_same(const ObjectInfo& one, const ObjectInfo& other) {
    EXPECT_EQ(one.size, other.size);
    EXPECT_EQ(one.stored_size, other.stored_size);
    EXPECT_EQ(one.etag, other.etag);
    EXPECT_EQ(one.version_id.size(), other.version_id.size());
    EXPECT_EQ(one.delete_marker, other.delete_marker);
    EXPECT_EQ(one.attributes, other.attributes);
    EXPECT_EQ(one.headers, other.headers);
    EXPECT_EQ(one.checksums, other.checksums);
    EXPECT_EQ(one.parts.size(), other.parts.size());
    EXPECT_EQ(one.tags, other.tags);
    EXPECT_EQ(one.lock, other.lock);
    EXPECT_EQ(one.stamp != 0, other.stamp != 0);
  }
  // Both ways into buckets of their own: the answers, and what is left there.
  void expect_both_leave_the_same(const std::string& whole_bucket, const std::string& writer_bucket,
                                  const ObjectInfo& info, std::string_view bytes) {
    auto put = whole("k", bytes, whole_bucket);
    put.info = info;
    const auto of_whole = outcome_of(put);
    if (!of_whole) return;  // declined, as where a memory bucket holds an object that is not in the catalogue
    const auto of_writer = by_writer(writer_bucket, "k", bytes, info);
    ASSERT_EQ(of_whole->has_value(), of_writer.has_value());
    if (!of_writer) {
      EXPECT_EQ(of_whole->error().code, of_writer.error().code);
    } else {
      expect_same(**of_whole, *of_writer);
      expect_same(*t.run(t.engine().stat(whole_bucket, "k")), *t.run(t.engine().stat(writer_bucket, "k")));
      EXPECT_EQ(*t.get(whole_bucket, "k"), *t.get(writer_bucket, "k"));
    }
    const auto versions = *t.all_versions(whole_bucket), others = *t.all_versions(writer_bucket);
    ASSERT_EQ(versions.size(), others.size());
    for (size_t i = 0; i < versions.size(); ++i) {
      EXPECT_EQ(versions[i].latest, others[i].latest);
      EXPECT_EQ(versions[i].info.size, others[i].info.size);
    }
    EXPECT_EQ(*t.usage(whole_bucket), *t.usage(writer_bucket));
  }

  std::vector<Result<ObjectInfo>> told_;
};

TEST_P(WholePutTest, BothWaysLeaveTheSame) {
  if (!offers()) GTEST_SKIP() << "this engine's puts wait";
  const std::string bytes = pattern(5000, 1);
  ObjectInfo plain;
  plain.size = bytes.size();
  plain.etag = Rig::etag_of(bytes);
  ObjectInfo full = plain;
  full.headers = {{"content-type", "text/plain"}, {"x-amz-meta-a", "1"}};
  full.attributes = {{"owner", "alice"}};
  full.checksums = {{Algorithm::crc32c, "AAAAAA==", 0}};
  full.tags = {{"a", "b"}};
  full.parts.resize(2);  // of an upload; a PUT has none
  ObjectInfo encrypted = plain;
  encrypted.size = bytes.size() - 16;
  encrypted.stored_size = bytes.size();
  ObjectInfo held = plain;
  held.lock.legal_hold = true;

  int buckets = 0;
  const auto both_in = [&](const auto& make) {
    const std::string one = "one" + std::to_string(buckets), other = "other" + std::to_string(buckets);
    ++buckets;
    make(one);
    make(other);
    for (const ObjectInfo& info : {plain, full, encrypted, held, plain}) {
      expect_both_leave_the_same(one, other, info, bytes);
    }
  };
  both_in([&](const std::string& name) { t.make_bucket(name); });
  both_in([&](const std::string& name) { t.make_bucket(name, Durability::memory); });
  both_in([&](const std::string& name) {
    t.make_bucket(name);
    ASSERT_TRUE(t.set_versioning(name, Versioning::enabled));
  });
  both_in([&](const std::string& name) {
    t.make_bucket(name);
    ASSERT_TRUE(t.set_versioning(name, Versioning::enabled));
    ASSERT_TRUE(t.set_versioning(name, Versioning::suspended));
  });
  t.expect_no_leak();
}

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
