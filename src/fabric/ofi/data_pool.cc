#include "fabric/ofi/data_pool.h"

#include <algorithm>

#include "base/client_counts.h"
#include "base/fair_share.h"
#include "base/log.h"
#include "fabric/ofi/address.h"
#include "fabric/ofi/metrics.h"
#include "fabric/ofi/window.h"

namespace verbena::fabric::ofi {
namespace {

constexpr auto scan_every = std::chrono::milliseconds(1);
constexpr auto idle_scan_every = std::chrono::milliseconds(250);
constexpr unsigned attempts_max = 8;

const char* failure_reason(const Error& error) {
  if (error.code == Errc::closed) return "closed";
  if (error.code == Errc::cancelled) return "peer_removed";
  return error.sys == FI_ETIMEDOUT ? "deadline" : "failed";
}

std::string key_of(DataPool::Lender lender, std::string_view name) {
  return static_cast<char>(lender) + std::string(name);
}

DataPool::Lender lender_of(const DataPeer& peer) { return static_cast<DataPool::Lender>(peer.key.front()); }

bool serves(const DataEndpoint& endpoint, DataPool::Lender lender) {
  return !endpoint.peers().empty() && lender_of(*endpoint.peers().front()) == lender;
}

std::string client_at(std::string_view name) {
  const auto socket = decode_socket_name(name);
  return socket ? client_of(socket->ip.to_string()) : std::string(name);
}

bool serves_client(const DataEndpoint& endpoint, const DataPeer& of) {
  return std::ranges::any_of(endpoint.peers(), [&](const auto& peer) { return peer->client == of.client; });
}

}  // namespace

DataPool::DataPool(Core& core, Domain& domain, const memory::Arena& arena, const Options& options, size_t depth)
    : core_(core), domain_(domain), arena_(arena), options_(options), depth_(depth) {
  // The bytes of a closed TCP connection are in the owner's kernel, where waiting does not help: Lent::revoke() drops
  // them.
  if (!domain.is_tcp()) settle_ = options.settle;
}

DataPool::~DataPool() { close(); }

Result<std::unique_ptr<Window>> DataPool::open_window(Lender lender, std::string_view name,
                                                      const WindowDescriptor& lent, Access access) {
  if (closed_) return fail(Errc::closed, "fabric");
  if (lent.base + lent.size < lent.base) return fail(Errc::invalid_rdma_token, "window: base + size overflows");
  std::string key = key_of(lender, name);
  auto& peer = peers_[key];
  if (!peer) {
    peer = std::make_shared<DataPeer>();
    peer->key = std::move(key);
    peer->name = name;
    peer->client = client_at(name);
  }
  // Bound now, so that a full pool is detected before anything else is done for the request.
  const std::shared_ptr<DataPeer> kept = peer;
  ++kept->windows;
  if (const auto bound = bind(kept); !bound) {
    close_window(kept);
    return std::unexpected(bound.error());
  }
  DataMetrics::of_process().windows.add();
  return std::make_unique<PoolWindow>(self_, kept, lent, access);
}

void DataPool::close_window(const std::shared_ptr<DataPeer>& peer) {
  --peer->windows;
  peer->used_at = SteadyClock::now();
  if (peer->windows == 0 && peer->endpoint == nullptr) peers_.erase(peer->key);
}

void DataPool::forget_session(std::string_view name) {
  const auto it = peers_.find(key_of(Lender::session, name));
  if (it == peers_.end()) return;
  const auto peer = it->second;
  const Error removed{Errc::cancelled, 0, "fabric: the peer was removed"};
  fail_waiting(*peer, removed);
  if (peer->endpoint == nullptr) return;
  DataEndpoint& endpoint = *peer->endpoint;
  const bool idle = endpoint.fail_peer(*peer, removed);
  if (!idle || endpoint.peers().size() == 1) recycle(endpoint, "peer_removed");
}

Result<void> DataPool::bind(const std::shared_ptr<DataPeer>& peer) {
  peer->used_at = SteadyClock::now();
  if (peer->endpoint != nullptr) return {};
  const Lender lender = lender_of(*peer);
  const auto any = [](const DataEndpoint&) { return true; };
  const auto of_tokens = [](const DataEndpoint& one) { return serves(one, Lender::token); };
  const auto of_lender = [lender](const DataEndpoint& one) { return serves(one, lender); };
  const auto of_client = [&](const DataEndpoint& one) { return serves(one, lender) && serves_client(one, *peer); };
  const Part part = lender == Lender::session ? part_of(*peer) : Part{};
  if (part.has_its_peers && !drop_least_used(of_client)) {
    return fail(Errc::slow_down, "fabric: this client's sessions have their part of the data endpoints");
  }
  // Who has its part of the endpoints shares them, as long as they have room.
  DataEndpoint* endpoint = part.has_its_endpoints ? room_for_one_more(of_client) : nullptr;
  const bool only_of_tokens = lender == Lender::token && tokens_have_their_part();
  const bool may_open = !only_of_tokens && endpoints_.size() < options_.data_endpoints_max;
  const auto drops = [&] { return only_of_tokens ? drop_least_used(of_tokens) : drop_least_used(any); };
  if (endpoint == nullptr && (may_open || drops())) {
    VB_ASSIGN(auto opened, DataEndpoint::open(domain_, depth_, settle_, core_.io()));
    endpoint = endpoints_.emplace_back(std::move(opened)).get();
    DataMetrics::of_process().endpoints_opened.add();
    DataMetrics::of_process().endpoints.add(1);
  } else if (endpoint == nullptr) {
    endpoint = room_for_one_more(of_lender);
  }
  if (endpoint == nullptr) return fail(Errc::slow_down, "fabric: every data endpoint is taken");
  peer->connect_by = deadline_in(options_.connect_deadline);
  return endpoint->add_peer(peer);
}

bool DataPool::tokens_have_their_part() const {
  const auto of_tokens = std::ranges::count_if(endpoints_, [](const auto& one) { return serves(*one, Lender::token); });
  return static_cast<size_t>(of_tokens) >= options_.data_endpoints_max - options_.data_endpoints_max / 4;
}

// A client's sessions name any ports, so it may have any number of peers. What others had and use no more is not
// counted: it is dropped where it is needed.
DataPool::Part DataPool::part_of(const DataPeer& peer) const {
  uint64_t endpoints = 0, own_endpoints = 0, peers = 0, own_peers = 0;
  for (const auto& one : endpoints_) {
    uint64_t used = 0, own = 0;
    for (const auto& at : one->peers()) {
      if (at->endpoint != one.get()) continue;
      if (at->client == peer.client) {
        ++own;
      } else if (at->windows != 0) {
        ++used;
      }
    }
    const bool is_own = own != 0 && serves(*one, Lender::session);
    own_endpoints += is_own ? 1 : 0;
    endpoints += is_own || used != 0 ? 1 : 0;
    if (!serves(*one, Lender::session)) continue;
    own_peers += own;
    peers += own + used;
  }
  const uint64_t most = options_.data_endpoints_max;
  return {
      .has_its_endpoints = own_endpoints != 0 && !fits_fair_share(endpoints, own_endpoints, 1, most),
      .has_its_peers = own_peers != 0 && !fits_fair_share(peers, own_peers, 1, most * DataEndpoint::peers_max),
  };
}

// Peers share an endpoint only at a limit: an idle one is dropped first.
DataEndpoint* DataPool::room_for_one_more(const Among& among) {
  DataEndpoint* best = nullptr;
  for (const auto& endpoint : endpoints_) {
    if (!endpoint->has_room() || !among(*endpoint)) continue;
    if (best == nullptr || (best->busy() && !endpoint->busy()) ||
        (best->busy() == endpoint->busy() && endpoint->peers().size() < best->peers().size())) {
      best = endpoint.get();
    }
  }
  return best;
}

// Closes the least recently used endpoint without open windows.
bool DataPool::drop_least_used(const Among& among) {
  DataEndpoint* oldest = nullptr;
  SteadyClock::time_point oldest_at = SteadyClock::time_point::max();
  for (const auto& endpoint : endpoints_) {
    if (!among(*endpoint)) continue;
    SteadyClock::time_point used_at{};
    bool idle = !endpoint->busy();
    for (const auto& peer : endpoint->peers()) {
      if (peer->endpoint != endpoint.get()) continue;
      idle = idle && peer->windows == 0;
      used_at = std::max(used_at, peer->used_at);
    }
    if (idle && used_at < oldest_at) {
      oldest = endpoint.get();
      oldest_at = used_at;
    }
  }
  if (oldest == nullptr) return false;
  recycle(*oldest, "least_used");
  return true;
}

bool DataPool::fits(const DataPeer& peer, const Transfer& transfer) const {
  return peer.bytes_in_flight == 0 || peer.bytes_in_flight + transfer.size <= options_.transfer_bytes_per_peer_max;
}

Result<void> DataPool::start(Transfer& transfer) {
  if (closed_) return fail(Errc::closed, "fabric");
  DataPeer& peer = *transfer.peer;
  transfer.deadline = std::min(transfer.deadline, deadline_in(options_.operation_deadline));
  if (!peer.waiting.empty() || !fits(peer, transfer)) {
    peer.waiting.push_back(&transfer);
    ++waiting_;
    return {};
  }
  forget_hung_up(transfer.peer);
  VB_TRY(bind(transfer.peer));
  begin(transfer);
  return {};
}

// The provider notices only when asked that an owner has hung up since the last transfer. If asked first, it connects
// again; else this transfer would be the one that fails.
void DataPool::forget_hung_up(const std::shared_ptr<DataPeer>& peer) {
  DataEndpoint* endpoint = peer->endpoint;
  if (endpoint == nullptr || endpoint->busy()) return;
  size_t events = 0;
  if (!endpoint->progress(done_, events)) recycle(*endpoint, "failed");
}

// The peer is bound.
void DataPool::begin(Transfer& transfer) {
  DataPeer& peer = *transfer.peer;
  if (!peer.connected && peer.bytes_in_flight == 0) peer.connect_by = deadline_in(options_.connect_deadline);
  peer.bytes_in_flight += transfer.size;
  ++transfers_;
  peer.endpoint->start(transfer);
}

// Begins waiting transfers after some of the peer's bytes in flight have ended.
void DataPool::begin_waiting(DataPeer& peer) {
  while (!peer.waiting.empty() && fits(peer, *peer.waiting.front())) {
    Transfer& next = *peer.waiting.front();
    peer.waiting.pop_front();
    --waiting_;
    Result<void> bound;
    if (closed_) {
      bound = fail(Errc::closed, "fabric");
    } else {
      bound = bind(next.peer);
    }
    if (bound) {
      begin(next);
      continue;
    }
    end_unbegun(next, bound);
  }
}

// Ends a transfer of which nothing was posted. It is resumed like the others.
void DataPool::end_unbegun(Transfer& transfer, const Result<void>& outcome) {
  transfer.outcome = outcome;
  transfer.peer->bytes_in_flight += transfer.size;
  ++transfers_;
  done_.push_back(&transfer);
}

void DataPool::fail_waiting(DataPeer& peer, const Error& error) {
  while (!peer.waiting.empty()) {
    Transfer& transfer = *peer.waiting.front();
    peer.waiting.pop_front();
    --waiting_;
    end_unbegun(transfer, std::unexpected(error));
  }
}

// Waiting transfers have deadlines of their own: the peer's operations in flight may use theirs in full.
void DataPool::expire_waiting(SteadyClock::time_point now) {
  const Error late{Errc::rdma_transfer_failed, FI_ETIMEDOUT, "fabric: waited too long for the peer's other operations"};
  for (const auto& [key, peer] : peers_) {
    waiting_ -= std::erase_if(peer->waiting, [&](Transfer* transfer) {
      if (now < transfer->deadline) return false;
      end_unbegun(*transfer, std::unexpected(late));
      return true;
    });
  }
}

size_t DataPool::poll() {
  if (closed_) return 0;
  size_t events = 0;
  if (transfers_ != 0) {
    std::vector<DataEndpoint*> broken;
    for (const auto& endpoint : endpoints_) {
      if (endpoint->busy() && !endpoint->progress(done_, events)) broken.push_back(endpoint.get());
    }
    recycle_all(broken, "failed");
  }
  const auto now = SteadyClock::now();
  if (now >= next_scan_) scan(now);
  if (!settling_.empty()) take_settled(now);
  events += done_.size();
  resume_finished();
  return events;
}

void DataPool::scan(SteadyClock::time_point now) {
  next_scan_ = now + scan_every;
  std::vector<DataEndpoint*> late;
  for (const auto& endpoint : endpoints_) {
    if (endpoint->busy() && !endpoint->check_deadlines(now)) late.push_back(endpoint.get());
  }
  recycle_all(late, "deadline");
  if (waiting_ != 0) expire_waiting(now);
  if (now < next_idle_scan_) return;
  next_idle_scan_ = now + idle_scan_every;
  std::vector<DataEndpoint*> idle;
  for (const auto& endpoint : endpoints_) {
    if (endpoint->busy()) continue;
    size_t events = 0;
    // For providers with an event queue per endpoint (rxm) this is the only way to notice that a peer is gone.
    if (!domain_.is_tcp()) endpoint->progress(done_, events);
    const bool unused = std::ranges::all_of(endpoint->peers(), [&](const auto& peer) {
      return peer->endpoint != endpoint.get() || (peer->windows == 0 && now - peer->used_at > options_.idle_peer_keep);
    });
    if (unused) idle.push_back(endpoint.get());
  }
  recycle_all(idle, "idle");
}

void DataPool::take_settled(SteadyClock::time_point now) {
  std::erase_if(settling_, [this, now](Transfer* transfer) {
    if (now < transfer->settled_at) return false;
    done_.push_back(transfer);
    return true;
  });
}

void DataPool::recycle(DataEndpoint& endpoint, const char* reason) { restart(retire(endpoint, reason)); }

// All are closed before a transfer of one begins anew, which may open endpoints and close others.
void DataPool::recycle_all(const std::vector<DataEndpoint*>& endpoints, const char* reason) {
  std::vector<Transfer*> under_way;
  for (DataEndpoint* const endpoint : endpoints) {
    const auto transfers = retire(*endpoint, reason);
    under_way.insert(under_way.end(), transfers.begin(), transfers.end());
  }
  restart(std::move(under_way));
}

// Closes the endpoint. Returns its transfers.
std::vector<Transfer*> DataPool::retire(DataEndpoint& endpoint, const char* reason) {
  const auto it = std::find_if(endpoints_.begin(), endpoints_.end(),
                               [&endpoint](const auto& owned) { return owned.get() == &endpoint; });
  const std::unique_ptr<DataEndpoint> owner = std::move(*it);
  endpoints_.erase(it);
  endpoints_recycled(reason).add();
  DataMetrics::of_process().endpoints.add(-1);
  auto under_way = owner->close(done_);
  for (const auto& peer : owner->peers()) {
    if (peer->endpoint != owner.get()) continue;
    peer->endpoint = nullptr;
    if (peer->windows == 0) peers_.erase(peer->key);
  }
  return under_way;
}

// Transfers that caused the failure end with their error; the others start over on another endpoint (writing the same
// bytes again, or reading into the same memory, is harmless). Not so writes over tcp of which something has left: those
// bytes are in the owner's kernel and may land after the answer, unless the owner is told of a failure and cuts the
// connection. (Devices: such a result waits until nothing can land, DataEndpoint::close().)
void DataPool::restart(std::vector<Transfer*> transfers) {
  const auto now = SteadyClock::now();
  for (Transfer* transfer : transfers) {
    if (!transfer->outcome) {
      done_.push_back(transfer);
      continue;
    }
    if (domain_.is_tcp() && transfer->is_write && transfer->posted != 0) {
      transfer->outcome = fail(Errc::rdma_transfer_failed, "fabric: its connection was closed for another transfer");
      done_.push_back(transfer);
      continue;
    }
    if (transfer->fence != Transfer::Fence::none) transfer->fence = Transfer::Fence::wanted;
    transfer->posted = 0;
    transfer->completed = 0;
    transfer->chunks = 0;
    Result<void> bound;
    if (closed_) {
      bound = fail(Errc::closed, "fabric");
    } else if (++transfer->attempts > attempts_max || now >= transfer->deadline) {
      bound = fail(Errc::rdma_transfer_failed, "fabric: its data endpoint was recycled too often");
    } else {
      bound = bind(transfer->peer);
    }
    if (bound) {
      transfer->peer->endpoint->start(*transfer);
    } else {
      transfer->outcome = bound;
      done_.push_back(transfer);
    }
  }
}

// Last step of a poll: a resumed coroutine may call anything here.
void DataPool::resume_finished() {
  while (!done_.empty()) {
    std::vector<Transfer*> finished;
    finished.swap(done_);
    const auto now = SteadyClock::now();
    for (Transfer* transfer : finished) {
      if (now < transfer->settled_at && !closed_) {
        settling_.push_back(transfer);
        continue;
      }
      auto& metrics = DataMetrics::of_process();
      if (transfer->outcome) {
        (transfer->is_write ? metrics.writes : metrics.reads).add();
        (transfer->is_write ? metrics.written_bytes : metrics.read_bytes).add(transfer->size);
      } else {
        operation_failures(failure_reason(transfer->outcome.error())).add();
      }
      const std::shared_ptr<DataPeer> peer = transfer->peer;
      peer->bytes_in_flight -= transfer->size;
      --transfers_;
      if (!peer->waiting.empty()) begin_waiting(*peer);
      // The transfer is in the frame that this resumes.
      auto handler = std::move(*transfer->handler);
      const Result<void> outcome = transfer->outcome;
      handler(outcome);
    }
  }
}

bool DataPool::arm() {
  if (transfers_ == 0) return true;
  return std::all_of(endpoints_.begin(), endpoints_.end(), [](const auto& endpoint) { return endpoint->arm(); });
}

void DataPool::close() {
  if (closed_) return;
  closed_ = true;
  *self_ = nullptr;
  for (const auto& [key, peer] : peers_) fail_waiting(*peer, {Errc::closed, 0, "fabric: closed"});
  for (const auto& endpoint : endpoints_) {
    for (const auto& peer : endpoint->peers()) {
      endpoint->fail_peer(*peer, Error{Errc::closed, 0, "fabric: closed with operations in flight"});
    }
  }
  while (!endpoints_.empty()) recycle(*endpoints_.back(), "closed");
  // No answer leaves this core any more.
  done_.insert(done_.end(), settling_.begin(), settling_.end());
  settling_.clear();
  resume_finished();
}

}  // namespace verbena::fabric::ofi
