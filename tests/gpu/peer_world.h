// A server and clients whose RDMA devices reach a GPU's memory, both of them doubles.
#pragma once

#include <gtest/gtest.h>

#include "gpu_world.h"
#include "nic.h"

namespace verbena::matrix {

inline constexpr size_t mib = 1u << 20;

inline void use_the_doubles() {
  use_the_double();
  ::setenv("TEST_VERBENA_RDMA_DEVICE", "double", 1);
  ::setenv("TEST_VERBENA_CUDA_VERSION", "12080", 1);
  ::setenv("TEST_VERBENA_PEER_MODULE", "0", 1);
  ::setenv("VERBENA_TEST_PROVIDERS", "local,tcp,verbs", 1);
}

inline Config peer_config() {
  Config config = test_config();
  config.rdma.token_provider = {"verbs"};
  return config;
}

// Nothing that a test of the doubles has changed stays.
inline void reset_doubles() {
  double_reset_counts();
  double_delay(50);
  double_peer_writes(is_hip() ? 0 : 100, is_hip() ? 1 : 0);
  double_over_pcie(false);
  double_blind_ids(false);
  nic_offers_device_memory(true);
  nic_knows_devices(false);
  nic_refuses(0);
  ::setenv("TEST_VERBENA_PEER_MODULE", "0", 1);
}

inline const Way native{Via::native, "verbs"}, token{Via::token, "verbs"};

class Peer : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_the_doubles(); }
  void SetUp() override {
    reset_doubles();
    ASSERT_TRUE(http().make_bucket("bucket"));
  }
  void TearDown() override {
    EXPECT_EQ(double_misuse(), 0u);
    EXPECT_EQ(nic_registered(), 0u);
    reset_doubles();
  }

  ClientOptions options(const Way& way) {
    ClientOptions options;
    options.endpoint = world.server.http();
    options.native_endpoint = world.server.native();
    options.access_key = server::TestServer::access_key;
    options.secret_key = server::TestServer::secret_key;
    options.via = way.via;
    options.provider = way.provider;
    options.token_size_min = 0;
    return options;
  }
  Client client(const Way& way) {
    auto made = Client::connect(options(way));
    EXPECT_TRUE(made) << way.name() << ": " << made.error().message;
    return *made;
  }
  Client http() { return client({Via::http, "auto"}); }
  std::vector<std::byte> stored(const std::string& key, size_t size) {
    std::vector<std::byte> back(size);
    const auto got = http().get("bucket", key, back);
    EXPECT_TRUE(got) << got.error().message;
    return back;
  }
  // A GET and a PUT of the window move every byte, by that way.
  void moves(const Client& c, const OnDevice& memory, DevicePath path, const std::string& why = {}) {
    constexpr size_t size = 300'001;
    const auto bytes = random_bytes(size, 11), other = random_bytes(size, 12);
    ASSERT_TRUE(http().put("bucket", "moved", bytes));
    const Buffer window = *c.register_memory(memory.all());
    const auto got = c.get("bucket", "moved", window.slice(0, size));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, path) << got->transfer.fell_back_reason;
    EXPECT_NE(got->transfer.fell_back_reason.find(why), std::string::npos) << got->transfer.fell_back_reason;
    EXPECT_TRUE(same(memory.bytes(0, size), bytes));
    double_poke(memory.address(), other.data(), size);
    const auto put = c.put("bucket", "back", window.slice(0, size));
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.device_path, path) << put->transfer.fell_back_reason;
    EXPECT_TRUE(same(stored("back", size), other));
  }

  World world{peer_config()};
};

}  // namespace verbena::matrix
