// The one interface under s3/. Engines are folders here (store/local, store/memory, store/rados).
//
// Guarantees of every engine:
//  - A commit is atomic: before it nothing of the object is visible, after it all of it is. When commit() or remove()
//    returns success, the change survives kill -9 and power loss (in `sync` buckets).
//  - A reader sees the object as it was when opened, whatever happens to the key meanwhile.
//  - Every byte that read() returns was verified against its checksum; rot is corrupt_object, never wrong bytes.
//  - Conditions are evaluated at the commit, serialized per key.
// All calls run on a core's executor and resume there.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/task.h"
#include "cache/key_run.h"
#include "memory/arena.h"
#include "store/list_sink.h"
#include "store/usage.h"

namespace verbena::store {

inline constexpr size_t key_size_max = 1024;  // bytes of UTF-8 (S3)
inline constexpr uint64_t object_size_max = 5 * TiB;
inline constexpr uint64_t part_size_max = 5 * GiB;
inline constexpr int part_number_max = 10'000;
inline constexpr size_t document_size_max = 512 * KiB;     // bytes of one bucket document
inline constexpr size_t document_name_max = 64;            // bytes of its name
inline constexpr size_t documents_max = 64;                // of one bucket
inline constexpr uint64_t documents_bytes_max = 16 * MiB;  // of all buckets of one owner

enum class Durability : uint8_t { sync = 0, memory = 1 };

// Of a bucket. `off`: never enabled. Once enabled it can be suspended, but not turned off again.
enum class Versioning : uint8_t { off = 0, enabled = 1, suspended = 2 };

// The retention mode of a version. governance: callers with the right may shorten or bypass it; compliance: no caller
// may.
enum class LockMode : uint8_t { none = 0, governance = 1, compliance = 2 };

// Locks that forbid removing one version.
struct ObjectLock {
  LockMode mode = LockMode::none;
  int64_t retain_until_us = 0;  // microseconds since the epoch; meaningless without a mode
  bool legal_hold = false;
  bool operator==(const ObjectLock&) const = default;
};

// Object lock of a bucket, and the default for new versions without a retention of their own.
struct BucketLock {
  bool enabled = false;
  LockMode mode = LockMode::none;  // none: no default retention
  bool years = false;              // the period's unit: years of 365 days, else days
  uint32_t period = 0;
  bool operator==(const BucketLock&) const = default;
};

using Tags = std::vector<std::pair<std::string, std::string>>;  // key, value; in the order they came

// Properties that S3 stores with a version for itself (its access control list, its encryption), opaque to the engine:
// name, value; each name once.
using Attributes = std::vector<std::pair<std::string, std::string>>;

struct Checksum {
  Algorithm algorithm = Algorithm::crc32;
  std::string value;   // raw digest bytes
  uint16_t parts = 0;  // 0: full object; n: composite over n parts (S3's "value-n")
  bool operator==(const Checksum&) const = default;
};

struct PartInfo {
  int number = 0;
  uint64_t size = 0;
  std::string etag;         // without quotes
  int64_t modified_us = 0;  // microseconds since the epoch
  std::vector<Checksum> checksums;
  Attributes attributes{};
  uint64_t stored_size = 0;  // as ObjectInfo's
};

// An object's metadata.
struct ObjectInfo {
  // The fields that most answers need come first, adjacent in memory.
  uint64_t size = 0;  // bytes
  // The bytes that the engine stores, if they differ from the object's (encrypted: plus the tags); 0: `size` bytes.
  // Readers and writers count in these. Not set by list().
  uint64_t stored_size = 0;
  int64_t modified_us = 0;  // set by the engine at commit
  std::string etag;         // without quotes; MD5 hex for HTTP PUTs, contains a '-' otherwise
  // Set by the engine: empty in a bucket that never had versioning, "null" for a version written without it, else
  // URL-safe and not guessable.
  std::string version_id;
  Attributes attributes{};
  bool delete_marker = false;  // set by the engine; such a version has no bytes, etag, headers
  // Headers to return unchanged, lower-case names: content-type, cache-control, content-disposition, content-encoding,
  // content-language, expires, x-amz-meta-*, x-amz-storage-class.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<Checksum> checksums;
  std::vector<PartInfo> parts;  // of a multipart upload, in order; empty otherwise
  // Properties that Store::update() may change later. A commit without a retention gets the bucket's default one.
  Tags tags;
  ObjectLock lock;
  // For engines whose keys other processes change, too (shared_keys.h): another number after each change of the key; 0:
  // not supported. Not stored with the object.
  uint64_t stamp = 0;
};

// Without attributes, and stored as it is.
inline bool is_plain(const ObjectInfo& info) { return info.attributes.empty() && info.stored_size == 0; }

// The bytes that an object's reader returns.
inline uint64_t stored_size(const ObjectInfo& info) { return info.stored_size != 0 ? info.stored_size : info.size; }

inline constexpr uint64_t buckets_unlimited = UINT64_MAX;

struct BucketInfo {
  std::string name;
  int64_t created_us = 0;
  std::string owner;  // the owner's account; "root": the root account
  Durability durability = Durability::sync;
  Versioning versioning = Versioning::off;
  BucketLock lock{};
};

// Tells a bucket from another one of its name, made before or later.
struct BucketMade {
  int64_t created_us = 0;
  std::string owner;
};

// A bucket by its name. `made`: that one alone, for changes that were authorized before a wait; they get no_such_bucket
// once another one has the name.
struct NamedBucket {
  template <class Name>
    requires std::convertible_to<const Name&, std::string_view>
  NamedBucket(const Name& bucket) : name(bucket) {}
  NamedBucket(std::string_view bucket, std::optional<BucketMade> which) : name(bucket), made(std::move(which)) {}

  std::string_view name;
  std::optional<BucketMade> made{};
};

// A page of an owner's buckets: those after `after` whose names begin with `prefix`.
struct OwnersBuckets {
  std::string owner;
  std::string prefix{}, after{};
  size_t max = SIZE_MAX;
};

// A small named blob kept with a bucket: one of its configurations. Never null.
using Document = std::shared_ptr<const std::string>;
struct BucketAndDocuments {
  BucketInfo bucket;
  std::vector<Document> documents;  // in the order of the request; null: no document of that name
};

// Events that a change leaves for subscribers (event.h); null: none.
class Announcement;
using AnnouncementPtr = std::shared_ptr<const Announcement>;

// Whether the sender of a change still waits for it. One that has given up may have made it another way since,
// and others upon that: a change that came late would replace theirs.
struct Wanted {
  Deadline until = Deadline::max();
  std::shared_ptr<const std::atomic<bool>> withdrawn{};  // set once, by any thread; null: it is not withdrawn

  // slow_down: not any more. Asked where the change is made, so nothing was done then.
  Result<void> check() const {
    const bool given_up = withdrawn != nullptr && withdrawn->load(std::memory_order_acquire);
    if (given_up || (until != Deadline::max() && SteadyClock::now() >= until)) {
      return fail(Errc::slow_down, "Its sender has given up waiting for the change.");
    }
    return {};
  }
};

// Conditions on the key's current object, or for remove() on the named version. ETags without quotes; "*" matches any.
// Empty optionals mean no condition. For a key without an object if_match is no_such_key at a commit, and remove()
// succeeds. A delete marker meets only conditions on time and on a size of 0.
struct CommitConditions {
  std::optional<std::string> if_match{};
  std::optional<std::string> if_none_match{};
  std::optional<int64_t> if_modified_s{};   // the version is of this second
  std::optional<int64_t> if_modified_us{};  // and of this exact microsecond
  std::optional<uint64_t> if_size{};
  std::string_view if_without{};   // appends: an attribute that the object must not have; a static string
  bool may_make_object = true;     // appends: false: quota_exceeded if there is no object to append to
  AnnouncementPtr announcement{};  // not a condition: committed with the change
  Wanted wanted{};

  bool any() const { return if_match || if_none_match || if_modified_s || if_modified_us || if_size; }
};

// The facts that a rule's removal was decided by (removal_grounds.h); null: a client requested it.
struct RemovalGrounds;
using RemovalGroundsPtr = std::shared_ptr<const RemovalGrounds>;

struct RemoveRequest {
  std::string version_id{};  // empty: the key's current object, which a versioned bucket keeps as a version
  CommitConditions conditions{};
  bool bypass_governance = false;  // the caller has the right to bypass governance and asks for it
  RemovalGroundsPtr grounds{};     // precondition_failed if they no longer hold
  // Whether a delete marker may be added that hides no object, so that the bucket holds one row more. False:
  // quota_exceeded in that case; other removals are not affected.
  bool may_add_marker = true;
  // When the bucket was made that the removal was authorized for: no_such_bucket once another one has its name; 0: any.
  int64_t bucket_created_us = 0;
};
// An object that a bounded bucket evicts: the current one of the key, as it was chosen.
struct Eviction {
  std::string key{};
  int64_t modified_us = 0;
  AnnouncementPtr announcement{};
};
struct Removed {
  std::string version_id;      // of the delete marker that was made, or of the removed version; as in ObjectInfo
  bool delete_marker = false;  // a delete marker was made or removed
};

// Changes of a version; unset fields stay.
struct ObjectChange {
  std::optional<Tags> tags;
  std::optional<std::pair<LockMode, int64_t>> retention;  // mode and retain_until_us; none: without retention
  std::optional<bool> legal_hold;
  bool bypass_governance = false;
  Attributes attributes{};  // sets these, keeps the others; an empty value removes one
  // Applies only to a version with that time and that size; another one is a conditional_conflict.
  std::optional<int64_t> if_modified_us{};
  std::optional<uint64_t> if_size{};
  AnnouncementPtr announcement{};

  bool is_of(const ObjectInfo& info) const {
    return (!if_modified_us || *if_modified_us == info.modified_us) && (!if_size || *if_size == info.size);
  }
};

// A new name for an object in its bucket. An object that has that name is replaced.
struct RenameRequest {
  std::string from, to;
  // Refuses by an error. Runs inside the change, perhaps more than once, and depends only on its arguments. It may
  // change the source's attributes. `target`: the object at the new name; null: none.
  std::function<Result<void>(ObjectInfo& source, const ObjectInfo* target)> judge{};
  // The client's token for repeated requests: a rename with a token of the last hour is not made again.
  std::string token{};
  std::string asked{};  // everything that must be the same when the request is repeated
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;  // releases the bytes
  virtual const ObjectInfo& info() const = 0;
  // Bytes [offset, offset + length): verified, in arena memory. length is at most chunk_size_max and the range lies
  // inside the object. Several reads may be in flight.
  static constexpr size_t chunk_size_max = 1 * MiB;
  virtual Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) = 0;
  // Bytes from `offset` on that are contiguous in memory: at least one byte and at most `length`. An empty chunk when
  // they are not in memory. Answers small objects without a suspension.
  virtual memory::Chunk peek(uint64_t /*offset*/, uint64_t /*length*/) const { return {}; }
  // The bytes of peek(), valid as long as this reader is. Empty where they may be freed before.
  virtual Bytes view(uint64_t /*offset*/, uint64_t /*length*/) const { return {}; }
  // How many bytes of [offset, offset + length) a read returns if it may lease at most `memory_max` bytes (64 KiB or
  // more) of the arena: whole blocks are read, so an unaligned range needs more memory than it has bytes.
  virtual size_t fit(uint64_t /*offset*/, size_t length, size_t memory_max) const {
    return std::min(length, memory_max);
  }
};

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;  // without commit: frees the space, nothing becomes visible
  // Appends the next bytes. Takes the chunk; may return while it is still being written (a bounded number in flight);
  // a write error is reported by a later call.
  virtual Task<Result<void>> append(memory::Chunk chunk) = 0;
  // The CRC32C of all bytes appended so far, if the store computes it anyway; nullopt before the first append: it does
  // not, and will not.
  virtual std::optional<uint32_t> crc32c() const { return std::nullopt; }
  // Makes the object durable and visible. stored_size(info) must equal the bytes appended; modified_us is set here.
  // Returns what was stored.
  virtual Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) = 0;
};

struct ListRequest {
  std::string prefix;
  std::string delimiter;                // empty: none
  std::string after;                    // exclusive; keys and common prefixes up to and including this are skipped
  int max_keys = 1000;                  // entries plus common prefixes
  std::shared_ptr<ListSink> sink = {};  // gets objects and common prefixes, which the page then does not have
  // Goes on over rows that are damaged (logic/damage.h), for passes over a bucket; else the first one fails the page.
  // Not with a sink.
  bool passes_damage = false;
};
struct ListEntry {
  std::string key;
  ObjectInfo info;
};
struct ListPage {
  std::vector<ListEntry> entries;            // in byte order of the keys
  std::vector<std::string> common_prefixes;  // in byte order
  std::vector<std::string> damaged;          // keys that were passed over, likewise; each takes a place of max_keys
  bool truncated = false;
  // Pass as `after` for the next page: the last key or common prefix here. Empty where a sink has them.
  std::string next_after;
};

struct ListVersionsRequest {
  std::string prefix{}, delimiter{}, key_marker{};
  std::string version_id_marker{};  // with key_marker: after this version of it; empty: after all of its versions
  int max_keys = 1000;              // versions plus common prefixes
  bool passes_damage = false;       // as ListRequest's: over all older versions of such a row's key, too
};
struct VersionEntry {
  std::string key;
  ObjectInfo info;
  bool latest = false;
};
struct VersionPage {
  std::vector<VersionEntry> versions;        // by key, then newest first; delete markers among them
  std::vector<std::string> common_prefixes;  // in byte order
  std::vector<std::string> damaged;          // as a ListPage's. Newer versions of such a key may be among the versions
  bool truncated = false;
  std::string next_key_marker, next_version_id_marker;
};

// An event to be queued. Queues have names of lower-case letters, digits, '-' and '_'.
class EventRoom;
struct EventRow {
  std::string queue, record;
  std::shared_ptr<EventRoom> room{};  // null: the queue has no bound
};
struct QueuedEvent {
  uint64_t id = 0;  // grows with the changes of a key; with those of a bucket if one server alone makes them
  std::string record;
};
// The waiting events of one bucket in one queue; the bucket may be gone.
struct EventBacklog {
  uint64_t bucket = 0, events = 0, bytes = 0;
};

struct UploadInfo {
  std::string bucket, key, upload_id;
  int64_t created_us = 0;
  std::string owner;
  std::vector<std::pair<std::string, std::string>> headers;  // for the object to be
  std::optional<Algorithm> checksum_algorithm;
  bool checksum_full_object = false;  // x-amz-checksum-type: FULL_OBJECT
  Tags tags;                          // for the final object, like its lock and attributes
  ObjectLock lock;
  Attributes attributes{};
};
struct ListUploadsRequest {
  std::string prefix, delimiter, key_marker, upload_id_marker;
  int max_uploads = 1000;
  bool passes_damage = false;  // as ListRequest's
};
struct UploadPage {
  std::vector<UploadInfo> uploads;  // by key, then by age
  std::vector<std::string> common_prefixes;
  std::vector<std::string> damaged;  // keys of uploads that were passed over
  bool truncated = false;
  std::string next_key_marker, next_upload_id_marker;
};
struct PartPage {
  std::vector<PartInfo> parts;
  bool truncated = false;
  int next_part_number_marker = 0;
};

// Limits of documents in every engine: invalid_argument, too_large.
inline Result<void> check_document(std::string_view name, std::string_view bytes) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_";
  if (name.empty() || name.size() > document_name_max || name.find_first_not_of(allowed) != std::string_view::npos) {
    return fail(Errc::invalid_argument, "document: name");
  }
  if (bytes.size() > document_size_max) return fail(Errc::too_large, "document");
  return {};
}

// The value of an attribute; nullptr when there is none of that name.
inline const std::string* find_attribute(const Attributes& attributes, std::string_view name) {
  const auto it = std::ranges::find(attributes, name, &Attributes::value_type::first);
  return it == attributes.end() ? nullptr : &it->second;
}

// Sets each of `changes` in `attributes`; an empty value removes one.
inline void change_attributes(Attributes& attributes, const Attributes& changes) {
  for (const auto& change : changes) {
    std::erase_if(attributes, [&](const auto& attribute) { return attribute.first == change.first; });
    if (!change.second.empty()) attributes.push_back(change);
  }
}

struct WholePut;  // whole_put.h

class AppendSeal;
using AppendSealPtr = std::shared_ptr<const AppendSeal>;

class Store {
 public:
  virtual ~Store() = default;

  // bucket_already_exists; too_many_buckets: the owner has `owners_max` already. Where several servers share the store,
  // owners may get a few more, by creations through different servers at the same moment.
  virtual Task<Result<void>> create_bucket(BucketInfo bucket, uint64_t owners_max = buckets_unlimited) = 0;
  virtual Task<Result<BucketInfo>> bucket(std::string_view name) = 0;  // no_such_bucket
  virtual Task<Result<void>> set_durability(NamedBucket bucket, Durability durability) = 0;
  // invalid_bucket_state: `off` after it was enabled, or suspended under object lock.
  virtual Task<Result<void>> set_versioning(NamedBucket bucket, Versioning versioning) = 0;
  // invalid_bucket_state: versioning is not enabled; or the lock would be disabled.
  virtual Task<Result<void>> set_lock(NamedBucket bucket, BucketLock lock) = 0;
  // bucket_not_empty.
  virtual Task<Result<void>> remove_bucket(NamedBucket bucket) = 0;
  virtual Task<Result<std::vector<BucketInfo>>> buckets() = 0;                        // by name
  virtual Task<Result<std::vector<BucketInfo>>> buckets_of(OwnersBuckets which) = 0;  // likewise; costs its page

  // The bucket's contents in numbers, including everything acknowledged before the call. not_implemented: the engine
  // keeps no such numbers; service_unavailable: data of an older server is still being counted.
  virtual Task<Result<Usage>> bucket_usage(std::string_view /*bucket*/) {
    co_return fail(Errc::not_implemented, "This store does not count what its buckets hold.");
  }
  // Without waiting; may be slightly too high (usage.h). no_such_bucket, not_implemented.
  virtual Result<UsageNow> usage_now(std::string_view /*bucket*/) {
    return fail(Errc::not_implemented, "This store does not count what its buckets hold.");
  }
  virtual std::vector<BucketUsage> usages_now() { return {}; }  // by name; of all buckets
  virtual bool keeps_usage() const { return false; }            // false: the functions above return nothing

  // Events (event.h). An engine that keeps none must not be given announcements.
  virtual bool keeps_events() const { return false; }
  // Announces an event that concerns no object. As durable as the bucket.
  virtual Task<Result<void>> announce(std::string_view /*bucket*/, AnnouncementPtr /*announcement*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  // The names of queues with events, sorted. An emptied one may stay listed until event_backlog() has found it empty.
  virtual Task<Result<std::vector<std::string>>> event_queues() {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  virtual Task<Result<std::vector<EventBacklog>>> event_backlog(std::string_view /*queue*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  // Events after `after`, in the order of their changes: at most `events_max`, and `bytes_max` unless the first has
  // more. Events that a power cut could undo are not among them.
  virtual Task<Result<std::vector<QueuedEvent>>> events(std::string_view /*queue*/, uint64_t /*bucket*/,
                                                        uint64_t /*after*/, size_t /*events_max*/,
                                                        size_t /*bytes_max*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  virtual Task<Result<void>> remove_events(std::string_view /*queue*/, uint64_t /*bucket*/,
                                           std::vector<uint64_t> /*ids*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }

  // Bucket documents: a bucket's configurations (CORS, tags, lifecycle, ...), opaque to the engine. Setting and
  // removing is atomic and durable whatever the bucket's durability; reading a small one costs no I/O; they are removed
  // with the bucket.
  // Names are lower-case letters, digits, '-' and '_'. no_such_bucket; not_found: the bucket has no such document.
  virtual Task<Result<Document>> document(std::string_view bucket, std::string_view name) = 0;
  // A bucket and the named documents, as of one moment (large ones may be of a later one). `names` outlives the call.
  // no_such_bucket.
  virtual Task<Result<BucketAndDocuments>> bucket_and_documents(std::string_view bucket,
                                                                std::span<const std::string_view> names) = 0;
  // invalid_argument (name, or one document too many), too_large; limit_exceeded: the documents of the owner's buckets
  // exceed documents_bytes_max together.
  virtual Task<Result<void>> set_document(NamedBucket bucket, std::string_view name, std::string bytes) = 0;
  // set_document() if the document is still `was` (null: none of that name), for a read-modify-write; if `bytes` is
  // empty, remove_document(). precondition_failed if it has changed.
  virtual Task<Result<void>> replace_document(NamedBucket bucket, std::string_view name, Document was,
                                              std::string bytes) = 0;
  // Succeeds for a document that does not exist.
  virtual Task<Result<void>> remove_document(NamedBucket bucket, std::string_view name) = 0;

  // `version_id` empty: the current object. no_such_key, no_such_version; method_not_allowed: that version is a delete
  // marker; invalid_version: no version id.
  virtual Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                           std::string_view version_id = {}) = 0;
  // The current object, if all of it is in memory: without waiting, and null otherwise.
  virtual std::shared_ptr<ObjectReader> hot(std::string_view /*bucket*/, std::string_view /*key*/) { return nullptr; }
  // hot() for many keys, which is faster than one by one.
  struct HotLookup {
    std::string_view bucket, key;
    std::shared_ptr<ObjectReader> found{};
  };
  virtual void hot_many(std::span<HotLookup> lookups) {
    for (HotLookup& one : lookups) one.found = hot(one.bucket, one.key);
  }
  // The size of each plain object (is_plain()) that hot() would find, without holding any; not_hot for the others.
  static constexpr uint64_t not_hot = ~uint64_t{0};
  virtual void hot_sizes(const cache::KeyRun& keys, std::span<uint64_t> sizes) {
    for (size_t i = 0; i < keys.count; ++i) {
      const auto found = hot(keys.bucket, keys.at(i));
      sizes[i] = found != nullptr && is_plain(found->info()) ? found->info().size : not_hot;
    }
  }
  // As open() without holding the bytes: for HEAD.
  virtual Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key,
                                        std::string_view version_id = {}) = 0;
  // As stat(), but delete markers are returned, too: to distinguish one from a key that never existed.
  virtual Task<Result<ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                                std::string_view version_id) = 0;
  // `size_hint`: the final size if known; decides the layout, not the result.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                             std::optional<uint64_t> size_hint) = 0;
  // The largest object that put_whole() accepts; 0: none.
  virtual uint64_t whole_put_max() const { return 0; }
  // create(), append() and commit() of a small object without conditions, without a coroutine. True: `put.then` is
  // called. False: it may have to wait. Nothing was stored then; `put` still has the bytes, but its other fields are
  // unusable: the caller starts over with create().
  virtual bool put_whole(WholePut& /*put*/) { return false; }
  // A writer whose commit appends its bytes to the object (logic/append.h). Open readers keep seeing the object as it
  // was. It takes plain bytes: `seal` encrypts them (append_seal.h), null: they are stored plain.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create_append(std::string_view bucket, std::string_view key,
                                                                    std::optional<uint64_t> size_hint,
                                                                    AppendSealPtr seal = {}) = 0;
  // Atomic, without copying bytes: the object is never missing nor visible under both names. Returns the object; of a
  // repeated request only that it was made. no_such_key, invalid_bucket_state, idempotency_mismatch.
  virtual Task<Result<ObjectInfo>> rename(std::string_view bucket, RenameRequest request) = 0;
  // Succeeds for a key or version that does not exist (S3). access_denied: the version is locked.
  virtual Task<Result<Removed>> remove(std::string_view bucket, std::string_view key, RemoveRequest request) = 0;
  // Removes objects that a bounded bucket evicts, by grounds that all share (removal_grounds.h): in one commit, where
  // the engine's rows lie in one place. Each has its own outcome. precondition_failed: it was written again, a lease
  // pins it, or the grounds hold no longer; no_such_key: it had gone.
  virtual Task<std::vector<Result<void>>> evict(std::string_view bucket, RemovalGroundsPtr grounds,
                                                std::vector<Eviction> objects) = 0;
  // Changes a version's mutable properties without touching its bytes; returns the new state. Errors as stat(), and
  // access_denied: the retention forbids it; invalid_request: a lock in a bucket without object lock.
  virtual Task<Result<ObjectInfo>> update(std::string_view bucket, std::string_view key, std::string_view version_id,
                                          ObjectChange change) = 0;
  virtual Task<Result<ListPage>> list(std::string_view bucket, ListRequest request) = 0;
  virtual Task<Result<VersionPage>> list_versions(std::string_view bucket, ListVersionsRequest request) = 0;

  // Multipart. The engine makes the upload id (URL-safe, not guessable) and sets created_us.
  virtual Task<Result<UploadInfo>> create_upload(UploadInfo upload) = 0;
  virtual Task<Result<UploadInfo>> upload(std::string_view bucket, std::string_view key,
                                          std::string_view upload_id) = 0;
  // commit() of a part's writer stores info.size, etag, checksums and attributes as that part, replacing an earlier
  // one.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                                  std::string_view upload_id, int part_number,
                                                                  std::optional<uint64_t> size_hint) = 0;
  virtual Task<Result<PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                            int after_part, int max_parts) = 0;
  virtual Task<Result<UploadPage>> list_uploads(std::string_view bucket, ListUploadsRequest request) = 0;
  // Makes the object from these parts (numbers ascending; each etag must be the stored one: else invalid_part) without
  // copying bytes. `info` has etag, headers and checksums ready; size, parts, modified_us, tags and lock are set here.
  // Attributes: the upload's, overridden by those of `info`.
  virtual Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key,
                                                   std::string_view upload_id, std::vector<PartInfo> parts,
                                                   ObjectInfo info, CommitConditions conditions) = 0;
  virtual Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                          RemovalGroundsPtr grounds = {}) = 0;
};

}  // namespace verbena::store
