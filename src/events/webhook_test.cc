#include "events/webhook.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "events/run_task.h"
#include "net/testing/hostile_server.h"

namespace verbena::events {
namespace {

using net::HostileServer, net::ScriptedRequest, net::ScriptedServer, net::http_reply;

struct Hook {
  explicit Hook(uint16_t port) {
    TargetSettings settings{.name = "w", .host = "127.0.0.1", .port = port, .path = "/in?x=1"};
    settings.secret = "t0ken";
    settings.allow_private = true;
    target = make_webhook(settings).value();
  }
  Result<void> deliver(const std::vector<std::string>& messages) {
    boost::asio::io_context io;
    return run_task(io, target->deliver(messages, delivered));
  }
  std::unique_ptr<Target> target;
  size_t delivered = 0;
};

TEST(WebhookTest, EventsArePostedInOrderOverOneConnection) {
  ScriptedServer server([](const ScriptedRequest&, int number) { return http_reply(number == 2 ? 413 : 204, "", ""); });
  Hook hook(server.port());
  const auto refused = hook.deliver({"{1}", "{2}", "{3}", "{4}"});
  EXPECT_EQ(refused.error(), Errc::invalid_request);
  EXPECT_EQ(hook.target->said(), "status 413");
  EXPECT_EQ(hook.delivered, 2u);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_TRUE(requests[0].head.starts_with("POST /in?x=1 HTTP/1.1\r\n"));
  EXPECT_TRUE(requests[0].has("Authorization: Bearer t0ken\r\n"));
  EXPECT_TRUE(requests[0].has("Content-Type: application/json\r\n"));
  EXPECT_EQ(requests[1].body, "{2}");
  EXPECT_EQ(server.connections(), 1);
}

TEST(WebhookTest, AConnectionThatWasClosedMeanwhileCostsNoDelivery) {
  ScriptedServer server(
      [](const ScriptedRequest&, int number) { return number == 1 ? std::string() : http_reply(200, "", ""); });
  Hook hook(server.port());
  EXPECT_TRUE(hook.deliver({"{1}", "{2}"}));
  EXPECT_EQ(hook.delivered, 2u);
  EXPECT_EQ(server.connections(), 2);
}

TEST(WebhookTest, AnAnswersBodyNeedNotEnd) {
  HostileServer server([](HostileServer& self, int fd) {
    self.say(fd, "HTTP/1.1 200 OK\r\n\r\n");
    self.say_forever(fd, "thank you ");
  });
  Hook hook(server.port());
  EXPECT_TRUE(hook.deliver({"{1}", "{2}"}));
  EXPECT_EQ(hook.delivered, 2u);
}

TEST(WebhookTest, ASilentOneIsLeftWhenTheServerEnds) {
  std::atomic<bool> asked = false;
  HostileServer server([&](HostileServer& self, int fd) {
    asked = true;
    asked.notify_all();
    self.wait(fd);
  });
  Hook hook(server.port());
  std::thread ender([&] {
    asked.wait(false);
    hook.target->cut();
  });
  const auto cut = hook.deliver({"{1}"});
  EXPECT_EQ(cut.error(), Errc::cancelled);
  EXPECT_EQ(hook.delivered, 0u);
  ender.join();
}

}  // namespace
}  // namespace verbena::events
