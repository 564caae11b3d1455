// The door on one port of one core: takes messages in, checks them, starts verbs, sends replies. All on the core's
// thread.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "base/core.h"
#include "native/door.h"
#include "native/lane.h"
#include "native/op.h"

namespace verbena::native {

class Endpoint final : public std::enable_shared_from_this<Endpoint>, private Pollable {
 public:
  Endpoint(std::shared_ptr<Door> door, Core& core, fabric::Port& port, uint16_t index);

  void start();  // hooks into the port and starts the sweep
  void reply(OpPtr op);
  void recycle(Op* op);
  // The core has stopped for good: lets go of the replies that still wait. Any thread.
  void abandon();

  Door& door() { return *door_; }
  fabric::Port& port() { return port_; }
  const EndpointInfo& info() const { return door_->endpoints[index_]; }
  size_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }  // any thread

 private:
  void receive(fabric::PeerId from, Bytes message);
  void dispatch(Lane& lane, const wire::Header& header, Bytes body);
  bool still_known(Lane& lane);
  void start_verb(Lane& lane, const wire::Header& header, Bytes body);
  void hello(fabric::PeerId from, const wire::Header& header, Bytes message);
  Result<fabric::PeerId> dial(const Session& session, std::string_view address);
  void answer(Lane& lane, const wire::Header& header, Errc code);  // a reply that is a code alone
  void gone(fabric::PeerId peer);
  void close(Lane& lane);
  Result<void> send(Op& op);
  void sweep();
  static Task<void> sweep_forever(std::weak_ptr<Endpoint> endpoint);

  void begin_note(Op& op) const;
  void note(const Op& op) const;
  void note_refusal(const Lane& lane, const wire::Header& header, Errc code) const;

  OpPtr take_op(Lane& lane, const wire::Header& header);

  // Replies that found the peer's queue full wait here and are tried again while the core polls.
  size_t poll() override;
  bool busy() const override { return !waiting_.empty(); }
  bool arm() override { return waiting_.empty(); }
  void disarm() override {}

  std::shared_ptr<Door> door_;
  Core& core_;
  fabric::Port& port_;
  const uint16_t index_;
  LaneMap lanes_;
  std::vector<std::unique_ptr<Op>> spare_ops_;
  std::deque<OpPtr> waiting_;
  bool polled_ = false;
  bool at_once_ = false;  // a verb may begin while its message is being handed over
  std::atomic<size_t> in_flight_{0};
  uint64_t request_ids_ = 0;
};

}  // namespace verbena::native
