#include "http/connection_room.h"

namespace verbena::http {
namespace {

struct Held {
  std::shared_ptr<std::atomic<size_t>> open;
  ClientCounts::Hold client;
  Held(std::shared_ptr<std::atomic<size_t>> all, ClientCounts::Hold of_client)
      : open(std::move(all)), client(std::move(of_client)) {}
  Held(const Held&) = delete;
  ~Held() { open->fetch_sub(1, std::memory_order_relaxed); }
};

metrics::Counter& refused(const std::string& door, const char* limit) {
  return metrics::counter("verbena_http_connections_refused_total", "HTTP connections over a limit",
                          {{"door", door}, {"limit", limit}});
}

}  // namespace

ConnectionRoom::ConnectionRoom(Limits limits, const std::string& door)
    : limits_(limits),
      clients_({.each_max = limits.client_max, .clients_max = 0}),
      open_(std::make_shared<std::atomic<size_t>>(0)),
      refused_full_(refused(door, "all")),
      refused_client_(refused(door, "client")) {}

ConnectionRoom::Need ConnectionRoom::need() const {
  const size_t taken = open(), most = limits_.connections_max - limits_.reserved;
  if (taken >= most) return Need::full;
  return taken + margin() > most ? Need::near : Need::none;
}

ConnectionRoom::Yielding ConnectionRoom::add(Yield yield) {
  const std::lock_guard lock(listeners_->mutex);
  const auto place = listeners_->yields.insert(listeners_->yields.end(), std::move(yield));
  return std::shared_ptr<const void>(nullptr, [listeners = listeners_, place](const void*) {
    const std::lock_guard unlocked(listeners->mutex);
    listeners->yields.erase(place);
  });
}

// Places become free a moment later: connections that arrive meanwhile do not trigger another request.
void ConnectionRoom::ask_for_places() {
  constexpr std::chrono::milliseconds moment{2};
  const Need need = this->need();
  if (need == Need::none) return;
  const auto now = SteadyClock::now().time_since_epoch().count();
  auto asked_at = asked_at_.load(std::memory_order_relaxed);
  if (now - asked_at < std::chrono::nanoseconds(moment).count()) return;
  if (!asked_at_.compare_exchange_strong(asked_at, now, std::memory_order_relaxed)) return;
  const std::lock_guard lock(listeners_->mutex);
  const size_t each = margin() / std::max<size_t>(listeners_->yields.size(), 1) + 1;
  for (const Yield& yield : listeners_->yields) yield(each, need);
}

ConnectionRoom::Place ConnectionRoom::enter(std::string_view address) {
  const std::string client = client_of(address);
  const size_t most = is_loopback_client(client) ? limits_.connections_max : limits_.connections_max - limits_.reserved;
  // The table of clients is bounded by the number of connections.
  if (open_->fetch_add(1, std::memory_order_relaxed) >= most) {
    open_->fetch_sub(1, std::memory_order_relaxed);
    refused_full_.add();
    return nullptr;
  }
  auto hold = clients_.try_hold(client);
  if (hold == nullptr) {
    open_->fetch_sub(1, std::memory_order_relaxed);
    refused_client_.add();
    return nullptr;
  }
  return std::make_shared<const Held>(open_, std::move(hold));
}

}  // namespace verbena::http
