// A store's directory.
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

TEST(StoreDirectory, IsOpenOnlyOnce) {
  FaultyFileSystem fs;
  for (FileSystem* on : {static_cast<FileSystem*>(nullptr), static_cast<FileSystem*>(&fs)}) {
    TestStore t(on);
    t.open();
    auto second = LocalStore::open(t.options);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error(), Errc::service_unavailable);
  }
}

TEST(StoreDirectory, RefusesANewerFormat) {
  FaultyFileSystem fs;
  TestStore t(&fs);
  t.open();
  t.close();
  ASSERT_TRUE(replace_file(fs, "/store/VERSION", "verbena local store, format 9999\n"));
  EXPECT_EQ(t.try_open().error(), Errc::unsupported);
  ASSERT_TRUE(replace_file(fs, "/store/VERSION", "something else"));
  EXPECT_EQ(t.try_open().error(), Errc::malformed);
}

}  // namespace
}  // namespace verbena::store::local
