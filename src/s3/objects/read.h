// A read of one object, for every door: of GET, HEAD and the source of a copy, whether it is in memory or not.
#pragma once

#include <memory>
#include <optional>

#include "s3/objects/range.h"
#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;

// Checks of one read, in this order: names, the bucket's access record, look-up, authorization, encryption, conditions,
// range. A look never waits and may run again. If it lacks something it names it, and finish() fetches that and looks
// again. On the fast path the first look answers. The arguments must outlive it.
class ObjectRead {
 public:
  enum class Of : uint8_t { bytes, head };  // head: the properties only, without a reader
  enum class Step : uint8_t {
    answer,        // take(), or info() and extent(), return it
    refusal,       // error() returns it
    needs_bucket,  // the bucket's access record is not cached
    needs_object,  // the object is not in memory, or the request names a version
    needs_key,     // its bytes are encrypted
  };

  // `found`: the object that an earlier look of the same request found in memory, if any.
  ObjectRead(Service& service, const Call& call, const GetRequest& request, Of of, FoundObject found = {});

  // If the first look answers, the reader's peek() has every byte.
  Step look();
  // Fetches what the look needed and looks again, until there is an answer or a refusal. Errors: no_such_bucket,
  // no_such_key, precondition_failed, not_modified, invalid_range, access_denied, ...
  Task<Step> finish(Step looked);

  const Error& error() const { return *error_; }
  // The object, if the request was refused for a condition or range; else null.
  const store::ObjectInfo* refused() const { return refused_ ? seen() : nullptr; }
  // After an answer.
  const store::ObjectInfo& info() const { return *seen(); }
  const Extent& extent() const { return extent_; }
  OpenObject take();  // for a read of bytes; call once

  // The object that a look without an answer found in memory; null: none.
  FoundObject found() const { return {reader_, found_by_}; }

 private:
  Step refuse(Error error);
  Step judge(const BucketAccess& access);
  Task<void> fetch_bucket();
  Task<void> fetch_object();
  const store::ObjectInfo* seen() const { return reader_ ? &reader_->info() : info_ ? &*info_ : nullptr; }

  Service& service_;
  const Call& call_;
  const GetRequest& request_;
  const Of of_;
  std::shared_ptr<const BucketAccess> access_{};  // fetched; null: the cached one, if any. Never older than the object
  std::shared_ptr<store::ObjectReader> reader_;
  AccessGeneration::Mark found_by_{};        // of the record that the last look for an object had
  std::optional<store::ObjectInfo> info_{};  // for a HEAD of an object that is not in memory
  std::shared_ptr<ByteCharge> charge_{};
  Extent extent_{};
  std::optional<Error> error_{};
  bool looked_in_memory_ = false;
  bool may_decrypt_ = false, decrypted_ = false;
  bool refused_ = false;
};

// Whether an object's bytes are sent as they are in memory, that is, it has no attributes (encryption, ACL).
bool is_sent_as_it_lies(const store::ObjectInfo& info);

// A complete ObjectRead.
Task<Result<OpenObject>> open_object(Service& service, const Call& call, const GetRequest& request);
Task<Result<HeadReply>> head_object(Service& service, const Call& call, const GetRequest& request);

}  // namespace verbena::s3
