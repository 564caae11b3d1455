// The native door on a simulated fabric: cores with a port each, over the verbs of a server.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/core.h"
#include "native/native.h"
#include "net/http_client.h"
#include "simulator/fabric.h"

namespace verbena::simulator {

class NativeServer {
 public:
  NativeServer(s3::Service& service, store::ChangeFeeds* feeds, Fabric& fabric, unsigned cores);
  ~NativeServer();  // as a server stops: without new requests, after those that are served
  NativeServer(const NativeServer&) = delete;

  static const auth::Credentials& key();
  // The request that opens a session, from that host. Any thread.
  Result<net::HttpReply> ask(const net::HttpRequest& request, size_t host);
  // Whether no request is served now, nor on its way. Any thread.
  bool idle() const { return fabric_.quiet() && door_->in_flight() == 0; }

 private:
  Fabric& fabric_;
  auth::RootCredentials credentials_{key()};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<std::unique_ptr<fabric::Port>> ports_;
  std::unique_ptr<native::NativeDoor> door_;
  http::Handler sessions_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::atomic<size_t> asked_{0};
};

}  // namespace verbena::simulator
