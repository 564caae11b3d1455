// Peers that violate the protocol. Whatever they do, the port continues to serve the others.
#include <signal.h>
#include <sys/wait.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "fabric/tcp/arrivals.h"
#include "fabric/tcp/link.h"
#include "fabric/tcp/test_support.h"

namespace verbena::fabric::tcp {
namespace {

const Options clear{.encrypt = false};

Options impatient(bool encrypt = false) {
  Options options;
  options.encrypt = encrypt;
  options.arrival_timeout = std::chrono::milliseconds(400);
  return options;
}

void expect_alive(TestServer& server, uint64_t session = 99) {
  TestClient client(server, session);
  ASSERT_TRUE(client.send(as_bytes("still there?")));
  EXPECT_TRUE(eventually([&] { return !client.received().empty(); }));
}

uint64_t refused() { return Counters::get().refused.value(); }
uint64_t violations() { return Counters::get().violations.value(); }

// --- Before authentication -------------------------------------------------------------------------------------------

// The input that ended the process when libfabric's tcp listened: a connection request, then a frame with an operation
// that does not exist.
TEST(TcpHostile, TheBytesThatEndedLibfabricsTcpEndOneConnection) {
  TestServer server(clear);
  for (const char* hex : {"03070000000008000000000000000010", "0306000000000800000000000000001000000000000000000000"}) {
    RawSocket socket(server);
    std::string request(40, '\0');
    request[0] = 3;
    socket.send(as_bytes(request));
    socket.send(*from_hex(hex));
    EXPECT_TRUE(socket.is_closed());
  }
  expect_alive(server);
}

TEST(TcpHostile, GarbageIsAnsweredByNothing) {
  TestServer server(clear);
  for (int i = 0; i < 50; ++i) {
    RawSocket socket(server);
    std::vector<std::byte> garbage(1 + static_cast<size_t>(i) * 37);
    fill_random(garbage);
    socket.send(garbage);
    if (garbage.size() < hello_size) {
      socket.reset();
    } else {
      EXPECT_TRUE(socket.is_closed());
    }
  }
  expect_alive(server);
}

TEST(TcpHostile, AWrongKeyIsRefused) {
  for (const bool encrypt : {false, true}) {
    TestServer server({.encrypt = encrypt});
    Dial dial = server.dial(1);
    dial.key.bytes[5] ^= std::byte{1};
    // The client notices first that the server's proof is not made with its key.
    EXPECT_EQ(connect(dial).error().code, Errc::access_denied);
    RawSocket socket(server);
    ASSERT_TRUE(socket.send(make_hello(1, encrypt)));
    Challenge challenge;
    ASSERT_TRUE(socket.receive(challenge));
    Proof proof{};
    ASSERT_TRUE(socket.send(proof));
    EXPECT_TRUE(socket.is_closed());
    expect_alive(server);
  }
}

TEST(TcpHostile, ASessionThatDoesNotExistIsAnsweredByNothing) {
  TestServer server(clear);
  RawSocket socket(server);
  ASSERT_TRUE(socket.send(make_hello(12345, false)));
  std::byte one[1];
  EXPECT_FALSE(socket.receive(one));
  EXPECT_FALSE(connect(server.dial(12345)));
  expect_alive(server);
}

TEST(TcpHostile, WhoeverAsksForLessOrMoreThanThisServersEncryptionIsRefused) {
  for (const bool encrypt : {false, true}) {
    TestServer server({.encrypt = encrypt});
    Dial dial = server.dial(1);
    dial.encrypt = !encrypt;
    EXPECT_FALSE(connect(dial));
    expect_alive(server);
  }
}

TEST(TcpHostile, ARecordedHandshakeOpensNothing) {
  TestServer server(clear);
  RawSocket first(server);
  ASSERT_TRUE(first.shake_hands(1));
  ASSERT_TRUE(first.send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
  ASSERT_TRUE(eventually([&] { return server.messages == 1; }));
  first.reset();
  ASSERT_TRUE(eventually([&] { return server.gone == 1; }));
  // The server's random bytes differ this time.
  RawSocket again(server);
  ASSERT_TRUE(again.send(first.hello));
  Challenge challenge;
  ASSERT_TRUE(again.receive(challenge));
  ASSERT_TRUE(again.send(first.handshake->proof()));
  EXPECT_TRUE(again.is_closed());
}

TEST(TcpHostile, TlsWithoutTheKeyIsRefusedThoughTheProofWasRight) {
  TestServer server(impatient(true));
  for (int i = 0; i < 20; ++i) {
    RawSocket socket(server);
    ASSERT_TRUE(socket.shake_hands(1 + static_cast<uint64_t>(i), true));
    std::vector<std::byte> garbage(500);
    fill_random(garbage);
    if (i % 2 == 0) garbage[0] = std::byte{22}, garbage[1] = std::byte{3}, garbage[2] = std::byte{1};
    socket.send(garbage);
    EXPECT_TRUE(socket.is_closed());
  }
  // A real TLS handshake under another key.
  RawSocket socket(server);
  ASSERT_TRUE(socket.shake_hands(50, true));
  Stream stream{Fd(::dup(socket.fd()))};
  Sha256 wrong = socket.handshake->tls_key();
  wrong[0] ^= std::byte{1};
  ASSERT_TRUE(stream.start_tls(Side::client, wrong));
  Result<HandshakeState> done = HandshakeState::needs_input;
  EXPECT_TRUE(eventually([&] {
    done = stream.handshake();
    return !done || *done == HandshakeState::complete;
  }));
  EXPECT_FALSE(done);
  expect_alive(server);
}

TEST(TcpHostile, SlowOnesAreHungUpOn) {
  for (const bool encrypt : {false, true}) {
    TestServer server(impatient(encrypt));
    RawSocket silent(server), slow(server), late(server);
    const Hello hello = make_hello(1, encrypt);
    slow.send(Bytes(hello).first(31));
    late.send(make_hello(2, encrypt));
    EXPECT_TRUE(silent.is_closed());
    EXPECT_TRUE(slow.is_closed());
    EXPECT_TRUE(late.is_closed());
    if (encrypt) {
      RawSocket no_tls(server);
      ASSERT_TRUE(no_tls.shake_hands(3, true));
      EXPECT_TRUE(no_tls.is_closed());
    }
    expect_alive(server);
  }
}

TEST(TcpHostile, AThousandHalfOpenConnectionsKeepNobodyOut) {
  Options patient = clear;
  patient.arrival_timeout = std::chrono::seconds(60);
  TestServer server(patient);
  const uint64_t before = refused();
  std::vector<std::unique_ptr<RawSocket>> half_open;
  for (int i = 0; i < 1000; ++i) {
    half_open.push_back(std::make_unique<RawSocket>(server));
    if (i % 2 == 0) half_open.back()->send(as_bytes("VTC"));
  }
  expect_alive(server);
  EXPECT_TRUE(eventually([&] { return refused() - before >= 1000 - patient.arrivals_per_address_max; }));
}

TEST(TcpHostile, ASecondConnectionOfASessionIsRefusedAndTheFirstGoesOn) {
  TestServer server(clear);
  TestClient client(server, 7);
  client.join(server);
  RawSocket copy(server);
  ASSERT_TRUE(copy.shake_hands(7));
  EXPECT_TRUE(copy.is_closed());
  client.join(server);
}

TEST(TcpArrivals, CountIPv6AddressesByTheirNetwork) {
  const auto counted = [](const char* text) { return counted_as(make_socket_address(text, 1)->raw); };
  EXPECT_EQ(counted("2001:db8::1"), counted("2001:db8::ffff:2"));
  EXPECT_NE(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
  EXPECT_EQ(counted("::ffff:192.0.2.1"), counted("192.0.2.1"));
  EXPECT_NE(counted("192.0.2.1"), counted("192.0.2.2"));
}

// --- With a key ------------------------------------------------------------------------------------------------------

class TcpHostileFrames : public testing::Test {
 protected:
  // A peer that sends this after its handshake loses its connection.
  void expect_cut(const std::function<void(RawSocket&)>& say) {
    const uint64_t before = violations();
    RawSocket socket(server_);
    ASSERT_TRUE(socket.shake_hands(1));
    say(socket);
    EXPECT_TRUE(socket.is_closed());
    EXPECT_EQ(violations(), before + 1);
    ASSERT_TRUE(
        eventually([&] { return server_.call([&] { return !server_.port->send(server_.last, as_bytes("x")); }); }));
    expect_alive(server_);
  }
  TestServer server_{clear};
};

TEST_F(TcpHostileFrames, OfNoTypeOrForTheOtherSideEndTheConnection) {
  for (const unsigned type : {0u, 2u, 3u, 6u, 255u}) {
    SCOPED_TRACE(type);
    expect_cut([&](RawSocket& socket) {
      std::array<std::byte, 64> bytes{};
      bytes[0] = static_cast<std::byte>(type);
      bytes[4] = std::byte{56};
      socket.send(bytes);
    });
  }
}

TEST_F(TcpHostileFrames, LongerThanAllowedEndTheConnectionBeforeAnythingIsMadeOfThem) {
  for (const uint32_t size : {16 * KiB + 1, size_t{0x7fffffff}, size_t{0xffffffff}}) {
    SCOPED_TRACE(size);
    expect_cut([&](RawSocket& socket) { socket.send_frame({.type = FrameType::message, .payload = size}); });
  }
}

TEST_F(TcpHostileFrames, DataThatNobodyAskedForEndsTheConnection) {
  expect_cut(
      [](RawSocket& socket) { socket.send_frame({.type = FrameType::data, .payload = 4, .id = 1}, as_bytes("data")); });
  expect_cut([](RawSocket& socket) { socket.send_frame({.type = FrameType::refused, .id = 1}); });
}

// The server requests `asked` bytes; the peer answers arbitrarily.
TEST_F(TcpHostileFrames, DataOutsideOfWhatWasAskedForEndsTheConnectionAndTheRead) {
  struct Lie {
    const char* what;
    uint64_t wrong_operation, offset;
    uint32_t payload;
  };
  for (const Lie lie : {Lie{"an operation that is not", 1, 0, 100}, Lie{"an offset beyond", 0, 1, 99},
                        Lie{"more than asked", 0, 0, 101}, Lie{"an offset that wraps", 0, UINT64_MAX, 1}}) {
    SCOPED_TRACE(lie.what);
    auto lease = server_.lease(4096, 1);
    const std::vector<std::byte> before(lease.bytes().begin(), lease.bytes().end());
    std::future<Result<void>> read;
    std::shared_ptr<Window> window;
    expect_cut([&](RawSocket& socket) {
      ASSERT_TRUE(socket.send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
      Frame frame;
      ASSERT_TRUE(socket.receive_frame(frame));  // its echo
      std::byte echo[2];
      ASSERT_TRUE(socket.receive(echo));
      window = server_.window({0, 4096, 77}, Access::server_reads);
      read = server_.spawn(window->read(lease.bytes().first(100), 0, deadline_in(std::chrono::seconds(20))));
      ASSERT_TRUE(socket.receive_frame(frame));
      EXPECT_EQ(frame.type, FrameType::read);
      EXPECT_EQ(frame.id, 77u);
      EXPECT_EQ(frame.size, 100u);
      const std::vector<std::byte> payload(lie.payload);
      socket.send_frame({.type = FrameType::data,
                         .payload = lie.payload,
                         .id = frame.operation + lie.wrong_operation,
                         .offset = lie.offset},
                        payload);
    });
    EXPECT_FALSE(read.get());
    EXPECT_TRUE(std::ranges::equal(before, lease.bytes()));
  }
}

TEST_F(TcpHostileFrames, CutOffAnywhereTheyLeaveNothingBehind) {
  std::vector<std::byte> whole;
  FrameHead head;
  const size_t size = encode({.type = FrameType::message, .payload = 100}, head);
  whole.insert(whole.end(), head.begin(), head.begin() + static_cast<ptrdiff_t>(size));
  whole.resize(whole.size() + 100);
  for (size_t length = 0; length < whole.size(); length += 9) {
    RawSocket socket(server_);
    ASSERT_TRUE(socket.shake_hands(1 + length % 90));
    socket.send(Bytes(whole).first(length));
    if (length % 2 == 0) socket.reset();
  }
  EXPECT_TRUE(eventually([] { return Counters::get().connections.value() == 0; }));
  EXPECT_EQ(server_.messages, 0);
  expect_alive(server_);
}

TEST_F(TcpHostileFrames, AResetInTheMidstOfATransferEndsIt) {
  RawSocket socket(server_);
  ASSERT_TRUE(socket.shake_hands(1));
  ASSERT_TRUE(socket.send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
  ASSERT_TRUE(eventually([&] { return server_.messages == 1; }));
  const auto lease = server_.lease(4 * MiB, 1);
  auto reading = server_.window({0, 4 * MiB, 1}, Access::server_reads);
  auto writing = server_.window({0, 64 * MiB, 2}, Access::server_writes);
  auto read = server_.spawn(reading->read(lease.bytes(), 0, deadline_in(std::chrono::seconds(20))));
  std::vector<std::future<Result<void>>> writes;
  for (int i = 0; i < 8; ++i) {
    writes.push_back(server_.spawn(writing->write(lease.bytes(), 0, deadline_in(std::chrono::seconds(20)))));
  }
  socket.send_frame({.type = FrameType::data, .payload = 1000, .id = 1}, Bytes(std::vector<std::byte>(500)));
  socket.reset();
  EXPECT_EQ(read.get().error().code, Errc::closed);
  writes.back().wait();
  expect_alive(server_);
}

// The held frames are sent first, and meet the closed connection.
TEST_F(TcpHostileFrames, AResetBehindFramesThatAreHeldEndsTheWriteThatSendsThem) {
  RawSocket socket(server_);
  ASSERT_TRUE(socket.shake_hands(1));
  ASSERT_TRUE(socket.send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
  ASSERT_TRUE(eventually([&] { return server_.messages == 1; }));
  const auto lease = server_.lease(1 * MiB, 1);
  auto writing = server_.window({0, 64 * MiB, 2}, Access::server_writes);
  auto write = server_.call([&] {
    EXPECT_TRUE(writing->write_now(Bytes(lease.bytes()).first(8), 0));
    socket.reset();
    return boost::asio::co_spawn(server_.core.io(),
                                 writing->write(lease.bytes(), 0, deadline_in(std::chrono::seconds(20))),
                                 boost::asio::use_future);
  });
  ASSERT_EQ(write.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(write.get().error().code, Errc::closed);
  expect_alive(server_);
}

// A process that stops in the middle: the kernel buffers what fits, and no more is read.
TEST_F(TcpHostileFrames, AStoppedProcessIsCutOffAtTheDeadline) {
  const std::string address = server_.port->address();
  const auto where = *parse_socket_address(address);
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, where.get(), where.size) != 0) ::_exit(1);
    const Hello hello = make_hello(9, false);
    Challenge challenge;
    if (::send(fd, hello.data(), hello.size(), 0) != ssize_t(hello.size()) ||
        ::recv(fd, challenge.data(), challenge.size(), MSG_WAITALL) != ssize_t(challenge.size())) {
      ::_exit(1);
    }
    const Proof proof = Handshake(key_of(9), hello, Bytes(challenge).first(random_size)).proof();
    FrameHead head;
    const size_t size = encode({.type = FrameType::message, .payload = 1}, head);
    ::send(fd, proof.data(), proof.size(), 0);
    ::send(fd, head.data(), size, 0);
    ::send(fd, "x", 1, 0);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  ASSERT_TRUE(eventually([&] { return server_.messages == 1; }));
  const auto lease = server_.lease(4 * MiB, 1);
  auto window = server_.window({0, 64 * MiB, 2}, Access::server_writes);
  std::vector<std::future<Result<void>>> writes;
  for (int i = 0; i < 8; ++i) {
    writes.push_back(server_.spawn(window->write(lease.bytes(), 0, deadline_in(std::chrono::seconds(1)))));
  }
  EXPECT_EQ(writes.back().get().error().code, Errc::timed_out);
  expect_alive(server_);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// --- A hostile server ------------------------------------------------------------------------------------------------

// A link whose other end belongs to the test.
struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    server = Fd(fds[0]);
    link = std::make_unique<TcpLink>(Stream(Fd(fds[1])), 16 * KiB);
    EXPECT_TRUE(link->open());
  }
  void say(const Frame& frame, size_t payload) {
    FrameHead head;
    const size_t size = encode(frame, head);
    EXPECT_EQ(::send(server.get(), head.data(), size, MSG_NOSIGNAL), ssize_t(size));
    const std::vector<std::byte> bytes(payload, std::byte{0xab});
    EXPECT_EQ(::send(server.get(), bytes.data(), payload, MSG_NOSIGNAL), ssize_t(payload));
  }
  Result<size_t> poll() {
    return link->poll([](Bytes) {});
  }
  Fd server;
  std::unique_ptr<TcpLink> link;
};

TEST(TcpHostileServer, WritesNothingOutsideOfWhatIsLent) {
  Pair pair;
  std::vector<std::byte> memory(4096), untouched(4096);
  const auto lent = *pair.link->lend(MutableBytes(memory).subspan(1024, 1024), Access::server_writes);
  const auto reads = *pair.link->lend(MutableBytes(memory).first(1024), Access::server_reads);
  const uint64_t key = lent->descriptor().key;
  const auto write = [&](uint64_t window, uint64_t offset, uint32_t size) {
    pair.say({.type = FrameType::write, .payload = size, .id = window, .offset = offset}, size);
    ASSERT_TRUE(pair.poll());
    EXPECT_EQ(memory, untouched);
  };
  write(key + 1, 0, 16);
  write(key + (uint64_t{1} << 32), 0, 16);
  write(UINT64_MAX, 0, 16);
  write(key, 1023, 2);
  write(key, 1024, 1);
  write(key, UINT64_MAX, 16);
  write(key, 0, 1025);
  write(reads->descriptor().key, 0, 16);
  pair.say({.type = FrameType::write, .payload = 1024, .id = key}, 1024);
  ASSERT_TRUE(pair.poll());
  std::fill_n(untouched.begin() + 1024, 1024, std::byte{0xab});
  EXPECT_EQ(memory, untouched);
}

TEST(TcpHostileServer, ReadsNothingOutsideOfWhatIsLent) {
  Pair pair;
  std::vector<std::byte> memory(1024, std::byte{0x55});
  const auto lent = *pair.link->lend(memory, Access::server_reads);
  const auto writes = *pair.link->lend(memory, Access::server_writes);
  const uint64_t key = lent->descriptor().key;
  const auto answer = [&](uint64_t window, uint64_t offset, uint64_t size) {
    pair.say({.type = FrameType::read, .id = window, .offset = offset, .size = size, .operation = 3}, 0);
    EXPECT_TRUE(pair.poll());
    std::byte said[4096];
    const ssize_t got = ::recv(pair.server.get(), said, sizeof said, MSG_DONTWAIT);
    return got > 0 ? std::to_integer<int>(said[0]) : -1;
  };
  constexpr int data = 4, no = 5;
  EXPECT_EQ(answer(key, 0, 1024), data);
  EXPECT_EQ(answer(key, 0, 1025), no);
  EXPECT_EQ(answer(key, 1024, 1), no);
  EXPECT_EQ(answer(key, UINT64_MAX, 2), no);
  EXPECT_EQ(answer(key + 1, 0, 1), no);
  EXPECT_EQ(answer(writes->descriptor().key, 0, 1), no);
}

TEST(TcpHostileServer, FramesThatAreNoneEndTheLink) {
  for (const Frame& frame :
       {Frame{.type = FrameType::data, .payload = 8}, Frame{.type = FrameType::refused},
        Frame{.type = FrameType::message, .payload = 16 * KiB + 1},
        Frame{.type = FrameType::write, .payload = payload_size_max + 1}, Frame{.type = FrameType::read}}) {
    Pair pair;
    pair.say(frame, 8);
    EXPECT_FALSE(pair.poll());
    EXPECT_EQ(pair.link->send(as_bytes("x")).error().code, Errc::closed);
  }
}

TEST(TcpHostileServer, AFloodOfReadsEndsTheLink) {
  Pair pair;
  std::vector<std::byte> memory(1024);
  const auto lent = *pair.link->lend(memory, Access::server_reads);
  bool open = true;
  for (int i = 0; open && i < 100'000; ++i) {
    FrameHead head;
    const size_t size =
        encode({.type = FrameType::read, .id = lent->descriptor().key, .size = 1024, .operation = 1}, head);
    ::send(pair.server.get(), head.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
    open = pair.poll().has_value();
  }
  EXPECT_FALSE(open);
}

TEST(TcpHostileServer, WithoutTheKeyLearnsNothing) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  std::thread impostor([&] {
    const Fd peer(::accept(listener.get(), nullptr, nullptr));
    std::byte said[challenge_size];
    ::recv(peer.get(), said, hello_size, MSG_WAITALL);
    fill_random(said);
    ::send(peer.get(), said, sizeof said, MSG_NOSIGNAL);
    EXPECT_LE(::recv(peer.get(), said, 1, 0), 0) << "the client goes without having shown anything";
  });
  Dial dial;
  dial.address = std::string(reinterpret_cast<const char*>(&address), sizeof address);
  dial.session = 1;
  dial.key = key_of(1);
  EXPECT_EQ(connect(dial).error().code, Errc::access_denied);
  impostor.join();
}

}  // namespace
}  // namespace verbena::fabric::tcp
