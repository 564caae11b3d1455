// Unauthenticated clients at every listener of a whole server, and owners of tokens that answer the server's call with
// anything. The server is in this process: a crash of it ends the test.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/metrics.h"
#include "base/test_core.h"
#include "fabric/ofi/hostile.h"
#include "fabric/ofi/ofi.h"
#include "fabric/tcp/handshake.h"
#include "hostile_world.h"
#include "rdma/token.h"

namespace verbena::matrix {
namespace {

namespace hostile = fabric::ofi::testing;

struct Listeners {
  std::map<uint16_t, std::string> ports;  // names as a sockaddr
  std::vector<std::string> sockets;       // paths
};

// A socket keeps reporting the name that it was bound to, its temporary one before it was ready.
std::string path_of(const sockaddr_un& name) {
  std::string path = name.sun_path;
  constexpr std::string_view until_ready = ".new";
  if (path.ends_with(until_ready)) path.resize(path.size() - until_ready.size());
  return path;
}

// All listeners of this process.
Listeners listeners() {
  Listeners found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) continue;
    if (name.ss_family == AF_INET) {
      found.ports.emplace(ntohs(reinterpret_cast<sockaddr_in&>(name).sin_port),
                          std::string(reinterpret_cast<const char*>(&name), sizeof(sockaddr_in)));
    } else if (name.ss_family == AF_UNIX) {
      found.sockets.push_back(path_of(reinterpret_cast<sockaddr_un&>(name)));
    }
  }
  return found;
}

// First bytes of an unauthenticated client: libfabric's hellos, ours without a key, and noise.
std::vector<hostile::NamedBytes> openings() {
  auto all = hostile::hostile_hellos(true);
  const auto ours = fabric::tcp::make_hello(7, true);
  all.push_back({"a hello of fabric/tcp", {ours.begin(), ours.end()}});
  all.push_back({"half of it", {ours.begin(), ours.begin() + 15}});
  std::vector<std::byte> proof(ours.begin(), ours.end());
  proof.resize(ours.size() + fabric::tcp::proof_size);
  all.push_back({"it, and a proof of nothing", proof});
  all.push_back({"noise", random_bytes(3000, 1)});
  return all;
}

void attack_ports(const std::map<uint16_t, std::string>& ports) {
  for (const auto& [port, name] : ports) {
    SCOPED_TRACE("port " + std::to_string(port));
    for (const auto& [what, bytes] : openings()) {
      const Fd fd = hostile::connect_to(name, 50);
      if (fd) hostile::send_all(fd.get(), bytes);
    }
    for (const auto& [what, bytes] : hostile::hostile_frames()) {
      const Fd fd = hostile::connect_to(name, 50);
      if (!fd) break;  // it drops packets, and would drop the others
      hostile::send_all(fd.get(), hostile::hello(true));
      hostile::drain(fd.get(), 5);
      hostile::send_all(fd.get(), bytes);
      hostile::drain(fd.get(), 5);
    }
  }
}

void attack_sockets(const std::vector<std::string>& sockets) {
  for (const auto& path : sockets) {
    SCOPED_TRACE(path);
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    for (const size_t size : {size_t{1}, size_t{32}, size_t{64}, size_t{4096}}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0) << errno;
        const auto noise = random_bytes(size, seed);
        hostile::send_all(fd.get(), noise);
        hostile::send_all(fd.get(), noise);
      }
    }
  }
}

std::string token_of(std::string_view endpoint_name) {
  return rdma::format_token({.form = rdma::TokenForm::ofi1,
                             .provider = "tcp",
                             .endpoint_name = std::string(endpoint_name),
                             .base = 0,
                             .size = Bucket::object_size,
                             .key = 1});
}

TEST(HostilePeer, EndsNoServerByWhatItSaysToThatOnWhichItListens) {
  const auto before = listeners();
  // Upstream's libfabric would crash on it over its tcp, which is therefore closed unless it is named.
  const bool by_tcp = token_provider() != "tcp" || fabric::ofi::checks_peers();
  Config config = test_config();
  std::optional<World> world;
  if (by_tcp) {
    world.emplace(std::move(config));
  } else {
    config.rdma.token_provider = Config().rdma.token_provider;
    world.emplace(std::move(config), server::TestServer::AsConfigured());
  }
  ASSERT_TRUE(world->server.running());
  Bucket bucket(*world);
  auto opened = listeners();
  for (const auto& [port, name] : before.ports) opened.ports.erase(port);
  EXPECT_GE(opened.ports.size(), 3u) << "S3, native sessions, admin";
  const auto providers = test_providers();
  if (std::ranges::find(providers, "local") != providers.end()) {
    EXPECT_FALSE(opened.sockets.empty()) << "local";
  }
  attack_ports(opened.ports);
  attack_sockets(opened.sockets);
  for (const auto& way : every_way()) {
    if (by_tcp || way.via != Via::token) bucket.expect_service(way);
  }
}

TEST(HostilePeer, IsCalledByNoServerThatWasNotToldToServeTokensOverTcp) {
  World world(Config{}, server::TestServer::AsConfigured());
  ASSERT_TRUE(world.server.running());
  Bucket bucket(world);
  ASSERT_NE(world.server.server().endpoints().tokens, "tcp");
  hostile::HostileListener listener;
  const auto declined = bucket.get(token_of(listener.name()));
  ASSERT_TRUE(declined) << declined.error().message;
  EXPECT_EQ(declined->header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(declined->header("x-verbena-rdma-declined"), "token: its provider is not open here (rdma.token_provider)");
  EXPECT_EQ(bucket.body, bucket.object);
  EXPECT_FALSE(listener.accept(100)) << "it was dialled";
}

class TokensOverTcp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fabric::ofi::checks_peers()) GTEST_SKIP() << "this libfabric trusts its peers: any of these ends the process";
    if (token_provider() != "tcp") GTEST_SKIP() << "the answers are those of tcp";
  }
  void start(Config config) {
    config.rdma.operation_timeout = std::chrono::milliseconds(200);
    world_.emplace(std::move(config));
    ASSERT_TRUE(world_->server.running());
    bucket_.emplace(*world_);
  }
  static Config by_tcp() {
    Config config = test_config();
    config.rdma.token_provider = {"tcp"};
    return config;
  }
  void expect_declined(const hostile::HostileListener& listener, std::string_view why) {
    const auto reply = bucket_->get(token_of(listener.name()));
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
    EXPECT_EQ(reply->header("x-verbena-rdma-declined"), why);
    EXPECT_EQ(bucket_->body, bucket_->object);
    const auto put = bucket_->put(token_of(listener.name()));
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().http_status, 501);
    EXPECT_EQ(put.error().s3_code, "RDMANotSupported");
  }
  std::optional<World> world_;
  std::optional<Bucket> bucket_;
};

TEST_F(TokensOverTcp, LiveThroughAnythingSentToThePortsOfTheirEndpoints) {
  start(by_tcp());
  // A data endpoint listens, too, once a token was served.
  hostile::HostileListener listener;
  {
    const hostile::HostileOwner owner(listener, hostile::hello(false), {});
    EXPECT_TRUE(bucket_->get(token_of(listener.name())));
  }
  attack_ports(listeners().ports);
  bucket_->expect_service({Via::http, "auto"});
  bucket_->expect_service({Via::token, "auto"});
}

TEST_F(TokensOverTcp, LiveThroughAnythingThatTheirOwnersAnswer) {
  start(by_tcp());
  hostile::HostileListener listener;
  const auto token = token_of(listener.name());
  bool get = true;
  for (const auto& [name, bytes] : hostile::hostile_frames()) {
    SCOPED_TRACE(name);
    const hostile::HostileOwner owner(listener, hostile::hello(false), bytes);
    if (get) {
      const auto reply = bucket_->get(token);
      ASSERT_TRUE(reply) << reply.error().message;
      if (name != hostile::acknowledgement) {
        EXPECT_EQ(reply->header("x-amz-rdma-reply"), "501");
        EXPECT_EQ(bucket_->body, bucket_->object);
      }
    } else {
      const auto reply = bucket_->put(token);
      ASSERT_FALSE(reply);
      const std::string& code = reply.error().s3_code;  // the owner closed, or sent no valid answer
      EXPECT_TRUE(code == "RDMATransferFailed" || code == "RDMANotSupported") << code;
    }
    EXPECT_TRUE(eventually([&] { return owner.calls() != 0; })) << "the server did not call";
    get = !get;
  }
  const auto stored = bucket_->s3->head("hostile", "new", {});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, ErrorCode::no_such_key);
  bucket_->expect_service({Via::token, "auto"});
}

TEST_F(TokensOverTcp, MakeTheServerCallItsOwnHostOnlyWhereThatIsNamed) {
  hostile::HostileListener listener;
  Config config = by_tcp();
  config.rdma.token_networks = {"192.0.2.0/24"};
  start(config);
  expect_declined(listener, "token: an address of the server's host that rdma.token_networks does not name");
  EXPECT_FALSE(listener.accept(100)) << "it was dialled";
}

TEST_F(TokensOverTcp, MakeTheServerCallOnlyPortsOfTheRange) {
  hostile::HostileListener listener;
  Config config = by_tcp();
  config.rdma.token_port_first = config.rdma.token_port_last = 1;
  start(config);
  expect_declined(listener, "token: its port is not in rdma.token_ports");
  EXPECT_FALSE(listener.accept(100)) << "it was dialled";
}

}  // namespace
}  // namespace verbena::matrix
