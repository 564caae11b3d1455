#include "admin/audit_search.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "admin/lines_backwards.h"
#include "base/date.h"
#include "base/fd.h"
#include "call/access_log.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;

constexpr int64_t second_us = 1'000'000;
constexpr int64_t noon_us = 1'750'000'000 * second_us;

class AuditSearch : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "verbena-audit-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    path = (folder / "access.log").string();
  }
  void TearDown() override { fs::remove_all(folder); }

  // The log line of a request `at` seconds after noon.
  static std::string line(int64_t at, const std::string& key, int status = 200, const std::string& bucket = "photos") {
    const std::string id = "ID" + std::to_string(at);
    call::AccessLine line{.time_us = noon_us + at * second_us,
                          .peer = "10.1.2.3",
                          .principal = "arn:aws:iam::111122223333:user/Alice",
                          .access_key = "AKALICE",
                          .action = "GET object",
                          .bucket = bucket,
                          .key = key,
                          .door = "http",
                          .status = status,
                          .error_code = status < 400 ? "" : "NoSuchKey",
                          .bytes_out = 7,
                          .duration_us = 250,
                          .request_id = id};
    return call::format_access_line(line);
  }
  void write(const std::string& text, const std::string& more = "") {
    std::ofstream(path + more, std::ios::app) << text;
  }
  AuditPage found(const AuditFilter& filter = {}, const std::string& from = "", AuditBounds bounds = {}) {
    bounds.time_max = std::chrono::hours(1);  // a slow machine ends no page
    auto page = search_audit(path, 8, filter, from, bounds, stopping);
    EXPECT_TRUE(page);
    return page ? std::move(*page) : AuditPage{};
  }
  std::vector<std::string> keys(const AuditPage& page) {
    std::vector<std::string> out;
    for (const auto& one : page.lines) out.push_back(one.value("key", ""));
    return out;
  }
  using Keys = std::vector<std::string>;

  fs::path folder;
  std::string path;
  std::atomic<bool> stopping{false};
};

TEST_F(AuditSearch, TheNewestLineIsTheFirst) {
  write(line(1, "oldest"), ".2");
  write(line(2, "older"), ".1");
  write(line(3, "a") + line(4, "b"));
  EXPECT_EQ(keys(found()), (Keys{"b", "a", "older", "oldest"}));
  EXPECT_EQ(found().next, "");
}

TEST_F(AuditSearch, ALineIsToldWithItsKnownMembersAlone) {
  write(
      "{\"time\":\"2026-01-02T03:04:05.678Z\",\"bucket\":\"b\",\"status\":200,\"secret\":\"x\",\"bytes_in\":\"many\"}"
      "\n");
  const auto page = found();
  ASSERT_EQ(page.lines.size(), 1u);
  EXPECT_EQ(page.lines[0].dump(), R"({"bucket":"b","status":200,"time":"2026-01-02T03:04:05.678Z"})");
}

TEST_F(AuditSearch, EachFilterFindsItsOwn) {
  write(line(1, "dir/a") + line(2, "dir/b", 404) + line(3, "other", 200, "logs") + line(4, "say \"hi\"\\"));
  EXPECT_EQ(keys(found({.bucket = "logs"})), (Keys{"other"}));
  EXPECT_EQ(keys(found({.prefix = "dir/"})), (Keys{"dir/b", "dir/a"}));
  EXPECT_EQ(keys(found({.prefix = "say \"hi\"\\"})), (Keys{"say \"hi\"\\"}));
  EXPECT_EQ(keys(found({.status_first = 400, .status_last = 499})), (Keys{"dir/b"}));
  EXPECT_EQ(keys(found({.error = "NoSuchKey"})), (Keys{"dir/b"}));
  EXPECT_EQ(keys(found({.text = "HI\""})), (Keys{"say \"hi\"\\"}));
  EXPECT_EQ(keys(found({.request_id = "ID3"})), (Keys{"other"}));
  EXPECT_EQ(found({.principal = "user/alice"}).lines.size(), 4u);
  EXPECT_EQ(found({.principal = "AKALICE"}).lines.size(), 4u);
  EXPECT_EQ(found({.principal = "bob"}).lines.size(), 0u);
  EXPECT_EQ(found({.account = "111122223333"}).lines.size(), 4u);
  EXPECT_EQ(found({.account = "111122223334"}).lines.size(), 0u);
  EXPECT_EQ(found({.action = "get OBJ"}).lines.size(), 4u);
  EXPECT_EQ(found({.door = "native"}).lines.size(), 0u);
  EXPECT_EQ(found({.peer = "10.1.0.0/16"}).lines.size(), 4u);
  EXPECT_EQ(found({.peer = "10.1.2.4"}).lines.size(), 0u);
}

TEST_F(AuditSearch, AKeyIsFoundWhereItWasCopiedOrRenamed) {
  call::AccessLine rename{.time_us = noon_us, .bucket = "photos", .key = "new", .source = "photos/old", .status = 200};
  call::AccessLine copy{
      .time_us = noon_us, .bucket = "loot", .key = "mine", .source = "photos/secret?versionId=1", .status = 200};
  write(line(1, "a") + call::format_access_line(rename) + call::format_access_line(copy));
  EXPECT_EQ(keys(found({.bucket = "photos", .prefix = "old"})), (Keys{"new"}));
  EXPECT_EQ(keys(found({.bucket = "photos"})), (Keys{"mine", "new", "a"}));
  EXPECT_EQ(keys(found({.prefix = "secret"})), (Keys{"mine"}));
  EXPECT_EQ(keys(found({.bucket = "loot", .prefix = "secret"})), (Keys{}));
  EXPECT_EQ(found({.prefix = "old"}).lines[0].value("source", ""), "photos/old");
}

TEST_F(AuditSearch, ATimeHasABeginningAndAnEnd) {
  write(line(-1000, "early") + line(10, "in") + line(20, "end"));
  EXPECT_EQ(keys(found({.since_us = noon_us, .until_us = noon_us + 20 * second_us})), (Keys{"in"}));
}

TEST_F(AuditSearch, ALongRequestIsFoundAmongThoseThatCameLater) {
  call::AccessLine upload{
      .time_us = noon_us, .key = "upload", .door = "http", .status = 200, .duration_us = 900 * second_us};
  write(line(1, "before") + line(890, "later") + call::format_access_line(upload));
  EXPECT_EQ(keys(found({.since_us = noon_us, .until_us = noon_us + 5 * second_us})), (Keys{"upload", "before"}));
}

TEST_F(AuditSearch, NobodyWritesHisWayIntoAnotherAccountByAPath) {
  call::AccessLine forged{.time_us = noon_us,
                          .principal = "arn:aws:iam::444455556666:user/a::111122223333:b/Mallory",
                          .key = "forged",
                          .door = "http",
                          .status = 200};
  write(line(1, "own") + call::format_access_line(forged));
  EXPECT_EQ(keys(found({.account = "111122223333"})), (Keys{"own"}));
  EXPECT_EQ(keys(found({.account = "444455556666"})), (Keys{"forged"}));
}

TEST_F(AuditSearch, LinesOfAClockThatWasWrongHideNothing) {
  write(line(600, "before"), ".1");
  write(line(-500'000, "wrong at the end"), ".1");
  write(line(700, "a") + line(-1'000'000, "wrong") + line(800, "b"));
  EXPECT_EQ(keys(found({.since_us = noon_us + 500 * second_us})), (Keys{"b", "a", "before"}));
}

TEST_F(AuditSearch, AFileThatEndedUnderAWrongClockHidesNoOlderOne) {
  write(line(600, "before"), ".2");
  write(line(-500'000, "wrong"), ".1");
  write(line(700, "now"));
  const timespec wrong{noon_us / second_us - 500'000, 0};
  const timespec times[2] = {wrong, wrong};
  ASSERT_EQ(::utimensat(AT_FDCWD, (path + ".1").c_str(), times, 0), 0);
  EXPECT_EQ(keys(found({.since_us = noon_us + 500 * second_us})), (Keys{"now", "before"}));
}

TEST_F(AuditSearch, ManyLinesThatAreTooOldEndASearch) {
  std::string old;
  while (old.size() < (12u << 20)) old += line(1, std::string(1000, 'k'));
  write(old + line(10'000, "new"));
  const auto page = found({.since_us = noon_us + 9000 * second_us});
  EXPECT_EQ(keys(page), (Keys{"new"}));
  EXPECT_EQ(page.next, "");
  EXPECT_LT(page.bytes_read, 6u << 20);
}

TEST_F(AuditSearch, ALineThatSaysItTookForeverIsPassedBy) {
  call::AccessLine endless{.time_us = noon_us, .key = "endless", .door = "http", .status = 200};
  std::string text = call::format_access_line(endless);
  const std::string took = "\"duration_us\":0";
  ASSERT_NE(text.find(took), std::string::npos) << text;
  text.replace(text.find(took), took.size(), "\"duration_us\":9223372036854775807");
  write(line(600, "before") + text + line(700, "after"));
  EXPECT_EQ(keys(found({.since_us = noon_us + 500 * second_us})), (Keys{"after", "before"}));
}

TEST_F(AuditSearch, FilesThatAreOlderAreNotRead) {
  for (int i = 0; i < 2000; ++i) write(line(i, "old"), ".1");
  write(line(10'000, "new"));
  const timespec old{noon_us / second_us + 2000, 0};
  const timespec times[2] = {old, old};
  ASSERT_EQ(::utimensat(AT_FDCWD, (path + ".1").c_str(), times, 0), 0);
  const auto page = found({.since_us = noon_us + 9000 * second_us});
  EXPECT_EQ(keys(page), (Keys{"new"}));
  EXPECT_LT(page.bytes_read, 1000u);
}

TEST_F(AuditSearch, PagesGoOnWhereTheyEndedAlsoWhenTheFileMovedOn) {
  for (int i = 0; i < 10; ++i) write(line(i, std::to_string(i)));
  const auto first = found({}, "", {.lines_max = 4});
  EXPECT_EQ(keys(first), (Keys{"9", "8", "7", "6"}));
  fs::rename(path, path + ".1");
  write(line(10, "10"));
  const auto second = found({}, first.next, {.lines_max = 4});
  EXPECT_EQ(keys(second), (Keys{"5", "4", "3", "2"}));
  const auto third = found({}, second.next, {.lines_max = 4});
  EXPECT_EQ(keys(third), (Keys{"1", "0"}));
  EXPECT_EQ(third.next, "");
  fs::remove(path + ".1");
  EXPECT_EQ(search_audit(path, 8, {}, second.next, {}, stopping).error().code, Errc::invalid_argument);
  for (const char* wrong : {"x", "1-2-3", "1-2-3-4", "1-2-3-4-5", "-1-2-3-4", "1-2-3-4 ", "11111111111111111-2-3-4"}) {
    EXPECT_FALSE(search_audit(path, 8, {}, wrong, {}, stopping)) << wrong;
  }
}

TEST_F(AuditSearch, APlaceIsNotLookedForInAFileThatWasFilledAnew) {
  for (int i = 0; i < 10; ++i) write(line(i, std::to_string(i)));
  const auto first = found({}, "", {.lines_max = 4});
  fs::resize_file(path, 0);
  for (int i = 100; i < 120; ++i) write(line(i, std::to_string(i)));
  EXPECT_EQ(search_audit(path, 8, {}, first.next, {}, stopping).error().code, Errc::invalid_argument);
}

TEST_F(AuditSearch, LinesThatAreTooLongAreCountedHoweverAPageEnds) {
  write(line(1, "a") + std::string(3 << 20, 'x') + "\n" + line(2, "b"));
  const auto full = found({}, "", {.lines_max = 2});
  EXPECT_EQ(keys(full), (Keys{"b", "a"}));
  EXPECT_FALSE(full.next.empty());
  EXPECT_EQ(full.unreadable, 1u);
}

TEST_F(AuditSearch, WhatACallReadsIsBoundedAndEachCallGetsOn) {
  for (int i = 0; i < 20'000; ++i) write(line(i, std::to_string(i)));
  const AuditFilter filter{.prefix = "17"};  // 17, 170 to 179, 1700 to 1799, 17000 to 17999
  size_t pages = 0, lines = 0;
  std::string next;
  do {
    const auto page = found(filter, next, {.lines_max = 1000, .read_bytes_max = 1 << 20});
    EXPECT_LE(page.bytes_read, (1u << 20) + 256 * 1024);
    lines += page.lines.size();
    next = page.next;
  } while (!next.empty() && ++pages < 100);
  EXPECT_EQ(lines, 1111u);
  EXPECT_GT(pages, 2u);
  EXPECT_LT(pages, 30u);
  const auto small = found({}, "", {.lines_max = 1000, .answer_bytes_max = 3000});
  EXPECT_LT(small.lines.size(), 20u);
}

TEST_F(AuditSearch, LinesThatNoServerWroteAreCountedAndPassedBy) {
  write(line(1, "a"));
  write("\n\n{\"time\":\"no time\n[1,2]\nnonsense\n" + std::string(3 << 20, 'x') + "\n" + line(2, "b"));
  write("{\"time\":\"2026-01-02T03:04:05.678Z\",\"key\":" + std::string(50'000, '[') + "\n");
  write("{\"time\":\"2026-01-02T03:04:05.678Z\",\"key\":\"\xff\xfe\"}\n");
  write(line(3, "c").substr(0, 80));
  const auto page = found();
  EXPECT_EQ(keys(page), (Keys{"b", "a"}));
  EXPECT_EQ(page.unreadable, 7u);
}

TEST_F(AuditSearch, WhatIsNoFileIsNamed) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  write(line(1, "kept"), ".1");
  const auto page = found();
  EXPECT_EQ(keys(page), (Keys{"kept"}));
  ASSERT_EQ(page.problems.size(), 1u);
  EXPECT_NE(page.problems[0].find(path), std::string::npos);
}

TEST_F(AuditSearch, AnEndOfTheServerEndsASearch) {
  for (int i = 0; i < 5000; ++i) write(line(i, "k"));
  stopping = true;
  const auto page = found({.bucket = "none"});
  EXPECT_FALSE(page.next.empty());
}

TEST_F(AuditSearch, LinesComeBackwardsHoweverTheyLieInBlocks) {
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 4000; ++i) {
    expected.push_back(std::string(static_cast<size_t>(i * 37 % 311), static_cast<char>('a' + i % 26)));
    text += expected.back() + "\n";
  }
  write(text);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (const size_t cut : {text.size(), text.size() - 1}) {
    LinesBackwards lines(fd.get(), cut);
    size_t left = expected.size();
    for (std::string_view one;;) {
      const auto what = lines.next(one);
      if (what == LinesBackwards::Found::end) break;
      if (what == LinesBackwards::Found::nothing) continue;
      ASSERT_GT(left, 0u);
      ASSERT_EQ(one, expected[--left]);
    }
    EXPECT_EQ(left, 0u);
  }
}

}  // namespace
}  // namespace verbena::admin
