// Passes over the objects whose end has come, when removals fail.
#include "s3/workers/ends_worker.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>

#include "base/metrics.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

// Entries of removed buckets, which a pass only forgets.
class Entries final : public store::EndIndex {
 public:
  void add(uint64_t bucket_id, int count) {
    for (int i = 0; i < count; ++i) {
      const auto end_us = static_cast<int64_t>(entries_.size()) + 1;
      entries_.push_back({.key = "k" + std::to_string(i), .bucket_id = bucket_id, .end_us = end_us});
    }
  }
  size_t left(uint64_t bucket_id) const {
    return static_cast<size_t>(std::ranges::count(entries_, bucket_id, &store::EndedKey::bucket_id));
  }

  bool keeps_ends() const override { return true; }
  Task<Result<std::vector<store::EndedKey>>> ended(size_t max, const store::EndedKey* after) override {
    std::vector<store::EndedKey> found;
    for (const store::EndedKey& entry : entries_) {
      if (found.size() < max && (after == nullptr || entry.end_us > after->end_us)) found.push_back(entry);
    }
    co_return found;
  }
  Task<Result<void>> forget_end(store::EndedKey ended) override {
    ++tried[ended.bucket_id];
    if (all_stuck || ended.bucket_id == stuck) co_return fail(error, "a test");
    std::erase_if(entries_, [&](const store::EndedKey& entry) { return entry.end_us == ended.end_us; });
    co_return Result<void>();
  }
  int64_t ended_us(std::string_view /*bucket*/) const override { return 0; }

  uint64_t stuck = 0;
  bool all_stuck = false;
  Errc error = Errc::slow_down;
  std::map<uint64_t, size_t> tried;

 private:
  std::vector<store::EndedKey> entries_;
};

class EndsPassTest : public Rig {
 protected:
  bool pass() { return pass(entries); }
  bool pass(store::EndIndex& index) {
    const std::atomic<bool> stop{false};
    EndsPass one(service, index, {.page_size = 100, .at_once = 4}, stop, damaged);
    boost::asio::io_context own;
    auto well = boost::asio::co_spawn(own, one.run(), boost::asio::use_future);
    own.run();
    trouble = one.trouble();
    return well.get();
  }
  Entries entries;
  DamagedEnds damaged;
  std::string trouble;
};

TEST_F(EndsPassTest, ABucketWhoseRemovalsFailKeepsNoOther) {
  for (const Errc error : {Errc::slow_down, Errc::io_error}) {
    entries.error = error;
    entries.tried.clear();
    entries.stuck = 1;
    entries.add(1, 1000);
    entries.add(2, 20);
    EXPECT_TRUE(pass());
    EXPECT_EQ(entries.left(2), 0u);
    EXPECT_LE(entries.tried[1], 12u) << "the pass leaves that bucket";
    EXPECT_NE(trouble, "");
    entries.stuck = 0;
    EXPECT_TRUE(pass());
    EXPECT_EQ(entries.left(1), 0u);
    EXPECT_EQ(trouble, "");
  }
}

TEST_F(EndsPassTest, AStoreThatFailsEverywhereIsLeftAlone) {
  entries.error = Errc::io_error;
  for (uint64_t bucket = 1; bucket <= 100; ++bucket) entries.add(bucket, 10);
  entries.all_stuck = true;
  EXPECT_FALSE(pass());
  size_t tried = 0;
  for (const auto& [bucket, count] : entries.tried) tried += count;
  EXPECT_LE(tried, 70u);
}

// Eight damaged heads kept all other objects of their bucket for good, since each pass began with them.
TEST_F(EndsPassTest, ObjectsWhoseRowsAreDamagedKeepNoOthers) {
  constexpr int damaged_rows = 100;
  make_bucket();
  TestCall put{.method = "PUT", .headers = {{"x-verbena-ttl", "1"}}, .body = "x"};
  const auto put_some = [&](const std::string& prefix) {
    for (int i = 0; i < damaged_rows; ++i) {
      put.target = "/bucket/" + prefix + std::to_string(i);
      ASSERT_EQ(call(put).status, 200);
    }
  };
  put_some("a");
  put_some("b");
  for (int i = 0; i < damaged_rows; ++i) store.damage_object("bucket", "a" + std::to_string(i));
  put.target = "/bucket/later";  // time passes
  put.headers.clear();
  ASSERT_EQ(call(put).status, 200);
  ASSERT_EQ(call(put).status, 200);
  const auto told = metrics::counter("verbena_damaged_keys_total", "").value();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pass(dynamic_cast<store::EndIndex&>(service.store)));
    EXPECT_EQ(trouble, "") << "it is told as damage";
  }
  EXPECT_EQ(metrics::counter("verbena_damaged_keys_total", "").value() - told, damaged_rows) << "each once";
  EXPECT_EQ(damaged.size(), damaged_rows);
  const auto left = run(dynamic_cast<store::EndIndex&>(service.store).ended(1000, nullptr));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->size(), damaged_rows);
  for (const store::EndedKey& one : *left) EXPECT_TRUE(one.key.starts_with('a')) << one.key;
}

}  // namespace
}  // namespace verbena::s3::test
