// A bounded number of places: in all, for each account, for each client's address, and for calls that are not signed.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/client_counts.h"
#include "base/metrics.h"
#include "base/result.h"

namespace verbena::rdma::rc {

// What a place is charged to. Names that a client can choose, as a role session's, are no part of it.
struct Payer {
  std::string account{};  // its id; empty: the call is not signed
  std::string address{};  // of the HTTP peer
};

class Places {
 public:
  struct Limits {
    size_t all_max = 1024, account_max = 64;
    size_t client_max = 512;         // from one client's address (client_of), whatever its accounts
    size_t unsigned_max = 128;       // not signed, in all
    size_t unsigned_client_max = 8;  // not signed, from one client's address
  };
  Places(const Limits& limits, metrics::Gauge& taken)
      : all_({.each_max = limits.all_max}),
        accounts_({.each_max = limits.account_max}),
        clients_({.each_max = limits.client_max}),
        unsigned_({.each_max = limits.unsigned_max}),
        unsigned_clients_({.each_max = limits.unsigned_client_max}),
        taken_(taken) {}

  // Given back when the last copy is gone.
  using Place = std::shared_ptr<const void>;
  // slow_down: none is free.
  Result<Place> take(const Payer& payer);

 private:
  struct Taken {
    explicit Taken(metrics::Gauge& g) : gauge(g) { gauge.add(1); }
    Taken(const Taken&) = delete;
    ~Taken() { gauge.add(-1); }
    metrics::Gauge& gauge;
    ClientCounts::Hold of_all, of_client, of_account;
  };
  ClientCounts all_, accounts_, clients_, unsigned_, unsigned_clients_;
  metrics::Gauge& taken_;
};

inline Result<Places::Place> Places::take(const Payer& payer) {
  const std::string client = client_of(payer.address);
  const bool is_signed = !payer.account.empty();
  auto taken = std::make_shared<Taken>(taken_);
  taken->of_client = is_signed ? clients_.try_hold(client) : unsigned_clients_.try_hold(client);
  if (taken->of_client == nullptr) return fail(Errc::slow_down, "queue pairs: too many from this address");
  taken->of_account = is_signed ? accounts_.try_hold(payer.account) : unsigned_.try_hold("");
  if (taken->of_account == nullptr) return fail(Errc::slow_down, "queue pairs: too many of this account");
  taken->of_all = all_.try_hold("");
  if (taken->of_all == nullptr) return fail(Errc::slow_down, "queue pairs: too many");
  return Place(std::move(taken));
}

}  // namespace verbena::rdma::rc
