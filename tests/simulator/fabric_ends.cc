// The two ends of the simulated network: port and windows, link and lent memory.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/fabric_state.h"

namespace verbena::simulator {
namespace {

using fabric::Access;
using fabric::WindowDescriptor;

constexpr size_t guard_size = 64;
constexpr std::byte guard_byte{0xa5};
constexpr uint64_t sends_per_full_queue = 100;

uint64_t draw_number(uint64_t below) { return Scheduler::get().random() % below; }

}  // namespace

class SimulatedWindow final : public fabric::Window {
 public:
  SimulatedWindow(Fabric& fabric, Fabric::ConnectionPtr connection, const WindowDescriptor& lent, Access access)
      : fabric_(fabric), connection_(std::move(connection)), lent_(lent), access_(access) {}
  uint64_t size() const override { return lent_.size; }

  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override {
    VB_CO_TRY(check(Access::server_writes, from.size(), at));
    if (from.empty()) co_return Result<void>{};
    if (fabric_.kind() == Fabric::Kind::stream && draw_number(2) == 0) {
      const Write one{from, at};
      co_return put_on_its_way(std::span(&one, 1));
    }
    co_return co_await moved(const_cast<std::byte*>(from.data()), from.size(), at, deadline);
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override {
    VB_CO_TRY(check(Access::server_reads, into.size(), at));
    if (into.empty()) co_return Result<void>{};
    co_return co_await moved(into.data(), into.size(), at, deadline);
  }

  size_t immediate_size_max() const override {
    if (fabric_.kind() == Fabric::Kind::device) return 0;
    if (fabric_.kind() == Fabric::Kind::stream && access_ != Access::server_writes) return 0;
    return 64 * KiB;
  }
  Result<void> write_all_now(std::span<const Write> writes) override {
    if (immediate_size_max() == 0) return fail(Errc::unsupported, "write_now");
    if (writes.size() > writes_max) return fail(Errc::invalid_argument, "simulated: too many writes at once");
    for (const Write& write : writes) VB_TRY(check(Access::server_writes, write.from.size(), write.at));
    if (fabric_.kind() == Fabric::Kind::stream) return put_on_its_way(writes);
    const std::lock_guard lock(fabric_.mutex_);
    for (const Write& write : writes) {
      if (write.from.empty()) continue;
      const MutableBytes place = fabric_.lent(*connection_, lent_, access_, write.at, write.from.size());
      if (place.empty()) return fail(Errc::rdma_transfer_failed, "simulated: the memory is not lent");
      std::memcpy(place.data(), write.from.data(), write.from.size());
    }
    return {};
  }
  Result<void> read_now(MutableBytes into, uint64_t at) override {
    if (fabric_.kind() != Fabric::Kind::memory) return fail(Errc::unsupported, "read_now");
    VB_TRY(check(Access::server_reads, into.size(), at));
    if (into.empty()) return {};
    const std::lock_guard lock(fabric_.mutex_);
    const MutableBytes place = fabric_.lent(*connection_, lent_, access_, at, into.size());
    if (place.empty()) return fail(Errc::rdma_transfer_failed, "simulated: the memory is not lent");
    std::memcpy(into.data(), place.data(), into.size());
    return {};
  }

 private:
  Result<void> check(Access wanted, size_t size, uint64_t at) const {
    if (access_ != wanted) return fail(Errc::access_denied, "simulated: lent for the other direction");
    if (at > lent_.size || size > lent_.size - at) return fail(Errc::invalid_argument, "simulated: past the end");
    return {};
  }
  // Behind the messages before it, and before those behind it.
  Result<void> put_on_its_way(std::span<const Write> writes) {
    const std::lock_guard lock(fabric_.mutex_);
    if (!connection_->server_open) return fail(Errc::closed, "simulated: no such peer");
    for (const Write& write : writes) {
      for (size_t from = 0; from < write.from.size();) {
        const size_t size = std::min<size_t>(write.from.size() - from, 1 + draw_number(64 * KiB));
        const Bytes piece = write.from.subspan(from, size);
        fabric_.send_down(connection_, {.due_ns = 0,
                                        .bytes = {piece.begin(), piece.end()},
                                        .window = lent_,
                                        .at = write.at + from,
                                        .is_write = true});
        from += size;
      }
    }
    fabric_.risk(connection_);
    return {};
  }
  // `this` is not used after the suspension: the window may be destroyed meanwhile.
  Task<Result<void>> moved(std::byte* local, uint64_t size, uint64_t at, Deadline deadline) {
    auto transfer = std::make_shared<Fabric::Transfer>();
    transfer->window = lent_;
    transfer->access = access_;
    transfer->at = at;
    transfer->local = local;
    for (uint64_t from = 0; from < size;) {
      const uint64_t piece = std::min<uint64_t>(size - from, draw_number(4) == 0 ? size : 1 + draw_number(size));
      transfer->pieces.push_back({.from = from, .size = piece});
      from += piece;
    }
    auto initiate = [this, transfer, deadline](auto handler) {
      transfer->handler.emplace(std::move(handler));
      begin(transfer, deadline);
    };
    co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
        initiate, boost::asio::use_awaitable);
  }
  void begin(const std::shared_ptr<Fabric::Transfer>& transfer, Deadline deadline) {
    const std::lock_guard lock(fabric_.mutex_);
    if (!connection_->server_open || !connection_->open) {
      return fabric_.finish(connection_, transfer, fail(Errc::closed, "simulated: no such peer"));
    }
    fabric_.start(connection_, transfer);
    Fabric& fabric = fabric_;
    const Fabric::ConnectionPtr connection = connection_;
    const int64_t until_ns = deadline.time_since_epoch().count();
    if (until_ns > Scheduler::get().steady_ns() + int64_t{3600} * 1'000'000'000) return;
    transfer->stalls = fabric_.faulty_ && draw_number(300) == 0;  // until its time is over
    fabric_.at(until_ns, [&fabric, connection, transfer] {
      if (transfer->ended) return;
      fabric.trouble(connection->host);
      if (fabric.kind() == Fabric::Kind::stream) fabric.break_off(connection);
      fabric.finish(connection, transfer, fail(Errc::timed_out, "simulated: deadline"));
    });
  }

  Fabric& fabric_;
  const Fabric::ConnectionPtr connection_;
  const WindowDescriptor lent_;
  const Access access_;
};

class SimulatedPort final : public fabric::Port {
 public:
  SimulatedPort(Fabric& fabric, std::shared_ptr<Fabric::PortState> state) : fabric_(fabric), state_(std::move(state)) {
    state_->port = this;
  }
  ~SimulatedPort() override {
    std::vector<std::optional<Fabric::Transfer::Handler>> waiting;  // destroyed without the lock
    const std::lock_guard lock(fabric_.mutex_);
    state_->port = nullptr;
    state_->on_message = nullptr;
    state_->on_gone = nullptr;
    state_->find_key = nullptr;
    const auto all = fabric_.connections_;
    for (const auto& [id, connection] : all) {
      if (connection->port != state_) continue;
      for (const auto& transfer : connection->transfers) waiting.push_back(std::move(transfer->handler));
      fabric_.break_off(connection);
    }
    fabric_.ports_.erase(state_->address);
  }

  void on_connection(FindKey find) override { state_->find_key = std::move(find); }
  void on_message(OnMessage handler) override { state_->on_message = std::move(handler); }
  void on_gone(OnGone handler) override { state_->on_gone = std::move(handler); }
  size_t message_size_max() const override { return fabric_.kind() == Fabric::Kind::memory ? 128 * KiB : 16 * KiB; }
  std::string address() const override { return state_->address; }
  Result<fabric::PeerId> add_peer(std::string_view address) override {
    const std::lock_guard lock(fabric_.mutex_);
    const uint64_t id = std::strtoull(std::string(address).c_str(), nullptr, 10);
    if (!find(id)) return fail(Errc::connection_failed, "simulated: no such address");
    return id;
  }
  bool admit(fabric::PeerId peer, uint64_t session) override {
    const std::lock_guard lock(fabric_.mutex_);
    const auto connection = find(peer);
    if (connection == nullptr) return false;
    return fabric_.kind() == Fabric::Kind::memory || connection->session == session;
  }
  void remove_peer(fabric::PeerId peer) override {
    const std::lock_guard lock(fabric_.mutex_);
    const auto connection = find(peer);
    if (connection == nullptr) return;
    if (fabric_.kind() != Fabric::Kind::device) return fabric_.break_off(connection);
    fabric_.tell_gone(connection);  // the client does not notice
    fabric_.trouble(connection->host);
  }
  Result<void> send(fabric::PeerId peer, Bytes message) override {
    const std::lock_guard lock(fabric_.mutex_);
    const auto connection = find(peer);
    if (connection == nullptr) return fail(Errc::closed, "simulated: no such peer");
    if (!connection->down.empty() && draw_number(sends_per_full_queue) == 0) return fail(Errc::would_block);
    fabric_.send_down(connection, {.due_ns = 0, .bytes = {message.begin(), message.end()}});
    fabric_.risk(connection);
    return {};
  }
  Result<std::unique_ptr<fabric::Window>> open_window(fabric::PeerId peer, const WindowDescriptor& lent,
                                                      Access access) override {
    const std::lock_guard lock(fabric_.mutex_);
    auto connection = find(peer);
    if (connection == nullptr) return fail(Errc::closed, "simulated: no such peer");
    if (lent.base + lent.size < lent.base) return fail(Errc::invalid_argument, "simulated: a window");
    return std::make_unique<SimulatedWindow>(fabric_, std::move(connection), lent, access);
  }

 private:
  Fabric::ConnectionPtr find(uint64_t id) const {
    const auto found = fabric_.connections_.find(id);
    if (found == fabric_.connections_.end() || !found->second->server_open) return nullptr;
    return found->second->port == state_ ? found->second : nullptr;
  }

  Fabric& fabric_;
  const std::shared_ptr<Fabric::PortState> state_;
};

// Withdraws the memory. An operation of the server that is under way does not land there any more.
class SimulatedLent final : public fabric::Lent {
 public:
  SimulatedLent(Fabric& fabric, Fabric::ConnectionPtr connection, WindowDescriptor descriptor, MutableBytes bytes)
      : fabric_(fabric), connection_(std::move(connection)), descriptor_(descriptor), bytes_(bytes) {}
  ~SimulatedLent() override { revoke(); }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }
  void revoke() override {
    const std::lock_guard lock(fabric_.mutex_);
    connection_->lent.erase(descriptor_.key);
  }

 private:
  Fabric& fabric_;
  const Fabric::ConnectionPtr connection_;
  const WindowDescriptor descriptor_;
  const MutableBytes bytes_;
};

// Memory between guards.
struct Fabric::Block {
  Block(Fabric& fabric, size_t size) : fabric(fabric), all(size + 2 * guard_size, guard_byte) {
    bytes = MutableBytes(all).subspan(guard_size, size);
    const std::lock_guard lock(fabric.mutex_);
    fabric.blocks_.emplace(bytes.data(), size);
  }
  ~Block() {
    const auto is_guard = [](std::byte byte) { return byte == guard_byte; };
    const bool whole = std::all_of(all.begin(), all.begin() + guard_size, is_guard) &&
                       std::all_of(all.end() - guard_size, all.end(), is_guard);
    const std::lock_guard lock(fabric.mutex_);
    fabric.blocks_.erase(bytes.data());
    if (!whole) fabric.wrong_ = fmt::format("memory beside a block of {} bytes was written", bytes.size());
  }
  Fabric& fabric;
  std::vector<std::byte> all;
  MutableBytes bytes;
};

class SimulatedLink final : public fabric::Link {
 public:
  SimulatedLink(Fabric& fabric, Fabric::ConnectionPtr connection, size_t message_size_max)
      : fabric_(fabric), connection_(std::move(connection)), message_size_max_(message_size_max) {}
  ~SimulatedLink() override {
    const std::lock_guard lock(fabric_.mutex_);
    // What was sent arrives or not; the peer then learns that this end has gone.
    fabric_.break_off(connection_, /*befalls=*/false);
    fabric_.connections_.erase(connection_->id);
  }

  std::string_view provider() const override { return fabric_.provider(); }
  std::string address() const override {
    return fabric_.kind() == Fabric::Kind::device ? std::to_string(connection_->id) : std::string();
  }
  size_t message_size_max() const override { return message_size_max_; }
  Result<void> send(Bytes message) override {
    const std::lock_guard lock(fabric_.mutex_);
    if (!connection_->open) return fail(Errc::closed, "simulated: the server is gone");
    if (!connection_->up.empty() && draw_number(sends_per_full_queue) == 0) return fail(Errc::would_block);
    fabric_.send_up(connection_, message);
    return {};
  }
  Result<size_t> poll(const OnMessage& handler) override {
    constexpr size_t most = 8;
    size_t received = 0;
    for (; received < most; ++received) {
      std::vector<std::byte> message;
      {
        const std::lock_guard lock(fabric_.mutex_);
        if (connection_->inbox.empty()) break;
        message = std::move(connection_->inbox.front());
        connection_->inbox.pop_front();
      }
      handler(message);
    }
    const std::lock_guard lock(fabric_.mutex_);
    if (received == 0 && !connection_->open) return fail(Errc::closed, "simulated: the server is gone");
    return received;
  }
  void wait(Deadline deadline) override {
    std::unique_lock lock(fabric_.mutex_);
    connection_->client.wait_until(
        lock, deadline, [&] { return connection_->woken || !connection_->open || !connection_->inbox.empty(); });
    connection_->woken = false;
  }
  void wake() override {
    const std::lock_guard lock(fabric_.mutex_);
    connection_->woken = true;
    connection_->client.notify_all();
  }
  Result<std::unique_ptr<fabric::Lent>> lend(MutableBytes memory, Access access) override {
    const std::lock_guard lock(fabric_.mutex_);
    if (!connection_->open) return fail(Errc::closed, "simulated: the server is gone");
    if (fabric_.kind() == Fabric::Kind::memory && !is_shared(memory)) {
      return fail(Errc::unsupported, "simulated: not shared");
    }
    const uint64_t key = connection_->key_next++ << 20 | draw_number(1 << 20);
    const uint64_t base =
        fabric_.kind() == Fabric::Kind::stream ? 0 : static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory.data()));
    connection_->lent.emplace(key, Fabric::Connection::LentMemory{memory, access, base});
    const WindowDescriptor descriptor{.base = base, .size = memory.size(), .key = key};
    return std::make_unique<SimulatedLent>(fabric_, connection_, descriptor, memory);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override {
    auto block = std::make_shared<Fabric::Block>(fabric_, size);
    return std::shared_ptr<MutableBytes>(block, &block->bytes);
  }

 private:
  bool is_shared(MutableBytes memory) const {
    auto block = fabric_.blocks_.upper_bound(memory.data());
    if (block == fabric_.blocks_.begin()) return false;
    --block;
    return memory.data() + memory.size() <= block->first + block->second;
  }

  Fabric& fabric_;
  const Fabric::ConnectionPtr connection_;
  const size_t message_size_max_;
};

std::unique_ptr<fabric::Port> Fabric::listen(Core& core) {
  const std::lock_guard lock(mutex_);
  auto state = std::make_shared<PortState>();
  state->core = &core;
  state->address = fmt::format("port {}", ++next_);
  ports_.emplace(state->address, state);
  return std::make_unique<SimulatedPort>(*this, std::move(state));
}

Result<std::unique_ptr<fabric::Link>> Fabric::connect(const std::string& address, uint64_t session, size_t host) {
  const std::lock_guard lock(mutex_);
  const auto port = ports_.find(address);
  if (port == ports_.end()) return fail(Errc::connection_failed, "simulated: no port there");
  if (faulty_ && draw(40)) {
    trouble(host);
    return fail(Errc::connection_failed, "simulated: no way there");
  }
  auto connection = std::make_shared<Connection>();
  connection->id = ++next_;
  connection->session = session;
  connection->host = host;
  connection->port = port->second;
  connections_.emplace(connection->id, connection);
  return std::make_unique<SimulatedLink>(*this, std::move(connection), kind_ == Kind::memory ? 128 * KiB : 16 * KiB);
}

}  // namespace verbena::simulator
