// What quotas say to a request: whether it may come now, and whether there is room for what it stores.
//
// Limits of a caller (a user, its account) count his requests and their bytes; limits of a bucket those of everybody.
// What is kept is the bucket's and its owner's, whoever brings it. The server's own root key is never held up, but it
// stores no more than others may.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

inline constexpr std::string_view quota_document = "quota";  // of a bucket; it is on disk

// Limits of buckets by their documents: one object for all threads for as long as the document says the same, so that
// nobody's change of a bucket forgets what was taken. As many as there are buckets with a quota.
class BucketLimits {
 public:
  // `text`: null for a bucket without one. corrupt_object.
  Result<auth::LimitsPtr> of(const std::string& bucket, int64_t created_us, const store::Document& text);

 private:
  struct Entry {
    int64_t created_us = 0;
    auth::LimitsPtr limits;
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

// Room that a request has set aside, until what it stores is counted (or is not stored). What is stored is counted
// before the room is given back, so two requests never get the same.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  // quota_exceeded. Costs nothing where neither bucket nor owner has a quota.
  static Result<Reservation> make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects);
  // The same for what goes on without: nothing is counted as refused.
  static Result<Reservation> try_make(Service& service, const BucketAccess& access, uint64_t bytes, uint64_t objects);
  Result<void> grow(uint64_t bytes);  // for bodies whose length nobody has declared

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

// Room for the delete marker that a removal in a versioned bucket may make. Removing is never refused, so there is an
// answer where there is no room, too: such a removal must not make a marker that hides nothing.
struct MarkerRoom {
  bool may_add = true;  // store::RemoveRequest::may_add_marker
  Reservation held{};   // until the removal is counted
};
Task<Result<MarkerRoom>> reserve_marker(Service& service, const BucketAccess& access);
void count_marker_refusal();  // a removal that would have made one without room

// Of an append, which makes an object only where there is none.
Task<Result<Reservation>> reserve_append(Service& service, const BucketAccess& access, const std::string& key,
                                         uint64_t bytes);

// Before anything is done: `requests` of the caller on the bucket (empty: on none). slow_down, and how long to wait.
// Only to be asked where auth::rates_are_in_use().
Task<Result<void>> admit_requests(Service& service, const Call& caller, const std::string& bucket, uint64_t requests,
                                  uint64_t* wait_ns = nullptr);

// What rates are charged for the bytes of one request. The request is let finish and the next one waits until they are
// paid for, so bytes are charged when their transfer begins. In the end the charge is what was moved: more is charged
// as it moves, less is given back by the destructor. On the thread of its request.
class ByteCharge {
 public:
  ByteCharge(const Call& caller, const BucketAccess& access);
  ~ByteCharge();
  ByteCharge(const ByteCharge&) = delete;

  // Null where no rate limits the caller or the bucket: nothing is charged then.
  static std::shared_ptr<ByteCharge> make(const Call& caller, const BucketAccess& access) {
    return auth::rates_are_in_use() ? make_where_limited(caller, access) : nullptr;
  }

  void begin(uint64_t bytes);  // so many are about to move
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
