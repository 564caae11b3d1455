#include "store/local/log_gate.h"

#include <gtest/gtest.h>
#include <rocksdb/file_system.h>

#include <future>

#include "store/local/seam_env.h"
#include "store/local/test_faulty_file_system.h"

namespace verbena::store::local {
namespace {

// Found by the simulator: the disk failed while another thread synced the log, and RocksDB's assertion ended the
// process.
TEST(LogGate, AWriteThatFailsWaitsForTheSyncThatRunsAndNoneFollowsIt) {
  FaultyFileSystem fs;
  ASSERT_TRUE(fs.make_directory("/index"));
  const auto seam = make_seam_env(fs);
  LogGate gate;
  const auto env = make_gated_env(seam.get(), gate);
  const auto open = [&](const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(env->GetFileSystem()->NewWritableFile(name, {}, &file, nullptr).ok());
    return file;
  };
  const auto log = open("/index/000001.log"), table = open("/index/000002.sst");
  fs.fail_at(0, FaultyFileSystem::Fault::io_error);
  EXPECT_FALSE(table->Append("t", {}, nullptr).ok());
  EXPECT_TRUE(gate.sync([] { return Result<void>(); })) << "no log has failed";

  fs.fail_at(0, FaultyFileSystem::Fault::io_error);
  std::future<bool> appended;
  const auto synced = gate.sync([&]() -> Result<void> {
    appended = std::async(std::launch::async, [&] { return log->Append("l", {}, nullptr).ok(); });
    EXPECT_EQ(appended.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    return {};
  });
  EXPECT_TRUE(synced);
  EXPECT_FALSE(appended.get());
  const auto none = [] {
    ADD_FAILURE() << "a sync of a log that has failed";
    return Result<void>();
  };
  EXPECT_EQ(gate.sync(none).error(), Errc::io_error);
  gate.reset();
  EXPECT_TRUE(gate.sync([] { return Result<void>(); }));
}

}  // namespace
}  // namespace verbena::store::local
