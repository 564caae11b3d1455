#include "call/access_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "call/access_log_history.h"
#include "observe/record.h"

namespace verbena::call {
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

// Each line tried to rotate then, and said nothing.
TEST_F(AccessLogFile, AFileThatCannotBeMovedGrowsAndSaysSoEachTimeThatItIsTried) {
  std::filesystem::create_directories(path(".2/something"));
  std::ofstream(path(".1")) << "as it was";
  testing::internal::CaptureStderr();
  {
    auto log = AccessLog::open({.path = path(), .size_max = 10'000, .files_max = 2});
    ASSERT_TRUE(log);
    for (int i = 0; i < 1000; ++i) (*log)->write({.key = "k", .status = i});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  size_t tries = 0;
  for (size_t at = 0; (at = said.find("cannot move", at)) != std::string::npos; ++at) ++tries;
  EXPECT_EQ(lines_of(path()), 1000);
  EXPECT_EQ(std::filesystem::file_size(path(".1")), 9u);
  EXPECT_GE(tries, 1u);
  EXPECT_LE(tries, std::filesystem::file_size(path()) / 10'000);
  std::filesystem::remove_all(path(".2"));
  {
    auto log = AccessLog::open({.path = path(), .size_max = 10'000, .files_max = 2});
    ASSERT_TRUE(log);
    (*log)->write({.key = "k"});
  }
  EXPECT_EQ(lines_of(path(".1")), 1001);
  EXPECT_EQ(std::filesystem::file_size(path(".2")), 9u);
}

// They were lost without a word, and the next line began inside the one that was cut off.
TEST_F(AccessLogFile, LinesThatCannotBeWrittenAreCountedAndTearNoOther) {
  metrics::Counter& lost = metrics::counter("verbena_access_log_dropped_total", "", {{"kind", "disk"}});
  const uint64_t before = lost.value();
  const auto reaches = [](auto value, uint64_t wanted) {
    while (value() < wanted) std::this_thread::yield();
  };
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  testing::internal::CaptureStderr();
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    (*log)->write({.key = "before"});
    reaches([&] { return std::filesystem::file_size(path()); }, 1);
    const rlimit full{.rlim_cur = std::filesystem::file_size(path()) + 10, .rlim_max = whole.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    (*log)->write({.key = "torn"});
    reaches([&] { return (*log)->dropped(); }, 1);
    (*log)->write({.key = "lost"});
    reaches([&] { return (*log)->dropped(); }, 2);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &whole), 0);
    (*log)->write({.key = "after"});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  std::signal(SIGXFSZ, handler);
  size_t told = 0;
  for (size_t at = 0; (at = said.find("cannot write", at)) != std::string::npos; ++at) ++told;
  EXPECT_EQ(told, 2u) << "at once, and at the end what was lost within the minute: " << said;
  EXPECT_EQ(lost.value() - before, 2u);
  std::ifstream file(path());
  std::vector<std::string> lines;
  for (std::string text; std::getline(file, text);) lines.push_back(text);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("before"), std::string::npos);
  EXPECT_EQ(lines[1].size(), 10u);
  EXPECT_TRUE(lines[2].starts_with("{\"time\"") && lines[2].find("after") != std::string::npos) << lines[2];
}

// The first line went into the one that a full disk had cut off before.
TEST_F(AccessLogFile, AFileThatEndsInsideALineGoesOnWithAnother) {
  const auto begin = [&] { std::ofstream(path()) << R"({"time":"torn)"; };
  const auto expect_two_lines = [&] {
    std::ifstream file(path());
    std::string torn, whole;
    EXPECT_TRUE(std::getline(file, torn) && std::getline(file, whole));
    EXPECT_EQ(torn, R"({"time":"torn)");
    EXPECT_TRUE(whole.starts_with("{\"time\"") && whole.ends_with("}")) << whole;
  };
  begin();
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    (*log)->write({.key = "k"});
  }
  expect_two_lines();
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    std::filesystem::rename(path(), path(".moved"));
    begin();
    (*log)->reopen();
    (*log)->write({.key = "k"});
  }
  expect_two_lines();
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

TEST(AccessLog, OfARefusedRequestOnlyTheBeginningOfAKeyIsKept) {
  const std::string key(900, '\x01'), path = "/" + std::string(8000, 'x');
  AccessLine line{.path = path, .key = key, .status = 403};
  std::string record;
  observe::append_record(record, line);
  EXPECT_EQ(record.size(), observe::record_size(line));
  std::string_view rest = record;
  const std::string text = format_access_line(observe::take_record(rest));
  EXPECT_LT(text.size(), 1'400u);
  EXPECT_NE(text.find("\"cut\":true"), std::string::npos);
  line.status = 200;
  line.principal = "arn:aws:iam::000000000000:root";
  record.clear();
  observe::append_record(record, line);
  rest = record;
  EXPECT_EQ(observe::take_record(rest).key, key) << "what was done is there whole";
}

TEST(AccessLog, ACutKeyEndsWithAWholeCharacter) {
  std::string key = "a";
  while (key.size() < 200) key += "\xc3\xa9";
  const AccessLine line{.key = key, .status = 403};
  std::string record;
  observe::append_record(record, line);
  std::string_view rest = record;
  const std::string text = format_access_line(observe::take_record(rest));
  EXPECT_EQ(text.find("\\u00"), std::string::npos) << text;
}

TEST(LogShares, OneCallersLinesLeaveRoomForThoseOfAllOthers) {
  LogShares shares;
  const AccessLine greedy{.peer = "192.0.2.1", .principal = "arn:aws:iam::111111111111:user/a", .status = 200};
  size_t taken = 0;
  while (shares.take(LogKind::change, greedy, 300)) taken += 300;
  EXPECT_GT(taken, 500'000u);
  const AccessLine colleague{.peer = "192.0.2.2", .principal = "arn:aws:iam::111111111111:user/b", .status = 200};
  EXPECT_TRUE(shares.take(LogKind::change, colleague, 300)) << "another address of the account";
  const AccessLine other{.peer = "192.0.2.1", .principal = "arn:aws:iam::222222222222:user/c", .status = 200};
  EXPECT_TRUE(shares.take(LogKind::change, other, 300)) << "another account from the same address";
  EXPECT_TRUE(shares.take(LogKind::read, greedy, 300)) << "reads have a room of their own";
  EXPECT_FALSE(shares.take(LogKind::change, greedy, 300));
  shares.written(SteadyClock::now());
  EXPECT_TRUE(shares.take(LogKind::change, greedy, 300));
}

TEST(LogShares, StrangersOfManyAddressesAreOneCaller) {
  LogShares shares;
  for (int i = 0; i < 100'000; ++i) {
    const std::string peer = "127." + std::to_string(i % 250) + "." + std::to_string(i / 250) + ".1";
    shares.take(LogKind::refused, {.peer = peer, .status = 403}, 300);
  }
  const AccessLine account{.peer = "192.0.2.1", .principal = "arn:aws:iam::111111111111:user/a", .status = 403};
  EXPECT_TRUE(shares.take(LogKind::refused, account, 300));
  const auto now = SteadyClock::now();
  shares.written(now);  // also begins a new second
  int written = 0;
  for (int turn = 0; turn < 20; ++turn) {
    while (shares.take(LogKind::refused, {.peer = "127.0.0.1", .status = 403}, 300)) ++written;
    shares.written(now + std::chrono::milliseconds(50 * turn));
  }
  EXPECT_LT(written * 300, 1 << 20) << "a second's share, however often it is written out";
}

// 1.2 million lines of other callers were dropped in 12 seconds while one client was refused.
TEST_F(AccessLogFile, AFloodOfRefusalsLeavesTheLinesOfOthersAndIsSummedUp) {
  {
    auto log = AccessLog::open({.path = path()});
    ASSERT_TRUE(log);
    const std::string key(1000, '\x01');
    for (int i = 0; i < 100'000; ++i) {
      (*log)->write({.peer = "192.0.2.66", .key = key, .status = 403});
      if (i % 1000 == 0) {
        (*log)->write({.peer = "192.0.2.1",
                       .principal = "arn:aws:iam::111111111111:user/a",
                       .action = "DELETE object",
                       .key = "precious",
                       .status = 204});
      }
    }
    EXPECT_GT((*log)->dropped(), 90'000u);
  }
  std::ifstream file(path());
  std::stringstream text;
  text << file.rdbuf();
  size_t precious = 0;
  for (size_t at = 0; (at = text.str().find("precious", at)) != std::string::npos; ++at) ++precious;
  EXPECT_EQ(precious, 100u);
  EXPECT_NE(text.str().find("\"peer\":\"192.0.2.66\",\"action\":\"not logged: refused\""), std::string::npos);
}

// All kept history was rotated away in 21 seconds by one client.
TEST_F(AccessLogFile, AFloodDoesNotRotateAwayWhatOthersDid) {
  const std::string many = "arn:aws:iam::111111111111:user/many", few = "arn:aws:iam::222222222222:user/few";
  {
    auto log = AccessLog::open({.path = path(), .size_max = 100'000, .files_max = 2});
    ASSERT_TRUE(log);
    for (int i = 0; i < 20; ++i)
      (*log)->write({.peer = "192.0.2.1", .principal = few, .key = "precious", .status = 200});
    for (int file = 0; file < 20; ++file) {
      for (int i = 0; i < 1000; ++i) (*log)->write({.peer = "192.0.2.2", .principal = many, .key = "k", .status = 200});
      // In pieces, as the writing thread reads it.
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path(".3")));
  std::ifstream file(kept_path(path()));
  std::stringstream kept;
  kept << file.rdbuf();
  size_t precious = 0;
  for (size_t at = 0; (at = kept.str().find("precious", at)) != std::string::npos; ++at) ++precious;
  EXPECT_EQ(precious, 20u);
  EXPECT_LE(std::filesystem::file_size(kept_path(path())), 110'000u);
  EXPECT_EQ(std::filesystem::status(kept_path(path())).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

// Where the last but one was missing, the oldest stayed, and its lines were kept again at the next rotation.
TEST_F(AccessLogFile, WhatIsKeptOfTheOldestFileIsKeptOnce) {
  {
    std::ofstream oldest(path(".2"));
    for (int i = 0; i < 100; ++i) oldest << format_access_line({.peer = "192.0.2.2", .key = "many", .status = 200});
    oldest << format_access_line({.principal = "arn:aws:iam::222222222222:user/few", .key = "precious", .status = 200});
  }
  {
    auto log = AccessLog::open({.path = path(), .size_max = 10'000, .files_max = 2});
    ASSERT_TRUE(log);
    for (int i = 0; i < 300; ++i) (*log)->write({.key = "k", .status = 200});
  }
  std::ifstream file(kept_path(path()));
  int precious = 0;
  for (std::string text; std::getline(file, text);) precious += text.find("precious") != std::string::npos ? 1 : 0;
  EXPECT_EQ(precious, 1);
}

TEST(AccessLogHistory, ARoomIsSharedSoThatWhoHasLittleKeepsAll) {
  EXPECT_EQ(share_of_room({10, 1000, 5000}, 500), 245u);
  EXPECT_EQ(share_of_room({100, 100, 100}, 90), 30u);
  EXPECT_GE(share_of_room({1, 2, 3}, 100), 3u);
}

TEST(AccessLog, AFileThatCannotBeOpenedIsBadConfiguration) {
  auto log = AccessLog::open({.path = "/nonexistent/access.log"});
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, Errc::bad_config);
}

}  // namespace
}  // namespace verbena::call
