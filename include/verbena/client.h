// The client library of Verbena: objects by RDMA devices, shared memory or TCP, or else by S3 over HTTP.
//
//   auto client = verbena::Client::connect({.access_key = "...", .secret_key = "..."});
//   auto buffer = client->allocate(1 << 20);
//   auto got = client->get("bucket", "key", *buffer);       // got->transfer: the door and provider that carried the
//   bytes
//
// Every call reports failure through Outcome<T>; nothing here throws (std::bad_alloc apart). A Client is cheap to copy
// (copies share connections, sessions and buffers) and every function may be called from any thread. After a fork the
// child may only destroy its copies of the parent's clients and buffers, which does not affect the parent; everything
// else fails with `forked`. Both may make new clients. Sizes and offsets are bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace verbena {

// The door that carries the bytes.
enum class Via : uint8_t {
  automatic,  // native, else token, else http
  native,     // messages and one-sided operations on the fabric
  token,      // S3 over HTTP; the payload by one-sided operations (x-amz-rdma-token)
  http,       // S3 over HTTP
};

enum class ErrorCode : uint8_t {
  invalid_argument = 1,
  no_such_bucket,
  no_such_key,
  no_such_upload,
  bucket_exists,
  bucket_not_empty,
  precondition_failed,
  not_modified,
  invalid_range,
  access_denied,  // the key is known but lacks the right; or the signature does not match
  unknown_access_key,
  checksum_mismatch,  // the received bytes are not the object's; do not use the written memory
  buffer_too_small,
  too_large,
  slow_down,          // the server is overloaded; retries are used up
  unsupported,        // by the server, or by the requested door
  connection_failed,  // the request did not reach the server
  timed_out,
  outcome_unknown,  // the connection broke after the request was sent: the server may have executed it
  malformed_reply,
  server_error,
  local_error,           // this machine: no memory, no device
  cancelled,             // at the caller's request; what was to be stored or removed may have been
  forked,                // the client was made before a fork of this process: make one in the child
  insufficient_storage,  // the server's disk or memory is full, or a lease pins all of a bounded bucket
};

struct ClientError {
  ErrorCode code = ErrorCode::server_error;
  std::string message = {};     // one line for users; never holds a secret
  std::string s3_code = {};     // "NoSuchKey"; empty when the failure was not an S3 error
  int http_status = 0;          // 0: not from HTTP
  std::string request_id = {};  // the server's, when it gave one
};

template <class T = void>
using Outcome = std::expected<T, ClientError>;

struct ClientOptions {
  std::string endpoint = "http://127.0.0.1:9000";  // S3: scheme://host[:port]
  // host:port, or http(s)://host:port; empty: the endpoint's host and port 9100.
  std::string native_endpoint = {};
  // Empty access key: anonymous, HTTP only. `session_token`: from STS, or of a directory bucket's session
  // (CreateSession), which is then used for everything.
  std::string access_key = {}, secret_key = {}, session_token = {};
  std::string region = "us-east-1";
  Via via = Via::automatic;  // any other value fails instead of falling back
  // Native: auto | local | verbs | tcp | efa | cxi. Tokens: the same names without local; tcp is then libfabric's,
  // which Via::automatic uses only if it is named: any peer can crash a process through it, unless libfabric is built
  // with Verbena's checks.
  std::string provider = "auto";
  std::string ca_file = {};  // PEM, for https; empty: the system's certificates
  bool insecure = false;     // https without verifying the server
  // Encryption of RDMA, of the native door and of tokens over https: "off"; "preferred": where the server has it;
  // "required": payloads travel only by RDMA that is encrypted, encrypted tcp, shared memory to a server on this host,
  // or https; "auto" (or empty): preferred with an https endpoint, else off.
  std::string encryption = "auto";
  // TLS does not cover RDMA. With an https endpoint, Via::automatic therefore sends payloads by encrypted RDMA, an
  // encrypted tcp, shared memory to a server on this host, or HTTP, unless this allows the other transports and plain
  // tokens too. Via::native is used regardless; Via::token with encryption, unless this or `encryption` says otherwise.
  bool cleartext_rdma = false;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds operation_timeout{60'000};  // without progress
  unsigned attempts_max = 4;                            // of one operation, backoff in between
  size_t connections_max = 32;                          // kept alive while idle
  unsigned async_threads = 8;                           // asynchronous operations in flight
  uint64_t multipart_threshold = 64u << 20;             // larger HTTP and token PUTs are split into parts
  uint64_t part_size = 16u << 20;                       // 5 MiB or more
  unsigned parts_in_flight = 4;
  uint64_t token_size_min = 64u << 10;  // automatic: smaller transfers do not use a token
  bool sign_payload = true;             // plain HTTP: SHA-256 of PUT bodies is signed (https: never)
  bool verify_checksums = true;         // of whole-object GETs, if the server has one
};

// How a payload came into a device's memory, or from it.
enum class DevicePath : uint8_t {
  none,    // host memory
  staged,  // through host memory of the client, page-locked for the device, which copies it
  shared,  // on one host: through memory shared with the server, page-locked for the device, which copies it
  direct,  // on one host: the device copies for the server, and no byte passes through this process
  peer,    // RDMA devices of this host read and write the device's memory themselves
};

// What a check of a device's memory (verify_device) was made by.
enum class DeviceVerified : uint8_t {
  none,         // it was not asked for, or the memory is the host's
  kernel,       // a kernel on the device read the bytes
  read_back,    // they were copied back to the host and read there
  no_checksum,  // no check was made: the server told no checksum of exactly these bytes
};

// The route of one operation's payload.
struct Transfer {
  Via door = Via::http;
  DevicePath device_path = DevicePath::none;  // of a batch with windows of both kinds: of those on a device
  // Of a batch: no_checksum if there was none of any item on the device, else read_back if any needed that.
  DeviceVerified device_verified = DeviceVerified::none;
  std::string provider = {};  // "local", "tcp", "verbs;ofi_rxm"; "http" or "https" for the HTTP door
  uint64_t bytes = 0;
  // Why a faster door, or a better way to a device's memory, was not used. Empty when none was skipped.
  std::string fell_back_reason = {};
  unsigned attempts = 1;
};

struct ObjectInfo {
  std::string key = {};
  uint64_t size = 0;
  std::string etag = {};  // without quotes
  std::chrono::system_clock::time_point last_modified = {};
  std::string content_type = {};
  std::map<std::string, std::string> metadata = {};  // x-amz-meta-*, names without the prefix
  std::string checksum = {};                         // "CRC32C:yZRlqg=="; empty if unknown
  std::string version_id = {};
  // Other headers stored with the object or describing it, lower-case names: "cache-control", "content-encoding",
  // "expires". Like metadata.
  std::map<std::string, std::string> headers = {};
};

struct Range {
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end
};

struct GetOptions {
  std::optional<Range> range = {};
  std::string if_match = {}, if_none_match = {};  // ETag without quotes, or "*"
  // Also fill GetReply::info with content type, metadata and checksum (the HTTP doors always do).
  bool metadata = false;
  // Into a device's memory: once all bytes are there, their checksum is computed from that memory, by a kernel on the
  // device (CRC32C, CRC32, CRC64NVME, if the driver takes the kernel), else from bytes that are read back, and compared
  // with the one that the server told: checksum_mismatch. Transfer::device_verified says which. The server tells that
  // of a whole object that was stored with one, and by token that of any range; if it comes with no reply, it is asked
  // for once more (HEAD).
  bool verify_device = false;
  std::string version_id = {};  // by HTTP or token: the native door supports versions in batches only
  // A stop ends the operation with `cancelled`, within some 20 ms. The memory is not touched after that.
  std::stop_token cancel = {};
};
struct GetReply {
  ObjectInfo info = {};  // size: the whole object's
  uint64_t bytes = 0;    // written to the start of the buffer
  Transfer transfer = {};
};

struct PutOptions {
  std::string content_type = {};
  std::map<std::string, std::string> metadata = {};
  std::string if_match = {}, if_none_match = {};
  // Make the object's ETag the MD5 of its bytes by every door (of parts: S3's combination of their MD5s). Over HTTP it
  // always is; by the other doors the server computes an MD5 only on request.
  bool md5_etag = false;
  // "CRC32:yZRlqg==", or another algorithm of S3's: the expected checksum of the bytes; otherwise checksum_mismatch,
  // and nothing is stored.
  std::string checksum = {};
  // From a device's memory, without `checksum`: the CRC32C is computed from that memory as GetOptions::verify_device
  // has it, before the bytes are sent, and given as `checksum`.
  bool verify_device = false;
  // Appends the bytes to the object, which must have this size, or append_at_end: any size. 0 creates the object if
  // there is none. For directory buckets, and others that allow appends. An append that may have been made is not
  // repeated; for append_at_end the native door reports the size, the others ask for it first. Asynchronous appends by
  // the native door to consecutive positions of a key may share a message, if they set no other options: each has its
  // own outcome, and the ETag is that of the object after the message. A cancelled one has its outcome at once, and may
  // still be made.
  std::optional<uint64_t> append_at = {};
  std::chrono::seconds ttl{0};  // the object ends so long after its commit, at most ten years; 0: it has no end
  std::stop_token cancel = {};  // as GetOptions::cancel
  // Also fill PutReply::headers (the HTTP doors always do).
  bool describe = false;
  // put_stream: the number of bytes to come, if it is known, so that parts are as large as 10,000 of them must be. 0:
  // unknown.
  uint64_t stream_size = 0;
  // Headers stored with the object, lower-case names: "cache-control", "content-disposition", "content-encoding",
  // "content-language", "expires". Others are invalid_argument.
  std::map<std::string, std::string> headers = {};
};
inline constexpr uint64_t append_at_end = ~uint64_t{0};

struct RenameOptions {
  std::string source_if_match = {};  // ETags without quotes, or "*"
  std::string if_match = {};         // of the object at the new name
  std::string if_none_match = {};    // "*": there must be none
  // 1 to 64 visible characters: a repeated rename with the same token is not made again.
  std::string token = {};
  std::stop_token cancel = {};
};
struct HeadOptions {
  std::string version_id = {};  // as GetOptions::version_id
  std::stop_token cancel = {};
};
struct RemoveOptions {
  std::string version_id = {};
  std::string if_match = {};  // ETag without quotes, or "*"
  std::stop_token cancel = {};
};
struct PutReply {
  std::string etag = {};
  std::string version_id = {};
  uint64_t object_size = 0;  // of an append: including these bytes
  Transfer transfer = {};
  // The server's headers about the object, lower-case names: x-amz-server-side-encryption and its like,
  // x-amz-expiration.
  std::map<std::string, std::string> headers = {};
};

struct ListOptions {
  std::string prefix = {};
  std::string delimiter = {};     // "/" for one level
  std::string after = {};         // keys after this one
  std::string continuation = {};  // ListPage::continuation of the page before
  unsigned max_keys = 1000;       // 1 .. 1000
  std::stop_token cancel = {};
};
struct ListPage {
  std::vector<ObjectInfo> objects = {};
  std::vector<std::string> common_prefixes = {};
  bool truncated = false;
  std::string continuation = {};
};
struct BucketInfo {
  std::string name = {};
  std::chrono::system_clock::time_point created = {};
};
enum class BucketDurability : uint8_t {
  sync,    // a PUT is acknowledged when it is on disk
  memory,  // acknowledged from memory and written behind: scratch data
};
enum class BucketEtags : uint8_t {
  md5,   // of objects and parts whose sender asks for no other, as S3 has it
  fast,  // no MD5, so that the server computes none
};
// A bucket with a bound on its objects or bytes evicts instead of refusing writes: for caches.
struct BucketBound {
  uint64_t bytes_max = 0, objects_max = 0;      // 0: not limited
  std::string policy = "s3-fifo";               // keeps what was read; "lru"; "ttl": what ends next is evicted first
  bool renew_on_read = false;                   // a read renews the TTL of its object
  std::string keep_suffix = "/namespace.json";  // a few objects with such keys are not evicted; empty: none
};

// Batches: many objects in one call, each with an outcome of its own.
inline constexpr size_t batch_items_max = 4096;
inline constexpr size_t batch_windows_max = 6;

struct BatchItem {
  std::string_view bucket, key;
  // get, put: its bytes are [offset, offset + size) of the window of this number. Destinations of a get must not
  // overlap; an object longer than its destination is buffer_too_small, and nothing of it is written.
  size_t offset = 0, size = 0;
  unsigned window = 0;
  std::optional<Range> range = {};                     // get
  std::string_view version_id = {};                    // not put
  std::string_view if_match = {}, if_none_match = {};  // ETags without quotes, or "*"; remove has if_match alone
  std::string_view content_type = {};                  // put
  std::chrono::seconds ttl{0};                         // put: as PutOptions::ttl
};
// Filled for each item of a call. Reusing it for the next call reuses its memory.
struct BatchResult {
  std::optional<ErrorCode> error = {};  // none: success
  uint64_t bytes = 0;                   // delivered or stored
  uint64_t size = 0;                    // of the whole object; unset for a put or remove
  std::string etag = {}, version_id = {};
  std::chrono::system_clock::time_point last_modified = {};
  std::string checksum = {};  // get with verify_device: "CRC32C:yZRlqg==", of the whole object; empty if unknown
  DeviceVerified device_verified = DeviceVerified::none;  // get with verify_device
};
// A lease of what a batch finds: kept, as by MatchOptions::lease.
struct BatchLease {
  std::chrono::milliseconds time = {};
  uint64_t lease = 0;  // in: a lease that it joins; 0: a new one. Out: its number; 0: nothing found, or no leases
};
struct BatchOptions {
  // get: called with the number of leading items that have arrived, each time that it grows, while the others are in
  // flight; never concurrently. Must not call the client. Failed items count once the server has reported them. The
  // memory of reported items is not written any more. Results come later: if a session breaks before an item's result,
  // the item is connection_failed, unless it names its bytes by a version or an ETag and can be requested again.
  std::function<void(size_t)> in_order = {};
  // get: reads the versions that this lease of a match holds; other keys, and all if it has ended, as they are now.
  uint64_t lease = 0;
  // get, head: each item without an error and without a version is held, or is slow_down if there is no room. Not
  // repeated on another session. invalid_argument: it joins a lease of another core than `lease` is of. unsupported:
  // windows of a device. Null: no lease.
  BatchLease* take = nullptr;
  // get: items on a device are checked as by GetOptions::verify_device, at the end of the call: those that in_order has
  // reported may be checksum_mismatch yet. Ranges of objects are no_checksum.
  bool verify_device = false;
};

// A listing with the bytes of small objects: a prefix of them in one answer.
struct ValueOptions {
  std::string prefix = {}, after = {};  // keys after this one
  uint64_t value_size_max = 64 * 1024;  // longer objects are listed without their bytes
  unsigned max_keys = 1000;             // 1 .. 1000
};
struct ListedValue {
  ObjectInfo info = {};
  std::optional<size_t> offset = {};  // of its info.size bytes in the buffer; none: too long, or failed
  std::optional<ErrorCode> error =
      {};  // why its bytes are missing; for example access_denied: listing does not imply reading
};
struct ValuePage {
  std::vector<ListedValue> values = {};  // in byte order of their keys
  bool truncated = false;                // the next page begins after the last of them
  Transfer transfer = {};
};

// MATCH: how many leading keys of a list exist. A key is "<namespace>/<hash in lower-case hexadecimal>".
inline constexpr size_t match_keys_max = 65'536;  // of all lists of a call

struct MatchOptions {
  bool sizes = false, places = false;    // of the leading objects
  std::chrono::milliseconds lease = {};  // keeps them for so long; zero: no lease
  uint64_t join = 0;                     // with that: a lease of this client that takes them in; 0: a new one
};
// Where an object's bytes lie. unknown: not requested, or not known.
enum class KeyPlace : uint8_t { unknown, memory, disk };
// Neighbours with the same place and size.
struct MatchRun {
  uint32_t count = 0;
  KeyPlace place = KeyPlace::unknown;
  uint64_t size = 0;
};
struct MatchList {
  uint32_t leading = 0;
  std::optional<ErrorCode> ended = {};  // why the key behind them does not count; none: all of the list do
  std::vector<MatchRun> runs = {};      // of the leading keys, if sizes or places were requested
};
struct MatchReply {
  std::vector<MatchList> lists = {};  // in the order of the request
  uint64_t lease = 0;                 // 0: none
  Transfer transfer = {};
};

// A change of a key.
enum class KeyEvent : uint8_t {
  created = 1,   // a new object: put, copied, completed
  appended,      // bytes were added at its end
  removed,       // the object is gone, or the named version
  marked,        // a delete marker is the newest version
  changed,       // tags, access list, lock: the bytes are the same
  renamed_away,  // it has another key now
  renamed_here,  // it came from another key
  evicted,       // removed to make room in a bounded bucket
};
// "created", "renamed_away"; "?" for an unknown number.
std::string_view to_string(KeyEvent what);

struct KeyChange {
  KeyEvent what = KeyEvent::created;
  std::string key = {};
  std::string version_id = {};                      // in buckets with versions, for callers that may list them
  std::string etag = {};                            // without quotes; empty if no object is left
  uint64_t size = 0;                                // of the current object
  std::chrono::system_clock::time_point time = {};  // when the current object was written; or when it was removed
  uint64_t number = 0;                              // within one watch: grows with each change
};
struct WatchNews {
  // Changes were missed before these: cached data of keys under the prefix is invalid.
  bool gap = false;
  std::vector<KeyChange> changes = {};  // per key, in order
};
struct WatchOptions {
  std::string prefix = {};
  std::stop_token cancel = {};
};

// Reports changes of the keys under a prefix, some microseconds after they happened: a read after the report returns
// the changed object, or something newer. By the native door only. A handle: copies are the same watch, which ends with
// the last of them.
class Watch {
 public:
  // Waits for changes, for at most this long: then the answer is empty. Concurrent calls are answered one after the
  // other. A lost connection is made again, and changes missed meanwhile are reported as a gap; connection_failed if
  // that fails, and the call may be repeated. access_denied, no_such_bucket: the watch has ended; another call tries to
  // begin it again. After slow_down it continues. `cancelled` after end() and on a stop of the token. A caller that
  // does not call for a minute gets a gap.
  Outcome<WatchNews> next(std::chrono::milliseconds at_most = std::chrono::milliseconds::max(),
                          std::stop_token cancel = {}) const;
  // Wakes threads that wait in next(). From any thread.
  void end() const;

 private:
  friend class Client;
  struct Impl;
  explicit Watch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// Transfers to and from devices that a client made, since it was connected.
struct DeviceCounters {
  struct Way {
    uint64_t transfers = 0;  // calls that succeeded; a batch is one, and each of several ranges of an object
    uint64_t bytes = 0;
  };
  Way staged = {}, shared = {}, direct = {}, peer = {};
  // Calls that went another way than these, because the memory, its driver, an RDMA device or the server does not have
  // it (Transfer::fell_back_reason), and those for whose bytes a faster door was not used.
  uint64_t not_direct = 0, not_peer = 0, other_door = 0;
  uint64_t direct_failed = 0, peer_failed = 0;  // attempts that failed, and went on by another way
  uint64_t failed = 0;                          // calls that failed
  // verify_device: checks, of items of batches too, and how they ended.
  uint64_t verified_kernel = 0, verified_read_back = 0, no_checksum = 0, mismatches = 0;
  uint64_t read_back_bytes = 0;  // copied to the host to be checked
};

class Client;

enum class DeviceKind : uint8_t {
  cuda = 1,  // NVIDIA, by its driver (libcuda.so.1)
  rocm = 2,  // AMD, by HIP (libamdhip64.so, ROCm 5.0 or later)
};

// A dma-buf that the caller has exported.
struct DmaBuf {
  int descriptor = -1;  // the caller's, who may close it after register_memory()
  uint64_t offset = 0;  // of the window's first byte, in bytes
};

// Memory of a device, whole or a part of one allocation (or of adjacent ones).
struct DeviceBuffer {
  DeviceKind kind = DeviceKind::cuda;
  uint64_t address = 0;  // as the device's driver gave it
  size_t size = 0;
  int device = -1;         // its number; -1: the driver is asked
  bool read_only = false;  // a get into it is invalid_argument
  // The caller's work on this stream (a CUstream, a hipStream_t) comes first: a put reads, and a get writes, after what
  // the stream has got by then, and when the call returns all bytes are there for every stream. none: the caller has
  // waited.
  std::optional<uint64_t> stream = {};
  // What RDMA devices are given for the way `peer`, in place of an export of the driver's. It must be of the memory at
  // `address`: their bytes end there, wherever that is. A descriptor that is no dma-buf is refused when an RDMA device
  // is given it, and the call goes another way. The other ways do not use it.
  std::optional<DmaBuf> dma_buf = {};
};

// Memory registered for RDMA. A handle: copies and slices share the memory, which lives as long as any of them.
class Buffer {
 public:
  Buffer() = default;
  // Of a device's memory: its addresses, which no CPU can read.
  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  explicit operator bool() const { return memory_ != nullptr; }
  bool on_device() const;
  // A part of it; empty when [offset, offset + size) does not lie inside.
  Buffer slice(size_t offset, size_t size) const;

 private:
  friend class Client;
  struct Memory;
  std::shared_ptr<Memory> memory_;
  std::span<std::byte> bytes_;
};

// Fills its argument completely unless the end comes first; returns the bytes filled.
using Reader = std::function<Outcome<size_t>(std::span<std::byte>)>;
template <class T>
using Callback = std::function<void(Outcome<T>)>;

class Client {
 public:
  // Checks the options and finds out which doors are open. connection_failed: the server cannot be reached.
  static Outcome<Client> connect(ClientOptions options);

  // Memory that is cheapest to transfer (page-aligned, shared with a server on the same host). Zeroed.
  Outcome<Buffer> allocate(size_t size) const;
  // The caller's own memory, which must outlive the buffer and all its copies.
  Outcome<Buffer> register_memory(void* data, size_t size) const;
  // Memory of a device, likewise. It serves get, put, get_many, put_many and their asynchronous forms, at every door,
  // and no CPU touches it. Checked now and at each call: invalid_argument if it is not the device's memory, reaches
  // beyond its allocation, is managed memory, or has been freed since; now also if it does not lie inside its dma_buf,
  // whose descriptor must be open. unsupported: this machine has no driver for it;
  // local_error: the driver's answer, with its name for it. A device that does not finish within operation_timeout is
  // timed_out, and the host memory of its copies is then given up.
  Outcome<Buffer> register_memory(const DeviceBuffer& memory) const;

  // GET into memory. buffer_too_small when the object (or range) does not fit; the buffer's content is then undefined,
  // as after any other error. Plain memory is copied through a registered buffer if the door requires one.
  Outcome<GetReply> get(const std::string& bucket, const std::string& key, const Buffer& into,
                        const GetOptions& options = {}) const;
  Outcome<GetReply> get(const std::string& bucket, const std::string& key, std::span<std::byte> into,
                        const GetOptions& options = {}) const;
  // Several ranges of one version of the object, packed one after the other. GetOptions::range is ignored.
  Outcome<GetReply> get_ranges(const std::string& bucket, const std::string& key, std::span<const Range> ranges,
                               const Buffer& into, const GetOptions& options = {}) const;

  Outcome<PutReply> put(const std::string& bucket, const std::string& key, const Buffer& from,
                        const PutOptions& options = {}) const;
  Outcome<PutReply> put(const std::string& bucket, const std::string& key, std::span<const std::byte> from,
                        const PutOptions& options = {}) const;
  // A PUT of unknown length, in bounded memory: multipart_threshold plus part_size times parts_in_flight, or two parts
  // where those are more. A part has part_size bytes, or a 10,000th of PutOptions::stream_size; where that is unknown,
  // a third more after each 500 parts, since S3 takes 10,000. An append of more than multipart_threshold is
  // unsupported: it would not be one change.
  Outcome<PutReply> put_stream(const std::string& bucket, const std::string& key, const Reader& from,
                               const PutOptions& options = {}) const;

  Outcome<ObjectInfo> head(const std::string& bucket, const std::string& key, const HeadOptions& options = {}) const;
  // Succeeds for a key that does not exist, as S3 does.
  Outcome<> remove(const std::string& bucket, const std::string& key, const RemoveOptions& options = {}) const;
  // Within a directory bucket: atomic, without copying bytes.
  Outcome<> rename(const std::string& bucket, const std::string& from, const std::string& to,
                   const RenameOptions& options = {}) const;
  Outcome<ListPage> list(const std::string& bucket, const ListOptions& options = {}) const;
  // All pages, object by object, in key order. The callback returns false to stop. ListOptions::delimiter is ignored.
  Outcome<> for_each(const std::string& bucket, const std::string& prefix,
                     const std::function<bool(const ObjectInfo&)>& visit) const;

  // As many objects as batch_items_max, of up to 16 buckets a message; `results` has an element for each item. By the
  // native door they travel in as few messages as possible, by the others as parallel single requests. Fails as a whole
  // (invalid_argument: invalid items, overlapping destinations, a key that is written twice; or no door is left): items
  // without a result may have been executed then, if they are writes (outcome_unknown). The data that `items` refer to,
  // and `results`, must stay valid until the call returns.
  Outcome<Transfer> get_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                             std::span<BatchResult> results, const BatchOptions& options = {}) const;
  Outcome<Transfer> head_many(std::span<const BatchItem> items, std::span<BatchResult> results,
                              const BatchOptions& options = {}) const;
  // Each is atomic and durable as a single put is.
  Outcome<Transfer> put_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                             std::span<BatchResult> results) const;
  Outcome<Transfer> remove_many(std::span<const BatchItem> items, std::span<BatchResult> results) const;

  // For each list, how many of its leading keys exist and may be read: as many HEADs, up to the first that fails, in
  // one message by the native door. `hashes`: all lists' hashes one after the other, each of `width` (16 or 32) bytes;
  // `counts`: of each list, at least one. invalid_argument: more than match_keys_max, or they do not fit `hashes`.
  // unsupported: a lease, by another door or an older server. A lease is read by (BatchOptions::lease) by every client
  // of the same account that has a connection to the same core of the server; the others read what is there.
  Outcome<MatchReply> match(const std::string& bucket, const std::string& name_space, std::span<const std::byte> hashes,
                            size_t width, std::span<const uint32_t> counts, const MatchOptions& options = {}) const;
  // Ends a lease of a match before its time. Succeeds for one that has ended.
  Outcome<> end_lease(uint64_t lease) const;

  Outcome<> make_bucket(const std::string& bucket, BucketDurability durability = BucketDurability::sync,
                        BucketEtags etags = BucketEtags::md5) const;
  Outcome<> remove_bucket(const std::string& bucket) const;
  Outcome<> set_bound(const std::string& bucket, const BucketBound& bound) const;  // replaces the one before
  Outcome<std::optional<BucketBound>> bound(const std::string& bucket) const;      // nullopt: none
  Outcome<> remove_bound(const std::string& bucket) const;
  Outcome<std::vector<BucketInfo>> buckets() const;

  // Asynchronous: several may be in flight (ClientOptions::async_threads). Memory must stay valid until the outcome is
  // there. Callbacks run on the client's threads, must not block for long, and may start further operations.
  std::future<Outcome<GetReply>> get_async(std::string bucket, std::string key, Buffer into,
                                           GetOptions options = {}) const;
  std::future<Outcome<PutReply>> put_async(std::string bucket, std::string key, Buffer from,
                                           PutOptions options = {}) const;
  void get_async(std::string bucket, std::string key, Buffer into, GetOptions options, Callback<GetReply> done) const;
  void put_async(std::string bucket, std::string key, Buffer from, PutOptions options, Callback<PutReply> done) const;

  // One page of a listing and, consecutively in `into`, the objects' bytes. The page ends where the keys, the buffer or
  // the answer does. An object that is larger than the buffer is listed without its bytes.
  Outcome<ValuePage> list_values(const std::string& bucket, const Buffer& into, const ValueOptions& options = {}) const;

  // The data that the items refer to, and the results, must stay valid until the outcome is there.
  std::future<Outcome<Transfer>> get_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                std::span<BatchResult> results, BatchOptions options = {}) const;
  std::future<Outcome<Transfer>> head_many_async(std::vector<BatchItem> items, std::span<BatchResult> results) const;
  std::future<Outcome<Transfer>> put_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                std::span<BatchResult> results) const;
  std::future<Outcome<Transfer>> remove_many_async(std::vector<BatchItem> items, std::span<BatchResult> results) const;

  // After it returns, every change of a key with the prefix is reported. Requires the right to list those keys.
  // `unsupported`: this client uses HTTP or tokens, or the server cannot report changes.
  Outcome<Watch> watch(const std::string& bucket, const WatchOptions& options = {}) const;

  DeviceCounters device_counters() const;

  // The door that an operation of `size` bytes would try first now.
  Via preferred(uint64_t size = 1u << 20) const;

  struct Inside;  // for the C API

 private:
  class Impl;
  explicit Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// While one lives, the requests of this thread belong to a trace: a W3C traceparent ("00-<trace>-<span>-<flags>"), the
// parent of the server's spans. Sent in native messages, except those of batches, and in HTTP requests. Requests from
// the client's own threads (parts of large objects, asynchronous calls that are not native) do not carry it. Scopes may
// be nested; each ends on the thread that made it.
class TraceScope {
 public:
  explicit TraceScope(std::string_view traceparent);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  bool valid() const { return valid_; }  // false: not a traceparent, and none is sent

 private:
  std::string outer_;
  bool valid_ = false;
};

// "native", "token", "http", "auto".
std::string_view to_string(Via via);
// "staged", "shared"; empty for none.
std::string_view to_string(DevicePath path);
// "kernel", "read_back", "no_checksum"; empty for none.
std::string_view to_string(DeviceVerified verified);
// nullopt for anything else.
std::optional<Via> parse_via(std::string_view text);
// The enumerator's name ("no_such_key").
std::string_view to_string(ErrorCode code);

}  // namespace verbena
