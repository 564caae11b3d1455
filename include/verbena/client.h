// The client library of Verbena: objects by RDMA where that works, by S3 over HTTP where it does not.
//
//   auto client = verbena::Client::connect({.access_key = "...", .secret_key = "..."});
//   auto buffer = client->allocate(1 << 20);
//   auto got = client->get("bucket", "key", *buffer);       // got->transfer says which way the bytes went
//
// Every call reports failure through Outcome<T>; nothing here throws (std::bad_alloc apart). A Client is cheap to copy
// (copies share connections, sessions and buffers) and every function may be called from any thread. After a fork the
// child may only destroy what it has of the parent's clients and buffers (that touches nothing of the parent's): all
// else fails with `forked`. Both may make new clients.
// Sizes and offsets are bytes.
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

// The way that bytes go.
enum class Via : uint8_t {
  automatic,  // native, else token, else http
  native,     // messages and one-sided operations on the fabric
  token,      // S3 over HTTP; the payload by RDMA (x-amz-rdma-token)
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
  access_denied,  // known, but may not; or the signature does not match
  unknown_access_key,
  checksum_mismatch,  // bytes arrived that are not the object's; what was written is not to be trusted
  buffer_too_small,
  too_large,
  slow_down,          // the server is overloaded; retries are used up
  unsupported,        // the server, or the door that was asked for, cannot do this
  connection_failed,  // nothing reached the server
  timed_out,
  outcome_unknown,  // the connection broke after the request was sent: the server may or may not have done it
  malformed_reply,
  server_error,
  local_error,  // this machine: no memory, no device
  cancelled,    // the caller asked for it; what was to be stored or removed may have been
  forked,       // the client was made before a fork of this process: make one in the child
};

struct ClientError {
  ErrorCode code = ErrorCode::server_error;
  std::string message = {};     // one line for people; never holds a secret
  std::string s3_code = {};     // "NoSuchKey"; empty when the failure did not come as an S3 error
  int http_status = 0;          // 0: not from HTTP
  std::string request_id = {};  // the server's, when it gave one
};

template <class T = void>
using Outcome = std::expected<T, ClientError>;

struct ClientOptions {
  std::string endpoint = "http://127.0.0.1:9000";  // S3: scheme://host[:port]
  // host:port, or http(s)://host:port; empty: the endpoint's host and port 9100.
  std::string native_endpoint = {};
  // Empty access key: anonymous, HTTP only. `session_token`: of STS, or of a directory bucket's session
  // (CreateSession), in which then everything is done.
  std::string access_key = {}, secret_key = {}, session_token = {};
  std::string region = "us-east-1";
  Via via = Via::automatic;  // anything but automatic never falls back: it fails
  // Native: auto | local | verbs | tcp | efa | cxi. Tokens: the same names without local, and tcp is libfabric's, which
  // Via::automatic uses only where it is named: any peer can crash a process through it, unless libfabric is built with
  // Verbena's checks.
  std::string provider = "auto";
  std::string ca_file = {};  // PEM, for https; empty: the system's certificates
  bool insecure = false;     // https without verifying the server
  // TLS does not cover RDMA. With an https endpoint, Via::automatic therefore sends payloads by the native door over an
  // encrypted tcp, by shared memory to a server on this host, or by HTTP, unless this allows everything else too.
  // Via::native and Via::token are taken at their word.
  bool cleartext_rdma = false;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds operation_timeout{60'000};  // without any progress
  unsigned attempts_max = 4;                            // of one operation, backoff in between
  size_t connections_max = 32;                          // kept alive while idle
  unsigned async_threads = 8;                           // asynchronous operations in flight
  uint64_t multipart_threshold = 64u << 20;             // HTTP and token PUTs above this go in parts
  uint64_t part_size = 16u << 20;                       // 5 MiB or more
  unsigned parts_in_flight = 4;
  uint64_t token_size_min = 64u << 10;  // automatic: smaller transfers are not worth a token
  bool sign_payload = true;             // plain HTTP: SHA-256 of PUT bodies is signed (https: never)
  bool verify_checksums = true;         // of whole-object GETs, when the server knows one
};

// How one operation's payload travelled.
struct Transfer {
  Via door = Via::http;
  std::string provider = {};  // "local", "tcp", "verbs;ofi_rxm"; "http" or "https" for the HTTP door
  uint64_t bytes = 0;
  std::string fell_back_reason = {};  // why a faster door was not used; empty when none was skipped
  unsigned attempts = 1;
};

struct ObjectInfo {
  std::string key = {};
  uint64_t size = 0;
  std::string etag = {};  // without quotes
  std::chrono::system_clock::time_point last_modified = {};
  std::string content_type = {};
  std::map<std::string, std::string> metadata = {};  // x-amz-meta-*, names without the prefix
  std::string checksum = {};                         // "CRC32C:yZRlqg=="; empty when none is known
  std::string version_id = {};
  // What else is stored with it or said of it, lower-case names: "cache-control", "content-encoding", "expires". As
  // metadata.
  std::map<std::string, std::string> headers = {};
};

struct Range {
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end
};

struct GetOptions {
  std::optional<Range> range = {};
  std::string if_match = {}, if_none_match = {};  // ETag without quotes, or "*"
  // Fill GetReply::info with content type, metadata and checksum, too (the HTTP doors always do).
  bool metadata = false;
  std::string version_id = {};  // by HTTP or token: the native door has versions in batches alone
  // A stop ends the operation with `cancelled`, within some 20 ms. Nothing touches the memory after that.
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
  // The object's ETag is the MD5 of its bytes whichever way they go (of parts: as S3 makes it of their MD5s). Over HTTP
  // it is that anyway; by RDMA the server computes an MD5 only when asked to.
  bool md5_etag = false;
  // "CRC32:yZRlqg==", or another algorithm of S3's: what the bytes must have, else checksum_mismatch and nothing
  // is stored.
  std::string checksum = {};
  // The bytes go to the end of the object, which must have this size, or append_at_end: whatever it has. 0 makes an
  // object where there is none. In directory buckets, and others that are set so. An append that may have been done is
  // not repeated; of append_at_end the native door is told which, the others learn the size first.
  // Asynchronously by the native door, those of a key that lie one behind the other may share a message, where they say
  // nothing else of the object: each has its own outcome, and the ETag is that of the object after the message. One
  // that is cancelled has its outcome at once, and may be done all the same.
  std::optional<uint64_t> append_at = {};
  std::stop_token cancel = {};  // as GetOptions::cancel
  // Fill PutReply::headers, too (the HTTP doors always do).
  bool describe = false;
};
inline constexpr uint64_t append_at_end = ~uint64_t{0};

struct RenameOptions {
  std::string source_if_match = {};  // ETags without quotes, or "*"
  std::string if_match = {};         // of what is at the new name
  std::string if_none_match = {};    // "*": nothing may be there
  // Of 1 to 64 visible characters: a rename that is asked for again under it is not done again.
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
  uint64_t object_size = 0;  // of an append: with these bytes at its end
  Transfer transfer = {};
  // What the server says of the object, lower-case names: x-amz-server-side-encryption and its like, x-amz-expiration.
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

// Batches: many objects in one call, each with an outcome of its own.
inline constexpr size_t batch_items_max = 4096;
inline constexpr size_t batch_windows_max = 6;

struct BatchItem {
  std::string_view bucket, key;
  // get, put: its bytes are [offset, offset + size) of the window of this number. Of a get places must not overlap; an
  // object that is longer than its place is buffer_too_small, and nothing of it is written.
  size_t offset = 0, size = 0;
  unsigned window = 0;
  std::optional<Range> range = {};                     // get
  std::string_view version_id = {};                    // not put
  std::string_view if_match = {}, if_none_match = {};  // ETags without quotes, or "*"; remove has if_match alone
  std::string_view content_type = {};                  // put
};
// Filled for each item of a call. Used again for the next call it keeps its memory.
struct BatchResult {
  std::optional<ErrorCode> error = {};  // none: done
  uint64_t bytes = 0;                   // delivered or stored
  uint64_t size = 0;                    // of the whole object; not known of a put or remove
  std::string etag = {}, version_id = {};
  std::chrono::system_clock::time_point last_modified = {};
};
struct BatchOptions {
  // get: called with how many of the leading items have arrived, each time that there are more, while the others are on
  // their way; never twice at once. Must not call the client. Items that failed count when the server has said so. What
  // it was told of is not written any more. Results come later: where a session that breaks takes one along, the item
  // is connection_failed, unless it names its bytes by a version or an ETag and can be asked for again.
  std::function<void(size_t)> in_order = {};
};

// A listing that brings small objects along: a prefix of them in one answer.
struct ValueOptions {
  std::string prefix = {}, after = {};  // keys after this one
  uint64_t value_size_max = 64 * 1024;  // longer objects are listed without their bytes
  unsigned max_keys = 1000;             // 1 .. 1000
};
struct ListedValue {
  ObjectInfo info = {};
  std::optional<size_t> offset = {};  // of its info.size bytes in the buffer; none: too long, or it failed
  std::optional<ErrorCode> error =
      {};  // why its bytes could not be had; access_denied, for one: to list is not to read
};
struct ValuePage {
  std::vector<ListedValue> values = {};  // in byte order of their keys
  bool truncated = false;                // the next page begins after the last of them
  Transfer transfer = {};
};

// What became of a key.
enum class KeyEvent : uint8_t {
  created = 1,   // there is a new object: put, copied, completed
  appended,      // bytes came to its end
  removed,       // the object is gone, or the version that is named
  marked,        // a delete marker is the newest version now
  changed,       // tags, access list, lock: the bytes are the same
  renamed_away,  // it has another key now
  renamed_here,  // it came from another key
};
// "created", "renamed_away"; "?" for a number that is none.
std::string_view to_string(KeyEvent what);

struct KeyChange {
  KeyEvent what = KeyEvent::created;
  std::string key = {};
  std::string version_id = {};                      // in buckets with versions, for those who may list them
  std::string etag = {};                            // without quotes; empty where nothing is left
  uint64_t size = 0;                                // of the object as it is now
  std::chrono::system_clock::time_point time = {};  // when what is there was written; or when it went
  uint64_t number = 0;                              // of one watch: grows with each change
};
struct WatchNews {
  // Something was missed before these changes: what is kept of keys under the prefix is not to be trusted.
  bool gap = false;
  std::vector<KeyChange> changes = {};  // in the order in which they happened to each key
};
struct WatchOptions {
  std::string prefix = {};
  std::stop_token cancel = {};
};

// Tells what becomes of the keys under a prefix, some microseconds after it happened: who then reads the key sees that,
// or something newer. By the native door alone. A handle: copies are the same watch, which ends with the last of them.
class Watch {
 public:
  // Waits until there is something, at most so long: then there is nothing in the answer. Of several threads that ask,
  // one is answered after the other. A connection that was lost is made anew, and what was missed meanwhile is a gap;
  // connection_failed when that does not work, and one may ask again. access_denied, no_such_bucket: the watch has
  // ended; who asks again tries to begin it anew. After slow_down it goes on. `cancelled` after end() and where the
  // token says so. Who does not ask for a minute finds a gap.
  Outcome<WatchNews> next(std::chrono::milliseconds at_most = std::chrono::milliseconds::max(),
                          std::stop_token cancel = {}) const;
  // Whoever waits in next() is woken. From any thread.
  void end() const;

 private:
  friend class Client;
  struct Impl;
  explicit Watch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

class Client;

// Memory that is ready for RDMA. A handle: copies and slices share the memory, which lives as long as any of them.
class Buffer {
 public:
  Buffer() = default;
  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  explicit operator bool() const { return memory_ != nullptr; }
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
  // Checks the options and finds out which doors are open. An unreachable server is connection_failed.
  static Outcome<Client> connect(ClientOptions options);

  // Memory that is cheapest to transfer (page-aligned, shared with a server on the same host). Zeroed.
  Outcome<Buffer> allocate(size_t size) const;
  // The caller's own memory, which must outlive the buffer and all its copies.
  Outcome<Buffer> register_memory(void* data, size_t size) const;

  // GET into memory. buffer_too_small when the object (or range) does not fit; nothing is then promised about the
  // buffer's content, nor after any other error. Plain memory is staged through a registered buffer where the door
  // needs that.
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
  // Of unknown length, in bounded memory (multipart_threshold plus part_size times parts_in_flight). An append of more
  // than multipart_threshold is unsupported: it would not be one.
  Outcome<PutReply> put_stream(const std::string& bucket, const std::string& key, const Reader& from,
                               const PutOptions& options = {}) const;

  Outcome<ObjectInfo> head(const std::string& bucket, const std::string& key, const HeadOptions& options = {}) const;
  // Succeeds for a key that does not exist, as S3 does.
  Outcome<> remove(const std::string& bucket, const std::string& key, const RemoveOptions& options = {}) const;
  // Within a directory bucket: atomic, and no byte is copied.
  Outcome<> rename(const std::string& bucket, const std::string& from, const std::string& to,
                   const RenameOptions& options = {}) const;
  Outcome<ListPage> list(const std::string& bucket, const ListOptions& options = {}) const;
  // All pages, object by object, in key order. The callback returns false to stop. ListOptions::delimiter is ignored.
  Outcome<> for_each(const std::string& bucket, const std::string& prefix,
                     const std::function<bool(const ObjectInfo&)>& visit) const;

  // As many objects as batch_items_max, of up to 16 buckets a message; `results` has an element for each item. By the
  // native door they travel in as few messages as hold them, by the others as single requests side by side.
  // Fails as a whole (invalid_argument: items that are none, places that overlap, a key that is written twice; or no
  // door is left): items whose result says nothing may have been done then, where they are writes (outcome_unknown).
  // What `items` name and `results` stay until the call returns.
  Outcome<Transfer> get_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                             std::span<BatchResult> results, const BatchOptions& options = {}) const;
  Outcome<Transfer> head_many(std::span<const BatchItem> items, std::span<BatchResult> results) const;
  // Each is atomic and durable as a single put is.
  Outcome<Transfer> put_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                             std::span<BatchResult> results) const;
  Outcome<Transfer> remove_many(std::span<const BatchItem> items, std::span<BatchResult> results) const;

  Outcome<> make_bucket(const std::string& bucket, BucketDurability durability = BucketDurability::sync) const;
  Outcome<> remove_bucket(const std::string& bucket) const;
  Outcome<std::vector<BucketInfo>> buckets() const;

  // Asynchronous: several may be in flight (ClientOptions::async_threads). Memory must stay until the outcome is there.
  // Callbacks run on the client's threads, must not block for long, and may start further operations.
  std::future<Outcome<GetReply>> get_async(std::string bucket, std::string key, Buffer into,
                                           GetOptions options = {}) const;
  std::future<Outcome<PutReply>> put_async(std::string bucket, std::string key, Buffer from,
                                           PutOptions options = {}) const;
  void get_async(std::string bucket, std::string key, Buffer into, GetOptions options, Callback<GetReply> done) const;
  void put_async(std::string bucket, std::string key, Buffer from, PutOptions options, Callback<PutReply> done) const;

  // One page of a listing and, in `into`, one behind the other, the objects' bytes. The page ends where the keys, the
  // buffer or the answer does. An object that fits no buffer of this size is listed without its bytes.
  Outcome<ValuePage> list_values(const std::string& bucket, const Buffer& into, const ValueOptions& options = {}) const;

  // What the items name and the results stay until the outcome is there.
  std::future<Outcome<Transfer>> get_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                std::span<BatchResult> results, BatchOptions options = {}) const;
  std::future<Outcome<Transfer>> head_many_async(std::vector<BatchItem> items, std::span<BatchResult> results) const;
  std::future<Outcome<Transfer>> put_many_async(std::vector<BatchItem> items, std::vector<Buffer> windows,
                                                std::span<BatchResult> results) const;
  std::future<Outcome<Transfer>> remove_many_async(std::vector<BatchItem> items, std::span<BatchResult> results) const;

  // From its return on, every change of a key that begins with the prefix is told. Takes the right to list those keys.
  // `unsupported`: this client goes by HTTP or tokens, or the server cannot tell what changes.
  Outcome<Watch> watch(const std::string& bucket, const WatchOptions& options = {}) const;

  // Which door an operation of `size` bytes would try first now.
  Via preferred(uint64_t size = 1u << 20) const;

  struct Inside;  // the C API's way in

 private:
  class Impl;
  explicit Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// While one lives, the requests that this thread sends belong to a trace: a W3C traceparent
// ("00-<trace>-<span>-<flags>"), as the server's spans then have it for their parent. Native messages carry it, but for
// those of batches, and HTTP requests. What goes by the client's own threads (parts of large objects, asynchronous
// calls that are not native) does not. Scopes may lie in each other; each ends on the thread that made it.
class TraceScope {
 public:
  explicit TraceScope(std::string_view traceparent);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  bool valid() const { return valid_; }  // false: it is no traceparent, and nothing is sent for it

 private:
  std::string outer_;
  bool valid_ = false;
};

// "native", "token", "http", "auto".
std::string_view to_string(Via via);
// nullopt for anything else.
std::optional<Via> parse_via(std::string_view text);
// The enumerator's name ("no_such_key").
std::string_view to_string(ErrorCode code);

}  // namespace verbena
