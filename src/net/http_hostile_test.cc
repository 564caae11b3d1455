// Servers that lie, stop in the middle, or never stop. Each test ends with an error, or with a complete reply.
#include <gtest/gtest.h>

#include <atomic>

#include "net/http_client.h"
#include "net/testing/hostile_server.h"

namespace verbena::net {
namespace {

using namespace std::chrono_literals;

constexpr size_t much = 32 * MiB;  // more than a bounded client and two sockets' buffers take

Result<HttpReply> ask(uint16_t port, HttpRequest request = {}, std::chrono::milliseconds stall = 20s) {
  HttpOptions options{.host = "127.0.0.1", .port = port};
  options.stall_timeout = stall;
  auto client = HttpClient::create(options);
  EXPECT_TRUE(client);
  return (*client)->request(request);
}

Errc error_of(uint16_t port, HttpRequest request = {}, std::chrono::milliseconds stall = 20s) {
  const auto reply = ask(port, std::move(request), stall);
  return reply ? Errc::ok : reply.error().code;
}

Errc error_of_reply(std::string reply, HttpRequest request = {}) {
  HostileServer server([&](HostileServer& self, int fd) { self.say(fd, reply); });
  return error_of(server.port(), std::move(request));
}

TEST(HostileServers, HeadersWithoutEndAreRefused) {
  for (const char* line : {"x-a: bbbbbbbbbbbbbbbb\r\n", "aaaaaaaaaaaaaaaa", " folded\r\n"}) {
    HostileServer server([&](HostileServer& self, int fd) {
      self.say(fd, "HTTP/1.1 200 OK\r\nx: y\r\n");
      self.say_forever(fd, line);
    });
    const Errc error = error_of(server.port());
    EXPECT_TRUE(error == Errc::too_large || error == Errc::malformed) << line << ": " << static_cast<int>(error);
    EXPECT_LT(server.said(), much);
  }
}

TEST(HostileServers, AStatusLineWithoutEndIsRefused) {
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 ");
    self.say_forever(fd, "O");
  });
  const Errc error = error_of(server.port());
  EXPECT_TRUE(error == Errc::too_large || error == Errc::malformed);
  EXPECT_LT(server.said(), much);
}

TEST(HostileServers, InterimRepliesWithoutEndAreRefused) {
  HostileServer server(
      [&](HostileServer& self, int fd) { self.say_forever(fd, "HTTP/1.1 100 Continue\r\nx-a: b\r\n\r\n"); });
  EXPECT_EQ(error_of(server.port()), Errc::malformed);
  EXPECT_LT(server.said(), much);
}

TEST(HostileServers, ABodyShorterThanDeclaredIsClosed) {
  const std::string reply = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + std::string(999, 'x');
  EXPECT_EQ(error_of_reply(reply), Errc::closed);
  std::vector<std::byte> memory(1000);
  EXPECT_EQ(error_of_reply(reply, {.into = memory}), Errc::closed);
  EXPECT_EQ(error_of_reply("HTTP/1.1 200 OK\r\ncontent-le"), Errc::closed);
  EXPECT_EQ(error_of_reply("HTTP/1.1 100 Continue\r\n\r\n"), Errc::closed);
}

TEST(HostileServers, WhatFollowsABodyIsNoReplyToTheNextRequest) {
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison");
    self.wait(fd);
  });
  auto client = HttpClient::create({.host = "127.0.0.1", .port = server.port()});
  ASSERT_TRUE(client);
  for (int i = 0; i < 2; ++i) {
    const auto reply = (*client)->request({});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->body, "first");
  }
  EXPECT_EQ(server.connections(), 2);
}

TEST(HostileServers, LengthsThatCannotBeAreRefused) {
  std::vector<std::byte> memory(100);
  for (const char* length : {"18446744073709551616", "99999999999999999999999", "-1", "0x10", "1 2", ""}) {
    const std::string reply = std::string("HTTP/1.1 200 OK\r\ncontent-length: ") + length + "\r\n\r\n0123456789";
    EXPECT_EQ(error_of_reply(reply, {.into = memory}), Errc::malformed) << length;
  }
  EXPECT_EQ(error_of_reply("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\nx", {.into = memory}),
            Errc::too_large);
  EXPECT_EQ(error_of_reply("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"), Errc::malformed);
  EXPECT_EQ(error_of_reply("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            Errc::malformed);
}

TEST(HostileServers, ChunksThatLieAreRefused) {
  const std::string head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  for (const char* body : {"zz\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n",
                           "10000000000000000\r\nhello", "\r\n\r\n"}) {
    EXPECT_EQ(error_of_reply(head + body), Errc::malformed) << body;
  }
  // The end is missing: a truncated body must not be taken for the whole.
  for (const char* body : {"", "5", "5\r\nhel", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "ffffffffffffff\r\nhello"}) {
    EXPECT_EQ(error_of_reply(head + body), Errc::closed) << body;
  }
  std::vector<std::byte> memory(4);
  EXPECT_EQ(error_of_reply(head + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", {.into = memory}), Errc::too_large);
}

TEST(HostileServers, ChunksWithoutEndAreBounded) {
  const std::string head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  struct Case {
    const char *first, *rest;
  };
  for (const Case& each : {Case{"", "5\r\nhello\r\n"}, Case{"5;", "extension"}, Case{"0\r\n", "x-trailer: y\r\n"}}) {
    HostileServer server([&](HostileServer& self, int fd) {
      self.say(fd, head + each.first);
      self.say_forever(fd, each.rest);
    });
    HttpRequest request;
    request.collected_body_max = MiB;
    const Errc error = error_of(server.port(), std::move(request));
    EXPECT_TRUE(error == Errc::too_large || error == Errc::malformed) << each.rest << ": " << static_cast<int>(error);
    EXPECT_LT(server.said(), much);
  }
}

TEST(HostileServers, ABodyWithoutLengthIsBounded) {
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 404 Not Found\r\n\r\n");
    self.say_forever(fd, "x");
  });
  std::vector<std::byte> memory(10);
  HttpRequest request;
  request.into = memory;
  request.collected_body_max = MiB;
  EXPECT_EQ(error_of(server.port(), std::move(request)), Errc::too_large);
  EXPECT_LT(server.said(), much);
}

// Each byte comes before the connection counts as stalled, so only the request's own deadline ends it.
TEST(HostileServers, BytesOneByOneDoNotOutliveTheDeadline) {
  const auto slowly = [](std::string_view head) {
    HostileServer server([&](HostileServer& self, int fd) {
      self.say(fd, head);
      while (self.say(fd, "a")) std::this_thread::sleep_for(5ms);
    });
    HttpRequest request;
    request.deadline = deadline_in(200ms);
    return error_of(server.port(), std::move(request));
  };
  EXPECT_EQ(slowly("HTTP/1.1 200 OK\r\nx-slow: "), Errc::timed_out);
  EXPECT_EQ(slowly("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"), Errc::timed_out);
  EXPECT_EQ(slowly("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffff\r\n"), Errc::timed_out);
}

TEST(HostileServers, OneThatDoesNotReadStallsARequest) {
  // Never accepts: the kernel takes connections and some bytes by itself.
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string body(much, 'q');
  HttpRequest put{.method = "PUT", .body = as_bytes(body)};
  EXPECT_EQ(error_of(ntohs(address.sin_port), put, 100ms), Errc::timed_out);
  EXPECT_EQ(error_of(ntohs(address.sin_port), {}, 100ms), Errc::timed_out);
  ::close(listener);
}

TEST(HostileServers, ARefusalThatComesBeforeTheWholeBodyIsRead) {
  HostileServer server([](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
    self.wait(fd);
  });
  const std::string body(much, 'q');
  const auto reply = ask(server.port(), {.method = "PUT", .body = as_bytes(body)});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 403);
  EXPECT_EQ(reply->body, "no");
}

TEST(HostileServers, AStopEndsTheWaitForOneThatIsSilent) {
  std::stop_source source;
  HostileServer server([&](HostileServer& self, int fd) {
    source.request_stop();
    self.wait(fd);
  });
  EXPECT_EQ(error_of(server.port(), {.stop = source.get_token()}), Errc::cancelled);
}

TEST(HostileServers, AHeadIsBoundedAsTheCallerSays) {
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 OK\r\nx: " + std::string(20 * KiB, 'y') + "\r\ncontent-length: 0\r\n\r\n");
    self.wait(fd);
  });
  HttpOptions options{.host = "127.0.0.1", .port = server.port()};
  EXPECT_TRUE(HttpClient::create(options).value()->request({}));
  options.head_bytes_max = 16 * KiB;
  EXPECT_EQ(HttpClient::create(options).value()->request({}).error(), Errc::too_large);
}

// Where the status says all, the rest of an answer is left, and the connection with it.
TEST(HostileServers, ABodyThatIsNotNeededIsNotReadToItsEnd) {
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n");
    self.say_forever(fd, "5\r\nhello\r\n");
  });
  HttpRequest request{.method = "POST", .collected_body_max = 64 * KiB, .status_suffices = true};
  const auto client = HttpClient::create({.host = "127.0.0.1", .port = server.port()}).value();
  for (int i = 1; i <= 2; ++i) {
    const auto reply = client->request(request);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 202);
    EXPECT_EQ(server.connections(), i);
  }
  EXPECT_LT(server.said(), much);
  request.status_suffices = false;
  EXPECT_EQ(client->request(request).error(), Errc::too_large);
}

TEST(HostileServers, ARedirectionIsAReplyAndIsNotFollowed) {
  HostileServer elsewhere([](HostileServer& self, int fd) { self.wait(fd); }, HostileServer::at_once);
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:" + std::to_string(elsewhere.port()) +
                     "/\r\ncontent-length: 0\r\n\r\n");
    self.wait(fd);
  });
  const auto reply = ask(server.port());
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 302);
  EXPECT_EQ(elsewhere.connections(), 0);
}

TEST(HostileServers, AFlagEndsTheWaitForOneThatIsSilent) {
  std::atomic<bool> flag = false;
  HostileServer server([&](HostileServer& self, int fd) {
    flag = true;
    self.wait(fd);
  });
  EXPECT_EQ(error_of(server.port(), {.stop = flag}), Errc::cancelled);
}

TEST(HostileServers, AStopEndsAReplyThatNeverPauses) {
  constexpr size_t length = 256 * MiB;
  std::stop_source source;
  HostileServer server([&](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(length) + "\r\n\r\n");
    self.say(fd, std::string(MiB, 'r'));
    source.request_stop();
    self.say_forever(fd, "r");
  });
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(length);
  const MutableBytes into(memory.get(), length);
  EXPECT_EQ(error_of(server.port(), {.into = into, .stop = source.get_token()}), Errc::cancelled);
}

TEST(HostileServers, OneThatSpeaksNoTlsIsAFailedConnection) {
  for (const std::string_view words : {"HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01", ""}) {
    HostileServer server([&](HostileServer& self, int fd) { self.say(fd, words); }, HostileServer::at_once);
    auto client = HttpClient::create({.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true});
    ASSERT_TRUE(client);
    const auto reply = (*client)->request({});
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Errc::connection_failed);
  }
}

// For a change the result is certain: nothing was sent.
TEST(HostileServers, OneThatOnlyListensIsAFailedConnection) {
  HostileServer server([&](HostileServer& self, int fd) { self.wait(fd); }, HostileServer::at_once);
  auto client = HttpClient::create(
      {.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true, .connect_timeout = 100ms});
  ASSERT_TRUE(client);
  const auto reply = (*client)->request({.method = "DELETE"});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::connection_failed);
}

}  // namespace
}  // namespace verbena::net
