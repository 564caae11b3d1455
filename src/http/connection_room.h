// How many connections a door takes: in all, from one client, and some that are kept for this host. One for all
// listeners of a door, so that a door that is full leaves the others open.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/client_counts.h"
#include "base/metrics.h"

namespace verbena::http {

// Thread-safe.
class ConnectionRoom {
 public:
  struct Limits {
    size_t connections_max = 10'000;
    size_t client_max = 0;  // of one address or IPv6 /64; 0: no limit
    // Of connections_max: for clients of loopback alone, so that whoever sits at the machine gets in.
    size_t reserved = 0;
  };
  // `door`: the metrics' label.
  ConnectionRoom(Limits limits, const std::string& door);

  // A connection from that address, until it is destroyed. null: no room for it; counted.
  using Place = std::shared_ptr<const void>;
  Place enter(std::string_view address);
  size_t open() const { return open_->load(std::memory_order_relaxed); }

 private:
  const Limits limits_;
  ClientCounts clients_;
  const std::shared_ptr<std::atomic<size_t>> open_;
  metrics::Counter& refused_full_;
  metrics::Counter& refused_client_;
};

}  // namespace verbena::http
