// Strangers at the ports of a whole server, and owners of tokens that answer the server's call with anything. The
// server is in this process: what ends it ends the test.
#include "fabric/ofi/hostile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "client/endpoint.h"
#include "client/s3_http.h"
#include "rdma/token.h"
#include "world.h"

namespace verbena::matrix {
namespace {

namespace hostile = fabric::ofi::testing;

constexpr size_t object_size = 300'000;

// The names (as a sockaddr) of all TCP sockets on which this process listens, with their ports.
std::map<uint16_t, std::string> listeners() {
  std::map<uint16_t, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) continue;
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0 || name.ss_family != AF_INET) continue;
    found.emplace(ntohs(reinterpret_cast<sockaddr_in&>(name).sin_port),
                  std::string(reinterpret_cast<const char*>(&name), length));
  }
  return found;
}

struct Bucket {
  explicit Bucket(const World& world) {
    const auto endpoint = client::parse_endpoint(world.server.http()).value();
    http = client::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
    s3.emplace(*http,
               client::S3Options{.credentials = {server::TestServer::access_key, server::TestServer::secret_key, ""}});
    EXPECT_TRUE(s3->make_bucket("hostile", BucketDurability::memory));
    object = random_bytes(object_size, 4);
    EXPECT_TRUE(s3->put("hostile", "k", object, {}));
  }
  Outcome<client::HttpReply> get(const std::string& token) {
    body.assign(object_size, std::byte{0});
    return s3->call(
        {.method = "GET", .bucket = "hostile", .key = "k", .headers = {{"x-amz-rdma-token", token}}, .into = body});
  }
  Outcome<client::HttpReply> put(const std::string& token) {
    return s3->call({.method = "PUT",
                     .bucket = "hostile",
                     .key = "new",
                     .headers = {{"x-amz-rdma-token", token}},
                     .unsigned_payload = true});
  }
  void expect_service() {
    body.assign(object_size, std::byte{0});
    const auto got = s3->call({.method = "GET", .bucket = "hostile", .key = "k", .into = body});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(body, object);
  }

  std::unique_ptr<client::HttpClient> http;
  std::optional<client::S3Http> s3;
  std::vector<std::byte> object, body;
};

std::string token_of(std::string_view endpoint_name) {
  return rdma::format_token({.dialect = rdma::Dialect::ofi1,
                             .provider = "tcp",
                             .endpoint_name = std::string(endpoint_name),
                             .base = 0,
                             .size = object_size,
                             .key = 1});
}

// Says everything hostile to whoever listens, in parallel with nothing: what breaks is the last one named.
void attack(const std::map<uint16_t, std::string>& ports) {
  for (const auto& [port, name] : ports) {
    SCOPED_TRACE("port " + std::to_string(port));
    for (const auto& [what, bytes] : hostile::hostile_hellos(true)) {
      const Fd fd = hostile::connect_to(name, 50);
      if (fd) hostile::send_all(fd.get(), bytes);
    }
    for (const auto& [what, bytes] : hostile::hostile_frames()) {
      const Fd fd = hostile::connect_to(name, 50);
      if (!fd) break;  // it drops what comes, and would drop the others
      hostile::send_all(fd.get(), hostile::hello(true));
      hostile::drain(fd.get(), 5);
      hostile::send_all(fd.get(), bytes);
      hostile::drain(fd.get(), 5);
    }
  }
}

TEST(HostilePeer, ReachesNothingOfLibfabricsTcpAtADefaultServer) {
  World world{Config{}};
  ASSERT_TRUE(world.server.running());
  Bucket bucket(world);
  const auto& on = world.server.server().endpoints().token_providers;
  EXPECT_EQ(std::ranges::find(on, "tcp"), on.end());
  attack(listeners());
  // And a token does not make it call anybody.
  hostile::HostileListener listener;
  const auto declined = bucket.get(token_of(listener.name()));
  ASSERT_TRUE(declined) << declined.error().message;
  EXPECT_EQ(declined->header("x-amz-rdma-reply"), "501");
  EXPECT_EQ(declined->header("x-verbena-rdma-declined"), "token: its provider is not open here (rdma.token_provider)");
  EXPECT_EQ(bucket.body, bucket.object);
  EXPECT_FALSE(listener.accept(100)) << "it was dialled";
  bucket.expect_service();
}

class TokensOverTcp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fabric::ofi::checks_peers())
      GTEST_SKIP() << "this libfabric trusts its peers: any of these would end the process";
    Config config = server::every_door();
    config.rdma.operation_timeout = std::chrono::milliseconds(200);
    world_.emplace(config);
    ASSERT_TRUE(world_->server.running());
    bucket_.emplace(*world_);
  }
  std::optional<World> world_;
  std::optional<Bucket> bucket_;
};

TEST_F(TokensOverTcp, LiveThroughAnythingSentToTheServersPorts) {
  // A data endpoint is open, too, once a token was served.
  hostile::HostileListener listener;
  {
    const hostile::HostileOwner owner(listener, hostile::hello(false), {});
    EXPECT_TRUE(bucket_->get(token_of(listener.name())));
  }
  attack(listeners());
  bucket_->expect_service();
}

TEST_F(TokensOverTcp, LiveThroughAnythingThatTheirOwnersAnswer) {
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
      const std::string& code = reply.error().s3_code;  // the owner hung up, or said nothing that served
      EXPECT_TRUE(code == "RDMATransferFailed" || code == "RDMANotSupported") << code;
    }
    EXPECT_NE(owner.calls(), 0u) << "the server did not call";
    get = !get;
  }
  EXPECT_EQ(bucket_->s3->head("hostile", "new").error().code, ErrorCode::no_such_key);
  bucket_->expect_service();
}

}  // namespace
}  // namespace verbena::matrix
