// For tests: a native door on real sockets and fabrics, over a store in memory.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <filesystem>
#include <thread>

#include "client/native/session.h"
#include "fabric/local/local.h"
#include "fabric/tcp/tcp.h"
#include "native/native.h"
#include "store/memory/test_store.h"

namespace verbena::client {

class NativeTestServer {
 public:
  struct Setup {
    std::string provider = "local";  // or "tcp"
    unsigned cores = 2;
    native::Options door{};
    uint16_t port = 0;                  // of the HTTP listener
    std::filesystem::path directory{};  // of the sockets; empty: a fresh one
  };
  explicit NativeTestServer(Setup setup)
      : arena_(*memory::Arena::create(64 * MiB)),
        store(*arena_),
        service_{store, *arena_, system_clock()},
        credentials_({.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}}),
        verifier_(credentials_, system_clock(), {}),
        door(std::make_unique<native::NativeDoor>(service_, verifier_, credentials_, told_by(store, setup.door))) {
    store.make_bucket("bucket");
    directory_ = setup.directory;
    if (directory_.empty()) {
      char path[] = "/tmp/verbena-native-XXXXXX";
      directory_ = mkdtemp(path);
    }
    for (unsigned i = 0; i < setup.cores; ++i) {
      cores_.push_back(std::make_unique<Core>(Core::Options{.index = i, .spin_for = std::chrono::microseconds(20)}));
      attach(*cores_.back(), setup.provider, i);
    }
    auto listening = http::listen(*cores_.front(), "127.0.0.1", setup.port, {}, std::nullopt, door->session_handler());
    EXPECT_TRUE(listening) << describe(listening.error());
    listener_ = std::move(*listening);
    port = listener_->port();
    for (auto& core : cores_) threads_.emplace_back([&core] { core->run(); });
  }
  ~NativeTestServer() {
    door->stop();
    for (auto& core : cores_) core->stop();
    for (auto& thread : threads_) thread.join();
    listener_.reset();
    ports_.clear();
    door.reset();
    cores_.clear();  // with the coroutines that were still suspended
    if (owns_directory_) std::filesystem::remove_all(directory_);
  }

  NativeOptions options() const {
    NativeOptions options;
    options.port = port;
    options.credentials = {.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
    options.request_timeout = std::chrono::seconds(20);
    return options;
  }
  std::unique_ptr<NativeSession> session() const {
    auto opened = NativeSession::open(options());
    EXPECT_TRUE(opened) << describe(opened.error());
    return opened ? std::move(*opened) : nullptr;
  }
  void make_directory_bucket(const std::string& name) {
    s3::Call root;
    root.identity.anonymous = false;
    auto making = s3::create_bucket(service_, root, name, store::Durability::sync);
    auto made = boost::asio::co_spawn(cores_.front()->io(), std::move(making), boost::asio::use_future).get();
    EXPECT_TRUE(made) << describe(made.error());
  }
  void keep_directory() { owns_directory_ = false; }
  const std::filesystem::path& directory() const { return directory_; }

 private:
  static native::Options told_by(store::ChangeFeeds& feeds, native::Options options) {
    if (options.feeds == nullptr) options.feeds = &feeds;
    return options;
  }
  void attach(Core& core, const std::string& provider, unsigned index) {
    if (provider == "local") {
      const std::string path = directory_ / ("socket." + std::to_string(index));
      auto listening = fabric::local::listen(core, path, {});
      ASSERT_TRUE(listening) << describe(listening.error());
      ports_.push_back(std::move(*listening));
      ASSERT_TRUE(door->attach(core, *ports_.back(), "local", path));
    } else {
      auto listening = fabric::tcp::listen(core, {});
      ASSERT_TRUE(listening) << describe(listening.error());
      ports_.push_back(std::move(*listening));
      ASSERT_TRUE(door->attach(core, *ports_.back(), provider));
    }
  }

  std::unique_ptr<memory::Arena> arena_;

 public:
  store::in_memory::TestStore store;

 private:
  s3::Service service_;
  auth::RootCredentials credentials_;
  auth::Verifier verifier_;

 public:
  std::unique_ptr<native::NativeDoor> door;
  uint16_t port = 0;
  memory::Arena& arena() { return *arena_; }

 private:
  std::filesystem::path directory_;
  bool owns_directory_ = true;
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<std::unique_ptr<fabric::Port>> ports_;
  std::unique_ptr<http::Listener> listener_;
  std::vector<std::thread> threads_;
};

}  // namespace verbena::client
