// Test support: a server core and clients in one process. The provider comes from VERBENA_TEST_PROVIDER (default tcp)
// and the address from VERBENA_TEST_ADDRESS (default 127.0.0.1), so that the same tests run on a verbs device.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/test_core.h"
#include "fabric/ofi/ofi.h"

namespace verbena::fabric::ofi::testing {

using verbena::eventually;

inline std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

inline Options test_options() {
  Options options;
  options.provider = from_environment("VERBENA_TEST_PROVIDER", "tcp");
  options.bind_address = from_environment("VERBENA_TEST_ADDRESS", "127.0.0.1");
  return options;
}

inline bool on_soft_iwarp() { return from_environment("VM_RDMA", "rxe") == "siw"; }

// One core with its fabric, running on a thread of its own.
class TestServer {
 public:
  explicit TestServer(const Options& options = test_options(), size_t arena_bytes = 64 * MiB)
      : arena(std::move(*memory::Arena::create(arena_bytes))), core(Core::Options{}) {
    auto opened = open(core, *arena, options);
    if (opened) {
      fabric = std::move(*opened);
    } else {
      error = opened.error();
    }
    thread_ = std::thread([this] { core.run(); });
  }
  ~TestServer() {
    call_on(core, [this] { fabric.reset(); });
    core.stop();
    thread_.join();
  }

  template <class F>
  auto call(F f) {
    return call_on(core, std::move(f));
  }
  template <class T>
  auto spawn(Task<T> task) {
    return spawn_on(core, std::move(task));
  }

  memory::Lease lease(size_t size, std::byte fill) {
    auto lease = std::move(*arena->lease(size));
    std::fill_n(lease.data(), size, fill);
    return lease;
  }

  std::unique_ptr<memory::Arena> arena;
  Core core;
  std::unique_ptr<CoreFabric> fabric;
  Error error;

 private:
  std::thread thread_;
};

// A client whose Link is polled by a thread of its own, unless frozen.
class TestClient {
 public:
  explicit TestClient(const TestServer* server = nullptr, const Options& options = test_options())
      : link(std::move(*connect(options, server != nullptr ? server->fabric->port().address() : ""))) {
    thread_ = std::thread([this] { run(); });
  }
  ~TestClient() { stop(); }

  // Ends the polling thread and the link: the peer vanishes.
  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    link.reset();
  }
  void freeze(bool frozen) {
    frozen_ = frozen;
    // On return no poll and no wait (which makes progress, too) is in progress.
    while (parked_ != frozen) std::this_thread::yield();
  }
  Result<void> send(Bytes message) {
    for (int i = 0; i < 100'000; ++i) {
      {
        const std::lock_guard lock(polling_);
        const auto sent = link->send(message);
        if (sent || sent.error().code != Errc::would_block) return sent;
      }
      std::this_thread::yield();
    }
    return fail(Errc::timed_out, "test: send");
  }
  std::vector<std::string> received() {
    const std::lock_guard lock(polling_);
    return received_;
  }

  std::unique_ptr<Link> link;

 private:
  void run() {
    while (!stopping_) {
      parked_ = frozen_.load();
      if (parked_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      {
        const std::lock_guard lock(polling_);
        static_cast<void>(link->poll([this](Bytes message) { received_.emplace_back(as_text(message)); }));
      }
      link->wait(deadline_in(std::chrono::microseconds(200)));
    }
  }

  std::mutex polling_;
  std::atomic<bool> frozen_{false};
  std::atomic<bool> parked_{false};  // the thread has noticed that it is frozen
  std::atomic<bool> stopping_{false};
  std::vector<std::string> received_;
  std::thread thread_;
};

}  // namespace verbena::fabric::ofi::testing
