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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/task.h"
#include "memory/arena.h"

namespace verbena::store {

inline constexpr size_t key_size_max = 1024;  // bytes of UTF-8 (S3)
inline constexpr uint64_t object_size_max = 5 * TiB;
inline constexpr uint64_t part_size_max = 5 * GiB;
inline constexpr int part_number_max = 10'000;
inline constexpr size_t document_size_max = 512 * KiB;  // bytes of one bucket document
inline constexpr size_t document_name_max = 64;         // bytes of its name
inline constexpr size_t documents_max = 64;             // of one bucket

enum class Durability : uint8_t { sync = 0, memory = 1 };

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
};

// All that is known of an object besides its bytes.
struct ObjectInfo {
  uint64_t size = 0;        // bytes
  std::string etag;         // without quotes; MD5 hex for HTTP PUTs, contains a '-' otherwise
  int64_t modified_us = 0;  // set by the engine at commit
  std::string version_id;   // empty until versioning exists
  // Headers to give back as they came, lower-case names: content-type, cache-control, content-disposition,
  // content-encoding, content-language, expires, x-amz-meta-*, x-amz-storage-class.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<Checksum> checksums;
  std::vector<PartInfo> parts;  // of a multipart upload, in order; empty otherwise
};

struct BucketInfo {
  std::string name;
  int64_t created_us = 0;
  std::string owner;  // access key's account; "root" until there are users
  Durability durability = Durability::sync;
};

// A small named blob kept with a bucket: one of its configurations. Never null.
using Document = std::shared_ptr<const std::string>;

// ETags without quotes; "*" matches any. Empty optionals mean no condition.
struct CommitConditions {
  std::optional<std::string> if_match;
  std::optional<std::string> if_none_match;
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
  // Makes the object durable and visible. `info.size` must equal the bytes appended; modified_us is set here.
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

struct UploadInfo {
  std::string bucket, key, upload_id;
  int64_t created_us = 0;
  std::string owner;
  std::vector<std::pair<std::string, std::string>> headers;  // for the object to be
  std::optional<Algorithm> checksum_algorithm;
  bool checksum_full_object = false;  // x-amz-checksum-type: FULL_OBJECT
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

class Store {
 public:
  virtual ~Store() = default;

  virtual Task<Result<void>> create_bucket(BucketInfo bucket) = 0;     // bucket_already_exists
  virtual Task<Result<BucketInfo>> bucket(std::string_view name) = 0;  // no_such_bucket
  virtual Task<Result<void>> set_durability(std::string_view bucket, Durability durability) = 0;
  virtual Task<Result<void>> remove_bucket(std::string_view name) = 0;  // bucket_not_empty
  virtual Task<Result<std::vector<BucketInfo>>> buckets() = 0;          // by name

  // Bucket documents: what a bucket is configured with (CORS, tags, lifecycle, ...), opaque to the engine. Setting and
  // removing is atomic and durable whatever the bucket's durability; reading costs no I/O; they go with the bucket.
  // Names are lower-case letters, digits, '-' and '_'. no_such_bucket; not_found: the bucket has no such document.
  virtual Task<Result<Document>> document(std::string_view bucket, std::string_view name) = 0;
  // invalid_argument (name, or one document too many), too_large.
  virtual Task<Result<void>> set_document(std::string_view bucket, std::string_view name, std::string bytes) = 0;
  // Succeeds for a document that does not exist.
  virtual Task<Result<void>> remove_document(std::string_view bucket, std::string_view name) = 0;

  virtual Task<Result<std::shared_ptr<ObjectReader>>> open(std::string_view bucket, std::string_view key) = 0;
  // The same, if the whole object lies in memory: at once, and null otherwise.
  virtual std::shared_ptr<ObjectReader> hot(std::string_view /*bucket*/, std::string_view /*key*/) { return nullptr; }
  // As open() without a claim on the bytes: for HEAD.
  virtual Task<Result<ObjectInfo>> stat(std::string_view bucket, std::string_view key) = 0;
  // `size_hint`: the final size if known; decides the layout, not the result.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create(std::string_view bucket, std::string_view key,
                                                             std::optional<uint64_t> size_hint) = 0;
  // Succeeds for a key that does not exist (S3).
  virtual Task<Result<void>> remove(std::string_view bucket, std::string_view key, CommitConditions conditions) = 0;
  virtual Task<Result<ListPage>> list(std::string_view bucket, ListRequest request) = 0;

  // Multipart. The engine makes the upload id (URL-safe, not guessable) and sets created_us.
  virtual Task<Result<UploadInfo>> create_upload(UploadInfo upload) = 0;
  virtual Task<Result<UploadInfo>> upload(std::string_view bucket, std::string_view key,
                                          std::string_view upload_id) = 0;
  // commit() of a part's writer stores info.size, info.etag and info.checksums as that part, replacing an earlier one.
  virtual Task<Result<std::unique_ptr<ObjectWriter>>> create_part(std::string_view bucket, std::string_view key,
                                                                  std::string_view upload_id, int part_number,
                                                                  std::optional<uint64_t> size_hint) = 0;
  virtual Task<Result<PartPage>> list_parts(std::string_view bucket, std::string_view key, std::string_view upload_id,
                                            int after_part, int max_parts) = 0;
  virtual Task<Result<UploadPage>> list_uploads(std::string_view bucket, ListUploadsRequest request) = 0;
  // Makes the object from these parts (numbers ascending; each etag must be the stored one: else invalid_part) without
  // copying bytes. `info` has etag, headers and checksums ready; size, parts and modified_us are set here.
  virtual Task<Result<ObjectInfo>> complete_upload(std::string_view bucket, std::string_view key,
                                                   std::string_view upload_id, std::vector<PartInfo> parts,
                                                   ObjectInfo info, CommitConditions conditions) = 0;
  virtual Task<Result<void>> abort_upload(std::string_view bucket, std::string_view key,
                                          std::string_view upload_id) = 0;
};

}  // namespace verbena::store
