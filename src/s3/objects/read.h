// A read of one object: one way for every door, for GET, HEAD and the source of a copy, in memory or not.
#pragma once

#include <memory>
#include <optional>

#include "s3/objects/range.h"
#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;

// Names, the bucket's record of access, look-up, authorization, encryption, conditions and range of one read, in this
// order. A look never waits and may run again; what it lacks it names, and finish() fetches that and looks again. So
// the fast way is that the first look answered. Arguments outlive it.
class ObjectRead {
 public:
  enum class Of : uint8_t { bytes, head };  // head: what HEAD needs, which is no reader
  enum class Step : uint8_t {
    answer,        // take() or info() and extent() have it
    refusal,       // error() has it
    needs_bucket,  // the bucket's record of access is not at hand
    needs_object,  // the object is not in memory, or a version is named
    needs_key,     // its bytes are encrypted
  };

  // `found`: what an earlier look at the same request found in memory, if anything.
  ObjectRead(Service& service, const Call& call, const GetRequest& request, Of of, FoundObject found = {});

  // After an answer of the first look, the reader answers peek() for every byte.
  Step look();
  // Goes on from what a look needed, until there is an answer or a refusal. Errors: no_such_bucket, no_such_key,
  // precondition_failed, not_modified, invalid_range, access_denied, ...
  Task<Step> finish(Step looked);

  const Error& error() const { return *error_; }
  // The object whose conditions or range refused the request; null: it did not come to that.
  const store::ObjectInfo* refused() const { return refused_ ? seen() : nullptr; }
  // Of an answer.
  const store::ObjectInfo& info() const { return *seen(); }
  const Extent& extent() const { return extent_; }
  OpenObject take();  // of a read of bytes; once

  // What a look that was no answer has found in memory; null: nothing.
  const std::shared_ptr<store::ObjectReader>& found() const { return reader_; }

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
  std::shared_ptr<const BucketAccess> access_{};  // fetched; null: the one at hand, if any. Never older than the object
  std::shared_ptr<store::ObjectReader> reader_;
  std::optional<store::ObjectInfo> info_{};  // of a HEAD whose object is not in memory
  std::shared_ptr<ByteCharge> charge_{};
  Extent extent_{};
  std::optional<Error> error_{};
  bool looked_in_memory_ = false;
  bool may_decrypt_ = false, decrypted_ = false;
  bool refused_ = false;
};

// Whether an object's bytes are sent as they lie in memory: encryption and access control lists are attributes.
bool is_sent_as_it_lies(const store::ObjectInfo& info);

// An ObjectRead from beginning to end.
Task<Result<OpenObject>> open_object(Service& service, const Call& call, const GetRequest& request);
Task<Result<HeadReply>> head_object(Service& service, const Call& call, const GetRequest& request);

}  // namespace verbena::s3
