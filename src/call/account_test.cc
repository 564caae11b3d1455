#include "call/account.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace verbena::call {
namespace {

struct CountedRecord final : BucketRecord {
  void set_acl_required() override {}
  void finish(const Answered& answered, const Details& details) override {
    statuses.push_back(answered.status);
    keys.emplace_back(details.key);
  }
  std::vector<int> statuses;
  std::vector<std::string> keys;
};

class AccountTest : public testing::Test {
 protected:
  AccountTest()
      : path_(std::filesystem::temp_directory_path() / ("verbena-account-" + std::to_string(::getpid()))),
        log_(std::move(*AccessLog::open({.path = path_}))),
        observers_{.access_log = log_.get(), .watch = &watch_} {
    observed_.by = &observers_;
    call_.request_id = "0123456789ABCDEF";
    call_.observed = &observed_;
    watcher_ = *watch_.begin({}, observe::RequestWatch::Wanted::lines);
  }
  ~AccountTest() override { std::filesystem::remove(path_); }

  // What the access log has.
  std::vector<std::string> lines() {
    log_.reset();
    std::vector<std::string> out;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }
  size_t watched() { return watch_.take_lines(watcher_)->count; }
  void end_item(std::string key, int status) {
    account_item(call_, {.door = Door::native, .verb = Verb::get, .bucket = "b", .status = status}, [&]() -> Details {
      return {.action = "GET object", .key = key, .error_code = status == 403 ? "AccessDenied" : ""};
    });
  }

  const std::string path_;
  std::unique_ptr<AccessLog> log_;
  observe::RequestWatch watch_;
  Observers observers_;
  Observed observed_;
  Call call_;
  std::string watcher_;
};

bool has(const std::string& line, const std::string& text) { return line.find(text) != std::string::npos; }

TEST_F(AccountTest, ItemsThatTheCallerHasNoRightToShareOneLine) {
  call_.door = Door::native;
  end_item("first", 200);
  end_item("second", 403);
  end_item("third", 404);
  end_item("fourth", 403);
  account_refused(call_, 7);
  EXPECT_EQ(watched(), 3u);
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(has(all[0], R"("key":"first","status":200)"));
  EXPECT_TRUE(has(all[1], R"("key":"third","status":404)"));
  EXPECT_TRUE(has(all[2], R"("key":"second","status":403,"error":"AccessDenied","items":2,"of_items":4)")) << all[2];
}

TEST_F(AccountTest, ABatchWithoutRefusedItemsHasNoLineOfThem) {
  end_item("first", 200);
  account_refused(call_, 7);
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(AccountTest, KeysOfADeleteObjectsHaveLinesInTheAccessLogAlone) {
  call_.outcome.deletions = {{"a", "v1", "", 204}, {"b", "", "AccessDenied", 403}, {"c", "", "AccessDenied", 403}};
  account(call_, {.verb = Verb::write_batch, .bucket = "bucket"},
          [] { return Details{.action = "POST bucket?delete", .bytes_in = 100}; });
  EXPECT_EQ(watched(), 1u) << "watchers see one request";
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(has(all[0], R"("action":"POST bucket?delete")"));
  EXPECT_TRUE(has(all[1], R"("action":"DELETE object","bucket":"bucket","key":"a","version":"v1","status":204)"));
  EXPECT_TRUE(has(all[1], R"("bytes_in":0)")) << "the document is the request's";
  EXPECT_TRUE(has(all[2], R"("key":"b","status":403,"error":"AccessDenied","items":2,"of_items":3)")) << all[2];
}

TEST_F(AccountTest, NothingIsDescribedWhereNoLogIsTold) {
  call_.observed = nullptr;
  const auto details = []() -> Details {
    ADD_FAILURE();
    return {};
  };
  account(call_, {.bucket = "b"}, details);
  account_item(call_, {.bucket = "b"}, details);
  account_refused(call_, 0);
  EXPECT_TRUE(lines().empty());
}

TEST_F(AccountTest, TheLogsOfBucketsAreToldWithoutObservers) {
  const auto first = std::make_shared<CountedRecord>(), second = std::make_shared<CountedRecord>();
  call_.observed = nullptr;
  call_.records = {first, nullptr, second};
  account_item(call_, {.bucket = "b"}, [&] { return Details{.key = "item", .record = second.get()}; });
  EXPECT_TRUE(first->keys.empty());
  EXPECT_EQ(second->keys, std::vector<std::string>{"item"});
  account(call_, {.bucket = "b", .status = 503}, [] { return Details{.action = "GET object"}; });
  EXPECT_EQ(first->statuses, std::vector<int>{503});
  EXPECT_EQ(second->statuses, (std::vector<int>{200, 503}));
}

TEST_F(AccountTest, WatchersDoNotSeeThemselves) {
  account(call_, {}, [] { return Details{.action = "admin:trace"}; });
  EXPECT_EQ(watched(), 0u);
  EXPECT_EQ(lines().size(), 1u);
}

}  // namespace
}  // namespace verbena::call
