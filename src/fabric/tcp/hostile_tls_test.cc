// Peers that have a session's key and violate TLS, or use it at others' cost.
#include <fcntl.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "fabric/tcp/connection.h"
#include "fabric/tcp/test_support.h"

namespace verbena::fabric::tcp {
namespace {

// --- OpenSSL peers that violate the protocol -------------------------------------------------------------------------

int give_key(SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* name_size, SSL_SESSION** session) {
  static constexpr std::string_view identity = "verbena-tcp-1";
  const auto& key = *static_cast<const Sha256*>(SSL_get_app_data(ssl));
  const unsigned char suite[2] = {0x13, 0x01};
  *name = reinterpret_cast<const unsigned char*>(identity.data());
  *name_size = identity.size();
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, suite));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  return 1;
}

class TlsPeer {
 public:
  explicit TlsPeer(const TestServer& server, uint64_t session, const char* groups = nullptr) : socket_(server) {
    ::signal(SIGPIPE, SIG_IGN);  // of OpenSSL's writes to a closed connection
    EXPECT_TRUE(socket_.shake_hands(session, true));
    key_ = socket_.handshake->tls_key();
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_.get(), "TLS_AES_128_GCM_SHA256");
    if (groups != nullptr) {
      EXPECT_EQ(SSL_CTX_set1_groups_list(context_.get(), groups), 1);
    }
    SSL_CTX_set_psk_use_session_callback(context_.get(), give_key);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_app_data(ssl_.get(), &key_);
    SSL_set_fd(ssl_.get(), socket_.fd());
  }
  bool connect() { return SSL_connect(ssl_.get()) == 1; }
  bool write(Bytes bytes) { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0; }
  bool send(const Frame& frame, Bytes payload) {
    FrameHead head;
    const size_t size = encode(frame, head);
    return write(Bytes(head).first(size)) && write(payload);
  }
  bool say(std::string_view text) {
    return send({.type = FrameType::message, .payload = static_cast<uint32_t>(text.size())}, as_bytes(text));
  }
  // Reads the next message, of known length.
  std::string hear(size_t size) {
    std::string said(prefix_size + size, '\0');
    for (size_t at = 0; at < said.size();) {
      const int got = SSL_read(ssl_.get(), said.data() + at, static_cast<int>(said.size() - at));
      if (got <= 0) return {};
      at += static_cast<size_t>(got);
    }
    return said.substr(prefix_size);
  }
  // False: the server has hung up.
  bool update_keys(bool both) {
    SSL_key_update(ssl_.get(), both ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
    return SSL_do_handshake(ssl_.get()) == 1;
  }
  RawSocket& socket() { return socket_; }

 private:
  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  RawSocket socket_;
  Sha256 key_;
  std::unique_ptr<SSL_CTX, ContextFree> context_;
  SslPtr ssl_;
};

uint64_t rules_broken() { return Counters::get().violations.value(); }

// A long-standing connection gets the echo of its message.
void expect_served(TestClient& client, TestServer& server) {
  const size_t before = client.received().size();
  client.join(server);
  EXPECT_TRUE(eventually([&] { return client.received().size() > before; }));
  EXPECT_FALSE(client.closed());
}

// --- TLS's automatic answers -----------------------------------------------------------------------------------------

// The alert was sealed for one connection, and sent before the next sealed bytes: to another one.
TEST(TcpHostileTls, TheAlertForABrokenRecordGoesToNobodyElse) {
  TestServer server;
  TestClient honest(server, 1);
  expect_served(honest, server);
  for (uint64_t session = 2; session < 6; ++session) {
    const uint64_t before = rules_broken();
    TlsPeer peer(server, session);
    ASSERT_TRUE(peer.connect());
    ASSERT_TRUE(peer.say("hi"));
    EXPECT_EQ(peer.hear(2), "hi");
    ASSERT_TRUE(peer.socket().send(*from_hex("1703030020" + std::string(64, 'a'))));
    EXPECT_TRUE(peer.socket().is_closed());
    EXPECT_EQ(rules_broken(), before + 1);
    expect_served(honest, server);
  }
}

TEST(TcpHostileTls, TheAnswerToNewKeysGoesToNobodyElse) {
  TestServer server;
  TestClient honest(server, 1);
  expect_served(honest, server);
  TlsPeer peer(server, 2);
  ASSERT_TRUE(peer.connect());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(peer.update_keys(true));
    ASSERT_TRUE(peer.say("with new keys"));
    EXPECT_EQ(peer.hear(13), "with new keys");
    expect_served(honest, server);
  }
}

TEST(TcpHostileTls, NewKeysWithoutEndCostTheirSenderHisConnection) {
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    const uint64_t before = rules_broken();
    TestServer server;
    TlsPeer peer(server, 2);
    ASSERT_TRUE(peer.connect());
    const timeval limit{20, 0};  // for a server that no longer reads
    ::setsockopt(peer.socket().fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int updates = 0;
    while (updates < 100'000 && peer.update_keys(both)) ++updates;
    EXPECT_LT(updates, 100'000);
    EXPECT_EQ(rules_broken(), before + 1);
    EXPECT_TRUE(peer.socket().is_closed());
    TestClient other(server, 1);
    expect_served(other, server);
  }
}

TEST(TcpHostileTls, NewKeysNowAndThenAreFine) {
  TestServer server;
  TlsPeer peer(server, 2);
  ASSERT_TRUE(peer.connect());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(peer.update_keys(round % 2 == 0)) << round;
    for (uint64_t i = 0; i <= records_per_own_message / 2; ++i) ASSERT_TRUE(peer.say("x"));  // two records each
    for (uint64_t i = 0; i <= records_per_own_message / 2; ++i) ASSERT_EQ(peer.hear(1), "x") << round;
  }
}

// --- The cost of handshakes ------------------------------------------------------------------------------------------

TEST(TcpHostileTls, NoGroupThatCostsMuchIsTaken) {
  TestServer server;
  for (const char* groups : {"ffdhe8192", "ffdhe2048", "P-521"}) {
    SCOPED_TRACE(groups);
    TlsPeer peer(server, 2, groups);
    EXPECT_FALSE(peer.connect());
    EXPECT_TRUE(peer.socket().is_closed());
  }
  ERR_clear_error();
  TlsPeer peer(server, 3, "P-521:P-256");  // requires another round, with an accepted group
  ASSERT_TRUE(peer.connect());
  ASSERT_TRUE(peer.say("hi"));
  EXPECT_EQ(peer.hear(2), "hi");
}

TEST(TcpHostileTls, AHandshakeWithoutEndIsCutOffByItsLength) {
  Options patient;
  patient.arrival_timeout = std::chrono::seconds(60);
  TestServer server(patient);
  RawSocket socket(server);
  ASSERT_TRUE(socket.shake_hands(1, true));
  // A ClientHello of 128 KiB less a byte, in records of 1 KiB.
  std::vector<std::byte> record(5 + 1024);
  std::ranges::copy(*from_hex("1603010400"), record.begin());
  std::ranges::copy(*from_hex("0101ffff0303"), record.begin() + 5);
  size_t sent = 0;
  while (sent < 100 * KiB && socket.send(record)) {
    if (sent == 0) std::fill(record.begin() + 5, record.end(), std::byte{0x11});
    sent += 1024;
  }
  EXPECT_TRUE(socket.is_closed());
}

// Records, between two turns of the core, how many messages were processed.
class MessageWatcher final : public Pollable {
 public:
  explicit MessageWatcher(const TestServer& server) : server_(server) {}
  size_t poll() override {
    most = std::max(most, server_.messages - seen_);
    seen_ = server_.messages;
    return 0;
  }
  bool busy() const override { return false; }
  bool arm() override { return true; }
  void disarm() override {}
  int most = 0;

 private:
  const TestServer& server_;
  int seen_ = 0;
};

// Seven thousand fit into one read, and each may be a request.
TEST(TcpHostile, MessagesThatComeTogetherTakeTurnsWithEverythingElse) {
  TestServer server({.encrypt = false});
  server.echo = false;
  MessageWatcher watcher(server);
  server.call([&] {
    server.core.add(&watcher);
    return true;
  });
  constexpr int peers = 10, each = 5000;
  std::vector<std::unique_ptr<RawSocket>> sockets;
  std::string all;
  for (int i = 0; i < each; ++i) all += std::string("\x01\0\0\0\x01\0\0\0x", 9);
  for (int i = 0; i < peers; ++i) {
    sockets.push_back(std::make_unique<RawSocket>(server));
    ASSERT_TRUE(sockets.back()->shake_hands(1 + static_cast<uint64_t>(i)));
  }
  for (const auto& socket : sockets) ASSERT_TRUE(socket->send(as_bytes(all)));
  EXPECT_TRUE(eventually([&] { return server.messages == peers * each; })) << server.messages;
  server.call([&] {
    server.core.remove(&watcher);
    return true;
  });
  EXPECT_LE(watcher.most, 600);
}

// Records, between two turns of the core, how many were answered.
class Watcher final : public Pollable {
 public:
  explicit Watcher(const std::vector<int>& fds) : fds_(fds) {}
  size_t poll() override {
    size_t now = 0;
    for (const int fd : fds_) {
      int waiting = 0;
      now += ::ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0;
    }
    most = std::max(most, now - answered);
    answered = now;
    return 0;
  }
  bool busy() const override { return false; }
  bool arm() override { return true; }
  void disarm() override {}

  size_t most = 0, answered = 0;

 private:
  const std::vector<int> fds_;
};

TEST(TcpHostileTls, HandshakesThatComeTogetherTakeTurns) {
  Options patient;
  patient.arrival_timeout = std::chrono::seconds(60);
  TestServer server(patient);
  std::vector<std::unique_ptr<TlsPeer>> peers;
  std::vector<int> fds;
  for (uint64_t session = 1; session <= 60; ++session) {
    peers.push_back(std::make_unique<TlsPeer>(server, session));
    fds.push_back(peers.back()->socket().fd());
  }
  Watcher watcher(fds);
  server.call([&] {
    // All of them begin while the core is busy.
    for (const auto& peer : peers) {
      ::fcntl(peer->socket().fd(), F_SETFL, O_NONBLOCK);
      EXPECT_FALSE(peer->connect());
    }
    server.core.add(&watcher);
    return true;
  });
  EXPECT_TRUE(eventually([&] { return server.call([&] { return watcher.answered == peers.size(); }); }));
  server.call([&] {
    server.core.remove(&watcher);
    return true;
  });
  EXPECT_LE(watcher.most, 4u);
}

Options few_arrivals() {
  Options few;
  few.encrypt = false;
  few.arrivals_max = few.arrivals_per_address_max = 8;
  few.arrival_timeout = std::chrono::seconds(60);
  return few;
}

// A client that has named its session and received the challenge.
class OneWhoArrives {
 public:
  explicit OneWhoArrives(TestServer& server) : socket_(server) { say_hello(); }
  void expect_let_in() {
    ASSERT_TRUE(socket_.send(Handshake(key_of(1), socket_.hello, Bytes(challenge_).first(random_size)).proof()));
    ASSERT_TRUE(socket_.send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
    Frame echo;
    EXPECT_TRUE(socket_.receive_frame(echo));
  }

 private:
  void say_hello() {
    socket_.hello = make_hello(1, false);
    ASSERT_TRUE(socket_.send(socket_.hello));
    ASSERT_TRUE(socket_.receive(challenge_));
  }

  RawSocket socket_;
  Challenge challenge_{};
};

TEST(TcpHostile, StrangersWithoutEndDoNotPushOutWhoNamedASession) {
  TestServer server(few_arrivals());
  OneWhoArrives honest(server);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<std::unique_ptr<RawSocket>> nameless;
  for (uint64_t i = 0; i < 100; ++i) {
    nameless.push_back(std::make_unique<RawSocket>(server));
    if (i % 3 == 0) nameless.back()->send(make_hello(1000 + i, false));  // a session that does not exist
    if (i % 3 == 1) nameless.back()->send(as_bytes("VTC"));
  }
  for (size_t i = 0; i + 12 < nameless.size(); ++i) EXPECT_TRUE(nameless[i]->is_closed());
  honest.expect_let_in();
}

TEST(TcpHostile, WhoNamesOneSessionAgainAndAgainTakesHisOwnPlaces) {
  TestServer server(few_arrivals());
  OneWhoArrives honest(server);
  ASSERT_FALSE(HasFatalFailure());
  std::vector<std::unique_ptr<RawSocket>> greedy;
  for (int i = 0; i < 50; ++i) {
    greedy.push_back(std::make_unique<RawSocket>(server));
    ASSERT_TRUE(greedy.back()->send(make_hello(2, false)));
    Challenge other;
    ASSERT_TRUE(greedy.back()->receive(other));
  }
  honest.expect_let_in();
}

// --- Peers that do not read ------------------------------------------------------------------------------------------

// For each peer a quarter of a MiB was sealed, or copied, ahead of its socket.
TEST(TcpHostile, PeersThatTakeNothingHoldLittleTogether) {
  for (const bool encrypt : {false, true}) {
    SCOPED_TRACE(encrypt);
    Options options;
    options.encrypt = encrypt;
    options.queued_max = 1 * MiB;
    TestServer server(options);
    server.echo = false;
    std::vector<PeerId> ids;
    server.on_message = [&](PeerId from, Bytes) { ids.push_back(from); };
    std::vector<std::unique_ptr<TlsPeer>> sealed;
    std::vector<std::unique_ptr<RawSocket>> plain;
    constexpr int peers = 12;
    for (int i = 0; i < peers; ++i) {
      const auto session = static_cast<uint64_t>(1 + i);
      if (encrypt) {
        sealed.push_back(std::make_unique<TlsPeer>(server, session));
        ASSERT_TRUE(sealed.back()->connect());
        ASSERT_TRUE(sealed.back()->say("hi"));
      } else {
        plain.push_back(std::make_unique<RawSocket>(server));
        ASSERT_TRUE(plain.back()->shake_hands(session));
        ASSERT_TRUE(plain.back()->send_frame({.type = FrameType::message, .payload = 2}, as_bytes("hi")));
      }
      ASSERT_TRUE(eventually([&] { return server.messages == i + 1; }));
    }
    const auto lease = server.lease(4 * MiB, 1);
    int64_t most = 0;
    std::vector<std::unique_ptr<Window>> windows;
    std::vector<std::future<Result<void>>> writes;
    for (const PeerId id : server.call([&] { return ids; })) {
      windows.push_back(
          *server.call([&] { return server.port->open_window(id, {0, 64 * MiB, 1}, Access::server_writes); }));
      server.call([&] {
        // Until its socket is full.
        for (int i = 0; i < 100 && windows.back()->immediate_size_max() != 0; ++i) {
          EXPECT_TRUE(windows.back()->write_now(lease.bytes().first(256 * KiB), 0));
        }
        return true;
      });
      writes.push_back(server.spawn(windows.back()->write(lease.bytes(), 0, deadline_in(std::chrono::seconds(60)))));
      most = std::max(most, server.call([&] { return Counters::get().queued.value(); }));
    }
    EXPECT_GT(most, 0);
    EXPECT_LT(most, static_cast<int64_t>(options.queued_max));
    TestClient honest(server, 99);
    server.echo = true;
    expect_served(honest, server);
    sealed.clear();
    plain.clear();
    for (auto& write : writes) write.wait();  // writes end that the kernel has not taken completely
    server.call([&] {
      windows.clear();
      return true;
    });
  }
}

// The unsealed rest waited for an event of the socket, which had room all the time.
TEST(TcpTls, AMessageThatIsSealedInPiecesGoesOutWhole) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  auto shared = std::make_shared<PortShared>();
  shared->options.queued_max = 0;  // memory is short
  shared->scratch.resize(FrameReader::scratch_size(shared->options.message_size_max));
  auto connection = std::make_shared<Connection>(shared, 1, 1, Fd(fds[0]));
  Stream peer{Fd(fds[1])};
  Sha256 key;
  key.fill(std::byte{3});
  ASSERT_TRUE(connection->start_tls(key));
  ASSERT_TRUE(peer.start_tls(Side::client, key));
  bool done = false;
  for (int i = 0; i < 10 && !(done && connection->ready()); ++i) {
    if (!done) done = peer.handshake().value() == HandshakeState::complete;
    connection->progress();
  }
  ASSERT_TRUE(connection->ready());
  const std::vector<std::byte> message(16 * KiB, std::byte{0x31});
  ASSERT_TRUE(connection->send(message, {}));
  EXPECT_FALSE(connection->busy());
  std::vector<std::byte> heard(64 * KiB);
  const iovec place{heard.data(), heard.size()};
  EXPECT_EQ(peer.read(std::span(&place, 1)).value().size, prefix_size + message.size());
  connection->drop();
}

// --- Records ---------------------------------------------------------------------------------------------------------

struct TlsPair {
  TlsPair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    server.emplace(Fd(fds[0]));
    client.emplace(Fd(fds[1]));
    Sha256 key;
    key.fill(std::byte{7});
    EXPECT_TRUE(server->start_tls(Side::server, key));
    EXPECT_TRUE(client->start_tls(Side::client, key));
    bool at_server = false, at_client = false;
    for (int i = 0; i < 10 && !(at_server && at_client); ++i) {
      if (!at_client) at_client = client->handshake().value() == HandshakeState::complete;
      if (!at_server) at_server = server->handshake().value() == HandshakeState::complete;
    }
    EXPECT_TRUE(at_server && at_client);
  }
  std::optional<Stream> server, client;
};

// A megabyte of them was opened in one go, while all others on the core waited.
TEST(TcpHostileTls, RecordsOfOneByteAreOpenedSoManyAtATime) {
  TlsPair pair;
  const std::byte one{0x42};
  constexpr size_t all = 200;
  for (size_t i = 0; i < all; ++i) {
    const iovec from{const_cast<std::byte*>(&one), 1};
    ASSERT_EQ(pair.client->write(std::span(&from, 1)).value(), 1u);
  }
  ASSERT_FALSE(pair.client->backlogged());
  std::vector<std::byte> into(64 * KiB);
  const iovec place{into.data(), into.size()};
  size_t total = 0;
  while (total < all) {
    const auto got = pair.server->read(std::span(&place, 1));
    ASSERT_TRUE(got);
    ASSERT_LE(got->size, records_at_once_max);
    total += got->size;
    ASSERT_EQ(got->drained, total == all) << "there is more, and the socket does not say so";
  }
  EXPECT_EQ(pair.server->read(std::span(&place, 1)).value().size, 0u);
  EXPECT_TRUE(pair.server->read(std::span(&place, 1)).value().drained);
}

TEST(TcpTls, TakesNewKeysBeforeTheOldOnesAreWornOut) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const Fd here(fds[0]), there(fds[1]);
  Sha256 key;
  key.fill(std::byte{9});
  auto server = std::move(*Tls::make(Side::server, here.get(), key));
  auto client = std::move(*Tls::make(Side::client, there.get(), key));
  const auto send = [](int fd) {
    const Bytes bytes = cipher_text();
    const size_t size = bytes.size();
    EXPECT_EQ(::send(fd, bytes.data(), size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    clear_cipher_text();
    return size;
  };
  bool at_client = false, at_server = false;
  for (int i = 0; i < 10 && !(at_server && at_client); ++i) {
    if (!at_client) at_client = client->handshake().value() == HandshakeState::complete;
    send(there.get());
    if (!at_server) at_server = server->handshake().value() == HandshakeState::complete;
    send(here.get());
  }
  ASSERT_TRUE(at_client && at_server);
  client->records_per_key = 3;
  std::byte said[16], heard[16];
  std::ranges::fill(said, std::byte{5});
  std::vector<size_t> sizes;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(client->seal(said));
    sizes.push_back(send(there.get()));
    const auto opened = server->open(heard);
    ASSERT_TRUE(opened) << describe(opened.error());
    EXPECT_EQ(opened->size, sizeof said);
    EXPECT_TRUE(cipher_text().empty()) << "a peer that sends new keys requests none";
  }
  // Every fourth is longer by the key update message.
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(sizes[i] > sizes[0], i != 0 && i % 3 == 0) << i;
}

}  // namespace
}  // namespace verbena::fabric::tcp
