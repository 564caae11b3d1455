#include "net/http_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "net/testing/scripted_server.h"

namespace verbena::net {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<HttpClient> client_for(const ScriptedServer& server, std::chrono::milliseconds stall = 5s) {
  HttpOptions options{.host = "127.0.0.1", .port = server.port()};
  options.stall_timeout = stall;
  auto client = HttpClient::create(options);
  EXPECT_TRUE(client);
  return std::move(*client);
}

TEST(HttpClient, KeepsAConnectionForTheNextRequest) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "X-Thing:  a  \r\n", "hello"); });
  auto client = client_for(server);
  for (int i = 0; i < 3; ++i) {
    auto reply = client->request({.target = "/x"});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "hello");
    EXPECT_EQ(reply->header("x-thing"), "a");
  }
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(client->peer_address(), "127.0.0.1");
  EXPECT_EQ(client->local_address(), "127.0.0.1");
}

// The first of two attempts may have arrived, whatever the outcome of the second.
TEST(HttpClient, AChangeThatBrokeOffIsNeverSaidNotToHaveBeenSent) {
  for (const std::string method : {"PUT", "GET"}) {
    std::function<void()> refuse;
    ScriptedServer server([&](const ScriptedRequest&, int number) {
      if (number == 0) return http_reply(200, "", "");
      refuse();
      return std::string();
    });
    refuse = [&server] { server.refuse(); };
    auto client = client_for(server);
    ASSERT_TRUE(client->request({.method = method, .target = "/x", .replayable = true}));
    const auto again = client->request({.method = method, .target = "/x", .replayable = true});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, method == "PUT" ? Errc::closed : Errc::connection_failed);
  }
}

TEST(HttpClient, AStopAfterTheReplyIsNoConcernOfTheNextRequest) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", "hello"); });
  auto client = client_for(server);
  std::stop_source source;
  ASSERT_TRUE(client->request({.target = "/x", .stop = source.get_token()}));
  source.request_stop();
  ASSERT_TRUE(client->request({.target = "/x"}));
  EXPECT_EQ(server.connections(), 1);
  const auto stopped = client->request({.target = "/x", .stop = source.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Errc::cancelled);
}

// Answers wait until it has run often enough.
class Counting final : public Meanwhile {
 public:
  explicit Counting(Sleep sleep) : sleep_(sleep) {}
  Sleep run() override {
    char byte = 0;
    if (sleep_.fd >= 0) (void)!::read(sleep_.fd, &byte, 1);
    ++runs;
    return sleep_;
  }
  bool comes_to(int wanted) const {
    for (int i = 0; i < 5000 && runs < wanted; ++i) std::this_thread::sleep_for(1ms);
    return runs >= wanted;
  }
  std::atomic<int> runs = 0;

 private:
  Sleep sleep_;
};

TEST(HttpClient, WhatACallerDoesMeanwhileIsDoneWheneverItsDescriptorIsReadable) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
  Counting meanwhile({.fd = pipe[0], .at_most = 1h});
  ScriptedServer server([&](const ScriptedRequest&, int) {
    bool all = meanwhile.comes_to(1);
    for (int wakes = 1; wakes <= 3; ++wakes) {
      const int before = meanwhile.runs;
      all = ::write(pipe[1], "x", 1) == 1 && meanwhile.comes_to(before + 1) && all;
    }
    return http_reply(all ? 200 : 500, "", "hello");
  });
  const auto reply = client_for(server, 30s)->request({.target = "/x", .meanwhile = &meanwhile});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(HttpClient, WhatACallerDoesMeanwhileIsDoneInTimeAndIsNoConcernOfTheNextRequest) {
  auto meanwhile = std::make_unique<Counting>(Meanwhile::Sleep{.fd = -1, .at_most = 1ms});
  Counting* often = meanwhile.get();
  ScriptedServer server([&](const ScriptedRequest&, int number) {
    if (number != 0) std::this_thread::sleep_for(20ms);
    return http_reply(number != 0 || often->comes_to(5) ? 200 : 500, "", "hello");
  });
  auto client = client_for(server, 30s);
  const auto reply = client->request({.target = "/x", .meanwhile = meanwhile.get()});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  const int runs = meanwhile->runs;
  ASSERT_TRUE(client->request({.target = "/x"}));
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(meanwhile->runs, runs);
}

TEST(HttpClient, ReceivesABodyStraightIntoMemory) {
  const std::string body(300'000, 'b');
  ScriptedServer server([&](const ScriptedRequest&, int) { return http_reply(200, "", body); });
  auto client = client_for(server);
  std::vector<std::byte> memory(body.size() + 10);
  HttpRequest request;
  request.into = memory;
  auto reply = client->request(request);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body_bytes, body.size());
  EXPECT_TRUE(reply->body.empty());
  EXPECT_EQ(as_text(Bytes(memory).first(body.size())), body);
}

TEST(HttpClient, ABodyThatDoesNotFitTheMemoryIsTooLarge) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", "12345"); });
  auto client = client_for(server);
  std::vector<std::byte> memory(4);
  HttpRequest request;
  request.into = memory;
  auto reply = client->request(request);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::too_large);
}

TEST(HttpClient, TakesChunkedFramingOff) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return std::string("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
  });
  auto client = client_for(server);
  for (int i = 0; i < 2; ++i) {
    auto reply = client->request({});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->body, "hello world");
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, ABodyWithoutLengthEndsWithTheConnection) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return std::string("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall of it"); });
  auto client = client_for(server);
  auto reply = client->request({});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "all of it");
}

TEST(HttpClient, SkipsInterimReplies) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return "HTTP/1.1 100 Continue\r\n\r\n" + http_reply(200, "", "final"); });
  auto client = client_for(server);
  auto reply = client->request({.method = "PUT", .body = as_bytes("x")});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "final");
}

TEST(HttpClient, AReplyCutShortIsAnError) {
  ScriptedServer server([](const ScriptedRequest&, int) {
    return std::string("HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nonly this");
  });
  auto client = client_for(server);
  auto reply = client->request({});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::closed);
}

TEST(HttpClient, ReplaysOnAFreshConnectionWhenAKeptOneIsDead) {
  // The second request on a connection gets no reply at all.
  std::atomic<int> served{0};
  ScriptedServer server(
      [&](const ScriptedRequest&, int) { return ++served == 2 ? std::string() : http_reply(200, "", "ok"); });
  auto client = client_for(server);
  ASSERT_TRUE(client->request({}));
  auto again = client->request({.replayable = true});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->body, "ok");
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpClient, DoesNotReplayWhatMayHaveHappened) {
  std::atomic<int> served{0};
  ScriptedServer server(
      [&](const ScriptedRequest&, int) { return ++served == 2 ? std::string() : http_reply(200, "", "ok"); });
  auto client = client_for(server);
  ASSERT_TRUE(client->request({}));
  auto again = client->request({.method = "POST"});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::closed);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(HttpClient, AClosedPortIsConnectionFailed) {
  uint16_t port = 0;
  {
    ScriptedServer server([](const ScriptedRequest&, int) { return std::string(); });
    port = server.port();
  }
  auto client = HttpClient::create({.host = "127.0.0.1", .port = port});
  ASSERT_TRUE(client);
  auto reply = (*client)->request({});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::connection_failed);
}

TEST(HttpClient, ASilentServerTimesOut) {
  std::atomic<bool> go_on{false};
  ScriptedServer server([&](const ScriptedRequest&, int) {
    while (!go_on) std::this_thread::yield();
    return std::string();
  });
  auto client = client_for(server, 50ms);
  auto reply = client->request({});
  go_on = true;
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::timed_out);
}

TEST(HttpClient, AnAddressThatIsNotAllowedIsNotConnectedTo) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", ""); });
  HttpOptions options{.host = "localhost", .port = server.port()};
  options.allowed = [](const std::string&) { return false; };
  EXPECT_EQ(HttpClient::create(options).value()->request({}).error(), Errc::access_denied);
  EXPECT_EQ(server.connections(), 0);
  options.allowed = [](const std::string& address) { return address == "127.0.0.1"; };
  EXPECT_TRUE(HttpClient::create(options).value()->request({}));
}

TEST(HttpClient, NothingIsSentWhereTheLastCheckSaysNo) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", ""); });
  const auto client = client_for(server);
  int asked = 0;
  HttpRequest request{.replayable = true};
  request.before_sending = [&]() -> Result<void> {
    if (++asked == 1) return {};
    return fail(Errc::cancelled, "no");
  };
  EXPECT_TRUE(client->request(request));
  EXPECT_EQ(client->request(request).error(), Errc::cancelled);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClient, RefusesLineBreaksInHeaders) {
  ScriptedServer server([](const ScriptedRequest&, int) { return http_reply(200, "", ""); });
  auto client = client_for(server);
  auto reply = client->request({.headers = {{"x-a", "b\r\nx-evil: 1"}}});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::invalid_argument);
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClient, AHugeHeaderIsRefused) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return http_reply(200, "x-long: " + std::string(200'000, 'a') + "\r\n", ""); });
  auto client = client_for(server);
  auto reply = client->request({});
  ASSERT_FALSE(reply);
}

TEST(HttpClient, GarbageIsMalformed) {
  ScriptedServer server([](const ScriptedRequest&, int) { return std::string("no http at all\r\n\r\n"); });
  auto client = client_for(server);
  auto reply = client->request({});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::malformed);
}

TEST(HttpClient, ALargeBodyArrivesWhole) {
  std::string seen;
  ScriptedServer server([&](const ScriptedRequest& request, int) {
    seen = request.body;
    return http_reply(200, "", "");
  });
  auto client = client_for(server);
  const std::string body(3'000'000, 'q');
  ASSERT_TRUE(client->request({.method = "PUT", .body = as_bytes(body)}));
  EXPECT_EQ(seen, body);
}

TEST(HttpClient, HeadHasALengthAndNoBody) {
  ScriptedServer server(
      [](const ScriptedRequest&, int) { return std::string("HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n"); });
  auto client = client_for(server);
  for (int i = 0; i < 2; ++i) {
    auto reply = client->request({.method = "HEAD"});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->content_length, 12345u);
    EXPECT_TRUE(reply->body.empty());
  }
  EXPECT_EQ(server.connections(), 1);
}

}  // namespace
}  // namespace verbena::net
