// The client's end of the native protocol (docs/native-protocol.md): one session with one server, a link per core of
// the server, requests pipelined up to the session's credits.
//
// Thread-safe. A synchronous call polls the fabric itself until its answer is in (no hop to another thread); while
// asynchronous requests are in flight and no caller polls, a progress thread of the link does. When a session broke
// (the server restarted, or forgot it), the next request opens a new one; get, head and list, and a put without
// conditions, are then repeated once automatically.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/auth.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/result.h"
#include "client/native/page.h"
#include "fabric/fabric.h"
#include "native/wire/bodies.h"

namespace verbena::memory::cuda {
enum class Platform : uint8_t;
}

namespace verbena::client {

// One of the server's endpoints, as the session's answer lists it.
struct NativeEndpoint {
  uint16_t index = 0;  // its number in the session: binds the message keys
  uint32_t core = 0;
  std::string provider;  // "local", "tcp", "verbs;ofi_rxm"
  std::string address;   // ofi: fi_getname bytes; tcp: a socket address; local: socket path
  uint32_t inline_max_bytes = 0;
  uint32_t message_size_max = 0;
  bool encrypted = false;
  fabric::Sealing sealing = fabric::Sealing::none;
};

struct SessionTerms;
using NativeDial = std::function<Result<std::unique_ptr<fabric::Link>>(const NativeEndpoint&, const SessionTerms&)>;

struct NativeOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 9100;
  bool tls = false;
  bool insecure = false;  // TLS without verifying the server's certificate
  std::string ca_file;    // PEM; empty: the system's store
  auth::Credentials credentials;
  std::string region = "us-east-1";
  // In order of preference; "verbs" also means "verbs;ofi_rxm". Providers that the server does not offer are skipped.
  std::vector<std::string> providers = {"local", "verbs", "tcp"};
  // Restricts to transports that cannot be read on the network: the same host, or encryption.
  bool encrypted_only = false;
  // Takes sealed RDMA only of a server whose keys have forward secrecy, as encrypted `tcp` always has.
  bool forward_secrecy_only = false;
  // Asks for RDMA that is encrypted and authenticated (fabric/sealed). A server that cannot seal offers it plain.
  bool seals = false;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds request_timeout{30'000};
  std::chrono::microseconds spin_for{100};  // how long a waiting caller polls before it sleeps
  const WallClock* clock = &system_clock();
  NativeDial dial;  // tests; empty: fabric/local, fabric/tcp and fabric/ofi
};

// Memory that is cheapest to lend to the server: on `local` it is shared with the server, so that a request copies
// once. Outlives the session that made it; after a reconnect, requests with it are staged.
class NativeMemory {
 public:
  virtual ~NativeMemory() = default;
  virtual MutableBytes bytes() const = 0;
  // Not null: the bytes are addresses of a device, which only that device touches,
  virtual const class NativeDevice* device() const { return nullptr; }
  // or that and RDMA devices of this host.
  virtual const class PeerWindow* peer() const { return nullptr; }
  bool on_device() const { return device() != nullptr || peer() != nullptr; }
};

struct NativeRange {  // first-last inclusive; last unset: to the end; first unset: the last `last` bytes
  std::optional<uint64_t> first, last;
};

struct NativeChecksum {
  Algorithm algorithm = Algorithm::crc64nvme;
  std::string value;   // raw digest bytes
  uint16_t parts = 0;  // 0: full object
};

// Views must be valid until the call (also get_async) returns; `into` until the completion.
struct NativeGet {
  std::string_view bucket, key;
  MutableBytes into;                     // get: too_large (nothing written) when the bytes do not fit
  const NativeMemory* memory = nullptr;  // `into` lies inside it; nullptr: any memory, lent or staged as needed
  std::span<const NativeRange> ranges;   // at most 64; their bytes land one after the other
  int part_number = 0;
  std::span<const std::string> if_match, if_none_match;  // at most 8 each
  std::optional<int64_t> if_modified_since_s, if_unmodified_since_s;
  bool full_headers = false;             // return all stored headers, and those that S3 computes
  std::chrono::milliseconds timeout{0};  // 0: the session's
  std::stop_token stop = {};             // cancels with `cancelled`; the memory has been withdrawn then
};

struct NativePut {
  std::string_view bucket, key;
  Bytes from;
  const NativeMemory* memory = nullptr;                          // `from` lies inside it
  std::span<const std::pair<std::string, std::string>> headers;  // content-type, x-amz-meta-*, ...: lower-case names
  std::span<const NativeChecksum> expected;                      // verified before anything becomes visible
  std::optional<Algorithm> compute;
  std::string_view if_match, if_none_match;
  bool md5_etag = false;              // the ETag must be the MD5 of the bytes
  bool said_headers = false;          // return the headers that S3 computes
  std::optional<uint64_t> append_at;  // an APPEND; all ones: at the object's end
  std::chrono::milliseconds timeout{0};
  std::stop_token stop = {};
};

// An object's properties in the server's answer.
struct NativeObject {
  uint64_t length = 0;  // bytes delivered or stored; head: what a get would deliver
  uint64_t object_size = 0;
  int64_t modified_us = 0;
  bool partial = false;
  uint32_t parts = 0;  // of a multipart upload
  std::string etag, version_id;
  std::vector<NativeChecksum> checksums;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;         // offset and length, as resolved
  std::vector<std::pair<std::string, std::string>> headers;  // with full_headers, said_headers
};

struct NativeList {
  std::string_view bucket, prefix, delimiter, after;
  int max_keys = 1000;
  std::chrono::milliseconds timeout{0};
  std::stop_token stop = {};
};

class NativeSession {
 public:
  // The server's own code for a refused session (access_denied, signature_does_not_match, slow_down, ...);
  // connection_failed: no HTTP listener there, or no common provider works; unsupported: not a native door.
  static Result<std::unique_ptr<NativeSession>> open(NativeOptions options);
  // A session that ready() or the first request opens. Errors of ready() as above, and `cancelled`: the attempt goes
  // on, and the next call waits for it.
  static std::unique_ptr<NativeSession> unopened(NativeOptions options);
  Result<void> ready(const std::stop_token& stop);
  ~NativeSession();  // sends BYE; requests in flight end with `closed` before it returns
  NativeSession(const NativeSession&) = delete;

  // Errors: the server's Errc; too_large; timed_out (the memory has been withdrawn: nothing lands later);
  // closed, connection_failed (the session broke and could not be opened anew).
  Result<NativeObject> get(const NativeGet& request);
  Result<NativeObject> head(const NativeGet& request);
  Result<NativeObject> put(const NativePut& request);
  // unsupported: the server does not know this message.
  Result<void> rename(const native::wire::Rename& request, const std::stop_token& stop = {});
  Result<void> remove(std::string_view bucket, std::string_view key, std::string_view if_match = {},
                      const std::stop_token& stop = {});
  // Reads one page, with as many messages as needed.
  Result<NativePage> list(const NativeList& request);
  Result<void> ping();

  // Runs `request` on the session's streams; once more on new streams if those were lost and the request may be
  // repeated.
  Result<void> with_streams(bool repeatable, const std::function<Result<void>(class NativeStreams&)>& request);

  // The completion runs on a progress thread or inside another thread's call; it must not block nor call this session.
  // Blocks only while no credit is free. A completion always comes, once, also before this returns.
  // Not repeated after a broken session (`closed`).
  using Done = std::function<void(Result<NativeObject>)>;
  void get_async(const NativeGet& request, Done done);
  void put_async(const NativePut& request, Done done);

  // out_of_memory, closed.
  Result<std::shared_ptr<NativeMemory>> allocate(size_t size);

  std::string provider() const;  // the provider in use now
  std::chrono::milliseconds request_timeout() const;
  uint32_t credits() const;  // requests in flight per core of the server
  // GPUs of that driver copy for the server, which is on this host.
  bool shares_devices(memory::cuda::Platform of) const;
  bool takes_handles(memory::cuda::Platform of) const;  // of such memory, not only descriptors
  bool reaches_devices() const;                         // its links are of an RDMA device that may reach GPUs' memory

 private:
  struct State;
  explicit NativeSession(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace verbena::client
