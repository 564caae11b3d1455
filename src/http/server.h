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
  size_t connections_max = 10'000;              // of this listener, if it does not share a ConnectionRoom
  std::chrono::seconds idle_timeout{75};        // between requests
  std::chrono::seconds header_timeout{30};      // first byte to end of the head
  std::chrono::seconds body_stall_timeout{60};  // no byte in either direction
  // Bytes per second that a body must move, in either direction, on average over each body_stall_timeout of waiting for
  // the client; 0: no limit. A slow transfer holds memory.
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
  // The peer's certificates, whose key it has proved to have: DER, its own first. Their issuers are not verified yet.
  virtual std::vector<std::string> peer_certificates() const = 0;

  // The body from the wire (Content-Length or chunked, decoded). Sends "100 Continue" at the first read if the client
  // waits for it.
  virtual memory::Source& body() = 0;
  // begin() sends `response`'s head with that content length, then the bytes.
  virtual memory::Sink& sink(s3::Response& response) = 0;
  // Sends `response` with its own body (or none).
  virtual Task<Result<void>> reply(s3::Response& response) = 0;
  // Call when the request's signature is of an existing key: the connection is then not among the first to be closed
  // near the limit.
  virtual void vouch() = 0;
  // Closes the connection after this exchange. A begun sink that was not finished closes it in any case.
  virtual void close_after() = 0;

  // The progress of this exchange on the wire.
  struct Progress {
    bool begun = false;      // an answer's head was written
    uint64_t bytes_in = 0;   // body bytes read
    uint64_t bytes_out = 0;  // body bytes handed over for sending
  };
  virtual Progress progress() const = 0;
};

// Serves an exchange: at once as far as that is possible without waiting; the returned task, if any, does the rest. A
// coroutine is a handler whose task does everything.
using Handler = std::function<std::optional<Task<void>>(Exchange&)>;
// Serves an exchange completely, for callers that can wait.
Task<void> serve_whole(const Handler& handler, Exchange& exchange);

struct TlsFiles {
  std::string certificate_path, key_path;  // PEM
  // Requests a certificate of any authority from clients; connections without one are accepted too.
  bool ask_clients = false;
};

// One listener per core on the same address (SO_REUSEPORT). Its destructor stops accepting and closes its connections:
// from the core's thread at once, else as soon as that thread runs its loop. Objects that the handler refers to must
// outlive the connections: wait for connections() == 0, or stop the core, first.
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
// certificate or key not readable or not fitting) / connection_failed (address in use) with errno. An address on which
// another process listens counts as in use, even if SO_REUSEPORT would allow both.
Result<std::unique_ptr<Listener>> listen(Core& core, std::string_view address, uint16_t port, Limits limits,
                                         std::optional<TlsFiles> tls, Handler handler,
                                         std::shared_ptr<ConnectionRoom> room = nullptr);

// Whether listen() would find the address free now. Its errors.
Result<void> check_free(std::string_view address, uint16_t port);

}  // namespace verbena::http
