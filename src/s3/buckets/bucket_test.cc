// What verbs of buckets ask of the store.
#include "s3/access/authorize.h"
#include "s3/access/test_access.h"
#include "s3/documents/bucket_document.h"

namespace verbena::s3::test {
namespace {

class AskedStore final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  Task<Result<std::vector<store::BucketInfo>>> buckets_of(store::OwnersBuckets which) override {
    ++lists;
    return TestStore::buckets_of(std::move(which));
  }
  Task<Result<void>> remove_document(store::NamedBucket bucket, std::string_view name) override {
    ++removals;
    if (const auto happens = std::exchange(before_removal, nullptr)) happens();
    return TestStore::remove_document(std::move(bucket), name);
  }
  size_t lists = 0, removals = 0;
  std::function<void()> before_removal{};
};

class BucketVerbs : public AccessRig {
 protected:
  AskedStore asked_{*arena};
  Service of_it_{.store = asked_, .arena = *arena, .clock = system_clock()};
};

// A page for one bucket asked for two at a time, however many of the other kind lay before it.
TEST_F(BucketVerbs, AListDoesNotCreepThroughBucketsOfTheOtherKind) {
  for (int i = 0; i < 50; ++i) asked_.make_bucket("m" + std::to_string(i));
  asked_.make_bucket("zzz--local1-az1--x-s3");
  Call caller;
  caller.identity.anonymous = false;
  caller.identity.access_key = "AKID";
  const auto page = run(list_buckets(of_it_, caller, {.max = 1, .directory = true}));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->buckets.size(), 1u);
  EXPECT_EQ(page->buckets[0].name, "zzz--local1-az1--x-s3");
  EXPECT_FALSE(page->truncated);
  EXPECT_LE(asked_.lists, 2u);
}

// It was answered from memory alone. A document whose set failed is in no memory, and a crash may bring it back.
TEST_F(BucketVerbs, ToRemoveADocumentThatIsNotThereIsCommitted) {
  asked_.make_bucket("b");
  const uint64_t before = of_it_.access->now("b");
  EXPECT_TRUE(run(drop_document(of_it_, "b", policy_document)));
  EXPECT_EQ(asked_.removals, 1u);
  EXPECT_EQ(of_it_.access->now("b"), before) << "no record has become stale";
  asked_.document("b", std::string(policy_document), "{}");
  EXPECT_TRUE(run(drop_document(of_it_, "b", policy_document)));
  EXPECT_NE(of_it_.access->now("b"), before);
}

TEST_F(BucketVerbs, ADocumentThatIsSetWhileItIsRemovedMakesRecordsStale) {
  asked_.make_bucket("b");
  uint64_t of_set = 0;
  asked_.before_removal = [&] {
    EXPECT_TRUE(run(keep_document(of_it_, "b", policy_document, "{}")));
    of_set = of_it_.access->now("b");
  };
  EXPECT_TRUE(run(drop_document(of_it_, "b", policy_document)));
  EXPECT_NE(of_it_.access->now("b"), of_set);
}

}  // namespace
}  // namespace verbena::s3::test
