// Unauthenticated peers at a listening tcp endpoint, and peers that answer a connection with arbitrary bytes. A library
// that trusts them ends the process here.
#include "fabric/ofi/hostile.h"

#include <gtest/gtest.h>

#include "fabric/ofi/testing.h"

namespace verbena::fabric::ofi {
namespace {

using testing::TestClient;
using testing::TestServer;

constexpr size_t moved_size = 64 * KiB;
constexpr uint64_t other_endianness = uint64_t{1} << 56;

class HostilePeer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::test_options().provider != "tcp") GTEST_SKIP() << "speaks the protocol of tcp";
    if (!checks_peers()) GTEST_SKIP() << "this libfabric trusts its peers: any of these would end the process";
    server_.emplace();
    ASSERT_TRUE(server_->fabric) << describe(server_->error);
  }

  Result<void> move(std::string_view owner, const WindowDescriptor& lent, bool write, std::chrono::milliseconds limit,
                    const std::function<void()>& meanwhile = {});
  // A correct client can still be served.
  void expect_service();

  std::optional<TestServer> server_;
};

Task<Result<void>> move_once(Window* window, memory::Lease* lease, bool write, std::chrono::milliseconds limit) {
  if (write) co_return co_await window->write(Bytes(lease->data(), moved_size), 0, deadline_in(limit));
  co_return co_await window->read(MutableBytes(lease->data(), moved_size), 0, deadline_in(limit));
}

// Writes into the window of `open`, in one turn of the core.
Task<Result<void>> move_once_after(std::function<Result<std::unique_ptr<Window>>()> open, memory::Lease* lease) {
  VB_CO_ASSIGN(const auto window, open());
  co_return co_await window->write(Bytes(lease->data(), moved_size), 0, deadline_in(std::chrono::seconds(5)));
}

Result<void> HostilePeer::move(std::string_view owner, const WindowDescriptor& lent, bool write,
                               std::chrono::milliseconds limit, const std::function<void()>& meanwhile) {
  auto window = server_->call(
      [&] { return server_->fabric->open_window(owner, lent, write ? Access::server_writes : Access::server_reads); });
  if (!window) return std::unexpected(window.error());
  auto lease = server_->lease(moved_size, std::byte{7});
  auto moved = server_->spawn(move_once(window->get(), &lease, write, limit));
  if (meanwhile) meanwhile();
  const auto outcome = moved.get();
  server_->call([&] { window->reset(); });
  return outcome;
}

void HostilePeer::expect_service() {
  TestClient client(&*server_);
  std::vector<std::byte> memory(moved_size);
  auto lent = client.link->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent);
  const auto done = move(client.link->address(), (*lent)->descriptor(), true, std::chrono::seconds(20));
  EXPECT_TRUE(done) << describe(done.error());
  EXPECT_EQ(memory, std::vector<std::byte>(moved_size, std::byte{7}));
}

TEST_F(HostilePeer, ThatCallsAndSendsAnythingHarmsNobody) {
  const auto address = server_->fabric->port().address();
  std::vector<Fd> open;  // kept open until the server hangs up
  for (const auto& [name, bytes] : testing::hostile_hellos(true)) {
    SCOPED_TRACE(name);
    Fd fd = testing::connect_to(address);
    ASSERT_TRUE(fd);
    testing::send_all(fd.get(), bytes);
    testing::drain(fd.get(), 20);
    open.push_back(std::move(fd));
    ASSERT_EQ(server_->call([] { return 1; }), 1) << "the core hangs";
  }
  for (const uint64_t endianness : {uint64_t{1}, other_endianness}) {
    for (const auto& [name, bytes] : testing::hostile_frames()) {
      SCOPED_TRACE(name);
      Fd fd = testing::connect_to(address);
      ASSERT_TRUE(fd);
      testing::send_all(fd.get(), testing::hello(true, 8, endianness));
      EXPECT_EQ(testing::drain_answer(fd.get(), 20), 40u) << "the answer to a connection request";
      testing::send_all(fd.get(), bytes);
      testing::drain(fd.get(), 10);
      open.push_back(std::move(fd));
    }
  }
  expect_service();
  // Silent connections outlive the listener.
  for (int i = 0; i < 10; ++i) open.push_back(testing::connect_to(address));
  server_->call([] {});
  server_->call([this] { server_->fabric.reset(); });
  for (const auto& fd : open) testing::send_all(fd.get(), testing::hello(true));
}

TEST_F(HostilePeer, ThatWasDialledAndAnswersAnythingHarmsNobody) {
  testing::HostileListener listener;
  constexpr auto limit = std::chrono::milliseconds(150);
  const WindowDescriptor lent{0, MiB, 1};
  for (const auto& [name, bytes] : testing::hostile_hellos(false)) {
    SCOPED_TRACE(name);
    const testing::HostileOwner owner(listener, bytes, {});
    EXPECT_FALSE(move(listener.name(), lent, true, limit));
    EXPECT_TRUE(testing::eventually([&] { return owner.calls() != 0; })) << "the server did not call";
  }
  bool write = true;
  for (const uint64_t endianness : {uint64_t{1}, other_endianness}) {
    const auto hello = testing::hello(false, 8, endianness);
    for (const auto& [name, bytes] : testing::hostile_frames()) {
      SCOPED_TRACE(name);
      const testing::HostileOwner owner(listener, hello, bytes);
      const auto moved = move(listener.name(), lent, write, limit);
      EXPECT_TRUE(!moved || (write && name == testing::acknowledgement));
      EXPECT_TRUE(testing::eventually([&] { return owner.calls() != 0; })) << "the server did not call";
      write = !write;
    }
  }
  expect_service();
}

// The core did not poll the provider between the end of the connection and the next window of the same owner.
TEST_F(HostilePeer, ThatHungUpMeanwhileIsCalledAgain) {
  testing::HostileListener listener;
  const auto answer = testing::frame({.op_data = 2});  // an acknowledgement
  auto first = std::make_unique<testing::HostileOwner>(listener, testing::hello(false), answer);
  ASSERT_TRUE(move(listener.name(), {0, MiB, 1}, true, std::chrono::seconds(5)));
  std::unique_ptr<testing::HostileOwner> second;
  auto lease = server_->lease(moved_size, std::byte{7});
  auto moved = server_->spawn(move_once_after(
      [&] {
        first.reset();
        second = std::make_unique<testing::HostileOwner>(listener, testing::hello(false), answer);
        return server_->fabric->open_window(listener.name(), {0, MiB, 1}, Access::server_writes);
      },
      &lease));
  const auto outcome = moved.get();
  EXPECT_TRUE(outcome) << describe(outcome.error());
  EXPECT_TRUE(testing::eventually([&] { return second->calls() != 0; })) << "the server did not call again";
}

// A correct client's read would return an object that was never sent.
TEST_F(HostilePeer, ThatAnswersAReadShortIsAnErrorNotAnObject) {
  testing::HostileListener listener;
  for (const uint64_t payload : {0, 1, 1000, 64 * 1024 - 1, 64 * 1024 + 1}) {
    const auto done = move(listener.name(), {0, MiB, 1}, false, std::chrono::seconds(2), [&] {
      const Fd fd = listener.accept(2000);
      ASSERT_TRUE(fd);
      testing::drain_answer(fd.get(), 20);
      testing::send_all(fd.get(), testing::hello(false));
      EXPECT_EQ(testing::drain_answer(fd.get(), 50), 40u) << "a read request: a header and one region";
      testing::send_all(fd.get(),
                        testing::frame({.op = testing::TcpOp::read_response, .size = 16 + payload}, {}, payload));
      testing::drain(fd.get(), 50);
    });
    EXPECT_FALSE(done) << payload;
  }
  EXPECT_TRUE(move(listener.name(), {0, MiB, 1}, false, std::chrono::seconds(5), [&] {
    const Fd fd = listener.accept(2000);
    testing::drain_answer(fd.get(), 20);
    testing::send_all(fd.get(), testing::hello(false));
    testing::drain_answer(fd.get(), 50);
    testing::send_all(fd.get(),
                      testing::frame({.op = testing::TcpOp::read_response, .size = 16 + 64 * KiB}, {}, 64 * KiB));
    testing::drain(fd.get(), 50);
  })) << "the exact answer is a read";
}

TEST_F(HostilePeer, CannotReachAnEndpointThatOnlyDials) {
  Options options = testing::test_options();
  options.dial_only = true;
  TestServer dialling(options);
  ASSERT_TRUE(dialling.fabric) << describe(dialling.error);
  EXPECT_FALSE(testing::connect_to(dialling.fabric->port().address()));
  TestClient client;  // without a server
  std::vector<std::byte> memory(moved_size);
  auto lent = client.link->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent);
  server_.reset();
  server_.emplace(options);
  const auto done = move(client.link->address(), (*lent)->descriptor(), true, std::chrono::seconds(20));
  EXPECT_TRUE(done) << describe(done.error());
  EXPECT_EQ(memory.back(), std::byte{7});
}

}  // namespace
}  // namespace verbena::fabric::ofi
