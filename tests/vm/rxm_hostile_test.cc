// Hostile peers on an RDMA network that speak rxm's own protocol and lie. Runs on a real device (in the virtual
// machine): the server listens at 10.77.0.1, they are at 10.77.0.2. A library that trusts them crashes here.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "fabric/ofi/address.h"
#include "fabric/ofi/testing.h"
#include "rxm_peer.h"

namespace verbena::vm {
namespace {

using fabric::Access;
using fabric::ofi::testing::eventually;
using fabric::ofi::testing::TestClient;
using fabric::ofi::testing::TestServer;
using rxm::Header;

constexpr char server_address[] = "10.77.0.1", stranger_address[] = "10.77.0.2";
constexpr size_t receives = 32, moved_size = 16 * KiB;
constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
using As = RxmConnection::As;

fabric::ofi::Options options_at(const char* address) {
  auto options = fabric::ofi::testing::test_options();
  options.bind_address = address;
  options.max_recv_wr = options.max_send_wr = receives;
  return options;
}

template <class T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

struct Packet {
  std::string name;
  std::vector<std::byte> bytes;
  As as = As::send;
};

void add_lying_headers(std::vector<Packet>& all, const Header& good) {
  const auto add = [&all](const std::string& name, Header header, Bytes payload = {}) {
    all.push_back({name, rxm::packet(header, payload)});
  };
  Header h = good;
  for (const int version : {0, 3, 5, 255}) {
    h = good;
    h.version = static_cast<uint8_t>(version);
    add("control version " + std::to_string(version), h);
    h = good;
    h.op_version = static_cast<uint8_t>(version);
    add("op version " + std::to_string(version), h);
  }
  for (const int op : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 128, 255}) {
    h = good;
    h.op = static_cast<uint8_t>(op);
    add("op " + std::to_string(op), h);
  }
  for (const int type : {9, 10, 127, 255}) {
    h = good;
    h.type = static_cast<uint8_t>(type);
    add("type " + std::to_string(type), h);
  }
  h = good;
  h.flags = 0xffffffff;
  add("flags", h);
  const std::vector<std::byte> payload(100, std::byte{7});
  for (const uint64_t size : {uint64_t{0}, uint64_t{99}, uint64_t{101}, uint64_t{16384}, uint64_t{16385},
                              uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 63, most}) {
    h = good;
    h.size = size;
    add("size " + std::to_string(size), h, payload);
  }
}

// Of every kind except a message in one packet, for existing and unknown messages.
void add_other_kinds(std::vector<Packet>& all, const Header& good) {
  const std::vector<std::byte> payload(1000, std::byte{0xff});
  for (const uint64_t connection :
       {good.connection, uint64_t{1} << 20, uint64_t{0xffffffff}, uint64_t{1} << 31, most}) {
    for (const uint64_t message : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1} << 40, most}) {
      for (int type = rxm::segment; type <= rxm::write_done; ++type) {
        for (const int op : {0, 6, 7, 8}) {
          if (op != 0 && type != rxm::atomic && type != rxm::atomic_response) continue;
          Header h = good;
          h.type = static_cast<uint8_t>(type);
          h.op = static_cast<uint8_t>(op);
          h.connection = connection;
          h.message = message;
          h.size = message;
          h.segment_size = message == 0 ? 1000 : 65535;
          h.control_data = message % 4 + (message << 2);  // the kind of a segment; credits
          h.tag = 0xff0000 | message;                     // 255 regions of an atomic
          all.push_back({"type " + std::to_string(type) + ", op " + std::to_string(op) + ", connection " +
                             std::to_string(connection) + ", message " + std::to_string(message),
                         rxm::packet(h, payload)});
        }
      }
    }
  }
}

// Regions of a rendezvous: four of 24 bytes, then their number.
void add_rendezvous(std::vector<Packet>& all, const Header& good) {
  for (const int count : {0, 1, 4, 5, 255}) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1} << 20, most}) {
      for (const auto type : {rxm::rendezvous, rxm::write_data}) {
        std::vector<std::byte> regions(4 * 24 + 8, std::byte{0});
        for (size_t i = 0; i < 4; ++i) std::memcpy(&regions[24 * i + 8], &length, sizeof length);
        regions[96] = static_cast<std::byte>(count);
        Header h = good;
        h.type = type;
        h.size = uint64_t{1} << 20;
        all.push_back(
            {"rendezvous " + std::to_string(type) + " of " + std::to_string(count) + " x " + std::to_string(length),
             rxm::packet(h, regions)});
      }
    }
  }
}

std::vector<Packet> lying_packets(uint64_t connection) {
  Header good;
  good.connection = connection;
  const auto whole = rxm::packet(good);
  std::vector<Packet> all;
  for (const size_t size : {0, 1, 31, 32, 40, 63}) {
    all.push_back(
        {std::to_string(size) + " bytes", std::vector(whole.begin(), whole.begin() + static_cast<int>(size))});
  }
  all.push_back({"immediate data", whole, As::send_with_immediate});
  // It uses a receive and leaves the old bytes in it.
  all.push_back({"an empty write", {}, As::empty_write_with_immediate});
  add_lying_headers(all, good);
  add_other_kinds(all, good);
  add_rendezvous(all, good);
  return all;
}

class RxmStranger : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fabric::ofi::checks_peers())
      GTEST_SKIP() << "this libfabric trusts its peers: any of these could end the process";
    server_.emplace(options_at(server_address));
    ASSERT_TRUE(server_->fabric) << describe(server_->error);
    server_->call([this] {
      server_->fabric->port().on_message([this](fabric::PeerId, Bytes message) {
        const std::lock_guard lock(mutex_);
        received_.emplace_back(as_text(message));
      });
    });
    const auto name = fabric::ofi::decode_socket_name(server_->fabric->port().address());
    ASSERT_TRUE(name);
    port_ = name->port;
  }

  std::vector<std::string> take_received() {
    const std::lock_guard lock(mutex_);
    return std::exchange(received_, {});
  }
  bool receives_only(const std::string& text) {
    std::vector<std::string> all;
    eventually([&] {
      for (auto& one : take_received()) all.push_back(std::move(one));
      return !all.empty();
    });
    return all == std::vector{text};
  }
  std::unique_ptr<RxmConnection> call(const rxm::Connect& connect) {
    return RxmConnection::call(stranger_address, server_address, port_, rxm::private_data(24, bytes_of(connect)));
  }
  std::unique_ptr<RxmConnection> call(uint16_t as_port = 7) {
    rxm::Connect connect;
    connect.port = as_port;
    connect.connection = (uint64_t{as_port} << 32) | 1;
    return call(connect);
  }
  static bool say(RxmConnection& connection, const std::string& text) {
    Header header;
    header.connection = connection.connection();
    header.size = text.size();
    return connection.send(rxm::packet(header, as_bytes(text)));
  }

  Result<void> move(std::string_view owner, const fabric::WindowDescriptor& lent);
  // An honest client is still served: messages, and a window.
  void expect_service();

  std::optional<TestServer> server_;
  uint16_t port_ = 0;

 private:
  std::mutex mutex_;
  std::vector<std::string> received_;
};

Task<Result<void>> write_once(fabric::Window* window, memory::Lease* lease) {
  co_return co_await window->write(Bytes(lease->data(), moved_size), 0, deadline_in(std::chrono::seconds(20)));
}

Result<void> RxmStranger::move(std::string_view owner, const fabric::WindowDescriptor& lent) {
  auto window = server_->call([&] { return server_->fabric->open_window(owner, lent, Access::server_writes); });
  if (!window) return std::unexpected(window.error());
  auto lease = server_->lease(moved_size, std::byte{7});
  const auto outcome = server_->spawn(write_once(window->get(), &lease)).get();
  server_->call([&] { window->reset(); });
  return outcome;
}

void RxmStranger::expect_service() {
  static_cast<void>(take_received());
  TestClient client(&*server_, options_at(stranger_address));
  const auto sent = client.send(as_bytes(std::string("an honest word")));
  ASSERT_TRUE(sent) << describe(sent.error());
  EXPECT_TRUE(receives_only("an honest word"));
  std::vector<std::byte> memory(moved_size);
  auto lent = client.link->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent);
  const auto done = move(client.link->address(), (*lent)->descriptor());
  EXPECT_TRUE(done) << describe(done.error());
  EXPECT_EQ(memory, std::vector<std::byte>(moved_size, std::byte{7}));
}

TEST_F(RxmStranger, WhosePacketsLieIsNotHeardAndHarmsNobody) {
  auto connection = call();
  ASSERT_TRUE(connection);
  ASSERT_TRUE(say(*connection, "as rxm speaks")) << "these tests speak another protocol than the server's";
  ASSERT_TRUE(receives_only("as rxm speaks"));
  size_t count = 0;
  for (const auto& [name, bytes, as] : lying_packets(connection->connection())) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(connection->send(bytes, as));
    const auto word = "word " + std::to_string(count++);
    ASSERT_TRUE(say(*connection, word));
    ASSERT_TRUE(receives_only(word));
  }
  expect_service();
}

// More often than there are receives: each must be posted again.
TEST_F(RxmStranger, WhoLiesOftenLeavesOthersTheirReceives) {
  auto connection = call();
  ASSERT_TRUE(connection);
  Header piece;
  piece.type = rxm::segment;
  const auto bytes = rxm::packet(piece);
  for (size_t i = 0; i < 4 * receives; ++i) ASSERT_TRUE(connection->send(Bytes(bytes).first(i % 65)));
  expect_service();
}

// Larger than any receive. The device breaks the connection; the receive must be posted again.
TEST_F(RxmStranger, WhoSendsMoreThanFitsLosesHisConnectionAndNoReceiveIsLost) {
  const std::vector<std::byte> large(32 * KiB);
  for (uint16_t i = 0; i < receives + 4; ++i) {
    auto connection = call(static_cast<uint16_t>(100 + i));
    ASSERT_TRUE(connection);
    EXPECT_FALSE(connection->send(large));
  }
  expect_service();
}

TEST_F(RxmStranger, WhoseConnectionRequestLiesIsRefused) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> all;
  const rxm::Connect good{.port = 7};
  all.emplace_back("nothing", std::vector<std::byte>());
  for (const int size : {0, 1, 4, 8, 9}) {
    all.emplace_back("a size of " + std::to_string(size),
                     rxm::private_data(static_cast<uint8_t>(size), bytes_of(good)));
  }
  const auto add = [&all](const std::string& name, const rxm::Connect& connect) {
    all.emplace_back(name, rxm::private_data(24, bytes_of(connect)));
  };
  add("version", {.version = 2, .port = 7});
  add("endianness", {.endianness = 1, .port = 7});
  add("control version", {.control_version = 3, .port = 7});
  add("op version", {.op_version = 2, .port = 7});
  add("a smaller limit", {.port = 7, .eager_limit = 0});
  add("a larger limit", {.port = 7, .eager_limit = 0xffffffff});
  all.emplace_back("anything", std::vector<std::byte>(50, std::byte{0xff}));
  for (const auto& [name, data] : all) {
    SCOPED_TRACE(name);
    EXPECT_FALSE(RxmConnection::call(stranger_address, server_address, port_, data));
  }
  // The size exceeds the data; the data alone count.
  EXPECT_TRUE(RxmConnection::call(stranger_address, server_address, port_, rxm::private_data(255, bytes_of(good))));
  expect_service();
}

TEST_F(RxmStranger, WhoCallsAsAnyoneHarmsNobody) {
  for (const uint16_t as_port : {uint16_t{0}, uint16_t{1}, port_, uint16_t{65535}}) {
    rxm::Connect connect{.port = as_port, .flow_control = 255, .receives = 0xffffffff, .connection = most};
    const auto first = call(connect);
    ASSERT_TRUE(first);
    EXPECT_FALSE(call(connect)) << "it is connected already";
    connect.connection = 5;  // another process at the same address: the first one is gone
    const auto second = call(connect);
    ASSERT_TRUE(second);
    EXPECT_TRUE(say(*second, "another"));
    EXPECT_TRUE(receives_only("another"));
  }
  expect_service();
}

// In the middle of a message in pieces, or of an unsolicited one.
TEST_F(RxmStranger, WhoHangsUpHarmsNobody) {
  for (uint16_t i = 0; i < 10; ++i) {
    auto connection = call(200);
    ASSERT_TRUE(connection);
    Header piece;
    piece.type = i % 2 == 0 ? rxm::segment : rxm::rendezvous;
    piece.connection = connection->connection();
    piece.size = 100'000;
    piece.segment_size = 1000;
    piece.control_data = 1;  // the first of several
    EXPECT_TRUE(connection->send(rxm::packet(piece, std::vector<std::byte>(1000))));
  }
  expect_service();
}

// The owner of a window, called by the server.
TEST_F(RxmStranger, WhoWasCalledAndSaysAnythingHarmsNobody) {
  const rxm::Accept accept{.connection = most};
  RxmListener listener(stranger_address, rxm::private_data(255, bytes_of(accept)));
  ASSERT_NE(listener.port(), 0);
  const auto owner =
      fabric::ofi::encode_socket_name({boost::asio::ip::make_address(stranger_address), listener.port()});
  const fabric::WindowDescriptor lent{reinterpret_cast<uint64_t>(listener.memory().data()), moved_size, listener.key()};
  std::unique_ptr<RxmConnection> called;
  std::thread answering([&] { called = listener.accept(); });
  const auto first = move(owner, lent);
  answering.join();
  ASSERT_TRUE(first) << describe(first.error());
  EXPECT_EQ(listener.memory()[moved_size - 1], std::byte{7});
  ASSERT_TRUE(called);
  size_t count = 0;
  for (const auto& [name, bytes, as] : lying_packets(0)) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(called->send(bytes, as));
    if (++count % 8 == 0) {
      ASSERT_TRUE(move(owner, lent));  // it reads the arrived packets
    }
  }
  // It requests no message, so there is a limit on what it accepts.
  constexpr size_t sent_max = 10 * receives;
  size_t taken = 0;
  for (; taken < sent_max; ++taken) {
    if (taken % 8 == 0) {
      ASSERT_TRUE(move(owner, lent));
    }
    Header header;
    const std::string text = "unasked";
    header.size = text.size();
    if (!called->send(rxm::packet(header, as_bytes(text)), As::send, 1000)) break;
  }
  EXPECT_LT(taken, 5 * receives);
  ASSERT_TRUE(move(owner, lent));
  expect_service();
}

// Longer than a packet is neither sent nor accepted, whatever was requested.
TEST(RxmMessages, OfTheFullSizeAreOnePacket) {
  auto options = options_at(server_address);
  options.message_size_max = 64 * KiB;
  TestServer server(options);
  ASSERT_TRUE(server.fabric) << describe(server.error);
  ASSERT_EQ(server.fabric->port().message_size_max(), rxm::eager_max);
  std::atomic<size_t> received{0};
  server.call(
      [&] { server.fabric->port().on_message([&](fabric::PeerId, Bytes message) { received = message.size(); }); });
  options.bind_address = stranger_address;
  TestClient client(&server, options);
  ASSERT_EQ(client.link->message_size_max(), rxm::eager_max);
  const std::string longest(rxm::eager_max, 'x');
  EXPECT_FALSE(client.send(as_bytes(longest + "x")));
  ASSERT_TRUE(client.send(as_bytes(longest)));
  EXPECT_TRUE(eventually([&] { return received == longest.size(); }));
}

}  // namespace
}  // namespace verbena::vm
