// The HTTP door's listener: HTTP/1.1 on one core, with TLS. Knows nothing of S3; a Handler does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core.h"
#include "base/task.h"
#include "http/connection_room.h"
#include "memory/stream.h"
#include "s3_http/request.h"

namespace verbena::http {

struct Limits {
  size_t header_bytes_max = 64 * KiB;           // of a whole head; more is answered 431
  size_t connections_max = 10'000;              // of this listener, where it has no room that it shares
  std::chrono::seconds idle_timeout{75};        // between requests
  std::chrono::seconds header_timeout{30};      // first byte to end of the head
  std::chrono::seconds body_stall_timeout{60};  // no byte in either direction
  // Bytes per second that a body must move, in either direction, on average over each body_stall_timeout in which we
  // wait for the client; 0: none. A transfer holds memory.
  uint64_t body_rate_min = 1 * KiB;
};

// One request as read off the wire: head parsed, body not yet read. Belongs to its core's thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual std::string_view method() const = 0;
  virtual std::string_view path() const = 0;                   // percent-encoded, no query
  virtual std::string_view query() const = 0;                  // percent-encoded, no '?'
  virtual const s3::Headers& headers() const = 0;              // lower-case names, trimmed values, as received order
  virtual std::optional<uint64_t> content_length() const = 0;  // of the wire body; nullopt: chunked or none
  virtual bool secure() const = 0;
  virtual std::string_view peer_address() const = 0;  // IP, no port
  // That the peer has shown, and has the key of: DER, its own first. Nobody has looked yet who vouches for them.
  virtual std::vector<std::string> peer_certificates() const { return {}; }

  // The body as it is on the wire (Content-Length or chunked decoded by HTTP). Sends "100 Continue" at the first read
  // when the client waits for it.
  virtual memory::Source& body() = 0;
  // begin() sends `response`'s head with that content length, then the bytes.
  virtual memory::Sink& sink(s3::Response& response) = 0;
  // Sends `response` with its own body (or none).
  virtual Task<Result<void>> reply(s3::Response& response) = 0;
  // Its signature is that of a key there is: the connection is not among the first to go when there are too many.
  virtual void vouch() {}
  // The connection closes after this exchange. After a begun sink that did not finish it is cut, whatever was asked.
  virtual void close_after() = 0;

  // How far this exchange is, on the wire.
  struct Progress {
    bool begun = false;      // an answer's head was written
    uint64_t bytes_in = 0;   // body bytes read
    uint64_t bytes_out = 0;  // body bytes handed over for sending
  };
  virtual Progress progress() const = 0;
};

// Serves an exchange: at once as far as nothing has to be waited for, and the rest, where there is one, in the task
// that it returns. A coroutine is one that leaves all of it to its task.
using Handler = std::function<std::optional<Task<void>>(Exchange&)>;
// All of it, for who waits for that.
Task<void> serve_whole(const Handler& handler, Exchange& exchange);

struct TlsFiles {
  std::string certificate_path, key_path;  // PEM
  // Clients are asked for a certificate of theirs, of whatever authority, and go on without one, too.
  bool ask_clients = false;
};

// One listener per core on the same address (SO_REUSEPORT). Its destructor stops accepting and closes its connections:
// from the core's thread at once, else as soon as that thread runs its loop. What the handler refers to must outlive
// the connections: wait for connections() == 0, or stop the core, before it goes.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual uint16_t port() const = 0;  // the bound one, also when 0 was asked for
  // Closes idle connections too; the others close after the exchange in progress. From any thread.
  virtual void stop_accepting() = 0;
  virtual void close() = 0;                // also ends every connection; connections() then falls to 0
  virtual size_t connections() const = 0;  // from any thread
};

// `room`: shared by the listeners of one door; null: one of its own with limits.connections_max.
//
// `address` is an IP literal, "localhost", or "*" for every address (IPv6 and IPv4). Errors: bad_config (no address,
// certificate or key not readable or not fitting) / connection_failed (address in use) with errno. An address that
// another process listens on is in use even where SO_REUSEPORT would let both in.
Result<std::unique_ptr<Listener>> listen(Core& core, std::string_view address, uint16_t port, Limits limits,
                                         std::optional<TlsFiles> tls, Handler handler,
                                         std::shared_ptr<ConnectionRoom> room = nullptr);

// Whether listen() would find the address free now. Its errors.
Result<void> check_free(std::string_view address, uint16_t port);

}  // namespace verbena::http
