// Files and memory of clients that take long to close: no core waits for them, and they count until they are gone.
#include "fabric/local/disposer.h"

#include "fabric/local/client_memory.h"
#include "fabric/local/local_listener.h"
#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

using namespace testing;

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

// The disposer closes nothing while this lives, and takes no more that is not counted.
class Blocked {
 public:
  Blocked() {
    dispose(std::move(waits_.socket));
    for (int i = 0; i < 512; ++i) dispose(Fd(::dup(0)));
  }

 private:
  // Its peer is closed with it, with bytes unread: then close() waits no more.
  Lingering waits_{std::chrono::seconds(60)};
};

class DisposerTest : public ::testing::Test {
 protected:
  void SetUp() override { all_are_closed(); }
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "socket";
};

// With the queue full, the thread that dropped the last reference closed them: a core's, which could wait as long as a
// client liked.
TEST_F(DisposerTest, ASocketIsNotClosedByWhoeverDropsItLast) {
  auto blocked = std::make_unique<Blocked>();
  const auto budget = std::make_shared<Budget>(1);
  const Share one[] = {{budget, 1, ""}};
  auto socket = std::make_unique<Socket>(Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), *take_all(one));
  const int descriptor = socket->get();
  socket.reset();
  EXPECT_TRUE(is_open(descriptor));
  EXPECT_EQ(budget->used(), 1u);
  blocked.reset();
  all_are_closed();
  EXPECT_FALSE(is_open(descriptor));
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(DisposerTest, MemoryCountsUntilItIsUnmapped) {
  const MemoryBudgets budgets{std::make_shared<Budget>(1 * MiB), std::make_shared<Budget>(1 * MiB),
                              std::make_shared<Budget>(64), std::make_shared<Budget>(64)};
  const auto map = [&] { return ClientMemory::map(shared_memfd(1 * MiB, F_SEAL_SHRINK | F_SEAL_GROW), MiB, budgets); };
  std::promise<void> go_on;
  dispose(Mapping(), nullptr, [&, waits = std::make_shared<std::future<void>>(go_on.get_future())] { waits->wait(); });
  auto memory = map();
  ASSERT_TRUE(memory);
  std::promise<uint64_t> left;
  (*memory)->on_unmapped([&] { left.set_value(budgets.port_bytes->used()); });
  memory->reset();
  EXPECT_EQ(mappings_of("memfd:test"), 1u);
  EXPECT_EQ(budgets.port_bytes->used(), 1 * MiB);
  EXPECT_EQ(map().error(), Errc::slow_down);
  go_on.set_value();
  EXPECT_EQ(left.get_future().get(), 0u);
  EXPECT_EQ(mappings_of("memfd:test"), 0u);
  EXPECT_TRUE(map());
}

TEST_F(DisposerTest, WhatCannotBeClosedKeepsNoMemoryMapped) {
  const Blocked blocked;
  std::promise<void> unmapped;
  dispose(Mapping(), nullptr, [&] { unmapped.set_value(); });
  EXPECT_EQ(unmapped.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(DisposerTest, SocketsThatAreStillToBeClosedAreBounded) {
  auto blocked = std::make_unique<Blocked>();
  Server server(path_, {.peers_max = 2, .handshakes_max = 1});
  for (size_t i = 1; i <= 4; ++i) {
    RawClient::join(path_);
    server.wait_for_gone(i);
  }
  EXPECT_EQ(connect(path_, {.handshake_timeout = std::chrono::milliseconds(200)}).error(), Errc::timed_out);
  blocked.reset();
  EXPECT_TRUE(must_connect(path_));
}

}  // namespace
}  // namespace verbena::fabric::local
