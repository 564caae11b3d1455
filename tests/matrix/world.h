// A server and its clients through every door, on the fabrics named in the environment.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "server/test_server.h"
#include "verbena/client.h"

namespace verbena::matrix {

inline std::string from_environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}
inline std::string test_address() { return from_environment("VERBENA_TEST_ADDRESS", "127.0.0.1"); }
inline std::vector<std::string> test_providers() {
  std::vector<std::string> names;
  std::string list = from_environment("VERBENA_TEST_PROVIDERS", "local,tcp");
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

// The fabric that tokens use: the first of those that is not shared memory.
inline std::string token_provider() {
  for (const auto& name : test_providers()) {
    if (name != "local") return name;
  }
  return "tcp";
}

// One way to an object. Public: a failing test names it.
struct Way {
  Via via = Via::http;
  std::string provider = "auto";
  std::string name() const {
    return std::string(to_string(via)) + (via == Via::native ? " (" + provider + ")" : std::string());
  }
};
inline std::vector<Way> every_way() {
  std::vector<Way> ways{{Via::http, "auto"}, {Via::token, "auto"}};
  for (const auto& provider : test_providers()) ways.push_back({Via::native, provider});
  return ways;
}

inline Config test_config() {
  Config config;
  config.http.address = test_address();
  config.rdma.address = test_address();
  config.rdma.provider = test_providers();
  config.rdma.token_provider = {token_provider()};
  config.rdma.token_networks = {test_address()};  // clients are on this host
  config.rdma.operation_timeout = std::chrono::milliseconds(3000);
  return config;
}

class World {
 public:
  explicit World(Config config = test_config()) : server(std::move(config)) {}
  World(Config config, server::TestServer::AsConfigured as_it_is) : server(std::move(config), as_it_is) {}

  Client client(const Way& way) {
    ClientOptions options;
    options.endpoint = server.http();
    options.native_endpoint = server.native();
    options.access_key = server::TestServer::access_key;
    options.secret_key = server::TestServer::secret_key;
    options.via = way.via;
    options.provider = way.provider;
    options.token_size_min = 0;
    auto made = Client::connect(options);
    if (!made) {
      ADD_FAILURE() << way.name() << ": " << made.error().message;
      std::abort();
    }
    return *made;
  }

  server::TestServer server;
};

// Eight bytes at a time: these tests run without optimization and under sanitizers, too.
inline std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t next = random();
    std::memcpy(bytes.data() + at, &next, std::min<size_t>(8, size - at));
  }
  return bytes;
}

// By memcmp: std::equal goes through std::byte one by one.
inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace verbena::matrix
