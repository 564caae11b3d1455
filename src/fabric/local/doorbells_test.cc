#include "fabric/local/doorbells.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

class DoorbellsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(doorbells_.open());
    watched_ = doorbells_.take_descriptor();
  }

  // The client's end of the doorbell after the server's own descriptor is closed.
  Fd join(PeerId peer) {
    Fd servers(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    Fd clients(::dup(servers.get()));
    EXPECT_TRUE(doorbells_.watch(peer, servers.get()));
    return clients;
  }
  static void ring(const Fd& doorbell) {
    const uint64_t one = 1;
    EXPECT_EQ(::write(doorbell.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  bool readable() const {
    pollfd fd{watched_.get(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }
  std::vector<PeerId> rung() {
    std::vector<PeerId> peers;
    doorbells_.answer([&](PeerId peer) { peers.push_back(peer); });
    std::ranges::sort(peers);
    return peers;
  }

  std::vector<PeerId> looked_aside() {
    std::vector<PeerId> peers;
    doorbells_.look_aside([&](PeerId peer) { peers.push_back(peer); });
    return peers;
  }

  Doorbells doorbells_;
  Fd watched_;
};

TEST_F(DoorbellsTest, AreHeardAfterTheServerHasClosedItsDescriptor) {
  const Fd seven = join(7), eight = join(8);
  EXPECT_TRUE(rung().empty());
  for (int round = 0; round < 3; ++round) {
    ring(eight);
    EXPECT_TRUE(readable());
    EXPECT_EQ(rung(), std::vector<PeerId>{8});
    EXPECT_FALSE(readable()) << "a ring is answered once";
  }
  ring(seven);
  ring(eight);
  EXPECT_EQ(rung(), (std::vector<PeerId>{7, 8}));
}

TEST_F(DoorbellsTest, OfManyClientsAreAllHeard) {
  std::vector<Fd> clients;
  std::vector<PeerId> all;
  for (PeerId peer = 1; peer <= 1000; ++peer) {
    clients.push_back(join(peer));
    all.push_back(peer);
  }
  EXPECT_EQ(doorbells_.sets(), (1000 + Doorbells::set_size - 1) / Doorbells::set_size);
  for (const Fd& client : clients) ring(client);
  EXPECT_EQ(rung(), all);
  EXPECT_TRUE(rung().empty());
}

// A disconnected client can keep its doorbell open, and the server cannot remove it from the set.
TEST_F(DoorbellsTest, WhoeverLeavesAndKeepsRingingIsNotWatchedForGood) {
  std::vector<Fd> kept;
  for (PeerId peer = 1; peer <= 10 * Doorbells::set_size; ++peer) {
    kept.push_back(join(peer));
    doorbells_.forget(peer);
  }
  EXPECT_EQ(doorbells_.sets(), 0u);
  for (const Fd& doorbell : kept) ring(doorbell);
  EXPECT_FALSE(readable());
  const Fd newcomer = join(100'000);
  ring(newcomer);
  EXPECT_EQ(rung(), std::vector<PeerId>{100'000});
}

TEST_F(DoorbellsTest, ASetThatIsFullGoesWithTheLastOfItsClients) {
  std::vector<Fd> clients;
  for (PeerId peer = 1; peer <= 3 * Doorbells::set_size; ++peer) clients.push_back(join(peer));
  for (PeerId peer = 2; peer <= 3 * Doorbells::set_size; ++peer) doorbells_.forget(peer);
  EXPECT_EQ(doorbells_.sets(), 1u);
  ring(clients[0]);
  EXPECT_EQ(rung(), std::vector<PeerId>{1});
  doorbells_.forget(1);
  EXPECT_EQ(doorbells_.sets(), 0u);
}

// It woke the core as long as any other client of its set of 64 was connected.
TEST_F(DoorbellsTest, WhoeverWasThrownOutAndGoesOnRingingWakesNobodyForLong) {
  const Fd stays = join(1), leaves = join(2), other_set = [&] {
    for (PeerId peer = 3; peer <= Doorbells::set_size; ++peer) join(peer);
    return join(1000);
  }();
  doorbells_.forget(2);
  size_t wakes = 0;
  for (int i = 0; i < 10'000; ++i) {
    ring(leaves);
    if (!readable()) continue;
    ++wakes;
    EXPECT_TRUE(rung().empty()) << "the doorbell was removed";
  }
  EXPECT_LE(wakes, Doorbells::strays_max);
  ASSERT_TRUE(doorbells_.any_aside());
  // Clients of its set are polled by the timer, the others as before.
  ring(stays);
  EXPECT_FALSE(readable());
  EXPECT_EQ(looked_aside(), std::vector<PeerId>{1});
  ring(other_set);
  EXPECT_EQ(rung(), std::vector<PeerId>{1000});
  // Once it is quiet the set is restored, and no ring is lost meanwhile.
  for (size_t look = 1; look < Doorbells::quiet_looks; ++look) EXPECT_TRUE(looked_aside().empty());
  ring(stays);
  std::vector<PeerId> heard = looked_aside();
  EXPECT_FALSE(doorbells_.any_aside());
  for (const PeerId peer : rung()) heard.push_back(peer);
  EXPECT_EQ(heard, std::vector<PeerId>{1});
  ring(stays);
  EXPECT_TRUE(readable());
  EXPECT_EQ(rung(), std::vector<PeerId>{1});
}

TEST_F(DoorbellsTest, ASetThatIsAsideGoesWithTheLastOfItsClients) {
  const Fd stays = join(1), leaves = join(2);
  doorbells_.forget(2);
  for (size_t i = 0; i < Doorbells::strays_max; ++i) {
    ring(leaves);
    rung();
  }
  ASSERT_TRUE(doorbells_.any_aside());
  const Fd newcomer = join(3);
  EXPECT_EQ(doorbells_.sets(), 2u) << "a set that is put aside has no other client";
  ring(newcomer);
  EXPECT_EQ(rung(), std::vector<PeerId>{3});
  doorbells_.forget(1);
  EXPECT_EQ(doorbells_.sets(), 1u);
  EXPECT_TRUE(looked_aside().empty());
  EXPECT_FALSE(doorbells_.any_aside());
}

TEST_F(DoorbellsTest, WhatIsNoDoorbellIsRefusedAndLeavesNothing) {
  EXPECT_FALSE(doorbells_.watch(1, -1));
  EXPECT_EQ(doorbells_.sets(), 0u);
  doorbells_.forget(1);
}

TEST_F(DoorbellsTest, TheOwnOneWakesWhoSleeps) {
  doorbells_.ring_own();
  EXPECT_TRUE(readable());
  EXPECT_TRUE(rung().empty());
  EXPECT_FALSE(readable());
}

size_t open_files() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Thousands of sessions must fit into a server's limit of open files.
TEST(DoorbellsOfAPort, AClientCostsTheServerOneDescriptor) {
  testing::TemporaryDirectory directory;
  testing::Server server(directory / "socket");
  constexpr size_t count = 128, clients_own = 3;  // a client's socket, its doorbell, and the server's
  const size_t before = open_files();
  std::vector<std::unique_ptr<Link>> links;
  for (size_t i = 0; i < count; ++i) {
    links.push_back(testing::must_connect(directory / "socket"));
    ASSERT_EQ(as_text(testing::echo(*links.back(), as_bytes("hello"))), "hello");
  }
  EXPECT_LE(open_files() - before, count * (clients_own + 1) + count / Doorbells::set_size + 1);
  links.clear();
  server.wait_for_gone(count);
}

}  // namespace
}  // namespace verbena::fabric::local
