// Sessions of hipobj-rc-v2 (docs/dialects.md): prepared, transferring, gone. A session belongs to the caller who
// prepared it, serves one transfer, and holds a queue pair and, for a PUT, the only memory of the server that a client
// writes into: made for it, of exactly its size, in a domain of its own.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "memory/charge.h"
#include "rdma/rc/endpoint.h"
#include "rdma/rc/places.h"

namespace verbena::rdma::rc {

inline constexpr uint64_t receive_id = 0;  // of the last write of a PUT, in completions

struct SessionRequest {
  bool put = false;
  std::string target{};  // "/bucket/key?query", encoded
  uint64_t size = 0, offset = 0;
  uint32_t cookie = 0;
  uint32_t client_sequence = 0;
  PeerToken peer{};
  std::string owner{};  // the principal that signed
  Payer payer{};
};

// Memory of a PUT: a lease of the arena, whose pages are there and pinned already, or, where it is larger than a lease,
// a mapping of its own. A lease has other transfers' bytes until all of it has been written: peers may write into it,
// and never read. Its region ends before its bytes are given back.
class Staging {
 public:
  Staging() = default;
  explicit Staging(memory::Lease lease) : memory_(lease.bytes()), lease_(std::move(lease)) {}
  Staging(MutableBytes mapped, memory::Charge charge) : memory_(mapped), charge_(std::move(charge)) {}
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&& other) noexcept;
  ~Staging();
  static Result<Staging> make(memory::Arena& arena, std::string_view address, uint64_t size);  // too_large, slow_down

  MutableBytes bytes() const { return memory_; }
  Region* region() const { return region_.get(); }
  Result<void> expose(Domain& domain);
  void conceal() { region_.reset(); }
  // After conceal(). Empty: it is a mapping, and stays here.
  memory::Lease take_lease();

 private:
  MutableBytes memory_;
  memory::Lease lease_;    // empty: memory_ is mapped
  memory::Charge charge_;  // of the mapping
  std::unique_ptr<Region> region_;
};

struct Session {
  std::string id;  // 32 hexadecimal digits
  SessionRequest asked;
  Gid peer_gid{}, own_gid{};
  uint32_t own_sequence = 0;
  uint32_t connected_to = 0;  // the client's queue pair; 0: of none yet
  Places::Place place;
  // Destroyed from the last to the first:
  std::unique_ptr<Domain> domain;  // of a PUT
  Staging staging;                 // likewise
  std::unique_ptr<QueuePair> pair;
};
using SessionPtr = std::shared_ptr<Session>;

// Thread-safe.
class Sessions {
 public:
  struct Options {
    Places::Limits places{};
    uint64_t staging_size_max = 64 * MiB;
    std::chrono::milliseconds prepared_for{10'000};  // until READY
  };
  Sessions(Endpoint& endpoint, const Options& options);

  const Options& options() const { return options_; }

  // After Endpoint::open(). Connected already if the token names a queue pair: a client may write before its READY is
  // served, and packets to a pair that is not connected are lost, sent again a timeout (67 ms) later. too_large: a PUT
  // above staging_size_max; slow_down: no place, or no memory for it now; rdma_not_supported: a peer that is refused;
  // and connect()'s.
  Task<Result<SessionPtr>> prepare(SessionRequest asked);
  // For READY, once: no_such_entity (unknown, late, or another caller's), conditional_conflict (a transfer is under
  // way), access_denied: another cookie, which ends the session.
  Result<SessionPtr> claim(std::string_view id, std::string_view owner, uint32_t cookie);
  // The peer's queue pair, from READY. rdma_transfer_failed; unsupported: the port has changed since; invalid_argument:
  // another one than PREPARE's token named.
  Task<Result<void>> connect(SessionPtr session, uint32_t queue_pair);
  // After claim(): forgets the session and destroys what it still holds.
  void end(SessionPtr session);
  // A session that is gone, or another caller's, is no error. conditional_conflict: a transfer is under way.
  Result<void> cancel(std::string_view id, std::string_view owner);
  // Ends those whose READY is late.
  void reap(Deadline now);
  size_t count();

 private:
  struct Entry {
    SessionPtr session;
    Deadline ready_by;
    bool transferring = false;
  };
  Result<void> fill(Session& session);
  Result<void> connect_now(Session& session, uint32_t queue_pair);
  static Result<void> check_own_gid(const Session& session, const Gid& own);

  Endpoint& endpoint_;
  Options options_;
  Places places_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> all_;  // by id
};

// The queue pair's own first packet sequence number: random, not 0.
uint32_t random_sequence();
// 32 hexadecimal digits.
std::string random_session_id();

}  // namespace verbena::rdma::rc
