// Sessions of the whole process: made by the HTTP listener's cores, claimed by the fabric's cores, ended by idleness.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "auth/auth.h"
#include "base/client_counts.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "native/wire/keys.h"

namespace verbena::native {

struct Session {
  uint64_t id = 0;
  unsigned version = 1;  // of the protocol, as negotiated
  wire::MasterKey master;
  auth::AccessKeyPtr key;  // that opened it; its lanes look again after a change
  auth::Identity identity;
  std::string peer_address;                  // IP of the HTTP request that made it
  std::string user_agent;                    // what the client said of itself; empty: nothing
  ClientCounts::Hold of_account, of_client;  // its places among theirs, while it is in the table
  bool secure = false;                       // that request came over TLS; of the messages, their port says so
  std::atomic<int64_t> last_used_ns{0};      // steady clock; refreshed by the lanes' sweeps, not by each message
  void used(SteadyClock::time_point now) { last_used_ns = std::chrono::nanoseconds(now.time_since_epoch()).count(); }
  std::atomic<uint32_t> lanes_open{0};
  std::atomic<bool> claimed{false};  // a HELLO came
  int64_t opened_us = 0;             // since the epoch
  // For who asks: added up by the lanes' sweeps, not by each message.
  struct Told {
    std::atomic<uint64_t> requests{0}, bytes_in{0}, bytes_out{0}, windows{0};
    std::atomic<uint64_t> endpoints{0};  // a bit for each that it has had a lane on; the last stands for all behind it
    std::atomic<int64_t> in_flight{0};
  } told{};
  std::atomic<bool> ended{false};  // out of the table: its lanes close at their next sweep
};

// Thread-safe. Never asked for a message of a lane that is open: each endpoint keeps its lanes itself.
class SessionTable {
 public:
  struct Limits {
    size_t sessions_max = 4096;
    std::chrono::nanoseconds idle_timeout{};
    std::chrono::nanoseconds hello_timeout{};
    size_t account_max = 0;  // of one account; 0: no limit
    size_t client_max = 0;   // from one address, or IPv6 /64; 0: no limit
    size_t reserved = 0;     // of sessions_max, for the superuser alone, whom the other two limits do not concern
  };
  explicit SessionTable(Limits limits);

  // Gives `session` a random id that is not in use. slow_down when the table is full, or there are too many of its
  // account or its address.
  Result<void> add(const std::shared_ptr<Session>& session, wire::Nonce client, wire::Nonce server,
                   std::string_view secret_key);
  std::shared_ptr<Session> find(uint64_t id) const;
  std::vector<std::shared_ptr<Session>> all() const;
  void end(uint64_t id);
  // Ends the sessions that were idle for too long or never used. Returns how many.
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

  Limits limits_;
  ClientCounts accounts_, clients_;
  metrics::Counter& refused_all_;
  metrics::Counter& refused_account_;
  metrics::Counter& refused_client_;
  std::array<Shard, shard_count> shards_;
  std::atomic<size_t> size_{0};
};

// Client nonces of late, so that a session request that someone recorded opens no second session while its signature
// is still good. Bounded: the oldest are forgotten first. Thread-safe.
class NonceMemory {
 public:
  // False for a nonce that is remembered.
  bool fresh(const wire::Nonce& nonce, SteadyClock::time_point now);

 private:
  static constexpr size_t size_max = 1 << 16;
  static constexpr std::chrono::minutes keep_for{31};  // a signature is good from 15 minutes before to 15 after
  std::mutex mutex_;
  std::unordered_set<std::string> known_;
  std::deque<std::pair<SteadyClock::time_point, std::string>> by_age_;
};

}  // namespace verbena::native
