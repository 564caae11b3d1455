// A server whose devices copy, over the driver double, for the tests of the way `direct`.
#pragma once

#include <thread>

#include "base/metrics.h"
#include "client/native/session.h"
#include "gpu_world.h"

namespace verbena::matrix {

inline constexpr size_t mib = 1u << 20;

inline Config direct_config(std::chrono::milliseconds limit) {
  Config config = test_config();
  config.gpudirect.enabled = true;
  config.gpudirect.rocm_handles = true;
  config.rdma.operation_timeout = limit;
  return config;
}

inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// What is now. A device that an earlier test has lost for good keeps some.
struct Kept {
  uint64_t in_driver = double_mapped();
  int64_t mapped = gauge("verbena_gpudirect_mapped_bytes");
  int64_t aside = gauge("verbena_gpudirect_set_aside_bytes");
  int64_t lost = gauge("verbena_gpudirect_lost_devices");

  static int64_t gauge(const char* name) { return metrics::gauge(name, "").value(); }
};

class Direct : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_the_double(); }
  explicit Direct(std::chrono::milliseconds limit = std::chrono::seconds(5)) : Direct(direct_config(limit)) {}
  explicit Direct(const Config& config) : world(config) {}
  void SetUp() override {
    double_reset_counts();
    double_delay(50);
    ASSERT_TRUE(http().make_bucket("bucket"));
  }
  void TearDown() override {
    EXPECT_EQ(double_misuse(), 0u);
    double_reset_counts();
  }

  ClientOptions options(Via via, const std::string& provider) {
    ClientOptions options;
    options.endpoint = world.server.http();
    options.native_endpoint = world.server.native();
    options.access_key = server::TestServer::access_key;
    options.secret_key = server::TestServer::secret_key;
    options.via = via;
    options.provider = provider;
    return options;
  }
  Client client(Via via, const std::string& provider) { return *Client::connect(options(via, provider)); }
  Client http() { return client(Via::http, "auto"); }
  Client local() { return client(Via::native, "local"); }
  std::unique_ptr<client::NativeSession> session() {
    client::NativeOptions options;
    const std::string native = world.server.native();
    options.host = native.substr(0, native.rfind(':'));
    options.port = static_cast<uint16_t>(std::stoi(native.substr(native.rfind(':') + 1)));
    options.credentials = {server::TestServer::access_key, server::TestServer::secret_key, {}};
    options.providers = {"local"};
    auto opened = client::NativeSession::open(options);
    EXPECT_TRUE(opened) << describe(opened.error());
    return std::move(*opened);
  }
  std::vector<std::byte> stored(const std::string& key, size_t size) {
    std::vector<std::byte> back(size);
    const auto got = http().get("bucket", key, back);
    EXPECT_TRUE(got) << got.error().message;
    return back;
  }

  World world;
  const Kept before{};
};

}  // namespace verbena::matrix
