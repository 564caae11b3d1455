// Everything over reliable connections, and the thread that ends what was left behind.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "rdma/rc/connections.h"
#include "rdma/rc/endpoint.h"
#include "rdma/rc/sessions.h"

namespace verbena::rdma::rc {

struct ReliableConnections {
  explicit ReliableConnections(std::unique_ptr<Endpoint> made, const Sessions::Options& of_sessions = {},
                               const Connections::Options& of_connections = {})
      : endpoint(std::move(made)), sessions(*endpoint, of_sessions), connections(*endpoint, of_connections) {}
  ~ReliableConnections() { stop(); }

  // Looks for late sessions and idle connections once a second.
  void start() {
    reaper = std::jthread([this](const std::stop_token& ended) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      while (!ended.stop_requested()) {
        never.wait_for(lock, ended, std::chrono::seconds(1), [] { return false; });
        sessions.reap(SteadyClock::now());
        connections.reap(SteadyClock::now());
      }
    });
  }
  void stop() {
    if (reaper.joinable()) {
      reaper.request_stop();
      reaper.join();
    }
  }

  std::unique_ptr<Endpoint> endpoint;
  Sessions sessions;
  Connections connections;
  std::jthread reaper;
};

}  // namespace verbena::rdma::rc
