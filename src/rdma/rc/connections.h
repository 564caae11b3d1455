// cuObject's protocol over reliable connections (docs/dialects.md): a connection is made before its tokens are, serves
// one request at a time, and ends when it was idle for long, after a failure, or when its caller says so.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "rdma/dialect.h"
#include "rdma/rc/endpoint.h"
#include "rdma/rc/places.h"

namespace verbena::rdma::rc {

// The owner of connections of unsigned calls: any request from that address may use them.
std::string address_owner(std::string_view address);

// Thread-safe.
class Connections final : public Dialect {
 public:
  struct Options {
    Places::Limits places{};
    std::chrono::milliseconds idle_for{300'000};
    std::chrono::milliseconds unused_for{30'000};  // before the first token
  };
  Connections(Endpoint& endpoint, const Options& options);

  struct Made {
    std::string id;
    PeerToken own;
    uint32_t own_sequence = 0;
  };
  // Opens the device, if a place is free. unsupported: there is none, or its port has changed; rdma_not_supported: a
  // peer that is refused; slow_down; rdma_transfer_failed.
  Task<Result<Made>> connect(PeerToken peer, uint32_t peer_sequence, std::string owner, Payer payer);
  // A connection that is gone, or another caller's, is no error. One that serves a request ends after that.
  void disconnect(std::string_view id, std::string_view owner);
  void reap(Deadline now);
  size_t count();

  bool serves(TokenForm form) const override { return form == TokenForm::cuobject_rc; }
  Task<Result<std::unique_ptr<fabric::Window>>> open(const Token& token, TokenClient client, fabric::Access) override {
    co_return open_now(token, client);
  }
  Result<std::unique_ptr<fabric::Window>> open_now(const Token& token, const TokenClient& client);

 private:
  struct Entry {
    std::string owner;
    Places::Place place;
    std::unique_ptr<QueuePair> pair;  // null: it serves a request
    Deadline idle_since{};
    bool used = false;  // by a token
    bool ending = false;
  };
  struct State {
    std::mutex mutex;
    std::unordered_map<std::string, Entry> all;  // by id
  };
  Endpoint& endpoint_;
  Options options_;
  Places places_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace verbena::rdma::rc
