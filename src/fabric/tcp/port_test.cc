#include <sys/resource.h>

#include <boost/asio/detached.hpp>

#include <future>

#include "fabric/tcp/test_support.h"

namespace verbena::fabric::tcp {
namespace {

// With and without encryption.
class TcpPortTest : public testing::TestWithParam<bool> {
 protected:
  Options options() const { return {.encrypt = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Encryption, TcpPortTest, testing::Values(false, true),
                         [](const auto& given) { return given.param ? "on" : "off"; });

TEST_P(TcpPortTest, MessagesGoBothWays) {
  TestServer server(options());
  TestClient client(server);
  ASSERT_TRUE(client.send(as_bytes("how do you do")));
  EXPECT_TRUE(eventually([&] { return client.received() == std::vector<std::string>{"how do you do"}; }));
  EXPECT_EQ(client.link->provider(), "tcp");
}

TEST_P(TcpPortTest, MessagesOfTheFullSizeArriveWholeAndLongerOnesAreNotSent) {
  TestServer server(options());
  TestClient client(server);
  std::string big(client.link->message_size_max(), 'x');
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>('a' + i % 26);
  ASSERT_TRUE(client.send(as_bytes(big)));
  ASSERT_TRUE(eventually([&] { return !client.received().empty(); }));
  EXPECT_EQ(client.received().front(), big);
  big.push_back('x');
  EXPECT_EQ(client.link->send(as_bytes(big)).error().code, Errc::too_large);
  EXPECT_EQ(server.call([&] { return server.port->send(server.last, as_bytes(big)); }).error().code, Errc::too_large);
}

TEST_P(TcpPortTest, ManyMessagesKeepTheirOrder) {
  TestServer server(options());
  TestClient client(server);
  std::vector<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    expected.push_back("message " + std::to_string(i) + std::string(static_cast<size_t>(i % 300), '.'));
    ASSERT_TRUE(client.send(as_bytes(expected.back())));
  }
  EXPECT_TRUE(eventually([&] { return client.received().size() == expected.size(); }));
  EXPECT_EQ(client.received(), expected);
}

TEST_P(TcpPortTest, TheServerWritesIntoLentMemoryAndOnlyThere) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(10 * MiB, std::byte{0xee});
  const auto lent = client.link->lend(MutableBytes(memory).subspan(MiB, 8 * MiB), Access::server_writes);
  ASSERT_TRUE(lent);
  auto window = server.window((*lent)->descriptor(), Access::server_writes);
  for (const size_t size : {size_t{1}, 4 * KiB, 65'537ul, 4 * MiB}) {
    SCOPED_TRACE(size);
    const auto lease = server.lease(size, 3);
    ASSERT_TRUE(server.write(*window, Bytes(lease.bytes()), 5));
    // A message arrives after the earlier writes.
    const size_t before = client.received().size();
    ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("there")); }));
    ASSERT_TRUE(eventually([&] { return client.received().size() > before; }));
    EXPECT_EQ(std::memcmp(memory.data() + MiB + 5, lease.data(), size), 0);
    EXPECT_EQ(memory[MiB + 4], std::byte{0xee});
    EXPECT_EQ(memory[MiB + 5 + size], std::byte{0xee});
    std::fill(memory.begin(), memory.end(), std::byte{0xee});
  }
}

TEST_P(TcpPortTest, WritesAtOnceGoTheSameWay) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(1 * MiB);
  const auto lent = client.link->lend(memory, Access::server_writes);
  auto window = server.window((*lent)->descriptor(), Access::server_writes);
  const auto lease = server.lease(256 * KiB, 9);
  ASSERT_TRUE(eventually([&] { return server.call([&] { return window->immediate_size_max(); }) >= 256 * KiB; }));
  ASSERT_TRUE(server.call([&] { return window->write_now(lease.bytes(), 100); }));
  ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("there")); }));
  ASSERT_TRUE(eventually([&] { return client.received().size() == 2; }));
  EXPECT_EQ(std::memcmp(memory.data() + 100, lease.data(), lease.size()), 0);
  EXPECT_FALSE(server.call([&] { return window->write_now(lease.bytes(), 900 * KiB); }));
}

TEST_P(TcpPortTest, SeveralWritesAtOnceEachGoToTheirPlace) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(1 * MiB), expected(memory.size());
  const auto lent = client.link->lend(memory, Access::server_writes);
  auto window = server.window((*lent)->descriptor(), Access::server_writes);
  const auto lease = server.lease(256 * KiB, 9);
  ASSERT_TRUE(eventually([&] { return server.call([&] { return window->immediate_size_max(); }) >= 256 * KiB; }));
  // Held frames, joined frames, and single frames in sequence. Five destinations are adjacent, the others are not.
  for (const size_t size : {10ul, 4 * KiB, 16 * KiB, 4 * KiB, 1ul}) {
    SCOPED_TRACE(size);
    std::ranges::fill(memory, std::byte{0});
    std::ranges::fill(expected, std::byte{0});
    std::vector<Window::Write> writes;
    for (size_t i = 0; i < Window::writes_max; ++i) {
      const Bytes from = Bytes(lease.bytes()).subspan((Window::writes_max - 1 - i) * size, size);
      writes.push_back({from, 77 + i * size + (i < 5 ? 0 : i % 3 * 20 * KiB)});
    }
    std::swap(writes[9], writes[14]);
    for (const auto& [from, at] : writes) std::ranges::copy(from, expected.begin() + static_cast<ptrdiff_t>(at));
    ASSERT_TRUE(server.call([&] { return window->write_all_now(writes); }));
    ASSERT_TRUE(server.call([&] { return window->write_all_now(writes); }));
    const size_t before = client.received().size();
    ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("there")); }));
    ASSERT_TRUE(eventually([&] { return client.received().size() > before; }));
    EXPECT_TRUE(memory == expected);
    writes[7].at = memory.size() - size + 1;
    EXPECT_FALSE(server.call([&] { return window->write_all_now(writes); }));
  }
}

TEST_P(TcpPortTest, TheServerReadsLentMemory) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(9 * MiB);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 251);
  const auto lent = client.link->lend(memory, Access::server_reads);
  auto window = server.window((*lent)->descriptor(), Access::server_reads);
  for (const size_t size : {size_t{1}, 4 * KiB, 65'537ul, 4 * MiB}) {
    SCOPED_TRACE(size);
    const auto lease = server.lease(size, 3);
    ASSERT_TRUE(server.read(*window, lease.bytes(), 12'345));
    EXPECT_EQ(std::memcmp(memory.data() + 12'345, lease.data(), size), 0);
  }
}

TEST_P(TcpPortTest, ManyTransfersAtOnceDoNotMixUp) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  constexpr size_t count = 12, size = 1'500'000;
  std::vector<std::vector<std::byte>> out(count), in(count);
  std::vector<std::unique_ptr<Lent>> lent;
  std::vector<std::shared_ptr<Window>> windows;
  std::vector<memory::Lease> leases;
  std::vector<std::future<Result<void>>> done;
  for (size_t i = 0; i < count; ++i) {
    out[i].assign(size, static_cast<std::byte>(i));
    in[i].resize(size);
    lent.push_back(*client.link->lend(out[i], Access::server_reads));
    windows.push_back(server.window(lent.back()->descriptor(), Access::server_reads));
    lent.push_back(*client.link->lend(in[i], Access::server_writes));
    windows.push_back(server.window(lent.back()->descriptor(), Access::server_writes));
    leases.push_back(server.lease(size, 0));
    leases.push_back(server.lease(size, static_cast<unsigned>(i) * 5));
  }
  for (size_t i = 0; i < 2 * count; i += 2) {
    done.push_back(server.spawn(windows[i]->read(leases[i].bytes(), 0, deadline_in(std::chrono::seconds(30)))));
    done.push_back(
        server.spawn(windows[i + 1]->write(leases[i + 1].bytes(), 0, deadline_in(std::chrono::seconds(30)))));
    ASSERT_TRUE(client.send(as_bytes("and in between")));
  }
  for (auto& one : done) EXPECT_TRUE(one.get());
  ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("end")); }));
  ASSERT_TRUE(eventually([&] { return client.received().size() == count + 2; }));
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::memcmp(leases[2 * i].data(), out[i].data(), size), 0) << i;
    EXPECT_EQ(std::memcmp(in[i].data(), leases[2 * i + 1].data(), size), 0) << i;
  }
}

TEST_P(TcpPortTest, OutsideTheWindowNothingIsEvenAsked) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(1000);
  const auto lent = client.link->lend(memory, Access::server_reads);
  auto window = server.window((*lent)->descriptor(), Access::server_reads);
  const auto lease = server.lease(1000, 0);
  EXPECT_FALSE(server.read(*window, lease.bytes(), 1));
  EXPECT_FALSE(server.read(*window, lease.bytes(), UINT64_MAX));
  EXPECT_FALSE(server.write(*window, Bytes(lease.bytes())));
  EXPECT_TRUE(server.read(*window, lease.bytes()));
  EXPECT_FALSE(server.call([&] { return server.port->open_window(server.last, {8, 1, 1}, Access::server_reads); }));
  EXPECT_FALSE(server.call([&] { return server.port->open_window(12345, {0, 1, 1}, Access::server_reads); }));
}

TEST_P(TcpPortTest, ALateWriteIntoAWithdrawnWindowLandsNowhere) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(4 * MiB);
  auto lent = *client.link->lend(memory, Access::server_writes);
  const auto descriptor = lent->descriptor();
  auto window = server.window(descriptor, Access::server_writes);
  const auto lease = server.lease(4 * MiB, 1);
  lent.reset();
  ASSERT_TRUE(server.write(*window, Bytes(lease.bytes())));
  ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("there")); }));
  ASSERT_TRUE(eventually([&] { return client.received().size() == 2; }));
  EXPECT_EQ(memory, std::vector<std::byte>(4 * MiB));
  EXPECT_FALSE(client.closed()) << "the others go on";
}

// Likewise during a write: the client has received a part of it when it revokes.
TEST_P(TcpPortTest, TheRestOfAWriteIsSkippedOnceItsWindowIsRevoked) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(64 * MiB);
  auto lent = *client.link->lend(memory, Access::server_writes);
  auto window = server.window(lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(4 * MiB, 1);
  client.freeze(true);
  std::vector<std::future<Result<void>>> writes;
  for (size_t i = 0; i < 16; ++i) {
    writes.push_back(server.spawn(window->write(lease.bytes(), i * 4 * MiB, deadline_in(std::chrono::seconds(30)))));
  }
  // A few polls by hand: part of it arrives.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client.link->poll([](Bytes) {}));
  lent->revoke();
  const auto before = memory;
  client.freeze(false);
  for (auto& write : writes) EXPECT_TRUE(write.get());
  ASSERT_TRUE(server.call([&] { return server.port->send(server.last, as_bytes("there")); }));
  ASSERT_TRUE(eventually([&] { return client.received().size() >= 2; }));
  EXPECT_TRUE(memory == before);
}

TEST_P(TcpPortTest, AReadOfAWithdrawnWindowFails) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  std::vector<std::byte> memory(1 * MiB);
  auto lent = *client.link->lend(memory, Access::server_reads);
  auto window = server.window(lent->descriptor(), Access::server_reads);
  lent.reset();
  const auto lease = server.lease(1 * MiB, 0);
  EXPECT_EQ(server.read(*window, lease.bytes()).error().code, Errc::rdma_transfer_failed);
  EXPECT_FALSE(client.closed());
}

TEST_P(TcpPortTest, AFrozenClientsTransfersEndAtTheirDeadlineAndItsConnectionWithThem) {
  TestServer server(options());
  TestClient client(server);
  client.join(server);
  TestClient other(server, 2);
  std::vector<std::byte> memory(1 * MiB);
  const auto lent = client.link->lend(memory, Access::server_reads);
  auto window = server.window((*lent)->descriptor(), Access::server_reads);
  client.freeze(true);
  const auto lease = server.lease(1 * MiB, 0);
  EXPECT_EQ(server.read(*window, lease.bytes(), 0, std::chrono::seconds(1)).error().code, Errc::timed_out);
  EXPECT_EQ(server.gone, 1);
  EXPECT_EQ(server.read(*window, lease.bytes()).error().code, Errc::closed);
  client.freeze(false);
  EXPECT_TRUE(eventually([&] { return client.closed(); }));
  other.join(server);
}

TEST_P(TcpPortTest, APeerThatDoesNotReadGetsWouldBlockAndIsCutOffAndOthersDoNotNotice) {
  Options slow = options();
  slow.send_deadline = std::chrono::milliseconds(500);
  TestServer server(slow);
  TestClient frozen(server), other(server, 2);
  frozen.join(server);
  const PeerId peer = server.last;
  frozen.freeze(true);
  const std::string big(server.port->message_size_max(), 'x');
  bool blocked = false;
  EXPECT_TRUE(eventually([&] {
    const auto sent = server.call([&] { return server.port->send(peer, as_bytes(big)); });
    blocked = blocked || (!sent && sent.error().code == Errc::would_block);
    return !sent && sent.error().code == Errc::closed;
  }));
  EXPECT_TRUE(blocked);
  other.join(server);
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
}

TEST_P(TcpPortTest, AClientThatLeavesIsNoticedAndItsTransfersFail) {
  TestServer server(options());
  auto client = std::make_unique<TestClient>(server);
  client->join(server);
  std::vector<std::byte> memory(1 * MiB);
  auto lent = *client->link->lend(memory, Access::server_reads);
  auto window = server.window(lent->descriptor(), Access::server_reads);
  client->freeze(true);
  const auto lease = server.lease(1 * MiB, 0);
  auto read = server.spawn(window->read(lease.bytes(), 0, deadline_in(std::chrono::seconds(30))));
  client.reset();
  EXPECT_EQ(read.get().error().code, Errc::closed);
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
}

TEST_P(TcpPortTest, ASessionThatEndedKeepsNoConnection) {
  TestServer server(options());
  TestClient client(server, 5);
  client.join(server);
  server.ended = 5;
  EXPECT_TRUE(eventually([&] { return client.closed(); }));
}

TEST_P(TcpPortTest, MayGoWhileTransfersAreUnderWay) {
  auto server = std::make_unique<TestServer>(options());
  TestClient client(*server);
  client.join(*server);
  std::vector<std::byte> memory(1 * MiB);
  const auto lent = client.link->lend(memory, Access::server_reads);
  auto window = server->window((*lent)->descriptor(), Access::server_reads);
  client.freeze(true);
  const auto lease = server->lease(1 * MiB, 0);
  boost::asio::co_spawn(server->core.io(), window->read(lease.bytes(), 0, deadline_in(std::chrono::seconds(30))),
                        boost::asio::detached);
  server->call([&] { server->port.reset(); });
  const auto late = server->read(*window, lease.bytes());
  EXPECT_EQ(late.error().code, Errc::closed);
}

TEST_P(TcpPortTest, ManyClientsAreServed) {
  TestServer server(options());
  std::vector<std::unique_ptr<TestClient>> clients;
  for (uint64_t session = 1; session <= 24; ++session) {
    clients.push_back(std::make_unique<TestClient>(server, session));
    ASSERT_TRUE(clients.back()->send(as_bytes("message")));
  }
  for (auto& client : clients) EXPECT_TRUE(eventually([&] { return client->received().size() == 1; }));
}

// epoll reports input once. A connection whose turn did not come for 512 turns was given back to it with input unread,
// and was not heard again.
TEST(TcpPort, OfMoreConnectionsThanATurnServesEachIsHeardToTheEnd) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  constexpr uint64_t count = 640;
  constexpr int each = 300;
  Options options;
  options.encrypt = false;
  TestServer server(options);
  server.sessions = count + 1;
  server.echo = false;
  std::vector<std::unique_ptr<Link>> links;
  for (uint64_t session = 1; session <= count; ++session) {
    auto link = connect(server.dial(session));
    ASSERT_TRUE(link) << describe(link.error());
    links.push_back(std::move(*link));
  }
  std::promise<void> begun, all_sent;
  auto held = std::async(std::launch::async, [&] {
    return server.call([&] {
      begun.set_value();
      all_sent.get_future().wait();
      return 0;
    });
  });
  begun.get_future().wait();
  for (const auto& link : links) {
    for (int i = 0; i < each; ++i) ASSERT_TRUE(link->send(as_bytes("message")));
  }
  all_sent.set_value();
  held.get();
  EXPECT_TRUE(eventually([&] { return server.messages == static_cast<int>(count) * each; }));
  EXPECT_EQ(server.messages, static_cast<int>(count) * each);
}

TEST(TcpPort, APortRangeIsObeyedAndItsEndIsAnError) {
  TestServer any;
  const uint16_t taken = parse_socket_address(any.port->address())->port();
  Core core(Core::Options{});
  Options options;
  options.port_first = options.port_last = taken;
  EXPECT_EQ(listen(core, options).error().code, Errc::bad_config);
  options.bind_address = "nowhere";
  EXPECT_EQ(listen(core, options).error().code, Errc::bad_config);
}

TEST(TcpPort, AnAddressForAllIsDialledWhereTheHostIs) {
  Options options;
  options.bind_address = "0.0.0.0";
  TestServer server(options);
  TestClient client(server);
  ASSERT_TRUE(client.send(as_bytes("hello")));
  EXPECT_TRUE(eventually([&] { return client.received().size() == 1; }));
}

TEST(TcpPort, ListensOnIPv6Too) {
  Options options;
  options.bind_address = "::1";
  TestServer server(options);
  TestClient client(server);
  ASSERT_TRUE(client.send(as_bytes("hello")));
  EXPECT_TRUE(eventually([&] { return client.received().size() == 1; }));
}

}  // namespace
}  // namespace verbena::fabric::tcp
