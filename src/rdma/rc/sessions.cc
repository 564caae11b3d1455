#include "rdma/rc/sessions.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/hex.h"
#include "memory/budget.h"

namespace verbena::rdma::rc {
namespace {

metrics::Gauge& session_gauge() {
  return metrics::gauge("verbena_rdma_rc_sessions", "Sessions of hipobj-rc-v2: prepared, or transferring");
}

}  // namespace

uint32_t random_sequence() {
  for (;;) {
    std::array<std::byte, 4> bytes;
    fill_random(bytes);
    uint32_t value = 0;
    for (const std::byte b : bytes) value = value << 8 | std::to_integer<uint32_t>(b);
    if ((value & number_max) != 0) return value & number_max;
  }
}

std::string random_session_id() {
  std::array<std::byte, 16> bytes;
  fill_random(bytes);
  return to_hex(bytes);
}

Staging::Staging(Staging&& other) noexcept
    : memory_(std::exchange(other.memory_, {})),
      lease_(std::move(other.lease_)),
      charge_(std::move(other.charge_)),
      region_(std::move(other.region_)) {}

Staging& Staging::operator=(Staging&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(lease_, other.lease_);
  std::swap(charge_, other.charge_);
  std::swap(region_, other.region_);
  return *this;
}

Staging::~Staging() {
  region_.reset();
  if (!memory_.empty() && !lease_) munmap(memory_.data(), memory_.size());
}

memory::Lease Staging::take_lease() {
  if (lease_) memory_ = {};
  return std::move(lease_);
}

// A mapping is not the arena's memory, but charged to the client's share of it, too.
Result<Staging> Staging::make(memory::Arena& arena, std::string_view address, uint64_t size) {
  // A charge is of no more than a peer may have, and all of these bytes are pinned.
  const uint64_t most = arena.budget().limits().peer_max;
  const bool leased = size <= memory::Arena::lease_size_max && memory::Arena::class_size(size) <= most;
  const uint64_t bytes = leased ? memory::Arena::class_size(size) : size;
  if (bytes > most) return fail(Errc::too_large, "staging: more than one client may hold");
  memory::Share share(arena, address, bytes);
  auto charge = share.try_whole(bytes);
  if (!charge) return fail(Errc::slow_down, "staging: no memory for it now");
  if (leased) {
    VB_ASSIGN(memory::Lease lease, arena.lease(size));
    lease.attach(std::move(*charge));
    return Staging(std::move(lease));
  }
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return fail(Errc::slow_down, "staging: mmap", errno);
  return Staging(MutableBytes(static_cast<std::byte*>(mapped), size), std::move(*charge));
}

Result<void> Staging::expose(Domain& domain) {
  VB_ASSIGN(region_, domain.add_memory(memory_, true));
  return {};
}

Sessions::Sessions(Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options), places_(options.places, session_gauge()) {}

// Pins memory and makes a queue pair: in a pool.
Result<void> Sessions::fill(Session& session) {
  VB_TRY(endpoint_.refresh_port());
  session.own_gid = endpoint_.device().own_gid(session.peer_gid);
  if (!session.asked.put) {
    VB_ASSIGN(session.pair, endpoint_.domain().add_queue_pair(false));
    return {};
  }
  VB_ASSIGN(session.staging, Staging::make(endpoint_.arena(), session.asked.payer.address, session.asked.size));
  VB_ASSIGN(session.domain, endpoint_.device().add_domain());
  VB_TRY(session.staging.expose(*session.domain));
  VB_ASSIGN(session.pair, session.domain->add_queue_pair(true));
  return session.pair->post_receive(receive_id);
}

Task<Result<SessionPtr>> Sessions::prepare(SessionRequest asked) {
  if (asked.put && asked.size > options_.staging_size_max) co_return fail(Errc::too_large, "staging: too many bytes");
  auto session = std::make_shared<Session>();
  VB_CO_ASSIGN(session->peer_gid, endpoint_.check_peer(asked.peer, asked.payer.address));
  VB_CO_ASSIGN(session->place, places_.take(asked.payer));
  session->id = random_session_id();
  session->asked = std::move(asked);
  session->own_sequence = random_sequence();
  const uint32_t named = session->asked.peer.queue_pair;
  const auto work = [this, session, named]() -> Result<void> {
    VB_TRY(fill(*session));
    return named == 0 ? Result<void>() : connect_now(*session, named);
  };
  Result<void> done;
  if (named == 0) {
    done = co_await endpoint_.pool().run("rdma_prepare", work);
  } else {
    done = co_await endpoint_.run_in_turn("rdma_prepare", session->asked.payer, work);
  }
  if (!done) {
    endpoint_.discard(std::move(session));  // not here, on a loop
    co_return std::unexpected(done.error());
  }
  const std::lock_guard lock(mutex_);
  all_.emplace(session->id, Entry{session, deadline_in(options_.prepared_for)});
  co_return session;
}

Result<SessionPtr> Sessions::claim(std::string_view id, std::string_view owner, uint32_t cookie) {
  SessionPtr ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(std::string(id));
    if (found == all_.end() || found->second.session->asked.owner != owner) {
      return fail(Errc::no_such_entity, "no such RDMA session");
    }
    Entry& entry = found->second;
    if (entry.transferring) return fail(Errc::conditional_conflict, "the RDMA session is transferring");
    const bool late = SteadyClock::now() >= entry.ready_by;
    if (!late && entry.session->asked.cookie == cookie) {
      entry.transferring = true;
      return entry.session;
    }
    ended = std::move(entry.session);
    all_.erase(found);
    if (!late) owner = {};
  }
  endpoint_.discard(std::move(ended));
  if (owner.empty()) return fail(Errc::access_denied, "the RDMA session has another cookie");
  return fail(Errc::no_such_entity, "the RDMA session has ended");
}

// The port may have been read again since the session was filled: the peer knows another GID then, and its packets go
// there.
Result<void> Sessions::check_own_gid(const Session& session, const Gid& own) {
  if (own == session.own_gid) return {};
  return fail(Errc::unsupported, "reliable connections: the device's GID has changed");
}

// In a pool for work that waits for the network.
Result<void> Sessions::connect_now(Session& session, uint32_t queue_pair) {
  const Peer to{queue_pair, session.asked.client_sequence, session.peer_gid};
  VB_ASSIGN(const Gid own, endpoint_.connect(*session.pair, to, session.own_sequence));
  VB_TRY(check_own_gid(session, own));
  session.connected_to = queue_pair;
  return {};
}

Task<Result<void>> Sessions::connect(SessionPtr session, uint32_t queue_pair) {
  if (session->connected_to != 0 && session->connected_to != queue_pair) {
    co_return fail(Errc::invalid_argument, "x-amz-rdma-qpn must be the queue pair of x-amz-rdma-token.");
  }
  if (session->connected_to != 0) {
    if (const auto known = endpoint_.known_port()) {
      VB_CO_TRY(*known);
      co_return check_own_gid(*session, endpoint_.device().own_gid(session->peer_gid));
    }
    const auto look = [this, session]() -> Result<void> {
      VB_TRY(endpoint_.refresh_port());
      return check_own_gid(*session, endpoint_.device().own_gid(session->peer_gid));
    };
    co_return co_await endpoint_.pool().run("rdma_port", look);
  }
  const auto work = [this, session, queue_pair] { return connect_now(*session, queue_pair); };
  co_return co_await endpoint_.run_in_turn("rdma_connect", session->asked.payer, work);
}

void Sessions::end(SessionPtr session) {
  {
    const std::lock_guard lock(mutex_);
    all_.erase(session->id);
  }
  endpoint_.discard(std::move(session));
}

Result<void> Sessions::cancel(std::string_view id, std::string_view owner) {
  SessionPtr ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(std::string(id));
    if (found == all_.end() || found->second.session->asked.owner != owner) return {};
    if (found->second.transferring) return fail(Errc::conditional_conflict, "the RDMA session is transferring");
    ended = std::move(found->second.session);
    all_.erase(found);
  }
  endpoint_.discard(std::move(ended));
  return {};
}

void Sessions::reap(Deadline now) {
  std::vector<SessionPtr> late;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [&](const auto& one) {
      if (one.second.transferring || now < one.second.ready_by) return false;
      late.push_back(one.second.session);
      return true;
    });
  }
  for (SessionPtr& one : late) endpoint_.discard(std::move(one));
}

size_t Sessions::count() {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

}  // namespace verbena::rdma::rc
