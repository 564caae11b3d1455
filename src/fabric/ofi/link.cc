#include "fabric/ofi/link.h"

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "fabric/ofi/address.h"

namespace verbena::fabric::ofi {
namespace {

constexpr size_t huge_page_size = 2 * MiB;
constexpr auto spin_for = std::chrono::microseconds(30);
constexpr auto nap_max = std::chrono::microseconds(1000);  // providers progress only when polled

class OfiLent final : public Lent {
 public:
  // `bytes`: none of a device.
  OfiLent(std::shared_ptr<LinkState> link, Domain::Remote remote, uint64_t size, MutableBytes bytes)
      : link_(std::move(link)), region_(std::move(remote.region)), bytes_(bytes) {
    descriptor_ = {remote.base, size, remote.key};
  }
  ~OfiLent() override { withdraw(); }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }

  void revoke() override {
    const std::lock_guard lock(link_->mutex);
    withdraw();
    // The tcp provider looked up the key when the write began; only closing its connection keeps the rest out.
    if (link_->domain->is_tcp() && link_->messages) link_->messages->close();
  }

 private:
  void withdraw() {
    const std::lock_guard lock(link_->mutex);
    fid_mr* region = region_.release();
    if (region == nullptr) return;
    if (fi_close(&region->fid) == 0) return;
    // Busy: operations are in progress. Closing the endpoint ends them.
    if (link_->messages) link_->messages->close();
    fi_close(&region->fid);
  }

  std::shared_ptr<LinkState> link_;
  FidPtr<fid_mr> region_;
  MutableBytes bytes_;
  WindowDescriptor descriptor_;
};

Result<std::shared_ptr<MutableBytes>> map_memory(size_t size) {
  const size_t page = size >= huge_page_size ? huge_page_size : 4096;
  const size_t rounded = (std::max<size_t>(size, 1) + page - 1) / page * page;
  if (rounded < size) return fail(Errc::too_large, "fabric: allocate");
  // Mapped larger by one page of that size, to align it.
  const size_t mapped = rounded + (page > 4096 ? page : 0);
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return fail(Errc::out_of_memory, "mmap", errno);
  const auto start = (reinterpret_cast<uintptr_t>(raw) + page - 1) / page * page;
  auto* bytes = reinterpret_cast<std::byte*>(start);
  if (page > 4096) madvise(bytes, rounded, MADV_HUGEPAGE);  // best effort
  return std::shared_ptr<MutableBytes>(new MutableBytes(bytes, size), [raw, mapped](MutableBytes* owned) {
    munmap(raw, mapped);
    delete owned;
  });
}

// The local address that routes to `peer`: what connecting a datagram socket binds it to. Nothing is sent.
Result<std::string> route_source(const EndpointAddress& peer) {
  const std::string name = encode_socket_name(peer);
  const int fd = socket(peer.ip.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(Errc::connection_failed, "socket", errno);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool routed = connect(fd, reinterpret_cast<const sockaddr*>(name.data()), name.size()) == 0 &&
                      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  const int error = errno;
  close(fd);
  if (!routed) return fail(Errc::connection_failed, "fabric: no route to the server's endpoint", error);
  const auto source = decode_socket_name({reinterpret_cast<const char*>(&own), size});
  if (!source) return fail(Errc::connection_failed, "fabric: no source address");
  return source->ip.to_string();
}

}  // namespace

Result<std::unique_ptr<Link>> connect(const Options& options, std::string_view server_address) {
  VB_ASSIGN(auto link, OfiLink::open(options, server_address));
  return std::unique_ptr<Link>(std::move(link));
}

Result<std::unique_ptr<OfiLink>> OfiLink::open(const Options& options, std::string_view server_address) {
  std::string source;
  std::string server(server_address);
  if (const auto address = decode_socket_name(server_address)) {
    VB_ASSIGN(source, route_source(*address));
    server = encode_socket_name(*address);
  } else {
    VB_ASSIGN(source, source_address(options));
  }
  VB_ASSIGN(auto info, choose(options, Role::client, source));
  VB_ASSIGN(const auto limits, depths(options));
  std::unique_ptr<OfiLink> self(new OfiLink);
  LinkState& state = *self->state_;
  VB_ASSIGN(state.domain, Domain::open(std::move(info)));

  MessageEndpoint::Shape shape;
  shape.message_size_max = ofi::message_size_max(options, state.domain->info());
  shape.receives = limits.receives;
  shape.sends = limits.sends;
  shape.completions = limits.completions;
  shape.send_deadline = options.send_deadline;
  shape.sends_per_client_max = limits.sends;
  shape.peers = 4;
  if (server.empty()) shape.receives = shape.sends = 1;  // it has no peer
  VB_ASSIGN(state.memory, map_memory((shape.receives + shape.sends) * shape.message_size_max));
  VB_TRY(state.domain->register_local(*state.memory));
  VB_ASSIGN(state.messages, MessageEndpoint::open(*state.domain, shape, std::span(state.memory.get(), 1)));
  self->name_ = state.messages->name();
  self->message_size_max_ = shape.message_size_max;
  if (!server.empty()) {
    if (has_socket_addresses(state.domain->info()) ? !decode_socket_name(server)
                                                   : server.size() != self->name_.size()) {
      return fail(Errc::malformed, "fabric: the server's address is not one of this provider");
    }
    VB_ASSIGN(self->server_, state.messages->add_peer(server, {}));
  }
  return self;
}

OfiLink::~OfiLink() {
  const std::lock_guard lock(state_->mutex);
  state_->messages.reset();
}

Result<void> OfiLink::send(Bytes message) {
  const std::lock_guard lock(state_->mutex);
  if (!server_) return fail(Errc::unsupported, "fabric: this link has no peer");
  return state_->messages->send(*server_, message);
}

Result<size_t> OfiLink::poll(const OnMessage& handler) {
  const std::lock_guard lock(state_->mutex);
  MessageEndpoint& messages = *state_->messages;
  if (messages.closed()) return fail(Errc::closed, "fabric: the link was cut to revoke a window");
  const size_t events = messages.progress();
  return events + messages.deliver(handler);
}

// Spins a little, then sleeps on the descriptor, in naps: bytes that arrive for a window raise no completion here.
void OfiLink::wait(Deadline deadline) {
  const auto spin_until = std::min(deadline, deadline_in(spin_for));
  int fd = -1;
  for (bool first = true;; first = false) {
    {
      const std::lock_guard lock(state_->mutex);
      MessageEndpoint& messages = *state_->messages;
      if (messages.closed() || messages.progress() != 0 || messages.has_message()) return;
      if (SteadyClock::now() >= spin_until && !first) {
        fd = messages.wait_fd();
        if (fd >= 0 && !messages.try_wait()) return;
        break;
      }
    }
    sched_yield();  // on few cores the server needs this one
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - SteadyClock::now());
  const auto nap = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), nap_max);
  pollfd entry{fd, POLLIN, 0};
  const timespec timeout{0, static_cast<long>(nap.count())};
  ppoll(&entry, fd < 0 ? 0 : 1, &timeout, nullptr);
}

// On tcp the queue's descriptor reports every socket of the domain, on devices the connections as well: also what
// raises no completion here.
int OfiLink::sleep_fd() {
  const std::lock_guard lock(state_->mutex);
  MessageEndpoint& messages = *state_->messages;
  return messages.try_wait() ? messages.wait_fd() : -1;
}

// The access that a window's owner gives its peer.
static uint64_t rights_of(Access access) { return access == Access::server_writes ? FI_REMOTE_WRITE : FI_REMOTE_READ; }

Result<void> OfiLink::check_open() const {
  if (state_->messages->closed()) return fail(Errc::closed, "fabric: the link was cut to revoke a window");
  return {};
}

Result<std::unique_ptr<Lent>> OfiLink::lend(MutableBytes memory, Access access) {
  const std::lock_guard lock(state_->mutex);
  VB_TRY(check_open());
  Domain::Remote remote;
  if (!memory.empty()) {  // an empty window needs no region
    VB_ASSIGN(remote, state_->domain->register_remote(memory, rights_of(access)));
  }
  return std::make_unique<OfiLent>(state_, std::move(remote), memory.size(), memory);
}

Result<std::unique_ptr<Lent>> OfiLink::lend_peer(const PeerLoan& loan, Access access) {
  const std::lock_guard lock(state_->mutex);
  VB_TRY(check_open());
  VB_ASSIGN(auto remote, state_->domain->register_device(loan, rights_of(access)));
  return std::make_unique<OfiLent>(state_, std::move(remote), loan.size, MutableBytes());
}

Result<std::shared_ptr<MutableBytes>> OfiLink::allocate(size_t size) { return map_memory(size); }

}  // namespace verbena::fabric::ofi
