// Descriptors that clients hand over: used once, few at a time, and closed whatever the client does.
#include "fabric/local/parcel.h"

#include <filesystem>

#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

using namespace testing;

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

bool falls_to(size_t descriptors) {
  const auto deadline = soon();
  while (open_descriptors() > descriptors && SteadyClock::now() < deadline) std::this_thread::yield();
  return open_descriptors() <= descriptors;
}

class ParcelTest : public ::testing::Test {
 protected:
  struct Client {
    RawClient raw;
    PeerId peer = 0;
  };
  // The port knows a client by its first message.
  static Client join(Server& server, const std::string& path) {
    Client client{RawClient::join(path)};
    const size_t before = server.messages();
    Producer(client.raw.region.to_server()).push(as_bytes("hello"), {});
    client.raw.ring();
    const auto deadline = soon();
    while (server.messages() == before && SteadyClock::now() < deadline) std::this_thread::yield();
    client.peer = server.last_peer();
    return client;
  }
  static Client admitted(Server& server, const std::string& path) {
    Client client = join(server, path);
    server.on_core([&] { return server.port().admit(client.peer, 0); });
    return client;
  }
  struct Answer {
    Errc status = Errc::closed;
    uint32_t number = 0;
  };
  static Answer hand_over(Client& client, size_t count) {
    const std::vector<int> all(count, client.raw.doorbell.get());
    const ControlMessage message{.type = ControlType::hand_over, .request = 9, .a = count};
    EXPECT_TRUE(send_control(client.raw.socket.get(), message, all));
    const auto packet = RawClient::receive(client.raw.socket.get());
    if (!packet) return {packet.error().code};
    const auto reply = parse_control(packet->bytes, packet->descriptors.size());
    EXPECT_TRUE(reply && reply->type == ControlType::shared && reply->request == 9);
    return {static_cast<Errc>(reply->status), static_cast<uint32_t>(reply->a)};
  }
  static Result<HandedOver> take(Server& server, PeerId peer, uint32_t number) {
    return server.on_core([&] { return dynamic_cast<DevicePort&>(server.port()).take_handed_over(peer, number); });
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "socket";
};

TEST_F(ParcelTest, IsTakenOnceByItsNumber) {
  Server server(path_, {.takes_descriptors = true});
  Client client = admitted(server, path_), other = admitted(server, path_);
  const size_t before = open_descriptors();
  const Answer answer = hand_over(client, 5);
  ASSERT_EQ(answer.status, Errc::ok);
  EXPECT_FALSE(take(server, client.peer, answer.number + 1));
  EXPECT_FALSE(take(server, other.peer, answer.number));
  auto taken = take(server, client.peer, answer.number);
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->descriptors.size(), 5u);
  for (const int descriptor : taken->descriptors) EXPECT_GE(::fcntl(descriptor, F_GETFD), 0);
  EXPECT_FALSE(take(server, client.peer, answer.number));
  taken->open.reset();
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, LinksHandOverInTheirOrder) {
  Server server(path_, {.takes_descriptors = true});
  auto link = must_connect(path_);
  ASSERT_EQ(as_text(echo(*link, as_bytes("hello"))), "hello");
  const PeerId peer = server.last_peer();
  auto& devices = dynamic_cast<DeviceLink&>(*link);
  std::vector<Fd> files;
  std::vector<int> numbers;
  for (size_t i = 0; i < handed_over_max; ++i) {
    files.push_back(shared_memfd(4096 * (i + 1), 0, false));
    numbers.push_back(files.back().get());
  }
  EXPECT_EQ(devices.hand_over(numbers).error(), Errc::access_denied);  // not admitted yet
  server.on_core([&] { return server.port().admit(peer, 0); });
  const auto number = devices.hand_over(numbers);
  ASSERT_TRUE(number) << describe(number.error());
  const auto taken = take(server, peer, *number);
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->descriptors.size(), handed_over_max);
  for (size_t i = 0; i < handed_over_max; ++i) {
    struct stat file{};
    ASSERT_EQ(::fstat(taken->descriptors[i], &file), 0);
    EXPECT_EQ(static_cast<size_t>(file.st_size), 4096 * (i + 1));
  }
  EXPECT_EQ(devices.hand_over({}).error(), Errc::invalid_argument);
  numbers.push_back(numbers.front());
  EXPECT_EQ(devices.hand_over(numbers).error(), Errc::invalid_argument);
  ASSERT_EQ(as_text(echo(*link, as_bytes("still here"))), "still here");
}

TEST_F(ParcelTest, AServerWithoutDevicesTakesNone) {
  Server server(path_);
  Client client = admitted(server, path_);
  const size_t before = open_descriptors();
  EXPECT_EQ(hand_over(client, 100).status, Errc::access_denied);
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, AThousandDescriptorsAreNotKept) {
  Server server(path_, {.takes_descriptors = true, .handed_over_timeout = std::chrono::minutes(10)});
  Client one = admitted(server, path_), two = admitted(server, path_), three = admitted(server, path_);
  const size_t before = open_descriptors();
  for (int i = 0; i < 30; ++i) {  // each replaces the one before it
    const Errc status = hand_over(one, handed_over_max).status;
    EXPECT_TRUE(status == Errc::ok || status == Errc::slow_down) << i;
  }
  EXPECT_TRUE(falls_to(before + 2 * handed_over_max));
  const auto retried = [](Client& client) {  // those that are replaced are given back a moment later
    Errc status = Errc::slow_down;
    for (const auto deadline = soon(); status == Errc::slow_down && SteadyClock::now() < deadline;) {
      status = hand_over(client, handed_over_max).status;
    }
    return status;
  };
  EXPECT_EQ(retried(one), Errc::ok);
  EXPECT_EQ(retried(two), Errc::ok);
  EXPECT_EQ(hand_over(three, 1).status, Errc::slow_down);  // of all clients together
  EXPECT_LE(open_descriptors(), before + Parcel::descriptors_max);
  Fd closed = std::move(one.raw.socket);
  closed = Fd();
  EXPECT_EQ(retried(three), Errc::ok);
  closed = std::move(two.raw.socket);
  closed = Fd();
  closed = std::move(three.raw.socket);
  closed = Fd();
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, WhatIsNotUsedIsForgotten) {
  Server server(path_, {.takes_descriptors = true, .handed_over_timeout = std::chrono::milliseconds(50)});
  Client client = admitted(server, path_);
  const size_t before = open_descriptors();
  const Answer answer = hand_over(client, 100);
  ASSERT_EQ(answer.status, Errc::ok);
  EXPECT_TRUE(falls_to(before));
  EXPECT_FALSE(take(server, client.peer, answer.number));
  EXPECT_EQ(hand_over(client, 3).status, Errc::ok);  // and again
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, AClientThatMiscountsIsDropped) {
  Server server(path_, {.takes_descriptors = true});
  Client client = admitted(server, path_);
  const int two[] = {client.raw.doorbell.get(), client.raw.doorbell.get()};
  ASSERT_TRUE(send_control(client.raw.socket.get(), {.type = ControlType::hand_over, .a = 3}, two));
  EXPECT_TRUE(client.raw.is_dropped());
  server.wait_for_gone(1);
}

}  // namespace
}  // namespace verbena::fabric::local
