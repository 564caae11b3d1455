// State shared by a Client's copies: the doors, in order of preference, and the rules for falling back.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "client/api/appends.h"
#include "client/api/device.h"
#include "client/api/device_counts.h"
#include "client/api/part_sizes.h"
#include "client/endpoint.h"
#include "client/forks.h"
#include "client/http/s3_http.h"
#include "client/native/session_door.h"
#include "client/ordered_work.h"
#include "client/retry.h"
#include "client/token/token_door.h"
#include "client/worker_pool.h"
#include "net/http_client.h"
#include "verbena/client.h"

namespace verbena {

// `native` keeps the mapping that a native session shares with its server; `own` is plain page-aligned memory; `device`
// describes a device's; none of them: the caller's.
struct Buffer::Memory {
  std::shared_ptr<client::NativeMemory> native;
  void* own = nullptr;
  size_t own_bytes = 0;
  std::unique_ptr<client::DeviceMemory> device = {};  // the bytes are addresses of a device
  uint64_t forks = client::forks();
  ~Memory();
};

// Memory of a call: its bytes, and the native session's memory that they lie in, if any.
template <class Byte>
struct CallMemory {
  std::span<Byte> bytes;
  const client::NativeMemory* native = nullptr;
};
using GetMemory = CallMemory<std::byte>;
using PutMemory = CallMemory<const std::byte>;

namespace client {
struct DeviceRange;
struct DeviceSums;

// True when the door failed, not the request: another door may succeed.
bool speaks_against_door(const ClientError& error);
bool get_may_fall_back(const ClientError& error);
inline std::unexpected<ClientError> cancelled() { return fault(ErrorCode::cancelled, "cancelled by the caller"); }
// A wait between two attempts ends with the cancellation, which is then the outcome.
template <class T>
Outcome<T> unless_cancelled(Outcome<T> outcome, const std::stop_token& stop) {
  if (!outcome && stop.stop_requested()) return cancelled();
  return outcome;
}
// Of a GET into memory of this size, as far as the request says it: without a range the object's size is not known yet,
// and the memory's is the best estimate.
uint64_t expected_size(uint64_t room, const GetOptions& options);

// An item of a batch that goes another way, and what its first attempt leaves open.
struct AgainItem {
  size_t number;
  Doubt doubt;
};

// The keys of a match.
struct MatchKeys {
  const std::string& bucket;
  const std::string& name_space;
  Bytes hashes;
  size_t width;
  std::span<const uint32_t> counts;
};
}  // namespace client

class Client::Impl {
 public:
  static Outcome<std::shared_ptr<Impl>> create(ClientOptions options);
  ~Impl();

  Outcome<GetReply> get(const std::string& bucket, const std::string& key, GetMemory into, const GetOptions& options,
                        bool native_too = true);
  Outcome<GetReply> get_ranges(const std::string& bucket, const std::string& key, std::span<const Range> ranges,
                               GetMemory into, const GetOptions& options);
  Outcome<GetReply> get_ranges(const std::string& bucket, const std::string& key, std::span<const Range> ranges,
                               const Buffer& into, const GetOptions& options);
  Outcome<PutReply> put(const std::string& bucket, const std::string& key, PutMemory from, const PutOptions& options,
                        bool native_too = true);
  Outcome<PutReply> put_stream(const std::string& bucket, const std::string& key, const Reader& from,
                               const PutOptions& options);

  // Sends one part of an upload that was begun elsewhere: by token where that works, else by HTTP.
  Outcome<PutReply> put_part(const client::UploadPart& part);

  // `inline_done`: the completion may run on a fabric's progress thread (it only wakes someone up).
  void get_async(std::string bucket, std::string key, Buffer into, GetOptions options, Callback<GetReply> done,
                 bool inline_done);
  void put_async(std::string bucket, std::string key, Buffer from, PutOptions options, Callback<PutReply> done,
                 bool inline_done);

  Outcome<ObjectInfo> head(const std::string& bucket, const std::string& key, const HeadOptions& options = {});
  Outcome<> remove(const std::string& bucket, const std::string& key, const RemoveOptions& options = {});
  Outcome<> rename(const std::string& bucket, const std::string& from, const std::string& to,
                   const RenameOptions& options);
  Outcome<ListPage> list(const std::string& bucket, const ListOptions& options);
  Outcome<> for_each(const std::string& bucket, const std::string& prefix,
                     const std::function<bool(const ObjectInfo&)>& visit);

  // Batches. `windows`: none for head and remove.
  enum class Many { get, head, put, remove };
  Outcome<Transfer> many(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                         std::span<BatchResult> results, const BatchOptions& options);
  std::future<Outcome<Transfer>> many_async(Many what, std::vector<BatchItem> items, std::vector<Buffer> windows,
                                            std::span<BatchResult> results, BatchOptions options);

  Outcome<ValuePage> list_values(const std::string& bucket, const ValueOptions& options, const Buffer& into);

  Outcome<MatchReply> match(const client::MatchKeys& keys, const MatchOptions& options);
  Outcome<> end_lease(uint64_t lease);

  Outcome<std::unique_ptr<client::NativeWatch>> watch(const std::string& bucket, const WatchOptions& options);

  Outcome<Buffer> allocate(size_t size);

  // Fails with `forked` in a child of the process that made this client.
  Outcome<> usable() const;
  // Buffers whose memory is a device's: moved, checked if that was asked for, and counted (device_calls.cc).
  DeviceCounters device_counters() const;
  Outcome<GetReply> device_get(const std::string& bucket, const std::string& key, const Buffer& into,
                               const GetOptions& options);
  Outcome<GetReply> device_get_ranges(const std::string& bucket, const std::string& key, std::span<const Range> ranges,
                                      const Buffer& into, const GetOptions& options);
  Outcome<PutReply> device_put(const std::string& bucket, const std::string& key, const Buffer& from,
                               const PutOptions& options);
  Outcome<Transfer> device_many(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                                std::span<BatchResult> results, const BatchOptions& options);
  // The same without check and count.
  Outcome<GetReply> get_to_device(const std::string& bucket, const std::string& key, const Buffer& into,
                                  const GetOptions& options);
  Outcome<PutReply> put_from_device(const std::string& bucket, const std::string& key, const Buffer& from,
                                    const PutOptions& options);
  Outcome<Transfer> many_on_device(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                                   std::span<BatchResult> results, const BatchOptions& options);
  // The window's memory as the server maps it, on whose host the device copies for it. Null: it does not; `reason` says
  // why, if the memory is the reason.
  const client::NativeDevice* direct_memory(const Buffer& window, std::string& reason);
  // The same as RDMA devices of this host reach it. `reaches`: those of the door's links may.
  // By a link of that provider, which reaches devices.
  const client::NativeMemory* peer_memory(const Buffer& window, std::string_view provider, std::string& reason);
  // The better of both by the native door that is open.
  client::DeviceWay straight_way(const Buffer& window, std::string& reason);
  // By that way, or by a token where the native door is not open. Nothing: there is none, or it has failed for a reason
  // that another way may not have.
  std::optional<Outcome<GetReply>> straight_get(const std::string& bucket, const std::string& key, const Buffer& into,
                                                const GetOptions& options, client::DeviceCopies& copies,
                                                std::string& reason);
  // `doubt`: records that attempt, if it failed.
  std::optional<Outcome<PutReply>> straight_put(const std::string& bucket, const std::string& key, const Buffer& from,
                                                const PutOptions& options, std::string& reason, client::Doubt& doubt);
  // Null: no token carries bytes of that window.
  const client::NativeMemory* token_memory(const Buffer& window, uint64_t size, const std::stop_token& stop,
                                           std::string& reason);
  // Through the lane's ring, or through memory of its own.
  Outcome<PutReply> own_put(const std::string& bucket, const std::string& key, const Buffer& from,
                            const PutOptions& options, client::DeviceCopies& copies);
  std::optional<Outcome<Transfer>> straight_many(Many what, std::span<const BatchItem> items,
                                                 std::span<const Buffer> windows, std::span<BatchResult> results,
                                                 const BatchOptions& options, client::DeviceCopies& copies,
                                                 std::string& reason);
  void ask_for_told(client::ManyCall& call);
  Outcome<Transfer> some_again(Many what, std::span<const client::AgainItem> which, std::span<const BatchItem> items,
                               std::span<const Buffer> windows, std::span<BatchResult> results,
                               const BatchOptions& options, client::DeviceCopies& copies);
  // Through the lane's ring.
  Outcome<Transfer> own_many(Many what, std::span<const BatchItem> items, std::span<const Buffer> windows,
                             std::span<BatchResult> results, const BatchOptions& options, client::DeviceCopies& copies);
  // A lane to its device, for a window that is still what was registered.
  // Opens the native door if it is not open and does not rest, so that what follows finds it open. `cancelled`.
  Outcome<std::unique_ptr<client::DeviceLane>> device_lane(const Buffer& window, const std::stop_token& stop);
  client::DeviceLanes& device_lanes() { return *lanes_; }

  // Runs on one of the client's threads.
  void post(std::function<void()> work) { workers_->post(std::move(work)); }

  bool native_open() const { return session_ && session_->open(); }
  bool wants_token(uint64_t size);
  client::S3Http& s3() { return *s3_; }
  // Retries an operation that only HTTP has.
  template <class Fn>
  auto retried(bool idempotent, Fn&& operation, const std::stop_token& stop = {}) {
    unsigned attempts = 0;
    return client::with_retries(retry_, idempotent, attempts, std::forward<Fn>(operation), stop);
  }
  // Retries a change that must not be made twice.
  template <class Fn>
  auto retried_change(Fn&& operation, const std::stop_token& stop = {}) {
    unsigned attempts = 0;
    return client::with_retries_of_change(retry_, false, attempts, std::forward<Fn>(operation), stop);
  }
  const ClientOptions& options() const { return options_; }
  // Whether an object of this size may be offered to the native door, which takes it whole; a larger one goes in parts,
  // which HTTP and tokens carry.
  bool fits_native(uint64_t size) const { return options_.via == Via::native || size <= client::put_size_max; }

 private:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {}
  // Of ranges of the window's device, by a lane of their own. `after_stream`: after the window's own stream.
  Outcome<client::DeviceSums> sums_of(const Buffer& window, Algorithm algorithm,
                                      std::span<const client::DeviceRange> ranges, const std::stop_token& stop,
                                      bool after_stream);
  Outcome<DeviceVerified> verify_get(const std::string& bucket, const std::string& key, const Buffer& into,
                                     const GetOptions& options, const GetReply& got);
  Outcome<PutReply> verified_put(const std::string& bucket, const std::string& key, const Buffer& from,
                                 const PutOptions& options);
  Outcome<> verify_many(std::span<const BatchItem> items, std::span<const Buffer> windows,
                        std::span<BatchResult> results, Transfer& transfer);
  Outcome<> open();
  Outcome<GetReply> get_once(const std::string& bucket, const std::string& key, GetMemory into,
                             const GetOptions& options, bool native_too);
  Outcome<PutReply> put_once(const std::string& bucket, const std::string& key, PutMemory from,
                             const PutOptions& options, bool native_too);
  // Whether a token may carry a PUT.
  bool token_may_put(uint64_t size, const PutOptions& options);
  // `device`: `from` is a part of that window.
  Outcome<PutReply> put_by_token(const std::string& bucket, const std::string& key, Bytes from,
                                 const PutOptions& options, std::string& reason, bool& done,
                                 const client::PeerWindow* device = nullptr);
  Outcome<PutReply> put_by_token(const std::string& bucket, const std::string& key, Bytes from,
                                 const PutOptions& options, const client::PeerWindow& device);
  static PutMemory memory_of(const Buffer& from);
  // Completes a put that the native door has answered.
  void put_landed(const std::string& bucket, const std::string& key, client::AsyncPut call, Outcome<PutReply> outcome);
  client::Appends::Ways ways_of_appends();
  Outcome<MatchList> match_by_heads(const client::MatchKeys& keys, size_t first, uint32_t count,
                                    const MatchOptions& options, Transfer& transfer);
  // Sends all pending appends to this key before the next call.
  void flush_appends(const std::string& bucket, const std::string& key);
  void put_by_session(const std::string& bucket, const std::string& key, client::AsyncPut call);
  bool put_in_order(const std::string& bucket, const std::string& key, client::AsyncPut& call);
  // Completes the append when it is cancelled before its turn; empty: it cannot be.
  std::function<void()> when_cancelled(const std::string& bucket, const std::string& key, const client::AsyncPut& call);
  // All requests by token, as TokenDoor has them. After one that the door has not carried, it rests.
  Outcome<GetReply> get_by_token(const std::string& bucket, const std::string& key, MutableBytes into,
                                 const GetOptions& options, const client::PeerWindow* device = nullptr);
  Outcome<std::optional<net::HttpReply>> send_by_token(client::S3Call call, Bytes from,
                                                       const client::KnownChecksum& checksum, bool md5_etag,
                                                       std::string& reason, const client::PeerWindow* device = nullptr);
  void rest_token_after(const ClientError& error, const std::stop_token& stop);
  Outcome<PutReply> append_by_http(const std::string& bucket, const std::string& key, Bytes from,
                                   const PutOptions& options);

  // Runs a batch as concurrent single requests, for the items missing in `answered`.
  void many_singles(Many what, std::span<const BatchItem> items, std::span<const MutableBytes> windows,
                    std::span<BatchResult> results, std::vector<uint8_t>& answered, size_t told,
                    const BatchOptions& options, bool native_too, Transfer& transfer);
  Outcome<> single(Many what, const BatchItem& item, MutableBytes memory, BatchResult& result, bool native_too,
                   Transfer& transfer);

  // A page as its door has it, with the continuation of this client; empty: there is no more.
  struct Listed {
    std::string continuation;
    std::variant<client::NativePage, ListPage> page;
  };
  Outcome<Listed> list_by_a_door(const std::string& bucket, const ListOptions& options);
  Outcome<ValuePage> list_and_get(const std::string& bucket, const ValueOptions& options, const Buffer& into);

  // A multipart upload. A worker's current part: the caller's bytes, or its own copy.
  struct Upload;
  struct Piece {
    Bytes bytes;
    std::vector<std::byte> own;
  };
  using NextPart = std::function<Outcome<bool>(Piece&)>;  // false: no more
  Outcome<PutReply> put_parts(const std::string& bucket, const std::string& key, Bytes from, const PutOptions& options);
  // Uploads the parts that `next` returns, by the caller's thread and helpers, `at_once` of them: at least 1, and never
  // more than before. Both are called by one thread at a time.
  Outcome<PutReply> run_upload(const std::string& bucket, const std::string& key,
                               const std::function<unsigned()>& at_once, const NextPart& next,
                               const PutOptions& options);
  Outcome<PutReply> put_part_once(const client::UploadPart& part);
  Outcome<PutReply> finish_upload(Upload& upload, const PutOptions& options);

  ClientOptions options_;
  const uint64_t forks_ = client::forks();
  client::RetryPolicy retry_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<client::S3Http> s3_;
  std::unique_ptr<client::TokenDoor> token_;      // null: not used (anonymous, or another door was asked for)
  std::unique_ptr<client::SessionDoor> session_;  // likewise
  std::atomic<int64_t> token_rests_until_{0};     // steady clock, ns
  std::mutex reason_mutex_;
  std::string token_reason_;
  std::string tls_reason_;  // why `automatic` avoids RDMA between hosts; set at the start, else empty
  std::atomic<bool> closing_{false};
  std::unique_ptr<client::Appends> appends_;  // of the native door
  // Sends the appends that waited for answers. Completions have threads of their own, since they may wait for appends.
  std::unique_ptr<client::WorkerPool> append_worker_;
  std::unique_ptr<client::WorkerPool> workers_;
  client::DeviceCounts device_counts_;
  std::unique_ptr<client::DeviceLanes> lanes_ = std::make_unique<client::DeviceLanes>();
  // Of the workers: asynchronous appends by other doors, and those that wait for the native one to open; by key.
  std::unique_ptr<client::OrderedWork> appends_in_order_;
};

struct Client::Inside {
  using Impl = Client::Impl;
  static Impl& impl(const Client& client) { return *client.impl_; }
  static const client::DeviceMemory& device(const Buffer& buffer) { return *buffer.memory_->device; }
};

}  // namespace verbena
