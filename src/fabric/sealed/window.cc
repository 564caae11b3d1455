// Windows of sealed peers: records through the client's rings, or bytes inside messages.
#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "fabric/sealed/counters.h"
#include "fabric/sealed/port_state.h"

namespace verbena::fabric::sealed {
namespace {

// Bytes up to this travel inside a message: a record costs a one-sided operation and three messages' share.
constexpr size_t write_inside_max = 4 * KiB;
// The records that wait to be told, and the queue behind them: what a peer may hold that does not read.
constexpr size_t waiting_bytes_max = 256 * KiB;
constexpr size_t records_message_max = 12 * KiB;
constexpr size_t wants_max = segments;  // of a peer at once: each may hold a segment of the client's

const Error gone{.code = Errc::closed, .sys = 0, .context = "sealed: the peer is gone"};

bool is_gone(const PortState& state, const Peer& peer) { return state.below == nullptr || peer.gone; }

// A buffer of the port's for one segment, while it is in use.
class Buffer {
 public:
  Buffer(PortStatePtr state, std::shared_ptr<Peer> peer, memory::Lease lease)
      : state_(std::move(state)), peer_(std::move(peer)), lease_(std::move(lease)) {}
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (state_ == nullptr) return;
    --peer_->buffers;
    keep_spare(state_, std::move(lease_));
    state_->line.wake_all();
  }
  std::byte* data() const { return lease_.data(); }

 private:
  PortStatePtr state_;
  std::shared_ptr<Peer> peer_;
  memory::Lease lease_;
};

std::optional<Result<memory::Lease>> take_buffer(PortState& state, const Peer& peer) {
  // The more a peer has, the more must be left for others.
  const size_t left = state.options.buffers_max - (state.buffers - state.spare.size());
  if (peer.buffers >= state.options.buffers_per_peer_max || left <= peer.buffers) return std::nullopt;
  if (!state.spare.empty()) {
    memory::Lease lease = std::move(state.spare.back());
    state.spare.pop_back();
    state.spare_unused = std::min(state.spare_unused, state.spare.size());
    return lease;
  }
  if (state.buffers >= state.options.buffers_max) return std::nullopt;
  auto lease = state.arena.lease(segment_size);
  if (lease) ++state.buffers;
  return lease;
}

bool has_room(const Peer& peer) { return peer.records.size() + peer.channel.waiting_bytes() < waiting_bytes_max; }

void tell(const PortStatePtr& state, const std::shared_ptr<Peer>& peer, const Record& record) {
  const size_t size = record.inside ? record.inside->size() : 0;
  if (peer->records.size() + size + record_overhead + records_per_segment * aead_tag_size > records_message_max)
    peer->channel.queue(Kind::records, std::exchange(peer->records, {}));
  encode(record, peer->records);
  flush_soon(state, peer);
}

// One segment's worth of bytes through the ring.
Task<Result<void>> write_segment(PortStatePtr state, std::shared_ptr<Peer> peer, Place place, Bytes from,
                                 Deadline deadline) {
  std::optional<Result<memory::Lease>> lease;
  for (;;) {
    if (is_gone(*state, *peer)) co_return std::unexpected(gone);
    if (!peer->rings) co_return fail(Errc::invalid_argument, "sealed: the client has lent no ring");
    if (has_room(*peer) && !peer->free_segments.none()) lease = take_buffer(*state, *peer);
    if (lease) break;
    const bool woken = co_await state->line.wait(state->core, deadline);
    if (!woken) co_return fail(Errc::timed_out, "sealed: no room for records");
  }
  if (!*lease) co_return std::unexpected(lease->error());
  ++peer->buffers;
  const Buffer buffer(state, peer, std::move(**lease));
  const uint8_t segment = peer->free_segments.take();

  Record record{.place = place, .inside = std::nullopt, .segment = segment, .seals = {}};
  auto seals = peer->channel.seal_records(place, from, buffer.data());
  if (!seals) {
    state->leave(*peer);  // its numbers are used up: a new session has others
    co_return std::unexpected(seals.error());
  }
  record.seals = std::move(*seals);
  const WindowDescriptor ring{peer->rings->down_base, ring_size, peer->rings->down_key};
  auto window = state->below->open_window(peer->id, ring, Access::server_writes);
  Result<void> written;
  if (window) {
    const Bytes sealed(buffer.data(), from.size());
    written = co_await (*window)->write(sealed, segment * segment_size, deadline);
  } else {
    written = std::unexpected(window.error());
  }
  if (!written) {
    peer->free_segments.give_back(segment);  // nothing was told of it
    co_return written;
  }
  if (is_gone(*state, *peer)) co_return std::unexpected(gone);
  counters().bytes_out.add(from.size());
  tell(state, peer, record);
  co_return Result<void>{};
}

Task<Result<void>> write_inside(PortStatePtr state, std::shared_ptr<Peer> peer, Place place, Bytes from,
                                Deadline deadline) {
  for (;;) {
    if (is_gone(*state, *peer)) co_return std::unexpected(gone);
    if (has_room(*peer)) break;
    const bool woken = co_await state->line.wait(state->core, deadline);
    if (!woken) co_return fail(Errc::timed_out, "sealed: the peer takes no message");
  }
  counters().bytes_out.add(from.size());
  Record record{.place = place, .inside = from, .segment = 0, .seals = {}};
  tell(state, peer, record);
  co_return Result<void>{};
}

// Opens what a `ready` announced, into the caller's memory.
Task<Result<void>> fetch(PortStatePtr state, std::shared_ptr<Peer> peer, Place place, const Peer::Wanted& wanted,
                         MutableBytes into, Deadline deadline) {
  const Ready& ready = *wanted.ready;
  if (ready.refused) co_return fail(Errc::invalid_argument, "sealed: the client has not lent these bytes");
  if (ready.inside) {
    if (wanted.inside.size() != into.size()) co_return fail(Errc::malformed, "sealed: another number of bytes");
    copy_bytes(into.data(), wanted.inside);
    co_return Result<void>{};
  }
  const WindowDescriptor ring{peer->rings->up_base, ring_size, peer->rings->up_key};
  VB_CO_ASSIGN(auto window, state->below->open_window(peer->id, ring, Access::server_reads));
  VB_CO_TRY(co_await window->read(into, ready.segment * segment_size, deadline));
  // No operation of the network can reach these bytes any more: they are opened where they are.
  if (peer->channel.open_records(place, ready.seals, into, into.data())) co_return Result<void>{};
  counters().forged_records.add();
  co_return fail(Errc::bad_digest, "sealed: a record was changed on its way");
}

Task<Result<void>> read_segment(PortStatePtr state, std::shared_ptr<Peer> peer, Place place, MutableBytes into,
                                Deadline deadline) {
  for (;;) {
    if (is_gone(*state, *peer)) co_return std::unexpected(gone);
    if (!peer->rings) co_return fail(Errc::invalid_argument, "sealed: the client has lent no ring");
    if (peer->wanted.size() < wants_max && has_room(*peer)) break;
    const bool woken = co_await state->line.wait(state->core, deadline);
    if (!woken) co_return fail(Errc::timed_out, "sealed: too many reads in progress");
  }
  const uint32_t id = ++peer->last_want;
  auto wanted = std::make_shared<Peer::Wanted>();
  peer->wanted.emplace(id, wanted);
  std::vector<std::byte> body;
  encode(Want{.id = id, .place = place}, body);
  peer->channel.queue(Kind::want, std::move(body));
  flush_soon(state, peer);
  while (!wanted->ready && !is_gone(*state, *peer)) {
    const bool woken = co_await wanted->line.wait(state->core, deadline);
    if (woken || wanted->ready || is_gone(*state, *peer)) continue;
    wanted->abandoned = true;
    co_return fail(Errc::timed_out, "sealed: the client sends no bytes");
  }
  if (is_gone(*state, *peer)) co_return std::unexpected(gone);
  Result<void> fetched = co_await fetch(state, peer, place, *wanted, into, deadline);
  peer->wanted.erase(id);
  state->line.wake_all();
  if (is_gone(*state, *peer)) co_return std::unexpected(gone);
  give_back_segment(state, peer, *wanted->ready);
  if (fetched) counters().bytes_in.add(into.size());
  co_return fetched;
}

class SealedWindow final : public Window {
 public:
  SealedWindow(PortStatePtr state, std::shared_ptr<Peer> peer, const WindowDescriptor& lent, Access access)
      : state_(std::move(state)), peer_(std::move(peer)), lent_(lent), access_(access) {}

  uint64_t size() const override { return lent_.size; }

  // `this` is not used after a suspension: the window may be destroyed meanwhile.
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override {
    VB_CO_TRY(check(Access::server_writes, from.size(), at));
    const auto state = state_;
    const auto peer = peer_;
    const WindowDescriptor lent = lent_;
    while (!from.empty()) {
      const bool inside = from.size() <= write_inside_max;
      const size_t size = inside ? from.size() : std::min(from.size(), segment_size);
      const Place place{lent.key, lent.base + at, static_cast<uint32_t>(size)};
      Result<void> written;
      if (inside) {
        written = co_await write_inside(state, peer, place, from.first(size), deadline);
      } else {
        written = co_await write_segment(state, peer, place, from.first(size), deadline);
      }
      if (!written) co_return written;
      from = from.subspan(size);
      at += size;
    }
    co_return Result<void>{};
  }

  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override {
    VB_CO_TRY(check(Access::server_reads, into.size(), at));
    const auto state = state_;
    const auto peer = peer_;
    const WindowDescriptor lent = lent_;
    while (!into.empty()) {
      const size_t size = std::min(into.size(), segment_size);
      const Place place{lent.key, lent.base + at, static_cast<uint32_t>(size)};
      auto got = co_await read_segment(state, peer, place, into.first(size), deadline);
      if (!got) co_return got;
      into = into.subspan(size);
      at += size;
    }
    co_return Result<void>{};
  }

 private:
  Result<void> check(Access direction, uint64_t size, uint64_t at) const {
    if (direction != access_) return fail(Errc::invalid_argument, "window: the other direction was lent");
    if (at > lent_.size || size > lent_.size - at) return fail(Errc::invalid_argument, "window: out of bounds");
    if (is_gone(*state_, *peer_)) return std::unexpected(gone);
    return {};
  }

  PortStatePtr state_;
  std::shared_ptr<Peer> peer_;
  WindowDescriptor lent_;
  Access access_;
};

}  // namespace

std::unique_ptr<Window> make_window(PortStatePtr state, std::shared_ptr<Peer> peer, const WindowDescriptor& lent,
                                    Access access) {
  return std::make_unique<SealedWindow>(std::move(state), std::move(peer), lent, access);
}

}  // namespace verbena::fabric::sealed
