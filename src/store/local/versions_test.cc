// Directories written before versions existed.
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

TEST(OldDirectory, OneOfFormat1IsUpgraded) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.make_bucket("b");
  ASSERT_TRUE(t.put("b", "k", "old"));
  t.close();
  ASSERT_TRUE(replace_file(fs, "/store/VERSION", "verbena local store, format 1\n"));
  t.open();
  EXPECT_EQ(*read_small_file(fs, "/store/VERSION", 100), "verbena local store, format 7\n");
  EXPECT_EQ(*t.get("b", "k"), "old");
}

}  // namespace
}  // namespace verbena::store::local
