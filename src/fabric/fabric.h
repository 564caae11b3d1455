// Transport of bytes between hosts (fabric/tcp; fabric/ofi on RDMA devices) and between processes of one host
// (fabric/local). The code above uses this interface only.
//
// Three roles:
//   Port     server, one per core: receives messages from many peers and answers them.
//   Window   server: memory that a client lent for one request; the server writes into it or reads from it.
//   Link     client: a connection to one Port, and the lending of memory.
// A Port or Window is used on its core's thread alone. A Link is used by one thread at a time.
#pragma once

#include <openssl/crypto.h>

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

// The access that a lender allows, from the server's point of view.
enum class Access : uint8_t { server_writes = 1, server_reads = 2 };

// A client's description of memory that it lends. Sent unchanged in native messages; no field is trusted.
struct WindowDescriptor {
  uint64_t base = 0;  // ofi: the address of byte 0 in the owner's provider; local: offset into the shared memfd; tcp: 0
  uint64_t size = 0;  // bytes
  uint64_t key = 0;   // ofi: the region's remote key; local: which memfd and permit; tcp: the window's number
};

class Window {
 public:
  virtual ~Window() = default;
  virtual uint64_t size() const = 0;
  // Moves bytes between arena memory and the window at offset `at`. Bounds are checked before anything is posted.
  // Resumes when the operation's completion was collected; on failure or past the deadline, when it is certain that the
  // operation touches neither side's memory any more (the data endpoint was closed and flushed). Several may be in
  // flight at once (spawn them); `read` never returns short: fewer bytes than requested is an error.
  virtual Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) = 0;
  virtual Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) = 0;

  // Whether a device moves the bytes, while the core is free for other work.
  virtual bool by_device() const { return false; }

  // Transports that move bytes by a plain copy (local) do so within the call, without a suspension: for the microsecond
  // path. Others return unsupported. For up to immediate_size_max() bytes; longer copies delay the core's loop.
  virtual size_t immediate_size_max() const { return 0; }
  // Several writes, at most writes_max, which share the fixed cost of one. After a failure some may have been written.
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

// A Port's id for a peer; never reused while the Port lives.
using PeerId = uint64_t;

// What fabric/sealed encrypts a session's messages and payload with. The numbers are of Verbena's own making.
enum class Sealing : uint8_t { none = 0, aes_256_gcm = 1, chacha20_poly1305 = 2 };

// A secret that only one session and one Port share: transports that authenticate connections prove their identity with
// it, and derive their encryption keys from it. Wiped when destroyed.
struct ConnectionKey {
  std::array<std::byte, 32> bytes{};
  Sealing sealing = Sealing::none;  // of the session, as negotiated
  ~ConnectionKey() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

class Port {
 public:
  virtual ~Port() = default;

  // Looks up a session's key, for transports that authenticate connections (tcp). False: no such session. `key` may be
  // null to check for the session only. Called on the core's thread.
  using FindKey = std::function<bool(uint64_t session, ConnectionKey* key)>;
  virtual void on_connection(FindKey) {}
  // Whether messages and windows are protected against reading and changing on the network.
  virtual bool encrypted() const { return false; }
  // Whether it can protect a session by itself (fabric/sealed), and whether it takes sessions that it does not protect.
  virtual bool seals() const { return false; }
  virtual bool takes_plain() const { return true; }
  // During OnMessage: the session whose keys opened the message; 0: it came unprotected. A peer that is added meanwhile
  // belongs to that session.
  virtual uint64_t sealed_session() const { return 0; }

  // Called on the core's thread for each message. `message` is valid during the call only; on `local` it is a private
  // copy already (the peer may write to the ring at any time). `from` is 0 if the transport does not know the sender:
  // the session inside the message then identifies it.
  using OnMessage = std::function<void(PeerId from, Bytes message)>;
  virtual void on_message(OnMessage handler) = 0;
  // Called when the transport notices that the peer is gone (local: socket closed). Not every transport notices.
  using OnGone = std::function<void(PeerId peer)>;
  virtual void on_gone(OnGone handler) = 0;

  // Longest message in bytes, both directions.
  virtual size_t message_size_max() const = 0;
  // This endpoint's own address, for clients (ofi: fi_getname bytes; local: unused).
  virtual std::string address() const = 0;

  // Makes a peer from the address that a client sent (ofi), checked against the provider's address format.
  virtual Result<PeerId> add_peer(std::string_view address) = 0;
  // Marks the peer as authenticated for `session`. False: its connection was authenticated for another session (tcp)
  // and cannot serve this one. A transport that accepts peers unauthenticated (local) may disconnect one that is not
  // admitted in time, and earlier if a new client needs its place.
  virtual bool admit(PeerId /*peer*/, uint64_t /*session*/) { return true; }
  // Removes a peer; its sends and windows in flight fail.
  virtual void remove_peer(PeerId peer) = 0;

  // False: a message would find the peer's queue full (would_block). For callers to whom an attempt is expensive.
  virtual bool may_send(PeerId /*peer*/) const { return true; }
  // Queues one message, copying it. would_block when the peer's queue is full; the message is then not sent.
  virtual Result<void> send(PeerId peer, Bytes message) = 0;
  // send() of one message in two pieces (a reply's header and its inline bytes), so that a transport which copies
  // anyway does so once. The default joins them first.
  virtual Result<void> send_joined(PeerId peer, Bytes first, Bytes second) {
    std::vector<std::byte> message(first.begin(), first.end());
    message.insert(message.end(), second.begin(), second.end());
    return send(peer, message);
  }

  // Opens memory that `peer` lent. Checks the descriptor (bounds, direction, overflow) before any operation.
  virtual Result<std::unique_ptr<Window>> open_window(PeerId peer, const WindowDescriptor& lent, Access access) = 0;
};

// Client: memory that stays registered while this lives. The destructor withdraws it: afterwards no operation of the
// server can begin in it. An operation begun before has ended when the server's answer arrives (it drains before it
// answers); if no answer arrived, call revoke() before reusing the memory.
class Lent {
 public:
  virtual ~Lent() = default;
  virtual const WindowDescriptor& descriptor() const = 0;
  // The bytes that the server sees. `local`: memory of the shared memfd, not the caller's own.
  virtual MutableBytes bytes() const = 0;
  // For a request without an answer: afterwards nothing is written here any more, not even the rest of an operation in
  // progress. May cost the link its connections; it then returns `closed`.
  virtual void revoke() {}
};

class Link {
 public:
  virtual ~Link() = default;
  virtual std::string_view provider() const = 0;  // "tcp", "verbs;ofi_rxm", "local"
  virtual std::string address() const = 0;        // ofi: fi_getname bytes, for the server
  virtual size_t message_size_max() const = 0;

  virtual Result<void> send(Bytes message) = 0;  // copies; would_block when full: poll, then try again
  // Makes progress (also for the server's one-sided operations on this side) and delivers received messages. Returns
  // the number of events.
  using OnMessage = std::function<void(Bytes message)>;
  virtual Result<size_t> poll(const OnMessage& handler) = 0;
  // Sleeps until poll() may find an event, or until `deadline`. Providers that need polling for progress wake early.
  virtual void wait(Deadline deadline) = 0;
  // From any thread: ends a wait() in progress, so that another thread can take over the link. Links with short waits
  // need not implement it.
  virtual void wake() {}

  // Lends the caller's memory to the server for writing or reading. `local` lends only memory from allocate(); for
  // other memory it returns unsupported and the caller copies.
  virtual Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) = 0;
  // Memory that is cheapest to lend here (ofi: page-aligned; local: inside a sealed memfd shared with the server).
  // Valid until the returned handle is destroyed.
  virtual Result<std::shared_ptr<MutableBytes>> allocate(size_t size) = 0;
};

}  // namespace verbena::fabric
