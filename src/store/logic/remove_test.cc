// Removals of a batch: what their judge looks at.
#include "store/logic/remove.h"

#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <map>

#include "store/empty_cursor.h"
#include "store/logic/engine_store.h"
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

// Takes no change: the queue of commits is full, or descriptors are short.
class ShortCatalogue final : public Catalogue {
 public:
  View& at_hand(const Place&) override { return rows_; }
  Task<Result<void>> read(const char*, Place, Look) override { co_return fail(Errc::slow_down); }
  Task<Result<void>> commit(Change) override {
    ++commits;
    co_return fail(Errc::slow_down, "commit queue is full");
  }
  bool has_one_place() const override { return true; }
  Task<Result<void>> sync() override { co_return Result<void>(); }

  size_t commits = 0;

 private:
  CountedRows rows_;
};

class ShortStore final : public EngineStore {
 public:
  explicit ShortStore(std::shared_ptr<Context> context) : EngineStore(std::move(context)) {}
};

// Each of the batch was committed by itself then, under the shortage.
TEST(BatchOfRemovals, AShortageRefusesItWithOneCommit) {
  ShortCatalogue catalogue;
  const auto context = std::make_shared<Context>();
  context->rows = &catalogue;
  context->buckets.add({.id = 7, .info = {.name = "b", .created_us = 5, .owner = "root"}});
  ShortStore store(context);
  std::vector<Eviction> chosen;
  for (int i = 0; i < 8; ++i) chosen.push_back({.key = "k" + std::to_string(i), .modified_us = 1});
  boost::asio::io_context io;
  auto evicted = boost::asio::co_spawn(io, store.evict("b", std::make_shared<const RemovalGrounds>(), chosen),
                                       boost::asio::use_future);
  io.run();
  const auto outcomes = evicted.get();
  ASSERT_EQ(outcomes.size(), 8u);
  for (const auto& one : outcomes) EXPECT_TRUE(!one && one.error() == Errc::slow_down);
  EXPECT_EQ(catalogue.commits, 1u);
}

}  // namespace
}  // namespace verbena::store
