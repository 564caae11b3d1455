// Bucket documents and power loss.
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

TEST(DocumentStore, IsDurableInAMemoryBucketToo) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("scratch", Durability::memory);
  ASSERT_TRUE(t.set_document("scratch", "cors", "x"));
  t.close();
  fs.crash(FaultyFileSystem::Loss::unsynced, 1);
  t.open();
  EXPECT_EQ(*t.document("scratch", "cors"), "x");
}

}  // namespace
}  // namespace verbena::store::local
