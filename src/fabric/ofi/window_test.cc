#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/log.h"
#include "fabric/ofi/address.h"
#include "fabric/ofi/testing.h"

namespace verbena::fabric::ofi {
namespace {

using testing::eventually;
using testing::TestClient;
using testing::TestServer;

constexpr std::byte guard{0xa5};
constexpr size_t guard_size = 4096;
constexpr auto soon = std::chrono::seconds(20);

// A NIC moves bytes without the owner's CPU, so a frozen owner stops a transfer only if the provider's software must
// run.
bool freezing_stops_transfers() { return testing::test_options().provider == "tcp"; }

// Client memory with guard bytes around it.
struct Guarded {
  explicit Guarded(size_t size) : memory(size + 2 * guard_size, guard), window(memory.data() + guard_size, size) {}
  bool intact() const {
    for (size_t i = 0; i < guard_size; ++i) {
      if (memory[i] != guard || memory[memory.size() - 1 - i] != guard) return false;
    }
    return true;
  }
  std::vector<std::byte> memory;
  MutableBytes window;
};

std::vector<std::byte> pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return bytes;
}

Task<Result<void>> write_once(Window* window, Bytes from, uint64_t at, std::chrono::milliseconds limit) {
  co_return co_await window->write(from, at, deadline_in(limit));
}
Task<Result<void>> read_once(Window* window, MutableBytes into, uint64_t at, std::chrono::milliseconds limit) {
  co_return co_await window->read(into, at, deadline_in(limit));
}

struct Opened {
  Opened(TestServer& on, std::string_view endpoint, const WindowDescriptor& lent, Access access) : server(on) {
    auto opened = server.call([&] { return server.fabric->open_window(endpoint, lent, access); });
    if (opened) {
      window = std::move(*opened);
    } else {
      error = opened.error();
    }
  }
  ~Opened() {
    server.call([this] { window.reset(); });
  }
  std::future<Result<void>> write(Bytes from, uint64_t at = 0, std::chrono::milliseconds limit = soon) {
    return server.spawn(write_once(window.get(), from, at, limit));
  }
  std::future<Result<void>> read(MutableBytes into, uint64_t at = 0, std::chrono::milliseconds limit = soon) {
    return server.spawn(read_once(window.get(), into, at, limit));
  }
  TestServer& server;
  std::unique_ptr<Window> window;
  Error error;
};

class OfiWindowSizes : public ::testing::TestWithParam<size_t> {};

TEST_P(OfiWindowSizes, AreWrittenAndReadExactly) {
  const size_t size = GetParam();
  TestServer server;
  ASSERT_TRUE(server.fabric) << describe(server.error);
  TestClient client;
  const auto bytes = pattern(size);

  Guarded target(size), source(size);
  std::copy(bytes.begin(), bytes.end(), source.window.begin());
  auto lent_target = client.link->lend(target.window, Access::server_writes);
  auto lent_source = client.link->lend(source.window, Access::server_reads);
  ASSERT_TRUE(lent_target) << describe(lent_target.error());
  ASSERT_TRUE(lent_source);
  Opened out(server, client.link->address(), (*lent_target)->descriptor(), Access::server_writes);
  Opened in(server, client.link->address(), (*lent_source)->descriptor(), Access::server_reads);
  ASSERT_TRUE(out.window && in.window) << describe(out.error);

  std::vector<memory::Lease> leases;
  std::vector<std::future<Result<void>>> writes, reads;
  constexpr size_t piece = 4 * MiB;
  for (size_t at = 0; at < size || at == 0; at += piece) {
    const size_t n = std::min(piece, size - at);
    leases.push_back(server.lease(std::max<size_t>(n, 1), std::byte{0}));
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), n, leases.back().data());
    writes.push_back(out.write(Bytes(leases.back().data(), n), at));
  }
  for (auto& write : writes) {
    const auto done = write.get();
    EXPECT_TRUE(done) << describe(done.error());
  }
  EXPECT_EQ(crc32c(target.window), crc32c(bytes));
  EXPECT_TRUE(target.intact());

  for (auto& lease : leases) std::fill_n(lease.data(), lease.size(), std::byte{0x5a});
  size_t at = 0;
  for (auto& lease : leases) {
    const size_t n = std::min(piece, size - at);
    reads.push_back(in.read(MutableBytes(lease.data(), n), at));
    at += n;
  }
  for (auto& read : reads) {
    const auto done = read.get();
    EXPECT_TRUE(done) << describe(done.error());
  }
  at = 0;
  for (auto& lease : leases) {
    const size_t n = std::min(piece, size - at);
    EXPECT_TRUE(std::equal(lease.data(), lease.data() + n, bytes.begin() + static_cast<ptrdiff_t>(at)));
    at += n;
  }
  EXPECT_TRUE(source.intact());
}

INSTANTIATE_TEST_SUITE_P(Sizes, OfiWindowSizes, ::testing::Values(0, 1, 4095, 4096, 64 * KiB, 1 * MiB, 16 * MiB));

// A window, and mistakes that a server may make with it.
class OfiWindow : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server.fabric) << describe(server.error); }
  Options options = [] {
    Options o = testing::test_options();
    o.connect_deadline = std::chrono::milliseconds(1500);
    return o;
  }();
  TestServer server{options};
};

TEST_F(OfiWindow, AtAnOffsetTouchesNothingElse) {
  TestClient client;
  Guarded target(64 * KiB);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  ASSERT_TRUE(opened.window);
  const auto lease = server.lease(1000, std::byte{7});
  ASSERT_TRUE(opened.write(lease.bytes(), 12345).get());
  std::vector<std::byte> expected(64 * KiB, guard);
  std::fill_n(expected.begin() + 12345, 1000, std::byte{7});
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target.window.begin()));
}

TEST_F(OfiWindow, RefusesWhatIsOutOfItsBoundsOrDirection) {
  TestClient client;
  Guarded target(4096);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  ASSERT_TRUE(opened.window);
  const auto lease = server.lease(8192, std::byte{7});
  const Bytes page(lease.data(), 4096);
  EXPECT_FALSE(opened.write(page, 1).get());
  EXPECT_FALSE(opened.write(lease.bytes(), 0).get());
  EXPECT_FALSE(opened.write(page, UINT64_MAX).get());
  EXPECT_FALSE(opened.write(Bytes(lease.data(), 1), 4096).get());
  EXPECT_FALSE(opened.read(MutableBytes(lease.data(), 4096), 0).get());
  std::vector<std::byte> elsewhere(16);
  EXPECT_FALSE(opened.write(elsewhere, 0).get()) << "only arena memory moves";
  EXPECT_TRUE(opened.write(page, 0).get());
  EXPECT_TRUE(target.intact());
}

TEST_F(OfiWindow, WhoseSizeOverflowsIsRefused) {
  TestClient client;
  Opened opened(server, client.link->address(), {UINT64_MAX - 10, 100, 1}, Access::server_writes);
  EXPECT_FALSE(opened.window);
  EXPECT_EQ(opened.error.code, Errc::invalid_rdma_token);
}

TEST_F(OfiWindow, OfTheServerItselfIsRefused) {
  Opened opened(server, server.fabric->port().address(), {0, 100, 1}, Access::server_writes);
  EXPECT_FALSE(opened.window);
  EXPECT_EQ(opened.error.code, Errc::invalid_rdma_token);
}

TEST_F(OfiWindow, WithAWrongKeyFailsAndTheNextOneWorks) {
  TestClient client;
  Guarded target(4096);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  auto forged = lent->descriptor();
  forged.key ^= 0x1234;
  const auto lease = server.lease(4096, std::byte{7});
  {
    Opened opened(server, client.link->address(), forged, Access::server_writes);
    ASSERT_TRUE(opened.window);
    const auto done = opened.write(lease.bytes()).get();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::rdma_transfer_failed);
  }
  EXPECT_EQ(target.window[0], guard);
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  ASSERT_TRUE(opened.window);
  const auto done = opened.write(lease.bytes()).get();
  EXPECT_TRUE(done) << describe(done.error());
}

TEST_F(OfiWindow, LargerThanItsRegionFails) {
  TestClient client;
  Guarded target(4096);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  auto stretched = lent->descriptor();
  stretched.size = 64 * KiB;
  Opened opened(server, client.link->address(), stretched, Access::server_writes);
  const auto lease = server.lease(64 * KiB, std::byte{7});
  EXPECT_FALSE(opened.write(lease.bytes()).get());
  EXPECT_TRUE(target.intact());
}

TEST_F(OfiWindow, LentForReadingCannotBeWritten) {
  TestClient client;
  Guarded target(4096);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_reads));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(4096, std::byte{7});
  EXPECT_FALSE(opened.write(lease.bytes()).get());
  EXPECT_EQ(target.window[0], guard);
}

TEST_F(OfiWindow, LentForWritingCannotBeRead) {
  if (testing::on_soft_iwarp()) GTEST_SKIP() << "siw reads what it has only the right to write";
  TestClient client;
  Guarded target(4096);
  const auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_reads);
  const auto lease = server.lease(4096, std::byte{7});
  EXPECT_FALSE(opened.read(lease.bytes()).get());
}

TEST_F(OfiWindow, ThatWasWithdrawnCannotBeWritten) {
  TestClient client;
  Guarded target(4096);
  auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(4096, std::byte{7});
  ASSERT_TRUE(opened.write(lease.bytes()).get());
  std::fill(target.window.begin(), target.window.end(), guard);
  lent.reset();
  EXPECT_FALSE(opened.write(lease.bytes()).get());
  EXPECT_EQ(target.window[0], guard);
}

TEST_F(OfiWindow, OfAPortWhereNobodyListensFails) {
  // An endpoint that no longer exists.
  auto gone = std::make_unique<TestClient>();
  const std::string address = gone->link->address();
  gone.reset();
  Opened opened(server, address, {0, 4096, 1}, Access::server_writes);
  ASSERT_TRUE(opened.window);
  const auto lease = server.lease(4096, std::byte{7});
  const auto done = opened.write(lease.bytes()).get();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::rdma_transfer_failed);
}

TEST_F(OfiWindow, WhoseOwnerFreezesEndsAtTheDeadlineAndOthersGoOn) {
  TestClient frozen, lively;
  Guarded frozen_target(16 * MiB), lively_target(4096);
  const auto frozen_lent = std::move(*frozen.link->lend(frozen_target.window, Access::server_writes));
  const auto lively_lent = std::move(*lively.link->lend(lively_target.window, Access::server_writes));
  Opened stuck(server, frozen.link->address(), frozen_lent->descriptor(), Access::server_writes);
  Opened fine(server, lively.link->address(), lively_lent->descriptor(), Access::server_writes);
  const auto big = server.lease(4 * MiB, std::byte{7});
  const auto small = server.lease(4096, std::byte{7});
  ASSERT_TRUE(stuck.write(small.bytes()).get());  // connects it
  frozen.freeze(true);
  std::vector<std::future<Result<void>>> writes;
  for (int i = 0; i < 4; ++i) writes.push_back(stuck.write(big.bytes(), i * 4 * MiB, std::chrono::milliseconds(800)));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(fine.write(small.bytes()).get());
  for (auto& write : writes) {
    const auto done = write.get();
    EXPECT_EQ(done.has_value(), !freezing_stops_transfers());
    if (!done) {
      EXPECT_EQ(done.error().code, Errc::rdma_transfer_failed);
    }
  }
  EXPECT_TRUE(fine.write(small.bytes()).get());
  // Nothing arrives after this: the connection is gone.
  frozen.freeze(false);
  EXPECT_TRUE(stuck.write(small.bytes()).get()) << "it may come back";
}

TEST_F(OfiWindow, WhoseOwnerVanishesMidTransferFails) {
  auto client = std::make_unique<TestClient>();
  Guarded target(16 * MiB);
  auto lent = std::move(*client->link->lend(target.window, Access::server_writes));
  Opened opened(server, client->link->address(), lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(4 * MiB, std::byte{7});
  ASSERT_TRUE(opened.write(Bytes(lease.data(), 4096)).get());
  client->freeze(true);
  std::vector<std::future<Result<void>>> writes;
  for (int i = 0; i < 4; ++i) writes.push_back(opened.write(lease.bytes(), i * 4 * MiB));
  lent.reset();
  client.reset();
  for (auto& write : writes) EXPECT_FALSE(write.get());
}

// A separate process that lends memory and is then stopped, as by a debugger or a full disk.
TEST_F(OfiWindow, OfAStoppedProcessCostsOneErrorAndNoLease) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const std::string program = "/proc/self/exe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(to_parent[1], 10);
    dup2(to_child[0], 11);
    setenv("VERBENA_TEST_LENDER", "1", 1);
    execl(program.c_str(), "lender", "--gtest_filter=OfiLender.*", "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  close(to_parent[1]);
  struct {
    uint64_t base, size, key, name_size;
    char name[192];
  } told{};
  ASSERT_EQ(read(to_parent[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  const std::string name(told.name, told.name_size);
  const size_t leased_before = server.arena->leased_bytes();
  {
    Opened opened(server, name, {told.base, told.size, told.key}, Access::server_writes);
    ASSERT_TRUE(opened.window) << describe(opened.error);
    auto lease = server.lease(4 * MiB, std::byte{7});
    const auto first = opened.write(Bytes(lease.data(), 4096)).get();
    ASSERT_TRUE(first) << describe(first.error());
    // kill() returns before all of its threads have stopped: the one that polls goes on until the one that takes the
    // signal gets a processor.
    kill(child, SIGSTOP);
    int stopped = 0;
    ASSERT_EQ(waitpid(child, &stopped, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(stopped));
    std::vector<std::future<Result<void>>> writes;
    for (int i = 0; i < 4; ++i) writes.push_back(opened.write(lease.bytes(), i * 4 * MiB, std::chrono::seconds(1)));
    for (auto& write : writes) EXPECT_EQ(write.get().has_value(), !freezing_stops_transfers());
  }
  EXPECT_EQ(server.arena->leased_bytes(), leased_before);
  kill(child, SIGKILL);
  kill(child, SIGCONT);
  int status = 0;
  waitpid(child, &status, 0);
  close(to_parent[0]);
  close(to_child[0]);
  close(to_child[1]);
}

// Not a test: the other process of the test above.
TEST(OfiLender, DISABLED_LendsUntilItIsKilled) {
  if (std::getenv("VERBENA_TEST_LENDER") == nullptr) GTEST_SKIP();
  TestClient client;
  std::vector<std::byte> memory(16 * MiB);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  struct {
    uint64_t base, size, key, name_size;
    char name[192];
  } told{};
  const std::string name = client.link->address();
  told.base = lent->descriptor().base;
  told.size = lent->descriptor().size;
  told.key = lent->descriptor().key;
  told.name_size = name.size();
  std::copy(name.begin(), name.end(), told.name);
  ASSERT_EQ(write(10, &told, sizeof told), static_cast<ssize_t>(sizeof told));
  char byte = 0;
  static_cast<void>(!read(11, &byte, 1));  // until killed
}

TEST_F(OfiWindow, RevokedMidTransferLandsNoMore) {
  TestClient client;
  Guarded target(4 * MiB);
  auto lent = std::move(*client.link->lend(target.window, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(4 * MiB, std::byte{7});
  ASSERT_TRUE(opened.write(Bytes(lease.data(), 4096)).get());
  client.freeze(true);
  auto write = opened.write(lease.bytes());
  lent->revoke();
  std::fill(target.memory.begin(), target.memory.end(), guard);
  client.freeze(false);
  EXPECT_FALSE(write.get());
  EXPECT_EQ(std::count(target.memory.begin(), target.memory.end(), guard),
            static_cast<ptrdiff_t>(target.memory.size()));
}

TEST(OfiWindows, OfManyPeersShareABoundedNumberOfEndpoints) {
  Options options = testing::test_options();
  options.data_endpoints_max = 3;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  const auto lease = server.lease(4096, std::byte{7});
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<std::unique_ptr<Lent>> lents;
  std::vector<std::vector<std::byte>> memories;
  std::vector<std::unique_ptr<Opened>> windows;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<TestClient>());
    memories.emplace_back(4096);
    lents.push_back(std::move(*clients.back()->link->lend(memories.back(), Access::server_writes)));
    windows.push_back(std::make_unique<Opened>(server, clients.back()->link->address(), lents.back()->descriptor(),
                                               Access::server_writes));
    ASSERT_TRUE(windows.back()->window) << i;
  }
  for (auto& window : windows) EXPECT_TRUE(window->write(lease.bytes()).get());
  EXPECT_LE(server.call([&] { return server.fabric->data_endpoints(); }), 3u);
  // All slots are taken by open windows.
  TestClient one_more;
  Opened refused(server, one_more.link->address(), lents.front()->descriptor(), Access::server_writes);
  EXPECT_FALSE(refused.window);
  EXPECT_EQ(refused.error.code, Errc::slow_down);
  // A frozen peer takes the endpoint of others down, and they continue on another one.
  clients[0]->freeze(true);
  auto stuck = windows[0]->write(lease.bytes(), 0, std::chrono::milliseconds(500));
  std::vector<std::future<Result<void>>> others;
  for (size_t i = 1; i < windows.size(); ++i) others.push_back(windows[i]->write(lease.bytes()));
  for (auto& other : others) EXPECT_TRUE(other.get());
  EXPECT_EQ(stuck.get().has_value(), !freezing_stops_transfers());
  for (size_t i = 1; i < windows.size(); ++i) EXPECT_TRUE(windows[i]->write(lease.bytes()).get());
}

// It was begun anew on another connection and answered as written, while the bytes of the first one were still in the
// owner's kernel: they landed when the owner had other things in its memory.
TEST(OfiWindows, OfAConnectionThatIsClosedForAnothersFailureAreNotWrittenTwice) {
  if (!freezing_stops_transfers()) GTEST_SKIP() << "a device serves a frozen owner";
  Options options = testing::test_options();
  options.data_endpoints_max = 1;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  TestClient guilty, innocent;
  std::vector<std::byte> memory(4 * MiB), other(4 * MiB), source(64 * KiB, std::byte{9});
  const auto lent = std::move(*guilty.link->lend(memory, Access::server_writes));
  const auto lent_other = std::move(*innocent.link->lend(other, Access::server_writes));
  const auto lent_source = std::move(*innocent.link->lend(source, Access::server_reads));
  Opened fails(server, guilty.link->address(), lent->descriptor(), Access::server_writes);
  Opened writes(server, innocent.link->address(), lent_other->descriptor(), Access::server_writes);
  Opened reads(server, innocent.link->address(), lent_source->descriptor(), Access::server_reads);
  const auto lease = server.lease(4 * MiB, std::byte{7});
  const auto into = server.lease(64 * KiB, std::byte{0});
  ASSERT_TRUE(fails.window && writes.window && reads.window);
  ASSERT_TRUE(fails.write(Bytes(lease.data(), 4096)).get());
  ASSERT_TRUE(writes.write(Bytes(lease.data(), 4096)).get());
  guilty.freeze(true);
  innocent.freeze(true);
  auto read = reads.read(into.bytes());
  auto written = writes.write(lease.bytes());
  EXPECT_FALSE(fails.write(lease.bytes(), 0, std::chrono::milliseconds(300)).get());
  innocent.freeze(false);
  const auto outcome = written.get();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Errc::rdma_transfer_failed);
  EXPECT_TRUE(read.get()) << "a read may begin anew";
  EXPECT_EQ(into.data()[0], std::byte{9});
  EXPECT_TRUE(writes.write(Bytes(lease.data(), 4096)).get());
}

// A token may name any port of its client's, where perhaps nothing answers.
TEST(OfiWindows, OfTokensLeaveEndpointsToSessions) {
  Options options = testing::test_options();
  options.data_endpoints_max = 4;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  TestClient client;
  const auto own = decode_socket_name(client.link->address());
  ASSERT_TRUE(own);
  std::vector<std::unique_ptr<Opened>> dead;
  for (uint16_t port = 20'000; port < 20'100; ++port) {
    const std::string name = encode_socket_name({own->ip, port});
    auto opened = std::make_unique<Opened>(server, name, WindowDescriptor{0, 4096, 1}, Access::server_writes);
    if (!opened->window) {
      EXPECT_EQ(opened->error.code, Errc::slow_down);
      break;
    }
    dead.push_back(std::move(opened));
  }
  EXPECT_EQ(dead.size(), 12u) << "one endpoint of four is kept";
  std::vector<std::byte> memory(4096);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  Port& port = server.fabric->port();
  const auto peer = server.call([&] { return port.add_peer(client.link->address()); });
  ASSERT_TRUE(peer);
  auto window = server.call([&] { return port.open_window(*peer, lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(window) << describe(window.error());
  const auto lease = server.lease(4096, std::byte{7});
  std::vector<std::future<Result<void>>> writes;
  for (const auto& one : dead) writes.push_back(one->write(lease.bytes()));
  for (int i = 0; i < 3; ++i) {
    const auto written = server.spawn(write_once(window->get(), lease.bytes(), 0, soon)).get();
    EXPECT_TRUE(written) << describe(written.error());
  }
  for (auto& write : writes) EXPECT_FALSE(write.get());
  server.call([&] { window->reset(); });
}

TEST(OfiWindows, OfSessionsOfOneClientLeaveEndpointsToOthers) {
  Options options = testing::test_options();
  options.data_endpoints_max = 4;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  TestClient client;
  const auto own = decode_socket_name(client.link->address());
  ASSERT_TRUE(own);
  Port& port = server.fabric->port();
  std::vector<std::unique_ptr<Window>> windows;
  // Of a session that says that it listens there.
  const auto open_at = [&](const EndpointAddress& address) {
    return server.call([&]() -> Errc {
      const auto peer = port.add_peer(encode_socket_name(address));
      if (!peer) return peer.error().code;
      auto window = port.open_window(*peer, WindowDescriptor{0, 4096, 1}, Access::server_writes);
      if (!window) return window.error().code;
      windows.push_back(std::move(*window));
      return Errc::ok;
    });
  };
  size_t taken = 0;
  for (uint16_t at = 20'000; at < 20'100 && open_at({own->ip, at}) == Errc::ok; ++at) ++taken;
  EXPECT_EQ(taken, 8u) << "two endpoints of four, with four peers each";
  EXPECT_EQ(open_at({own->ip, 20'200}), Errc::slow_down);
  EXPECT_EQ(open_at({boost::asio::ip::make_address("192.0.2.7"), 20'000}), Errc::ok);
  const std::string name = encode_socket_name({boost::asio::ip::make_address("192.0.2.8"), 20'000});
  EXPECT_TRUE(Opened(server, name, WindowDescriptor{0, 4096, 1}, Access::server_writes).window);
  server.call([&] { windows.clear(); });
}

TEST(OfiWindows, OfGoneClientsDoNotPileUp) {
  Options options = testing::test_options();
  options.data_endpoints_max = 4;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  const auto lease = server.lease(4096, std::byte{7});
  for (int i = 0; i < 40; ++i) {
    TestClient client;
    std::vector<std::byte> memory(4096);
    auto lent = std::move(*client.link->lend(memory, Access::server_writes));
    Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
    ASSERT_TRUE(opened.window) << i;
    const auto done = opened.write(lease.bytes()).get();
    ASSERT_TRUE(done) << i << ' ' << describe(done.error());
  }
  EXPECT_LE(server.call([&] { return server.fabric->data_endpoints(); }), 4u);
}

TEST(OfiWindows, IdleOnesGiveTheirEndpointsBack) {
  Options options = testing::test_options();
  options.idle_peer_keep = std::chrono::milliseconds(1);
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  TestClient client;
  std::vector<std::byte> memory(4096);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  {
    Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  }
  EXPECT_TRUE(eventually([&] { return server.call([&] { return server.fabric->data_endpoints(); }) == 0; }));
}

TEST(OfiWindows, InFlightEndWhenTheFabricCloses) {
  std::future<Result<void>> write;
  auto client = std::make_unique<TestClient>();
  std::vector<std::byte> memory(4 * MiB);
  auto lent = std::move(*client->link->lend(memory, Access::server_writes));
  TestServer server;
  ASSERT_TRUE(server.fabric);
  const auto lease = server.lease(4 * MiB, std::byte{7});
  Opened opened(server, client->link->address(), lent->descriptor(), Access::server_writes);
  ASSERT_TRUE(opened.write(Bytes(lease.data(), 4096)).get());
  client->freeze(true);
  write = opened.write(lease.bytes());
  server.call([&] { server.fabric.reset(); });
  const auto done = write.get();
  EXPECT_EQ(done.has_value(), !freezing_stops_transfers());
  if (!done) {
    EXPECT_EQ(done.error().code, Errc::closed);
  }
  const auto after = opened.write(lease.bytes()).get();
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, Errc::closed);
}

TEST(OfiWindows, OfARemovedPeerFailAndNoOthers) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Port& port = server.fabric->port();
  TestClient client;
  std::vector<std::byte> memory(4 * MiB);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto peer = server.call([&] { return port.add_peer(client.link->address()); });
  ASSERT_TRUE(peer);
  auto window = server.call([&] { return port.open_window(*peer, lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(window);
  const auto lease = server.lease(4 * MiB, std::byte{7});
  ASSERT_TRUE(server.spawn(write_once(window->get(), Bytes(lease.data(), 4096), 0, soon)).get());
  client.freeze(true);
  auto write = server.spawn(write_once(window->get(), lease.bytes(), 0, soon));
  server.call([&] { port.remove_peer(*peer); });
  const bool written = write.get().has_value();
  if (freezing_stops_transfers()) {
    EXPECT_FALSE(written);  // a device serves a frozen owner: the write may have been quicker than the removal
  }
  server.call([&] { window->reset(); });
}

TEST(OfiWindows, OfATokenOutliveTheSessionOfTheSameEndpoint) {
  TestServer server;
  ASSERT_TRUE(server.fabric);
  Port& port = server.fabric->port();
  TestClient client;
  const std::string name = client.link->address();
  std::vector<std::byte> memory(4 * MiB);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto peer = server.call([&] { return port.add_peer(name); });
  ASSERT_TRUE(peer);
  auto of_session = server.call([&] { return port.open_window(*peer, lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(of_session);
  Opened of_token(server, name, lent->descriptor(), Access::server_writes);
  ASSERT_TRUE(of_token.window);
  const auto lease = server.lease(2 * MiB, std::byte{7});
  ASSERT_TRUE(server.spawn(write_once(of_session->get(), Bytes(lease.data(), 4096), 0, soon)).get());
  ASSERT_TRUE(of_token.write(Bytes(lease.data(), 4096)).get());
  client.freeze(true);
  auto cut = server.spawn(write_once(of_session->get(), lease.bytes(), 0, soon));
  auto kept = of_token.write(lease.bytes(), 2 * MiB);
  server.call([&] { port.remove_peer(*peer); });
  EXPECT_EQ(cut.get().has_value(), !freezing_stops_transfers());
  client.freeze(false);
  const auto done = kept.get();
  EXPECT_TRUE(done) << describe(done.error());
  EXPECT_EQ(std::count(memory.begin() + 2 * MiB, memory.end(), std::byte{7}), 2 * MiB);
  server.call([&] { of_session->reset(); });
}

TEST(OfiWindows, OperationsBeyondAPeersBytesInFlightWaitForItsOthers) {
  Options options = testing::test_options();
  options.transfer_bytes_per_peer_max = 64 * KiB;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  TestClient client;
  std::vector<std::byte> memory(1 * MiB);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  Opened opened(server, client.link->address(), lent->descriptor(), Access::server_writes);
  const auto lease = server.lease(1 * MiB, std::byte{7});
  ASSERT_TRUE(opened.write(Bytes(lease.data(), 4096)).get());
  client.freeze(true);  // so that all of them are posted before one has ended
  std::vector<std::future<Result<void>>> writes;
  for (size_t i = 0; i < 16; ++i) writes.push_back(opened.write(Bytes(lease.data(), 64 * KiB), i * 64 * KiB));
  server.call([] {});
  client.freeze(false);
  for (auto& write : writes) {
    const auto done = write.get();
    EXPECT_TRUE(done) << describe(done.error());
  }
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{7}), 1 * MiB);
}

TEST(OfiWindows, OperationsThatWaitEndWithTheirDeadlineTheirSessionOrTheFabric) {
  if (!freezing_stops_transfers()) GTEST_SKIP() << "nothing waits for a frozen owner here";
  Options options = testing::test_options();
  options.transfer_bytes_per_peer_max = 64 * KiB;
  TestServer server(options);
  ASSERT_TRUE(server.fabric);
  Port& port = server.fabric->port();
  TestClient client;
  std::vector<std::byte> memory(4 * MiB);
  const auto lent = std::move(*client.link->lend(memory, Access::server_writes));
  const auto lease = server.lease(4 * MiB, std::byte{7});
  const auto peer = server.call([&] { return port.add_peer(client.link->address()); });
  ASSERT_TRUE(peer);
  auto window = server.call([&] { return port.open_window(*peer, lent->descriptor(), Access::server_writes); });
  ASSERT_TRUE(window);
  ASSERT_TRUE(server.spawn(write_once(window->get(), Bytes(lease.data(), 4096), 0, soon)).get());
  client.freeze(true);
  auto first = server.spawn(write_once(window->get(), lease.bytes(), 0, soon));
  auto late = server.spawn(write_once(window->get(), lease.bytes(), 0, std::chrono::milliseconds(20)));
  EXPECT_EQ(late.get().error().code, Errc::rdma_transfer_failed) << "its own deadline, not the first one's";
  auto second = server.spawn(write_once(window->get(), lease.bytes(), 0, soon));
  server.call([&] { port.remove_peer(*peer); });
  EXPECT_EQ(first.get().error().code, Errc::cancelled);
  EXPECT_EQ(second.get().error().code, Errc::cancelled);
  auto third = server.spawn(write_once(window->get(), lease.bytes(), 0, soon));
  auto fourth = server.spawn(write_once(window->get(), lease.bytes(), 0, soon));
  server.call([&] { server.fabric.reset(); });
  EXPECT_EQ(third.get().error().code, Errc::closed);
  EXPECT_EQ(fourth.get().error().code, Errc::closed);
  server.call([&] { window->reset(); });
}

}  // namespace
}  // namespace verbena::fabric::ofi
