// The limits of a door's connections: in all, per client, and some reserved for this host. Shared by all listeners of a
// door; another door has its own. Before the last places are taken, the listeners are asked to close the connections
// that have shown least activity.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/client_counts.h"
#include "base/clock.h"
#include "base/metrics.h"

namespace verbena::http {

// Thread-safe.
class ConnectionRoom {
 public:
  struct Limits {
    size_t connections_max = 10'000;
    size_t client_max = 0;  // of one address or IPv6 /64; 0: no limit
    // Part of connections_max for loopback clients alone, so that an operator on the machine can always connect.
    size_t reserved = 0;
  };
  // `door`: the metrics' label.
  ConnectionRoom(Limits limits, const std::string& door);

  // A connection from that address, until it is destroyed. null: refused, and counted.
  using Place = std::shared_ptr<const void>;
  Place enter(std::string_view address);
  size_t open() const { return open_->load(std::memory_order_relaxed); }

  // How urgent the request is: `near` while there are places left, `full` instead of a refusal.
  enum class Need : uint8_t { none, near, full };
  Need need() const;
  // Asks one listener, from any thread, to close about that many connections.
  using Yield = std::function<void(size_t count, Need need)>;
  using Yielding = std::shared_ptr<const void>;
  [[nodiscard]] Yielding add(Yield yield);  // until it is destroyed
  // Asks all listeners, unless that was done a moment ago.
  void ask_for_places();

 private:
  struct Listeners {
    std::mutex mutex;
    std::list<Yield> yields;
  };
  size_t margin() const { return limits_.connections_max / 16; }
  const Limits limits_;
  ClientCounts clients_;
  const std::shared_ptr<std::atomic<size_t>> open_;
  const std::shared_ptr<Listeners> listeners_ = std::make_shared<Listeners>();
  std::atomic<Deadline::rep> asked_at_{0};
  metrics::Counter& refused_full_;
  metrics::Counter& refused_client_;
};

}  // namespace verbena::http
