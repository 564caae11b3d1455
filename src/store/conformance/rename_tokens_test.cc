// How many tokens of renames a bucket has at most.
#include <gtest/gtest.h>

#include "store/logic/bucket_ops.h"
#include "store/logic/keys.h"
#include "store/logic/rename.h"
#include "store/memory/tables.h"

namespace verbena::store::conformance {
namespace {

class RenameTokens : public testing::Test {
 protected:
  RenameTokens() {
    Change made = create_bucket_change(buckets_, {.name = "b", .created_us = 0, .owner = "root"});
    in_memory::TablesTransaction transaction(tables_, left_, last_id_, now_us_);
    EXPECT_TRUE(made.judge(transaction));
    transaction.run_effects();
    bucket_ = buckets_.find("b");
    transaction.put(Table::objects, keys::object(bucket_->id, "a"),
                    encode(ObjectRecord{.id = 1, .info = {}, .blob = {}}));
  }
  // Of the one object: to the name that it does not have.
  Result<void> rename(const std::string& token) {
    auto renaming = std::make_shared<Renaming>();
    renaming->bucket = bucket_;
    renaming->request = {.from = here_, .to = here_ == "a" ? "c" : "a"};
    renaming->request.token = token;
    renaming->request.asked = "asked";
    in_memory::TablesTransaction transaction(tables_, left_, last_id_, now_us_);
    const auto done = rename_change(renaming).judge(transaction);
    if (!done) {
      transaction.take_back();
      return done;
    }
    if (is_there(renaming->request.to)) here_ = renaming->request.to;
    return {};
  }
  bool is_there(const std::string& key) {
    return tables_.rows(Table::objects).contains(keys::object(bucket_->id, key));
  }
  size_t tokens() {
    const auto& rows = tables_.rows(Table::uploads);
    return static_cast<size_t>(std::ranges::count_if(
        rows, [&](const auto& row) { return row.first.starts_with(keys::rename_age_prefix(bucket_->id)); }));
  }
  void fill() {
    for (uint64_t i = 0; i < rename_tokens_max; ++i) ASSERT_TRUE(rename("t" + std::to_string(i))) << i;
    ASSERT_EQ(tokens(), rename_tokens_max);
  }

  in_memory::Tables tables_;
  LeftTimes left_;
  Buckets buckets_;
  std::shared_ptr<const Bucket> bucket_;
  uint64_t last_id_ = 10;
  int64_t now_us_ = 1'700'000'000'000'000;
  std::string here_ = "a";
};

TEST_F(RenameTokens, AFullBucketForgetsItsOldestTokenAfterAMinuteAndRefusesUntilThen) {
  fill();
  EXPECT_EQ(rename("more").error(), Errc::slow_down);
  EXPECT_TRUE(rename("")) << "without a token";
  EXPECT_EQ(tokens(), rename_tokens_max);
  now_us_ += rename_token_least_us - 1;
  EXPECT_EQ(rename("more").error(), Errc::slow_down);
  now_us_ += 1;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rename("more" + std::to_string(i)));
  EXPECT_EQ(tokens(), rename_tokens_max);
  const std::string before = here_;
  EXPECT_TRUE(rename("more0")) << "known";
  EXPECT_EQ(here_, before) << "so it is not done again";
  EXPECT_TRUE(rename("t0")) << "forgotten";
  EXPECT_NE(here_, before);
}

TEST_F(RenameTokens, TheyAreCountedWhereNoCountIsStored) {
  fill();
  tables_.set(Table::uploads, keys::rename_token_count(bucket_->id), std::nullopt);
  EXPECT_EQ(rename("more").error(), Errc::slow_down);
}

TEST_F(RenameTokens, OneThatIsUsedAgainWhenItsTimeIsOverIsKept) {
  for (const char* token : {"1", "2", "3", "4", "5"}) ASSERT_TRUE(rename(token));
  now_us_ += rename_token_life_us + 1;
  ASSERT_TRUE(rename("5"));                                         // forgets 1 and 2
  for (const char* token : {"6", "7"}) ASSERT_TRUE(rename(token));  // 3 and 4; then the first 5
  const std::string before = here_;
  EXPECT_TRUE(rename("5")) << "known";
  EXPECT_EQ(here_, before) << "so it is not done again";
}

TEST_F(RenameTokens, OldOnesMakeRoom) {
  fill();
  now_us_ += rename_token_life_us;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rename("more" + std::to_string(i)));
  EXPECT_EQ(tokens(), rename_tokens_max - 100) << "two for each new one";
}

}  // namespace
}  // namespace verbena::store::conformance
