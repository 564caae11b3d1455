// Descriptions of queue pairs, sessions and connections, over a double of a device.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "memory/budget.h"
#include "rdma/rc/reliable_connections.h"
#include "rdma/rc/test_device.h"

namespace verbena::rdma::rc {
namespace {

TEST(PeerToken, SurvivesARoundTripAndHasNumbersInLittleEndianOrder) {
  PeerToken token{.queue_pair = 0x123456, .gid = test::Fabric::gid_of("10.77.0.2"), .key = 0xdeadbeef};
  token.address = 0x7f0000001000;
  token.length = 0x100000;
  token.lid = 0x0102;
  const std::string text = format_peer_token(token);
  EXPECT_EQ(text,
            "01"
            "56341200"
            "00000000000000000000ffff0a4d0002"
            "efbeadde"
            "00100000007f0000"
            "0000100000000000"
            "01"
            "0201");
  const auto again = parse_peer_token(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(format_peer_token(*again), text);
  EXPECT_EQ(again->queue_pair, token.queue_pair);
  EXPECT_EQ(again->gid, token.gid);
  EXPECT_EQ(again->key, token.key);
  EXPECT_EQ(again->address, token.address);
  EXPECT_EQ(again->length, token.length);
  EXPECT_EQ(again->lid, token.lid);
  EXPECT_EQ(address_of(again->gid).to_string(), "10.77.0.2");
  EXPECT_TRUE(parse_peer_token(text + ":7f00:100"));
  EXPECT_TRUE(parse_peer_token(std::string(88, '0'))->is_loopback());
  for (const std::string& bad :
       {std::string(), text.substr(1), text + "0", std::string(88, '1'), std::string(88, 'g')}) {
    EXPECT_FALSE(parse_peer_token(bad)) << bad;
  }
}

class RcSessions : public ::testing::Test {
 protected:
  void make(const Sessions::Options& of_sessions = {}, const Connections::Options& of_connections = {}) {
    make_unopened([this] { return fabric.open(); }, of_sessions, of_connections);
    ASSERT_TRUE(run(rc->endpoint->open()));
  }
  void make_unopened(Endpoint::OpenDevice open_device, const Sessions::Options& of_sessions = {},
                     const Connections::Options& of_connections = {}) {
    rc.reset();
    auto endpoint = Endpoint::create(*arena, networks, std::move(open_device));
    ASSERT_TRUE(endpoint);
    rc = std::make_unique<ReliableConnections>(std::move(*endpoint), of_sessions, of_connections);
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    auto done = [&](const std::exception_ptr& thrown, T value) {
      EXPECT_FALSE(thrown);
      result = std::move(value);
    };
    boost::asio::co_spawn(io, std::move(task), done);
    io.restart();
    io.run();
    return std::move(*result);
  }
  auto connect(const std::string& address, const std::string& account = {}) {
    PeerToken client{.queue_pair = 5};
    client.gid = test::Fabric::gid_of(peer);
    return rc->connections.connect(client, 1, account.empty() ? address_owner(address) : account, {account, address});
  }
  SessionRequest asked(bool put = false) const {
    SessionRequest request{.put = put, .target = "/b/k", .size = 100, .cookie = 7, .client_sequence = 1};
    request.peer.gid = test::Fabric::gid_of(peer);
    request.owner = "alice";
    request.payer = {"alice", "127.0.0.1"};
    return request;
  }
  // Objects are destroyed in a pool.
  bool comes_to(size_t pairs) {
    const metrics::Gauge& sessions = metrics::gauge("verbena_rdma_rc_sessions", "");
    const auto there = [&] { return fabric.pairs() == pairs && sessions.value() == 0; };
    for (int i = 0; i < 5000 && !there(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return there();
  }

  boost::asio::io_context io;
  std::unique_ptr<memory::Arena> arena = memory::Arena::create(64 * MiB).value();
  test::Fabric fabric;
  std::vector<std::string> networks = {"127.0.0.0/8"};
  std::string peer = "127.0.0.1";
  std::unique_ptr<ReliableConnections> rc;
};

TEST(Partition, IsAnEntryOfThePortsTable) {
  const std::array<uint16_t, 5> table{0xffff, 0x0001, 0x8002, 0x8001, 0x0000};
  EXPECT_EQ(partition_entry(table, 0xffff), 0);
  EXPECT_EQ(partition_entry(table, 0x8001), 3) << "a full member before a limited one";
  EXPECT_EQ(partition_entry(table, 0x0001), 3);
  EXPECT_EQ(partition_entry(std::span(table).first(2), 0x8001), 1);
  EXPECT_EQ(partition_entry(table, 0x8003), std::nullopt);
  EXPECT_EQ(partition_entry({}, 0xffff), std::nullopt);
}

TEST_F(RcSessions, AreClaimedOnceByTheirOwnerWithTheirCookie) {
  make();
  const auto made = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(made);
  const std::string id = (*made)->id;
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(rc->sessions.claim(id, "mallory", 7).error(), Errc::no_such_entity);
  EXPECT_EQ(rc->sessions.claim(std::string(32, '0'), "alice", 7).error(), Errc::no_such_entity);
  ASSERT_TRUE(rc->sessions.claim(id, "alice", 7));
  EXPECT_EQ(rc->sessions.claim(id, "alice", 7).error(), Errc::conditional_conflict);
  EXPECT_EQ(rc->sessions.cancel(id, "alice").error(), Errc::conditional_conflict);
  rc->sessions.end(*made);
  EXPECT_EQ(rc->sessions.claim(id, "alice", 7).error(), Errc::no_such_entity);
}

TEST_F(RcSessions, EndWithAWrongCookieACancelOrTheirTime) {
  make({.prepared_for = std::chrono::milliseconds(60'000)});
  std::string id = (*run(rc->sessions.prepare(asked())))->id;
  EXPECT_EQ(rc->sessions.claim(id, "alice", 8).error(), Errc::access_denied);
  EXPECT_EQ(rc->sessions.claim(id, "alice", 7).error(), Errc::no_such_entity);
  id = (*run(rc->sessions.prepare(asked())))->id;
  EXPECT_TRUE(rc->sessions.cancel(id, "mallory"));
  EXPECT_EQ(rc->sessions.count(), 1u);
  EXPECT_TRUE(rc->sessions.cancel(id, "alice"));
  EXPECT_TRUE(rc->sessions.cancel(id, "alice"));
  EXPECT_EQ(rc->sessions.count(), 0u);
  ASSERT_TRUE(run(rc->sessions.prepare(asked(true))));
  EXPECT_EQ(fabric.remote_regions(), 1u);
  rc->sessions.reap(SteadyClock::now());
  EXPECT_EQ(rc->sessions.count(), 1u);
  rc->sessions.reap(deadline_in(std::chrono::minutes(2)));
  EXPECT_EQ(rc->sessions.count(), 0u);
  EXPECT_TRUE(comes_to(0));
  EXPECT_EQ(fabric.remote_regions(), 0u);
  EXPECT_EQ(arena->budget().charged_bytes(), 0u);
}

TEST_F(RcSessions, AreBoundedInAllForEachAccountAndByMemory) {
  make({.places = {.all_max = 3, .account_max = 2}, .staging_size_max = 1 * MiB});
  ASSERT_TRUE(run(rc->sessions.prepare(asked())));
  SessionRequest other = asked();
  other.owner = "alice, under another session's name";
  ASSERT_TRUE(run(rc->sessions.prepare(other)));
  EXPECT_EQ(run(rc->sessions.prepare(asked())).error(), Errc::slow_down);
  other.owner = "a third name";
  EXPECT_EQ(run(rc->sessions.prepare(other)).error(), Errc::slow_down) << "names of its own make no other account";
  other.payer.account = "bob";
  ASSERT_TRUE(run(rc->sessions.prepare(other)));
  other.payer.account = "carol";
  EXPECT_EQ(run(rc->sessions.prepare(other)).error(), Errc::slow_down);
  rc->sessions.reap(deadline_in(std::chrono::minutes(1)));
  ASSERT_TRUE(comes_to(0));
  other.put = true;
  other.size = 1 * MiB + 1;
  EXPECT_EQ(run(rc->sessions.prepare(other)).error(), Errc::too_large);
  arena->budget().set_limits({.total_max = 1 * MiB, .peer_max = 1 * MiB, .small_max = 1 * MiB});
  other.size = 1 * MiB;
  ASSERT_TRUE(run(rc->sessions.prepare(other)));
  EXPECT_EQ(run(rc->sessions.prepare(other)).error(), Errc::slow_down);
}

TEST_F(RcSessions, APutsMemoryIsALeaseOfTheArenaWhereThatIsLargeEnough) {
  make();
  SessionRequest put = asked(true);
  const std::pair<uint64_t, uint64_t> sizes[] = {
      {100, 4 * KiB}, {1 * MiB + 1, 2 * MiB}, {4 * MiB, 4 * MiB}, {4 * MiB + 1, 0}};
  for (const auto& [size, leased] : sizes) {
    put.size = size;
    {
      const auto session = run(rc->sessions.prepare(put));
      ASSERT_TRUE(session);
      EXPECT_EQ((*session)->staging.bytes().size(), size);
      EXPECT_EQ(arena->leased_bytes(), leased);
      EXPECT_GE(arena->budget().charged_bytes(), size);
    }
    rc->sessions.reap(deadline_in(std::chrono::minutes(1)));
    ASSERT_TRUE(comes_to(0));
  }
  EXPECT_EQ(arena->leased_bytes(), 0u);
  EXPECT_EQ(arena->budget().charged_bytes(), 0u);
}

TEST_F(RcSessions, NeverReachAThirdParty) {
  make();
  peer = "10.1.2.3";
  EXPECT_EQ(run(rc->sessions.prepare(asked())).error(), Errc::rdma_not_supported);
  peer = "ff02::1";
  EXPECT_EQ(run(rc->sessions.prepare(asked())).error(), Errc::rdma_not_supported);
  peer = "fe80::1";
  EXPECT_EQ(run(rc->sessions.prepare(asked())).error(), Errc::rdma_not_supported);
  peer = "127.0.0.1";
  EXPECT_TRUE(run(rc->sessions.prepare(asked())));
  networks = {"10.0.0.0/8", "fe80::/10"};
  make();
  EXPECT_EQ(run(rc->sessions.prepare(asked())).error(), Errc::rdma_not_supported) << "this host is not named";
  for (const char* named : {"10.1.2.3", "fe80::1"}) {
    peer = named;
    EXPECT_TRUE(run(rc->sessions.prepare(asked()))) << named;
  }
}

TEST_F(RcSessions, ConnectionsServeTheirOwnerOneRequestAtATime) {
  make();
  PeerToken client{.queue_pair = 5};
  client.gid = test::Fabric::gid_of(peer);
  const auto made = run(rc->connections.connect(client, 1, "alice", {"alice", "127.0.0.1"}));
  ASSERT_TRUE(made);
  Token token;
  token.form = TokenForm::cuobject_rc;
  token.endpoint_name = made->id;
  token.size = 10;
  const auto open = [&](std::string_view owner) { return rc->connections.open_now(token, {"127.0.0.1", owner}); };
  EXPECT_FALSE(open("mallory"));
  EXPECT_FALSE(open(""));
  auto window = open("alice");
  ASSERT_TRUE(window);
  EXPECT_FALSE(open("alice"));
  window->reset();
  window = open("alice");
  ASSERT_TRUE(window);
  rc->connections.disconnect(made->id, "mallory");
  rc->connections.disconnect(made->id, "alice");
  EXPECT_EQ(fabric.pairs(), 1u) << "it serves a request";
  window->reset();
  EXPECT_TRUE(comes_to(0));
  EXPECT_FALSE(open("alice"));
  const auto idle = run(rc->connections.connect(client, 1, "alice", {"alice", "127.0.0.1"}));
  ASSERT_TRUE(idle);
  token.endpoint_name = idle->id;
  ASSERT_TRUE(open("alice"));  // and ends at once
  rc->connections.reap(deadline_in(std::chrono::minutes(4)));
  EXPECT_EQ(rc->connections.count(), 1u);
  rc->connections.reap(deadline_in(std::chrono::minutes(6)));
  EXPECT_EQ(rc->connections.count(), 0u);
}

TEST_F(RcSessions, AFailedWriteIsReportedWhenNoPacketOfItCanLandAnyMore) {
  make();
  fabric.memory.assign(4096, std::byte{1});
  fabric.is_stuck = true;
  fabric.lands_late = std::chrono::milliseconds(100);
  const auto made = run(connect("127.0.0.1", "alice"));
  ASSERT_TRUE(made);
  Token token;
  token.form = TokenForm::cuobject_rc;
  token.endpoint_name = made->id;
  token.base = fabric.address();
  token.size = fabric.memory.size();
  token.key = test::Fabric::client_key;
  const auto window = rc->connections.open_now(token, {"127.0.0.1", "alice"});
  ASSERT_TRUE(window);
  const auto lease = arena->lease(4096);
  ASSERT_TRUE(lease);
  std::memset(lease->data(), 7, 4096);
  EXPECT_FALSE(run((*window)->write(lease->bytes(), 0, deadline_in(std::chrono::milliseconds(20)))));
  EXPECT_EQ(fabric.pairs(), 0u);
  const auto ended = SteadyClock::now() - fabric.pair_ended_at;
  EXPECT_GE(ended, std::chrono::milliseconds(300)) << "its packets may still be on their way";
  // The client has its memory back.
  fabric.memory.assign(4096, std::byte{0xa5});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(fabric.memory, std::vector<std::byte>(4096, std::byte{0xa5}));
}

// Opens when the test says so, or is given up after a while, so that a test cannot hang.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; })) return;
    given_up_ = open_ = true;
  }
  bool given_up() {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, given_up_ = false;
};

TEST_F(RcSessions, CallersWhosePeersCannotBeReachedHoldUpNoOthers) {
  networks = {"127.0.0.0/8", "10.0.0.0/8"};
  make();
  Gate reachable;
  fabric.before_connect = [&](const Peer& to) {
    if (to.gid == test::Fabric::gid_of("10.9.9.9")) reachable.pass();
  };
  peer = "10.9.9.9";
  boost::asio::io_context others;
  int connected = 0;
  const auto count = [&](const std::exception_ptr&, const Result<Connections::Made>& made) {
    connected += made ? 1 : 0;
  };
  for (int i = 0; i < 128; ++i) {
    boost::asio::co_spawn(others, connect("192.0.2." + std::to_string(i / 8)), count);
  }
  for (int i = 0; i < 8; ++i) boost::asio::co_spawn(others, connect("192.0.2.77", "mallory"), count);
  others.poll();
  peer = "127.0.0.1";
  const auto session = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(session);
  EXPECT_TRUE(run(rc->sessions.connect(*session, 5)));
  EXPECT_FALSE(reachable.given_up()) << "it waited for the network of others";
  reachable.open();
  others.run();
  EXPECT_EQ(connected, 136) << "each has its turn";
  rc->sessions.end(*session);
}

TEST_F(RcSessions, AHostWhosePeerCannotBeReachedHoldsUpNoOtherOfItsAccount) {
  networks = {"127.0.0.0/8", "10.0.0.0/8"};
  make();
  Gate reachable;
  fabric.before_connect = [&](const Peer& to) {
    if (to.gid == test::Fabric::gid_of("10.9.9.9")) reachable.pass();
  };
  peer = "10.9.9.9";
  boost::asio::io_context others;
  int connected = 0;
  const auto count = [&](const std::exception_ptr&, const Result<Connections::Made>& made) {
    connected += made ? 1 : 0;
  };
  for (int i = 0; i < 8; ++i) boost::asio::co_spawn(others, connect("192.0.2.77", "alice"), count);
  others.poll();
  std::thread goes_on([&] { others.run(); });  // else a test that fails would not end
  peer = "127.0.0.1";
  EXPECT_TRUE(run(connect("127.0.0.1", "alice")));
  EXPECT_FALSE(reachable.given_up()) << "it waited for the network of another host";
  reachable.open();
  goes_on.join();
  EXPECT_EQ(connected, 8);
}

// The turns that payers were given, in that order.
class ReliableTurns : public ::testing::Test {
 protected:
  // Whether it was its turn at once.
  bool take(const char* account, const char* address) {
    const size_t before = taken.size();
    const auto note = [this, who = std::string(account) + ' ' + address](const std::exception_ptr&,
                                                                         Result<Turns::Turn> turn) {
      taken.push_back(std::move(turn));
      order.push_back(who);
    };
    boost::asio::co_spawn(io, turns->take({account, address}), note);
    go_on();
    return taken.size() > before;
  }
  void give_back(size_t which) {
    taken[which] = fail(Errc::closed, "given back");
    go_on();
  }
  void go_on() {
    io.restart();
    io.poll();
  }

  boost::asio::io_context io;
  std::optional<Turns> turns;
  std::vector<Result<Turns::Turn>> taken;
  std::vector<std::string> order;
};

TEST_F(ReliableTurns, PayersTakeTurnsWhereNoPlaceIsFree) {
  turns.emplace(Turns::Limits{.all_max = 2, .each_max = 2, .account_max = 4});
  EXPECT_TRUE(take("alice", "192.0.2.1"));
  EXPECT_TRUE(take("alice", "192.0.2.1"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(take("alice", "192.0.2.1"));
  EXPECT_FALSE(take("alice", "192.0.2.2")) << "another host is another payer";
  EXPECT_FALSE(take("bob", "192.0.2.1"));
  EXPECT_FALSE(take("bob", "192.0.2.1"));
  for (size_t i = 0; i < 6; ++i) {
    give_back(i);
    EXPECT_EQ(taken.size(), i + 3) << "a place for one";
  }
  const std::vector<std::string> wanted{"alice 192.0.2.1", "alice 192.0.2.1", "alice 192.0.2.1", "alice 192.0.2.2",
                                        "bob 192.0.2.1",   "alice 192.0.2.1", "bob 192.0.2.1",   "alice 192.0.2.1"};
  EXPECT_EQ(order, wanted);
  EXPECT_TRUE(std::ranges::all_of(taken, [](const auto& turn) { return turn || turn.error() == Errc::closed; }));
}

TEST_F(ReliableTurns, CallsThatAreNotSignedShareTheirOwnBound) {
  turns.emplace(Turns::Limits{.all_max = 8, .each_max = 2, .account_max = 4, .unsigned_max = 3});
  for (const char* address : {"192.0.2.1", "192.0.2.2", "192.0.2.3"}) EXPECT_TRUE(take("", address));
  EXPECT_FALSE(take("", "192.0.2.4")) << "waits: there are three, from whatever host";
  for (const char* address : {"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}) EXPECT_TRUE(take("alice", address));
  EXPECT_FALSE(take("alice", "192.0.2.5"));
  give_back(3);
  EXPECT_EQ(order.back(), "alice 192.0.2.5") << "its account has a place, they have none";
  give_back(0);
  EXPECT_EQ(order.back(), " 192.0.2.4");
}

TEST_F(ReliableTurns, OfAnAccountAreBoundedAndWaitingForOneEnds) {
  turns.emplace(
      Turns::Limits{.all_max = 8, .each_max = 2, .account_max = 3, .waits_max = std::chrono::milliseconds(50)});
  EXPECT_TRUE(take("alice", "192.0.2.1"));
  EXPECT_TRUE(take("alice", "192.0.2.1"));
  EXPECT_FALSE(take("alice", "192.0.2.1")) << "waits: its address has two";
  EXPECT_TRUE(take("alice", "192.0.2.2"));
  EXPECT_FALSE(take("alice", "192.0.2.3")) << "waits: its account has three";
  EXPECT_TRUE(take("bob", "192.0.2.1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  ASSERT_EQ(taken.size(), 4u);
  give_back(0);
  ASSERT_EQ(taken.size(), 6u) << "neither waits any more";
  EXPECT_EQ(taken[4].error(), Errc::slow_down);
  EXPECT_EQ(taken[5].error(), Errc::slow_down);
  EXPECT_TRUE(take("alice", "192.0.2.3")) << "its place is free";
}

TEST_F(RcSessions, ADeviceThatCannotBeOpenedIsNotTriedForEachCall) {
  std::atomic<int> tries = 0;
  make_unopened([&]() -> Result<std::unique_ptr<Device>> {
    ++tries;
    return fail(Errc::unsupported, "none");
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(connect("127.0.0.1")).error(), Errc::unsupported);
  EXPECT_LT(tries, 5);
}

TEST_F(RcSessions, ACallWithoutAPlaceDoesNotWaitForTheDevice) {
  Gate opened;
  const auto open = [&] {
    opened.pass();
    return fabric.open();
  };
  make_unopened(open, {}, {.places = {.all_max = 1}});
  boost::asio::io_context others;
  bool connected = false;
  const auto note = [&](const std::exception_ptr&, const Result<Connections::Made>& made) {
    connected = made.has_value();
  };
  boost::asio::co_spawn(others, connect("127.0.0.1"), note);
  others.poll();
  EXPECT_EQ(run(connect("127.0.0.1")).error(), Errc::slow_down);
  EXPECT_FALSE(opened.given_up());
  opened.open();
  others.run();
  EXPECT_TRUE(connected);
}

TEST_F(RcSessions, APortThatHasChangedIsReadAgain) {
  make();
  const auto old = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(old);
  fabric.own_address = "127.0.0.9";
  EXPECT_EQ(run(rc->sessions.connect(*old, 5)).error(), Errc::unsupported) << "the client is told to use HTTP";
  rc->sessions.end(*old);
  const auto next = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(next);
  EXPECT_EQ((*next)->own_gid, test::Fabric::gid_of("127.0.0.9"));
  EXPECT_TRUE(run(rc->sessions.connect(*next, 5)));
  rc->sessions.end(*next);
  // And after a while, though no connection has failed.
  fabric.own_address = "127.0.0.10";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const auto later = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(later);
  EXPECT_EQ((*later)->own_gid, test::Fabric::gid_of("127.0.0.10"));
  rc->sessions.end(*later);
}

TEST_F(RcSessions, APeerThatWasToldAGidThatHasGoneIsToldToUseHttp) {
  make();
  const auto old = run(rc->sessions.prepare(asked()));
  ASSERT_TRUE(old);
  fabric.own_address = "127.0.0.11";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const auto other = run(rc->sessions.prepare(asked()));  // reads the port again
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->own_gid, test::Fabric::gid_of("127.0.0.11"));
  EXPECT_EQ(run(rc->sessions.connect(*old, 5)).error(), Errc::unsupported);
  EXPECT_TRUE(run(rc->sessions.connect(*other, 5)));
  rc->sessions.end(*old);
  rc->sessions.end(*other);
}

TEST_F(RcSessions, AConnectionIsAnsweredWithTheGidThatItHas) {
  make();
  PeerToken client{.queue_pair = 5};
  client.gid = test::Fabric::gid_of(peer);
  fabric.on_connect = [&](uint32_t, const Peer&) {
    fabric.own_address = "127.0.0.12";
    EXPECT_TRUE(rc->endpoint->device().refresh());
  };
  const auto made = run(rc->connections.connect(client, 1, "alice", {"alice", "127.0.0.1"}));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->own.gid, test::Fabric::gid_of("127.0.0.1"));
}

TEST_F(RcSessions, WorkThatIsStillInTheDeviceAtTheEndIsTold) {
  Gate opened;
  const auto open = [&] {
    opened.pass();
    return fabric.open();
  };
  make_unopened(open);
  bool ended = false;
  const auto note = [&](const std::exception_ptr&, const Result<void>&) { ended = true; };
  boost::asio::co_spawn(io, rc->endpoint->open(), note);
  io.poll();
  EXPECT_FALSE(rc->endpoint->end_work(std::chrono::milliseconds(10)));
  opened.open();
  io.run();  // what it uses is still there
  EXPECT_TRUE(ended);
  make();
  EXPECT_TRUE(rc->endpoint->end_work(std::chrono::seconds(10)));
}

TEST_F(RcSessions, ConnectionsThatNobodySignedAreFewAndGoUnlessTheyAreUsed) {
  make();
  PeerToken client{.queue_pair = 5};
  client.gid = test::Fabric::gid_of(peer);
  const std::string owner = address_owner("127.0.0.1");
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(run(rc->connections.connect(client, 1, owner, {{}, "127.0.0.1"})));
  EXPECT_EQ(run(rc->connections.connect(client, 1, owner, {{}, "127.0.0.1"})).error(), Errc::slow_down);
  ASSERT_TRUE(run(rc->connections.connect(client, 1, "alice", {"alice", "127.0.0.1"})));
  rc->connections.reap(deadline_in(std::chrono::seconds(20)));
  EXPECT_EQ(rc->connections.count(), 9u);
  rc->connections.reap(deadline_in(std::chrono::seconds(40)));
  EXPECT_EQ(rc->connections.count(), 0u);
}

TEST(ReliablePlaces, UnsignedCallsTakeAPartAndANetworkIsOneClient) {
  static metrics::Gauge& taken = metrics::gauge("verbena_rdma_rc_sessions", "");
  Places places({.all_max = 20, .client_max = 12, .unsigned_max = 6, .unsigned_client_max = 4}, taken);
  std::vector<Places::Place> held;
  const auto takes = [&](const Payer& payer) {
    auto place = places.take(payer);
    if (place) held.push_back(std::move(*place));
    return place.has_value();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(takes({{}, "2001:db8::" + std::to_string(i)}));
  EXPECT_FALSE(takes({{}, "2001:db8::9"})) << "a host has all addresses of its /64";
  EXPECT_TRUE(takes({{}, "192.0.2.1"}));
  EXPECT_TRUE(takes({{}, "192.0.2.2"}));
  EXPECT_FALSE(takes({{}, "192.0.2.3"})) << "the rest is for signed calls";
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(takes({std::to_string(i), "192.0.2.1"}));
  EXPECT_FALSE(takes({"another", "192.0.2.1"}));
  EXPECT_TRUE(takes({"another", "192.0.2.2"}));
  EXPECT_TRUE(takes({"another", "192.0.2.3"}));
  EXPECT_FALSE(takes({"another", "192.0.2.4"})) << "all are taken";
  held.pop_back();
  EXPECT_TRUE(takes({"another", "192.0.2.4"}));
  held.clear();
  EXPECT_EQ(taken.value(), 0);
}

}  // namespace
}  // namespace verbena::rdma::rc
