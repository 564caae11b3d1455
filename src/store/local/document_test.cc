// Bucket documents.
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

class DocumentStore : public ::testing::Test {
 protected:
  void SetUp() override {
    t.open();
    t.make_bucket("b");
  }
  FaultyFileSystem fs;
  TestStore t{&fs};
};

TEST_F(DocumentStore, GivesBackWhatWasSetAlsoAfterARestart) {
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  ASSERT_TRUE(t.set_document("b", "cors", "one"));
  ASSERT_TRUE(t.set_document("b", "tags", ""));
  ASSERT_TRUE(t.set_document("b", "cors", std::string("two\0", 4)));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*t.document("b", "cors"), std::string("two\0", 4));
    EXPECT_EQ(*t.document("b", "tags"), "");
    t.reopen();
  }
  ASSERT_TRUE(t.run(t.store->remove_document("b", "cors")));
  ASSERT_TRUE(t.run(t.store->remove_document("b", "cors")));
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  t.reopen();
  EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
  EXPECT_TRUE(t.document("b", "tags"));
}

TEST_F(DocumentStore, RefusesNamesAndSizesOutOfBounds) {
  for (const char* name : {"", "Cors", "a/b", "a b", "\xc3\xa9"}) {
    EXPECT_EQ(t.set_document("b", name, "x").error(), Errc::invalid_argument) << name;
  }
  EXPECT_EQ(t.set_document("b", std::string(65, 'a'), "x").error(), Errc::invalid_argument);
  EXPECT_EQ(t.set_document("b", "large", std::string(document_size_max + 1, 'x')).error(), Errc::too_large);
  EXPECT_TRUE(t.set_document("b", "large", std::string(document_size_max, 'x')));
  for (size_t i = 1; i < documents_max; ++i) ASSERT_TRUE(t.set_document("b", "n" + std::to_string(i), "x"));
  EXPECT_EQ(t.set_document("b", "more", "x").error(), Errc::invalid_argument);
  EXPECT_TRUE(t.set_document("b", "large", "y"));
  EXPECT_EQ(t.set_document("none", "cors", "x").error(), Errc::no_such_bucket);
  EXPECT_EQ(t.document("none", "cors").error(), Errc::no_such_bucket);
}

TEST_F(DocumentStore, GoesWithItsBucket) {
  t.make_bucket("other");
  ASSERT_TRUE(t.set_document("b", "cors", "x"));
  ASSERT_TRUE(t.set_document("other", "cors", "y"));
  ASSERT_TRUE(t.run(t.store->remove_bucket("b")));
  EXPECT_EQ(t.document("b", "cors").error(), Errc::no_such_bucket);
  t.make_bucket("b");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(t.document("b", "cors").error(), Errc::not_found);
    EXPECT_EQ(*t.document("other", "cors"), "y");
    t.reopen();
  }
}

TEST_F(DocumentStore, IsDurableInAMemoryBucketToo) {
  t.make_bucket("scratch", Durability::memory);
  ASSERT_TRUE(t.set_document("scratch", "cors", "x"));
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.open();
  EXPECT_EQ(*t.document("scratch", "cors"), "x");
}

}  // namespace
}  // namespace verbena::store::local
