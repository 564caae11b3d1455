#include "cli/transfer_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "base/bytes.h"
#include "client/testing/scripted_client.h"

namespace verbena::cli {
namespace {

// A file whose time of modification lies back, and a server during whose answers it can be changed.
class Upload : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/verbena-upload-XXXXXX";
    fd_ = ::mkstemp(name);
    ASSERT_GE(fd_, 0);
    path_ = name;
  }
  void TearDown() override {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  void make(uint64_t size) {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(size)), 0);
    const timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(::futimens(fd_, old), 0);
  }
  void write_at_begin() { ASSERT_EQ(::pwrite(fd_, "new", 3, 0), 3); }
  Outcome<PutReply> run() {
    return upload(*Client::connect(client::http_options(server_)), path_, "b", "k", {}, false);
  }
  size_t count(std::string_view begin) const {
    return static_cast<size_t>(std::ranges::count_if(
        server_.requests(), [&](const net::ScriptedRequest& request) { return request.head.starts_with(begin); }));
  }

  int fd_ = -1;
  std::string path_;
  std::function<void(const net::ScriptedRequest&)> before_answer_ = [](const net::ScriptedRequest&) {};
  net::ScriptedServer server_{[this](const net::ScriptedRequest& request, int) {
    before_answer_(request);
    if (request.has("?uploads")) {
      return net::http_reply(200, "",
                             "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>");
    }
    return net::http_reply(200, "etag: \"e\"\r\n",
                           "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>");
  }};
};

// Its second half was read after the change: an object of both, which `sync` took for the file.
TEST_F(Upload, OfAFileThatChangesWhileItIsReadStoresNothing) {
  make(70 * MiB);
  before_answer_ = [this](const net::ScriptedRequest& request) {
    if (request.has("?uploads")) write_at_begin();  // 64 MiB are read before
  };
  const auto put = run();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::local_error);
  EXPECT_NE(put.error().message.find("changed while it was read"), std::string::npos) << put.error().message;
  EXPECT_EQ(count("POST /b/k?uploadId"), 0u);
  EXPECT_EQ(count("DELETE /b/k?uploadId"), 1u);
}

// The object is newer than the change, so that nothing would ever copy it.
TEST_F(Upload, OfAFileThatChangesBeforeItIsStoredIsMadeAgain) {
  make(1000);
  std::atomic<bool> once{false};
  before_answer_ = [&](const net::ScriptedRequest& request) {
    if (request.head.starts_with("PUT ") && !once.exchange(true)) write_at_begin();
  };
  const auto put = run();
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(count("PUT "), 2u);
  EXPECT_TRUE(server_.requests().back().body.starts_with("new"));
}

TEST_F(Upload, OfAFileThatAlwaysChangesIsAnError) {
  make(1000);
  std::atomic<int> changes{0};
  before_answer_ = [&](const net::ScriptedRequest& request) {
    if (request.head.starts_with("PUT ")) make(1001 + static_cast<uint64_t>(changes++));
  };
  const auto put = run();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::local_error);
  EXPECT_EQ(count("PUT "), 3u);
}

}  // namespace
}  // namespace verbena::cli
