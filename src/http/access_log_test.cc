#include "http/access_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace verbena::http {
namespace {

TEST(AccessLog, ALineSaysWhoAskedForWhatAndHowItWent) {
  AccessLine line{.time_us = 1'767'323'045'678'000,
                  .peer = "127.0.0.1",
                  .principal = "arn:aws:iam::000000000000:user/alice",
                  .access_key = "AKID",
                  .action = "GET object",
                  .bucket = "b",
                  .key = "k",
                  .version = "v1",
                  .door = "token",
                  .transport = "rdma",
                  .status = 403,
                  .error_code = "AccessDenied",
                  .bytes_in = 1,
                  .bytes_out = 2,
                  .rdma_bytes = 3,
                  .duration_us = 4,
                  .request_id = "0123456789ABCDEF"};
  EXPECT_EQ(
      format_access_line(line),
      R"({"time":"2026-01-02T03:04:05.678Z","door":"token","peer":"127.0.0.1",)"
      R"("principal":"arn:aws:iam::000000000000:user/alice","access_key":"AKID","action":"GET object","bucket":"b",)"
      R"("key":"k","version":"v1","status":403,"error":"AccessDenied","bytes_in":1,"bytes_out":2,"rdma_bytes":3,)"
      R"("duration_us":4,"transport":"rdma","id":"0123456789ABCDEF"})"
      "\n");
}

TEST(AccessLog, NothingThatAClientSendsEndsALineOrAField) {
  const AccessLine line{.access_key = "a\nb\"\\", .key = "\"k\n\x1b[31m\x7f\xff"};
  EXPECT_NE(format_access_line(line).find(R"("access_key":"a\u000ab\"\\","key":"\"k\u000a\u001b[31m\u007f\u00ff")"),
            std::string::npos)
      << format_access_line(line);
}

class AccessLogFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/verbena-access-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& end = "") const { return directory_ + "/access.log" + end; }
  static int lines_of(const std::string& path) {
    std::ifstream file(path);
    int lines = 0;
    for (std::string text; std::getline(file, text);) {
      EXPECT_TRUE(text.starts_with("{\"time\"") && text.ends_with("}")) << text;
      ++lines;
    }
    return lines;
  }
  std::string directory_;
};

TEST_F(AccessLogFile, WritesEveryLineOfEveryThreadBeforeItGoes) {
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    std::vector<std::thread> threads;
    for (int t = 0; t < 20; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) (*log)->write({.key = "k", .status = i});
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ((*log)->dropped(), 0u);
  }
  EXPECT_EQ(lines_of(path()), 20'000);
}

TEST_F(AccessLogFile, ALongFileIsMovedAsideAndTheOldestGoes) {
  {
    auto log = AccessLog::open({.path = path(), .size_max = 10'000, .files_max = 2});
    ASSERT_TRUE(log);
    for (int i = 0; i < 1000; ++i) (*log)->write({.key = "k", .status = i});
  }
  for (const char* end : {".1", ".2"}) {
    EXPECT_GE(std::filesystem::file_size(path(end)), 10'000u);
    EXPECT_LE(std::filesystem::file_size(path(end)), 12'000u);
    EXPECT_GT(lines_of(path(end)), 50);
  }
  EXPECT_LT(std::filesystem::file_size(path()), 10'000u);
  EXPECT_FALSE(std::filesystem::exists(path(".3")));
}

TEST_F(AccessLogFile, GoesOnInANewFileWhenToldTo) {
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    (*log)->write({.key = "before"});
    while (!std::filesystem::exists(path()) || std::filesystem::file_size(path()) == 0) std::this_thread::yield();
    std::filesystem::rename(path(), path(".moved"));
    (*log)->reopen();
    while (!std::filesystem::exists(path())) std::this_thread::yield();
    (*log)->write({.key = "after"});
  }
  EXPECT_EQ(lines_of(path(".moved")), 1);
  EXPECT_EQ(lines_of(path()), 1);
}

TEST(AccessLog, AFileThatCannotBeOpenedIsBadConfiguration) {
  auto log = AccessLog::open({.path = "/nonexistent/access.log"});
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, Errc::bad_config);
}

}  // namespace
}  // namespace verbena::http
