// The door on one port of one core: takes messages in, checks them, starts verbs, sends replies. All on the core's
// thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core.h"
#include "native/door_state.h"
#include "native/key_watches.h"
#include "native/lane.h"
#include "native/op.h"

namespace verbena::native {

class Endpoint final : public std::enable_shared_from_this<Endpoint>, private Pollable {
 public:
  Endpoint(std::shared_ptr<DoorState> door, Core& core, fabric::Port& port, uint16_t index);
  ~Endpoint();

  void start();  // hooks into the port and starts the sweep
  void reply(OpPtr op);
  void recycle(Op* op);
  // The core has stopped for good: lets go of the replies that still wait. Any thread.
  void abandon();

  DoorState& door() { return *door_; }
  fabric::Port& port() { return port_; }
  const EndpointInfo& info() const { return door_->endpoints[index_]; }
  Core& core() { return core_; }
  KeyWatches& watches() { return *watches_; }
  // What tells those who watch is not told of anything any more. Any thread.
  void stop_watches() { watches_->close(); }
  OpPtr take_op(Lane& lane, const wire::Header& header);
  void want_polls();
  // Replies that found the peer's queue full are tried again while the core polls, and who waits for a turn gets it.
  size_t poll() override;

  // Resumes at one of the endpoint's next turns, one who waits at each: between two of them the core looks at every
  // port, so that a long request does not hold up short ones. A post to the loop would not do that (CopyQueue).
  Task<void> turn();
  // Whether a batch may begin before the core looks at the ports again. What it looked at and moved is told by
  // took_turn(): several that came together, and those behind one that waits for its turn, are not to add up.
  bool may_serve_at_once() const { return at_once_ && turns_.empty() && turn_cost_ < turn_cost_max; }
  void took_turn(size_t items, uint64_t bytes);
  // Whether the session's key is still what it was opened with. A change makes the lane's caller anew; renew() tells
  // one that was copied from it.
  bool still_known(Lane& lane);
  static bool is_old(const call::Caller& caller, const Lane& lane) {
    return caller.identity.generation != lane.caller.identity.generation;
  }
  static void renew(call::Caller& caller, const Lane& lane);
  // For the request to be served with. Given back with the request.
  ReadBatch& take_read_batch(Op& op);
  // Writes of batches under way, each of a batch's first alone: bounded for all sessions together, since each has a
  // coroutine, and for each client, since a client may keep them waiting for its bytes.
  bool may_write(const ClientLoad& client) const {
    return writes_ < writes_max && client.writes < writes_max / clients_with_most;
  }
  void begin_write(ClientLoad& client) { ++writes_, ++client.writes; }
  void end_write(ClientLoad& client) { --writes_, --client.writes; }
  // Coroutines of batches that read ahead: bounded likewise.
  bool may_read_ahead(const ClientLoad& client) const {
    return readers_ < readers_max && client.readers < readers_max / clients_with_most;
  }
  void begin_read_ahead(ClientLoad& client) { ++readers_, ++client.readers; }
  void end_read_ahead(ClientLoad& client) { --readers_, --client.readers; }
  // One item of a batch, as a request of its own; or several alike of which no log is told, by how many there are.
  // Lines of those that the caller has no right to are summed up when the batch ends.
  struct Item {
    size_t bucket = 0;  // its place in the batch
    std::string_view bucket_name, key = {}, version = {};
    Errc outcome = Errc::ok;
    bool partial = false;
    uint64_t in = 0, out = 0;
    std::optional<uint64_t> object_size = {};
    uint64_t requests = 1;
  };
  void account(Op& op, const Item& item) const;

  size_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }  // any thread
  NativeDoor::Moved moved() const;                                                 // likewise

 private:
  void receive(fabric::PeerId from, Bytes message);
  void dispatch(Lane& lane, const wire::Header& header, Bytes body);
  bool has_credit(const Lane& lane, uint8_t type) const;
  void start_verb(Lane& lane, const wire::Header& header, Bytes body);
  void start_batch(OpPtr op, Bytes body);
  // Requests by bucket, which quotas may refuse; `start` goes on with what they let in.
  using Requests = std::vector<std::pair<std::string, uint64_t>>;
  void start_admitted(Requests requests, OpPtr op, std::function<void(OpPtr)> start);
  static Task<void> admit(std::shared_ptr<OpPtr> held, Requests requests, std::function<void(OpPtr)> start);
  void hello(fabric::PeerId from, const wire::Header& header, Bytes message);
  Result<fabric::PeerId> dial(const Session& session, std::string_view address);
  void answer(Lane& lane, const wire::Header& header, Errc code);  // a reply that is a code alone
  void gone(fabric::PeerId peer);
  void close(Lane& lane);
  Result<void> send(Op& op);
  void tell_moved(Lane& lane);
  void sweep();
  static Task<void> sweep_forever(std::weak_ptr<Endpoint> endpoint);

  void measure(Op& op) const;  // once its reply is out
  void begin_note(Op& op) const;
  void account(Op& op) const;
  void note_refusal(const Lane& lane, const wire::Header& header, Errc code) const;
  bool buckets_have_logs() const;
  static Task<void> begin_logs(Op& op, const Requests& requests);

  std::shared_ptr<ClientLoad> load_of_client(std::string_view address);

  bool busy() const override { return !waiting_.empty() || !turns_.empty() || watches_->busy(); }
  bool arm() override { return !busy(); }
  void disarm() override {}

  std::shared_ptr<DoorState> door_;
  Core& core_;
  fabric::Port& port_;
  const uint16_t index_;
  LaneMap lanes_;
  std::map<std::string, std::weak_ptr<ClientLoad>> loads_;  // of clients that have a lane
  std::vector<std::unique_ptr<Op>> spare_ops_;
  std::shared_ptr<KeyWatches> watches_;  // from start() on
  std::deque<OpPtr> waiting_;
  std::deque<std::function<void()>> turns_;  // who waits for one
  bool polled_ = false;
  bool at_once_ = false;                          // a verb may begin while its message is being handed over
  static constexpr size_t clients_with_most = 4;  // that many clients can have all of these
  static constexpr size_t writes_max = 1024;
  size_t writes_ = 0;
  static constexpr size_t readers_max = 128;
  size_t readers_ = 0;
  static constexpr size_t turn_cost_max = 256;  // an item is one, and so is each KiB
  size_t turn_cost_ = 0;                        // of batches since the core looked at its ports
  static constexpr size_t spare_batches_max = 16;
  std::vector<std::unique_ptr<ReadBatch>> spare_reads_;
  std::vector<std::unique_ptr<WriteBatch>> spare_writes_;
  std::atomic<size_t> in_flight_{0};
  std::atomic<uint64_t> moved_requests_{0}, moved_in_{0}, moved_out_{0};
  uint64_t request_ids_ = 0;
  uint64_t received_ = 0;  // ticks(): when the message came that is being looked at
};

}  // namespace verbena::native
