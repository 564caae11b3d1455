// Messages both ways on one endpoint: the common part of Port (server) and Link (client). Receives are posted ahead,
// sends are copied into slots; both are bounded. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/ofi/domain.h"
#include "fabric/ofi/send_shares.h"

namespace verbena::fabric::ofi {

class MessageEndpoint {
 public:
  struct Shape {
    size_t message_size_max = 16 * KiB;
    size_t receives = 128;
    size_t sends = 128;
    size_t completions = 256;
    size_t sends_per_client_max = 32;  // send_shares.h
    size_t peers = 64;                 // first size of the address vector
    // A peer that accepts nothing for this long loses its connection, and its messages their slots.
    std::chrono::milliseconds send_deadline{10'000};
    uint16_t port = 0;       // to listen on; 0: any
    bool dial_only = false;  // no peer may connect to the listening socket (tcp: none can)
  };

  // `memory`, in pieces that hold (receives + sends) messages in all, is registered with `domain` already
  // (register_local) and outlives this.
  static Result<std::unique_ptr<MessageEndpoint>> open(Domain& domain, const Shape& shape,
                                                       std::span<const MutableBytes> memory);
  ~MessageEndpoint();
  MessageEndpoint(const MessageEndpoint&) = delete;

  const std::string& name() const { return name_; }
  size_t message_size_max() const { return shape_.message_size_max; }

  // `name` was checked against the provider's format before. `client`: whose endpoint it is, as client_of() writes it.
  // Each add needs its remove.
  Result<fi_addr_t> add_peer(std::string_view name, const std::string& client);
  void remove_peer(fi_addr_t peer);

  // Sends one message, from two parts. would_block: no slot for this peer, or its connection is still being made; poll
  // and try again.
  Result<void> send(fi_addr_t peer, Bytes first, Bytes second = {});
  // Whether there is a slot for a message to this peer.
  bool may_send(fi_addr_t peer) const;

  // Collects completions; returns how many.
  size_t progress();
  bool has_message() const { return !received_.empty(); }
  // Calls `handler` for each received message, then posts its buffer again. A handler may call anything here.
  size_t deliver(const std::function<void(Bytes)>& handler);

  size_t sends_in_flight() const { return sends_in_flight_; }
  // Peers that have accepted nothing for send_deadline: to be removed. A device retries for ever if a peer has no
  // receive posted; tcp's connections are cut by progress(). To be called right after that, when no slot is one of a
  // peer that was removed.
  std::vector<fi_addr_t> stalled_peers();
  // The descriptor to sleep on; -1 when there is none.
  int wait_fd() const { return wait_fd_; }
  // Before sleeping on wait_fd(). False: events are pending.
  bool try_wait();
  // Ends everything: the endpoint is gone, its memory no longer touched.
  void close();
  bool closed() const { return endpoint_ == nullptr; }

 private:
  struct Slot {
    fi_context2 context{};  // first: a completion's context is the slot's address
    std::byte* buffer = nullptr;
    fi_addr_t peer = FI_ADDR_UNSPEC;
    SendShares::Holder holder;  // sends
    bool is_receive = false;
    bool posted = false;
    SteadyClock::time_point posted_at{};  // sends
  };
  struct Received {
    Slot* slot;
    size_t size;
  };
  MessageEndpoint(Domain& domain, const Shape& shape)
      : domain_(domain), shape_(shape), shares_(shape.sends, shape.sends_per_client_max) {}
  Result<void> open_handles();
  Result<void> post_receive(Slot& slot);
  void repost_missing();
  std::vector<fi_addr_t> find_stalled();
  Slot* slot_of(void* context);
  void complete(Slot& slot, size_t size, bool ok);

  Domain& domain_;
  Shape shape_;
  FidPtr<fid_cq> queue_;
  FidPtr<fid_av> peers_;
  FidPtr<fid_ep> endpoint_;
  std::string name_;
  int wait_fd_ = -1;
  std::vector<Slot> slots_;  // receives, then sends
  std::vector<Slot*> free_sends_;
  std::vector<Slot*> unposted_;  // receives that the provider had no room for
  std::deque<Received> received_;
  SendShares shares_;
  size_t sends_in_flight_ = 0;
  SteadyClock::time_point next_stall_check_{};
};

}  // namespace verbena::fabric::ofi
