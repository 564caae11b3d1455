// What may have happened at one door is not done again at the next: a server whose native door is stuck, with its S3
// port apart.
#include <gtest/gtest.h>

#include <future>

#include "client/native_test_server.h"
#include "client/scripted_server.h"
#include "verbena/client.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

class Repeat : public testing::Test {
 protected:
  void SetUp() override {
    native_.store.put("bucket", "k", "bytes");
    native_.store.is_hot = [this](std::string_view key) {
      if (key == "stuck") {
        is_stuck_.set_value();
        let_go_.get_future().wait();
      }
      return false;
    };
    ClientOptions options;
    options.endpoint = http_.url();
    options.native_endpoint = "127.0.0.1:" + std::to_string(native_.port);
    options.access_key = "AKROOT";
    options.secret_key = "secret/root";
    options.provider = "local";
    options.operation_timeout = 300ms;
    options.attempts_max = 3;
    auto connected = Client::connect(options);
    ASSERT_TRUE(connected) << connected.error().message;
    client_.emplace(std::move(*connected));
    const auto info = client_->head("bucket", "k");  // opens the session
    ASSERT_TRUE(info) << info.error().message;
    ASSERT_TRUE(http_.requests().empty());
    // The server's only core answers nobody while this is read.
    session_ = native_.session();
    ASSERT_TRUE(session_);
    reader_ = std::async(std::launch::async, [this] {
      std::string into(10, '\0');
      NativeGet request;
      request.bucket = "bucket";
      request.key = "stuck";
      request.into = std::as_writable_bytes(std::span(into.data(), into.size()));
      return session_->get(request).has_value();
    });
    is_stuck_.get_future().wait();
  }
  void TearDown() override {
    if (!reader_.valid()) return;
    let_go_.set_value();
    EXPECT_FALSE(reader_.get());  // there is no such object
    client_.reset();
    session_.reset();
  }
  size_t deletes() const {
    return static_cast<size_t>(std::ranges::count_if(
        http_.requests(), [](const ScriptedRequest& request) { return request.head.starts_with("DELETE"); }));
  }

  std::promise<void> is_stuck_, let_go_;
  NativeTestServer native_{{.cores = 1}};
  ScriptedServer http_{[](const ScriptedRequest&, int) { return http_reply(204, "", ""); }};
  std::optional<Client> client_;
  std::unique_ptr<NativeSession> session_;
  std::future<bool> reader_;
};

TEST_F(Repeat, ARemoveWithoutAnAnswerIsNotMadeAgainByHttp) {
  const auto removed = client_->remove("bucket", "k");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::timed_out) << removed.error().message;
  EXPECT_EQ(deletes(), 0u);
}

TEST_F(Repeat, ABatchOfRemovesWithoutAnAnswerIsNotMadeAgainByHttp) {
  const BatchItem items[] = {{.bucket = "bucket", .key = "k"}, {.bucket = "bucket", .key = "l"}};
  BatchResult results[2];
  const auto removed = client_->remove_many(items, results);
  ASSERT_FALSE(removed);
  EXPECT_EQ(results[0].error, ErrorCode::timed_out);
  EXPECT_EQ(results[1].error, ErrorCode::timed_out);
  EXPECT_EQ(deletes(), 0u);
}

// The rule is the door's, not the client's: what can be made twice goes on by HTTP.
TEST_F(Repeat, AHeadWithoutAnAnswerIsAskedAgainByHttp) {
  (void)client_->head("bucket", "k");
  EXPECT_FALSE(http_.requests().empty());
}

}  // namespace
}  // namespace verbena::client
