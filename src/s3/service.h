// S3 verbs as typed functions: one handler per verb, used by every door. The HTTP router (router.h) and the native door
// translate to and from these.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/keyring.h"
#include "auth/principal.h"
#include "base/clock.h"
#include "base/secret.h"
#include "memory/stream.h"
#include "s3/grant.h"
#include "s3/types.h"
#include "store/store.h"

namespace verbena::s3 {

std::shared_ptr<AccessGeneration> make_access_generation();
class RequestLog;
class EventQueues;
class BucketBounds;
class BucketLimits;
class ByteCharge;
std::shared_ptr<BucketLimits> make_bucket_limits();

// A customer's key (SSE-C): lives as long as its request.
struct CustomerKey {
  Secret key;       // 32 bytes
  std::string md5;  // of the key, in base64, as sent
};
using CustomerKeyPtr = std::shared_ptr<const CustomerKey>;

enum class Encryption : uint8_t { none, aes256, kms, customer };  // SSE-S3, SSE-KMS, SSE-C

// The encryption that a write requests. none: the bucket's default.
struct EncryptionWish {
  Encryption method = Encryption::none;
  std::string kms_key_id{};  // empty: the default one
  bool bucket_key = false;   // S3 Bucket Keys: returned, without effect
  CustomerKeyPtr customer{};
};

struct EncryptionOptions {
  const auth::KeyRing* keys = nullptr;  // nullptr: nothing can be encrypted
  bool by_default = false;              // SSE-S3 if neither request nor bucket names an encryption
  bool customer_keys_need_tls = false;
  std::vector<std::string> kms_keys{};  // the valid ids; empty: any plain name is valid
  std::string kms_default_key{};        // for requests that name none; empty: those are refused
};

struct ExpressOptions {
  bool enabled = true;
  std::string zone = "local1-az1";
};

// Dependencies of the verbs. One per process; all members must outlive it.
struct Service {
  store::Store& store;
  memory::Arena& arena;
  const WallClock& clock;
  std::string region = "us-east-1";
  const auth::Verifier* verifier = nullptr;          // of the signatures in browser forms; nullptr: those are refused
  int64_t lifecycle_day_s = 86'400;                  // seconds that a day has for lifecycle rules
  const auth::AccountDirectory* accounts = nullptr;  // nullptr: only the root account exists
  std::shared_ptr<AccessGeneration> access = make_access_generation();  // of cached access records
  RequestLog* request_log = nullptr;  // for buckets with logging; nullptr: logging is unavailable
  EventQueues* events = nullptr;      // for buckets with notifications; nullptr: they are unavailable
  EncryptionOptions encryption{};
  // For looking a key up again after a body has arrived; nullptr: keys never change.
  const auth::CredentialStore* credentials = nullptr;
  ExpressOptions express{};
  std::shared_ptr<BucketLimits> limits = make_bucket_limits();
  BucketBounds* bounds = nullptr;                   // nullptr: no bucket is bounded
  uint64_t buckets_max = store::buckets_unlimited;  // of one account
  // Whether this server has found a bucket with logging, for good: until then no request asks for its bucket's.
  std::shared_ptr<std::atomic<bool>> buckets_log = std::make_shared<std::atomic<bool>>(false);
};

// RFC 9110 preconditions and S3's copies of them. Times are seconds since the epoch; ETags without quotes, "*" allowed.
struct Preconditions {
  std::vector<std::string> if_match;
  std::vector<std::string> if_none_match;
  std::optional<int64_t> if_modified_since_s;
  std::optional<int64_t> if_unmodified_since_s;
  std::optional<std::string> if_range;  // an entity tag as sent, or a date: if it does not match, the range is ignored
  void clear();
};

// A requested byte range: first-last, first- (last unset), or -suffix (only suffix set).
struct ByteRange {
  std::optional<uint64_t> first, last, suffix;
};

// clear() resets a recycled request and keeps the memory of its strings and lists: no field of one client's request may
// be left for the next (requests.cc).
struct GetRequest {
  std::string bucket, key;
  std::string version_id{};  // empty: the current object
  std::optional<ByteRange> range;
  std::optional<int> part_number;
  Preconditions preconditions;
  CustomerKeyPtr customer_key{};  // for an object that was stored with one
  void clear();
};

// An object that may be read: authorized, conditions met, range resolved. objects/read.h opens, objects/send.h sends.
struct OpenObject {
  std::shared_ptr<store::ObjectReader> reader;
  uint64_t offset = 0;    // first byte to send
  uint64_t length = 0;    // bytes to send
  bool partial = false;   // 206
  std::string peer = {};  // the client's address, which memory is charged to
  // The charge to rates for sent bytes; null: none. Shared by copies, which are parts of one request.
  std::shared_ptr<ByteCharge> charge{};
  const store::ObjectInfo& info() const { return reader->info(); }
};

struct HeadReply {
  store::ObjectInfo info;
  uint64_t offset = 0, length = 0;
  bool partial = false;
};

struct PutRequest {
  std::string bucket, key;
  std::vector<std::pair<std::string, std::string>> headers;  // ObjectInfo::headers' rule
  store::Tags tags{};
  store::ObjectLock lock{};
  EncryptionWish encryption{};
  store::CommitConditions conditions;
  std::vector<store::Checksum> expected;   // verified before anything becomes visible
  std::optional<std::string> content_md5;  // 16 raw bytes
  AclWish acl{};                           // x-amz-acl, x-amz-grant-*
  std::optional<Algorithm> compute;        // compute and store this one even if the client sent none
  // Called when the source has ended, for checksums that arrive as trailers. May be null.
  std::function<Result<std::vector<store::Checksum>>()> trailing;
  bool md5_etag = true;  // false for PUTs by token or native door: the ETag then contains a '-'
  // Append: the bytes go to the end of the object; with `offset` only if that is its size.
  struct Append {
    std::optional<uint64_t> offset{};
  };
  std::optional<Append> append{};
  std::vector<Algorithm> continues{};  // of an append: algorithms whose checksum the object may have
  void clear();
};
struct PutReply {
  store::ObjectInfo info;
  uint64_t received = 0;  // received bytes; for an append less than the object's size
};
Task<Result<PutReply>> put_object(Service& service, const Call& caller, PutRequest request, memory::Source& body);

struct RenameObjectRequest {
  std::string bucket, from, to;
  Preconditions source, target;
  std::string token{};  // the client's token for repeated requests; empty: none
  store::Wanted wanted{};
  void clear();
};
// Within a directory bucket. precondition_failed has the condition's name as context.
Task<Result<void>> rename_object(Service& service, const Call& caller, RenameObjectRequest request);

struct UploadPartRequest {
  PutRequest put;
  std::string upload_id;
  int part_number = 0;
};
inline constexpr const char* bad_part_number = "Part number must be an integer between 1 and 10000, inclusive.";
Task<Result<PutReply>> upload_part(Service& service, const Call& caller, UploadPartRequest request,
                                   memory::Source& body);

// In a versioned bucket without a version id: makes a delete marker.
Task<Result<store::Removed>> delete_object(Service& service, const Call& caller, const std::string& bucket,
                                           const std::string& key, store::RemoveRequest request);

inline constexpr const char* bad_max_keys = "Argument max-keys must be an integer between 0 and 2147483647.";
Task<Result<store::ListPage>> list_objects(Service& service, const Call& caller, const std::string& bucket,
                                           store::ListRequest request);

// `object_lock`: with versioning and object lock from the start. `location`: the region or zone that the request names.
// Returns which bucket of that name was made.
Task<Result<store::BucketMade>> create_bucket(Service& service, const Call& caller, const std::string& bucket,
                                              store::Durability durability, bool object_lock = false,
                                              std::string_view location = {});
Task<Result<store::BucketInfo>> head_bucket(Service& service, const Call& caller, const std::string& bucket);
Task<Result<void>> delete_bucket(Service& service, const Call& caller, const std::string& bucket);
// A page of the caller's buckets of one kind, by name: those after `after` that begin with `prefix`.
struct ListBucketsRequest {
  std::string prefix{}, after{};
  size_t max = 0;
  bool directory = false;
};
struct BucketPage {
  std::vector<store::BucketInfo> buckets;
  bool truncated = false;
};
Task<Result<BucketPage>> list_buckets(Service& service, const Call& caller, ListBucketsRequest request);

}  // namespace verbena::s3
