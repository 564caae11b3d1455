#include <gtest/gtest.h>

#include <boost/asio/post.hpp>

#include "base/metrics.h"
#include "fabric/ofi/address.h"
#include "fabric/ofi/testing.h"

namespace verbena::fabric::ofi {
namespace {

using testing::eventually;
using testing::TestClient;
using testing::TestServer;

// Answers every message with itself, to the address in a client's first message. A connection in progress takes no
// answer: on a device the first message may arrive before the event that it is established.
struct Echo {
  explicit Echo(TestServer& server) : port(server.fabric->port()), io(server.core.io()) {
    server.call([this] {
      port.on_message([this](PeerId, Bytes message) {
        ++messages;
        if (as_text(message).starts_with("hello ")) {
          const auto peer = port.add_peer(as_text(message).substr(6));
          if (peer) last = *peer;
          return;
        }
        answer(last, std::string(as_text(message)), deadline_in(std::chrono::seconds(10)));
      });
      port.on_gone([this](PeerId) { ++gone; });
    });
  }
  void answer(PeerId peer, std::string message, Deadline deadline) {
    const auto sent = port.send(peer, as_bytes(message));
    if (sent) return;
    if (sent.error() != Errc::would_block || SteadyClock::now() > deadline) {
      ++refused;
      return;
    }
    boost::asio::post(io, [this, peer, message = std::move(message), deadline] { answer(peer, message, deadline); });
  }
  Port& port;
  boost::asio::io_context& io;
  PeerId last = 0;
  std::atomic<int> messages{0};
  std::atomic<int> refused{0};
  std::atomic<int> gone{0};
};

// A client that has had an answer and stops reading, and the server's peer for it.
std::pair<std::unique_ptr<TestClient>, PeerId> join_and_freeze(TestServer& server, Echo& echo) {
  auto client = std::make_unique<TestClient>(&server);
  EXPECT_TRUE(client->send(as_bytes("hello " + client->link->address())));
  EXPECT_TRUE(client->send(as_bytes("ping")));
  EXPECT_TRUE(eventually([&] { return !client->received().empty(); }));
  client->freeze(true);
  return {std::move(client), server.call([&] { return echo.last; })};
}

// A peer that reads nothing stays connected however slow this machine is.
Options patient() {
  Options options = testing::test_options();
  options.send_deadline = std::chrono::minutes(10);
  return options;
}

// Sends until the peer's queue is full. Many in one call: each frozen peer of soft-RoCE costs this machine time, for
// its device is sent everything again and again.
bool fill(TestServer& server, PeerId peer) {
  const std::string big(server.fabric->port().message_size_max(), 'x');
  std::string last = "was sent";
  const bool full = eventually(
      [&] {
        return server.call([&] {
          for (int i = 0; i < 1000; ++i) {
            const auto sent = server.fabric->port().send(peer, as_bytes(big));
            if (sent) continue;
            last = describe(sent.error());
            return sent.error().code == Errc::would_block;
          }
          return false;
        });
      },
      std::chrono::seconds(90));
  if (!full) ADD_FAILURE() << "the last message: " << last;
  return full;
}

void another_is_served(TestServer& server) {
  TestClient other(&server);
  ASSERT_TRUE(other.send(as_bytes("hello " + other.link->address())));
  ASSERT_TRUE(other.send(as_bytes("me too")));
  EXPECT_TRUE(eventually([&] { return !other.received().empty(); }));
}

TEST(OfiMessages, GoBothWays) {
  TestServer server;
  ASSERT_TRUE(server.fabric) << describe(server.error);
  Echo echo(server);
  TestClient client(&server);
  ASSERT_TRUE(client.send(as_bytes("hello " + client.link->address())));
  ASSERT_TRUE(client.send(as_bytes("how do you do")));
  EXPECT_TRUE(eventually([&] { return client.received() == std::vector<std::string>{"how do you do"}; }));
}

TEST(OfiMessages, OfTheFullSizeArriveWhole) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  TestClient client(&server);
  ASSERT_TRUE(client.send(as_bytes("hello " + client.link->address())));
  std::string big(client.link->message_size_max(), 'x');
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>('a' + i % 26);
  ASSERT_TRUE(client.send(as_bytes(big)));
  EXPECT_TRUE(eventually([&] { return !client.received().empty(); }));
  EXPECT_EQ(client.received().front(), big);
}

TEST(OfiMessages, LongerThanTheLimitAreRefusedBeforeSending) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  TestClient client(&server);
  const std::string big(client.link->message_size_max() + 1, 'x');
  const auto sent = client.send(as_bytes(big));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::too_large);
}

TEST(OfiMessages, OversizedOnesFromAPeerAreDroppedAndOthersGoOn) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  Options larger = testing::test_options();
  larger.message_size_max = 64 * KiB;
  TestClient hostile(&server, larger);
  const std::string big(64 * KiB, 'x');
  static_cast<void>(hostile.send(as_bytes(big)));
  TestClient client(&server);
  ASSERT_TRUE(client.send(as_bytes("hello " + client.link->address())));
  ASSERT_TRUE(client.send(as_bytes("still here")));
  EXPECT_TRUE(eventually([&] { return !client.received().empty(); }));
}

TEST(OfiMessages, ManyClientsAreServed) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<TestClient>(&server));
    ASSERT_TRUE(clients.back()->send(as_bytes("message")));
  }
  EXPECT_TRUE(eventually([&] { return echo.messages == 12; }));
}

TEST(OfiMessages, APeerThatDoesNotReadGetsWouldBlockAndOthersDoNotNotice) {
  TestServer server(patient());
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  const auto [frozen, peer] = join_and_freeze(server, echo);
  EXPECT_TRUE(fill(server, peer));
  another_is_served(server);
  EXPECT_EQ(echo.refused, 0);
}

// Four of them, each with its share, had all of the slots.
TEST(OfiMessages, SeveralPeersThatDoNotReadLeaveSlotsToOthers) {
  TestServer server(patient());
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  std::vector<std::unique_ptr<TestClient>> frozen;
  std::vector<PeerId> peers;
  for (int i = 0; i < 6; ++i) {
    auto [client, peer] = join_and_freeze(server, echo);
    frozen.push_back(std::move(client));
    peers.push_back(peer);
  }
  for (const PeerId peer : peers) EXPECT_TRUE(fill(server, peer));
  another_is_served(server);
  EXPECT_EQ(echo.refused, 0);
}

TEST(OfiMessages, ToAPeerThatNeverReadsGiveTheirSlotsBack) {
  Options options = testing::test_options();
  options.send_deadline = std::chrono::milliseconds(500);
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  Echo echo(server);
  const auto [frozen, peer] = join_and_freeze(server, echo);
  const std::string big(server.fabric->port().message_size_max(), 'x');
  auto& cut = metrics::counter("verbena_fabric_connections_stalled_total", "");
  const uint64_t before = cut.value();
  EXPECT_TRUE(eventually([&] {
    server.call([&] { return server.fabric->port().send(peer, as_bytes(big)).has_value(); });
    return cut.value() > before;
  }));
  if (options.provider != "tcp") {
    EXPECT_TRUE(eventually([&] { return echo.gone == 1; })) << "the layer above is notified";
    const auto sent = server.call([&] { return server.fabric->port().send(peer, as_bytes("late")); });
    EXPECT_EQ(sent ? Errc::ok : sent.error().code, Errc::closed);
  }
  another_is_served(server);
}

TEST(OfiMessages, PeersWithGarbageForAnAddressAreRefused) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Port& port = server.fabric->port();
  const std::string own = port.address();
  std::vector<std::string> bad = {"",
                                  "x",
                                  std::string(15, '\0'),
                                  std::string(16, '\0'),
                                  std::string(28, '\xff'),
                                  std::string(4096, 'a'),
                                  "fi_sockaddr_in://127.0.0.1:80",
                                  own,
                                  own + '\0'};
  const EndpointAddress wildcard{boost::asio::ip::make_address("0.0.0.0"), 80};
  const EndpointAddress everyone{boost::asio::ip::make_address("255.255.255.255"), 80};
  const EndpointAddress group{boost::asio::ip::make_address("224.0.0.1"), 80};
  const EndpointAddress portless{boost::asio::ip::make_address("127.0.0.1"), 0};
  for (const auto& address : {wildcard, everyone, group, portless}) bad.push_back(encode_socket_name(address));
  for (const auto& address : bad) {
    EXPECT_FALSE(server.call([&] { return port.add_peer(address).has_value(); })) << to_hex(as_bytes(address));
  }
}

TEST(OfiMessages, ToARemovedPeerAreRefused) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Port& port = server.fabric->port();
  TestClient client(&server);
  const auto peer = server.call([&] { return port.add_peer(client.link->address()); });
  ASSERT_TRUE(peer);
  server.call([&] { port.remove_peer(*peer); });
  const auto sent = server.call([&] { return port.send(*peer, as_bytes("gone")); });
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::closed);
  const auto window = server.call([&] { return port.open_window(*peer, {0, 1, 1}, Access::server_writes); });
  EXPECT_FALSE(window);
}

TEST(OfiOptions, APortRangeIsObeyedAndItsEndIsAnError) {
  TestServer any;
  ASSERT_TRUE(any.fabric);
  const auto taken = decode_socket_name(any.fabric->port().address());
  if (!taken) GTEST_SKIP() << "the provider has no ports";
  Options options = testing::test_options();
  options.port_first = options.port_last = taken->port;
  TestServer refused(options);
  EXPECT_FALSE(refused.fabric);
  EXPECT_EQ(refused.error.code, Errc::bad_config);
  // A range that contains the taken port finds another.
  options.port_first = static_cast<uint16_t>(taken->port - 20);
  TestServer ranged(options);
  if (!ranged.fabric) GTEST_SKIP() << "twenty ports below are taken too";
  const auto other = decode_socket_name(ranged.fabric->port().address());
  ASSERT_TRUE(other);
  EXPECT_LT(other->port, taken->port);
  EXPECT_GE(other->port, taken->port - 20);
}

TEST(OfiOptions, KeysThatTcpCannotHonourAreErrors) {
  for (int key = 0; key < 6; ++key) {
    Options options;
    options.provider = "tcp";
    if (key == 0) options.device_name = "mlx5_0";
    if (key == 1) options.ib_port = 1;
    if (key == 2) options.gid_index = "3";
    if (key == 3) options.max_sge = 4000;
    if (key == 4) options.cq_size = 16;
    if (key == 5) options.provider = "carrier-pigeon";
    TestServer server(options);
    EXPECT_FALSE(server.fabric) << key;
    EXPECT_EQ(server.error.code, Errc::bad_config) << key;
  }
}

TEST(OfiOptions, NeitherShmNorSocketsIsAProvider) {
  for (const char* provider : {"shm", "sockets", "ofi_hook_noop", "udp"}) {
    Options options;
    options.provider = provider;
    TestServer server(options);
    EXPECT_FALSE(server.fabric) << provider;
  }
}

TEST(OfiOptions, DiscoveryFindsTcpOnLoopback) {
  bool found = false;
  for (const auto& provider : discover())
    found = found || (provider.provider == "tcp" && provider.address == "127.0.0.1");
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace verbena::fabric::ofi
