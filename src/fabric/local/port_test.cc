// A port and correct clients.
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/asio/detached.hpp>

#include "fabric/local/counters.h"
#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

using namespace testing;

class PortTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "socket";
};

TEST_F(PortTest, MessagesOfEverySizeComeBackWhole) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->provider(), "local");
  EXPECT_EQ(link->message_size_max(), 128 * KiB);
  for (size_t size : {size_t{1}, size_t{7}, size_t{8}, size_t{56}, size_t{57}, size_t{4096}, 64 * KiB, 128 * KiB}) {
    for (unsigned round = 0; round < 20; ++round) {
      const auto message = pattern(size, round);
      ASSERT_EQ(echo(*link, message), message) << size;
    }
  }
}

TEST_F(PortTest, MessagesThatAreEmptyOrTooLongAreRefusedAtBothEnds) {
  Server server(path_);
  auto link = must_connect(path_);
  EXPECT_EQ(link->send({}).error(), Errc::too_large);
  EXPECT_EQ(link->send(pattern(128 * KiB + 1)).error(), Errc::too_large);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  const auto outcome = server.on_core([&] { return server.port().send(server.last_peer(), pattern(128 * KiB + 1)); });
  EXPECT_EQ(outcome.error(), Errc::too_large);
  const auto nobody = server.on_core([&] { return server.port().send(999, as_bytes("x")); });
  EXPECT_EQ(nobody.error(), Errc::closed);
}

TEST_F(PortTest, AReplyInTwoPartsArrivesAsOne) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  ASSERT_TRUE(
      server.on_core([&] { return server.port().send_joined(server.last_peer(), as_bytes("ab"), as_bytes("cd")); }));
  EXPECT_EQ(as_text(receive(*link)), "abcd");
}

TEST_F(PortTest, TheServerWritesIntoAndReadsFromLentMemory) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  for (size_t size : {size_t{1}, size_t{4096}, size_t{1000003}, 5 * MiB}) {
    auto memory = *link->allocate(size);
    const auto bytes = pattern(size, 7);
    {
      auto lent = link->lend(*memory, Access::server_writes);
      ASSERT_TRUE(lent) << describe(lent.error());
      auto window = server.on_core(
          [&] { return server.port().open_window(server.last_peer(), (*lent)->descriptor(), Access::server_writes); });
      ASSERT_TRUE(window) << describe(window.error());
      EXPECT_EQ((*window)->size(), size);
      ASSERT_TRUE(server.wait_for((*window)->write(bytes, 0, soon())));
      EXPECT_TRUE(std::ranges::equal((*lent)->bytes(), bytes));
    }
    auto lent = link->lend(*memory, Access::server_reads);
    ASSERT_TRUE(lent);
    auto window = server.on_core(
        [&] { return server.port().open_window(server.last_peer(), (*lent)->descriptor(), Access::server_reads); });
    ASSERT_TRUE(window);
    std::vector<std::byte> got(size);
    ASSERT_TRUE(server.wait_for((*window)->read(got, 0, soon())));
    EXPECT_EQ(got, bytes);
  }
}

TEST_F(PortTest, SmallCopiesHappenAtOnce) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(100);
  auto lent = *link->lend(*memory, Access::server_writes);
  auto window = *server.on_core(
      [&] { return server.port().open_window(server.last_peer(), lent->descriptor(), Access::server_writes); });
  EXPECT_GE(window->immediate_size_max(), 64 * KiB);
  EXPECT_TRUE(server.on_core([&] { return window->write_now(as_bytes("now"), 50); }));
  EXPECT_EQ(as_text(memory->subspan(50, 3)), "now");
  Window::Write several[] = {{as_bytes("some"), 92}, {{}, 100}, {as_bytes("what"), 96}, {as_bytes("else"), 10}};
  EXPECT_TRUE(server.on_core([&] { return window->write_all_now(several); }));
  EXPECT_EQ(as_text(memory->subspan(92, 8)), "somewhat");
  EXPECT_EQ(as_text(memory->subspan(10, 4)), "else");
  several[2].at = 97;
  EXPECT_EQ(server.on_core([&] { return window->write_all_now(several); }).error(), Errc::invalid_argument);
  EXPECT_EQ(server.on_core([&] { return window->write_now(as_bytes("now"), 98); }).error(), Errc::invalid_argument);
  EXPECT_EQ(server.on_core([&] { return window->write_now(as_bytes("now"), ~0ull); }).error(), Errc::invalid_argument);
  std::byte into[3];
  EXPECT_EQ(server.on_core([&] { return window->read_now(into, 0); }).error(), Errc::access_denied);
}

TEST_F(PortTest, LongCopiesLetMessagesPass) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(64 * MiB);
  auto lent = *link->lend(*memory, Access::server_writes);
  const auto bytes = pattern(64 * MiB);
  auto window = *server.on_core(
      [&] { return server.port().open_window(server.last_peer(), lent->descriptor(), Access::server_writes); });
  auto copied = spawn_on(server.core(), window->write(bytes, 0, soon()));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(echo(*link, as_bytes("between")).empty());
  ASSERT_TRUE(copied.get());
  EXPECT_TRUE(std::ranges::equal(*memory, bytes));
}

TEST_F(PortTest, ACopyPastItsDeadlineEndsBetweenSlices) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(4 * MiB);
  auto lent = *link->lend(*memory, Access::server_writes);
  const auto bytes = pattern(4 * MiB);
  auto window = *server.on_core(
      [&] { return server.port().open_window(server.last_peer(), lent->descriptor(), Access::server_writes); });
  EXPECT_EQ(server.wait_for(window->write(bytes, 0, SteadyClock::now() - std::chrono::seconds(1))).error(),
            Errc::timed_out);
}

TEST_F(PortTest, NothingLandsInMemoryThatWasWithdrawn) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(64);
  std::memset(memory->data(), 0, 64);
  auto lent = *link->lend(*memory, Access::server_writes);
  const auto descriptor = lent->descriptor();
  auto window =
      *server.on_core([&] { return server.port().open_window(server.last_peer(), descriptor, Access::server_writes); });
  lent.reset();
  EXPECT_EQ(server.on_core([&] { return window->write_now(as_bytes("late"), 0); }).error(), Errc::cancelled);
  // Lent again, it has another key: the old window stays invalid.
  lent = *link->lend(*memory, Access::server_writes);
  EXPECT_EQ(server.on_core([&] { return window->write_now(as_bytes("late"), 0); }).error(), Errc::cancelled);
  EXPECT_FALSE(
      server.on_core([&] { return server.port().open_window(server.last_peer(), descriptor, Access::server_writes); }));
  EXPECT_EQ((*memory)[0], std::byte{0});
}

TEST_F(PortTest, WithdrawingRacesWithCopiesAndNeverLosesOne) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(256 * KiB);
  const auto bytes = pattern(256 * KiB);
  for (int round = 0; round < 200; ++round) {
    std::memset(memory->data(), 0, memory->size());
    auto lent = *link->lend(*memory, Access::server_writes);
    auto window = *server.on_core(
        [&] { return server.port().open_window(server.last_peer(), lent->descriptor(), Access::server_writes); });
    std::atomic<bool> started{false};
    auto writing = std::async(std::launch::async, [&] {
      return server.on_core([&] {
        started = true;
        return window->write_now(bytes, 0);
      });
    });
    while (!started) std::this_thread::yield();
    lent.reset();
    // All or nothing, and the contents now are final.
    const bool written = (*memory)[0] == bytes[0] && (*memory)[memory->size() - 1] == bytes.back();
    EXPECT_EQ(writing.get().has_value(), written);
  }
}

TEST_F(PortTest, OnlyAllocatedMemoryIsLent) {
  Server server(path_);
  auto link = must_connect(path_);
  std::byte own[64];
  EXPECT_EQ(link->lend(own, Access::server_reads).error(), Errc::unsupported);
}

TEST_F(PortTest, LinksWithOnePoolLendEachOthersMemory) {
  const std::string other_path = directory_ / "other";
  Server one(path_), other(other_path);
  const Options options{.pool = make_pool()};
  auto link = must_connect(path_, options);
  auto other_link = must_connect(other_path, options);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  ASSERT_FALSE(echo(*other_link, as_bytes("hello")).empty());
  auto memory = *link->allocate(100);
  for (auto [server, l] : {std::pair(&one, link.get()), std::pair(&other, other_link.get())}) {
    auto lent = *l->lend(*memory, Access::server_writes);
    auto window = *server->on_core(
        [&] { return server->port().open_window(server->last_peer(), lent->descriptor(), Access::server_writes); });
    EXPECT_TRUE(server->on_core([&] { return window->write_now(as_bytes("x"), 0); }));
  }
}

// The server's core, which does nothing else meanwhile, as that of a server that is stopped.
class Held {
 public:
  explicit Held(Server& server)
      : held_(std::async(std::launch::async, [this, &server] {
          return server.on_core([this] {
            begun_.set_value();
            go_on_.get_future().wait();
            return 0;
          });
        })) {
    begun_.get_future().wait();
  }
  ~Held() {
    if (held_.valid()) end();
  }
  void end() {
    go_on_.set_value();
    held_.get();
  }

 private:
  std::promise<void> begun_, go_on_;
  std::future<int> held_;
};

TEST_F(PortTest, FreedLargePiecesDoNotUseUpTheServersLimits) {
  Server server(path_, {.client_memory_count_max = 2, .client_memory_size_max = 64 * MiB});
  auto link = must_connect(path_);
  for (int round = 0; round < 8; ++round) {
    auto memory = *link->allocate(24 * MiB);
    auto lent = link->lend(*memory, Access::server_writes);
    ASSERT_TRUE(lent) << describe(lent.error());
  }
}

// The server does not answer, as one that is stopped: a call's own time is over all the same when it is over.
TEST_F(PortTest, AWaitIsNotLongerForPiecesThatWereFreed) {
  constexpr auto answer_time = std::chrono::seconds(20);  // must_connect()'s
  Server server(path_);
  auto link = must_connect(path_);
  {
    std::vector<std::shared_ptr<MutableBytes>> pieces;
    for (int i = 0; i < 3; ++i) {
      pieces.push_back(*link->allocate(24 * MiB));
      ASSERT_TRUE(link->lend(*pieces.back(), Access::server_writes));
    }
  }
  Held held(server);
  std::promise<void> waited;
  auto over = waited.get_future();
  std::thread waits([&] {
    link->wait(deadline_in(std::chrono::milliseconds(50)));
    waited.set_value();
  });
  const bool in_time = over.wait_for(answer_time / 2) == std::future_status::ready;
  held.end();
  waits.join();
  EXPECT_TRUE(in_time) << "it waited for answers";
  auto memory = *link->allocate(24 * MiB);
  EXPECT_TRUE(link->lend(*memory, Access::server_writes));
}

// Each share that was not answered in time kept its place at the server, and the next one took another.
class LateAnswer : public PortTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Seen, LateAnswer, ::testing::Values(false, true),
                         [](const auto& given) { return given.param ? "ByWait" : "ByTheNextShare"; });

TEST_P(LateAnswer, IsStillTaken) {
  Server server(path_, {.client_memory_count_max = 1});
  auto link = connect(path_, {.handshake_timeout = std::chrono::milliseconds(300)});
  for (const auto deadline = soon(); !link && SteadyClock::now() < deadline;)
    link = connect(path_, {.handshake_timeout = std::chrono::milliseconds(300)});
  ASSERT_TRUE(link);
  auto memory = *(*link)->allocate(24 * MiB);
  {
    Held held(server);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ((*link)->lend(*memory, Access::server_writes).error(), Errc::timed_out);
    }
  }
  if (GetParam()) (*link)->wait(deadline_in(std::chrono::seconds(1)));
  const auto lends = [&] { return (*link)->lend(*memory, Access::server_writes).has_value(); };
  EXPECT_TRUE(eventually(lends));
  memory.reset();
  memory = *(*link)->allocate(24 * MiB);
  EXPECT_TRUE(eventually(lends)) << "the first one's place is free again";
}

TEST_F(PortTest, ManyClientsAtOnceEachGetTheirOwnAnswers) {
  Server server(path_);
  constexpr unsigned clients = 64;
  std::vector<std::thread> threads;
  std::atomic<unsigned> right{0};
  for (unsigned c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      auto link = must_connect(path_);
      if (!link) return;
      for (unsigned i = 0; i < 50; ++i) {
        const auto message = pattern(1 + (c * 131 + i * 977) % 9000, c * 1000 + i);
        if (echo(*link, message) == message) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, clients * 50);
  server.wait_for_gone(clients);
}

TEST_F(PortTest, ASleepingServerAndASleepingClientAlwaysWakeEachOther) {
  // No spinning on either side: each message meets a sleeper, or one that is just falling asleep.
  Server server(path_, {}, std::chrono::microseconds(0));
  Options options;
  options.spin_for = std::chrono::microseconds(0);
  auto link = must_connect(path_, options);
  for (unsigned i = 0; i < 20'000; ++i) {
    const auto message = std::as_bytes(std::span(&i, 1));
    ASSERT_TRUE(std::ranges::equal(echo(*link, message), message)) << i;
  }
}

TEST_F(PortTest, AnIdleClientIsHeardAgain) {
  Server server(path_, {}, std::chrono::microseconds(1'000'000));  // the core spins on: idle clients get demoted
  auto idle = must_connect(path_);
  auto lively = must_connect(path_);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(as_text(echo(*idle, as_bytes("idle"))), "idle");
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(as_text(echo(*lively, as_bytes("lively"))), "lively");
  }
  EXPECT_EQ(as_text(echo(*idle, as_bytes("idle"))), "idle");
}

// However many clients there are, the core polls the rings of a few; each of the others rings for itself.
TEST_F(PortTest, OfManyClientsAFewArePolledAndTheOthersRing) {
  Server server(path_, {}, std::chrono::microseconds(1'000'000));  // no doorbell rings because the core sleeps
  std::vector<std::unique_ptr<Link>> clients;
  for (int i = 0; i < 100; ++i) clients.push_back(must_connect(path_));
  const auto in_turn = [&] {
    const auto before = Counters::get().doorbells.value();
    for (auto& client : clients) EXPECT_EQ(as_text(echo(*client, as_bytes("turn"))), "turn");
    return Counters::get().doorbells.value() - before;
  };
  in_turn();
  EXPECT_GE(in_turn(), 100u - 40u);
  const auto before = Counters::get().doorbells.value();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(as_text(echo(*clients[0], as_bytes("alone"))), "alone");
  EXPECT_LE(Counters::get().doorbells.value() - before, 10u) << "an active client stays polled";
}

TEST_F(PortTest, AFullRingToTheServerIsWaitedForAndDrains) {
  Server server(path_);
  // Does not answer: the ring fills as fast as it can be drained.
  std::atomic<size_t> received{0};
  server.on_core([&] { server.port().on_message([&](PeerId, Bytes) { ++received; }); });
  auto link = must_connect(path_);
  const auto message = pattern(100 * KiB);
  for (int i = 0; i < 300;) {
    auto sent = link->send(message);
    if (sent) {
      ++i;
      continue;
    }
    ASSERT_EQ(sent.error(), Errc::would_block);
    link->wait(soon());
  }
  const auto deadline = soon();
  while (received < 300 && SteadyClock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(received, 300u);
}

TEST_F(PortTest, WaitEndsAtItsDeadlineAndWhenWoken) {
  Server server(path_);
  auto link = must_connect(path_);
  link->wait(deadline_in(std::chrono::milliseconds(1)));
  auto waiting = std::async(std::launch::async, [&] { link->wait(soon()); });
  link->wake();
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST_F(PortTest, ARemovedPeerIsDisconnectedWithoutANotice) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  server.on_core([&] { server.port().remove_peer(server.last_peer()); });
  EXPECT_TRUE(sees_closed(*link));
  EXPECT_EQ(server.gone(), 0u);
}

TEST_F(PortTest, AClientSeesItsServerEnd) {
  auto server = std::make_unique<Server>(path_);
  auto link = must_connect(path_);
  auto memory = *link->allocate(100);
  auto lent = *link->lend(*memory, Access::server_writes);
  server.reset();
  EXPECT_TRUE(sees_closed(*link));
  EXPECT_EQ(link->send(as_bytes("x")).error(), Errc::closed);
  lent.reset();  // does not wait for a server that is gone
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(connect(path_).error(), Errc::connection_failed);
}

TEST_F(PortTest, TheSocketIsOpenToEveryUserAndAStaleOneIsReplaced) {
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    Fd stale(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  Server server(path_);
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666u);
  auto link = must_connect(path_);
  EXPECT_FALSE(echo(*link, as_bytes("hello")).empty());
}

TEST_F(PortTest, APathThatIsTakenIsLeftAlone) {
  Server server(path_);
  Core core({});
  EXPECT_EQ(listen(core, path_).error(), Errc::bad_config);
  auto link = must_connect(path_);
  EXPECT_FALSE(echo(*link, as_bytes("still here")).empty());
  const std::string file = directory_ / "file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(listen(core, file).error(), Errc::bad_config);
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  EXPECT_EQ(listen(core, directory_ / std::string(200, 'x')).error(), Errc::bad_config);
}

TEST_F(PortTest, RingSizesThatCannotWorkAreRefused) {
  Core core({});
  EXPECT_EQ(listen(core, path_, {.ring_size = 100'000}).error(), Errc::bad_config);
  EXPECT_EQ(listen(core, path_, {.message_size_max = 1 * MiB, .ring_size = 1 * MiB}).error(), Errc::bad_config);
}

Task<> copy_while(Window& window, Bytes bytes, std::shared_ptr<int> alive, bool& ended) {
  (void)co_await window.write(bytes, 0, soon());
  ended = *alive != 0;
}

// A copy that waits for its turn owns the queue that it waits in.
TEST_F(PortTest, ACopyThatWaitsWhenThePortGoesIsDestroyed) {
  Core core({});
  auto port = *listen(core, path_);
  auto alive = std::make_shared<int>(1);
  bool ended = false;
  PeerId peer = 0;
  port->on_message([&](PeerId from, Bytes) { peer = from; });
  std::future<std::unique_ptr<Link>> joining = std::async(std::launch::async, [&] { return must_connect(path_); });
  const auto turn = [&] {
    core.io().restart();
    core.io().poll();
    dynamic_cast<Pollable&>(*port).poll();
    std::this_thread::yield();
  };
  while (joining.wait_for(std::chrono::seconds(0)) != std::future_status::ready) turn();
  auto link = joining.get();
  ASSERT_TRUE(link && link->send(as_bytes("hello")));
  while (peer == 0) turn();
  auto sharing = std::async(std::launch::async, [&] {
    auto memory = *link->allocate(4 * MiB);
    auto lent = *link->lend(*memory, Access::server_writes);
    return std::pair(std::move(memory), std::move(lent));
  });
  while (sharing.wait_for(std::chrono::seconds(0)) != std::future_status::ready) turn();
  auto [memory, lent] = sharing.get();
  auto window = *port->open_window(peer, lent->descriptor(), Access::server_writes);
  const auto bytes = pattern(4 * MiB);
  boost::asio::co_spawn(core.io(), copy_while(*window, bytes, alive, ended), boost::asio::detached);
  core.io().restart();
  core.io().poll();  // the first slice is copied
  EXPECT_FALSE(ended);
  EXPECT_EQ(alive.use_count(), 2);
  port.reset();
  core.io().restart();
  core.io().poll();
  EXPECT_EQ(alive.use_count(), 1) << "it is never resumed, so it must not stay";
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace verbena::fabric::local
