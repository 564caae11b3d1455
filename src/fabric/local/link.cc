#include "fabric/local/link.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "fabric/local/agreements.h"
#include "fabric/local/socket_file.h"

namespace verbena::fabric::local {

namespace {

constexpr size_t messages_per_poll = 64;
constexpr size_t idle_polls_between_checks = 1 << 14;  // of the socket, by a caller that only ever polls
constexpr auto spin_before_yielding = std::chrono::microseconds(10);

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// poll(2) until `deadline`; EINTR and a passed deadline look like nothing happened.
bool wait_readable(std::span<pollfd> fds, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - SteadyClock::now()).count();
  const timespec timeout{.tv_sec = std::clamp<int64_t>(left / 1'000'000'000, 0, 3600),
                         .tv_nsec = std::max<int64_t>(left, 0) % 1'000'000'000};
  return ::ppoll(fds.data(), fds.size(), &timeout, nullptr) > 0;
}

void ring(int eventfd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof one);
}

class LocalLent final : public Lent {
 public:
  LocalLent(std::shared_ptr<Lending> lending, Lending::Held held, std::shared_ptr<Slab> slab,
            const WindowDescriptor& descriptor, MutableBytes bytes)
      : lending_(std::move(lending)), held_(held), slab_(std::move(slab)), descriptor_(descriptor), bytes_(bytes) {}
  ~LocalLent() override { lending_->withdraw(held_); }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }

 private:
  std::shared_ptr<Lending> lending_;
  Lending::Held held_;
  std::shared_ptr<Slab> slab_;
  WindowDescriptor descriptor_;
  MutableBytes bytes_;
};

// When the server has answered, the device has finished, or the server has given it up. Without an answer the device
// may be at work for as long as the server lets it.
class LentOfDevice final : public DeviceLent {
 public:
  LentOfDevice(std::shared_ptr<Lending> lending, Lending::Held held, const WindowDescriptor& descriptor,
               bool* unfinished)
      : lending_(std::move(lending)), held_(held), descriptor_(descriptor), unfinished_(unfinished) {}
  ~LentOfDevice() override {
    const bool ended = lending_->withdraw(held_, until_.value_or(deadline_in(answered_patience)));
    if (!ended && unfinished_ != nullptr) *unfinished_ = true;
  }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return {}; }
  // All that are revoked together have their time together.
  void revoke() override {
    lending_->end_permit(held_);
    until_ = deadline_in(unanswered_patience);
  }
  bool is_at_work() const override {
    return until_ && SteadyClock::now() < *until_ && lending_->is_used(held_) && !lending_->server_is_gone();
  }

 private:
  std::shared_ptr<Lending> lending_;
  Lending::Held held_;
  WindowDescriptor descriptor_;
  static constexpr std::chrono::milliseconds answered_patience{10}, unanswered_patience{6'000};
  bool* unfinished_;
  std::optional<Deadline> until_;  // since revoke()
};

}  // namespace

// --- Lending ---------------------------------------------------------------------------------------------------------

Lending::Lending(Fd socket, SharedRegion region)
    : socket_(std::move(socket)), region_(std::move(region)), generations_(permits_max) {
  for (size_t slot = permits_max; slot-- > 0;) free_.push_back(static_cast<uint16_t>(slot));
}

bool Lending::server_is_gone() const {
  pollfd fd{socket_.get(), POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL)) != 0;
}

Result<Lending::Held> Lending::permit(Access access) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return fail(Errc::slow_down, "local: too many windows are lent");
  const uint32_t slot = free_.back();
  free_.pop_back();
  const uint32_t generation = ++generations_[slot] == 0 ? ++generations_[slot] : generations_[slot];
  const WindowKey lent{.memory = 0, .slot = slot, .generation = generation};
  lend_window(region_.permit(slot).permit, lent.permit(access));
  return Held{slot, generation};
}

void Lending::end_permit(Held held) { withdraw_window<NativePlatform>(region_.permit(held.slot).permit); }

bool Lending::is_used(Held held) { return window_is_busy(region_.permit(held.slot).busy); }

bool Lending::withdraw(Held held, Deadline until) {
  end_permit(held);
  Permit& shared = region_.permit(held.slot);
  // At most one slice of a copy, unless the server is stopped in the middle of it: then waiting is the only option.
  for (size_t turn = 1; window_is_busy(shared.busy); ++turn) {
    if (turn % 64 != 0) {
      pause_briefly();
    } else if (turn % 4096 == 0 && server_is_gone()) {
      break;
    } else if (until != Deadline::max() && SteadyClock::now() > until) {
      return false;
    } else {
      ::sched_yield();
    }
  }
  std::lock_guard lock(mutex_);
  free_.push_back(static_cast<uint16_t>(held.slot));
  return true;
}

// --- Link ------------------------------------------------------------------------------------------------------------

LocalLink::LocalLink(std::shared_ptr<Lending> lending, Fd server_doorbell, Fd own_doorbell, const Options& options,
                     size_t message_size_max)
    : lending_(std::move(lending)),
      server_doorbell_(std::move(server_doorbell)),
      own_doorbell_(std::move(own_doorbell)),
      // With one processor, the server cannot answer while we spin.
      spin_for_(std::thread::hardware_concurrency() > 1 ? options.spin_for : std::chrono::microseconds(0)),
      reply_timeout_(options.handshake_timeout),
      message_size_max_(message_size_max),
      control_(lending_->region().control()),
      requests_(lending_->region().to_server()),
      replies_(lending_->region().to_client()),
      pool_(options.pool ? options.pool : std::make_shared<Pool>()) {}

Result<void> LocalLink::send(Bytes message) {
  if (message.empty() || message.size() > message_size_max_) return fail(Errc::too_large, "local: message size");
  if (closed_) return fail(Errc::closed, "local: the server is gone");
  switch (requests_.push(message, {})) {
    case Producer::Push::ok:
      break;
    case Producer::Push::full:
      blocked_size_ = message.size();
      return fail(Errc::would_block, "local: ring is full");
    case Producer::Push::violated:
      closed_ = true;
      return fail(Errc::closed, "local: ring is damaged");
  }
  blocked_size_ = 0;
  if (must_wake<NativePlatform>(control_.server_sleeps)) ring(server_doorbell_.get());
  return {};
}

Result<size_t> LocalLink::poll(const OnMessage& handler) {
  size_t received = 0;
  for (; received < messages_per_poll; ++received) {
    Bytes view;
    const auto outcome = replies_.peek(view);
    if (outcome == Consumer::Pop::none) break;
    if (outcome == Consumer::Pop::violated) {
      closed_ = true;
      return fail(Errc::closed, "local: ring is damaged");
    }
    handler(view);  // in place: the server's data is trusted, and the server does not touch it before release()
    replies_.release();
  }
  if (received != 0) {
    idle_polls_ = 0;
    return received;
  }
  if (!closed_ && ++idle_polls_ % idle_polls_between_checks == 0) {
    closed_ = lending_->server_is_gone() && !replies_.pending();
  }
  if (closed_) return fail(Errc::closed, "local: the server is gone");
  return size_t{0};
}

// Whether something happened that the caller of wait() can act on.
bool LocalLink::may_go_on() const {
  return replies_.pending() || woken_.load(std::memory_order_relaxed) ||
         (blocked_size_ != 0 && requests_.fits(blocked_size_));
}

bool LocalLink::spin(Deadline deadline) const {
  const auto start = SteadyClock::now();
  const auto end = std::min(deadline, start + spin_for_);
  for (size_t turn = 1;; ++turn) {
    if (may_go_on()) return true;
    if (turn % 32 != 0) {
      pause_briefly();
      continue;
    }
    const auto now = SteadyClock::now();
    if (now >= end) return false;
    // The server may need this processor.
    if (now - start > spin_before_yielding) ::sched_yield();
  }
}

void LocalLink::wait(Deadline deadline) {
  if (!closed_ && !spin(deadline) && SteadyClock::now() < deadline) sleep(deadline);
  woken_.store(false, std::memory_order_relaxed);
}

void LocalLink::sleep(Deadline deadline) {
  withdraw_freed();
  if (blocked_size_ != 0) {
    announce_sleep<NativePlatform>(control_.client_sleeps, control_.client_wants_space);
  } else {
    announce_sleep<NativePlatform>(control_.client_sleeps);
  }
  if (!may_go_on()) {
    pollfd fds[] = {{lending_->socket(), POLLIN, 0}, {own_doorbell_.get(), POLLIN, 0}};
    wait_readable(fds, deadline);
    if (fds[1].revents != 0) {
      uint64_t drained;
      [[maybe_unused]] const ssize_t got = ::read(own_doorbell_.get(), &drained, sizeof drained);
    }
    if (fds[0].revents != 0 && !drain_socket(0, nullptr)) closed_ = true;
  }
  is_awake(control_.client_sleeps, control_.client_wants_space);
}

void LocalLink::wake() {
  woken_.store(true, std::memory_order_relaxed);
  ring(own_doorbell_.get());
}

// Receives what waits on the socket: wake-ups, and the reply to `request` if it is there. An error when the server is
// gone.
Result<void> LocalLink::drain_socket(uint32_t request, ControlMessage* reply) {
  for (;;) {
    auto packet = receive_packet(lending_->socket());
    if (!packet && packet.error() == Errc::would_block) return {};
    if (!packet) return std::unexpected(packet.error());
    VB_ASSIGN(const ControlMessage message, parse_control(packet->bytes, packet->descriptors.size()));
    if (message.type != ControlType::shared) continue;
    if (reply != nullptr && message.request == request) {
      *reply = message;
    } else {
      take_late(message);
    }
  }
}

// An answer that is not waited for now. One to a share that came too late for its caller: the next one finds the slab
// shared, or it is withdrawn.
void LocalLink::take_late(const ControlMessage& reply) {
  withdrawn_.erase(reply.request);
  const auto found = std::ranges::find_if(late_, [&](const auto& one) { return one.second.request == reply.request; });
  if (found == late_.end()) return;
  if (reply.status == 0) {
    shared_.emplace(found->first, SharedSlab{found->second.slab, static_cast<uint32_t>(reply.a)});
  }
  late_.erase(found);
}

// --- Memory ----------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Lent>> LocalLink::lend(MutableBytes memory, Access access) {
  const auto place = pool_->find(memory);
  if (!place) return fail(Errc::unsupported, "local: only memory from allocate() can be lent");
  VB_ASSIGN(const uint32_t key, share(place->slab));
  VB_ASSIGN(const Lending::Held held, lending_->permit(access));
  const WindowKey window{.memory = key, .slot = held.slot, .generation = held.generation};
  const WindowDescriptor descriptor{.base = place->offset, .size = memory.size(), .key = window.pack()};
  return std::make_unique<LocalLent>(lending_, held, place->slab, descriptor, memory);
}

Result<std::unique_ptr<Lent>> LocalLink::lend_device(const DeviceLoan& loan, Access access) {
  VB_ASSIGN(const Lending::Held held, lending_->permit(access));
  const WindowKey window{
      .memory = static_cast<uint32_t>(loan.memory), .slot = held.slot, .generation = held.generation};
  const WindowDescriptor descriptor{.base = loan.at, .size = loan.size, .key = window.pack()};
  return std::make_unique<LentOfDevice>(lending_, held, descriptor, loan.unfinished);
}

Result<uint32_t> LocalLink::hand_over(std::span<const int> descriptors) {
  if (descriptors.empty() || descriptors.size() > handed_over_max) {
    return fail(Errc::invalid_argument, "local: number of descriptors");
  }
  VB_ASSIGN(const ControlMessage reply, ask({.type = ControlType::hand_over, .a = descriptors.size()}, descriptors));
  if (reply.status != 0) return fail(static_cast<Errc>(reply.status), "local: the server takes no descriptors");
  return static_cast<uint32_t>(reply.a);
}

// The server's key for a slab; shares the slab at its first use.
Result<uint32_t> LocalLink::share(const std::shared_ptr<Slab>& slab) {
  const auto known = [&] { return shared_.find(slab->id()); };
  if (known() != shared_.end()) return known()->second.key;
  withdraw_freed();
  const Deadline deadline = deadline_in(reply_timeout_);
  await_withdrawals(deadline);  // the server has room for another then
  if (known() != shared_.end()) return known()->second.key;  // by an answer that came late
  const int descriptors[] = {slab->memfd()};
  // It has been shared once already if the server has not answered yet.
  const auto before = late_.extract(slab->id());
  const auto answered = before.empty() ? ask({.type = ControlType::share, .a = slab->size()}, descriptors)
                                       : await(before.mapped().request, deadline);
  if (!answered && answered.error() == Errc::timed_out) {
    late_.emplace(slab->id(), LateSlab{slab, before.empty() ? request_next_ - 1 : before.mapped().request});
  }
  VB_ASSIGN(const ControlMessage reply, answered);
  if (reply.status != 0) return fail(static_cast<Errc>(reply.status), "local: the server refused shared memory");
  shared_.emplace(slab->id(), SharedSlab{slab, static_cast<uint32_t>(reply.a)});
  return static_cast<uint32_t>(reply.a);
}

// Withdraws slabs that no longer exist, so that the server unmaps them. Does not wait for the answers: this is part of
// waits that have a deadline.
void LocalLink::withdraw_freed() {
  for (auto it = shared_.begin(); it != shared_.end();) {
    bool told = false;
    if (it->second.slab.expired()) {
      // Once sent, the key is invalid, also without an answer; only a full socket is worth another try.
      const auto sent = tell({.type = ControlType::withdraw, .a = it->second.key});
      told = sent || sent.error() != Errc::would_block;
      if (sent) withdrawn_.insert(*sent);
    }
    it = told ? shared_.erase(it) : std::next(it);
  }
}

Result<uint32_t> LocalLink::tell(ControlMessage request, std::span<const int> descriptors) {
  if (closed_) return fail(Errc::closed, "local: the server is gone");
  // Unneeded wake-ups may have filled the socket, and the server disconnects a client that has no room for its reply.
  if (auto drained = drain_socket(0, nullptr); !drained) {
    closed_ = true;
    return std::unexpected(drained.error());
  }
  request.request = request_next_++;
  VB_TRY(send_control(lending_->socket(), request, descriptors));
  return request.request;
}

// One request and its reply on the socket.
Result<ControlMessage> LocalLink::ask(ControlMessage request, std::span<const int> descriptors) {
  VB_ASSIGN(const uint32_t number, tell(request, descriptors));
  return await(number, deadline_in(reply_timeout_));
}

void LocalLink::await_withdrawals(Deadline deadline) {
  while (!withdrawn_.empty() && !closed_) {
    const uint32_t request = *withdrawn_.begin();
    if (!await(request, deadline)) return;
    withdrawn_.erase(request);
  }
}

Result<ControlMessage> LocalLink::await(uint32_t request, Deadline deadline) {
  ControlMessage reply;
  for (;;) {
    if (auto drained = drain_socket(request, &reply); !drained) {
      closed_ = true;
      return std::unexpected(drained.error());
    }
    if (reply.type == ControlType::shared) break;
    pollfd fds[] = {{lending_->socket(), POLLIN, 0}};
    if (!wait_readable(fds, deadline) && SteadyClock::now() >= deadline) {
      return fail(Errc::timed_out, "local: no answer on the socket");
    }
  }
  return reply;
}

// --- Connecting ------------------------------------------------------------------------------------------------------

namespace {

Result<Fd> connect_until(const std::string& path, Deadline deadline) {
  for (;;) {
    auto socket = connect_to(path);
    if (socket || socket.error() != Errc::would_block) return socket;
    if (SteadyClock::now() >= deadline) return fail(Errc::timed_out, "local: the server's backlog is full");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<Packet> receive_until(int socket, Deadline deadline) {
  for (;;) {
    auto packet = receive_packet(socket);
    if (packet || packet.error() != Errc::would_block) return packet;
    pollfd fds[] = {{socket, POLLIN, 0}};
    if (!wait_readable(fds, deadline) && SteadyClock::now() >= deadline) {
      return fail(Errc::timed_out, "local: handshake");
    }
  }
}

}  // namespace

Result<std::unique_ptr<Link>> connect(const std::string& socket_path, Options options) {
  const Deadline deadline = deadline_in(options.handshake_timeout);
  VB_ASSIGN(Fd socket, connect_until(socket_path, deadline));
  VB_TRY(send_control(socket.get(), {.type = ControlType::hello}));
  VB_ASSIGN(Packet packet, receive_until(socket.get(), deadline));
  VB_ASSIGN(const ControlMessage welcome, parse_control(packet.bytes, packet.descriptors.size()));
  if (welcome.type == ControlType::refused) {
    return fail(static_cast<Errc>(welcome.status), "local: the server refused the connection");
  }
  if (welcome.type != ControlType::welcome) return fail(Errc::malformed, "local: no welcome");
  VB_ASSIGN(SharedRegion region, SharedRegion::attach(std::move(packet.descriptors[0]), welcome.a, welcome.b));
  region.close_memfd();
  Fd own_doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!own_doorbell) return fail(Errc::io_error, "local: eventfd", errno);
  auto lending = std::make_shared<Lending>(std::move(socket), std::move(region));
  return std::make_unique<LocalLink>(std::move(lending), std::move(packet.descriptors[1]), std::move(own_doorbell),
                                     options, welcome.b);
}

}  // namespace verbena::fabric::local
