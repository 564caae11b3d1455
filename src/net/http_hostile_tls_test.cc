// Servers that keep TLS itself busy: their TLS messages are no reply, and must not hold a request for ever.
#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/testing/hostile_server.h"
#include "net/testing/tls_talk.h"

namespace verbena::net {
namespace {

using namespace std::chrono_literals;

class HostileTls : public ::testing::Test {
 protected:
  // Answers each connection's first requests with `replies`, then sends only session tickets.
  HostileServer::Act replies_then_tickets(int replies) {
    return [this, replies](HostileServer& server, int fd) {
      TlsTalk talk(server, fd, context_.get());
      if (!talk.shake_hands()) return;
      for (int i = 0; i < replies; ++i) {
        if (!talk.read_head() || !talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")) return;
      }
      talk.say_tickets_forever();
    };
  }
  static std::unique_ptr<HttpClient> client_for(const HostileServer& server) {
    HttpOptions options{.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true};
    options.stall_timeout = 500ms;
    return HttpClient::create(options).value();
  }
  static void expect_timed_out(HttpClient& client, const HttpRequest& request = {}) {
    const auto reply = client.request(request);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Errc::timed_out) << describe(reply.error());
  }

  ContextPtr context_ = make_identity().context;
};

TEST_F(HostileTls, SessionTicketsWithoutEndAreNoReply) {
  HostileServer server(replies_then_tickets(0), HostileServer::at_once);
  const auto client = client_for(server);
  expect_timed_out(*client);
  const std::string body(32 * MiB, 'b');  // during the upload the client checks for an early answer
  expect_timed_out(*client, {.method = "PUT", .body = as_bytes(body)});
}

TEST_F(HostileTls, SessionTicketsWithoutEndDoNotOutliveTheDeadline) {
  HostileServer server(replies_then_tickets(0), HostileServer::at_once);
  HttpOptions options{.host = "127.0.0.1", .port = server.port(), .tls = true, .insecure = true};
  const auto client = HttpClient::create(options).value();
  expect_timed_out(*client, {.deadline = deadline_in(1s)});
}

// The connection was kept; before the next request the client checks it for pending bytes.
TEST_F(HostileTls, SessionTicketsOnAKeptConnectionHoldNobody) {
  HostileServer server(replies_then_tickets(1), HostileServer::at_once);
  const auto client = client_for(server);
  const auto first = client->request({});
  ASSERT_TRUE(first) << describe(first.error());
  EXPECT_EQ(first->body, "ok");
  expect_timed_out(*client);
}

}  // namespace
}  // namespace verbena::net
