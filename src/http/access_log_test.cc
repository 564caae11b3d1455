#include "http/access_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace verbena::http {
namespace {

TEST(AccessLog, ALineSaysWhoAskedForWhatAndHowItWent) {
  AccessLine line{.time_us = 1'767'323'045'678'000,
                  .peer = "127.0.0.1",
                  .access_key = "AKID",
                  .method = "GET",
                  .path = "/b/k",
                  .door = "token",
                  .status = 200,
                  .error_code = "",
                  .bytes_in = 1,
                  .bytes_out = 2,
                  .rdma_bytes = 3,
                  .duration_us = 4,
                  .request_id = "0123456789ABCDEF"};
  EXPECT_EQ(format_access_line(line),
            "2026-01-02T03:04:05.678Z peer=127.0.0.1 key=AKID method=GET path=\"/b/k\" door=token status=200 error=- "
            "bytes_in=1 bytes_out=2 rdma_bytes=3 duration_us=4 id=0123456789ABCDEF\n");
}

TEST(AccessLog, NothingThatAClientSendsEndsALineOrAField) {
  AccessLine line{.access_key = "a\nb\"", .method = "G\rET", .path = "/b/\"k\n\x1b[31m"};
  const auto text = format_access_line(line);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\"k"), text.find("\\\"k") == std::string::npos ? std::string::npos : text.find("\\\"k") + 1);
}

TEST(AccessLog, WritesEveryLineBeforeItGoes) {
  char pattern[] = "/tmp/verbena-access-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  {
    auto log = AccessLog::open(directory + "/access.log");
    ASSERT_TRUE(log);
    for (int i = 0; i < 1000; ++i) (*log)->write({.path = "/x"});
    EXPECT_EQ((*log)->dropped(), 0u);
  }
  std::ifstream file(directory + "/access.log");
  int lines = 0;
  for (std::string text; std::getline(file, text);) ++lines;
  EXPECT_EQ(lines, 1000);
  std::filesystem::remove_all(directory);
}

TEST(AccessLog, AFileThatCannotBeOpenedIsBadConfiguration) {
  auto log = AccessLog::open("/nonexistent/access.log");
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, Errc::bad_config);
}

}  // namespace
}  // namespace verbena::http
