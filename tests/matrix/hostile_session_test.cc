// Clients with a key, and so a session, that break every rule after that: on each fabric with all kinds of invalid
// messages and windows, on tcp with the frames below them, on shared memory with the shared structures.
#include <gtest/gtest.h>

#include "client/native/dial.h"
#include "client/native/handshake.h"
#include "fabric/local/test_support.h"
#include "fabric/ofi/hostile.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/test_support.h"
#include "hostile_world.h"
#include "native/wire/bodies.h"
#include "native/wire/message.h"

namespace verbena::matrix {
namespace {

namespace wire = native::wire;
namespace tcp = fabric::tcp;
using fabric::ofi::testing::NamedBytes;

client::NativeOptions session_options(const World& world, const std::string& provider) {
  const auto native = client::parse_host_port(world.server.native(), 9100).value();
  client::NativeOptions options;
  options.host = native.host;
  options.port = native.port;
  options.credentials = {server::TestServer::access_key, server::TestServer::secret_key, ""};
  options.providers = {provider};
  return options;
}

client::SessionTerms terms_of(const World& world, const std::string& provider) {
  auto agreed = client::request_session(session_options(world, provider));
  EXPECT_TRUE(agreed) << describe(agreed.error());
  return agreed ? std::move(*agreed) : client::SessionTerms{};
}

// The endpoints of `provider` in the terms.
std::vector<client::NativeEndpoint> endpoints_of(const client::SessionTerms& terms, const std::string& provider) {
  std::vector<client::NativeEndpoint> out;
  for (const auto& endpoint : terms.endpoints) {
    if (client::same_provider(provider, endpoint.provider)) out.push_back(endpoint);
  }
  EXPECT_FALSE(out.empty()) << "the server does not offer " << provider;
  return out;
}

// A session on one endpoint, controlled by an attacker.
class Liar {
 public:
  Liar(const client::NativeDial& dial, const client::NativeEndpoint& endpoint, const client::SessionTerms& terms)
      : session_(terms.session), keys_(wire::derive_stream(terms.master, endpoint.index)) {
    auto made = dial(endpoint, terms);
    EXPECT_TRUE(made) << describe(made.error());
    if (made) link_ = std::move(*made);
  }

  fabric::Link& link() { return *link_; }
  size_t replies() const { return replies_; }
  bool gone() const { return gone_; }

  // Sends until the transport takes it, or has closed the connection.
  void say(Bytes message) {
    for (const auto until = deadline_in(std::chrono::seconds(10)); !gone_ && SteadyClock::now() < until;) {
      const auto sent = link_->send(message);
      poll();
      if (sent || sent.error() != Errc::would_block) return;
    }
  }
  void say(uint8_t type, Bytes body, uint8_t flags = 0) {
    const auto message = seal(type, body, flags);
    say(message);
  }
  template <class T>
  void say(wire::Type type, const T& fields, uint8_t flags = 0) {
    std::vector<std::byte> body(8 * KiB);
    wire::Writer out(body);
    EXPECT_TRUE(encode(out, fields));
    say(static_cast<uint8_t>(type), Bytes(body).first(out.size()), flags);
  }
  std::vector<std::byte> seal(uint8_t type, Bytes body, uint8_t flags = 0) {
    std::vector<std::byte> message(wire::frame_size + body.size());
    std::ranges::copy(body, message.begin() + wire::header_size);
    const wire::Header header{.type = type,
                              .flags = flags,
                              .session = session_,
                              .sequence = ++sequence_,
                              .request = sequence_,
                              .body_length = static_cast<uint32_t>(body.size()),
                              .timeout_ms = 1000};
    wire::seal(keys_.to_server, header, message);
    return message;
  }
  void hello() {
    const std::string address = link_->address();
    const wire::Hello hello{.message_size_max = static_cast<uint32_t>(link_->message_size_max()), .address = address};
    say(wire::Type::hello, hello);
  }
  void poll() {
    if (!link_->poll([this](Bytes) { ++replies_; })) gone_ = true;
  }
  // Polls until there are `count` replies, or the connection is closed.
  bool hears(size_t count, std::chrono::seconds limit = std::chrono::seconds(30)) {
    const auto until = deadline_in(limit);
    while (replies_ < count && !gone_ && SteadyClock::now() < until) poll();
    return replies_ >= count;
  }

 private:
  std::unique_ptr<fabric::Link> link_;
  uint64_t session_;
  wire::StreamKeys keys_;
  uint64_t sequence_ = 0;
  size_t replies_ = 0;
  bool gone_ = false;
};

wire::Get get_into(const wire::Descriptor& window) {
  wire::Get get;
  get.bucket = "hostile";
  get.key = "k";
  get.window = window;
  return get;
}

void say_everything(Liar& liar) {
  const size_t longest = liar.link().message_size_max();
  for (uint64_t seed = 0; seed < 60; ++seed) liar.say(random_bytes(seed * seed * 7 % (longest + 1), seed));
  // Encrypted with another key, truncated, with false lengths.
  auto ping = liar.seal(static_cast<uint8_t>(wire::Type::ping), {});
  for (size_t size = 0; size < ping.size(); size += 3) liar.say(Bytes(ping).first(size));
  for (size_t at = 0; at < ping.size(); ++at) {
    auto changed = ping;
    changed[at] ^= std::byte{0x81};
    liar.say(changed);
  }
  liar.hello();
  ASSERT_TRUE(liar.hears(1));
  // Correctly encrypted nonsense.
  for (unsigned type = 0; type < 256; ++type) {
    if (type == static_cast<unsigned>(wire::Type::bye)) continue;
    liar.say(static_cast<uint8_t>(type), random_bytes(type % 150, type), static_cast<uint8_t>(type * 37));
  }
}

void lend_what_is_not(Liar& liar) {
  const wire::Descriptor lies[] = {{0, UINT64_MAX, 1},
                                   {UINT64_MAX - 4095, Bucket::object_size, 7},
                                   {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                   {0x1000, Bucket::object_size, 0x1234567},
                                   {0, 0, 0}};
  for (const auto& lie : lies) {
    const size_t heard = liar.replies();
    liar.say(wire::Type::get, get_into(lie), wire::flag_window);
    liar.hears(heard + 1, std::chrono::seconds(10));
    wire::Put put;
    put.bucket = "hostile";
    put.key = "new";
    put.window = lie;
    put.size = std::max<uint64_t>(lie.size, 1);  // an empty object needs no window
    const size_t heard_of_get = liar.replies();
    liar.say(wire::Type::put, put, wire::flag_window);
    liar.hears(heard_of_get + 1, std::chrono::seconds(10));
  }
}

TEST(HostileSession, MaySayAnythingOnEveryFabricAndCostsItselfAlone) {
  World world;
  Bucket bucket(world);
  for (const auto& provider : test_providers()) {
    SCOPED_TRACE(provider);
    const auto dial = client::make_native_dial(session_options(world, provider));
    // A session ends with its last stream, so each attacker has one of its own.
    for (const auto& endpoint : endpoints_of(terms_of(world, provider), provider)) {
      const auto terms = terms_of(world, provider);
      Liar liar(dial, endpoint, terms);
      say_everything(liar);
    }
    for (const auto& endpoint : endpoints_of(terms_of(world, provider), provider)) {
      const auto terms = terms_of(world, provider);
      Liar liar(dial, endpoint, terms);
      liar.hello();
      ASSERT_TRUE(liar.hears(1));
      lend_what_is_not(liar);
    }
    bucket.expect_service({Via::native, provider});
  }
  const auto stored = bucket.s3->head("hostile", "new", {});
  ASSERT_FALSE(stored) << "no window, no object";
  EXPECT_EQ(stored.error().code, ErrorCode::no_such_key);
  for (const auto& way : every_way()) bucket.expect_service(way);
}

bool tested(const std::string& provider) {
  const auto providers = test_providers();
  return std::ranges::find(providers, provider) != providers.end();
}

// --- tcp: frames -----------------------------------------------------------------------------------------------------

std::vector<NamedBytes> hostile_tcp_frames(size_t message_size_max) {
  std::vector<NamedBytes> all;
  const auto add = [&all](std::string name, const tcp::Frame& frame, size_t payload) {
    tcp::FrameHead head;
    const size_t size = encode(frame, head);
    std::vector<std::byte> bytes(head.begin(), head.begin() + static_cast<ptrdiff_t>(size));
    bytes.resize(size + payload, std::byte{0x5a});
    all.push_back({std::move(name), std::move(bytes)});
  };
  using enum tcp::FrameType;
  add("a message longer than may be", {.type = message, .payload = static_cast<uint32_t>(message_size_max + 1)}, 100);
  add("a message of 4 GiB", {.type = message, .payload = UINT32_MAX}, 100);
  add("data that nobody asked for", {.type = data, .payload = 64, .id = 1}, 64);
  add("data of 2^64", {.type = data, .payload = 64, .id = UINT64_MAX, .offset = UINT64_MAX}, 64);
  add("a refusal of nothing", {.type = refused, .id = 9, .offset = 1}, 0);
  add("a write, as servers say it", {.type = write, .payload = 64, .id = 1}, 64);
  add("a read, as servers say it", {.type = read, .id = 1, .size = 4096, .operation = 1}, 0);
  for (const unsigned type : {0u, 6u, 127u, 255u}) {
    std::vector<std::byte> bytes(64);
    bytes[0] = static_cast<std::byte>(type);
    bytes[4] = std::byte{56};
    all.push_back({"type " + std::to_string(type), std::move(bytes)});
  }
  all.push_back({"a head that says it is shorter than it is", *from_hex("0400000001000000ff")});
  all.push_back({"zeros", std::vector<std::byte>(4096)});
  all.push_back({"ones", std::vector<std::byte>(4096, std::byte{0xff})});
  all.push_back({"noise", random_bytes(100'000, 3)});
  for (const auto& [name, bytes] : fabric::ofi::testing::hostile_frames()) all.push_back({"libfabric: " + name, bytes});
  return all;
}

// Sends inside TLS if the connection uses it.
void say_on(tcp::RawSocket& socket, bool encrypt, Bytes bytes) {
  if (!encrypt) return fabric::ofi::testing::send_all(socket.fd(), bytes);
  tcp::Stream stream{Fd(::dup(socket.fd()))};
  ASSERT_TRUE(stream.start_tls(tcp::Side::client, socket.handshake->tls_key()));
  Result<tcp::HandshakeState> done = tcp::HandshakeState::needs_input;
  ASSERT_TRUE(eventually([&] {
    done = stream.handshake();
    return !done || *done == tcp::HandshakeState::complete;
  }));
  ASSERT_TRUE(done) << describe(done.error());
  for (const auto until = deadline_in(std::chrono::seconds(5)); !bytes.empty() && SteadyClock::now() < until;) {
    const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
    if (!stream.flush()) return;
    const auto taken = stream.write(std::span(&all, 1));
    if (!taken) return;
    bytes = bytes.subspan(*taken);
  }
  (void)stream.flush();
}

TEST(HostileSession, BreaksTheFramesOfTcpAndLosesItsConnection) {
  if (!tested("tcp")) GTEST_SKIP() << "tcp is not among the fabrics";
  for (const bool encrypt : {true, false}) {
    SCOPED_TRACE(encrypt ? "encrypted" : "not encrypted");
    Config config = test_config();
    config.rdma.tcp_encryption = encrypt;
    World world(config);
    Bucket bucket(world);
    const auto before = tcp::Counters::get().violations.value();
    const auto frames = hostile_tcp_frames(16 * KiB);
    for (const auto& [name, bytes] : frames) {
      SCOPED_TRACE(name);
      const auto terms = terms_of(world, "tcp");
      const auto endpoint = endpoints_of(terms, "tcp").front();
      tcp::RawSocket socket(endpoint.address);
      ASSERT_TRUE(socket.shake_hands(terms.session, {wire::derive_connection(terms.master, endpoint.index)}, encrypt));
      say_on(socket, encrypt, bytes);
      ::shutdown(socket.fd(), SHUT_WR);  // a truncated message stays truncated
      EXPECT_TRUE(socket.is_closed());
    }
    EXPECT_GE(tcp::Counters::get().violations.value() - before, 10u);
    for (const auto& way : every_way()) bucket.expect_service(way);
  }
}

// The connection was opened with one session's key; a HELLO of another session, even with its correct keys, is refused
// on it. On a connection of its own it is accepted.
TEST(HostileSession, OpensNoSecondSessionOnAConnectionOfTcp) {
  if (!tested("tcp")) GTEST_SKIP() << "tcp is not among the fabrics";
  World world;
  const auto dial = client::make_native_dial(session_options(world, "tcp"));
  const auto first = terms_of(world, "tcp");
  const auto second = terms_of(world, "tcp");
  const auto endpoint = endpoints_of(first, "tcp").front();
  Liar own(dial, endpoint, first);
  Liar other(dial, endpoint, second);
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  std::vector<std::byte> body(1 * KiB);
  wire::Writer out(body);
  ASSERT_TRUE(encode(out, hello));
  const auto of_second = other.seal(static_cast<uint8_t>(wire::Type::hello), Bytes(body).first(out.size()));
  own.say(of_second);
  EXPECT_FALSE(own.hears(1, std::chrono::seconds(1))) << "the other session was opened";
  own.hello();
  EXPECT_TRUE(own.hears(1));
  other.say(of_second);
  EXPECT_TRUE(other.hears(1));
}

// --- local: shared structures
// ------------------------------------------------------------------------------------------

TEST(HostileSession, ScribblesOverSharedMemoryAndIsThrownOut) {
  if (!tested("local")) GTEST_SKIP() << "local is not among the fabrics";
  World world;
  Bucket bucket(world);
  const auto terms = terms_of(world, "local");
  for (const auto& endpoint : endpoints_of(terms, "local")) {
    for (const uint64_t head : {uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 40, uint64_t{64}}) {
      auto raw = fabric::local::testing::RawClient::join(endpoint.address);
      raw.region.control().to_server.head.store(head);
      raw.ring();
      EXPECT_TRUE(raw.is_dropped()) << head;
    }
    auto noisy = fabric::local::testing::RawClient::join(endpoint.address);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      noisy.region.control().to_server.head.store(seed * 0x9e3779b97f4a7c15u);
      noisy.ring();
    }
  }
  for (const auto& way : every_way()) bucket.expect_service(way);
}

}  // namespace
}  // namespace verbena::matrix
