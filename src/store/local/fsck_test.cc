#include "store/local/fsck.h"

#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

class Fsck : public ::testing::Test {
 protected:
  Fsck() : t(&fs) {
    t.open();
    t.make_bucket("b");
    EXPECT_TRUE(t.put("b", "small", pattern(100, 1)));
    EXPECT_TRUE(t.put("b", "large", pattern(300'000, 2)));
    EXPECT_TRUE(t.put("b", "empty", ""));
    EXPECT_TRUE(t.set_versioning("b", Versioning::enabled));
    EXPECT_TRUE(t.put("b", "small", pattern(200, 3)));
    auto upload = t.start_upload("b", "multi");
    auto part = t.put_part(*upload, 1, pattern(100'000, 4));
    EXPECT_TRUE(t.complete(*upload, {*part}));
    auto open_upload = t.start_upload("b", "never");
    EXPECT_TRUE(t.put_part(*open_upload, 3, pattern(70'000, 5)));
    t.store->drain();
  }
  FsckReport check() {
    t.close();
    auto report = fsck({.directory = "/store", .fs = &fs});
    EXPECT_TRUE(report) << describe(report.error());
    return report ? *report : FsckReport{};
  }
  std::string newest(const std::string& folder, const std::string& suffix) {
    std::string found;
    const auto listed = fs.list(folder);
    for (const std::string& name : *listed) {
      if (name.ends_with(suffix)) found = std::max(found, name);
    }
    return folder + "/" + found;
  }
  FaultyFileSystem fs;
  TestStore t;
};

TEST_F(Fsck, ASoundStoreIsSound) {
  const auto report = check();
  EXPECT_FALSE(report.damaged()) << (report.index.empty() ? report.lost.at(0).name : report.index.at(0));
  EXPECT_EQ(report.buckets, 1u);
  EXPECT_EQ(report.objects, 4u);
  EXPECT_EQ(report.old_versions, 1u);
  EXPECT_EQ(report.parts, 1u);
  EXPECT_EQ(report.bytes, 100u + 200 + 300'000 + 100'000 + 70'000);
  EXPECT_EQ(report.orphan_extents, 0u);
}

TEST_F(Fsck, ChangesNothing) {
  t.close();
  fs.fail_at(UINT64_MAX, FaultyFileSystem::Fault::none);
  ASSERT_TRUE(fsck({.directory = "/store", .fs = &fs}));
  EXPECT_EQ(fs.operations(), 0u);
}

TEST_F(Fsck, NeverRunsOnAStoreThatIsOpen) {
  EXPECT_EQ(fsck({.directory = "/store", .fs = &fs}).error(), Errc::service_unavailable);
}

TEST_F(Fsck, WhereThereIsNoStoreItMakesNone) {
  ASSERT_TRUE(fs.make_directory("/other"));
  EXPECT_EQ(fsck({.directory = "/other", .fs = &fs}).error(), Errc::not_found);
  EXPECT_TRUE(fs.list("/other")->empty());
}

TEST_F(Fsck, NamesTheObjectWhoseBlockIsRotten) {
  t.close();
  fs.flip_bit(newest("/store/volumes", ".volume"), 70'000);
  const auto report = check();
  ASSERT_EQ(report.lost_count, 1u);
  EXPECT_EQ(report.lost[0].name, "b/large");
  EXPECT_NE(report.lost[0].why.find("checksum"), std::string::npos) << report.lost[0].why;
  EXPECT_TRUE(report.index.empty());
}

TEST_F(Fsck, NamesAllWhoseVolumeIsGone) {
  t.close();
  ASSERT_TRUE(fs.unlink(newest("/store/volumes", ".volume")));
  const auto report = check();
  EXPECT_EQ(report.lost_count, 3u);  // the object, the multipart one, the part
}

TEST_F(Fsck, SaysWhereTheLogIsDamagedAndWhatIsBehind) {
  t.close();
  const std::string log = newest("/store/index", ".log");
  const uint64_t middle = fs.stat(log)->size / 2;
  fs.flip_bit(log, middle);
  const auto report = check();
  ASSERT_FALSE(report.index.empty());
  EXPECT_NE(report.index[0].find(log), std::string::npos) << report.index[0];
  EXPECT_GT(report.changes_behind_damage, 0u);
}

TEST_F(Fsck, SaysThatATableIsRotten) {
  t.reopen();
  t.close();
  const std::string table = newest("/store/index", ".sst");
  fs.flip_bit(table, 40);
  EXPECT_TRUE(check().damaged());
}

// Found by a power cut during a first start: fsck called the store damaged, since families of the index were missing.
TEST(FsckOfAFirstStart, IsSoundWhereverTheStartWasCutOff) {
  bool cut = true;
  for (uint64_t operation = 0; cut; ++operation) {
    FaultyFileSystem fs;
    TestStore t(&fs);
    fs.fail_at(operation, FaultyFileSystem::Fault::crash);
    (void)t.try_open();
    t.close();
    cut = fs.fault_happened();
    fs.crash(FaultyFileSystem::Loss::unsynced, operation);
    const auto report = fsck({.directory = "/store", .fs = &fs});
    if (report) {
      EXPECT_TRUE(report->index.empty()) << "cut before operation " << operation << ": " << report->index.front();
    } else {
      EXPECT_EQ(report.error(), Errc::not_found) << "cut before operation " << operation;
    }
    if (operation % 4 != 0) continue;
    t.open();
    t.make_bucket("b");
    EXPECT_TRUE(t.put("b", "key", pattern(100'000, 1)));
  }
}

TEST(FsckOfAFirstStart, ThatLeftAFolderAloneFindsNoStore) {
  FaultyFileSystem fs;
  ASSERT_TRUE(fs.make_directory("/store"));
  ASSERT_TRUE(fs.make_directory("/store/volumes"));
  EXPECT_EQ(fsck({.directory = "/store", .fs = &fs}).error(), Errc::not_found);
}

TEST_F(Fsck, SaysThatTheIndexIsGone) {
  t.close();
  const auto listed = fs.list("/store/index");
  for (const std::string& name : *listed) ASSERT_TRUE(fs.unlink("/store/index/" + name));
  EXPECT_TRUE(check().damaged());
}

}  // namespace
}  // namespace verbena::store::local
