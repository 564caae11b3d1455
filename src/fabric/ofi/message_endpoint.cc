#include "fabric/ofi/message_endpoint.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/log.h"
#include "base/metrics.h"
#include "fabric/ofi/tcp_sockets.h"

namespace verbena::fabric::ofi {
namespace {

constexpr size_t messages_per_read = 16;
constexpr auto stall_check_every = std::chrono::milliseconds(1000);

metrics::Counter& stalled_connections() {
  static auto& counter = metrics::counter("verbena_fabric_connections_stalled_total",
                                          "Connections cut because their peer took no message for too long");
  return counter;
}

metrics::Counter& dropped(const char* reason) {
  return metrics::counter("verbena_fabric_messages_dropped_total", "Messages that a fabric endpoint could not take",
                          {{"reason", reason}});
}

}  // namespace

Result<std::unique_ptr<MessageEndpoint>> MessageEndpoint::open(Domain& domain, const Shape& shape,
                                                               std::span<const MutableBytes> memory) {
  std::unique_ptr<MessageEndpoint> self(new MessageEndpoint(domain, shape));
  VB_TRY(self->open_handles());
  self->slots_.resize(shape.receives + shape.sends);
  size_t next = 0;
  for (MutableBytes piece : memory) {
    for (; piece.size() >= shape.message_size_max && next < self->slots_.size(); ++next) {
      Slot& slot = self->slots_[next];
      slot.buffer = piece.data();
      piece = piece.subspan(shape.message_size_max);
      slot.is_receive = next < shape.receives;
      if (slot.is_receive) {
        VB_TRY(self->post_receive(slot));
      } else {
        self->free_sends_.push_back(&slot);
      }
    }
  }
  if (next < self->slots_.size()) return fail(Errc::invalid_argument, "message endpoint: memory too small");
  return self;
}

MessageEndpoint::~MessageEndpoint() { close(); }

Result<void> MessageEndpoint::open_handles() {
  const InfoPtr info(fi_dupinfo(&domain_.info()));
  if (!info) return fail(Errc::out_of_memory, "fi_dupinfo");
  if (shape_.port != 0 && info->src_addr != nullptr && has_socket_addresses(*info)) {
    // sin_port and sin6_port are at the same offset.
    static_cast<sockaddr_in*>(info->src_addr)->sin_port = htons(shape_.port);
  }
  fid_ep* endpoint = nullptr;
  const bool refuses = shape_.dial_only && domain_.is_tcp();
  const int first_descriptor = refuses ? next_descriptor() : -1;
  if (const int ret = fi_endpoint(domain_.domain(), info.get(), &endpoint, nullptr)) {
    return fi_fail(Errc::io_error, "fi_endpoint", ret);
  }
  FidPtr<fid_ep> owner(endpoint);
  VB_ASSIGN(queue_, open_completion_queue(domain_, shape_.completions, FI_CQ_FORMAT_MSG, true));
  VB_ASSIGN(peers_, open_address_vector(domain_, shape_.peers));
  int ret = fi_ep_bind(endpoint, &peers_->fid, 0);
  if (ret == 0) ret = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (ret == 0) ret = fi_enable(endpoint);
  if (ret != 0) return fi_fail(Errc::io_error, "fi_enable", ret);
  VB_ASSIGN(name_, endpoint_name(endpoint));
  if (refuses && !refuse_connections(name_, first_descriptor)) {
    return fail(Errc::io_error, "fabric: the listener of an endpoint that only dials cannot be closed", errno);
  }
  wait_fd_ = wait_descriptor(queue_.get());
  endpoint_ = std::move(owner);
  return {};
}

void MessageEndpoint::close() {
  received_.clear();
  endpoint_.reset();
  wait_fd_ = -1;
  queue_.reset();
  peers_.reset();
}

Result<fi_addr_t> MessageEndpoint::add_peer(std::string_view name, const std::string& client) {
  if (closed()) return fail(Errc::closed, "message endpoint");
  // Providers read a whole address of their own size: give them room and zeros beyond the name.
  std::array<char, 512> address{};
  if (name.size() > address.size()) return fail(Errc::malformed, "endpoint name");
  std::memcpy(address.data(), name.data(), name.size());
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const int ret = fi_av_insert(peers_.get(), address.data(), 1, &peer, 0, nullptr);
  if (ret != 1 || peer == FI_ADDR_NOTAVAIL) return fi_fail(Errc::malformed, "fi_av_insert", ret);
  shares_.add(peer, client);
  return peer;
}

void MessageEndpoint::remove_peer(fi_addr_t peer) {
  shares_.remove(peer);
  if (!closed()) fi_av_remove(peers_.get(), &peer, 1, 0);
}

bool MessageEndpoint::may_send(fi_addr_t peer) const {
  const auto holder = shares_.find(peer);
  return holder != nullptr && shares_.may_take(*holder);
}

Result<void> MessageEndpoint::send(fi_addr_t peer, Bytes first, Bytes second) {
  if (closed()) return fail(Errc::closed, "message endpoint");
  const size_t size = first.size() + second.size();
  if (size > shape_.message_size_max || size == 0) return fail(Errc::too_large, "fabric message");
  auto holder = shares_.find(peer);
  if (holder == nullptr) return fail(Errc::closed, "fabric: no such peer");
  if (!shares_.may_take(*holder)) return fail(Errc::would_block, "fabric send slots");
  Slot& slot = *free_sends_.back();
  std::copy(first.begin(), first.end(), slot.buffer);
  std::copy(second.begin(), second.end(), slot.buffer + first.size());
  size_t contiguous = 0;
  void* descriptor = domain_.descriptor(slot.buffer, contiguous);
  const ssize_t ret = fi_send(endpoint_.get(), slot.buffer, size, descriptor, peer, &slot.context);
  if (ret == -FI_EAGAIN) return fail(Errc::would_block, "fi_send");
  if (ret != 0) return fi_fail(Errc::connection_failed, "fi_send", ret);
  free_sends_.pop_back();
  shares_.take(*holder);
  slot.holder = std::move(holder);
  slot.peer = peer;
  slot.posted = true;
  slot.posted_at = SteadyClock::now();
  ++sends_in_flight_;
  return {};
}

Result<void> MessageEndpoint::post_receive(Slot& slot) {
  size_t contiguous = 0;
  void* descriptor = domain_.descriptor(slot.buffer, contiguous);
  const ssize_t ret =
      fi_recv(endpoint_.get(), slot.buffer, shape_.message_size_max, descriptor, FI_ADDR_UNSPEC, &slot.context);
  if (ret == -FI_EAGAIN) {
    unposted_.push_back(&slot);
    return {};
  }
  if (ret != 0) return fi_fail(Errc::io_error, "fi_recv", ret);
  slot.posted = true;
  return {};
}

void MessageEndpoint::repost_missing() {
  std::vector<Slot*> missing;
  missing.swap(unposted_);
  for (Slot* slot : missing) {
    if (const auto posted = post_receive(*slot); !posted) unposted_.push_back(slot);
  }
}

void MessageEndpoint::complete(Slot& slot, size_t size, bool ok) {
  slot.posted = false;
  if (slot.is_receive) {
    if (ok && size <= shape_.message_size_max) {
      received_.push_back({&slot, size});
      return;
    }
    dropped("receive_error").add();  // oversized (FI_ETRUNC), or its connection broke
    unposted_.push_back(&slot);
    return;
  }
  if (!ok) dropped("send_error").add();
  --sends_in_flight_;
  shares_.give(*slot.holder);
  slot.holder.reset();
  free_sends_.push_back(&slot);
}

// Some errors of a provider (rxm) belong to no operation of ours.
MessageEndpoint::Slot* MessageEndpoint::slot_of(void* context) {
  auto* slot = static_cast<Slot*>(context);
  if (slot < slots_.data() || slot >= slots_.data() + slots_.size() || !slot->posted) return nullptr;
  return slot;
}

// A frozen peer's messages would hold their slots forever.
std::vector<fi_addr_t> MessageEndpoint::find_stalled() {
  std::vector<fi_addr_t> stalled;
  const auto now = SteadyClock::now();
  if (now < next_stall_check_) return stalled;
  next_stall_check_ = now + std::min<std::chrono::milliseconds>(shape_.send_deadline / 2, stall_check_every);
  for (const Slot& slot : slots_) {
    if (!slot.posted || slot.is_receive || now - slot.posted_at <= shape_.send_deadline) continue;
    if (std::ranges::find(stalled, slot.peer) == stalled.end()) stalled.push_back(slot.peer);
  }
  return stalled;
}

std::vector<fi_addr_t> MessageEndpoint::stalled_peers() {
  if (sends_in_flight_ == 0 || domain_.is_tcp()) return {};
  auto stalled = find_stalled();
  stalled_connections().add(stalled.size());
  return stalled;
}

size_t MessageEndpoint::progress() {
  if (closed()) return 0;
  if (sends_in_flight_ != 0 && domain_.is_tcp() && !find_stalled().empty()) {
    stalled_connections().add(cut_stalled_connections(name_, shape_.send_deadline));
  }
  if (!unposted_.empty()) repost_missing();
  size_t total = 0;
  for (;;) {
    std::array<fi_cq_msg_entry, messages_per_read> entries;
    const ssize_t n = fi_cq_read(queue_.get(), entries.data(), entries.size());
    if (n > 0) {
      for (ssize_t i = 0; i < n; ++i) {
        if (Slot* slot = slot_of(entries[i].op_context)) complete(*slot, entries[i].len, true);
      }
      total += static_cast<size_t>(n);
      if (static_cast<size_t>(n) < entries.size()) return total;
      continue;
    }
    if (n != -FI_EAVAIL) return total;
    fi_cq_err_entry error{};
    if (fi_cq_readerr(queue_.get(), &error, 0) != 1) return total;
    ++total;
    if (Slot* slot = slot_of(error.op_context)) complete(*slot, 0, false);
  }
}

size_t MessageEndpoint::deliver(const std::function<void(Bytes)>& handler) {
  // Only those present now: messages that a handler's own sends bring in wait for the next round.
  size_t count = 0;
  for (size_t left = received_.size(); left > 0 && !received_.empty(); --left) {
    const Received message = received_.front();
    received_.pop_front();
    if (handler) handler(Bytes(message.slot->buffer, message.size));
    ++count;
    if (closed()) return count;
    if (const auto posted = post_receive(*message.slot); !posted) unposted_.push_back(message.slot);
  }
  return count;
}

bool MessageEndpoint::try_wait() {
  if (closed() || wait_fd_ < 0 || !received_.empty() || !unposted_.empty()) return false;
  fid* fids[] = {&queue_->fid};
  return fi_trywait(domain_.fabric(), fids, 1) == FI_SUCCESS;
}

}  // namespace verbena::fabric::ofi
