// cuObject's descriptors over dynamically connected queue pairs, over a double of libibverbs and libmlx5.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "memory/budget.h"
#include "rdma/dc/descriptors.h"
#include "rdma/dc/test_fabric.h"

namespace verbena::rdma::dc {
namespace {

using WindowPtr = std::unique_ptr<fabric::Window>;
using test::descriptor;

constexpr uint32_t target = 0xc1d, remote_key = 0x181c00;
constexpr std::chrono::milliseconds soon{20}, later{10'000};
constexpr std::chrono::milliseconds port_is_old{1'100};  // read so long ago, it is read again
constexpr const char* still_used =
    "token: requests still use another RDMA device, whose registration of the arena ends before a new one";

class DcDescriptors : public ::testing::Test {
 protected:
  void SetUp() override {
    memory.assign(256 * KiB, std::byte{'.'});
    fabric.clients[target].lent[remote_key] = {memory};
    make();
  }
  // Nothing is left, and everything ended before what it was made of.
  void TearDown() override {
    descriptors.reset();
    EXPECT_EQ(fabric.objects(), 0u);
    EXPECT_EQ(fabric.lies, 0u);
    EXPECT_EQ(arena->leased_bytes(), 0u);
    EXPECT_EQ(metrics::gauge("verbena_rdma_dc_initiators", "").value(), 0);
  }
  void make(const rc::Places::Limits& limits = {.all_max = 4, .account_max = 3, .client_max = 3}) {
    descriptors.reset();
    const auto open = [this](std::string_view but, const Device::MakeRoom& room) {
      return Device::open(fabric.verbs(), choice, *arena, but, room);
    };
    auto made = Descriptors::create(networks, open, {.initiators = limits, .settle = settle});
    ASSERT_TRUE(made);
    descriptors = std::move(*made);
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
    while (!result && io.run_one() != 0) {  // what else is there may wait for a test
    }
    io.poll();
    return std::move(*result);
  }
  // Goes on until operations are held or nothing is left to do.
  void run_until_held(size_t count) {
    io.restart();
    for (int i = 0; i < 5000 && fabric.held() < count; ++i) {
      if (io.poll() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(fabric.held(), count);
  }
  std::string text(std::optional<MutableBytes> of = {}, uint32_t key = remote_key, uint32_t number = target,
                   const std::string& address = "127.0.0.1", uint16_t lid = 0) {
    const MutableBytes lent = of.value_or(memory);
    return descriptor(reinterpret_cast<uintptr_t>(lent.data()), lent.size(), key, number, address, lid);
  }
  Result<WindowPtr> open(const std::string& said, const char* account = "alice", const char* address = "127.0.0.1") {
    const Token token = *parse_token(said);
    EXPECT_EQ(token.form, TokenForm::cuobject);
    EXPECT_EQ(token.flaw, nullptr) << token.flaw;
    return run(descriptors->open(token, {address, account, account}, fabric::Access::server_writes));
  }
  memory::Lease leased(char fill, size_t size = 4096) {
    memory::Lease lease = arena->lease(size).value();
    std::memset(lease.data(), fill, size);
    return lease;
  }
  Result<void> write(fabric::Window& window, char fill, uint64_t at = 0, std::chrono::milliseconds within = later) {
    const memory::Lease lease = leased(fill);
    return run(window.write(lease.bytes(), at, deadline_in(within)));
  }
  bool has(char fill, size_t from, size_t size = 4096) const {
    return std::all_of(memory.begin() + from, memory.begin() + from + size,
                       [&](std::byte b) { return b == static_cast<std::byte>(fill); });
  }
  std::string why(const std::string& said, const char* account = "alice", const char* address = "127.0.0.1") {
    const auto window = open(said, account, address);
    if (window) return "served";
    EXPECT_EQ(window.error(), Errc::rdma_not_supported) << "a client has no way to fall back from anything else";
    return window.error().context;
  }

  boost::asio::io_context io;
  std::unique_ptr<memory::Arena> arena = memory::Arena::create(64 * MiB).value();
  test::Fabric fabric;
  rc::DeviceChoice choice;
  std::vector<std::string> networks = {"127.0.0.0/8"};
  std::chrono::milliseconds settle{1};
  std::vector<std::byte> memory;
  std::unique_ptr<Descriptors> descriptors;
};

TEST_F(DcDescriptors, MoveBytesBothWaysByOneInitiatorAndOneAddressHandle) {
  for (int i = 0; i < 3; ++i) {
    const auto window = open(text());
    ASSERT_TRUE(window) << window.error().context;
    EXPECT_EQ((*window)->size(), memory.size());
    ASSERT_TRUE(write(**window, 'a', 0));
    ASSERT_TRUE(write(**window, 'z', memory.size() - 4096));
    EXPECT_TRUE(has('a', 0) && has('.', 4096) && has('z', memory.size() - 4096));
    const memory::Lease into = leased(0, 8192);
    ASSERT_TRUE(run((*window)->read(into.bytes(), memory.size() - 8192, deadline_in(later))));
    EXPECT_EQ(std::memcmp(into.data(), memory.data() + memory.size() - 8192, 8192), 0);
    memory.assign(memory.size(), std::byte{'.'});
  }
  EXPECT_EQ(fabric.initiators(), 1u);
  EXPECT_EQ(fabric.paths_made, 1u);
  EXPECT_EQ(fabric.devices_opened, 1u);
}

TEST_F(DcDescriptors, MoveWhatIsNotTheArenasByWayOfIt) {
  const auto window = open(text());
  ASSERT_TRUE(window);
  const std::string elsewhere(4096, 'e');
  ASSERT_TRUE(run((*window)->write(as_bytes(elsewhere), 0, deadline_in(later))));
  EXPECT_TRUE(has('e', 0));
  std::vector<std::byte> into(16);
  EXPECT_FALSE(run((*window)->read(into, 0, deadline_in(later))));
  EXPECT_EQ(write(**window, 'o', memory.size() - 4095).error(), Errc::invalid_argument) << "out of the window";
  EXPECT_TRUE(has('.', memory.size() - 4096));
}

TEST_F(DcDescriptors, ABufferIsKeptUntilALateCompletion) {
  auto window = open(text());
  ASSERT_TRUE(window);
  fabric.holds = true;
  bool done = false;
  {
    auto writes = [](fabric::Window& to, memory::Lease lease) -> Task<Result<void>> {
      co_return co_await to.write(lease.bytes(), 0, deadline_in(later));
    };
    boost::asio::co_spawn(io, writes(**window, leased('k')), [&](const std::exception_ptr&, const Result<void>& wrote) {
      done = true;
      EXPECT_TRUE(wrote);
    });
  }
  run_until_held(1);
  EXPECT_FALSE(done);
  EXPECT_EQ(arena->leased_bytes(), 4096u);
  // Others take memory and write there meanwhile.
  std::vector<memory::Lease> others;
  for (int i = 0; i < 64; ++i) others.push_back(leased('x'));
  others.clear();
  EXPECT_TRUE(has('.', 0)) << "it has not completed";
  fabric.holds = false;
  fabric.release();
  io.restart();
  io.run();
  EXPECT_TRUE(done);
  EXPECT_TRUE(has('k', 0));
}

TEST_F(DcDescriptors, ALateOperationFailsAndNeverLands) {
  auto window = open(text());
  ASSERT_TRUE(window);
  fabric.holds = true;
  const auto wrote = write(**window, 'l', 0, soon);
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error(), Errc::rdma_transfer_failed);
  EXPECT_EQ(wrote.error().sys, ETIMEDOUT);
  EXPECT_EQ(fabric.initiators(), 0u) << "it could still have written";
  fabric.holds = false;
  fabric.release();
  EXPECT_TRUE(has('.', 0));
  EXPECT_FALSE(write(**window, 'l')) << "its transfer has failed";
  window->reset();
  const auto again = open(text());
  ASSERT_TRUE(again);
  EXPECT_TRUE(write(**again, 'm'));
  EXPECT_TRUE(has('m', 0));
}

// Its packets may be on the wire when its queue pair is destroyed.
TEST_F(DcDescriptors, AFailedWriteIsReportedWhenNoPacketOfItCanLandAnyMore) {
  settle = Descriptors::Options().settle;
  make();
  const auto window = open(text());
  ASSERT_TRUE(window);
  fabric.holds = true;
  fabric.lands_late = std::chrono::milliseconds(100);
  EXPECT_FALSE(write(**window, 'l', 0, soon));
  EXPECT_EQ(fabric.initiators(), 0u);
  EXPECT_EQ(fabric.held(), 0u);
  EXPECT_TRUE(has('l', 0)) << "what had been sent has landed by now";
  std::ranges::fill(memory, std::byte{'c'});  // the client has its memory back
  std::this_thread::sleep_for(2 * fabric.lands_late);
  EXPECT_TRUE(has('c', 0, memory.size()));
}

// A read that is late must not write into memory that is another's by then.
TEST_F(DcDescriptors, ALateReadNeverLandsInTheArena) {
  const auto window = open(text());
  ASSERT_TRUE(window);
  fabric.holds = true;
  {
    const memory::Lease into = leased('i');
    EXPECT_FALSE(run((*window)->read(into.bytes(), 0, deadline_in(soon))));
  }
  const memory::Lease others = leased('o');
  fabric.release();
  EXPECT_EQ(std::count(others.data(), others.data() + 4096, std::byte{'o'}), 4096);
}

TEST_F(DcDescriptors, AWindowThatIsGivenUpKeepsItsInitiatorUntilItsOperationEnds) {
  fabric.holds = true;
  struct Shared {
    WindowPtr window;
    memory::Lease lease;
  };
  auto writes = [](std::shared_ptr<Shared> one) -> Task<Result<void>> {
    co_return co_await one->window->write(one->lease.bytes(), 0, deadline_in(later));
  };
  auto window = open(text());
  ASSERT_TRUE(window);
  auto shared = std::make_shared<Shared>(std::move(*window), leased('g'));
  boost::asio::co_spawn(io, writes(std::move(shared)), [](const std::exception_ptr&, const Result<void>&) {});
  run_until_held(1);
  fabric.holds = false;
  const auto other = open(text());
  EXPECT_EQ(fabric.initiators(), 2u) << "the first one is not free";
  fabric.release();
  io.restart();
  io.run();
  EXPECT_TRUE(has('g', 0));
}

TEST_F(DcDescriptors, WhatTheClientsDeviceRefusesFailsAndItsInitiatorIsReplaced) {
  std::vector<std::byte> readable(4096, std::byte{'r'});
  fabric.clients[target].lent[7] = {.memory = readable, .readable = true, .writable = false};
  fabric.clients[0xbad] = {.key = 0xffeeddcd, .lent = {{remote_key, {memory}}}};
  const MutableBytes beyond(memory.data() + 4096, memory.size());  // ends 4 KiB behind what was lent
  struct Case {
    const char* what;
    std::string text;
    uint64_t at = 0;
  };
  const Case cases[] = {{"another key", text(memory, remote_key + 1)},
                        {"memory that may be read only", text(readable, 7)},
                        {"an end behind the memory", text(beyond), memory.size() - 4096},
                        {"no such target", text(memory, remote_key, target + 1)},
                        {"a target with another access key", text(memory, remote_key, 0xbad)}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const size_t made = fabric.initiators_made, paths = fabric.paths_made;
    {
      const auto window = open(one.text);
      ASSERT_TRUE(window);
      const auto wrote = write(**window, 'w', one.at);
      ASSERT_FALSE(wrote);
      EXPECT_EQ(wrote.error(), Errc::rdma_transfer_failed);
      EXPECT_NE(wrote.error().sys, ETIMEDOUT);
    }
    EXPECT_TRUE(has('.', 0, memory.size()));
    EXPECT_EQ(readable, std::vector<std::byte>(4096, std::byte{'r'}));
    const auto next = open(text());
    ASSERT_TRUE(next);
    EXPECT_TRUE(write(**next, 'n'));
    EXPECT_GT(fabric.initiators_made, made) << "one that failed serves no other client";
    EXPECT_GT(fabric.paths_made, paths) << "nor does the way to the client";
    std::ranges::fill(memory, std::byte{'.'});
  }
}

TEST_F(DcDescriptors, TwoClientsOfOneTargetHaveAnInitiatorEach) {
  std::vector<std::byte> second(4096, std::byte{'.'});
  fabric.clients[target].lent[9] = {second};
  auto one = open(text()), other = open(text(second, 9), "bob", "127.0.0.2");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(fabric.initiators(), 2u);
  fabric.fail_status = IBV_WC_RETRY_EXC_ERR;
  EXPECT_FALSE(write(**one, '1'));
  fabric.fail_status = 0;
  EXPECT_TRUE(write(**other, '2')) << "the failure of another is none of its own";
  EXPECT_EQ(second, std::vector<std::byte>(4096, std::byte{'2'}));
  EXPECT_TRUE(has('.', 0));
  EXPECT_EQ(fabric.initiators(), 1u);
}

TEST_F(DcDescriptors, AClientThatCannotBeReachedIsDeclinedAndAskedForAgainLater) {
  fabric.path_error = ETIMEDOUT;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(why(text()), "token: its client's address is not reachable by the RDMA device");
  }
  EXPECT_EQ(fabric.paths_asked, 1u) << "each would wait for the network";
  fabric.path_error = 0;
  EXPECT_EQ(why(text(memory, remote_key, target, "127.0.0.9")), "served") << "another client";
}

// The kernel says so of an address that it does not find, whose client chose it.
TEST_F(DcDescriptors, AnAddressThatTheKernelDoesNotFindIsNoLostDevice) {
  ASSERT_EQ(why(text()), "served");
  for (const int error : {ENODEV, ENXIO, EIO, EINVAL}) {
    SCOPED_TRACE(error);
    fabric.path_error = error;
    const size_t read = fabric.ports_read;
    const std::string address = "127.0.1." + std::to_string(error);
    EXPECT_EQ(why(text(memory, remote_key, target, address)),
              "token: its client's address is not reachable by the RDMA device");
    EXPECT_GT(fabric.ports_read, read) << "the port may have changed";
    fabric.path_error = 0;
    EXPECT_EQ(why(text()), "served");
  }
  EXPECT_EQ(fabric.devices_opened, 1u);
}

TEST_F(DcDescriptors, OneClientsFailuresLeaveThePathsOfOthers) {
  ASSERT_EQ(why(text()), "served");
  fabric.path_error = ETIMEDOUT;
  for (int i = 0; i < 300; ++i) {
    const std::string address = "127.0." + std::to_string(1 + i / 200) + '.' + std::to_string(1 + i % 200);
    ASSERT_NE(why(text(memory, remote_key, target, address), "mallory", "127.0.0.9"), "served");
  }
  const size_t asked = fabric.paths_asked;
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.paths_asked, asked);
}

TEST_F(DcDescriptors, APortThatIsDownIsDeclinedUntilItIsUpAndItsDeviceIsKept) {
  ASSERT_EQ(why(text()), "served");
  fabric.hosts[0].active = false;
  std::this_thread::sleep_for(port_is_old);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(why(text()).find("is not active") != std::string::npos);
  fabric.hosts[0].active = true;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.devices_opened, 1u);
  EXPECT_EQ(fabric.regions_max, 1u);
}

TEST_F(DcDescriptors, ADeviceWhosePortIsDownGivesWayToOneWhosePortIsUp) {
  fabric.hosts.push_back({.name = "mlx5_1", .active = false});
  auto window = open(text());
  ASSERT_TRUE(window);
  fabric.hosts[0].active = false;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_TRUE(why(text()).find("is not active") != std::string::npos) << "no port is up";
  EXPECT_EQ(fabric.region_ended_in, std::thread::id()) << "it stays registered, for when its port is up again";
  fabric.hosts[1].active = true;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_EQ(why(text()), still_used);
  window->reset();  // the first device's
  std::this_thread::sleep_for(port_is_old);
  EXPECT_EQ(why(text()), "served");
  fabric.hosts[0].active = true;
  std::this_thread::sleep_for(port_is_old);
  const size_t opened = fabric.devices_opened;
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.devices_opened, opened) << "going back would register the arena anew";
  fabric.hosts[1].active = false;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_EQ(why(text()), "served") << "back to the first";
  EXPECT_EQ(fabric.regions_max, 1u) << "two would have the memory locked twice";
}

TEST_F(DcDescriptors, ANamedDeviceWhosePortIsDownGivesWayToNoOther) {
  fabric.hosts.push_back({.name = "mlx5_1"});
  choice.name = "mlx5_0";
  make();
  ASSERT_EQ(why(text()), "served");
  fabric.hosts[0].active = false;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_TRUE(why(text()).find("is not active") != std::string::npos);
}

TEST_F(DcDescriptors, ALostDeviceEndsBeforeAnotherIsOpened) {
  auto window = open(text());  // has the only initiator
  ASSERT_TRUE(window);
  fabric.make_error = EIO;
  EXPECT_EQ(why(text()), "token: the RDMA device makes no queue pair");
  fabric.make_error = 0;
  window->reset();
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.devices_opened, 2u);
  EXPECT_EQ(fabric.regions_max, 1u) << "two would have the memory locked twice";
}

// Its end unpins the whole arena.
TEST_F(DcDescriptors, ALostDeviceThatAWindowKeptEndsInThePool) {
  auto window = open(text());
  ASSERT_TRUE(window);
  fabric.make_error = EIO;
  EXPECT_EQ(why(text()), "token: the RDMA device makes no queue pair");
  fabric.make_error = 0;
  EXPECT_EQ(why(text()), still_used);
  EXPECT_EQ(fabric.region_ended_in, std::thread::id()) << "the window uses it";
  window->reset();
  std::this_thread::sleep_for(port_is_old);  // a failure is kept as long
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.regions_max, 1u) << "two would have the memory locked twice";
  descriptors.reset();  // its pool completes what was given to it
  EXPECT_NE(fabric.region_ended_in, std::thread::id());
  EXPECT_NE(fabric.region_ended_in, std::this_thread::get_id());
}

TEST_F(DcDescriptors, InitiatorsOfAnEarlierPartitionOrMtuServeNoOther) {
  choice.pkey = 0x8001;
  fabric.hosts[0].partitions = {0xffff, 0x8001};
  make();
  auto used = open(text());
  ASSERT_TRUE(used);
  ASSERT_EQ(why(text()), "served");  // by another, which is idle now
  ASSERT_EQ(fabric.initiators(), 2u);
  fabric.hosts[0].partitions = {0x8001, 0xffff};
  std::this_thread::sleep_for(port_is_old);
  const size_t made = fabric.initiators_made;
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.initiators_made, made + 1) << "the idle one is of the old entry";
  used->reset();
  EXPECT_EQ(fabric.initiators(), 1u) << "given back, it is of no use";
  fabric.hosts[0].mtu = IBV_MTU_1024;
  std::this_thread::sleep_for(port_is_old);
  EXPECT_EQ(why(text()), "served");
  EXPECT_EQ(fabric.initiators_made, made + 2);
  EXPECT_EQ(fabric.initiators(), 1u);
}

TEST_F(DcDescriptors, RequestsThatFindThePortStaleReadItOnce) {
  make({.all_max = 64, .account_max = 64, .client_max = 64});
  ASSERT_EQ(why(text()), "served");
  std::this_thread::sleep_for(port_is_old);
  const size_t read = fabric.ports_read;
  const Token token = *parse_token(text());
  size_t served = 0;
  const TokenClient client{"127.0.0.1", "alice", "alice"};
  auto ask = [&]() -> Task<void> {
    const auto window = co_await descriptors->open(token, client, fabric::Access::server_writes);
    served += window ? 1 : 0;
  };
  for (int i = 0; i < 32; ++i) {
    boost::asio::co_spawn(io, ask(), [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
  }
  io.restart();
  io.run();
  EXPECT_EQ(served, 32u);
  EXPECT_LE(fabric.ports_read - read, 4u) << "1, and as many more as seconds have passed";
}

TEST_F(DcDescriptors, AreBoundedForAnAccountForAnAddressAndInAll) {
  std::vector<WindowPtr> held;
  const auto takes = [&](const char* account, const char* address) {
    auto window = open(text(memory, remote_key, target, address), account, address);
    if (window) {
      held.push_back(std::move(*window));
      return true;
    }
    EXPECT_STREQ(window.error().context, "token: its client, its account or all have too many queue pairs");
    return false;
  };
  make({.all_max = 4, .account_max = 3, .client_max = 2});
  EXPECT_TRUE(takes("alice", "127.0.0.1") && takes("alice", "127.0.0.1"));
  EXPECT_FALSE(takes("alice", "127.0.0.1")) << "the address has two";
  EXPECT_FALSE(takes("bob", "127.0.0.1")) << "whatever its account";
  EXPECT_TRUE(takes("alice", "127.0.0.2"));
  EXPECT_FALSE(takes("alice", "127.0.0.3")) << "the account has three";
  EXPECT_TRUE(takes("bob", "127.0.0.3"));
  EXPECT_FALSE(takes("carol", "127.0.0.4")) << "four are taken";
  EXPECT_EQ(fabric.initiators(), 4u);
  held.clear();
  EXPECT_TRUE(takes("carol", "127.0.0.4"));
  held.clear();
  EXPECT_EQ(fabric.initiators(), 4u) << "idle ones are used again";
}

TEST_F(DcDescriptors, AThousandRequestsOfAPoolOfTwoAreServedOrDeclinedAndNeverWrong) {
  make({.all_max = 2, .account_max = 2, .client_max = 2});
  ASSERT_EQ(why(text()), "served");
  fabric.holds = true;
  constexpr size_t pieces = 64;
  size_t served = 0, declined = 0;
  auto ask = [&](size_t i) -> Task<void> {
    const size_t at = i % pieces * 4096;
    const std::string fill(4096, static_cast<char>('A' + i % pieces));
    const std::string said = text(MutableBytes(memory).subspan(at, 4096));
    const Token token = *parse_token(said);
    const TokenClient client{"127.0.0.1", "alice", "alice"};
    auto window = co_await descriptors->open(token, client, fabric::Access::server_writes);
    if (!window) {
      ++declined;
      co_return;
    }
    const auto wrote = co_await (*window)->write(as_bytes(fill), 0, deadline_in(later));
    EXPECT_TRUE(wrote);
    const memory::Lease into = arena->lease(4096).value();
    const auto read = co_await (*window)->read(into.bytes(), 0, deadline_in(later));
    EXPECT_TRUE(read);
    EXPECT_EQ(std::memcmp(into.data(), fill.data(), 4096), 0);
    ++served;
  };
  for (size_t i = 0; i < 1000; ++i) {
    boost::asio::co_spawn(io, ask(i), [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
    if (i % 5 != 4) continue;  // so many at a time, whose operations complete late
    while (served + declined <= i) {
      io.restart();
      io.poll();
      fabric.release();
    }
  }
  EXPECT_EQ(served + declined, 1000u);
  EXPECT_GE(served, 400u) << "two of five at a time";
  EXPECT_GT(declined, 0u);
  EXPECT_LE(fabric.initiators_max, 3u) << "two, and the one by which the device was looked at";
}

TEST_F(DcDescriptors, ADeviceThatVanishesIsDeclinedAndFoundAgain) {
  auto window = open(text());
  ASSERT_TRUE(window);
  auto idle = open(text());  // its initiator is idle next
  idle->reset();
  const size_t opened = fabric.devices_opened;
  fabric.is_gone = true;
  EXPECT_FALSE(write(**window, 'v'));
  window->reset();
  {
    const auto next = open(text());
    ASSERT_TRUE(next) << "an idle one does not know yet";
    EXPECT_FALSE(write(**next, 'v'));
  }
  EXPECT_NE(why(text()), "served") << "none can be made";
  EXPECT_EQ(why(text()), "token: no RDMA device of this server has dynamically connected queue pairs (mlx5)");
  fabric.is_gone = false;
  const auto served = [&] {
    const auto next = open(text());
    return next && write(**next, 'b');
  };
  for (int i = 0; i < 1000 && !served(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(has('b', 0));
  EXPECT_GT(fabric.devices_opened, opened) << "the old one serves none";
}

TEST_F(DcDescriptors, AnInitiatorThatRefusesAnOperationServesNoOther) {
  auto window = open(text());
  ASSERT_TRUE(window);
  fabric.post_error = ENOMEM;
  EXPECT_FALSE(write(**window, 'p'));
  fabric.post_error = 0;
  window->reset();
  EXPECT_EQ(fabric.initiators(), 0u);
  EXPECT_EQ(why(text()), "served");
}

TEST_F(DcDescriptors, TellPreciselyWhyNoDeviceServesThem) {
  const auto told = [&](const std::vector<test::Fabric::Host>& hosts) {
    fabric.hosts = hosts;
    make();
    const std::string first = why(text());
    EXPECT_EQ(why(text()), first) << "the answer is kept for a moment";
    return first;
  };
  const std::string none = "token: no RDMA device of this server has dynamically connected queue pairs (mlx5)";
  EXPECT_EQ(told({}), none);
  EXPECT_EQ(told({{.name = "rxe0", .mlx5 = false}}), none);
  EXPECT_EQ(told({{.name = "mlx5_0", .has_dc = false}}), none);
  EXPECT_TRUE(told({{.name = "mlx5_0", .active = false}}).find("is not active") != std::string::npos);
  EXPECT_EQ(told({{.name = "rxe0", .mlx5 = false}, {.name = "mlx5_0", .active = false}, {.name = "mlx5_1"}}), "served");
  EXPECT_EQ(told({{.name = "mlx5_0", .opens = false}}), "token: the RDMA device makes no queue pair");
  EXPECT_TRUE(told({{.name = "mlx5_0", .active = false}, {.name = "mlx5_1", .opens = false}}).find("is not active") !=
              std::string::npos)
      << "of the one that came furthest";
  choice.name = "mlx5_7";
  EXPECT_EQ(told({{.name = "mlx5_0"}}), none);
  choice.name = "mlx5_0";
  fabric.make_error = ENOMEM;
  EXPECT_EQ(told({{.name = "mlx5_0"}}), "token: the RDMA device makes no queue pair");
  fabric.make_error = 0;
  Verbs without = fabric.verbs();
  without.missing = "token: libmlx5 is missing";
  const auto opened = Device::open(without, choice, *arena);
  EXPECT_STREQ(opened.error().context, without.missing);
}

TEST_F(DcDescriptors, NeverReachAThirdParty) {
  const auto of = [&](const char* address) { return text(memory, remote_key, target, address); };
  const std::string third = "peer: neither the HTTP peer's address nor in rdma.token_networks";
  EXPECT_EQ(why(of("10.1.2.3")), third);
  EXPECT_EQ(why(of("ff02::1")), "peer: its GID");
  EXPECT_EQ(why(of("::")), "peer: its GID");
  EXPECT_EQ(why(of("fe80::1")), third) << "a link-local address says nothing about the peer";
  EXPECT_EQ(why(of(""), "alice"), "token: it has no GID");
  networks = {"10.0.0.0/8", "fd00::/8"};
  make();
  EXPECT_EQ(why(of("127.0.0.1")), "peer: an address of the server's host that rdma.token_networks does not name");
  fabric.clients[target].address = "10.1.2.3";
  EXPECT_EQ(why(of("10.1.2.3")), "served");
  EXPECT_EQ(why(of("fd00::1")), "token: the server's port has no GID of its GID's kind");
  fabric.hosts[0].addresses = {"127.0.0.1", "fd00::2"};
  make();
  EXPECT_EQ(why(of("fd00::1")), "served");
  const Token token = *parse_token(of("10.1.2.3"));
  EXPECT_FALSE(run(descriptors->open(token, {"10.1.2.3", ""}, fabric::Access::server_writes))) << "anonymous";
}

TEST_F(DcDescriptors, OnInfiniBandTheLidDecidesWhateverTheGidSays) {
  fabric.hosts[0].ethernet = false;
  fabric.hosts[0].addresses = {"fe80::2"};
  fabric.clients[target].lid = 5;
  make();
  const auto by = [&](uint16_t lid, const char* address = "") {
    return text(memory, remote_key, target, address, lid);
  };
  EXPECT_NE(why(by(5, "127.0.0.1")), "served") << "a GID of its own beside another's LID";
  networks = {"127.0.0.0/8", "fe80::/10"};
  make();
  EXPECT_EQ(why(by(0)), "token: its LID");
  EXPECT_EQ(why(by(0xc001)), "token: its LID") << "a multicast group";
  for (const std::string& said : {by(5), by(5, "fe80::5")}) {
    const auto window = open(said);
    ASSERT_TRUE(window);
    EXPECT_TRUE(write(**window, 'q'));
    EXPECT_TRUE(has('q', 0));
    std::ranges::fill(memory, std::byte{'.'});
  }
}

TEST_F(DcDescriptors, OnInfiniBandNoOtherSubnetAndNotTheServerItselfIsReached) {
  fabric.hosts[0].ethernet = false;
  fabric.hosts[0].addresses = {"fec0:0:0:7::2"};
  fabric.hosts[0].lid = 8;
  fabric.hosts[0].lid_bits = 1;
  networks = {"fe80::/10"};
  make();
  const auto by = [&](uint16_t lid, const char* address = "") {
    return text(memory, remote_key, target, address, lid);
  };
  EXPECT_EQ(why(by(8)), "token: its LID, which is the server's own");
  EXPECT_EQ(why(by(9)), "token: its LID, which is the server's own");
  EXPECT_EQ(why(by(10)), "served");
  const std::string other = "token: its GID, whose subnet rdma.token_networks does not name";
  for (const char* address : {"fec0:0:0:8::5", "fe80:0:0:1::5", "::", "ff02::1", "10.1.2.3"}) {
    EXPECT_EQ(why(by(5, address)), other) << address;
  }
  EXPECT_EQ(why(by(5, "fec0:0:0:7::5")), "served");
  EXPECT_EQ(why(by(5, "fe80::5")), "served");
  EXPECT_EQ(why(by(5)), "served");
  EXPECT_EQ(fabric.routed, 0u) << "within the subnet the LID is enough";
  EXPECT_EQ(fabric.paths_made, 2u) << "of LID 10 and LID 5, whatever GIDs were told";
  networks = {"fe80::/10", "fec0:0:0:8::/64"};
  make();
  EXPECT_EQ(why(by(5, "fec0:0:0:8::5")), "served");
  EXPECT_EQ(fabric.routed, 1u);
  fabric.hosts[0].needs_gid = true;
  make();
  EXPECT_EQ(why(by(5, "fe80::5")), "served");
  EXPECT_EQ(fabric.routed, 2u);
}

TEST_F(DcDescriptors, ManyClientsLeaveABoundedNumberOfAddressHandles) {
  for (int i = 0; i < 600; ++i) {
    const std::string address = "127.0." + std::to_string(1 + i / 200) + '.' + std::to_string(1 + i % 200);
    ASSERT_EQ(why(text(memory, remote_key, target, address), "alice", address.c_str()), "served");
  }
  EXPECT_LE(fabric.objects(), 300u);
  EXPECT_EQ(fabric.initiators(), 1u);
}

TEST_F(DcDescriptors, DoctorIsToldOfEachDevice) {
  fabric.hosts = {{.name = "rxe0", .mlx5 = false}, {.name = "mlx5_0"}, {.name = "mlx5_1", .has_dc = false}};
  fabric.hosts.push_back({.name = "mlx5_2", .active = false});
  const auto told = [&](const Verbs& verbs) {
    std::string all;
    for (const DeviceSupport& one : look_at_devices(verbs)) {
      constexpr const char* words[] = {"present", "absent", "unknown"};
      all += one.device + ' ' + words[static_cast<size_t>(one.support)] + ' ' + std::to_string(one.error) + "; ";
    }
    return all;
  };
  EXPECT_EQ(told(fabric.verbs()), "rxe0 absent 0; mlx5_0 present 0; mlx5_1 absent 0; mlx5_2 present 0; ");
  fabric.make_error = EPERM;
  EXPECT_EQ(told(fabric.verbs()), "rxe0 absent 0; mlx5_0 unknown 1; mlx5_1 unknown 1; mlx5_2 unknown 1; ");
  Verbs without = fabric.verbs();
  without.missing = "token: libmlx5 is missing";
  EXPECT_EQ(told(without), "rxe0 unknown 0; mlx5_0 unknown 0; mlx5_1 unknown 0; mlx5_2 unknown 0; ");
}

TEST(DcVerbs, TheRealTableIsWholeWhereLibmlx5Is) {
  const Verbs& verbs = load_verbs();
  if (verbs.missing != nullptr) GTEST_SKIP() << verbs.missing;
  EXPECT_TRUE(verbs.is_supported != nullptr && verbs.create_qp != nullptr && verbs.qp_ex_from_ibv_qp_ex != nullptr);
  (void)look_at_devices(verbs);  // of this machine
}

}  // namespace
}  // namespace verbena::rdma::dc
