// Removals of a batch: what their judge looks at.
#include "store/logic/remove.h"

#include <gtest/gtest.h>

#include <map>

#include "store/empty_cursor.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"
#include "store/removal_grounds.h"

namespace verbena::store {
namespace {

// Rows without an order, which count the looks at each.
class CountedRows final : public Transaction {
 public:
  Result<std::string> get(Table, std::string_view key) override {
    ++looks[std::string(key)];
    const auto found = rows.find(key);
    if (found == rows.end()) return fail(Errc::not_found);
    return found->second;
  }
  std::unique_ptr<Cursor> cursor(Table, std::string, std::string_view) override {
    return std::make_unique<EmptyCursor>();
  }
  void put(Table, std::string_view key, std::string_view value) override { rows[std::string(key)] = value; }
  void erase(Table, std::string_view key) override { rows.erase(std::string(key)); }
  void abandon(uint64_t) override {}
  Result<uint64_t> next_id() override { return 1; }
  int64_t now_us() const override { return 0; }
  void on_commit(std::function<void()>) override {}

  std::map<std::string, std::string, std::less<>> rows;
  std::map<std::string, size_t> looks;

 private:
  void kill_named(const BlobRef&) override {}
};

class BatchOfEvictions : public testing::Test {
 protected:
  BatchOfEvictions() {
    bucket_->id = 7;
    bucket_->name = "b";
    BucketRecord record{.id = 7, .info = {}};
    record.info.created_us = 5;
    rows_.put(Table::meta, keys::bucket("b"), encode(record));
    rows_.put(Table::meta, document_, "a bound");
  }
  // Of keys that have no object.
  std::vector<Errc> judge(size_t count, const std::string& bound) {
    const auto grounds =
        std::make_shared<const RemovalGrounds>(RemovalGrounds{.bucket_created_us = 5,
                                                              .rules = std::make_shared<const std::string>(bound),
                                                              .of = RemovalGrounds::Of::evicted});
    const auto batch = std::make_shared<BatchRemoval>();
    batch->bucket = bucket_;
    for (size_t i = 0; i < count; ++i) {
      batch->removals.push_back({bucket_, "k" + std::to_string(i), RemoveRequest{.grounds = grounds}, {}});
    }
    batch->outcomes.resize(count);
    EXPECT_TRUE(batch_removal_change(batch).judge(rows_));
    std::vector<Errc> codes;
    for (const auto& outcome : batch->outcomes) codes.push_back(outcome ? Errc::ok : outcome.error().code);
    return codes;
  }

  const std::shared_ptr<Bucket> bucket_ = std::make_shared<Bucket>();
  const std::string document_ = keys::document(7, bounding_document);
  CountedRows rows_;
};

TEST_F(BatchOfEvictions, LooksAtItsBoundOnce) {
  EXPECT_EQ(judge(20, "a bound"), std::vector<Errc>(20, Errc::no_such_key));
  EXPECT_EQ(rows_.looks[document_], 1u);
}

TEST_F(BatchOfEvictions, OfAnotherBoundEachStays) {
  EXPECT_EQ(judge(20, "another"), std::vector<Errc>(20, Errc::precondition_failed));
  EXPECT_EQ(rows_.looks[document_], 1u);
}

}  // namespace
}  // namespace verbena::store
