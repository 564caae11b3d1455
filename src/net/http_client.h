// A blocking HTTP/1.1 client: pooled, kept-alive connections to one server, TLS, streaming bodies, bounded replies.
// Knows nothing of S3. Thread-safe: each request takes a connection of its own from the pool.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/meanwhile.h"
#include "net/name_lookup.h"

namespace verbena::net {

// User-Agent of a request that has none, and the name that a native session is opened with: policies and logs see the
// same client by every door.
inline constexpr const char* client_name = "verbena-client/" VERBENA_VERSION;

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpOptions {
  std::string host = {};  // name or IP literal without brackets
  uint16_t port = 80;
  bool tls = false;
  std::string ca_file = {};                   // PEM; empty: the system's store
  bool system_too = false;                    // the system's store besides the file
  std::vector<std::string> thumbprints = {};  // trusted besides: net/tls.h
  bool insecure = false;                      // do not verify the server's certificate
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds stall_timeout{60'000};  // no byte in either direction
  size_t idle_connections_max = 32;
  size_t head_bytes_max = 64 * KiB;  // of a reply
  AddressCheck allowed = {};         // null: each address
};

struct HttpReply {
  int status = 0;
  HttpHeaders headers;                     // lower-case names, trimmed values
  std::optional<uint64_t> content_length;  // as declared (also for HEAD)
  std::string body;                        // when it did not go into memory
  uint64_t body_bytes = 0;                 // of the body, wherever they went
  bool repeated = false;                   // the request had gone out before, on a connection that broke

  // The value of the first header of that (lower-case) name.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpRequest {
  bool changes() const { return method != "GET" && method != "HEAD"; }

  std::string method = "GET";
  std::string target = "/";  // percent-encoded path and query
  HttpHeaders headers = {};  // host is added when missing; content-length always is
  Bytes body = {};

  // Where the body of a 2xx reply goes: too_large if it does not fit; it may be shorter. Without it, and for any other
  // status, the body is collected in HttpReply::body.
  std::optional<MutableBytes> into = {};
  size_t collected_body_max = 16 * MiB;  // bound of HttpReply::body
  bool status_suffices = false;          // a body that is too long or cut off is no error

  std::optional<Deadline> deadline = {};  // of the whole request; the stall timeout holds as well
  // May be sent again on a fresh connection when a kept one turns out dead before any byte of a reply came.
  bool replayable = false;
  Stop stop = {};                  // a stop ends the request with `cancelled`
  Meanwhile* meanwhile = nullptr;  // runs while the request waits for the server; outlives the request
  // Called when there is a connection, immediately before the request is sent on it; an error ends the request.
  std::function<Result<void>()> before_sending = {};
};

class HttpClient {
 public:
  // bad_config when the CA file cannot be loaded. Opens no connection yet.
  static Result<std::unique_ptr<HttpClient>> create(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;

  // Errors: connection_failed (no connection, in time or at all: nothing was sent), access_denied (no address of the
  // host is allowed), closed (the connection broke after sending began: the server may have acted), timed_out
  // (likewise), cancelled, malformed, too_large, invalid_argument. Any status is a reply, redirections too: none is
  // followed.
  Result<HttpReply> request(const HttpRequest& request);

  const HttpOptions& options() const { return options_; }
  // "host" or "host:port" as the Host header has it.
  const std::string& host_header() const { return host_header_; }
  // IP address of the server as of the latest connection; empty before the first.
  std::string peer_address() const;
  // This machine's address towards the server, likewise.
  std::string local_address() const;
  // Opens a connection into the pool when there is none. connection_failed.
  Result<void> warm_up();

 private:
  struct Connection;
  struct Network;  // what Boost.Asio's streams live on
  HttpClient(HttpOptions options, std::unique_ptr<Network> network);
  Result<std::unique_ptr<Connection>> take(bool fresh, Deadline deadline, const Stop& stop);
  Result<std::unique_ptr<Connection>> open(Deadline deadline, const Stop& stop);
  void give_back(std::unique_ptr<Connection> connection);

  HttpOptions options_;
  std::string host_header_;
  std::unique_ptr<Network> network_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::string peer_address_, local_address_;
};

}  // namespace verbena::net
