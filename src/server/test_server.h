// A server in this process, for tests: its own temporary directory, ports of its own choosing, known keys.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "server/server.h"

namespace verbena::server {

class TestServer {
 public:
  static constexpr const char* access_key = "VERBENATESTKEY0000AA";
  static constexpr const char* secret_key = "test/secret+key0000000000000000000000000";

  // Tag for tests that want the configured token providers, without libfabric's tcp.
  struct AsConfigured {};

  explicit TestServer(Config config = {}) : TestServer(with_tokens(std::move(config)), AsConfigured()) {}
  TestServer(Config config, AsConfigured) : config_(std::move(config)) {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory_ = name;
    config_.http.port = 0;
    config_.rdma.port = 0;
    if (config_.arena_size == Config{}.arena_size) config_.arena_size = 128 * MiB;
    start();
  }
  ~TestServer() {
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  TestServer(const TestServer&) = delete;

  void start() {
    auto started = Server::start(config_, directory_ / "data", {access_key, secret_key, ""});
    if (!started) {
      ADD_FAILURE() << started.error();
      return;
    }
    server_ = std::move(*started);
  }
  void stop() { server_.reset(); }
  void restart() {
    stop();
    start();
  }

  bool running() const { return server_ != nullptr; }
  Server& server() { return *server_; }
  std::string http() const { return server_->endpoints().http; }
  std::string admin() const { return server_->endpoints().admin; }
  std::string native() const { return server_->endpoints().native; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  // Tokens by libfabric's tcp for clients on this host, unless the test configures others.
  static Config with_tokens(Config config) {
    const auto& fabrics = config.rdma.provider;
    const bool by_tcp = std::ranges::any_of(fabrics, [](const auto& name) { return name == "auto" || name == "tcp"; });
    if (by_tcp && config.rdma.token_provider == Config{}.rdma.token_provider) config.rdma.token_provider = {"tcp"};
    if (config.rdma.token_networks.empty()) config.rdma.token_networks = {"127.0.0.0/8"};
    return config;
  }

  Config config_;
  std::filesystem::path directory_;
  std::unique_ptr<Server> server_;
};

}  // namespace verbena::server
