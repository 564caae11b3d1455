#include "client/http/s3_http.h"

#include <gtest/gtest.h>

#include "net/testing/hostile_server.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

// An S3 request had no deadline of its own: a server that sent a little at intervals held it without end.
TEST(S3HttpTest, OneThatSaysALittleAllTheTimeDoesNotHoldAnS3Request) {
  net::HostileServer server([](net::HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 OK\r\n");
    while (self.say(fd, "x-a: b\r\n")) std::this_thread::sleep_for(20ms);
  });
  net::HttpOptions options{.host = "127.0.0.1", .port = server.port()};
  options.stall_timeout = 300ms;
  const auto http = net::HttpClient::create(options).value();
  S3Http s3(*http, {});
  std::vector<std::byte> into(100);
  const auto got = s3.call({.method = "GET", .bucket = "bucket", .key = "key", .into = into});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::timed_out) << got.error().message;
}

// Every later request to the bucket waited for it.
TEST(BucketSessionsOfAClient, AnExceptionWhileOneIsOpenedLeavesNobodyWaiting) {
  BucketSessions sessions;
  const auto throws = []() -> Outcome<auth::Credentials> { throw std::bad_alloc(); };
  EXPECT_THROW((void)sessions.get("b--x-s3", {}, throws), std::bad_alloc);
  std::stop_source over;
  over.request_stop();  // who would wait is cancelled
  const auto opened =
      sessions.get("b--x-s3", over.get_token(), [] { return Outcome<auth::Credentials>({"AK", "secret", ""}); });
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->access_key, "AK");
}

}  // namespace
}  // namespace verbena::client
