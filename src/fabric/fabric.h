// How bytes move between hosts (fabric/tcp; fabric/ofi on RDMA devices) and between processes of one host
// (fabric/local). Everything above sees this interface only.
//
// Three roles:
//   Port     server, one per core: receives messages from many peers and answers them.
//   Window   server: memory that a client lent for one request; the server writes into it or reads from it.
//   Link     client: a connection to one Port, and the lending of memory.
// A Port or Window is used on its core's thread alone. A Link is used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/core.h"
#include "base/result.h"
#include "base/task.h"

namespace verbena::fabric {

// The direction that a lender allows, as the server sees it.
enum class Access : uint8_t { server_writes = 1, server_reads = 2 };

// What a client tells the server about memory it lends. Sent in native messages as it is; every field is hostile.
struct WindowDescriptor {
  uint64_t base =
      0;  // ofi: the address of byte 0 as the owner's provider reads it; local: offset into the shared memfd; tcp: 0
  uint64_t size = 0;  // bytes
  uint64_t key = 0;   // ofi: the region's remote key; local: which of the client's shared memfds; tcp: its number
};

class Window {
 public:
  virtual ~Window() = default;
  virtual uint64_t size() const = 0;
  // Moves bytes between arena memory and the window at offset `at`. Bounds are checked before anything is posted.
  // Resumes when the operation's completion was collected; on failure or past the deadline, when it is certain that
  // neither side's memory will be touched by it any more (the data endpoint was closed and flushed). Several may be in
  // flight at once (spawn them); `read` never returns short: less than asked is an error.
  virtual Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) = 0;
  virtual Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) = 0;

  // Transports that move bytes by a plain copy (local) do so at once, without a suspension: for the microsecond path.
  // Others answer unsupported. Meant for up to immediate_size_max() bytes; longer copies hold up the core's loop.
  virtual size_t immediate_size_max() const { return 0; }
  // Several writes, at most writes_max: what each costs beside its bytes is paid once. Of what fails some may have been
  // written.
  struct Write {
    Bytes from;
    uint64_t at = 0;
  };
  static constexpr size_t writes_max = 16;
  virtual Result<void> write_all_now(std::span<const Write> /*writes*/) { return fail(Errc::unsupported, "write_now"); }
  Result<void> write_now(Bytes from, uint64_t at) {
    const Write one{from, at};
    return write_all_now(std::span(&one, 1));
  }
  virtual Result<void> read_now(MutableBytes /*into*/, uint64_t /*at*/) { return fail(Errc::unsupported, "read_now"); }
};

// A peer as its Port names it; never reused while the Port lives.
using PeerId = uint64_t;

// What one session and one Port share and nobody else has: transports that authenticate connections prove with it who
// they are, and derive from it what they encrypt with.
struct ConnectionKey {
  std::array<std::byte, 32> bytes{};
};

class Port {
 public:
  virtual ~Port() = default;

  // Transports that authenticate connections (tcp) ask for a session's key. False: there is no such session. `key` may
  // be null: then only that is asked. Called on the core's thread.
  using FindKey = std::function<bool(uint64_t session, ConnectionKey* key)>;
  virtual void on_connection(FindKey) {}
  // Nobody on the way can read or change what goes through here.
  virtual bool encrypted() const { return false; }

  // Called on the core's thread for each message. `message` is valid during the call only; on `local` it is a private
  // copy already (the peer may scribble over the ring). `from` is 0 where the transport does not know the sender:
  // the session inside the message then says who it is.
  using OnMessage = std::function<void(PeerId from, Bytes message)>;
  virtual void on_message(OnMessage handler) = 0;
  // The transport saw the peer go (local: socket closed). Not every transport can.
  using OnGone = std::function<void(PeerId peer)>;
  virtual void on_gone(OnGone handler) = 0;

  // Longest message in bytes, both directions.
  virtual size_t message_size_max() const = 0;
  // This endpoint's own address, to be told to clients (ofi: fi_getname bytes; local: unused).
  virtual std::string address() const = 0;

  // Makes a peer from the address that a client told (ofi), checked against the provider's address format.
  virtual Result<PeerId> add_peer(std::string_view address) = 0;
  // The peer has shown that it has the keys of `session`. False: its connection was let in as another session's (tcp),
  // and is no place for this one. A peer that the transport let in by itself (local) and that does not show who it is
  // in time may be thrown out, first of all when another wants its place.
  virtual bool admit(PeerId /*peer*/, uint64_t /*session*/) { return true; }
  // Forgets a peer; sends and windows in flight to it fail.
  virtual void remove_peer(PeerId peer) = 0;

  // Queues one message, copying it. would_block when the peer's queue is full; the message is then not sent.
  virtual Result<void> send(PeerId peer, Bytes message) = 0;
  // As send(), of one message that lies in two places (a reply's header and its inline bytes), so that a transport
  // which copies anyway does so once. The default joins them first.
  virtual Result<void> send_joined(PeerId peer, Bytes first, Bytes second) {
    std::vector<std::byte> message(first.begin(), first.end());
    message.insert(message.end(), second.begin(), second.end());
    return send(peer, message);
  }

  // Memory that `peer` lent. Checks the descriptor (bounds, direction, overflow) before any operation.
  virtual Result<std::unique_ptr<Window>> open_window(PeerId peer, const WindowDescriptor& lent, Access access) = 0;
};

// Client side: memory that stays registered while this lives. The destructor withdraws it: afterwards no operation of
// the server can begin in it. One that had begun has ended when the server's answer came (it drains before it answers);
// when no answer came, call revoke() before the memory is used for anything else.
class Lent {
 public:
  virtual ~Lent() = default;
  virtual const WindowDescriptor& descriptor() const = 0;
  // The bytes the server sees. `local`: memory of the shared memfd, not the caller's own.
  virtual MutableBytes bytes() const = 0;
  // The answer never came: afterwards nothing lands here any more, not even the rest of an operation that had begun.
  // May cost the link its connections; it then answers `closed`.
  virtual void revoke() {}
};

class Link {
 public:
  virtual ~Link() = default;
  virtual std::string_view provider() const = 0;  // "tcp", "verbs;ofi_rxm", "local"
  virtual std::string address() const = 0;        // ofi: fi_getname bytes, to be told to the server
  virtual size_t message_size_max() const = 0;

  virtual Result<void> send(Bytes message) = 0;  // copies; would_block when full: poll, then try again
  // Makes progress (also of one-sided operations that the server does to us) and hands over received messages.
  // Returns how much happened.
  using OnMessage = std::function<void(Bytes message)>;
  virtual Result<size_t> poll(const OnMessage& handler) = 0;
  // Sleeps until poll() may find something, or `deadline`. Providers that need polling for progress wake early.
  virtual void wait(Deadline deadline) = 0;
  // From any thread: ends a wait() in progress, so that another thread can take the link over. Links that never wait
  // for long need not do anything.
  virtual void wake() {}

  // Lends the caller's memory for the server to write to or read from. `local` lends only memory that allocate()
  // gave; for other memory it answers unsupported and the caller stages.
  virtual Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) = 0;
  // Memory that is cheapest to lend here (ofi: page-aligned; local: inside a sealed memfd shared with the server).
  // Valid until the returned handle goes.
  virtual Result<std::shared_ptr<MutableBytes>> allocate(size_t size) = 0;
};

}  // namespace verbena::fabric
