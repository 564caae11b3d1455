// Sessions of the whole process: created on the HTTP listener's cores, claimed by the fabric's cores, ended when idle.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/auth.h"
#include "base/client_counts.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rdma_encryption.h"
#include "base/result.h"
#include "fabric/fabric.h"
#include "native/wire/keys.h"

namespace verbena::native {

struct Session {
  uint64_t id = 0;
  unsigned version = 1;  // of the protocol, as negotiated
  // Whether its keys need ephemeral ones that are gone: what was recorded stays closed when the secret key leaks later.
  bool has_forward_secrecy() const { return version >= wire::version_of_key_exchange; }
  wire::MasterKey master;
  auth::AccessKeyPtr key;  // that opened it; its streams check it again after a change
  auth::Identity identity;
  std::string peer_address;                         // IP of the HTTP request that made it
  std::string user_agent;                           // the client's; empty: none
  fabric::Sealing sealing = fabric::Sealing::none;  // on endpoints that seal
  ClientCounts::Hold of_account, of_client;         // its places in the limits, while it is in the table
  // What applies to its client's network: with `required`, RDMA devices are for it only if it is sealed.
  RdmaEncryption encryption = RdmaEncryption::preferred;
  bool secure = false;                   // that request came over TLS; for messages the port decides
  std::atomic<int64_t> last_used_ns{0};  // steady clock; refreshed by the streams' sweeps, not by each message
  void used(SteadyClock::time_point now) { last_used_ns = std::chrono::nanoseconds(now.time_since_epoch()).count(); }
  std::atomic<uint32_t> streams_open{0};
  std::atomic<bool> claimed{false};  // a HELLO came
  int64_t opened_us = 0;             // since the epoch
  // Totals for reports: updated by the streams' sweeps, not by each message.
  struct Told {
    std::atomic<uint64_t> requests{0}, bytes_in{0}, bytes_out{0}, windows{0};
    std::atomic<uint64_t> endpoints{0};  // a bit for each endpoint with a stream; the last stands for all further ones
    std::atomic<int64_t> in_flight{0};
  } told{};
  std::atomic<bool> ended{false};  // removed from the table: its streams close at their next sweep
};

// Thread-safe. Not used for messages of an open stream: each endpoint keeps its own streams.
class SessionTable {
 public:
  struct Limits {
    size_t sessions_max = 4096;
    std::chrono::nanoseconds idle_timeout{};
    std::chrono::nanoseconds hello_timeout{};
    size_t account_max = 0;  // of one account; 0: no limit
    size_t client_max = 0;   // from one address, or IPv6 /64; 0: no limit
    size_t reserved = 0;     // of sessions_max, for the superuser alone, who is exempt from the other two limits
  };
  explicit SessionTable(Limits limits);

  // The master key of the session with this id. May be called again, with another id.
  using MakeMaster = std::function<Result<wire::MasterKey>(uint64_t session)>;
  // Gives `session` a random unused id, and its master key, which is made only once there is a place for it. slow_down
  // when the table is full, or its account or address has too many; errors of `make_master`.
  Result<void> add(const std::shared_ptr<Session>& session, const MakeMaster& make_master);
  std::shared_ptr<Session> find(uint64_t id) const;
  std::vector<std::shared_ptr<Session>> all() const;
  void end(uint64_t id);
  // Ends sessions that were idle too long or never used. Returns how many.
  size_t sweep(SteadyClock::time_point now);
  size_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t shard_count = 16;
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<uint64_t, std::shared_ptr<Session>> sessions;
  };
  Shard& shard(uint64_t id) { return shards_[id % shard_count]; }
  const Shard& shard(uint64_t id) const { return shards_[id % shard_count]; }

  Result<void> take_place(Session& session);
  void give_place_back(Session& session);

  Limits limits_;
  ClientCounts accounts_, clients_;
  metrics::Counter& refused_all_;
  metrics::Counter& refused_account_;
  metrics::Counter& refused_client_;
  std::array<Shard, shard_count> shards_;
  std::atomic<size_t> size_{0};
};

// Recent client nonces, so that a replayed session request opens no second session while its signature is valid.
// Bounded, for each account and for all. An account that has used up its part loses its own oldest, whose requests can
// be replayed again: that costs the account a place among its sessions until the hello timeout, and no more, while a
// refusal would let one of its users keep all others out for half an hour. Thread-safe.
class NonceMemory {
 public:
  static constexpr size_t size_max = 1 << 17;
  static constexpr size_t account_max = size_max / 4;
  static constexpr std::chrono::minutes keep_for{31};  // a signature is valid from 15 minutes before to 15 after

  // access_denied: the nonce was used before.
  Result<void> take(const wire::Nonce& nonce, const auth::Identity& who, SteadyClock::time_point now);

 private:
  struct Used {
    SteadyClock::time_point at;
    wire::Nonce nonce;
  };
  using Part = std::deque<Used>;  // the oldest first
  void forget_first(Part& part);
  void forget_old(Part& part, SteadyClock::time_point now);
  void make_room(SteadyClock::time_point now);

  std::mutex mutex_;
  std::set<wire::Nonce> known_;
  std::map<std::string, Part, std::less<>> parts_;  // by account
};

}  // namespace verbena::native
