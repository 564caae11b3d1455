// A server in this process, for tests: its own temporary directory, ports of its own choosing, known keys.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "server/server.h"

namespace verbena::server {

// Every door and fabric that a machine without an RDMA device has. Tokens over libfabric's tcp must be named, and so
// must this host, on which their clients are.
inline Config every_door(Config config = {}) {
  config.rdma.provider = {"local", "tcp"};
  config.rdma.token_provider = {"tcp"};
  config.rdma.token_networks = {"127.0.0.0/8"};
  return config;
}

class TestServer {
 public:
  static constexpr const char* access_key = "VERBENATESTKEY0000AA";
  static constexpr const char* secret_key = "test/secret+key0000000000000000000000000";

  explicit TestServer(Config config = {}) : config_(std::move(config)) {
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
  Server& server() const { return *server_; }
  std::string http() const { return server_->endpoints().http; }
  std::string admin() const { return server_->endpoints().admin; }
  std::string native() const { return server_->endpoints().native; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  Config config_;
  std::filesystem::path directory_;
  std::unique_ptr<Server> server_;
};

}  // namespace verbena::server
