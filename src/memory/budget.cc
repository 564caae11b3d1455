#include "memory/budget.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <bit>

#include "base/client_counts.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "memory/arena.h"

namespace verbena::memory {
namespace {

namespace asio = boost::asio;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds lease_again_after{5};

// Adds `bytes` unless that would exceed `most`.
bool add_below(std::atomic<size_t>& sum, size_t bytes, size_t most) {
  size_t now = sum.load();
  while (now + bytes <= most) {
    if (sum.compare_exchange_weak(now, now + bytes)) return true;
  }
  return false;
}

metrics::Counter& refused(const char* reason) {
  return metrics::counter("verbena_memory_refusals_total", "Requests that were given no memory", {{"reason", reason}});
}

metrics::Histogram& waited() {
  static auto& histogram =
      metrics::histogram("verbena_queue_wait_seconds", "Waits for a limited resource", {{"queue", "memory"}});
  return histogram;
}

}  // namespace

struct Charge::Peer {
  std::string address;
  std::atomic<size_t> charged{0};
  std::deque<Budget::WaiterPtr> queue;  // guarded by the budget's mutex
};

struct Budget::Waiter {
  Waiter(asio::any_io_executor executor, std::shared_ptr<Peer> of, size_t wanted)
      : peer(std::move(of)), bytes(wanted), timer(std::move(executor)) {}
  const std::shared_ptr<Peer> peer;
  const size_t bytes;
  asio::steady_timer timer;         // used on the waiter's own core
  std::atomic<bool> served{false};  // the bytes are reserved for it
};

void Charge::give_back(size_t bytes) { budget_->give_back(peer_.get(), bytes); }

Budget::Limits Budget::Limits::of(size_t free_bytes, size_t peer_max) {
  Limits limits;
  limits.total_max = std::max(free_bytes / 8 * 5, 2 * chunk_max);
  limits.peer_max = peer_max == 0 ? limits.total_max / 2 : std::clamp(peer_max, chunk_max, limits.total_max);
  limits.small_max = std::max(free_bytes / 8, unit);
  return limits;
}

Budget::Budget(const Limits& limits)
    : limits_(limits),
      waiting_gauge_(metrics::gauge("verbena_memory_waiting", "Transfers that wait for memory")),
      waits_(metrics::counter("verbena_memory_waits_total", "Times that a transfer had to wait for memory")),
      refused_full_(refused("too_many_wait")),
      refused_late_(refused("waited_too_long")) {
  waited();
}

Budget::~Budget() = default;

std::shared_ptr<Budget::Peer> Budget::peer(std::string_view address) {
  std::string name = client_of(address);
  const std::lock_guard lock(mutex_);
  auto& known = peers_[name];
  if (auto found = known.lock()) return found;
  auto forget = [this](Peer* gone) {
    const std::unique_ptr<Peer> owned(gone);
    const std::lock_guard held(mutex_);
    // A new account of the same name may have been made meanwhile.
    if (const auto it = peers_.find(gone->address); it != peers_.end() && it->second.expired()) peers_.erase(it);
  };
  auto made = std::make_unique<Peer>();
  made->address = std::move(name);
  std::shared_ptr<Peer> fresh(made.release(), std::move(forget));
  known = fresh;
  return fresh;
}

size_t Budget::offer(const Peer& peer) const {
  const auto left = [](size_t most, size_t held) { return most > held ? most - held : 0; };
  const size_t of_all = left(limits_.total_max, total_.load(std::memory_order_relaxed));
  const size_t of_peer = left(limits_.peer_max, peer.charged.load(std::memory_order_relaxed));
  return std::bit_floor(std::clamp(std::min(of_all / 64, of_peer / 32), unit, chunk_max));
}

std::optional<Charge> Budget::try_small(size_t bytes) {
  if (!add_below(small_, bytes, limits_.small_max)) return std::nullopt;
  return Charge(this, nullptr, bytes);
}

bool Budget::reserve(Peer& peer, size_t bytes) {
  if (!add_below(peer.charged, bytes, limits_.peer_max)) return false;
  if (add_below(total_, bytes, limits_.total_max)) return true;
  peer.charged.fetch_sub(bytes);
  return false;
}

// Waiters are never overtaken: not by their own peer's requests, and not by any request when everything is taken. The
// order of the two atomics (a waiter counts itself, then reads the sums; a release lowers the sums, then looks for
// waiters) makes sure that one of them sees the other.
std::optional<Charge> Budget::try_take(const std::shared_ptr<Peer>& peer, size_t bytes) {
  if (waiters_.load() == 0) {
    if (reserve(*peer, bytes)) return Charge(this, peer, bytes);
    if (waiters_.load() != 0) serve();  // a waiter may have missed what reserve() took for a moment
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  if (starved_ || !peer->queue.empty() || !reserve(*peer, bytes)) return std::nullopt;
  return Charge(this, peer, bytes);
}

void Budget::give_back(Peer* peer, size_t bytes) {
  if (peer == nullptr) {
    small_.fetch_sub(bytes);
    return;
  }
  peer->charged.fetch_sub(bytes);
  total_.fetch_sub(bytes);
  if (waiters_.load() != 0) serve();
}

bool Budget::enqueue(const WaiterPtr& waiter) {
  std::vector<WaiterPtr> served;
  {
    const std::lock_guard lock(mutex_);
    Peer* peer = waiter->peer.get();
    if (waiters_.load() >= limits_.waiters_max || peer->queue.size() >= limits_.peer_waiters_max) return false;
    waiters_.fetch_add(1);
    if (peer->queue.empty()) ring_.push_back(peer);
    peer->queue.push_back(waiter);
    served = serve_locked();  // with bytes released before it was counted
  }
  wake(served);
  return true;
}

void Budget::serve() {
  std::vector<WaiterPtr> served;
  {
    const std::lock_guard lock(mutex_);
    served = serve_locked();
  }
  wake(served);
}

// Serves peers in turn; those at their own limit are skipped. The first request that does not fit the total ends it:
// smaller ones must not overtake it for ever.
std::vector<Budget::WaiterPtr> Budget::serve_locked() {
  std::vector<WaiterPtr> served;
  starved_ = false;
  for (size_t barren = 0; barren < ring_.size();) {
    Peer* peer = ring_.front();
    const WaiterPtr first = peer->queue.front();
    if (!add_below(peer->charged, first->bytes, limits_.peer_max)) {
      ring_.pop_front();
      ring_.push_back(peer);
      ++barren;
      continue;
    }
    if (!add_below(total_, first->bytes, limits_.total_max)) {
      peer->charged.fetch_sub(first->bytes);
      starved_ = true;
      break;
    }
    barren = 0;
    peer->queue.pop_front();
    ring_.pop_front();
    if (!peer->queue.empty()) ring_.push_back(peer);
    first->served = true;
    waiters_.fetch_sub(1);
    served.push_back(first);
  }
  return served;
}

void Budget::wake(const std::vector<WaiterPtr>& served) {
  for (const WaiterPtr& waiter : served) {
    asio::post(waiter->timer.get_executor(), [waiter] { waiter->timer.cancel(); });
  }
}

// Removes a waiter. Bytes reserved for it meanwhile are returned.
void Budget::leave(const WaiterPtr& waiter) {
  std::vector<WaiterPtr> served;
  {
    const std::lock_guard lock(mutex_);
    if (!waiter->served) {
      Peer* peer = waiter->peer.get();
      std::erase(peer->queue, waiter);
      if (peer->queue.empty()) std::erase(ring_, peer);
      waiters_.fetch_sub(1);
      served = serve_locked();  // it may have blocked all others
    }
  }
  wake(served);
  if (waiter->served) give_back(waiter->peer.get(), waiter->bytes);
}

Task<Result<Charge>> Budget::wait(std::shared_ptr<Peer> peer, size_t bytes) {
  const auto waiter = std::make_shared<Waiter>(co_await asio::this_coro::executor, std::move(peer), bytes);
  waits_.add();
  if (!enqueue(waiter)) {
    refused_full_.add();
    co_return fail(Errc::slow_down, "memory: too many transfers wait for it");
  }
  // Runs also when the coroutine is destroyed while it waits.
  struct Leaving {
    Budget& budget;
    WaiterPtr waiter;
    ~Leaving() {
      budget.waiting_gauge_.add(-1);
      if (waiter) budget.leave(waiter);
    }
  } leaving{*this, waiter};
  waiting_gauge_.add(1);
  const metrics::Timer timer(waited());
  waiter->timer.expires_at(deadline_in(limits_.wait_max));
  while (!waiter->served) {
    const auto [ec] = co_await waiter->timer.async_wait(use_tuple);
    if (!ec) break;
  }
  if (!waiter->served) {
    refused_late_.add();
    co_return fail(Errc::slow_down, "memory: waited too long for it");
  }
  leaving.waiter.reset();
  co_return Charge(this, waiter->peer, bytes);
}

Share::Share(Arena& arena, std::string_view peer, std::optional<uint64_t> size)
    : arena_(arena), budget_(arena.budget()), address_(peer), small_(size && *size <= Budget::unit) {}

const std::shared_ptr<Charge::Peer>& Share::account() {
  if (!account_) account_ = budget_.peer(address_);
  return account_;
}

size_t Share::offer() { return small_ ? Budget::unit : budget_.offer(*account()); }

std::optional<Charge> Share::try_take(size_t wanted) {
  if (small_) {
    if (auto charged = budget_.try_small(Arena::class_size(std::min(wanted, Budget::unit)))) return charged;
  }
  const auto& peer = account();
  return budget_.try_take(peer, Arena::class_size(std::min(wanted, budget_.offer(*peer))));
}

Task<Result<Charge>> Share::take(size_t wanted) {
  if (auto charged = try_take(wanted)) co_return std::move(*charged);
  co_return co_await budget_.wait(account(), Arena::class_size(std::min(wanted, Budget::unit)));
}

std::optional<Charge> Share::try_whole(size_t bytes) {
  if (small_) {
    if (auto charged = budget_.try_small(bytes)) return charged;
  }
  return budget_.try_take(account(), std::min(bytes, budget_.limits().peer_max));
}

Task<Result<Charge>> Share::take_whole(size_t bytes) {
  if (auto charged = try_whole(bytes)) co_return std::move(*charged);
  co_return co_await budget_.wait(account(), std::min(bytes, budget_.limits().peer_max));
}

Task<Result<Lease>> Share::lease(size_t wanted) {
  const Deadline end = deadline_in(budget_.limits().wait_max);
  for (;;) {
    VB_CO_ASSIGN(Charge charge, co_await take(wanted));
    auto leased = arena_.lease(std::min(wanted, charge.bytes()));
    if (leased) {
      leased->attach(std::move(charge));
      co_return leased;
    }
    if (leased.error() != Errc::slow_down || SteadyClock::now() >= end) co_return leased;
    // Charged, but the free parts of the arena are too small, or uncharged leases hold them: try the smallest size, a
    // little later.
    charge.release();
    wanted = std::min(wanted, Budget::unit);
    asio::steady_timer pause(co_await asio::this_coro::executor, lease_again_after);
    co_await pause.async_wait(use_tuple);
  }
}

}  // namespace verbena::memory
