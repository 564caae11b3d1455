// The way to an object's bytes: one for every door, from memory at once or from wherever they are.
#pragma once

#include <memory>
#include <optional>

#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;

// Opens one object for one request: names, the bucket's record of access, look-up, authorization, seal, conditions,
// range, in this order. Arguments outlive it.
class Opening {
 public:
  // `found`: what another one found for the same request (found()); null: nothing.
  Opening(Service& service, const Call& caller, const GetRequest& request,
          std::shared_ptr<store::ObjectReader> found = nullptr)
      : service_(service), caller_(caller), request_(request), reader_(std::move(found)) {}

  // When the object lies in memory and nothing has to be waited for; nothing otherwise, and then wait() is the next
  // call. The reader that it gives answers peek() for every byte.
  std::optional<Result<OpenObject>> now();
  // Whatever it takes; what now() has found is not looked up again. Errors: no_such_bucket, no_such_key,
  // precondition_failed, not_modified, invalid_range, access_denied, ...
  Task<Result<OpenObject>> wait();
  // What now() has found where it did not end in an object.
  const std::shared_ptr<store::ObjectReader>& found() const { return reader_; }
  // Of the object whose conditions or range refused the request: valid as long as this. nullptr: it did not come to it.
  const store::ObjectInfo* refused() const { return refused_ ? &reader_->info() : nullptr; }

 private:
  Result<OpenObject> select(const BucketAccess& access);

  Service& service_;
  const Call& caller_;
  const GetRequest& request_;
  std::shared_ptr<store::ObjectReader> reader_;
  bool refused_ = false;
};

// Opening::wait() in one call.
Task<Result<OpenObject>> open_object(Service& service, const Call& caller, const GetRequest& request);

// What HEAD tells. `refused` (may be null) gets what Opening::refused() would.
Task<Result<HeadReply>> head_object(Service& service, const Call& caller, const GetRequest& request,
                                    std::optional<store::ObjectInfo>* refused = nullptr);

}  // namespace verbena::s3
