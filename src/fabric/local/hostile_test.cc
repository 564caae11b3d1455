// Clients that lie, scribble, freeze and die. Each harms only itself.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <random>

#include "base/log_limit.h"
#include "base/log_ring.h"
#include "fabric/local/shares.h"
#include "fabric/local/test_support.h"

namespace verbena::fabric::local {
namespace {

using namespace testing;

constexpr int good_seals = F_SEAL_SHRINK | F_SEAL_GROW;

// The number of times this thread has gone to sleep.
long own_sleeps() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

class HostileTest : public ::testing::Test {
 protected:
  void good_client_is_served() {
    if (!good_) good_ = must_connect(path_);
    ASSERT_EQ(as_text(echo(*good_, as_bytes("still here"))), "still here");
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "socket";
  std::unique_ptr<Link> good_;
};

TEST_F(HostileTest, AClientThatScribblesOverIndicesIsDropped) {
  Server server(path_);
  good_client_is_served();
  const auto before = Counters::get().violations.value();
  size_t dropped = 0;
  for (uint64_t head : {uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 40, uint64_t{64}}) {
    RawClient raw = RawClient::join(path_);
    raw.region.control().to_server.head.store(head);
    raw.ring();
    EXPECT_TRUE(raw.is_dropped()) << head;
    server.wait_for_gone(++dropped);
    good_client_is_served();
  }
  EXPECT_EQ(Counters::get().violations.value(), before + dropped);
}

TEST_F(HostileTest, ClientsThatJoinAndLeaveDoNotFillTheLog) {
  Server server(path_);
  const uint64_t before = log::ring().read(0, log::Level::trace, 1).last;
  const auto begun = SteadyClock::now();
  constexpr size_t clients = 100;
  for (size_t i = 1; i <= clients; ++i) {
    {
      const RawClient raw = RawClient::join(path_);
    }
    server.wait_for_gone(i);
  }
  const auto intervals = static_cast<size_t>((SteadyClock::now() - begun) / log::Limit::interval) + 2;
  const auto said = log::ring().read(before, log::Level::trace, log::Ring::lines_max);
  for (const char* what : {"local: client joined", "local: client left"}) {
    const auto is_one = [&](const log::Line& line) { return line.text.starts_with(what); };
    EXPECT_LE(std::ranges::count_if(said.lines, is_one), intervals * log::Limit::lines_max) << what;
  }
  good_client_is_served();
}

TEST_F(HostileTest, AClientThatScribblesRandomBytesEverywhereHurtsNobodyElse) {
  Server server(path_);
  good_client_is_served();
  std::mt19937_64 random(42);
  for (int round = 0; round < 30; ++round) {
    RawClient raw = RawClient::join(path_);
    auto& control = raw.region.control();
    for (int i = 0; i < 2000; ++i) {
      const uint64_t value = random() >> (random() % 64);
      switch (random() % 8) {
        case 0:
          control.to_server.head.store(value & ~63ull);
          break;
        case 1:
          control.to_server.tail.store(value);
          break;
        case 2:
          control.to_client.tail.store(value);
          break;
        case 3:
          control.to_client.head.store(value);
          break;
        case 4:
          control.client_sleeps.store(static_cast<uint32_t>(value));
          break;
        case 5:
          control.server_sleeps.store(static_cast<uint32_t>(value)), raw.ring();
          break;
        case 6:
          raw.region.permit(value % permits_max).permit.store(random());
          break;
        default:
          std::memcpy(raw.region.to_server().data + value % (1 * MiB), &value, sizeof value);
      }
      if (i % 64 == 0) std::this_thread::yield();
    }
    raw.ring();
    if (round % 5 == 0) good_client_is_served();
  }
  good_client_is_served();
}

TEST_F(HostileTest, AClientThatLiesAboutWhatItConsumedIsDroppedWhenTheRingIsFull) {
  Server server(path_);
  good_client_is_served();
  RawClient raw = RawClient::join(path_);
  Producer producer(raw.region.to_server());
  raw.region.control().to_client.tail.store(uint64_t{1} << 50);
  const auto message = pattern(100 * KiB);
  for (int i = 0; i < 100; ++i) {
    while (producer.push(message, {}) == Producer::Push::full && server.gone() == 0) std::this_thread::yield();
    raw.ring();
  }
  server.wait_for_gone(1);
  good_client_is_served();
}

TEST_F(HostileTest, AClientThatPunchesHolesIntoItsRingHurtsNobodyElse) {
  Server server(path_);
  good_client_is_served();
  Fd socket = std::move(*connect_to(path_));
  ASSERT_TRUE(send_control(socket.get(), {.type = ControlType::hello}));
  auto packet = RawClient::receive(socket.get());
  ASSERT_TRUE(packet && packet->descriptors.size() == 2);
  const int ring = packet->descriptors[0].get();
  EXPECT_NE(::ftruncate(ring, 0), 0);  // sealed
  EXPECT_NE(::ftruncate(ring, 1 << 30), 0);
  for (int i = 0; i < 100; ++i) {
    ::fallocate(ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
    good_client_is_served();
  }
}

TEST_F(HostileTest, MemoryThatIsNotSafeToMapIsRefused) {
  Server server(path_, {.client_memory_count_max = 3, .client_memory_size_max = 1 * MiB});
  good_client_is_served();
  RawClient raw = RawClient::join(path_);
  admit(server, raw);
  const auto share = [&](const Fd& fd, uint64_t size) { return raw.share(fd.get(), size); };

  EXPECT_EQ(share(shared_memfd(8192, 0), 8192), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, F_SEAL_SHRINK), 8192), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, F_SEAL_GROW), 8192), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, good_seals | F_SEAL_WRITE), 8192), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, good_seals, false), 8192), Errc::invalid_argument);  // holes
  EXPECT_EQ(share(shared_memfd(0, good_seals), 8192), Errc::invalid_argument);            // truncated, then sealed
  EXPECT_EQ(share(shared_memfd(4096, good_seals), 8192), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, good_seals), 4096), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, good_seals), 0), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(8192, good_seals), ~uint64_t{0}), Errc::invalid_argument);
  EXPECT_EQ(share(shared_memfd(5000, good_seals), 5000), Errc::invalid_argument);
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(share(null, 4096), Errc::invalid_argument);
  Fd file(::open((directory_ / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(share(file, 4096), Errc::invalid_argument);
  EXPECT_EQ(share(raw.doorbell, 4096), Errc::invalid_argument);

  EXPECT_EQ(share(shared_memfd(2 * MiB, good_seals), 2 * MiB), Errc::slow_down);  // over the client's bytes
  for (int i = 0; i < 3; ++i) EXPECT_EQ(share(shared_memfd(8192, good_seals), 8192), Errc::ok);
  EXPECT_EQ(share(shared_memfd(8192, good_seals), 8192), Errc::slow_down);  // over the client's count
  good_client_is_served();
}

// 950 links with 64 mappings each were all that the kernel lets the server have: then no allocation succeeded any more.
TEST_F(HostileTest, WhoIsNotAdmittedMapsNothingAndIsDroppedWhenItGoesOn) {
  Server server(path_, {.admission_timeout = std::chrono::hours(1)});
  RawClient stranger = RawClient::join(path_);
  const Fd memory = shared_memfd(4096, good_seals);
  const size_t before = mappings_of("memfd:test");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(stranger.share(memory.get(), 4096), Errc::access_denied);
  EXPECT_EQ(mappings_of("memfd:test"), before);
  EXPECT_EQ(stranger.share(memory.get(), 4096), Errc::closed);
  RawClient known = RawClient::join(path_);
  admit(server, known);
  EXPECT_EQ(known.share(memory.get(), 4096), Errc::ok);
}

TEST_F(HostileTest, AllThatClientsMapCountsForTheirUserAndTheProcess) {
  Server server(path_);
  const auto of_user = mapping_shares().of_user(::getuid());
  const auto falls_to = [&](uint64_t count) {
    for (const auto deadline = soon(); of_user->used() > count && SteadyClock::now() < deadline;)
      std::this_thread::yield();
    return of_user->used() <= count;
  };
  ASSERT_TRUE(falls_to(0)) << "of an earlier test";
  RawClient raw = RawClient::join(path_);
  EXPECT_EQ(of_user->used(), SharedRegion::mappings);
  const Fd memory = shared_memfd(4096, good_seals);
  EXPECT_EQ(raw.share(memory.get(), 4096), Errc::ok);
  EXPECT_EQ(of_user->used(), SharedRegion::mappings + 1);
  EXPECT_EQ(mapping_shares().all()->used(), SharedRegion::mappings + 1);

  const uint64_t left = of_user->limit() - of_user->used();
  ASSERT_TRUE(of_user->take(left));
  EXPECT_EQ(raw.share(memory.get(), 4096), Errc::slow_down);
  EXPECT_EQ(connect(path_).error(), Errc::slow_down);
  of_user->give(left);
  EXPECT_EQ(raw.share(memory.get(), 4096), Errc::ok);
  EXPECT_TRUE(must_connect(path_));
  raw = RawClient();
  good_client_is_served();
  good_.reset();
  EXPECT_TRUE(falls_to(0));
}

TEST_F(HostileTest, AllClientsTogetherMapNoMoreThanThePortsLimit) {
  Server server(path_, {.memory_size_max = 1 * MiB});
  RawClient one = RawClient::join(path_);
  RawClient two = RawClient::join(path_);
  EXPECT_EQ(one.share(shared_memfd(1 * MiB, good_seals).get(), 1 * MiB), Errc::ok);
  EXPECT_EQ(two.share(shared_memfd(4096, good_seals).get(), 4096), Errc::slow_down);
  one.socket = Fd();
  Fd closed = std::move(one.socket);
  closed = Fd();
  server.wait_for_gone(0);
  const auto deadline = soon();
  Errc outcome = Errc::slow_down;
  while (outcome != Errc::ok && SteadyClock::now() < deadline) {
    outcome = two.share(shared_memfd(4096, good_seals).get(), 4096);
  }
  EXPECT_EQ(outcome, Errc::ok) << "what a client had goes with it";
}

TEST_F(HostileTest, WindowDescriptorsOutsideTheMemoryAreRefused) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(4096);
  auto lent = *link->lend(*memory, Access::server_writes);
  const WindowDescriptor good = lent->descriptor();
  const auto open = [&](WindowDescriptor descriptor, Access access = Access::server_writes) {
    auto window = server.on_core([&] { return server.port().open_window(server.last_peer(), descriptor, access); });
    return window ? Errc::ok : window.error().code;
  };
  EXPECT_EQ(open(good), Errc::ok);
  EXPECT_EQ(open({good.base, ~0ull, good.key}), Errc::invalid_argument);
  EXPECT_EQ(open({~0ull, 4096, good.key}), Errc::invalid_argument);
  EXPECT_EQ(open({~0ull - 4095, 4096, good.key}), Errc::invalid_argument);
  EXPECT_EQ(open({Pool::slab_size_first, 1, good.key}), Errc::invalid_argument);
  EXPECT_EQ(open({Pool::slab_size_first - 1, 2, good.key}), Errc::invalid_argument);
  EXPECT_EQ(open({good.base, good.size, good.key + 1}), Errc::invalid_argument);
  EXPECT_EQ(open({good.base, good.size, ~0ull}), Errc::invalid_argument);
  EXPECT_EQ(open({good.base, good.size, good.key + (1ull << 32)}), Errc::invalid_argument);
  EXPECT_EQ(open(good, Access::server_reads), Errc::access_denied);
}

TEST_F(HostileTest, AWindowWhoseClientLeftIsNotTouched) {
  Server server(path_);
  auto link = must_connect(path_);
  ASSERT_FALSE(echo(*link, as_bytes("hello")).empty());
  auto memory = *link->allocate(4096);
  auto lent = *link->lend(*memory, Access::server_writes);
  auto window = *server.on_core(
      [&] { return server.port().open_window(server.last_peer(), lent->descriptor(), Access::server_writes); });
  lent.reset();
  link.reset();
  server.wait_for_gone(1);
  EXPECT_EQ(server.on_core([&] { return window->write_now(as_bytes("x"), 0); }).error(), Errc::closed);
}

TEST_F(HostileTest, GarbageInsteadOfAHandshakeIsRefused) {
  Server server(path_);
  std::mt19937_64 random(7);
  for (size_t size : {size_t{1}, size_t{39}, sizeof(ControlMessage), size_t{41}, size_t{4000}}) {
    Fd socket = std::move(*connect_to(path_));
    std::vector<uint8_t> garbage(size);
    for (auto& b : garbage) b = static_cast<uint8_t>(random());
    ASSERT_EQ(::send(socket.get(), garbage.data(), size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    auto packet = RawClient::receive(socket.get());
    ASSERT_TRUE(packet);
    EXPECT_EQ(parse_control(packet->bytes, 0)->type, ControlType::refused);
    EXPECT_EQ(RawClient::receive(socket.get()).error(), Errc::closed);
  }
  // Valid messages at the wrong time: memory before hello, hello twice, withdrawing memory that was never shared.
  Fd socket = std::move(*connect_to(path_));
  Fd memfd = shared_memfd(4096, good_seals);
  const int fds[] = {memfd.get()};
  ASSERT_TRUE(send_control(socket.get(), {.type = ControlType::share, .a = 4096}, fds));
  EXPECT_EQ(parse_control(RawClient::receive(socket.get())->bytes, 0)->type, ControlType::refused);
  RawClient twice = RawClient::join(path_);
  ASSERT_TRUE(send_control(twice.socket.get(), {.type = ControlType::hello}));
  EXPECT_TRUE(twice.is_dropped());
  RawClient nothing = RawClient::join(path_);
  ASSERT_TRUE(send_control(nothing.socket.get(), {.type = ControlType::withdraw, .a = 3}));
  EXPECT_TRUE(nothing.is_dropped());
  good_client_is_served();
}

TEST_F(HostileTest, ManyDescriptorsInOnePacketAreClosedAgain) {
  Server server(path_);
  good_client_is_served();
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_descriptors();
  for (int round = 0; round < 10; ++round) {
    RawClient raw = RawClient::join(path_);
    int fds[200];
    std::fill(std::begin(fds), std::end(fds), raw.doorbell.get());
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    char byte = 0;
    iovec io{&byte, 1};
    msghdr header{};
    header.msg_iov = &io;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(c), fds, sizeof fds);
    ASSERT_EQ(::sendmsg(raw.socket.get(), &header, MSG_NOSIGNAL), 1);
    EXPECT_TRUE(raw.is_dropped());
  }
  const auto deadline = soon();
  while (open_descriptors() > before + 10 && SteadyClock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(open_descriptors(), before + 10);
  good_client_is_served();
}

TEST_F(HostileTest, ASlowHandshakeIsClosedAndOthersAreServedMeanwhile) {
  Server server(path_, {.handshake_timeout = std::chrono::milliseconds(100)});
  Fd silent = std::move(*connect_to(path_));
  good_client_is_served();
  auto packet = RawClient::receive(silent.get());
  ASSERT_TRUE(packet);
  auto refusal = parse_control(packet->bytes, 0);
  EXPECT_EQ(refusal->type, ControlType::refused);
  EXPECT_EQ(static_cast<Errc>(refusal->status), Errc::timed_out);
  good_client_is_served();
}

TEST_F(HostileTest, SilentConnectionsDoNotKeepOthersOut) {
  Server server(path_, {.handshake_timeout = std::chrono::seconds(60), .handshakes_max = 8});
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::move(*connect_to(path_)));
  good_client_is_served();
}

TEST_F(HostileTest, ClientsBeyondTheLimitAreRefusedAndTold) {
  Server server(path_, {.peers_max = 2});
  auto one = must_connect(path_), two = must_connect(path_);
  EXPECT_EQ(connect(path_).error(), Errc::slow_down);
  one.reset();
  server.wait_for_gone(1);
  EXPECT_TRUE(must_connect(path_));
}

TEST_F(HostileTest, AClientThatNeverReadsItsWakeUpsBlocksNobody) {
  Server server(path_);
  good_client_is_served();
  RawClient raw = RawClient::join(path_);
  Producer producer(raw.region.to_server());
  Consumer consumer(raw.region.to_client());
  for (int i = 0; i < 5'000; ++i) {
    raw.region.control().client_sleeps.store(1);
    ASSERT_EQ(producer.push(as_bytes("x"), {}), Producer::Push::ok);
    raw.ring();
    Bytes view;
    const auto deadline = soon();
    while (consumer.peek(view) != Consumer::Pop::message && SteadyClock::now() < deadline) std::this_thread::yield();
    consumer.release();
  }
  good_client_is_served();
}

TEST_F(HostileTest, ADoorbellWithAClearedFlagAndAFullCounterBlocksNobody) {
  Server server(path_);
  RawClient raw = RawClient::join(path_);
  ASSERT_EQ(::fcntl(raw.doorbell.get(), F_SETFL, 0), 0);  // the flag is shared with the server's descriptor
  const uint64_t most = ~uint64_t{0} - 1;
  ASSERT_EQ(::write(raw.doorbell.get(), &most, sizeof most), static_cast<ssize_t>(sizeof most));
  good_client_is_served();
  uint64_t stolen;
  ASSERT_EQ(::read(raw.doorbell.get(), &stolen, sizeof stolen), static_cast<ssize_t>(sizeof stolen));
  good_client_is_served();
}

// Each ring wakes the core, with or without a message.
TEST_F(HostileTest, AClientThatRingsForNothingIsDroppedAndWakesTheCoreNoLonger) {
  Server server(path_);
  auto neighbour = must_connect(path_);  // in the same set of doorbells
  ASSERT_EQ(as_text(echo(*neighbour, as_bytes("hello"))), "hello");
  RawClient raw = RawClient::join(path_);
  const auto deadline = soon();
  while (server.gone() == 0 && SteadyClock::now() < deadline) raw.ring();
  ASSERT_TRUE(raw.is_dropped());
  // It keeps its doorbell open.
  auto sleeps = [&] { return server.on_core([] { return own_sleeps(); }); };
  const auto ring_for = [&](std::chrono::milliseconds time) {
    for (const auto end = deadline_in(time); SteadyClock::now() < end;) raw.ring();
  };
  ring_for(std::chrono::milliseconds(200));  // until its set is aside
  const auto before = sleeps();
  ring_for(std::chrono::milliseconds(1000));
  EXPECT_LE(sleeps() - before, 400) << "one for each 4 ms, and for the loop's own timers";
  EXPECT_EQ(as_text(echo(*neighbour, as_bytes("still here"))), "still here");
}

// Runs `client` in a child process and returns its id.
template <class Client>
pid_t fork_client(Client client) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  client();
  ::_exit(0);
}

// Clients joined, never named their session, and kept the places of others.
TEST_F(HostileTest, WhoJoinsAndNeverShowsWhoItIsMakesRoom) {
  Server server(path_, {.peers_max = 4, .admission_timeout = std::chrono::hours(1)});
  auto known = must_connect(path_);
  ASSERT_EQ(as_text(echo(*known, as_bytes("hello"))), "hello");
  server.on_core([&] { return server.port().admit(server.last_peer(), 1), 0; });
  std::vector<std::unique_ptr<Link>> idlers;
  for (int i = 0; i < 12; ++i) idlers.push_back(must_connect(path_));
  server.wait_for_gone(9);
  // An admitted client is never disconnected.
  EXPECT_EQ(as_text(echo(*known, as_bytes("still here"))), "still here");
  good_client_is_served();
}

TEST_F(HostileTest, WhoNeverShowsWhoItIsIsThrownOutInTheEnd) {
  Server server(path_, {.admission_timeout = std::chrono::milliseconds(300)});
  auto idler = must_connect(path_);
  server.wait_for_gone(1);
}

TEST_F(HostileTest, AKilledClientIsNoticedAndItsMemoryComesBack) {
  // The child is forked first and waits for the socket, so that no thread exists at the fork.
  const pid_t child = fork_client([&] {
    const auto deadline = soon();
    auto link = connect(path_);
    while (!link && SteadyClock::now() < deadline) link = connect(path_);
    if (!link) ::_exit(1);
    auto memory = (*link)->allocate(1 * MiB);
    auto lent = (*link)->lend(**memory, Access::server_writes);
    if (!lent || !(*link)->send(as_bytes("here I am"))) ::_exit(1);
    for (;;) ::pause();
  });
  Server server(path_, {.peers_max = 2});
  good_client_is_served();
  const auto deadline = soon();
  while (server.messages() < 2 && SteadyClock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  server.wait_for_gone(1);
  good_client_is_served();
  EXPECT_TRUE(must_connect(path_));
}

TEST_F(HostileTest, AFrozenClientFillsItsOwnRingAndBlocksNobody) {
  const pid_t child = fork_client([&] {
    const auto deadline = soon();
    auto link = connect(path_);
    while (!link && SteadyClock::now() < deadline) link = connect(path_);
    if (!link || !(*link)->send(as_bytes("here I am"))) ::_exit(1);
    for (;;) ::pause();
  });
  Server server(path_);
  PeerId frozen = 0;
  const auto deadline = soon();
  while ((frozen = server.last_peer()) == 0 && SteadyClock::now() < deadline) std::this_thread::yield();
  ASSERT_NE(frozen, 0u);
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  const auto message = pattern(64 * KiB);
  Result<void> sent;
  int queued = 0;
  for (; queued < 1000 && sent; ++queued) {
    sent = server.on_core([&] { return server.port().send(frozen, message); });
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error(), Errc::would_block);
  EXPECT_GT(queued, 10);
  good_client_is_served();
  EXPECT_EQ(server.gone(), 0u);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  server.wait_for_gone(1);
}

}  // namespace
}  // namespace verbena::fabric::local
