#include "net/name_lookup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace verbena::net {
namespace {

std::atomic<bool> name_servers_answer{false};

void slow_name_server(const std::string&, uint16_t port, TcpEndpoints& found) {
  name_servers_answer.wait(false);
  found.emplace_back(boost::asio::ip::make_address("192.0.2.1"), port);
}

TEST(NameLookup, AnAddressIsItsOwnAnswer) {
  const std::atomic<bool> stop{false};
  for (const char* address : {"127.0.0.1", "::1"}) {
    const auto found = look_up_name(address, 443, deadline_in(std::chrono::seconds(10)), stop);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ(found->front().address().to_string(), address);
    EXPECT_EQ(found->front().port(), 443);
  }
}

TEST(NameLookup, TheHostsOwnNameIsKnown) {
  const std::atomic<bool> stop{false};
  const auto found = look_up_name("localhost", 80, deadline_in(std::chrono::seconds(60)), stop);
  ASSERT_TRUE(found);
  for (const auto& one : *found) EXPECT_TRUE(one.address().is_loopback());
}

TEST(NameLookup, AServerThatDoesNotAnswerIsGivenUp) {
  std::atomic<bool> stop{false};
  const auto late = look_up_name("host.example", 1, deadline_in(std::chrono::milliseconds(20)), stop, slow_name_server);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), Errc::timed_out);
  stop = true;
  const auto ended = look_up_name("host.example", 1, deadline_in(std::chrono::hours(1)), stop, slow_name_server);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error(), Errc::cancelled);
  stop = false;
  name_servers_answer = true;
  name_servers_answer.notify_all();
  EXPECT_TRUE(look_up_name("host.example", 1, deadline_in(std::chrono::minutes(1)), stop, slow_name_server));
}

std::atomic<int> resolved{0};
std::atomic<bool> shared_answers{false};

void counting_name_server(const std::string&, uint16_t port, TcpEndpoints& found) {
  ++resolved;
  shared_answers.wait(false);
  found.emplace_back(boost::asio::ip::make_address("192.0.2.7"), port);
}

// A client that opens a hundred connections to one name asks for it once, and is not refused.
TEST(NameLookup, CallersOfOneNameShareALookup) {
  std::vector<std::thread> callers;
  std::atomic<int> found{0}, asked{0};
  for (int i = 0; i < 100; ++i) {
    callers.emplace_back([&] {
      ++asked;
      const auto all =
          look_up_name("shared.example", 7, deadline_in(std::chrono::minutes(1)), {}, counting_name_server);
      if (all && all->size() == 1) ++found;
    });
  }
  while (asked < 100 || resolved == 0) std::this_thread::yield();
  shared_answers = true;
  shared_answers.notify_all();
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(found, 100);
  EXPECT_LT(resolved, 100);
}

TEST(NameLookup, OnlyAddressesThatPassTheCheckAreConnectedTo) {
  const auto until = deadline_in(std::chrono::seconds(60));
  const auto v4_only = [](const std::string& address) { return address == "127.0.0.1"; };
  // A name may have addresses of both kinds: those that may not be connected to are left out.
  const auto both = [](const std::string&, uint16_t port, TcpEndpoints& found) {
    for (const char* address : {"10.0.0.1", "127.0.0.1", "::1"}) {
      found.emplace_back(boost::asio::ip::make_address(address), port);
    }
  };
  const auto found = find_addresses("both.example", 80, v4_only, until, {}, both);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().address().to_string(), "127.0.0.1");
  EXPECT_EQ(find_addresses("127.0.0.2", 80, v4_only, until, {}).error(), Errc::access_denied);
  EXPECT_TRUE(find_addresses("127.0.0.2", 80, nullptr, until, {}));
}

}  // namespace
}  // namespace verbena::net
