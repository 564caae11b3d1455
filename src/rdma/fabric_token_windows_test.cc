#include "rdma/fabric_token_windows.h"

#include <gtest/gtest.h>

#include <map>

#include "fabric/ofi/address.h"
#include "fabric/ofi/testing.h"
#include "rdma/token_windows.h"

namespace verbena::rdma {
namespace {

using fabric::Access;
using fabric::ofi::EndpointAddress;
using fabric::ofi::testing::TestClient;
using fabric::ofi::testing::TestServer;

// A server core that accepts tokens, and a client that makes them.
class TokenWindowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.fabric) << describe(server.error);
    windows = make({});
  }
  // The client of these tests is on this host, so its address must be named.
  std::unique_ptr<FabricTokenWindows> make(FabricTokenWindows::Options options, bool name_own = true) {
    if (name_own) options.networks.push_back(own_address());
    auto made = std::move(*FabricTokenWindows::create(options));
    made->add(server.core, *server.fabric);
    return made;
  }
  Token token_of(const fabric::Lent& lent) {
    Token token;
    token.provider = client.link->provider();
    token.endpoint_name = client.link->address();
    token.base = lent.descriptor().base;
    token.size = lent.descriptor().size;
    token.key = lent.descriptor().key;
    return token;
  }
  Errc open(const Token& token, std::string_view peer) {
    return server.call([&] {
      const auto window = windows->open_now(token, {peer, ""}, Access::server_writes);
      return window ? Errc::ok : window.error().code;
    });
  }
  std::string own_address() { return fabric::ofi::decode_socket_name(client.link->address())->ip.to_string(); }

  TestServer server;
  TestClient client;
  std::vector<std::byte> memory = std::vector<std::byte>(1 * MiB);
  std::unique_ptr<FabricTokenWindows> windows;
};

TEST_F(TokenWindowsTest, OpenForThePeerItselfOnly) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const Token token = *parse_token(format_token(token_of(*lent)));
  EXPECT_EQ(open(token, own_address()), Errc::ok);
  EXPECT_EQ(open(token, "::ffff:" + own_address()), Errc::ok);
  windows = make({}, false);
  for (const char* peer : {"10.1.2.3", "", "::1"}) EXPECT_EQ(open(token, peer), Errc::rdma_not_supported) << peer;
}

TEST_F(TokenWindowsTest, OfThisHostItselfAreOpenedOnlyWhenItIsNamed) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  windows = make({}, false);
  EXPECT_EQ(open(token_of(*lent), own_address()), Errc::rdma_not_supported);
  windows = make({.networks = {"192.0.2.0/24"}}, false);
  EXPECT_EQ(open(token_of(*lent), own_address()), Errc::rdma_not_supported);
  windows = make({.networks = {own_address()}}, false);
  EXPECT_EQ(open(token_of(*lent), own_address()), Errc::ok);
}

TEST_F(TokenWindowsTest, DialOnlyPortsOfTheRange) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const uint16_t port = fabric::ofi::decode_socket_name(client.link->address())->port;
  const auto with = [&](uint16_t first, uint16_t last) {
    windows = make({.networks = {}, .port_first = first, .port_last = last});
    return open(token_of(*lent), own_address());
  };
  EXPECT_EQ(with(port, port), Errc::ok);
  EXPECT_EQ(with(1, static_cast<uint16_t>(port - 1)), Errc::rdma_not_supported);
  EXPECT_EQ(with(static_cast<uint16_t>(port + 1), 65535), Errc::rdma_not_supported);
  // By default no ports of services.
  windows = make({});
  Token token = token_of(*lent);
  for (const uint16_t service : {22, 80, 5432, 6379, 32767}) {
    token.endpoint_name = fabric::ofi::encode_socket_name({boost::asio::ip::make_address(own_address()), service});
    EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported) << service;
  }
}

TEST_F(TokenWindowsTest, OpenForAConfiguredNetwork) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  windows = make({.networks = {"fd00::/8", own_address() + "/32"}}, false);
  EXPECT_EQ(open(token_of(*lent), "10.1.2.3"), Errc::ok);
}

TEST_F(TokenWindowsTest, OneClientHasThemAtFewEndpoints) {
  windows = make({.networks = {}, .client_endpoints_max = 2});
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto own = boost::asio::ip::make_address(own_address());
  std::vector<std::unique_ptr<fabric::Window>> held;
  const auto open_at = [&](uint16_t port, std::string_view peer) {
    Token token = token_of(*lent);
    token.endpoint_name = fabric::ofi::encode_socket_name({own, port});
    return server.call([&] {
      auto window = windows->open_now(token, {peer, ""}, Access::server_writes);
      if (window) held.push_back(std::move(*window));
      return window ? Errc::ok : window.error().code;
    });
  };
  EXPECT_EQ(open_at(40'001, "2001:db8::1"), Errc::ok);
  EXPECT_EQ(open_at(40'002, "2001:db8::2"), Errc::ok);
  EXPECT_EQ(open_at(40'003, "2001:db8::3"), Errc::rdma_not_supported) << "a host has all addresses of its /64";
  EXPECT_EQ(open_at(40'002, "2001:db8::1"), Errc::ok) << "an endpoint counts once";
  EXPECT_EQ(open_at(40'003, "192.0.2.1"), Errc::ok) << "another client";
  server.call([&] { held.erase(held.begin()); });
  EXPECT_EQ(open_at(40'003, "2001:db8::1"), Errc::ok) << "its place is free again";
  server.call([&] { held.clear(); });
}

// Behind a proxy, or on a host with many users.
TEST_F(TokenWindowsTest, AccountsBehindOneAddressShareItsEndpointsFairly) {
  windows = make({.networks = {}, .client_endpoints_max = 4});
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto own = boost::asio::ip::make_address(own_address());
  std::map<std::string, std::vector<std::unique_ptr<fabric::Window>>> held;
  uint16_t port = 40'000;
  // How many more endpoints the account gets.
  const auto take_all = [&](const std::string& account, std::string_view peer = "192.0.2.1") {
    size_t taken = 0;
    for (int i = 0; i < 20; ++i) {
      Token token = token_of(*lent);
      token.endpoint_name = fabric::ofi::encode_socket_name({own, ++port});
      const rdma::TokenClient asking{peer, account, account};
      server.call([&] {
        auto window = windows->open_now(token, asking, Access::server_writes);
        if (!window) return;
        held[account].push_back(std::move(*window));
        ++taken;
      });
    }
    return taken;
  };
  EXPECT_EQ(take_all(""), 4u) << "requests that are not signed are bounded together";
  EXPECT_EQ(take_all("111111111111"), 2u) << "an account finds room beside them";
  EXPECT_EQ(take_all("222222222222"), 1u) << "and another one";
  EXPECT_EQ(take_all("333333333333"), 0u) << "the address is bounded, too";
  EXPECT_EQ(take_all("111111111111", "192.0.2.2"), 4u) << "from another address";
  server.call([&] { held[""].clear(); });
  EXPECT_EQ(take_all("222222222222"), 2u) << "what is free is shared by those that are there";
  server.call([&] { held.clear(); });
  EXPECT_EQ(take_all("333333333333"), 4u) << "places are given back";
  server.call([&] { held.clear(); });
}

// A token may name any port of its client's, where perhaps nothing answers.
TEST_F(TokenWindowsTest, OfOneClientLeaveEndpointsToAnother) {
  fabric::ofi::Options few = fabric::ofi::testing::test_options();
  few.data_endpoints_max = 4;
  TestServer small(few);
  ASSERT_TRUE(small.fabric) << describe(small.error);
  windows = std::move(*FabricTokenWindows::create(
      {.networks = {own_address()}, .client_endpoints_max = FabricTokenWindows::client_part(few.data_endpoints_max)}));
  windows->add(small.core, *small.fabric);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto own = boost::asio::ip::make_address(own_address());
  const auto open_on = [&](const Token& token, std::string_view peer) {
    return small.call([&] { return windows->open_now(token, {peer, ""}, Access::server_writes); });
  };
  std::vector<std::unique_ptr<fabric::Window>> dead;
  for (uint16_t port = 40'001; port < 40'101; ++port) {
    Token token = token_of(*lent);
    token.endpoint_name = fabric::ofi::encode_socket_name({own, port});
    if (auto window = open_on(token, "192.0.2.1")) dead.push_back(std::move(*window));
  }
  ASSERT_FALSE(dead.empty());
  const size_t taken = small.call([&] { return small.fabric->data_endpoints(); });
  auto window = open_on(token_of(*lent), "192.0.2.2");
  ASSERT_TRUE(window) << describe(window.error());
  EXPECT_EQ(small.call([&] { return small.fabric->data_endpoints(); }), taken + 1) << "it shares none";
  const auto lease = small.lease(4096, std::byte{7});
  const auto write = [&](fabric::Window& to) {
    return small.spawn(to.write(lease.bytes(), 0, deadline_in(std::chrono::seconds(20))));
  };
  std::vector<std::future<Result<void>>> failing;
  for (const auto& one : dead) failing.push_back(write(*one));
  for (int i = 0; i < 3; ++i) {
    const auto written = write(**window).get();
    EXPECT_TRUE(written) << describe(written.error());
  }
  for (auto& one : failing) EXPECT_FALSE(one.get());
  small.call([&] {
    window->reset();
    dead.clear();
  });
}

TEST_F(TokenWindowsTest, NeverDialTheServerItself) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  Token token = token_of(*lent);
  token.endpoint_name = server.fabric->port().address();
  EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported);
  windows = make({.networks = {"0.0.0.0/0"}, .port_first = 1, .port_last = 65535, .own_ports = {9000}});
  for (const char* own : {"127.0.0.1", "127.9.9.9"}) {
    token.endpoint_name = fabric::ofi::encode_socket_name({boost::asio::ip::make_address(own), 9000});
    EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported) << own;
  }
}

TEST_F(TokenWindowsTest, DeclineWhatIsNotServed) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  Token token = token_of(*lent);
  for (const char* provider : {"shm", "sockets", "efa", "nonsense"}) {
    token.provider = provider;
    EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported) << provider;
  }
  token = token_of(*lent);
  token.form = TokenForm::cuobject;
  EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported);
  token.form = TokenForm::hipobj;
  EXPECT_EQ(open(token, own_address()), Errc::rdma_not_supported);
}

TEST_F(TokenWindowsTest, RefuseNamesThatAreNoAddress) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  Token token = token_of(*lent);
  for (const std::string& name :
       {std::string("x"), std::string(16, '\0'), std::string(192, 'a'), token.endpoint_name + "x"}) {
    token.endpoint_name = name;
    EXPECT_EQ(open(token, own_address()), Errc::invalid_rdma_token);
  }
}

TEST_F(TokenWindowsTest, AreNotServedOnAThreadThatIsNoCore) {
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const std::string own = own_address();
  const auto window = windows->open_now(token_of(*lent), {own, ""}, Access::server_writes);
  ASSERT_FALSE(window);
  EXPECT_EQ(window.error().code, Errc::rdma_not_supported);
}

TEST(Network, ContainsItsAddresses) {
  const auto in = [](const char* network, const char* address) {
    return Network::parse(network)->contains(boost::asio::ip::make_address(address));
  };
  EXPECT_TRUE(in("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(in("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(in("10.1.2.0/23", "10.1.3.4"));
  EXPECT_FALSE(in("10.1.2.0/23", "10.1.4.4"));
  EXPECT_TRUE(in("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(in("0.0.0.0/0", "::1"));
  EXPECT_TRUE(in("fd00::/8", "fd12::1"));
  EXPECT_TRUE(in("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(in("10.1.2.3", "10.1.2.4"));
  for (const char* bad : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x", "fd00::/129", "localhost"}) {
    EXPECT_FALSE(Network::parse(bad)) << bad;
  }
}

// A GET and a PUT: chunks of arena memory through a token's window.
Task<Result<void>> push_all(memory::Sink* sink, memory::Arena* arena, uint64_t length, size_t piece) {
  VB_CO_TRY(co_await sink->begin(length));
  for (uint64_t at = 0; at < length; at += piece) {
    const size_t n = std::min<uint64_t>(piece, length - at);
    VB_CO_ASSIGN(auto lease, arena->lease(n));
    for (size_t i = 0; i < n; ++i) lease.data()[i] = static_cast<std::byte>((at + i) * 7 >> 3);
    const Bytes bytes(lease.data(), n);
    // Named: GCC 12 destroys an aggregate temporary of a co_await expression twice.
    memory::Chunk chunk{std::move(lease), bytes};
    VB_CO_TRY(co_await sink->push(std::move(chunk)));
  }
  co_return co_await sink->finish();
}

Task<Result<uint64_t>> read_all(memory::Source* source, memory::Arena* arena, size_t piece) {
  uint64_t total = 0;
  VB_CO_ASSIGN(auto lease, arena->lease(piece));
  for (;;) {
    VB_CO_ASSIGN(const size_t n, co_await source->read(lease.bytes()));
    for (size_t i = 0; i < n; ++i) {
      if (lease.data()[i] != static_cast<std::byte>((total + i) * 7 >> 3)) co_return fail(Errc::bad_digest);
    }
    total += n;
    if (n < piece) co_return total;
  }
}

class WindowStreams : public TokenWindowsTest {
 protected:
  std::unique_ptr<fabric::Window> window_of(const fabric::Lent& lent, Access access) {
    const std::string own = own_address();
    return server.call([&] { return std::move(*windows->open_now(token_of(lent), {own, ""}, access)); });
  }
  static constexpr std::chrono::milliseconds deadline{20'000};
};

TEST_F(WindowStreams, MoveAWholeObjectBothWays) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, size_t{1 * MiB}}) {
    const auto target = std::move(*client.link->lend(memory, Access::server_writes));
    auto sink = std::make_unique<WindowSink>(window_of(*target, Access::server_writes), deadline);
    const auto pushed = server.spawn(push_all(sink.get(), server.arena.get(), size, 64 * KiB)).get();
    ASSERT_TRUE(pushed) << describe(pushed.error());
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(memory[i], static_cast<std::byte>(i * 7 >> 3));
    server.call([&] { sink.reset(); });

    const auto origin = std::move(*client.link->lend(memory, Access::server_reads));
    auto source = std::make_unique<WindowSource>(window_of(*origin, Access::server_reads), size, deadline);
    const auto taken = server.spawn(read_all(source.get(), server.arena.get(), 64 * KiB)).get();
    ASSERT_TRUE(taken) << describe(taken.error());
    EXPECT_EQ(*taken, size);
    server.call([&] { source.reset(); });
  }
}

TEST_F(WindowStreams, DeclineAnObjectThatDoesNotFit) {
  const auto target = std::move(*client.link->lend(memory, Access::server_writes));
  auto sink = std::make_unique<WindowSink>(window_of(*target, Access::server_writes), deadline);
  const auto pushed = server.spawn(push_all(sink.get(), server.arena.get(), memory.size() + 1, 64 * KiB)).get();
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().code, Errc::rdma_not_supported);
  server.call([&] { sink.reset(); });
}

TEST_F(WindowStreams, FailOnAFrozenOwnerAndKeepNoLease) {
  const size_t before = server.arena->leased_bytes();
  const auto target = std::move(*client.link->lend(memory, Access::server_writes));
  Token token = token_of(*target);
  client.freeze(true);
  auto sink = std::make_unique<WindowSink>(window_of(*target, Access::server_writes), std::chrono::milliseconds(300));
  const auto pushed = server.spawn(push_all(sink.get(), server.arena.get(), memory.size(), 64 * KiB)).get();
  ASSERT_FALSE(pushed);
  EXPECT_EQ(pushed.error().code, Errc::rdma_transfer_failed);
  server.call([&] { sink.reset(); });
  EXPECT_EQ(server.arena->leased_bytes(), before);
}

Task<Result<void>> push_one(memory::Sink* sink, memory::Chunk chunk, uint64_t length) {
  VB_CO_TRY(co_await sink->begin(length));
  co_return co_await sink->push(std::move(chunk));
}

TEST_F(WindowStreams, DroppedMidWayGiveTheirLeasesBackWhenTheWritesEnd) {
  const size_t before = server.arena->leased_bytes();
  const auto target = std::move(*client.link->lend(memory, Access::server_writes));
  client.freeze(true);
  auto sink = std::make_unique<WindowSink>(window_of(*target, Access::server_writes), std::chrono::milliseconds(500));
  auto lease = server.lease(64 * KiB, std::byte{1});
  const Bytes bytes = lease.bytes();
  ASSERT_TRUE(server.spawn(push_one(sink.get(), {std::move(lease), bytes}, memory.size())).get());
  server.call([&] { sink.reset(); });
  EXPECT_GT(server.arena->leased_bytes(), before) << "the write is still under way";
  EXPECT_TRUE(fabric::ofi::testing::eventually([&] { return server.arena->leased_bytes() == before; }));
}

}  // namespace
}  // namespace verbena::rdma
