#include "memory/budget.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <functional>
#include <random>
#include <thread>

#include "memory/arena.h"

namespace verbena::memory {
namespace {

namespace asio = boost::asio;

// An arena whose transfers share 4 MiB, 2 MiB to a peer.
class BudgetTest : public ::testing::Test {
 protected:
  BudgetTest() : arena_(Arena::create(16 * MiB).value()) {
    Budget::Limits limits;
    limits.total_max = 4 * MiB;
    limits.peer_max = 2 * MiB;
    limits.small_max = 128 * KiB;
    limits.waiters_max = 8;
    arena_->budget().set_limits(limits);
  }
  Budget& budget() { return arena_->budget(); }

  // Takes charges of the largest size until the share has none left.
  std::vector<Charge> take_all(Share& share) {
    std::vector<Charge> all;
    while (auto charge = share.try_take(Budget::chunk_max)) all.push_back(std::move(*charge));
    return all;
  }
  static size_t sum(const std::vector<Charge>& charges) {
    size_t bytes = 0;
    for (const auto& charge : charges) bytes += charge.bytes();
    return bytes;
  }

  std::unique_ptr<Arena> arena_;
  asio::io_context io_;
};

Task<> wait_for(Share& share, size_t wanted, std::function<void(Result<Charge>)> done) {
  done(co_await share.take(wanted));
}

TEST_F(BudgetTest, NoPeerHoldsMoreThanItsLimitAndAllTogetherNotMoreThanTheirs) {
  Share a(*arena_, "10.0.0.1", {}), b(*arena_, "10.0.0.2", {}), c(*arena_, "10.0.0.3", {});
  auto of_a = take_all(a);
  EXPECT_EQ(sum(of_a), 2 * MiB);
  Share again(*arena_, "10.0.0.1", {});
  EXPECT_FALSE(again.try_take(1)) << "another transfer of the same peer";
  auto of_b = take_all(b);
  EXPECT_EQ(sum(of_b), 2 * MiB);
  EXPECT_FALSE(c.try_take(1)) << "nothing is left";
  of_a.clear();
  of_b.clear();
  EXPECT_EQ(budget().charged_bytes(), 0u);
  EXPECT_TRUE(again.try_take(1));
}

TEST_F(BudgetTest, PiecesBecomeSmallerAsLessIsLeft) {
  Budget::Limits limits = Budget::Limits::of(256 * MiB);
  arena_->budget().set_limits(limits);
  Share share(*arena_, "10.0.0.1", {});
  EXPECT_EQ(share.offer(), Budget::chunk_max);
  EXPECT_FALSE(share.scarce());
  size_t before = Budget::chunk_max;
  std::vector<Charge> held;
  while (auto charge = share.try_take(Budget::chunk_max)) {
    EXPECT_LE(charge->bytes(), before);
    before = charge->bytes();
    held.push_back(std::move(*charge));
  }
  EXPECT_EQ(before, Budget::unit);
  EXPECT_TRUE(share.scarce());
  EXPECT_EQ(sum(held), limits.peer_max);
  EXPECT_EQ(limits.peer_max, limits.total_max / 2);
  EXPECT_GT(held.size(), 200u) << "many transfers fit";
}

TEST_F(BudgetTest, ALeaseGivesItsChargeBackAndTheRestOfALargerOneAtOnce) {
  Share share(*arena_, "10.0.0.1", {});
  auto charge = share.try_take(256 * KiB);
  ASSERT_TRUE(charge);
  const size_t charged = budget().charged_bytes();
  auto lease = arena_->lease(4096).value();
  lease.attach(std::move(*charge));
  EXPECT_LT(budget().charged_bytes(), charged);
  EXPECT_EQ(budget().charged_bytes(), 4096u);
  Lease moved = std::move(lease);
  EXPECT_EQ(budget().charged_bytes(), 4096u);
  moved = Lease();
  EXPECT_EQ(budget().charged_bytes(), 0u);
}

TEST_F(BudgetTest, SmallRequestsHaveAPartOfTheirOwn) {
  Share a(*arena_, "10.0.0.1", {}), b(*arena_, "10.0.0.2", {});
  auto of_a = take_all(a);
  auto of_b = take_all(b);
  Share small(*arena_, "10.0.0.1", 64 * KiB);
  auto first = small.try_take(64 * KiB);
  auto second = small.try_take(64 * KiB);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(small.try_take(64 * KiB)) << "full, and nothing left to transfers either";
  first.reset();
  EXPECT_TRUE(small.try_take(64 * KiB));
}

TEST_F(BudgetTest, WhoWaitsIsServedWhenBytesComeBackPeersInTurn) {
  Share a(*arena_, "10.0.0.1", {}), b(*arena_, "10.0.0.2", {}), c(*arena_, "10.0.0.3", {});
  auto of_a = take_all(a);
  auto of_b = take_all(b);
  std::string order;
  std::vector<Charge> served;
  auto note = [&](char who) {
    return [&, who](Result<Charge> charge) {
      ASSERT_TRUE(charge);
      EXPECT_EQ(charge->bytes(), Budget::unit) << "a waiter gets one unit";
      order += who;
      served.push_back(std::move(*charge));
    };
  };
  Share c2(*arena_, "10.0.0.3", {}), d(*arena_, "10.0.0.4", {});
  asio::co_spawn(io_, wait_for(c, 1 * MiB, note('c')), asio::detached);
  asio::co_spawn(io_, wait_for(c2, 1 * MiB, note('C')), asio::detached);
  asio::co_spawn(io_, wait_for(d, 1 * MiB, note('d')), asio::detached);
  io_.poll();
  EXPECT_EQ(budget().waiters(), 3u);
  EXPECT_EQ(order, "");
  Share late(*arena_, "10.0.0.5", {});
  of_a.pop_back();
  EXPECT_FALSE(late.try_take(1)) << "no request overtakes";
  io_.poll();
  EXPECT_EQ(order, "c");
  of_b.clear();
  io_.poll();
  EXPECT_EQ(order, "cdC") << "d had its turn before c's second";
  EXPECT_EQ(budget().waiters(), 0u);
  EXPECT_TRUE(late.try_take(1));
}

TEST_F(BudgetTest, APeerAtItsLimitWaitsForItsOwnOthersAndHoldsUpNobody) {
  Share a(*arena_, "10.0.0.1", {}), b(*arena_, "10.0.0.2", {});
  auto of_a = take_all(a);
  bool a_served = false;
  asio::co_spawn(io_, wait_for(a, 1, [&](Result<Charge> charge) { a_served = charge.has_value(); }), asio::detached);
  io_.poll();
  EXPECT_FALSE(a_served);
  EXPECT_TRUE(b.try_take(Budget::chunk_max)) << "others are served past it";
  of_a.pop_back();
  io_.poll();
  EXPECT_TRUE(a_served);
}

TEST_F(BudgetTest, TheWaitIsBoundedInTime) {
  Budget::Limits limits = budget().limits();
  limits.wait_max = std::chrono::milliseconds(1);
  arena_->budget().set_limits(limits);
  Share a(*arena_, "10.0.0.1", {});
  auto of_a = take_all(a);
  Errc outcome = Errc::ok;
  asio::co_spawn(io_, wait_for(a, 1, [&](Result<Charge> charge) { outcome = charge.error().code; }), asio::detached);
  io_.run();
  EXPECT_EQ(outcome, Errc::slow_down);
  EXPECT_EQ(budget().waiters(), 0u);
}

TEST_F(BudgetTest, TheWaitersAreBoundedInNumber) {
  Share a(*arena_, "10.0.0.1", {});
  auto of_a = take_all(a);
  int refused = 0, served = 0;
  for (size_t i = 0; i < budget().limits().waiters_max + 3; ++i) {
    asio::co_spawn(io_, wait_for(a, 1, [&](Result<Charge> charge) { ++(charge ? served : refused); }), asio::detached);
  }
  io_.poll();
  EXPECT_EQ(refused, 3);
  of_a.clear();
  io_.poll();
  EXPECT_EQ(served, 8);
}

Task<> wait_for_whole(Share& share, size_t bytes, std::function<void(Result<Charge>)> done) {
  done(co_await share.take_whole(bytes));
}

// A waiter for all of it holds nothing of it: two with half each would wait for each other.
TEST_F(BudgetTest, WhatIsOfUseAsAWholeIsGivenAsAWhole) {
  Share first(*arena_, "10.0.0.1", {}), second(*arena_, "10.0.0.1", {});
  auto held = first.try_whole(3 * MiB / 2);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->bytes(), 3 * MiB / 2);
  EXPECT_FALSE(second.try_whole(MiB));
  size_t got = 0;
  asio::co_spawn(io_, wait_for_whole(second, MiB, [&](Result<Charge> charge) { got = charge->bytes(); }),
                 asio::detached);
  io_.poll();
  EXPECT_EQ(budget().charged_bytes(), 3 * MiB / 2);
  held.reset();
  io_.run();
  EXPECT_EQ(got, MiB);
  EXPECT_TRUE(first.try_whole(64 * MiB)) << "the part without a peer is as large as a peer's limit";
}

// One peer with many requests took all places of waiters, and another peer that had to wait was refused.
TEST_F(BudgetTest, OnePeerDoesNotTakeAllPlacesOfThoseWhoWait) {
  Budget::Limits limits = budget().limits();
  limits.peer_waiters_max = 3;
  arena_->budget().set_limits(limits);
  Share a(*arena_, "10.0.0.1", {}), b(*arena_, "10.0.0.2", {});
  auto of_a = take_all(a);
  auto of_b = take_all(b);
  int refused = 0, served = 0;
  const auto count = [&](const Result<Charge>& charge) { ++(charge ? served : refused); };
  for (int i = 0; i < 20; ++i) asio::co_spawn(io_, wait_for(a, 1, count), asio::detached);
  io_.poll();
  EXPECT_EQ(refused, 17);
  asio::co_spawn(io_, wait_for(b, 1, count), asio::detached);
  io_.poll();
  EXPECT_EQ(budget().waiters(), 4u);
  of_a.clear();
  of_b.clear();
  io_.run();
  EXPECT_EQ(served, 4);
}

TEST_F(BudgetTest, AWaiterThatIsDestroyedLeavesNothingBehind) {
  Share a(*arena_, "10.0.0.1", {});
  auto of_a = take_all(a);
  {
    asio::io_context other;
    asio::co_spawn(other, wait_for(a, 1, [](Result<Charge>) { FAIL(); }), asio::detached);
    other.poll();
    EXPECT_EQ(budget().waiters(), 1u);
  }
  EXPECT_EQ(budget().waiters(), 0u);
  {
    // A waiter that was served and destroyed before its coroutine ran must return its charge.
    asio::io_context other;
    asio::co_spawn(other, wait_for(a, 1, [](Result<Charge>) { FAIL(); }), asio::detached);
    other.poll();
    of_a.pop_back();
  }
  of_a.clear();
  EXPECT_EQ(budget().charged_bytes(), 0u);
}

Task<> lease_one(Share& share, size_t wanted, std::function<void(Result<Lease>)> done) {
  done(co_await share.lease(wanted));
}

TEST_F(BudgetTest, ALeaseThatFindsNoRoomInOnePieceIsTakenInSmallerOnes) {
  // Uncharged leases have left holes of 64 KiB only.
  std::vector<Lease> all;
  while (auto lease = arena_->lease(64 * KiB)) all.push_back(std::move(*lease));
  for (size_t i = 0; i < all.size(); i += 2) all[i] = Lease();
  Share share(*arena_, "10.0.0.1", {});
  size_t got = 0;
  asio::co_spawn(io_, lease_one(share, 128 * KiB, [&](Result<Lease> lease) { got = lease ? lease->size() : 0; }),
                 asio::detached);
  io_.run();
  EXPECT_EQ(got, Budget::unit);
  EXPECT_EQ(budget().charged_bytes(), 0u);
}

Task<> churn(Arena& arena, std::string peer, int rounds, std::atomic<int>& done) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(peer)));
  for (int i = 0; i < rounds; ++i) {
    Share share(arena, peer, {});
    auto first = co_await share.lease(1 + random() % Budget::chunk_max);
    if (!first) continue;
    first->data()[0] = std::byte{1};
    asio::steady_timer turn(co_await asio::this_coro::executor, std::chrono::microseconds(random() % 50));
    if (random() % 2 == 0) co_await turn.async_wait(asio::use_awaitable);
  }
  ++done;
}

TEST_F(BudgetTest, ManyThreadsTakeAndWaitAndEverythingComesBack) {
  Budget::Limits limits = budget().limits();
  limits.waiters_max = 1000;
  arena_->budget().set_limits(limits);
  constexpr int transfers = 16, threads = 4;
  std::atomic<int> done{0};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      asio::io_context io(1);
      for (int i = 0; i < transfers; ++i) {
        asio::co_spawn(io, churn(*arena_, "10.0.0." + std::to_string((t * transfers + i) % 5), 200, done),
                       asio::detached);
      }
      io.run();
    });
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(done, transfers * threads);
  EXPECT_EQ(budget().charged_bytes(), 0u);
  EXPECT_EQ(budget().waiters(), 0u);
  EXPECT_EQ(arena_->leased_bytes(), 0u);
}

}  // namespace
}  // namespace verbena::memory
