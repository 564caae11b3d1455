// The native door on one port of one core: receives messages, checks them, starts verbs, sends replies. All on the
// core's thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/core.h"
#include "native/door_state.h"
#include "native/key_watches.h"
#include "native/op.h"
#include "native/session_stream.h"
#include "s3/access/quota.h"

namespace verbena::native {

class Endpoint final : public std::enable_shared_from_this<Endpoint>, private Pollable {
 public:
  Endpoint(std::shared_ptr<DoorState> door, Core& core, fabric::Port& port, uint16_t index);
  ~Endpoint();

  void start();  // hooks into the port and starts the sweep
  void reply(OpPtr op);
  void recycle(Op* op);
  // Releases the replies that still wait, after the core has stopped for good. Any thread.
  void abandon();

  DoorState& door() { return *door_; }
  fabric::Port& port() { return port_; }
  const EndpointInfo& info() const { return door_->endpoints[index_]; }
  Core& core() { return core_; }
  KeyWatches& watches() { return *watches_; }
  const std::shared_ptr<LeaseBook>& lease_book() { return leases_; }
  // Stops all reports to watches. Any thread.
  void stop_watches() { watches_->close(); }
  OpPtr take_op(SessionStream& stream, const wire::Header& header);
  void want_polls();
  // Called by the core's poll: sends replies again that found the peer's queue full, and resumes coroutines that wait
  // for a turn.
  size_t poll() override;

  // Resumes at one of the endpoint's next turns, which resume one waiter each. Between two turns the core polls every
  // port, so that a long request does not delay short ones. A post to the loop would not ensure that (CopyQueue).
  Task<void> turn();
  // Whether a batch may begin before the core polls its ports again. Batches report their work by took_turn(), so that
  // several that arrived together share one turn.
  bool may_serve_at_once() const { return at_once_ && turns_.empty() && turn_cost_ < turn_cost_max; }
  void took_turn(size_t items, uint64_t bytes);
  // Whether the session's key is unchanged since it was opened. After a change the stream's caller is made anew;
  // renew() updates a copy of it.
  bool still_known(SessionStream& stream);
  static bool is_old(const call::Caller& caller, const SessionStream& stream) {
    return caller.identity.generation != stream.caller.identity.generation;
  }
  static void renew(call::Caller& caller, const SessionStream& stream);
  // A buffer to serve the request with; returned with the request.
  ReadBatch& take_read_batch(Op& op);
  // Writes of batches in progress, besides the first one of each batch. Bounded for all sessions together, since each
  // write has a coroutine, and for each client, since a client may delay its bytes.
  bool may_write(const ClientLoad& client) const {
    return writes_ < writes_max && client.writes < writes_max / clients_with_most;
  }
  void begin_write(ClientLoad& client) { ++writes_, ++client.writes; }
  void end_write(ClientLoad& client) { --writes_, --client.writes; }
  // Read-ahead coroutines of batches, bounded likewise.
  bool may_read_ahead(const ClientLoad& client) const {
    return readers_ < readers_max && client.readers < readers_max / clients_with_most;
  }
  void begin_read_ahead(ClientLoad& client) { ++readers_, ++client.readers; }
  void end_read_ahead(ClientLoad& client) { --readers_, --client.readers; }
  // Accounts one item of a batch like a request of its own, or `requests` equal items if nothing logs them. Items that
  // the caller may not access get one common line when the batch ends.
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
  void dispatch(SessionStream& stream, const wire::Header& header, Bytes body);
  bool has_credit(const SessionStream& stream, uint8_t type) const;
  Deadline waits_until(const wire::Header& header) const;
  void start_verb(SessionStream& stream, const wire::Header& header, Bytes body, Deadline until);
  void start_batch(OpPtr op, Bytes body);
  // Charges requests to the quotas of their buckets, which may refuse them, and calls `start` for admitted ones.
  using Requests = std::vector<s3::BucketRequests>;
  void start_admitted(Requests requests, OpPtr op, std::function<void(OpPtr)> start);
  static Task<void> admit(std::shared_ptr<OpPtr> held, Requests requests, std::function<void(OpPtr)> start);
  void hello(fabric::PeerId from, const wire::Header& header, Bytes message);
  Result<fabric::PeerId> dial(const Session& session, std::string_view address);
  void answer(SessionStream& stream, const wire::Header& header, Errc code);  // a reply with a code only
  void gone(fabric::PeerId peer);
  void close(SessionStream& stream);
  Result<void> send(Op& op);
  void tell_moved(SessionStream& stream);
  void sweep();
  // Releases what leases held, turn by turn.
  void release_leases();
  static Task<void> release_leases_by_turns(std::shared_ptr<Endpoint> self);
  static Task<void> sweep_forever(std::weak_ptr<Endpoint> endpoint);

  void measure(Op& op) const;  // called when its reply was sent
  void begin_note(Op& op) const;
  void account(Op& op) const;
  void note_refusal(const SessionStream& stream, const wire::Header& header, Errc code) const;
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
  const std::shared_ptr<LeaseBook> leases_;  // of the core
  bool releasing_ = false;                   // release_leases_by_turns() is running
  StreamMap streams_;
  std::unordered_map<fabric::PeerId, uint32_t> streams_of_peer_;  // those that are open
  std::map<std::string, std::weak_ptr<ClientLoad>> loads_;        // of clients that have a stream
  std::vector<std::unique_ptr<Op>> spare_ops_;
  std::shared_ptr<KeyWatches> watches_;  // from start() on
  std::deque<OpPtr> waiting_;
  uint64_t polls_ = 0;
  std::deque<std::function<void()>> turns_;  // coroutines that wait for a turn
  bool polled_ = false;
  bool at_once_ = false;                          // a verb may begin while the transport delivers its message
  static constexpr size_t clients_with_most = 4;  // so many clients together can use all of these
  static constexpr size_t writes_max = 1024;
  size_t writes_ = 0;
  static constexpr size_t readers_max = 128;
  size_t readers_ = 0;
  static constexpr size_t turn_cost_max = 256;  // each item and each KiB counts one
  size_t turn_cost_ = 0;                        // of batches since the last poll of the ports
  static constexpr size_t spare_batches_max = 16;
  std::vector<std::unique_ptr<ReadBatch>> spare_reads_;
  std::vector<std::unique_ptr<WriteBatch>> spare_writes_;
  std::atomic<size_t> in_flight_{0};
  std::atomic<uint64_t> moved_requests_{0}, moved_in_{0}, moved_out_{0};
  uint64_t request_ids_ = 0;
  uint64_t received_ = 0;  // ticks(): arrival of the message in progress
};

}  // namespace verbena::native
