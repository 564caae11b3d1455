// The one interface under s3/. Engines (store/local, later others) are folders here.
//
// Semantics that every engine keeps:
//  - A commit is atomic: before it nothing of the object is visible, after it all of it is. When commit() or remove()
//    returns success, the change survives kill -9 and power loss (in `sync` buckets).
//  - A reader sees the object as it was when opened, whatever happens to the key meanwhile.
//  - Every byte that read() returns was verified against its checksum; rot is corrupt_object, never wrong bytes.
//  - Conditions are evaluated at the commit, serialized per key.
// All calls run on a core's executor and resume there.
#pragma once

#include <algorithm>
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
#include "base/task.h"
#include "memory/arena.h"
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

// Of a bucket. `off`: never enabled. Once enabled it can be suspended, never off again.
enum class Versioning : uint8_t { off = 0, enabled = 1, suspended = 2 };

// How a version is retained. governance: callers with the right to may shorten or bypass it; compliance: nobody.
enum class LockMode : uint8_t { none = 0, governance = 1, compliance = 2 };

// What forbids to remove one version.
struct ObjectLock {
  LockMode mode = LockMode::none;
  int64_t retain_until_us = 0;  // microseconds since the epoch; of no meaning without a mode
  bool legal_hold = false;
  bool operator==(const ObjectLock&) const = default;
};

// Object lock of a bucket, and what new versions get that come without a retention of their own.
struct BucketLock {
  bool enabled = false;
  LockMode mode = LockMode::none;  // none: no default retention
  bool years = false;              // the period's unit: years of 365 days, else days
  uint32_t period = 0;
  bool operator==(const BucketLock&) const = default;
};

using Tags = std::vector<std::pair<std::string, std::string>>;  // key, value; in the order they came

// What S3 keeps with a version for itself (its access control list, how it is encrypted), opaque to the engine: name,
// value; each name once.
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

// All that is known of an object besides its bytes.
struct ObjectInfo {
  // First what most answers tell: it lies side by side.
  uint64_t size = 0;  // bytes
  // Bytes that the engine keeps for it, where they are not the object's own (encrypted: the tags come on top); 0:
  // `size` bytes. Readers and writers count in these. Not told by list().
  uint64_t stored_size = 0;
  int64_t modified_us = 0;  // set by the engine at commit
  std::string etag;         // without quotes; MD5 hex for HTTP PUTs, contains a '-' otherwise
  // Set by the engine: empty in a bucket that never had versioning, "null" for what was written without it, else
  // URL-safe and not guessable.
  std::string version_id;
  Attributes attributes{};
  bool delete_marker = false;  // set by the engine; such a version has no bytes, etag, headers
  // Headers to give back as they came, lower-case names: content-type, cache-control, content-disposition,
  // content-encoding, content-language, expires, x-amz-meta-*, x-amz-storage-class.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<Checksum> checksums;
  std::vector<PartInfo> parts;  // of a multipart upload, in order; empty otherwise
  // What Store::update() may change later. A commit without a retention gets the bucket's default one.
  Tags tags;
  ObjectLock lock;
  // Of an engine whose keys others change, too (shared_keys.h): another number after each change of the key; 0: none is
  // told. Not kept with the object.
  uint64_t stamp = 0;
};

// Bytes that an object's reader has.
inline uint64_t stored_size(const ObjectInfo& info) { return info.stored_size != 0 ? info.stored_size : info.size; }

struct BucketInfo {
  std::string name;
  int64_t created_us = 0;
  std::string owner;  // access key's account; "root" until there are users
  Durability durability = Durability::sync;
  Versioning versioning = Versioning::off;
  BucketLock lock{};
};

// A small named blob kept with a bucket: one of its configurations. Never null.
using Document = std::shared_ptr<const std::string>;
struct BucketAndDocuments {
  BucketInfo bucket;
  std::vector<Document> documents;  // in the order in which they were asked for; null here: it has none of that name
};

// What a change tells to others (event.h); null: nobody wants to know.
class Announcement;
using AnnouncementPtr = std::shared_ptr<const Announcement>;

// On the key's current object, or for remove() on the version that is named. ETags without quotes; "*" matches any.
// Empty optionals mean no condition. A key without an object: if_match is no_such_key for a commit; remove() then
// succeeds. A delete marker meets only conditions on time and on a size of 0.
struct CommitConditions {
  std::optional<std::string> if_match{};
  std::optional<std::string> if_none_match{};
  std::optional<int64_t> if_modified_s{};   // the version is of this second
  std::optional<int64_t> if_modified_us{};  // and of this very microsecond
  std::optional<uint64_t> if_size{};
  std::string_view if_without{};   // appends: an attribute that the object must not have; a static string
  AnnouncementPtr announcement{};  // no condition: goes with the change that meets these

  bool any() const { return if_match || if_none_match || if_modified_s || if_modified_us || if_size; }
};

// What a rule's removal was judged by (removal_grounds.h); null: a caller asked for it.
struct RemovalGrounds;
using RemovalGroundsPtr = std::shared_ptr<const RemovalGrounds>;

struct RemoveRequest {
  std::string version_id{};  // empty: the key's current object, of which a versioned bucket keeps the versions
  CommitConditions conditions{};
  bool bypass_governance = false;  // the caller may and wants to remove what is under governance
  RemovalGroundsPtr grounds{};     // precondition_failed where they no longer hold
  // A delete marker may be added where no object is hidden by it, so that the bucket holds one row more and nothing
  // less. False: quota_exceeded in that case, whatever else is removed as always.
  bool may_add_marker = true;
};
struct Removed {
  std::string version_id;      // of the delete marker that was made, or of the version that went; as in ObjectInfo
  bool delete_marker = false;  // one was made, or what went was one
};

// What changes of a version; what is not set stays.
struct ObjectChange {
  std::optional<Tags> tags;
  std::optional<std::pair<LockMode, int64_t>> retention;  // mode and retain_until_us; none: without retention
  std::optional<bool> legal_hold;
  bool bypass_governance = false;
  Attributes attributes{};  // these are set, the others stay; an empty value takes one away
  // Only of a version that was written then and has that size; another one is a conditional_conflict.
  std::optional<int64_t> if_modified_us{};
  std::optional<uint64_t> if_size{};
  AnnouncementPtr announcement{};

  bool is_of(const ObjectInfo& info) const {
    return (!if_modified_us || *if_modified_us == info.modified_us) && (!if_size || *if_size == info.size);
  }
};

// An object gets another name in its bucket, at which whatever was there goes.
struct RenameRequest {
  std::string from, to;
  // Says no by an error. Run inside the change, perhaps more than once: it looks at nothing but its arguments. It may
  // change the source's attributes. `target`: what is there; null: nothing.
  std::function<Result<void>(ObjectInfo& source, const ObjectInfo* target)> judge{};
  // Of the client, for requests that are repeated: what was done under it within the last hour is not done again.
  std::string token{};
  std::string asked{};  // of the request, all that must be the same when it comes again
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;  // lets go of the extents
  virtual const ObjectInfo& info() const = 0;
  // Bytes [offset, offset + length): verified, in arena memory. length is at most chunk_size_max and the range lies
  // inside the object. Several reads may be in flight.
  static constexpr size_t chunk_size_max = 1 * MiB;
  virtual Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) = 0;
  // From `offset` on, what lies in memory in one piece: at least one byte and at most `length`. An empty chunk when the
  // bytes are not in memory. For small objects the way to answer without a suspension.
  virtual memory::Chunk peek(uint64_t /*offset*/, uint64_t /*length*/) const { return {}; }
  // The bytes that peek() tells, valid as long as this reader is. Empty where they may go before it does.
  virtual Bytes view(uint64_t /*offset*/, uint64_t /*length*/) const { return {}; }
  // How much of [offset, offset + length) a read gets that leases at most `memory_max` bytes (64 KiB or more) of the
  // arena: whole blocks are read, so a range that is not aligned needs more memory than it has bytes.
  virtual size_t fit(uint64_t /*offset*/, size_t length, size_t memory_max) const {
    return std::min(length, memory_max);
  }
};

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;  // without commit: gives the space back, nothing becomes visible
  // The next bytes. Takes the chunk; may return while it is still being written (a bounded number in flight);
  // a write error is the error of a later call.
  virtual Task<Result<void>> append(memory::Chunk chunk) = 0;
  // Makes the object durable and visible. stored_size(info) must equal the bytes appended; modified_us is set here.
  // Returns what was stored.
  virtual Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) = 0;
};

struct ListRequest {
  std::string prefix;
  std::string delimiter;  // empty: none
  std::string after;      // exclusive; keys and common prefixes up to and including this are skipped
  int max_keys = 1000;    // entries plus common prefixes
};
struct ListEntry {
  std::string key;
  ObjectInfo info;
};
struct ListPage {
  std::vector<ListEntry> entries;            // in byte order of the keys
  std::vector<std::string> common_prefixes;  // in byte order
  bool truncated = false;
  std::string next_after;  // pass as `after` for the next page: the last key or common prefix here
};

struct ListVersionsRequest {
  std::string prefix{}, delimiter{}, key_marker{};
  std::string version_id_marker{};  // with key_marker: behind this version of it; empty: behind all of its versions
  int max_keys = 1000;              // versions plus common prefixes
};
struct VersionEntry {
  std::string key;
  ObjectInfo info;
  bool latest = false;
};
struct VersionPage {
  std::vector<VersionEntry> versions;        // by key, then newest first; delete markers among them
  std::vector<std::string> common_prefixes;  // in byte order
  bool truncated = false;
  std::string next_key_marker, next_version_id_marker;
};

// An event on its way into a queue. Queues have names of lower-case letters, digits, '-' and '_'.
struct EventRow {
  std::string queue, record;
};
struct QueuedEvent {
  uint64_t id = 0;  // grows with the changes of a key; with those of a bucket where one server alone makes them
  std::string record;
};
// What waits in one queue of the events of one bucket, which may be gone.
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
  Tags tags;                          // for the object to be, as its lock and attributes
  ObjectLock lock;
  Attributes attributes{};
};
struct ListUploadsRequest {
  std::string prefix, delimiter, key_marker, upload_id_marker;
  int max_uploads = 1000;
};
struct UploadPage {
  std::vector<UploadInfo> uploads;  // by key, then by age
  std::vector<std::string> common_prefixes;
  bool truncated = false;
  std::string next_key_marker, next_upload_id_marker;
};
struct PartPage {
  std::vector<PartInfo> parts;
  bool truncated = false;
  int next_part_number_marker = 0;
};

// What every engine asks of a document before it takes it: invalid_argument, too_large.
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

// Sets each of `changes` in `attributes`; an empty value takes one away.
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

  virtual Task<Result<void>> create_bucket(BucketInfo bucket) = 0;     // bucket_already_exists
  virtual Task<Result<BucketInfo>> bucket(std::string_view name) = 0;  // no_such_bucket
  virtual Task<Result<void>> set_durability(std::string_view bucket, Durability durability) = 0;
  // invalid_bucket_state: off once it was on, or suspended under object lock.
  virtual Task<Result<void>> set_versioning(std::string_view bucket, Versioning versioning) = 0;
  // invalid_bucket_state: versioning is not enabled; or to disable what was enabled.
  virtual Task<Result<void>> set_lock(std::string_view bucket, BucketLock lock) = 0;
  virtual Task<Result<void>> remove_bucket(std::string_view name) = 0;  // bucket_not_empty
  virtual Task<Result<std::vector<BucketInfo>>> buckets() = 0;          // by name

  // What the bucket holds, with all that was acknowledged before the call. not_implemented: the engine keeps no such
  // numbers; service_unavailable: what an older server left is still being counted.
  virtual Task<Result<Usage>> bucket_usage(std::string_view /*bucket*/) {
    co_return fail(Errc::not_implemented, "This store keeps no numbers of what its buckets hold.");
  }
  // At once, a little too much at most (usage.h). no_such_bucket, not_implemented.
  virtual Result<UsageNow> usage_now(std::string_view /*bucket*/) {
    return fail(Errc::not_implemented, "This store keeps no numbers of what its buckets hold.");
  }
  virtual std::vector<BucketUsage> usages_now() { return {}; }  // by name; of all buckets
  virtual bool keeps_usage() const { return false; }            // else none of these tells anything

  // Events (event.h). An engine that keeps none is given no announcements.
  virtual bool keeps_events() const { return false; }
  // Announces what concerns no object. As durable as the bucket.
  virtual Task<Result<void>> announce(std::string_view /*bucket*/, AnnouncementPtr /*announcement*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  // The names of those with events in them, sorted. Of one that was emptied maybe until event_backlog() has said so.
  virtual Task<Result<std::vector<std::string>>> event_queues() {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  virtual Task<Result<std::vector<EventBacklog>>> event_backlog(std::string_view /*queue*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  // Those behind `after`, in the order of the changes that left them: at most so many, and of so many bytes unless the
  // first has more. What a power cut might take back is not among them.
  virtual Task<Result<std::vector<QueuedEvent>>> events(std::string_view /*queue*/, uint64_t /*bucket*/,
                                                        uint64_t /*after*/, size_t /*events_max*/,
                                                        size_t /*bytes_max*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }
  virtual Task<Result<void>> remove_events(std::string_view /*queue*/, uint64_t /*bucket*/,
                                           std::vector<uint64_t> /*ids*/) {
    co_return fail(Errc::not_implemented, "This store keeps no events.");
  }

  // Bucket documents: what a bucket is configured with (CORS, tags, lifecycle, ...), opaque to the engine. Setting and
  // removing is atomic and durable whatever the bucket's durability; reading a small one costs no I/O; they go with the
  // bucket.
  // Names are lower-case letters, digits, '-' and '_'. no_such_bucket; not_found: the bucket has no such document.
  virtual Task<Result<Document>> document(std::string_view bucket, std::string_view name) = 0;
  // A bucket and those of its documents, as they are at one moment (large ones may be of a later one). `names` outlives
  // the call. no_such_bucket.
  virtual Task<Result<BucketAndDocuments>> bucket_and_documents(std::string_view bucket,
                                                                std::span<const std::string_view> names) = 0;
  // invalid_argument (name, or one document too many), too_large; limit_exceeded: the owner's buckets have documents of
  // documents_bytes_max together.
  virtual Task<Result<void>> set_document(std::string_view bucket, std::string_view name, std::string bytes) = 0;
  // The same where the document is still `was` (null: there is none of that name), for a change of what was read;
  // precondition_failed where it is another by now.
  virtual Task<Result<void>> replace_document(std::string_view bucket, std::string_view name, Document was,
                                              std::string bytes) = 0;
  // Succeeds for a document that does not exist.
  virtual Task<Result<void>> remove_document(std::string_view bucket, std::string_view name) = 0;

  // `version_id` empty: the current object. no_such_key, no_such_version; method_not_allowed: that version is a delete
  // marker; invalid_version: no version id.
  virtual Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key,
                                                           std::string_view version_id = {}) = 0;
  // The current object, if the whole of it lies in memory: at once, and null otherwise.
  virtual std::shared_ptr<ObjectReader> hot(std::string_view /*bucket*/, std::string_view /*key*/) { return nullptr; }
  // As hot() of each, which for many is faster.
  struct HotLookup {
    std::string_view bucket, key;
    std::shared_ptr<ObjectReader> found{};
  };
  virtual void hot_many(std::span<HotLookup> lookups) {
    for (HotLookup& one : lookups) one.found = hot(one.bucket, one.key);
  }
  // As open() without a claim on the bytes: for HEAD.
  virtual Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key,
                                        std::string_view version_id = {}) = 0;
  // As stat(), but a delete marker is an answer, too: to tell one from a key that never was.
  virtual Task<Result<ObjectInfo>> find_version(std::string_view bucket, std::string_view key,
                                                std::string_view version_id) = 0;
  // `size_hint`: the final size if known; decides the layout, not the result.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                             std::optional<uint64_t> size_hint) = 0;
  // Up to which size an object may be put by put_whole(); 0: none may.
  virtual uint64_t whole_put_max() const { return 0; }
  // What create(), append() and commit() do of a small object without conditions, and no coroutine. True: `put.then` is
  // told of it. False: it may have to wait for something. Nothing was stored then; the bytes are still there, but none
  // of the rest is of use any more: the caller begins anew with create().
  virtual bool put_whole(WholePut& /*put*/) { return false; }
  // A writer whose commit adds its bytes to the object's end (logic/append.h). What readers have open stays as it was.
  // It takes plain bytes: `seal` says how they are encrypted (append_seal.h), null that they are not.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create_append(std::string_view bucket, std::string_view key,
                                                                    std::optional<uint64_t> size_hint,
                                                                    AppendSealPtr seal = {}) = 0;
  // Atomic, and no byte is copied: neither name is ever missing or there twice. Returns the object; of a request that
  // was done before, nothing is told but that. no_such_key, invalid_bucket_state, idempotency_mismatch.
  virtual Task<Result<ObjectInfo>> rename(std::string_view bucket, RenameRequest request) = 0;
  // Succeeds for a key or version that does not exist (S3). access_denied: the version is locked.
  virtual Task<Result<Removed>> remove(std::string_view bucket, std::string_view key, RemoveRequest request) = 0;
  // Changes what may change of a version without touching its bytes; returns it as it is then. Errors as stat(), and
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
  // Attributes: the upload's, over which go those of `info`.
  virtual Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key,
                                                   std::string_view upload_id, std::vector<PartInfo> parts,
                                                   ObjectInfo info, CommitConditions conditions) = 0;
  virtual Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                          RemovalGroundsPtr grounds = {}) = 0;
};

}  // namespace verbena::store
