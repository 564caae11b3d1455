#include "server/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/checksum.h"
#include "base/io_ring.h"
#include "http/test_server.h"
#include "server/test_server.h"

namespace verbena::server {
namespace {

uint16_t port_of(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

http::Answer ask(const std::string& endpoint, const std::string& method, const std::string& path,
                 const std::string& body = "", bool as_root = true,
                 const std::vector<std::pair<std::string, std::string>>& more = {}) {
  std::vector<std::pair<std::string, std::string>> headers{{"host", "127.0.0.1"}};
  headers.insert(headers.end(), more.begin(), more.end());
  if (as_root) {
    auth::sign({TestServer::access_key, TestServer::secret_key, ""}, "us-east-1", "s3", system_clock(), method, path,
               "", to_hex(as_bytes(sha256(as_bytes(body)))), headers);
  }
  std::string request = method + " " + path + " HTTP/1.1\r\n";
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  request += "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  return http::TestClient(port_of(endpoint)).ask(request);
}

std::string start_error(const Config& config, const std::filesystem::path& directory) {
  auto started = Server::start(config, directory, {TestServer::access_key, TestServer::secret_key, ""});
  return started ? "it started" : started.error();
}

TEST(Server, KeepsObjectsAcrossARestart) {
  TestServer test;
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.http(), "PUT", "/bucket").status, 200);
  const std::string large(300'000, 'x');
  EXPECT_EQ(ask(test.http(), "PUT", "/bucket/small", "hello").status, 200);
  EXPECT_EQ(ask(test.http(), "PUT", "/bucket/large", large).status, 200);
  test.restart();
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.http(), "GET", "/bucket/small").body, "hello");
  EXPECT_EQ(ask(test.http(), "GET", "/bucket/large").body, large);
}

TEST(Server, TellsHealthAndMetricsOnTheNativePort) {
  TestServer test;
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.http(), "GET", "/-/health", "", false).body, "ok\n") << "on the S3 port, too";
  EXPECT_EQ(ask(test.native(), "GET", "/-/health", "", false).body, "ok\n");
  ask(test.http(), "GET", "/");
  const auto metrics = ask(test.native(), "GET", "/-/metrics", "", false);
  EXPECT_EQ(metrics.status, 200);
  EXPECT_NE(metrics.body.find("verbena_http_connections_total"), std::string::npos);
}

TEST(Server, ServesNoTokensByLibfabricsTcpUnlessItIsNamed) {
  Config config;
  config.http.port = config.rdma.port = 0;
  config.arena_size = 128 * MiB;
  const TestServer place;  // its directory
  for (const char* name : {"auto", "none", "tcp"}) {
    config.rdma.token_provider = {name};
    auto started =
        Server::start(config, place.directory() / name, {TestServer::access_key, TestServer::secret_key, ""});
    ASSERT_TRUE(started) << started.error();
    EXPECT_EQ((*started)->endpoints().tokens == "tcp", std::string_view(name) == "tcp") << name;
    const auto& providers = (*started)->endpoints().providers;
    EXPECT_NE(std::ranges::find(providers, "tcp"), providers.end()) << "the native door has a tcp of its own";
  }
}

// The reason is that of its devices: without `dc` none is asked.
TEST(Server, DeclinesCuObjectsDescriptorsWithTheReasonThatApplies) {
  const std::string descriptor = "00007f1200001000:0000000a:00181c00:0000:000c1d:1:00000000000000000000ffff7f000001";
  for (const bool named : {false, true}) {
    Config config;
    config.rdma.token_provider = {named ? "dc" : "none"};
    TestServer test(config);
    ASSERT_TRUE(test.running());
    EXPECT_EQ(ask(test.http(), "PUT", "/bucket").status, 200);
    EXPECT_EQ(ask(test.http(), "PUT", "/bucket/k", "0123456789").status, 200);
    const auto got = ask(test.http(), "GET", "/bucket/k", "", true, {{"x-amz-rdma-token", descriptor}});
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "0123456789");
    EXPECT_NE(got.head.find("x-amz-rdma-reply: 501"), std::string::npos) << got.head;
    EXPECT_NE(got.head.find("x-verbena-rdma-declined: "), std::string::npos) << got.head;
    EXPECT_EQ(got.head.find("(rdma.token_provider: dc)") != std::string::npos, !named) << got.head;
  }
}

TEST(Server, TellsHealthAndMetricsWithoutRdma) {
  Config config;
  config.rdma.enabled = false;
  TestServer test(config);
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.admin(), "GET", "/-/health", "", false).body, "ok\n");
  EXPECT_EQ(ask(test.admin(), "GET", "/-/metrics", "", false).status, 200);
  EXPECT_EQ(ask(test.admin(), "GET", "/bucket").status, 404) << "S3, which the console calls";
  EXPECT_EQ(ask(test.admin(), "GET", "/-/console/", "", false).status, 200);
}

// An object that is in neither the hot tier nor the index, by each way of reading; the metrics report which.
TEST(Server, ReadsDataByIoUringOrByThreads) {
  const std::string large(3'000'000, 'x');
  for (const DiskIo way : {DiskIo::threads, DiskIo::automatic, DiskIo::io_uring}) {
    Config config;
    config.cores = 1;
    config.cache.size = 0;
    config.disk_io = way;
    boost::asio::io_context loop;
    const bool there = IoRing::open(loop, {}).has_value();
    if (way == DiskIo::io_uring && !there) continue;
    TestServer test(config);
    ASSERT_TRUE(test.running());
    EXPECT_EQ(ask(test.http(), "PUT", "/bucket").status, 200);
    EXPECT_EQ(ask(test.http(), "PUT", "/bucket/large", large).status, 200);
    EXPECT_EQ(ask(test.http(), "GET", "/bucket/large").body, large);
    const bool ring = way != DiskIo::threads && there;
    const auto metrics = ask(test.native(), "GET", "/-/metrics", "", false).body;
    EXPECT_NE(metrics.find(ring ? "\nverbena_disk_rings 1\n" : "\nverbena_disk_rings 0\n"), std::string::npos);
  }
}

TEST(Server, RefusesWhoeverDoesNotSign) {
  TestServer test;
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.http(), "GET", "/", "", false).status, 403);
}

TEST(Server, TwoCannotShareADirectory) {
  TestServer test;
  ASSERT_TRUE(test.running());
  Config config;
  config.http.port = config.rdma.port = 0;
  const auto error = start_error(config, test.directory() / "data");
  EXPECT_NE(error.find("in use by another server"), std::string::npos) << error;
}

TEST(Server, APortInUseIsNamed) {
  TestServer test;
  ASSERT_TRUE(test.running());
  // A listener of another process, without SO_REUSEPORT.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Config config;
  config.arena_size = 32 * MiB;
  config.http.port = ntohs(address.sin_port);
  config.rdma.port = 0;
  const auto error = start_error(config, test.directory() / "other");
  ::close(fd);
  EXPECT_NE(error.find("127.0.0.1:" + std::to_string(config.http.port)), std::string::npos) << error;
  EXPECT_NE(error.find("in use"), std::string::npos) << error;
}

TEST(Server, ADirectoryThatCannotBeMadeIsNamed) {
  const auto error = start_error({}, "/proc/verbena");
  EXPECT_NE(error.find("/proc/verbena"), std::string::npos) << error;
}

TEST(Server, AProviderThatCannotOpenIsNamedUnlessItWasLeftToUs) {
  TestServer test;
  ASSERT_TRUE(test.running());
  Config config;
  config.arena_size = 32 * MiB;
  config.http.port = config.rdma.port = 0;
  config.rdma.provider = {"cxi"};
  const auto error = start_error(config, test.directory() / "other");
  EXPECT_NE(error.find("cxi"), std::string::npos) << error;
  // The next in the list is as good as the first.
  config.rdma.provider = {"cxi", "tcp"};
  auto started = Server::start(config, test.directory() / "other", {"AKAKAKAK", "secretsecret", ""});
  ASSERT_TRUE(started) << started.error();
  EXPECT_EQ((*started)->endpoints().providers, std::vector<std::string>{"tcp"});
}

TEST(Server, WithoutRdmaThereIsOneDoor) {
  Config config;
  config.rdma.enabled = false;
  TestServer test(config);
  ASSERT_TRUE(test.running());
  EXPECT_TRUE(test.native().empty());
  EXPECT_TRUE(test.server().endpoints().providers.empty());
  EXPECT_EQ(ask(test.http(), "GET", "/").status, 200);
}

TEST(Server, AKeyThatCannotBeHonouredStopsTheStart) {
  TestServer test;
  ASSERT_TRUE(test.running());
  Config config;
  config.arena_size = 32 * MiB;
  config.http.port = config.rdma.port = 0;
  config.tls.certificate = "/nowhere.pem";
  config.tls.key = "/nowhere.key";
  EXPECT_NE(start_error(config, test.directory() / "other"), "it started");
  config.tls = {};
  config.rdma.token_networks = {"10.0.0.0/99"};
  const auto error = start_error(config, test.directory() / "other");
  EXPECT_NE(error.find("rdma.token_networks"), std::string::npos) << error;
  config.rdma.token_networks = {};
  config.rdma.token_provider = {"tcp"};
  config.rdma.cq_size = 1;
  EXPECT_NE(start_error(config, test.directory() / "other"), "it started");
}

TEST(Server, StopsWhileConnectionsIdleAndRequestsAreHalfSent) {
  TestServer test;
  ASSERT_TRUE(test.running());
  EXPECT_EQ(ask(test.http(), "PUT", "/bucket").status, 200);
  std::vector<http::TestClient> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(port_of(i % 2 == 0 ? test.http() : test.native()));
  clients[0].send("GET / HTT");
  clients[2].send("PUT /bucket/k HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc");
  EXPECT_EQ(ask(test.http(), "GET", "/bucket/k").status, 404);  // a whole round trip: the others have been accepted
  test.server().stop(std::chrono::milliseconds(50));
  for (auto& client : clients) {
    const auto answer = client.read();  // nothing, or a refusal
    EXPECT_TRUE(answer.status == 0 || answer.status >= 400) << answer.head;
  }
}

TEST(Server, StopsUnderLoadWithoutLosingWhatItAcknowledged) {
  TestServer test;
  ASSERT_TRUE(test.running());
  ASSERT_EQ(ask(test.http(), "PUT", "/bucket").status, 200);
  const std::string endpoint = test.http();
  std::vector<int> acknowledged(4, -1);
  std::vector<std::thread> writers;
  std::atomic<int> going{0};
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < 10'000; ++i) {
        const auto key = "/bucket/" + std::to_string(w) + "-" + std::to_string(i);
        if (ask(endpoint, "PUT", key, std::string(20'000, static_cast<char>('a' + w))).status != 200) return;
        acknowledged[w] = i;
        if (i == 5) ++going;
      }
    });
  }
  for (int i = 0; i < 30'000 && going < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  test.server().stop();
  for (auto& writer : writers) writer.join();
  test.restart();
  ASSERT_TRUE(test.running());
  for (int w = 0; w < 4; ++w) {
    ASSERT_GE(acknowledged[w], 0);
    const auto key = "/bucket/" + std::to_string(w) + "-" + std::to_string(acknowledged[w]);
    EXPECT_EQ(ask(test.http(), "GET", key).body, std::string(20'000, static_cast<char>('a' + w)));
  }
}

}  // namespace
}  // namespace verbena::server
