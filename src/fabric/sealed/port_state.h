// What a sealed port and its windows share. On the core's thread alone.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/core.h"
#include "base/task.h"
#include "fabric/sealed/channel.h"
#include "fabric/sealed/sealed.h"

namespace verbena::fabric::sealed {

// Coroutines that wait for something that others give back, in the order in which they came.
class WaitingLine {
 public:
  // False: not woken before the deadline.
  Task<bool> wait(Core& core, Deadline deadline);
  void wake_all();

 private:
  // The end of a wait, also of one whose coroutine is destroyed.
  struct Place {
    Place(WaitingLine& line, boost::asio::steady_timer& timer) : line(line), timer(timer) {
      line.waiting_.push_back(&timer);
    }
    Place(const Place&) = delete;
    ~Place() { std::erase(line.waiting_, &timer); }
    WaitingLine& line;
    boost::asio::steady_timer& timer;
  };
  std::vector<boost::asio::steady_timer*> waiting_;
};

// A session's connection to this port.
struct Peer {
  Peer(uint64_t session, Ciphers ciphers, size_t envelope_size_max, uint64_t numbers_max)
      : session(session), channel(session, std::move(ciphers), std::nullopt, envelope_size_max, numbers_max) {}

  const uint64_t session;
  Channel channel;
  PeerId id = 0;      // below; 0: not added yet
  bool gone = false;  // no more is sent; kept until its session ends, so that its numbers stay used

  std::optional<Rings> rings;
  FreeSegments free_segments;      // of the ring `down`
  size_t buffers = 0;              // of the port's, in use
  std::vector<std::byte> records;  // to be told before the next message

  struct Wanted {
    std::optional<Ready> ready;
    std::vector<std::byte> inside;
    WaitingLine line;
    bool abandoned = false;  // its reader has left: the segment goes back as soon as it comes
  };
  std::unordered_map<uint32_t, std::shared_ptr<Wanted>> wanted;
  uint32_t last_want = 0;
};

struct PortState {
  PortState(Core& core, Port& below, memory::Arena& arena, const PortOptions& options)
      : core(core), below(&below), arena(arena), options(options), spare_timer(core.io()), blocked(*this) {}

  Core& core;
  Port* below;  // null: the port is gone
  memory::Arena& arena;
  const PortOptions options;

  std::unordered_map<uint64_t, std::shared_ptr<Peer>> by_session;
  std::unordered_map<PeerId, std::shared_ptr<Peer>> by_id;

  // Buffers for records on their way from the arena to a ring. Spare ones that were not needed for a second go back.
  std::vector<memory::Lease> spare;
  size_t spare_unused = 0;  // so many were spare all the time since the timer was started
  boost::asio::steady_timer spare_timer;
  bool spare_timer_runs = false;
  size_t buffers = 0;  // also the spare ones
  WaitingLine line;    // for a buffer, a segment, or room in a connection's queue

  std::vector<std::shared_ptr<Peer>> to_flush;
  bool flush_posted = false;

  // Polled by the core while a peer's queue below is full: a completion below, which makes room, wakes the core.
  class Blocked final : public Pollable {
   public:
    explicit Blocked(PortState& state) : state_(state) {}
    size_t poll() override;
    bool busy() const override { return true; }  // the core looks again after a millisecond, if nothing wakes it
    bool arm() override { return true; }
    void disarm() override {}
    void begin();
    void end();

   private:
    PortState& state_;
    bool added_ = false;
  };
  Blocked blocked;

  void flush_all();
  void leave(Peer& peer);
  void close();  // the port goes
};
using PortStatePtr = std::shared_ptr<PortState>;

// Takes back a buffer.
void keep_spare(const PortStatePtr& state, memory::Lease lease);

// Whether the port below may take a message to the peer. Asked before anything is sealed: each vain attempt would cost
// all of it.
bool may_send(const PortState& state, const Peer& peer);

Result<void> flush(PortState& state, Peer& peer);
// Flushes when the core comes round, and tries again until it is done.
void flush_soon(const PortStatePtr& state, const std::shared_ptr<Peer>& peer);

// Tells the client that the segment of its answer may be used again, if it used one.
void give_back_segment(const PortStatePtr& state, const std::shared_ptr<Peer>& peer, const Ready& ready);

// A window of a sealed peer.
std::unique_ptr<Window> make_window(PortStatePtr state, std::shared_ptr<Peer> peer, const WindowDescriptor& lent,
                                    Access access);

}  // namespace verbena::fabric::sealed
