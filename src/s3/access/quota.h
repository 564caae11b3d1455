// Quotas: admission of requests by rates, and reservation of room for what they store.
//
// Rates of a user or account count its own requests and bytes; rates of a bucket count those of all callers. Stored
// bytes count for the bucket and its owner, whichever caller stores them. The server's root key is exempt from rates,
// but not from limits of storage.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

inline constexpr std::string_view quota_document = "quota";  // of a bucket; the name is stored on disk

// Limits of buckets by their documents. All threads share one object as long as the document is the same, so that a
// change of another document of the bucket does not reset the rates. One entry per bucket with a quota. A reading of
// the documents has the generation from before it; what an older one says changes nothing.
class BucketLimits {
 public:
  // `text`: null for a bucket without one. corrupt_object.
  Result<auth::LimitsPtr> of(const std::string& bucket, int64_t created_us, const store::Document& text,
                             uint64_t generation);
  // The bucket is gone, or has no quota. Threads may keep records from before: their limits count no longer.
  void forget(const std::string& bucket, uint64_t generation);

 private:
  struct Entry {
    uint64_t generation = 0;
    int64_t created_us = 0;
    auth::LimitsPtr limits;
    auth::LimitsPtr counted;  // of the same quota: rates are asked for while it is here (auth::rates_are_in_use)
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

// Room reserved by a request until its object is counted (or not stored). The object is counted before the room is
// released, so two requests never get the same room.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  // quota_exceeded. Costs nothing where neither bucket nor owner has a quota.
  static Result<Reservation> make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects);
  // The same for callers that continue without it: a failure is not counted as a refusal.
  static Result<Reservation> try_make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects);
  Result<void> grow(uint64_t bytes);  // for bodies without a declared length

 private:
  static Result<Reservation> make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects,
                                  bool optional);
  Result<void> add(uint64_t bytes, uint64_t objects, bool optional);
  void release();

  store::Store* store_ = nullptr;
  std::string bucket_;
  auth::LimitsPtr of_bucket_, of_owner_;
  uint64_t bytes_ = 0, objects_ = 0;
};

// Room for the delete marker that a removal in a versioned bucket may make. Removals of objects are never refused, so
// this succeeds without room too: such a removal must not make a marker that hides nothing.
struct MarkerRoom {
  bool may_add = true;  // store::RemoveRequest::may_add_marker
  Reservation held{};   // until the removal is counted
};
Task<Result<MarkerRoom>> reserve_marker(Service& service, const BucketAccess& access);
void count_marker_refusal();  // for a removal that needed a marker and had no room for it

// For an append, which makes an object only if there is none. Where there is room for the bytes alone, an object must
// be there: then, and when the bytes are committed.
struct AppendRoom {
  bool may_make_object = true;  // store::CommitConditions::may_make_object
  Reservation held{};
};
Task<Result<AppendRoom>> reserve_append(Service& service, const BucketAccess& access, const std::string& key,
                                        uint64_t bytes);

// A number of requests on a bucket; an empty name: on none.
using BucketRequests = std::pair<std::string, uint64_t>;

struct RateRefusal {
  uint64_t wait_ns = 0;
  std::string bucket;  // of the requests that were refused
};

// Charges the caller's requests before anything is done: all of them, or with slow_down none. Call only if
// auth::rates_are_in_use().
Task<Result<void>> admit_requests(Service& service, const Call& caller, std::span<const BucketRequests> asked,
                                  RateRefusal& refusal);

// The charge for one request's bytes. The request itself finishes, and later ones wait until its bytes are paid off, so
// bytes are charged when their transfer begins. Finally the charge is what was moved: more is charged as it moves, less
// is returned by the destructor. Used on the thread of its request.
class ByteCharge {
 public:
  ByteCharge(const Call& caller, const BucketAccess& access);
  ~ByteCharge();
  ByteCharge(const ByteCharge&) = delete;

  // Null if no rate limits the caller or the bucket: nothing is charged then.
  static std::shared_ptr<ByteCharge> make(const Call& caller, const BucketAccess& access) {
    return auth::rates_are_in_use() ? make_where_limited(caller, access) : nullptr;
  }

  void begin(uint64_t bytes);  // this many bytes are about to move
  void moved(uint64_t bytes);

 private:
  static std::shared_ptr<ByteCharge> make_where_limited(const Call& caller, const BucketAccess& access);
  void charge(uint64_t bytes);

  struct Charged {
    auth::LimitsPtr limits;
    int64_t paid_ns = 0;
  };
  std::array<Charged, 3> all_;  // the caller's, its account's, the bucket's
  uint64_t charged_ = 0, moved_ = 0;
};

}  // namespace verbena::s3
