// Behaviour of parts in this engine, beyond that of all engines.
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

class Multipart : public ::testing::Test {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  UploadInfo start(const std::string& key) {
    auto upload = t.start_upload("b", key);
    EXPECT_TRUE(upload);
    return *upload;
  }
  PartInfo part(const UploadInfo& upload, int number, std::string_view bytes) {
    auto stored = t.put_part(upload, number, bytes);
    EXPECT_TRUE(stored);
    return *stored;
  }
  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(Multipart, CompletingMovesNoByte) {
  UploadInfo upload = start("k");
  const auto one = part(upload, 1, pattern(300'001, 1)), two = part(upload, 2, pattern(70'000, 3));
  part(upload, 5, pattern(80'000, 4));  // not named at completion
  const uint64_t before = fs.operations();
  ASSERT_TRUE(t.complete(upload, {one, two}));
  EXPECT_LT(fs.operations() - before, 20u);  // an index write, a hole, no data
}

TEST_F(Multipart, AReaderIsKeptForTheNextRequestUntilItsObjectChangesOrGoes) {
  UploadInfo upload = start("k");
  const std::string bytes = pattern(300'000, 1);
  ASSERT_TRUE(t.complete(upload, {part(upload, 1, bytes)}));
  const auto first = *t.run(t.store->open("b", "k"));
  EXPECT_EQ(*t.run(t.store->open("b", "k")), first);
  ObjectChange change;
  change.tags = Tags{{"colour", "blue"}};
  ASSERT_TRUE(t.run(t.store->update("b", "k", "", change)));
  const auto second = *t.run(t.store->open("b", "k"));
  EXPECT_NE(second, first);
  EXPECT_EQ(second->info().tags, change.tags);
  EXPECT_TRUE(*t.read(*second, 0, bytes.size()) == bytes);
  ASSERT_TRUE(t.put("b", "k", "other"));
  EXPECT_EQ(*t.get("b", "k"), "other");
  // An open reader of the old object reads on.
  EXPECT_TRUE(*t.read(*first, 0, bytes.size()) == bytes);
}

TEST_F(Multipart, AKeptReaderDoesNotKeepTheSpaceOfARemovedObject) {
  UploadInfo upload = start("k");
  ASSERT_TRUE(t.complete(upload, {part(upload, 1, pattern(300'000, 1)), part(upload, 2, pattern(200'000, 2))}));
  ASSERT_TRUE(t.get("b", "k"));
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
}

TEST_F(Multipart, APartThatReplacesAnotherLeavesNothingOfIt) {
  UploadInfo upload = start("k");
  part(upload, 1, pattern(300'000, 1));
  ASSERT_TRUE(t.complete(upload, {part(upload, 1, pattern(200'000, 2))}));
  ASSERT_TRUE(t.remove("b", "k"));
  t.expect_no_leak();
  EXPECT_EQ(t.store->usage()->live_bytes, 0u);
}

}  // namespace
}  // namespace verbena::store::local
