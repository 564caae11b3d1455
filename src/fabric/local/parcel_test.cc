// Descriptors that clients hand over: used once, few at a time, and closed whatever the client does.
#include "fabric/local/parcel.h"

#include <sys/resource.h>

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
  // These tests count the process's descriptors: those that an earlier test has left are closed before. (One that was
  // still there made WhatIsNotUsedIsForgotten take them for its own, and look for its parcel before that was
  // forgotten.)
  void SetUp() override { all_are_closed(); }
  struct Client {
    RawClient raw;
    PeerId peer = 0;
  };
  // The port knows a client by its first message.
  static Client join(Server& server, const std::string& path) {
    Client client{RawClient::join(path)};
    client.peer = introduce(server, client.raw);
    return client;
  }
  static Client admitted(Server& server, const std::string& path) {
    Client client{RawClient::join(path)};
    client.peer = admit(server, client.raw);
    return client;
  }
  struct Answer {
    Errc status = Errc::closed;
    uint32_t number = 0;
  };
  static Answer hand_over(Client& client, size_t count) {
    return hand_over(client, std::vector<int>(count, client.raw.doorbell.get()));
  }
  static Answer hand_over(Client& client, const std::vector<int>& all) {
    const ControlMessage message{.type = ControlType::hand_over, .request = 9, .a = all.size()};
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

// What is closed counts no more a moment later.
template <class HandOver>
Errc retried(HandOver hand_over) {
  Errc status = hand_over();
  for (const auto deadline = soon(); status == Errc::slow_down && SteadyClock::now() < deadline;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = hand_over();
  }
  return status;
}

TEST_F(ParcelTest, AThousandDescriptorsAreNotKept) {
  Server server(path_, {.takes_descriptors = true, .handed_over_timeout = std::chrono::minutes(10)});
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(admitted(server, path_));
  const size_t before = open_descriptors();
  EXPECT_EQ(hand_over(clients[0], Parcel::of_client_max).status, Errc::ok);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(hand_over(clients[0], 1).status, Errc::slow_down);
  EXPECT_EQ(hand_over(clients[1], Parcel::of_user_max - Parcel::of_client_max).status, Errc::ok);
  EXPECT_EQ(hand_over(clients[2], 1).status, Errc::slow_down);  // of one user together
  EXPECT_TRUE(falls_to(before + Parcel::of_user_max));
  Fd closed = std::move(clients[0].raw.socket);
  closed = Fd();
  EXPECT_EQ(retried([&] { return hand_over(clients[2], 1).status; }), Errc::ok);
  clients.clear();
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, AUserKeepsOutNoOther) {
  const auto file = [] { return shared_memfd(4096, 0, false); };
  const auto keep = [&](const Parcel::Budgets& budgets, size_t count) {
    std::vector<Fd> files;
    while (files.size() < count) files.push_back(file());
    return Parcel::keep(std::move(files), budgets);
  };
  constexpr uid_t one = 4'000'000, other = 4'000'001;
  std::vector<std::shared_ptr<const Parcel>> kept;
  for (uint64_t count = 0; count < Parcel::of_user_max; count += 64) {
    auto parcel = keep(Parcel::budgets_for(one), 64);
    ASSERT_TRUE(parcel);
    kept.push_back(std::move(*parcel));
  }
  EXPECT_EQ(keep(Parcel::budgets_for(one), 1).error(), Errc::slow_down);
  const auto parcel = keep(Parcel::budgets_for(other), handed_over_max);
  ASSERT_TRUE(parcel);
  EXPECT_EQ((*parcel)->descriptors().size(), handed_over_max);
  kept.clear();
  EXPECT_EQ(retried([&] {
              const auto again = keep(Parcel::budgets_for(one), 1);
              return again ? Errc::ok : again.error().code;
            }),
            Errc::ok);
}

TEST_F(ParcelTest, SeveralWaitAtATimeEachUnderItsNumber) {
  Server server(path_, {.takes_descriptors = true});
  Client client = admitted(server, path_);
  const Answer first = hand_over(client, 3), second = hand_over(client, 2);
  ASSERT_EQ(first.status, Errc::ok);
  ASSERT_EQ(second.status, Errc::ok);
  const auto later = take(server, client.peer, second.number), earlier = take(server, client.peer, first.number);
  ASSERT_TRUE(later);
  ASSERT_TRUE(earlier);
  EXPECT_EQ(later->descriptors.size(), 2u);
  EXPECT_EQ(earlier->descriptors.size(), 3u);
}

TEST_F(ParcelTest, FilesWhoseCloseWaitsHoldUpNoCoreAndCountUntilTheyAreClosed) {
  Server server(path_, {.takes_descriptors = true});
  const size_t before = open_descriptors();
  size_t kept = 0;
  std::chrono::nanoseconds longest{0};
  {
    std::vector<Client> clients;
    std::vector<Lingering> sockets;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(admitted(server, path_));
      std::vector<int> files(handed_over_max, clients.back().raw.doorbell.get());
      for (int* const at : {&files.front(), &files.back()})
        *at = sockets.emplace_back(std::chrono::seconds(20)).socket.get();
      const Answer answer = hand_over(clients.back(), files);
      if (answer.status != Errc::ok) continue;
      ++kept;
      for (Lingering& one : std::span(sockets).last(2)) Fd(std::move(one.socket));  // the server's are the last ones
      auto taken = take(server, clients.back().peer, answer.number);
      ASSERT_TRUE(taken);
      const auto begin = SteadyClock::now();
      server.on_core([&] {
        taken->open.reset();
        return 0;
      });
      longest = std::max(longest, SteadyClock::now() - begin);
    }
    EXPECT_LT(longest, std::chrono::seconds(5));
    EXPECT_EQ(kept, Parcel::of_user_max / handed_over_max);  // they are used, and still open
    for (Lingering& one : sockets) Fd(std::move(one.peer));  // with bytes unread: the other end waits no more
  }
  EXPECT_TRUE(falls_to(before));
}

TEST_F(ParcelTest, AClientThatIsRefusedAgainAndAgainIsDropped) {
  Server server(path_, {.takes_descriptors = true, .handed_over_timeout = std::chrono::minutes(10)});
  Client unknown = join(server, path_), known = admitted(server, path_);
  int refused = 0;
  while (refused < 100 && hand_over(unknown, 100).status == Errc::access_denied) ++refused;
  EXPECT_LE(refused, 4);
  ASSERT_EQ(hand_over(known, handed_over_max).status, Errc::ok);
  refused = 0;
  while (refused < 100 && hand_over(known, 100).status == Errc::slow_down) ++refused;
  EXPECT_GE(refused, 60);
  EXPECT_LE(refused, 64);
  server.wait_for_gone(2);
}

// The kernel closes the rest of what was sent.
TEST_F(ParcelTest, AServerThatMayOpenNoMoreAsksTheClientToComeAgain) {
  Server server(path_, {.takes_descriptors = true});
  Client client = admitted(server, path_);
  const size_t before = open_descriptors();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  const Fd free(::dup(0));
  low.rlim_cur = static_cast<rlim_t>(free.get()) + 10;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Errc status = hand_over(client, 100).status;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status, Errc::slow_down);
  EXPECT_TRUE(falls_to(before + 1));
  EXPECT_EQ(hand_over(client, 100).status, Errc::ok);
}

TEST_F(ParcelTest, WhatIsNotUsedIsForgotten) {
  Server server(path_, {.takes_descriptors = true, .handed_over_timeout = std::chrono::milliseconds(50)});
  Client client = admitted(server, path_);
  const size_t before = open_descriptors();
  const Answer answer = hand_over(client, 100);
  ASSERT_EQ(answer.status, Errc::ok);
  EXPECT_TRUE(falls_to(before));
  EXPECT_FALSE(take(server, client.peer, answer.number));
  EXPECT_EQ(retried([&] { return hand_over(client, 3).status; }), Errc::ok);  // and again
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
